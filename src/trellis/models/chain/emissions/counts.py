"""Counts of the states and pairs of states of an HMM: of known labels, or expected counts."""

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trellis.inference import chain
from trellis.models.chain.emissions.base import Floats, Observations
from trellis.models.chain.emissions.table import log
from trellis.models.chain.labels import EncodedLabels

__all__ = [
    "Data",
    "UsageCounts",
    "count_known",
    "count_symbols",
    "expect_counts",
    "join",
    "slice_rows",
]

# Replaces a sample weight of 0, because `expected_counts` needs positive weights. It is so small
# that the sums over sequences do not change.
_NO_WEIGHT = 1e-200


class Data(NamedTuple):
    """The training data of an HMM."""

    observations: Observations
    labels: EncodedLabels
    weights: Floats
    """(sequences,) The sample weights."""

    @property
    def first_rows(self) -> NDArray[np.int64]:
        """(sequences,) The row of the first position of each sequence."""
        lengths = self.observations.lengths
        return np.cumsum(lengths) - lengths

    @property
    def row_weight(self) -> Floats:
        """(positions,) The sample weight of the sequence that contains the position."""
        return np.repeat(self.weights, self.observations.lengths)


class UsageCounts(NamedTuple):
    """Weighted counts of one data set."""

    p: Floats
    """(positions, states) The probability of each state, times the sample weight."""
    pairs: Floats
    """(states, states) Sum over positions of the probability of each pair of states."""
    log_likelihood: float
    """Sum of log p(x), or of log p(x, known labels)."""


def count_known(data: Data) -> UsageCounts:
    """Count known labels and pairs of labels. The log-likelihood is nan."""
    label = data.labels.label.astype(np.int64)
    n_states = len(data.labels.classes)
    row_weight = data.row_weight
    p = np.zeros((len(label), n_states))
    p[np.arange(len(p)), label] = row_weight
    has_previous = np.ones(len(label), dtype=np.bool_)
    has_previous[data.first_rows] = False
    rows = np.flatnonzero(has_previous)
    pairs = np.bincount(
        label[rows - 1] * n_states + label[rows],
        weights=row_weight[rows],
        minlength=n_states * n_states,
    )
    return UsageCounts(p, pairs.reshape(n_states, n_states).astype(np.float64), np.nan)


def expect_counts(
    data: Data, unary: Floats, transitions: Floats, start: Floats, n_jobs: int | None
) -> UsageCounts:
    """Return expected counts by forward-backward in the native core: the E-step of Baum–Welch.

    ``unary`` is log p(xₜ | yₜ), (positions, states). It is changed in place: states that the labels
    exclude get -inf.
    """
    if data.labels.allowed is not None:
        unary[~data.labels.allowed] = -np.inf
    sequences = slice_rows(unary, data.observations.lengths)
    weights = None if (data.weights == 1.0).all() else np.maximum(data.weights, _NO_WEIGHT)
    counts = chain.expected_counts(
        cast(Any, sequences), log(transitions), log(start), weights=weights, n_jobs=n_jobs
    )
    log_z = np.asarray(counts.log_partition)
    p = join(cast(Any, counts.unary))
    return UsageCounts(p, cast(Any, counts.transition), float(data.weights @ log_z))


def count_symbols(symbols: NDArray[np.int64], p: Floats, n_symbols: int) -> Floats:
    """Return Σₜ p[t] of the positions t of each symbol, shape (n_symbols, states).

    symbols (positions,) are below n_symbols; p (positions, states).

    >>> count_symbols(np.array([0, 2, 0]), np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), 3)
    array([[1.5, 0.5],
           [0. , 0. ],
           [0. , 1. ]])
    """
    # Imported here, because the import takes 0.1 s, and most uses of an HMM do not need it.
    from scipy.sparse import csc_array

    # Column t of the matrix has a 1 in the row of its symbol. The product adds whole rows of p in
    # the order of the positions. One np.bincount per state reads p with a stride: 5 times slower.
    n_positions = len(symbols)
    starts = np.arange(n_positions + 1)
    matrix = csc_array((np.ones(n_positions), symbols, starts), shape=(n_symbols, n_positions))
    counts: Floats = matrix @ p
    return counts


def slice_rows(rows: Floats, lengths: Any) -> list[Floats]:
    """Return the rows of each sequence, as views.

    >>> [len(part) for part in slice_rows(np.zeros((5, 2)), [2, 3])]
    [2, 3]
    """
    ends = np.cumsum(lengths).tolist()
    return [rows[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def join(parts: list[Floats]) -> Floats:
    """Return the concatenation of arrays. If they are all parts of one array, return that array.

    This avoids a copy, which would take as long as forward-backward, because the operating system
    clears each new page of memory.

    >>> rows = np.ones((5, 2))
    >>> join(slice_rows(rows, [2, 3])) is rows, join([rows[:1], rows[3:]]).shape
    (True, (3, 2))
    """
    base = parts[0].base
    if not isinstance(base, np.ndarray) or base.shape[1:] != parts[0].shape[1:]:
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    is_whole = sum(map(len, parts)) == len(base) and all(part.base is base for part in parts)
    return base if is_whole else np.concatenate(parts)
