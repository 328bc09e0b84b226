"""Unknown labels in training files: a label that means "unknown", and alternatives."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from trellis.app.cli.declarations import Option
from trellis.app.cli.options import UnknownLabel
from trellis.errors import InputError

__all__ = ["LabelOptions", "find_known", "replace_labels"]


@dataclass
class LabelOptions:
    """Options for labels that are not certain, and for weights of sequences."""

    unknown: UnknownLabel = None
    alternatives: Annotated[
        str | None,
        Option(
            help="Separator of labels one of which is right: with |, PER|ORG is one of the two.",
            metavar="TEXT",
        ),
    ] = None
    weight: Annotated[
        str | None,
        Option(
            help="Name of the weight of a sequence: of a comment before it such as "
            "# weight = 2.5, or of a key of a JSON object.",
            metavar="NAME",
        ),
    ] = None


def replace_labels(y: list[list[str]], options: LabelOptions, path: Path) -> list[list[Any]]:
    """Return the labels with None for unknown ones, and with a frozenset for alternatives.

    >>> options = LabelOptions(unknown="_", alternatives="|")
    >>> replace_labels([["O", "_", "PER|PER"]], options, Path("a.conll"))
    [['O', None, frozenset({'PER'})]]
    """
    values: dict[str, Any] = {label: label for labels in y for label in labels}
    if options.alternatives:
        for label in values:
            if options.alternatives in label:
                values[label] = frozenset(label.split(options.alternatives))
                if "" in values[label]:
                    raise InputError(f"{path}: label {label!r} has an empty alternative")
    if options.unknown is not None:
        values[options.unknown] = None
    return [[values[label] for label in labels] for labels in y]


def find_known(y: Iterable[Iterable[Any]]) -> set[str]:
    """Return the distinct labels, including the members of alternatives."""
    values = {value for labels in y for value in labels} - {None}
    alternatives = {value for value in values if isinstance(value, frozenset)}
    return (values - alternatives).union(*alternatives)
