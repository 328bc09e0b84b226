"""Split the names of attributes into their values: ``U05:New/York`` into ``New`` and ``York``.

Other programs store only the name, which does not show where a value ends and the next one starts.
A name that can be split in several ways becomes several attributes. At most one of them occurs at a
position, so the sum of weights at the position does not change.

>>> cut("U05:a/b/c", ("U05:", "/", ""))
[('a', 'b/c'), ('a/b', 'c')]
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.features.extractor import TemplateFeatures
from trellis.features.spec import Spec

__all__ = ["NamesLike", "cut", "from_names"]

_MAX_CUTS = 256  # each split becomes an attribute: without a limit, a file could exhaust the memory

Packed: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]
NamesLike: TypeAlias = Sequence[str] | tuple[Packed, NDArray[np.int64]]
"""A list of names; or a pair of names as (data, begin, size) in UTF-8 and the indices to use."""


def from_names(
    spec: Spec, names: NamesLike, edge_names: NamesLike
) -> tuple[TemplateFeatures, NDArray[np.int64], NDArray[np.int64]]:
    """Return features with these names, and the name index of each attribute and edge attribute.

    The indices are needed because a name can have several attributes.

    >>> from trellis.features import templates
    >>> spec = templates.parse("U05:%x[-1,0]/%x[0,0]")
    >>> features, name, _ = from_names(spec, ["U05:New/York", "U05:1/2/3"], [])
    >>> features.find([["New", "York"], ["1/2", "3"]]).rows.id.tolist()
    [0, 2]
    >>> name.tolist()
    [0, 1, 1]
    """
    features = TemplateFeatures(spec)
    source_indices = []
    for group, edge in ((names, False), (edge_names, True)):
        packed_names, name_indices = group if isinstance(group, tuple) else _pack_names(group)
        source_indices.append(features.add_names(packed_names, name_indices, edge))
    return features, source_indices[0], source_indices[1]


def _pack_names(names: Sequence[str]) -> tuple[Packed, NDArray[np.int64]]:
    encoded = [name.encode() for name in names]
    size = np.array(list(map(len, encoded)), np.int64)
    data = np.frombuffer(b"".join(encoded), np.uint8)
    return (data, np.cumsum(size) - size, size), np.arange(len(size))


def cut(name: str, literals: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return all (value, …) with name = literals[0] + value + literals[1] + … + literals[n].

    This function is the reference for the fast version in cpp/core/features/name_parser.hpp.
    """
    first_literal, *other_literals = literals
    if not name.startswith(first_literal):
        return []
    splits: list[tuple[str, ...]] = []
    for values in _find_splits(name, len(first_literal), other_literals):
        splits.append(values)
        if len(splits) > _MAX_CUTS:
            raise InputError(
                f"attribute {name!r} can be split into values in more than {_MAX_CUTS} ways"
            )
    return splits


def _find_splits(name: str, begin: int, literals: list[str]) -> Iterator[tuple[str, ...]]:
    if not literals:
        if begin == len(name):
            yield ()
        return
    if len(literals) == 1:
        end = len(name) - len(literals[0])
        if end >= begin and name.endswith(literals[0]):
            yield (name[begin:end],)
        return
    end = name.find(literals[0], begin)
    while end >= 0:
        for values in _find_splits(name, end + len(literals[0]), literals[1:]):
            yield (name[begin:end], *values)
        end = name.find(literals[0], end + 1)
