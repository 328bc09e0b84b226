"""Build Typer commands from the declarations of options.

Typer prints help texts and usage errors, and parses all command lines that `fast_parser` does not.
Importing every command takes half a second. So a group stores the names of the modules of its
commands, and a module is imported only when its command runs, or for ``--help``.
"""

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import trellis
from trellis.app.cli.declarations import (
    REQUIRED,
    Argument,
    Group,
    Parameter,
    UsageError,
    fill,
    flatten,
)

__all__ = ["build_command", "build_group", "run_typer"]

# Since version 0.26 Typer contains a copy of Click; earlier versions import the package Click.
_UsageError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

_SETTINGS: dict[str, Any] = {
    "rich_markup_mode": "markdown",
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
}


def run_typer(group: Group, arguments: list[str]) -> int:
    """Run a command line and return its exit code. Usage errors are printed, others are raised."""
    try:
        code = build_group(group, _read_common_options)(arguments, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except _UsageError as error:
        error.show()
        return int(error.exit_code)
    except typer.Abort:
        raise KeyboardInterrupt from None


def _print_version(requested: bool) -> None:
    if requested:
        print(f"trellis {trellis.__version__}")
        raise typer.Exit


def _read_common_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def build_command(name: str, module: Any) -> Any:
    """Return the Typer command of a module with ``Options`` and ``run``."""

    def call(**values: Any) -> int | None:
        try:
            options = fill(module.Options, values)
        except UsageError as error:
            raise typer.BadParameter(str(error)) from None
        code: int | None = module.run(options)
        return code

    parameters = [_make_typer_parameter(parameter) for parameter in flatten(module.Options)]
    # Typer reads the signature and the annotations of a function, not its code.
    call.__dict__["__signature__"] = inspect.Signature(parameters)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__doc__ = module.run.__doc__
    app = typer.Typer(**_SETTINGS)
    app.command(name)(call)
    return typer.main.get_command(app)


def build_group(group: Group, callback: Any = None) -> Any:
    """Return the Typer command of a group. ``callback`` declares the options before the command."""

    class LazyGroup(TyperGroup):
        """A group that imports a command when it is looked up by name."""

        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = _LazyCommands(group)

        def list_commands(self, ctx: Any) -> list[str]:
            return list(group.commands)

    app = typer.Typer(
        name=group.name, help=group.help, cls=LazyGroup, no_args_is_help=True, **_SETTINGS
    )
    app.callback()(callback or (lambda: None))
    return typer.main.get_command(app)


class _LazyCommands(dict[str, Any]):
    """The commands of a group by name; each command is built when it is first looked up."""

    def __init__(self, group: Group) -> None:
        # All names are keys from the beginning: Typer reads them for "Did you mean …?".
        super().__init__(dict.fromkeys(group.commands))
        self._sources: Mapping[str, str | Group] = group.commands

    def __getitem__(self, name: str) -> Any:
        command = super().__getitem__(name)
        if command is None:
            source = self._sources[name]
            if isinstance(source, Group):
                command = build_group(source)
            else:
                command = build_command(name, import_module(source))
            self[name] = command
        return command

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


def _make_typer_parameter(parameter: Parameter) -> inspect.Parameter:
    declaration = parameter.declaration
    if isinstance(declaration, Argument):
        info = typer.Argument(help=declaration.help, metavar=declaration.metavar)
    else:
        info = typer.Option(
            *declaration.names,
            help=declaration.help,
            metavar=declaration.metavar,
            min=declaration.min,
            max=declaration.max,
            rich_help_panel=declaration.panel,
        )
    default = inspect.Parameter.empty if parameter.default is REQUIRED else parameter.default
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[parameter.type, info],
    )
