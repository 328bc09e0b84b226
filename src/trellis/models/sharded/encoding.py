"""Pass 2 over a corpus: the features and the labels of each shard as numbers, on disk.

From these arrays come the pairs that get a weight, and later the objective of the shard.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.data.shards.corpus import Shard
from trellis.engines.storage import Arrays, Placed, Shared
from trellis.features.rows import FeatureBatch, SparseRows
from trellis.features.vectorizer import FeatureMap
from trellis.models.chain.checkpoint import fingerprint
from trellis.models.chain.labels import (
    Constraints,
    EncodedLabels,
    Label,
    constraints_for,
    count_known,
    encode,
)
from trellis.models.chain.weights import (
    WeightLayout,
    WeightRules,
    choose_bigrams,
    count_bigrams,
    every_cell,
    find_bigrams_of_rows,
    find_seen_states,
    seen_threshold,
    to_offsets,
)
from trellis.models.sharded.survey import read_labelled

__all__ = [
    "Cells",
    "Encoder",
    "Part",
    "ShardData",
    "constraint_arrays",
    "count_cells",
    "empty_batch",
    "encode_shard",
    "layout_of",
]


@dataclass(frozen=True)
class Encoder:
    """What turns a shard into numbers."""

    features: FeatureMap
    classes: tuple[Label, ...]
    any_type: bool
    constraints: Any


@dataclass(frozen=True)
class Part:
    """A shard, and the weights of its sequences."""

    shard: Shard
    weight: NDArray[np.float64] | None

    @property
    def name(self) -> str:
        """The name of the shard."""
        return self.shard.name

    def identity(self) -> tuple[Any, ...]:
        """Return values that differ if the contents may differ."""
        return (*self.shard.identity(), fingerprint([self.weight]))

    def line_of(self, sequence: int) -> int | None:
        """Return the line of a sequence of the shard."""
        return self.shard.line_of(sequence)


def encode_shard(part: Part, shared: Shared) -> Arrays:
    """Return the arrays of a shard, which `ShardData.read` reads."""
    encoder: Encoder = shared.value
    X, y, lengths = read_labelled(part.shard, encoder.any_type)
    labels = encode(y, lengths, encoder.classes)
    constraints = constraints_for(encoder.constraints, labels.classes)
    if constraints:
        constraints.check(labels, lengths)
    batch = encoder.features.find(X) if X else empty_batch(encoder.features)
    arrays: dict[str, NDArray[Any] | None] = {
        "lengths": batch.lengths,
        "label": labels.label,
        "allowed": labels.allowed,
        "weight": part.weight,
    }
    for name, rows in (("rows", batch.rows), ("edges", batch.edges)):
        if rows is not None:
            arrays |= {f"{name}.begin": rows.begin, f"{name}.id": rows.id}
            arrays[f"{name}.value"] = rows.value
    return {name: array for name, array in arrays.items() if array is not None}


@dataclass(frozen=True, eq=False)
class ShardData:
    """The sequences of a shard as numbers."""

    batch: FeatureBatch
    label: NDArray[np.int32]
    allowed: NDArray[np.bool_] | None
    weight: NDArray[np.float64] | None

    @classmethod
    def read(cls, placed: Placed) -> ShardData:
        """Return the data of a shard, mapped from the disk."""
        arrays = placed.load()
        rows = SparseRows(arrays["rows.begin"], arrays["rows.id"], arrays.get("rows.value"))
        edges = None
        if "edges.begin" in arrays:
            edges = SparseRows(arrays["edges.begin"], arrays["edges.id"], arrays.get("edges.value"))
        batch = FeatureBatch(arrays["lengths"], rows, edges)
        return cls(batch, arrays["label"], arrays.get("allowed"), arrays.get("weight"))

    @property
    def row_weight(self) -> NDArray[np.float64] | None:
        """(rows,) The weight of the sequence of each row."""
        return None if self.weight is None else np.repeat(self.weight, self.batch.lengths)


@dataclass(frozen=True, eq=False)
class Cells:
    """The pairs of attributes and labels that occur in shards, and other sums over them."""

    states: tuple[NDArray[np.int64], NDArray[np.float64] | None]
    """attribute · labels + label, ascending; and the sums of values, if min_count needs them."""
    edges: tuple[NDArray[np.int64], NDArray[np.float64] | None]
    """edge attribute · labels² + bigram, ascending; and the sums of values."""
    bigrams: NDArray[np.float64]
    """(2, labels · labels) The number and the sum of weights of each bigram."""
    known: float
    """The number of positions that restrict their label, each times its weight."""
    digest: str
    """A checksum of the arrays of the shards."""

    def __add__(self, other: Cells) -> Cells:
        return Cells(
            _add_sparse(self.states, other.states),
            _add_sparse(self.edges, other.edges),
            self.bigrams + other.bigrams,
            self.known + other.known,
            hashlib.sha256((self.digest + other.digest).encode()).hexdigest(),
        )


def count_cells(placed: Placed, shared: Shared, needs_sums: bool) -> Cells:
    """Return the cells of a shard; with ``needs_sums``, also their sums of values."""
    encoder: Encoder = shared.value
    data = ShardData.read(placed)
    n_labels, weight = len(encoder.classes), data.row_weight
    labels = EncodedLabels(encoder.classes, data.label, data.allowed)
    bigrams = find_bigrams_of_rows(data.batch, labels)
    begin, label = find_seen_states(data.batch.rows, len(encoder.features), labels, weight, 0.0)
    states = _keys(begin, label, n_labels)
    edges = np.zeros(0, np.int64)
    if data.batch.edges is not None:
        begin, cell = _core.seen(
            data.batch.edges.native(),
            encoder.features.edges,
            n_labels * n_labels,
            bigrams,
            None,
            weight,
            seen_threshold(0.0),
        )
        edges = _keys(begin, cell, n_labels * n_labels)
    state_sums = edge_sums = None
    if needs_sums:
        state_sums = _sum_cells(data.batch.rows, labels, weight, states)
        edge_labels = EncodedLabels((None,) * n_labels**2, bigrams, None)
        edge_sums = _sum_cells(data.batch.edges, edge_labels, weight, edges)
    known = count_known(labels, data.batch.lengths, data.weight)
    arrays = [*data.batch.arrays(), data.label, data.allowed, data.weight]
    counts = count_bigrams(bigrams, n_labels, weight)
    return Cells((states, state_sums), (edges, edge_sums), counts, known, fingerprint(arrays))


def layout_of(
    cells: Cells, features: FeatureMap, n_labels: int, rules: WeightRules
) -> WeightLayout:
    """Return the layout of the weights, as `choose_weights` does for data in memory."""
    begin, label = _choose(cells.states, len(features), n_labels, rules.min_count)
    if rules.states == "all":
        begin, label = every_cell(begin, n_labels)
    layout = WeightLayout(
        n_labels, begin, label.astype(np.uint16), choose_bigrams(cells.bigrams, rules)
    )
    if not features.has_edges:
        return layout
    begin, bigram = _choose(cells.edges, features.edges, n_labels * n_labels, rules.min_count)
    if rules.transitions == "all":
        begin, bigram = every_cell(begin, n_labels * n_labels)
    return replace(layout, edge_begin=begin, edge_bigram=bigram.astype(np.int32))


def constraint_arrays(constraints: Constraints | None) -> tuple[Any, Any, Any]:
    """Return the forbidden transitions, first and last labels; None without constraints."""
    if constraints is None:
        return None, None, None
    return constraints.forbidden, constraints.start, constraints.end


def _choose(
    cells: tuple[NDArray[np.int64], NDArray[np.float64] | None],
    attributes: int,
    n_cells: int,
    min_count: float,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the first weight of each attribute, and the cells of all weights."""
    keys, sums = cells
    if sums is not None:
        keys = keys[sums >= min_count]
    attribute, cell = np.divmod(keys, n_cells)
    return to_offsets(np.bincount(attribute, minlength=attributes)), cell.astype(np.int32)


def _keys(begin: NDArray[np.int64], cell: NDArray[np.int32], n_cells: int) -> NDArray[np.int64]:
    attribute = np.repeat(np.arange(len(begin) - 1, dtype=np.int64), np.diff(begin))
    return attribute * n_cells + cell


def _sum_cells(
    rows: SparseRows | None,
    labels: EncodedLabels,
    row_weight: NDArray[np.float64] | None,
    keys: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the sum of value · weight of each key, in the order of the rows."""
    sums = np.zeros(len(keys))
    if rows is None or not len(keys):
        return sums
    n_cells = len(labels.classes)
    row = np.repeat(np.arange(len(rows)), np.diff(rows.begin))
    value = np.ones(len(row)) if rows.value is None else np.asarray(rows.value)
    if row_weight is not None:
        value = value * row_weight[row]
    is_known = labels.label[row] >= 0
    pairs = [(rows.id[is_known] * np.int64(n_cells) + labels.label[row[is_known]], value[is_known])]
    if labels.allowed is not None:
        choices = labels.allowed & (labels.label < 0)[:, None]
        if n_cells > 1:
            choices &= ~labels.allowed.all(axis=1, keepdims=True)
        entry, label = np.nonzero(choices[row])
        pairs.append((rows.id[entry] * np.int64(n_cells) + label, value[entry]))
    for key, amount in pairs:
        sums += np.bincount(np.searchsorted(keys, key), weights=amount, minlength=len(keys))
    return sums


def _add_sparse(
    first: tuple[NDArray[np.int64], NDArray[np.float64] | None],
    second: tuple[NDArray[np.int64], NDArray[np.float64] | None],
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    keys = np.union1d(first[0], second[0])
    if first[1] is None or second[1] is None:
        return keys, None
    sums = np.zeros(len(keys))
    for part, amounts in ((first[0], first[1]), (second[0], second[1])):
        sums[np.searchsorted(keys, part)] += amounts
    return keys, sums


def empty_batch(features: FeatureMap) -> FeatureBatch:
    """Return the batch of a shard without sequences."""
    none = SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int32))
    return FeatureBatch(np.zeros(0, np.int64), none, none if features.has_edges else None)
