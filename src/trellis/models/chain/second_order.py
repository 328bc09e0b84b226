"""Chains of second order: the score of a label depends on the two labels before it.

    score(x, y) = Σₜ w · φ(x, t, yₜ) + w[yₜ₋₁, yₜ] + w[yₜ₋₂, yₜ₋₁, yₜ]

Inference runs on states. A state is a pair of labels with which a trigram begins, or one label. The
state of one label is for all pairs that end with it and begin no trigram: their scores do not
differ. So each labelling is one path of states, no labelling is forbidden, and the functions of
`trellis.inference.chain` need no special case. States are sorted by their last label; the first
state of each label is the state of that label alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.inference.chain import Scores
from trellis.models.chain.labels import LIMIT_VARIABLE, EncodedLabels, read_label_limit

__all__ = ["LabelStates", "check_state_count", "choose_trigrams"]


class LabelStates:
    """The states of a chain of second order.

    >>> states = LabelStates(2, np.array([1, 5]))  # the trigrams (0, 0, 1) and (1, 0, 1)
    >>> states.names(["A", "B"])
    [('A',), ('A', 'A'), ('B', 'A'), ('B',)]
    """

    def __init__(self, n_labels: int, trigram: NDArray[np.int64]) -> None:
        self._core = _core.PairStates(n_labels, trigram)
        self.last = self._core.last
        """(states,) The label of each state, ascending."""
        self.previous = self._core.previous
        """(states,) The label before the label of the state; -1 for a state of one label."""
        self.begin = self._core.begin[:-1]
        """(labels,) The first state of each label."""
        self.after = np.tile(self.begin, (n_labels, 1))
        """(labels, labels) The state of each pair of labels."""
        pairs = np.flatnonzero(self.previous >= 0)
        self.after[self.previous[pairs], self.last[pairs]] = pairs
        before, third = np.divmod(trigram, n_labels)
        first, second = np.divmod(before, n_labels)
        self.trigram_cells = (self.after[first, second], self.after[second, third])
        """The two states of each trigram."""

    def __len__(self) -> int:
        """Return the number of states."""
        return len(self.last)

    def names(self, classes: list[Any]) -> list[tuple[Any, ...]]:
        """Return (previous label, label) of each state, or (label,)."""
        pairs = zip(self.previous.tolist(), self.last.tolist(), strict=True)
        return [(classes[b],) if a < 0 else (classes[a], classes[b]) for a, b in pairs]

    def transitions(
        self, bigrams: NDArray[np.float64], trigrams: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the transition scores, (states, states); -inf if no label leads to the next state.

        ``bigrams`` are the scores of label pairs, (labels, labels), and ``trigrams`` the weights.
        """
        matrix = np.empty((len(self), len(self)))
        self._core.transitions(bigrams, trigrams, matrix)
        return matrix

    def expand(self, scores: Scores, trigrams: NDArray[np.float64]) -> Scores:
        """Return the scores of states for the scores of labels and the weights of trigrams."""
        arrays: Any = scores
        start = np.full(len(self), -np.inf)
        start[self.begin] = 0.0 if arrays.start is None else arrays.start
        return Scores(
            [unary[:, self.last] for unary in arrays.unary],
            self.transitions(arrays.transition, trigrams),
            start,
            None if arrays.end is None else arrays.end[self.last],
        )

    def path(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return the states of a labelling, (length,)."""
        states: NDArray[Any] = np.concatenate(
            [self.begin[labels[:1]], self.after[labels[:-1], labels[1:]]]
        )
        return states

    def sum_labels(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum over the states of each label: (length, states) to (length, labels)."""
        sums: NDArray[np.float64] = np.add.reduceat(values, self.begin, axis=-1)
        return sums

    def sum_pairs(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum over the states of each label pair: (…, states, states) to (…, labels, labels)."""
        sums: NDArray[np.float64] = np.add.reduceat(self.sum_labels(values), self.begin, axis=-2)
        return sums


def check_state_count(states: LabelStates | None) -> None:
    """Raise InputError if the number of states is above the largest allowed number of labels."""
    limit = read_label_limit()
    if states is not None and len(states) > limit:
        raise InputError(
            f"order=2 has {len(states)} states, for labels and for pairs of labels before a third "
            f"one: at most {limit} are allowed, because memory grows with their square; raise "
            f"min_count, or set the environment variable {LIMIT_VARIABLE} to allow more"
        )


def choose_trigrams(
    row_begin: NDArray[np.int64],
    labels: EncodedLabels,
    row_weight: NDArray[np.float64] | None,
    min_count: float,
) -> NDArray[np.int64]:
    """Return the trigrams that occur at least min_count times, in ascending order.

    At a position with a set of labels, each label of the set counts. Trigrams with a position where
    every label is possible do not count. The rows of sequence i are [row_begin[i],
    row_begin[i + 1]).
    """
    n_labels = len(labels.classes)
    third = np.ones(len(labels.label), dtype=np.bool_)
    for first in (row_begin[:-1], row_begin[:-1] + 1):
        third[first[first < len(third)]] = False
    rows = np.flatnonzero(third)
    triples = np.stack([labels.label[rows - 2], labels.label[rows - 1], labels.label[rows]], axis=1)
    is_known = (triples >= 0).all(axis=1)
    cells = _join(triples[is_known].astype(np.int64), n_labels)
    rows, others = rows[is_known], rows[~is_known]
    if labels.allowed is not None:
        is_free = labels.allowed.all(axis=1) & (labels.label < 0)
        others = others[~(is_free[others - 2] | is_free[others - 1] | is_free[others])]
        possible = [
            _join(np.argwhere(np.multiply.outer(np.multiply.outer(a, b), c)), n_labels)
            for a, b, c in (labels.allowed[row - 2 : row + 1] for row in others)
        ]
        rows = np.concatenate([rows, np.repeat(others, [len(part) for part in possible])])
        cells = np.concatenate([cells, *possible])
    trigrams: NDArray[np.int64]
    trigrams, index = np.unique(cells, return_inverse=True)
    weights = None if row_weight is None else row_weight[rows]
    counts = np.bincount(index, weights=weights, minlength=len(trigrams))
    return trigrams[counts >= min_count] if min_count > 0 else trigrams


def _join(triples: NDArray[np.int64], n_labels: int) -> NDArray[np.int64]:
    """Return the number of each trigram, from its labels (trigrams, 3)."""
    return (triples[:, 0] * n_labels + triples[:, 1]) * n_labels + triples[:, 2]
