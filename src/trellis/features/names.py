"""From names of attributes back to what templates read: ``U05:New/York`` was ``New``, ``York``.

Programs that know an attribute by its name do not say where one value ends and the next begins. A
name that can be cut in several ways becomes as many attributes; at any position the values there
make one of them at most, so that the sum of weights stays that of the name.

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

__all__ = ["Some", "cut", "from_names"]

_MOST_CUTS = 256

Packed: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]
Some: TypeAlias = Sequence[str] | tuple[Packed, NDArray[np.int64]]
"""Names, or names as (data, begin, size) in UTF-8 and the numbers of those that are meant."""


def from_names(
    spec: Spec, names: Some, edge_names: Some
) -> tuple[TemplateFeatures, NDArray[np.int64], NDArray[np.int64]]:
    """Features that know these names; and for each of their attributes which name it has.

    >>> from trellis.features import templates
    >>> spec = templates.parse("U05:%x[-1,0]/%x[0,0]")
    >>> features, name, _ = from_names(spec, ["U05:New/York", "U05:1/2/3"], [])
    >>> features.find([["New", "York"], ["1/2", "3"]]).rows.id.tolist()
    [0, 2]
    >>> name.tolist()
    [0, 1, 1]
    """
    features = TemplateFeatures(spec)
    sources = []
    for own, edge in ((names, False), (edge_names, True)):
        packed, which = own if isinstance(own, tuple) else _packed(own)
        sources.append(features.add_names(packed, which, edge))
    return features, sources[0], sources[1]


def _packed(names: Sequence[str]) -> tuple[Packed, NDArray[np.int64]]:
    encoded = [name.encode() for name in names]
    size = np.array(list(map(len, encoded)), np.int64)
    data = np.frombuffer(b"".join(encoded), np.uint8)
    return (data, np.cumsum(size) - size, size), np.arange(len(size))


def cut(name: str, literals: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All ways to read a name as literals[0] + value + literals[1] + … + value + literals[n].

    The equation itself; what is fast is in cpp/core/features/name_parser.hpp.
    """
    head, *rest = literals
    if not name.startswith(head):
        return []
    found: list[tuple[str, ...]] = []
    for parts in _cuts(name, len(head), rest):
        found.append(parts)
        if len(found) > _MOST_CUTS:
            raise InputError(f"{name!r} can be read in more than {_MOST_CUTS} ways")
    return found


def _cuts(name: str, begin: int, literals: list[str]) -> Iterator[tuple[str, ...]]:
    if not literals:
        if begin == len(name):
            yield ()
        return
    if len(literals) == 1:
        end = len(name) - len(literals[0])
        if end >= begin and name.endswith(literals[0]):
            yield (name[begin:end],)
        return
    at = name.find(literals[0], begin)
    while at >= 0:
        for rest in _cuts(name, at + len(literals[0]), literals[1:]):
            yield (name[begin:at], *rest)
        at = name.find(literals[0], at + 1)
