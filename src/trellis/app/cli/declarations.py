"""How a command declares its options: once, as annotated fields of a dataclass.

A command is a module with two names: ``Options``, a dataclass whose fields are the arguments and
options, and ``run(options)``, whose docstring is the help text:

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
    """The options are wrong in a way that their types cannot tell; raised by ``__post_init__``."""


class Option:
    """An option. Without names it has the name of the field, with dashes.

    ``panel`` is the title of the box in which ``--help`` lists it, None for the common box.
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
    """A positional argument; one whose type is a list takes all that are left."""

    help: str
    metavar: str


class Parameter(NamedTuple):
    """A field of a dataclass of options."""

    name: str
    type: Any
    """``int``, ``str | None``, ``list[Path]``, …"""
    default: Any
    """`REQUIRED` if there is none."""
    declaration: Option | Argument

    @property
    def flags(self) -> tuple[str, ...]:
        """The names on the command line; empty for an argument."""
        if isinstance(self.declaration, Argument):
            return ()
        return self.declaration.names or (f"--{self.name.replace('_', '-')}",)


class Group(NamedTuple):
    """Commands under one name."""

    name: str
    help: str
    commands: "dict[str, str | Group]"
    """The module of each command by its dotted path, or a group inside this one."""


def flatten(options: Any) -> Iterator[Parameter]:
    """Yield the fields of a dataclass of options, and of the groups in its fields."""
    hints = get_type_hints(options, include_extras=True)
    for field in _user_fields(options):
        annotation = hints[field.name]
        if dataclasses.is_dataclass(annotation):
            yield from flatten(annotation)
        else:
            base, declaration = annotation.__origin__, annotation.__metadata__[0]
            yield Parameter(field.name, base, field.default, declaration)


def fill(options: Any, values: Mapping[str, Any]) -> Any:
    """Return an instance of a dataclass of options, with its groups, from values by name."""
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
    """Return the fields that the user sets; others are computed in ``__post_init__``."""
    return [field for field in dataclasses.fields(options) if field.init]
