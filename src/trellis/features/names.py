"""From names of attributes back to what templates read: ``U05:New/York`` was ``New``, ``York``.

Programs that know an attribute by its name do not say where one value ends and the next begins. A
name that can be cut in several ways becomes as many attributes; at any position the values there
make one of them at most, so that the sum of weights stays that of the name.

>>> cut("U05:a/b/c", ("U05:", "/", ""))
[('a', 'b/c'), ('a/b', 'c')]
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.features.extractor import TemplateFeatures
from trellis.features.spec import Spec

__all__ = ["cut", "from_names"]

_MOST_CUTS = 256
_SPARE = 1 << 16  # readings beyond two for each name
_NONE = 0xFFFFFFFF


def from_names(
    spec: Spec, names: Sequence[str], edge_names: Sequence[str]
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
    values = {value: n for n, value in enumerate(features.values)}
    keys, sources = [], []
    for own, edge in ((names, False), (edge_names, True)):
        literals = dict.fromkeys(t.literals for t in spec.templates if t.edge == edge)
        made, source = _keys(own, list(literals), features, values)
        keys.append(made)
        sources.append(source)
    strings = {"values": list(values), "words": []}
    parts = {"keys": keys[0], "edge_keys": keys[1]}
    features = TemplateFeatures.from_parts({"spec": spec.to_json()}, parts, strings.__getitem__)
    return features, sources[0], sources[1]


def _keys(
    names: Iterable[str],
    literals: list[tuple[str, ...]],
    features: TemplateFeatures,
    values: dict[str, int],
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """(attributes, literals and values) flattened, and the number of each one's name."""
    by_head: dict[str, list[tuple[str, ...]]] = {}
    for own in literals:
        by_head.setdefault(own[0], []).append(own)
    lengths = sorted({len(head) for head in by_head})
    number = {own: n for n, own in enumerate(features.literals)}
    room = features.key_size
    flat, source = array("I"), array("q")  # lists would take four times as much
    for i, name in enumerate(names):
        found = 0
        for head in (name[:n] for n in lengths if n <= len(name)):
            for own in by_head.get(head, ()):
                for parts in cut(name, own):
                    key = [number[own], *(values.setdefault(p, len(values)) for p in parts)]
                    flat.extend(key + [_NONE] * (room - len(key)))
                    source.append(i)
                    found += 1
        if len(source) > 2 * (i + 1) + _SPARE:
            raise InputError(f"too many names, up to {name!r}, can be read in several ways")
        if not found:
            raise InputError(f"{name!r} is of none of the {len(literals)} templates")
    return np.array(flat, dtype=np.uint32), np.array(source, dtype=np.int64)


def cut(name: str, literals: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All ways to read a name as literals[0] + value + literals[1] + … + value + literals[n]."""
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
