"""The weights of a linear chain model, and their order in the vector w.

    score(x, y) = Σₜ Σₐ value(x, t, a) · w[a, yₜ]           state weights: (attribute, label)
                + Σₜ w[yₜ₋₁, yₜ]                            bigram weights: (label, label)
                + Σₜ Σₑ value(x, t, e) · w[e, yₜ₋₁, yₜ]     edge weights: (edge attribute, bigram)

Most pairs of an attribute and a label do not occur, so only pairs with a weight are stored. The
labels of attribute a are ``state_label[state_begin[a] : state_begin[a + 1]]``. The vector w has the
state weights, then the bigram weights, then the edge weights.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.features.rows import FeatureBatch, SparseRows
from trellis.features.vectorizer import FeatureMap
from trellis.formats.native import Tensors, expect
from trellis.models.chain.labels import EncodedLabels

__all__ = [
    "STATES",
    "TRANSITIONS",
    "WeightLayout",
    "WeightRules",
    "choose_weights",
    "drop_unused_attributes",
]

STATES = ("seen", "all")
TRANSITIONS = ("seen", "all", "none")


class WeightRules(NamedTuple):
    """The rules that choose the weights of a model."""

    states: str
    """One of `STATES`."""
    transitions: str
    """One of `TRANSITIONS`."""
    min_count: float
    """Pairs that occur less often in training get no weight."""


@dataclass(frozen=True, eq=False)
class WeightLayout:
    """The attribute and the labels of each weight."""

    labels: int
    state_begin: NDArray[np.int64]
    """(attributes + 1,) The first state weight of each attribute."""
    state_label: NDArray[np.uint16]
    """(state weights,) Ascending for each attribute. This largest array has 16 bits per label."""
    bigram: NDArray[np.int32]
    """(bigram weights,) from · labels + to, ascending."""
    edge_begin: NDArray[np.int64] | None = None
    """(edge attributes + 1,) The first edge weight of each edge attribute."""
    edge_bigram: NDArray[np.int32] | None = None
    """(edge weights,) from · labels + to."""

    @property
    def states(self) -> int:
        """The number of state weights."""
        return len(self.state_label)

    @property
    def size(self) -> int:
        """The number of all weights."""
        edges = 0 if self.edge_bigram is None else len(self.edge_bigram)
        return self.states + len(self.bigram) + edges

    @cached_property
    def native(self) -> _core.WeightLayout:
        """The layout as an object of the core. Raises ValueError for indices out of range."""
        return _core.WeightLayout(
            self.labels,
            self.state_begin,
            self.state_label,
            self.bigram,
            self.edge_begin,
            self.edge_bigram,
        )

    def __getstate__(self) -> dict[str, Any]:
        # The object of the core cannot be pickled. It is built again at its first use.
        return {k: v for k, v in self.__dict__.items() if k != "native"}

    @cached_property
    def state_attribute(self) -> NDArray[np.int64]:
        """(state weights,) The attribute of each state weight."""
        counts = np.diff(self.state_begin)
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def edge_attribute(self) -> NDArray[np.int64]:
        """(edge weights,) The edge attribute of each edge weight."""
        counts = np.diff(self.edge_begin) if self.edge_begin is not None else np.zeros(0, np.int64)
        return np.repeat(np.arange(len(counts)), counts)

    def split(self, w: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Return the state, bigram and edge weights."""
        ends = (self.states, self.states + len(self.bigram))
        return tuple(np.split(w, ends))

    def transition_matrix(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weight of each bigram, 0 without a weight: (labels, labels)."""
        matrix = np.zeros(self.labels * self.labels)
        matrix[self.bigram] = self.split(w)[1]
        return matrix.reshape(self.labels, self.labels)

    def select(self, selected: NDArray[np.bool_]) -> tuple[Self, NDArray[Any], NDArray[Any]]:
        """Return the layout of the selected weights, and its attributes and edge attributes.

        ``selected`` has shape (weights,). The attributes of the new layout are numbered from 0.
        """
        states, bigrams, edges = self.split(selected)
        counts = np.bincount(self.state_attribute[states], minlength=len(self.state_begin) - 1)
        used = np.flatnonzero(counts).astype(np.int32)
        smaller = replace(
            self,
            state_begin=_to_offsets(counts[used]),
            state_label=self.state_label[states],
            bigram=self.bigram[bigrams],
        )
        if self.edge_begin is None or self.edge_bigram is None:
            return smaller, used, np.zeros(0, np.int32)
        counts = np.bincount(self.edge_attribute[edges], minlength=len(self.edge_begin) - 1)
        edge_used = np.flatnonzero(counts).astype(np.int32)
        smaller = replace(
            smaller, edge_begin=_to_offsets(counts[edge_used]), edge_bigram=self.edge_bigram[edges]
        )
        return smaller, used, edge_used

    # ---- keys: one integer for each weight, to compare two layouts

    def keys(self, labels: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
        """Return one integer for each state, bigram and edge weight.

        ``labels[n]`` is the new number of label n, and ``count`` the new number of labels.
        """
        keys = [
            self.state_attribute * count + labels[self.state_label],
            self._renumber_bigrams(self.bigram, labels, count),
        ]
        if self.edge_bigram is not None:
            bigrams = self._renumber_bigrams(self.edge_bigram, labels, count)
            keys.append(self.edge_attribute * count * count + bigrams)
        return keys

    def _renumber_bigrams(
        self, bigrams: NDArray[Any], labels: NDArray[np.int64], count: int
    ) -> NDArray[Any]:
        before, after = np.divmod(bigrams, self.labels)
        renumbered: NDArray[Any] = labels[before] * count + labels[after]
        return renumbered

    @classmethod
    def from_keys(cls, count: int, attributes: int, edges: int | None, keys: list[Any]) -> Self:
        """Return the layout with these sorted keys, the inverse of `keys`."""
        states, bigrams, *edge_keys = keys
        begin = _to_offsets(np.bincount(states // count, minlength=attributes))
        layout = cls(count, begin, (states % count).astype(np.uint16), bigrams.astype(np.int32))
        if edges is None:
            return layout
        attribute, bigram = np.divmod(edge_keys[0], count * count)
        begin = _to_offsets(np.bincount(attribute, minlength=edges))
        return replace(layout, edge_begin=begin, edge_bigram=bigram.astype(np.int32))

    # ---- files

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, with their names in a model file."""
        tensors: dict[str, NDArray[Any]] = {
            "state_begin": self.state_begin,
            "state_label": self.state_label,
            "bigram": self.bigram,
        }
        if self.edge_begin is not None and self.edge_bigram is not None:
            tensors |= {"edge_begin": self.edge_begin, "edge_bigram": self.edge_bigram}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: Tensors, labels: int, features: FeatureMap) -> Self:
        """Return the layout from the tensors of an untrusted file. Raise if an index is invalid."""
        edges: list[Any] = [None, None]
        if "edge_begin" in tensors:
            edges = [
                expect(tensors, "edge_begin", np.int64, (features.edges + 1,)),
                expect(tensors, "edge_bigram", np.int32, (None,)),
            ]
        layout = cls(
            labels,
            expect(tensors, "state_begin", np.int64, (len(features) + 1,)),
            expect(tensors, "state_label", np.uint16, (None,)),
            expect(tensors, "bigram", np.int32, (None,)),
            *edges,
        )
        if np.any(np.diff(layout.bigram) <= 0):
            raise InputError("bigram must be strictly ascending")
        # The core validates all ranges. state_attribute does not, so it must be used later.
        layout.native  # noqa: B018
        keys = layout.state_attribute * labels + layout.state_label
        if np.any(np.diff(keys) <= 0):
            raise InputError("state_label must be strictly ascending for each attribute")
        return layout


def _to_offsets(counts: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def choose_weights(
    batch: FeatureBatch,
    features: FeatureMap,
    labels: EncodedLabels,
    rules: WeightRules,
    sample_weight: NDArray[np.float64] | None,
) -> WeightLayout:
    """Return the layout with a weight for each pair that occurs in training, or for all pairs."""
    count = len(labels.classes)
    row_weight = None if sample_weight is None else np.repeat(sample_weight, batch.lengths)
    begin, label = _find_seen_states(batch.rows, len(features), labels, row_weight, rules.min_count)
    if rules.states == "all":
        # Attributes below min_count get no weight. All others get a weight for each label.
        used = np.diff(begin) > 0
        begin = _to_offsets(np.where(used, count, 0))
        label = np.tile(np.arange(count, dtype=np.int32), int(used.sum()))
    bigram_of_row = _find_bigrams_of_rows(batch, labels)
    bigrams = _choose_bigrams(bigram_of_row, count, rules, row_weight)
    layout = WeightLayout(count, begin, label.astype(np.uint16), bigrams)
    if batch.edges is None:
        return layout
    edge_begin, edge_bigram = _core.seen(
        batch.edges.native(),
        features.edges,
        count * count,
        bigram_of_row,
        None,
        row_weight,
        _threshold(rules.min_count),
    )
    if rules.transitions == "all":
        used = np.diff(edge_begin) > 0
        edge_begin = _to_offsets(np.where(used, count * count, 0))
        edge_bigram = np.tile(np.arange(count * count, dtype=np.int32), int(used.sum()))
    return replace(layout, edge_begin=edge_begin, edge_bigram=edge_bigram)


def _find_seen_states(
    rows: SparseRows,
    attributes: int,
    labels: EncodedLabels,
    row_weight: NDArray[np.float64] | None,
    min_count: float,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return ``state_begin`` and ``state_label`` of pairs that occur at least min_count times."""
    count, allowed = len(labels.classes), labels.allowed
    if allowed is not None and count > 1:
        # A position where every label is possible does not count as an occurrence of a pair.
        allowed = allowed & ~allowed.all(axis=1, keepdims=True)
    threshold = _threshold(min_count)
    return _core.seen(
        rows.native(), attributes, count, labels.label, allowed, row_weight, threshold
    )


def _threshold(min_count: float) -> float:
    """Return -inf for 0, because the sum of negative feature values is below 0."""
    return min_count if min_count > 0 else -np.inf


def _find_bigrams_of_rows(batch: FeatureBatch, labels: EncodedLabels) -> NDArray[np.int32]:
    """Return the bigram that ends at each row: (positions,).

    It is -1 at the start of a sequence, and where one of the two labels is unknown.
    """
    before = np.concatenate([[-1], labels.label[:-1]]).astype(np.int32)
    before[batch.row_begin[:-1]] = -1  # no bigram crosses from one sequence to the next
    is_known = (before >= 0) & (labels.label >= 0)
    bigrams = np.where(is_known, before * len(labels.classes) + labels.label, -1)
    return bigrams.astype(np.int32)


def _choose_bigrams(
    bigram_of_row: NDArray[np.int32],
    count: int,
    rules: WeightRules,
    row_weight: NDArray[np.float64] | None,
) -> NDArray[np.int32]:
    """Return the bigrams that get a weight, in ascending order."""
    if rules.transitions == "all":
        return np.arange(count * count, dtype=np.int32)
    if rules.transitions == "none":
        return np.zeros(0, dtype=np.int32)
    has_bigram = bigram_of_row >= 0
    bigrams = bigram_of_row[has_bigram]
    seen = np.bincount(bigrams, minlength=count * count) > 0
    if rules.min_count > 0:
        weights = None if row_weight is None else row_weight[has_bigram]
        seen &= np.bincount(bigrams, weights=weights, minlength=count * count) >= rules.min_count
    return np.flatnonzero(seen).astype(np.int32)


def drop_unused_attributes(
    features: FeatureMap, batch: FeatureBatch, layout: WeightLayout
) -> tuple[FeatureBatch, WeightLayout]:
    """Remove the attributes without a weight: they are too rare, or all their labels are unknown.

    The number and order of the weights do not change. ``features`` is changed in place.
    """
    # select() with all weights removes only attributes without weights.
    smaller, used, edge_used = layout.select(np.ones(layout.size, dtype=np.bool_))
    if len(used) == len(features) and len(edge_used) == features.edges:
        return batch, layout
    rows = _renumber_attributes(batch.rows, used, len(features))
    edges = _renumber_attributes(batch.edges, edge_used, features.edges)
    features.keep(used, edge_used)
    return FeatureBatch(batch.lengths, cast(SparseRows, rows), edges), smaller


def _renumber_attributes(
    rows: SparseRows | None, used: NDArray[np.int32], count: int
) -> SparseRows | None:
    numbers = np.full(count, -1, dtype=np.int32)
    numbers[used] = np.arange(len(used), dtype=np.int32)
    return None if rows is None else rows.renumbered(numbers)
