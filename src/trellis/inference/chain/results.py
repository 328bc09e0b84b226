"""What chain inference gives back.

For one sequence, fields are a float or an array; for a padded batch, arrays with a leading batch
axis; for a list of sequences, arrays of one number a sequence, or lists of arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = float | NDArray[np.float64]
Rows: TypeAlias = NDArray[Any] | list[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Marginals:
    """p(yₜ) and p(yₜ₋₁, yₜ).

    ``pairwise`` is L times as large as the scores, so it is computed when it is first read, from
    the arrays that were passed: do not change them before. An error says so if that is noticed.
    """

    unary: Rows
    """``[t, y]`` = p(yₜ = y), laid out as the unary scores; 0 in the padding."""
    log_partition: Numbers
    """log Z."""
    _pairwise: Callable[[], Rows] = field(repr=False)

    @cached_property
    def pairwise(self) -> Rows:
        """``[t - 1, a, b]`` = p(yₜ₋₁ = a, yₜ = b)."""
        return self._pairwise()


class Counts(NamedTuple):
    """The gradient of log Z, summed over the batch: how often each score is expected to be used."""

    unary: Rows
    transition: Rows
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    log_partition: Numbers
    """log Z, or -log p of the labels where they were given."""


class Path(NamedTuple):
    """The best path: its labels (-1 in the padding) and its score."""

    labels: Rows
    score: Numbers


class KBest(NamedTuple):
    """The best paths, best first: labels ``(k, T)`` and scores ``(k,)``."""

    labels: Rows
    score: Rows
