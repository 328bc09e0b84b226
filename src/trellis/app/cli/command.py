"""Typer commands from dataclasses, and a group that imports a command when it runs.

A command is a module with two names: ``Options``, a dataclass whose fields are the arguments and
options, and ``run(options)``, whose docstring is the help text. A field declares an option once:

    @dataclass
    class Options:
        model: ModelFile
        top: Annotated[int, typer.Option(help="Number of features per label.", min=0)] = 10
        data: DataOptions = field(default_factory=DataOptions)  # a group: its fields are options

Importing every command takes half a second. So a group knows its commands by the name of their
module, and only the command that runs, or ``--help``, imports one.
"""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, get_type_hints

import typer
from typer.core import TyperGroup

__all__ = ["Group", "build_command", "build_group"]

_SETTINGS: dict[str, Any] = {
    "rich_markup_mode": "markdown",
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
}


class Group(NamedTuple):
    """Commands under one name."""

    name: str
    help: str
    commands: "dict[str, str | Group]"
    """The module of each command, or a group inside this one."""


def build_command(name: str, module: Any) -> Any:
    """Return the Typer command of a module with ``Options`` and ``run``."""

    def call(**values: Any) -> None:
        module.run(_fill(module.Options, values))

    parameters = list(_parameters(module.Options))
    # Typer reads the signature and the annotations of a function, not its code.
    call.__dict__["__signature__"] = inspect.Signature(parameters)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__doc__ = module.run.__doc__
    app = typer.Typer(**_SETTINGS)
    app.command(name)(call)
    return typer.main.get_command(app)


def build_group(group: Group, callback: Any = None) -> Any:
    """Return the Typer command of a group; ``callback`` has the options before the command."""

    class LazyGroup(TyperGroup):
        """Looks its commands up by name and imports them one by one."""

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
    """The commands of a group by name: all names are present, each command is built once."""

    def __init__(self, group: Group) -> None:
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


def _parameters(options: Any) -> Iterator[inspect.Parameter]:
    """Yield a parameter for each field of a dataclass, and of the dataclasses in its fields."""
    hints = get_type_hints(options, include_extras=True)
    for field in dataclasses.fields(options):
        annotation = hints[field.name]
        if dataclasses.is_dataclass(annotation):
            yield from _parameters(annotation)
            continue
        default = field.default
        if default is dataclasses.MISSING:
            default = inspect.Parameter.empty
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )


def _fill(options: Any, values: Mapping[str, Any]) -> Any:
    """Return an instance of a dataclass, with the dataclasses in its fields, from flat values."""
    hints = get_type_hints(options)
    return options(
        **{
            field.name: _fill(hints[field.name], values)
            if dataclasses.is_dataclass(hints[field.name])
            else values[field.name]
            for field in dataclasses.fields(options)
        }
    )
