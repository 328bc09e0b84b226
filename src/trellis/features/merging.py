"""Merge the attributes that feature maps have learned from parts of the data.

Attributes are numbered in the order of their first occurrence. So the merged map of parts in order
equals the map that learns all parts in one pass.

>>> from trellis.features.ready import ReadyFeatures
>>> first, second = ReadyFeatures(), ReadyFeatures()
>>> batches = first.learn([[["a", "b"]]]), second.learn([[["c", "b"]]])
>>> merged = restore(ReadyFeatures(), merge(attributes_of(first), attributes_of(second)))
>>> merged.names()
['a', 'b', 'c']
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.features.arrays import ArrayFeatures
from trellis.features.edges import EdgeFeatures, append_new
from trellis.features.extractor import TemplateFeatures
from trellis.features.ready import ReadyFeatures
from trellis.features.rows import FeatureMap

__all__ = ["Attributes", "attributes_of", "merge", "restore"]

_NONE = 0xFFFFFFFF  # marks an unused element of a key, as in extractor.py
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TemplateAttributes:
    """The learned state of `TemplateFeatures`."""

    values: list[str]
    words: list[str]
    keys: NDArray[np.uint32]
    """(attributes, key size)"""
    edge_keys: NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class NamedAttributes:
    """The learned state of `ReadyFeatures`."""

    names: list[str]


@dataclass(frozen=True, eq=False)
class ColumnAttributes:
    """The learned state of `ArrayFeatures`."""

    columns: int | None
    kept: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class EdgeAttributes:
    """The learned state of `EdgeFeatures`."""

    states: Attributes
    edge_map: Attributes
    source: NDArray[np.int32]
    edge_source: NDArray[np.int32]


Attributes = TemplateAttributes | NamedAttributes | ColumnAttributes | EdgeAttributes


def attributes_of(features: FeatureMap) -> Attributes:
    """Return the learned state of a map."""
    if isinstance(features, TemplateFeatures):
        size = features.key_size
        tensors = features.to_parts()[1]
        return TemplateAttributes(
            features.values,
            features.words,
            tensors["keys"].reshape(-1, size),
            tensors["edge_keys"].reshape(-1, size),
        )
    if isinstance(features, ReadyFeatures):
        return NamedAttributes(features.names())
    if isinstance(features, ArrayFeatures):
        kept = np.zeros(0, np.int32) if features.kept is None else features.kept
        return ColumnAttributes(features.columns, kept)
    if isinstance(features, EdgeFeatures) and features.edge_map is not None:
        return EdgeAttributes(
            attributes_of(features.states), attributes_of(features.edge_map), *features.sources
        )
    raise InputError(f"features of the kind {features.kind!r} cannot be learned from a Corpus")


def merge(first: Attributes, second: Attributes) -> Attributes:
    """Return the attributes of both, those of ``first`` with their numbers."""
    return _merge(first, second)[0]


def restore(prototype: FeatureMap, attributes: Attributes) -> FeatureMap:
    """Return a map with the settings of ``prototype`` and these attributes."""
    if isinstance(attributes, TemplateAttributes) and isinstance(prototype, TemplateFeatures):
        return prototype.with_attributes(
            attributes.values, attributes.words, attributes.keys, attributes.edge_keys
        )
    if isinstance(attributes, NamedAttributes) and isinstance(prototype, ReadyFeatures):
        state = {"make": prototype.make, "strings": {"names": attributes.names}}
        named = ReadyFeatures()
        named.__setstate__(state)
        return named
    if isinstance(attributes, ColumnAttributes):
        columns = ArrayFeatures(attributes.columns)
        columns.kept = attributes.kept
        return columns
    assert isinstance(attributes, EdgeAttributes)
    assert isinstance(prototype, EdgeFeatures)
    edge_prototype = prototype.edge_map
    if edge_prototype is None:  # the first result of the function chooses the kind
        is_named = isinstance(attributes.edge_map, NamedAttributes)
        edge_prototype = ReadyFeatures() if is_named else ArrayFeatures()
    edges = EdgeFeatures(
        restore(prototype.states, attributes.states),
        restore(edge_prototype, attributes.edge_map),
        prototype.make,
    )
    # A single pass numbers the new states before the new attributes of position 0.
    earlier, new = prototype.sources[0], attributes.source
    new = new[~np.isin(new, earlier)]
    source = np.concatenate([earlier, np.sort(new[new >= 0]), new[new < 0]])
    edges.sources = source, attributes.edge_source
    return edges


def _merge(first: Attributes, second: Attributes) -> tuple[Attributes, Numbers]:
    """Return the merged attributes, and their numbers for those of ``second``."""
    if isinstance(first, TemplateAttributes) and isinstance(second, TemplateAttributes):
        return _merge_templates(first, second)
    if isinstance(first, NamedAttributes) and isinstance(second, NamedAttributes):
        names, numbers = _merge_strings(first.names, second.names)
        return NamedAttributes(names), numbers
    if isinstance(first, ColumnAttributes) and isinstance(second, ColumnAttributes):
        return _merge_columns(first, second)
    if isinstance(first, EdgeAttributes) and isinstance(second, EdgeAttributes):
        return _merge_edges(first, second), np.zeros(0, np.int64)
    raise InputError("the sequences of the corpus are of different kinds, such as text and arrays")


def _merge_strings(first: list[str], second: list[str]) -> tuple[list[str], Numbers]:
    number = {text: n for n, text in enumerate(first)}
    for text in second:
        number.setdefault(text, len(number))
    numbers = np.fromiter((number[text] for text in second), np.int64, len(second))
    return list(number), numbers


def _merge_templates(
    first: TemplateAttributes, second: TemplateAttributes
) -> tuple[TemplateAttributes, Numbers]:
    values, value_numbers = _merge_strings(first.values, second.values)
    words, _ = _merge_strings(first.words, second.words)

    def merge_keys(
        keys: NDArray[np.uint32], others: NDArray[np.uint32]
    ) -> tuple[NDArray[np.uint32], Numbers]:
        renumbered = others.copy()
        parts = renumbered[:, 1:]
        is_value = parts != _NONE
        parts[is_value] = value_numbers[parts[is_value]]
        joined = np.concatenate([keys, renumbered])
        rows = np.ascontiguousarray(joined).view(np.dtype((np.void, joined.shape[1] * 4))).ravel()
        _, index, inverse = np.unique(rows, return_index=True, return_inverse=True)
        # np.unique sorts the keys; attributes stay in the order of their first occurrence.
        order = np.argsort(index)
        numbers = np.empty_like(order)
        numbers[order] = np.arange(len(order))
        return joined[index[order]], numbers[inverse.ravel()[len(keys) :]]

    keys, numbers = merge_keys(first.keys, second.keys)
    edge_keys, _ = merge_keys(first.edge_keys, second.edge_keys)
    return TemplateAttributes(values, words, keys, edge_keys), numbers


def _merge_columns(
    first: ColumnAttributes, second: ColumnAttributes
) -> tuple[ColumnAttributes, Numbers]:
    if first.columns != second.columns:
        raise InputError(
            f"the arrays of the corpus have {first.columns} and {second.columns} columns"
        )
    kept = append_new(first.kept, second.kept)
    numbers = np.full(first.columns or 0, -1)
    numbers[kept] = np.arange(len(kept))
    return replace(first, kept=kept), numbers[second.kept]


def _merge_edges(first: EdgeAttributes, second: EdgeAttributes) -> EdgeAttributes:
    states, state_numbers = _merge(first.states, second.states)
    edge_map, edge_numbers = _merge(first.edge_map, second.edge_map)
    source = second.source.astype(np.int64)
    is_state = source >= 0
    renumbered = np.empty_like(source)
    renumbered[is_state] = state_numbers[source[is_state]]
    renumbered[~is_state] = -1 - edge_numbers[-1 - source[~is_state]]
    return EdgeAttributes(
        states,
        edge_map,
        append_new(first.source, renumbered),
        append_new(first.edge_source, edge_numbers[second.edge_source]),
    )
