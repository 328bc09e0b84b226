"""The weights of a linear chain model, and their order in the vector w.

    score(x, y) = Σₜ Σₐ value(x, t, a) · w[a, yₜ]           state weights: (attribute, label)
                + Σₜ w[yₜ₋₁, yₜ]                            bigram weights: (label, label)
                + Σₜ Σₑ value(x, t, e) · w[e, yₜ₋₁, yₜ]     edge weights: (edge attribute, bigram)
                + Σₜ w[yₜ₋₂, yₜ₋₁, yₜ]                      trigram weights: only of second order
                + Σₜ Σⱼ φⱼ(x, t, yₜ₋₁, yₜ) · w[j]           joint weights: (joint feature)

Most pairs of an attribute and a label do not occur, so only pairs with a weight are stored. The
labels of attribute a are ``state_label[state_begin[a] : state_begin[a + 1]]``. The vector w has the
state weights, then the bigram weights, the edge weights, the trigram weights and the joint weights.
"""

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.features.joint import JointFeatures
from trellis.features.rows import FeatureBatch, SparseRows
from trellis.features.vectorizer import FeatureMap
from trellis.formats.native import Tensors, expect
from trellis.models.chain.labels import (
    LIMIT_VARIABLE,
    MANY_LABELS,
    EncodedLabels,
    read_label_limit,
)
from trellis.models.chain.second_order import (
    LabelStates,
    check_state_count,
    choose_trigrams,
)

__all__ = [
    "STATES",
    "TRANSITIONS",
    "WeightLayout",
    "WeightRules",
    "check_label_count",
    "choose_bigrams",
    "choose_weights",
    "count_bigrams",
    "drop_unused_attributes",
    "every_cell",
    "find_bigrams_of_rows",
    "find_seen_states",
    "renumber_batch",
    "seen_threshold",
    "to_offsets",
]

MAX_DENSE_RATIO = 16
"""The largest number of cells of the transition matrix for each weight in a model file. This is
the limit for models with more than `MANY_LABELS` labels."""
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
    order: int = 1
    """2 for weights of the label trigrams that occur in training."""


@dataclass(frozen=True, eq=False)
class WeightLayout:
    """The attribute and the labels of each weight."""

    n_labels: int
    state_begin: NDArray[np.int64]
    """(attributes + 1,) The first state weight of each attribute."""
    state_label: NDArray[np.uint16]
    """(state weights,) The label of each state weight, ascending for each attribute. This is the
    largest array, so labels have only 16 bits."""
    bigram: NDArray[np.int32]
    """(bigram weights,) from · n_labels + to, ascending."""
    edge_begin: NDArray[np.int64] | None = None
    """(edge attributes + 1,) The first edge weight of each edge attribute."""
    edge_bigram: NDArray[np.int32] | None = None
    """(edge weights,) from · n_labels + to."""
    trigram: NDArray[np.int64] | None = None
    """(trigram weights,) (first · n_labels + second) · n_labels + third, ascending; None for
    order 1."""
    joint: int = 0
    """The number of weights of joint features, which are the last ones in w."""

    @property
    def states(self) -> int:
        """The number of state weights."""
        return len(self.state_label)

    @property
    def linear(self) -> int:
        """The number of weights without those of joint features."""
        others = (self.bigram, self.edge_bigram, self.trigram)
        return self.states + sum(len(cells) for cells in others if cells is not None)

    @property
    def size(self) -> int:
        """The number of all weights."""
        return self.linear + self.joint

    @cached_property
    def native(self) -> _core.WeightLayout:
        """The layout as an object of the core. Raises ValueError for indices out of range."""
        return _core.WeightLayout(
            self.n_labels,
            self.state_begin,
            self.state_label,
            self.bigram,
            self.edge_begin,
            self.edge_bigram,
            self.trigram,
        )

    @cached_property
    def label_states(self) -> LabelStates | None:
        """The states of a chain of second order; None for a chain of first order."""
        return None if self.trigram is None else LabelStates(self.n_labels, self.trigram)

    def __getstate__(self) -> dict[str, Any]:
        # Objects of the core cannot be pickled. They are built again at their first use.
        native = ("native", "label_states")
        return {name: value for name, value in self.__dict__.items() if name not in native}

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
        """Return the state, bigram, edge and trigram weights, without those of joint features."""
        bigram_end = self.states + len(self.bigram)
        trigrams = 0 if self.trigram is None else len(self.trigram)
        return tuple(np.split(w[: self.linear], (self.states, bigram_end, self.linear - trigrams)))

    def transition_matrix(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weight of each bigram, 0 without a weight: (labels, labels)."""
        matrix = np.zeros(self.n_labels * self.n_labels)
        matrix[self.bigram] = self.split(w)[1]
        return matrix.reshape(self.n_labels, self.n_labels)

    def select(self, selected: NDArray[np.bool_]) -> tuple[Self, NDArray[Any], NDArray[Any]]:
        """Return the layout of the selected weights, and its attributes and edge attributes.

        ``selected`` has shape (weights,). The new layout numbers its attributes from 0; the two
        returned arrays have their old numbers.
        """
        states, bigrams, edges, trigrams = self.split(selected)
        counts = np.bincount(self.state_attribute[states], minlength=len(self.state_begin) - 1)
        used_attributes = np.flatnonzero(counts).astype(np.int32)
        new_layout = replace(
            self,
            state_begin=to_offsets(counts[used_attributes]),
            state_label=self.state_label[states],
            bigram=self.bigram[bigrams],
            trigram=None if self.trigram is None else self.trigram[trigrams],
            joint=int(selected[self.linear :].sum()),
        )
        if self.edge_begin is None or self.edge_bigram is None:
            return new_layout, used_attributes, np.zeros(0, np.int32)
        counts = np.bincount(self.edge_attribute[edges], minlength=len(self.edge_begin) - 1)
        used_edge_attributes = np.flatnonzero(counts).astype(np.int32)
        new_layout = replace(
            new_layout,
            edge_begin=to_offsets(counts[used_edge_attributes]),
            edge_bigram=self.edge_bigram[edges],
        )
        return new_layout, used_attributes, used_edge_attributes

    # ---- keys: one integer for each weight, to compare two layouts

    def keys(self, labels: NDArray[np.int64], n_labels: int) -> list[NDArray[np.int64]]:
        """Return one integer for each weight: arrays of state, bigram, and edge or trigram weights.

        ``labels[n]`` is the new number of label n, and ``n_labels`` is the new number of labels.
        """
        keys = [
            self.state_attribute * n_labels + labels[self.state_label],
            self._renumber_bigrams(self.bigram, labels, n_labels),
        ]
        if self.edge_bigram is not None:
            bigrams = self._renumber_bigrams(self.edge_bigram, labels, n_labels)
            keys.append(self.edge_attribute * n_labels * n_labels + bigrams)
        if self.trigram is not None:
            pairs, third = np.divmod(self.trigram, self.n_labels)
            pairs = self._renumber_bigrams(pairs, labels, n_labels)
            keys.append(pairs * n_labels + labels[third])
        return keys

    def _renumber_bigrams(
        self, bigrams: NDArray[Any], labels: NDArray[np.int64], n_labels: int
    ) -> NDArray[Any]:
        before, after = np.divmod(bigrams, self.n_labels)
        new_bigrams: NDArray[Any] = labels[before] * n_labels + labels[after]
        return new_bigrams

    @classmethod
    def from_keys(
        cls, n_labels: int, n_attributes: int, n_edge_attributes: int | None, keys: list[Any]
    ) -> Self:
        """Return the layout with these sorted keys, the inverse of `keys`."""
        states, bigrams, *others = keys
        begin = to_offsets(np.bincount(states // n_labels, minlength=n_attributes))
        layout = cls(
            n_labels, begin, (states % n_labels).astype(np.uint16), bigrams.astype(np.int32)
        )
        if n_edge_attributes is None:
            return replace(layout, trigram=others[0]) if others else layout
        attribute, bigram = np.divmod(others[0], n_labels * n_labels)
        begin = to_offsets(np.bincount(attribute, minlength=n_edge_attributes))
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
        if self.trigram is not None:
            tensors["trigram"] = self.trigram
        return tensors

    @classmethod
    def from_tensors(cls, tensors: Tensors, n_labels: int, features: FeatureMap) -> Self:
        """Return the layout from the tensors of an untrusted file. Raise if an index is invalid."""
        others: dict[str, Any] = {}
        if "trigram" in tensors:
            others["trigram"] = expect(tensors, "trigram", np.int64, (None,))
        if "edge_begin" in tensors:
            others |= {
                "edge_begin": expect(tensors, "edge_begin", np.int64, (features.edges + 1,)),
                "edge_bigram": expect(tensors, "edge_bigram", np.int32, (None,)),
            }
        layout = cls(
            n_labels,
            expect(tensors, "state_begin", np.int64, (len(features) + 1,)),
            expect(tensors, "state_label", np.uint16, (None,)),
            expect(tensors, "bigram", np.int32, (None,)),
            **others,
            joint=_count_joint(features),
        )
        if np.any(np.diff(layout.bigram) <= 0):
            raise InputError("bigram must be strictly ascending")
        # `native` validates all ranges in the core. `state_attribute` relies on valid ranges, so it
        # is used only after this line.
        layout.native  # noqa: B018
        keys = layout.state_attribute * n_labels + layout.state_label
        if np.any(np.diff(keys) <= 0):
            raise InputError("state_label must be strictly ascending for each attribute")
        return layout


def check_label_count(n_labels: int, n_weights: int) -> None:
    """Raise InputError if the matrix of transitions takes far more memory than a model file.

    Inference needs a dense matrix (labels, labels), also if few transitions have a weight. So a
    small forged file with many labels could take gigabytes at the first prediction. The environment
    variable `LIMIT_VARIABLE` allows such a file.
    """
    if n_labels <= MANY_LABELS or n_labels * n_labels <= MAX_DENSE_RATIO * n_weights:
        return
    if not os.environ.get(LIMIT_VARIABLE) or n_labels > read_label_limit():
        raise InputError(
            f"the model has {n_labels} labels and only {n_weights} weights, so its transition "
            "matrix would take much more memory than the file: if you trust the file, set the "
            f"environment variable {LIMIT_VARIABLE} to {n_labels} or more"
        )


def to_offsets(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return the sums of the first 0, 1, … counts: where the items of each count begin."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def choose_weights(
    batch: FeatureBatch,
    features: FeatureMap,
    labels: EncodedLabels,
    rules: WeightRules,
    sample_weight: NDArray[np.float64] | None,
) -> WeightLayout:
    """Return the layout with a weight for each pair that occurs in training, or for all pairs."""
    n_labels = len(labels.classes)
    if rules.order == 2 and batch.edges is not None:
        raise InputError(
            "order=2 cannot be combined with features of transitions: use order=1, or features "
            "(templates) of the position only"
        )
    if isinstance(features, JointFeatures) and features.is_alone:
        rules = rules._replace(transitions="none")
    row_weight = None if sample_weight is None else np.repeat(sample_weight, batch.lengths)
    begin, label = find_seen_states(batch.rows, len(features), labels, row_weight, rules.min_count)
    if rules.states == "all":
        begin, label = every_cell(begin, n_labels)
    bigram_of_row = find_bigrams_of_rows(batch, labels)
    bigrams = choose_bigrams(count_bigrams(bigram_of_row, n_labels, row_weight), rules)
    layout = WeightLayout(
        n_labels, begin, label.astype(np.uint16), bigrams, joint=_count_joint(features)
    )
    if rules.order == 2:
        trigrams = choose_trigrams(batch.row_begin, labels, row_weight, rules.min_count)
        layout = replace(layout, trigram=trigrams)
        check_state_count(layout.label_states)
        return layout
    if batch.edges is None:
        return layout
    edge_begin, edge_bigram = _core.seen(
        batch.edges.native(),
        features.edges,
        n_labels * n_labels,
        bigram_of_row,
        None,
        row_weight,
        seen_threshold(rules.min_count),
    )
    if rules.transitions == "all":
        edge_begin, edge_bigram = every_cell(edge_begin, n_labels * n_labels)
    return replace(layout, edge_begin=edge_begin, edge_bigram=edge_bigram)


def every_cell(
    begin: NDArray[np.int64], n_cells: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return a weight of each cell for each attribute that has weights in ``begin``.

    Attributes below min_count have none, and get none.
    """
    is_used = np.diff(begin) > 0
    cells = np.tile(np.arange(n_cells, dtype=np.int32), int(is_used.sum()))
    return to_offsets(np.where(is_used, n_cells, 0)), cells


def _count_joint(features: FeatureMap) -> int:
    return features.joint_count if isinstance(features, JointFeatures) else 0


def find_seen_states(
    rows: SparseRows,
    n_attributes: int,
    labels: EncodedLabels,
    row_weight: NDArray[np.float64] | None,
    min_count: float,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return ``state_begin`` and ``state_label`` of pairs that occur at least min_count times."""
    n_labels, allowed = len(labels.classes), labels.allowed
    if allowed is not None and n_labels > 1:
        # A position where every label is possible does not count as an occurrence of a pair.
        allowed = allowed & ~allowed.all(axis=1, keepdims=True)
    threshold = seen_threshold(min_count)
    return _core.seen(
        rows.native(), n_attributes, n_labels, labels.label, allowed, row_weight, threshold
    )


def seen_threshold(min_count: float) -> float:
    """Return min_count, but -inf for 0: then also pairs whose values sum to less than 0 count."""
    return min_count if min_count > 0 else -np.inf


def find_bigrams_of_rows(batch: FeatureBatch, labels: EncodedLabels) -> NDArray[np.int32]:
    """Return the bigram that ends at each row: (positions,).

    It is -1 at the start of a sequence, and where one of the two labels is unknown.
    """
    previous_label = np.concatenate([[-1], labels.label[:-1]]).astype(np.int32)
    previous_label[batch.row_begin[:-1]] = -1  # no bigram crosses from one sequence to the next
    is_known = (previous_label >= 0) & (labels.label >= 0)
    bigrams = np.where(is_known, previous_label * len(labels.classes) + labels.label, -1)
    return bigrams.astype(np.int32)


def count_bigrams(
    bigram_of_row: NDArray[np.int32], n_labels: int, row_weight: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Return the number and the sum of weights of each bigram, (2, labels · labels)."""
    has_bigram = bigram_of_row >= 0
    bigrams, cells = bigram_of_row[has_bigram], n_labels * n_labels
    counts = np.bincount(bigrams, minlength=cells)
    weights = None if row_weight is None else row_weight[has_bigram]
    sums = counts if weights is None else np.bincount(bigrams, weights=weights, minlength=cells)
    return np.stack([counts, sums]).astype(np.float64)


def choose_bigrams(counts: NDArray[np.float64], rules: WeightRules) -> NDArray[np.int32]:
    """Return the bigrams that get a weight, in ascending order."""
    cells = counts.shape[1]
    if rules.transitions == "all":
        return np.arange(cells, dtype=np.int32)
    if rules.transitions == "none":
        return np.zeros(0, dtype=np.int32)
    is_chosen = counts[0] > 0
    if rules.min_count > 0:
        is_chosen &= counts[1] >= rules.min_count
    return np.flatnonzero(is_chosen).astype(np.int32)


def drop_unused_attributes(
    features: FeatureMap, batch: FeatureBatch, layout: WeightLayout
) -> tuple[FeatureBatch, WeightLayout]:
    """Remove the attributes without a weight: they are too rare, or all their labels are unknown.

    The number and order of the weights do not change. ``features`` is changed in place.
    """
    begins = [b for b in (layout.state_begin, layout.edge_begin) if b is not None]
    if all((np.diff(begin) > 0).all() for begin in begins):
        return batch, layout  # the usual case, in which select() would only take memory
    # select() with all weights removes only attributes without weights.
    new_layout, used_attributes, used_edge_attributes = layout.select(
        np.ones(layout.size, dtype=np.bool_)
    )
    new_batch = renumber_batch(batch, layout, used_attributes, used_edge_attributes)
    features.keep(used_attributes, used_edge_attributes)
    return new_batch, new_layout


def renumber_batch(
    batch: FeatureBatch,
    layout: WeightLayout,
    used_attributes: NDArray[np.int32],
    used_edge_attributes: NDArray[np.int32],
) -> FeatureBatch:
    """Return the batch with only the used attributes of ``layout``, numbered from 0."""
    edges = 0 if layout.edge_begin is None else len(layout.edge_begin) - 1
    return replace(
        batch,
        rows=cast(
            SparseRows,
            _renumber_attributes(batch.rows, used_attributes, len(layout.state_begin) - 1),
        ),
        edges=_renumber_attributes(batch.edges, used_edge_attributes, edges),
    )


def _renumber_attributes(
    rows: SparseRows | None, used_attributes: NDArray[np.int32], n_attributes: int
) -> SparseRows | None:
    new_numbers = np.full(n_attributes, -1, dtype=np.int32)
    new_numbers[used_attributes] = np.arange(len(used_attributes), dtype=np.int32)
    return None if rows is None else rows.renumbered(new_numbers)
