"""Declarations of the options of a command: annotated fields of a dataclass.

A command is a module with two names: ``Options``, a dataclass whose fields are the arguments and
options, and ``run(options)``, whose docstring is the help text. ``run`` may return an exit code;
None means success. An example of ``Options``:

    @dataclass
    class Options:
        model: Annotated[Path, Argument(help="Model file.", metavar="MODEL")]
        top: Annotated[int, Option(help="Number of features per label.", min=0)] = 10
        reading: DataOptions = field(default_factory=DataOptions)  # a group of more options

`fast_parser` and `typer_commands` read these declarations. They are not Typer's own, because
importing Typer takes 0.1 s, and most commands are parsed without it.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_type_hints

__all__ = ["REQUIRED", "Argument", "Group", "Option", "Parameter", "UsageError", "fill", "flatten"]

REQUIRED = dataclasses.MISSING


class UsageError(Exception):
    """An option has the right type but a wrong value; raised by ``__post_init__``."""


class Option:
    """An option. Without ``names``, its name is that of the field, with dashes.

    ``panel`` is the title of the box in which ``--help`` lists the option. None is the usual box.
    """

    def __init__(
        self,
        *names: str,
        help: str,
        metavar: str | None = None,
        min: float | None = None,
        max: float | None = None,
        panel: str | None = None,
    ) -> None:
        self.names, self.help, self.metavar = names, help, metavar
        self.min, self.max = min, max
        self.panel = panel


@dataclasses.dataclass(frozen=True, kw_only=True)
class Argument:
    """A positional argument. If its type is a list, it takes all remaining words."""

    help: str
    metavar: str


class Parameter(NamedTuple):
    """A field of a dataclass of options."""

    name: str
    type: Any
    """``int``, ``str | None``, ``list[Path]``, …"""
    default: Any
    """The default value; `REQUIRED` if the parameter has none."""
    declaration: Option | Argument

    @property
    def flags(self) -> tuple[str, ...]:
        """The names on the command line; empty for an argument."""
        if isinstance(self.declaration, Argument):
            return ()
        return self.declaration.names or (f"--{self.name.replace('_', '-')}",)


class Group(NamedTuple):
    """A command with subcommands, such as ``trellis ctc``."""

    name: str
    help: str
    commands: "dict[str, str | Group]"
    """By name: the dotted path of the command's module, or a nested group."""


def flatten(options: Any) -> Iterator[Parameter]:
    """Yield the parameters of a dataclass of options, including those of nested dataclasses."""
    hints = get_type_hints(options, include_extras=True)
    for field in _user_fields(options):
        annotation = hints[field.name]
        if dataclasses.is_dataclass(annotation):
            yield from flatten(annotation)
        else:
            base, declaration = annotation.__origin__, annotation.__metadata__[0]
            yield Parameter(field.name, base, field.default, declaration)


def fill(options: Any, values: Mapping[str, Any]) -> Any:
    """Return an instance of a dataclass of options, with its nested dataclasses.

    ``values`` has the value of each field by the name of the field.
    """
    hints = get_type_hints(options)
    return options(
        **{
            field.name: fill(hints[field.name], values)
            if dataclasses.is_dataclass(hints[field.name])
            else values[field.name]
            for field in _user_fields(options)
        }
    )


def _user_fields(options: Any) -> list[Any]:
    """Return the fields that the user sets. ``__post_init__`` computes the other fields."""
    return [field for field in dataclasses.fields(options) if field.init]
