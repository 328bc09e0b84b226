"""Results of chain inference.

For one sequence, each field is a float or an array. For a padded batch, it is an array with a
leading batch axis. For a list of sequences, it is an array with one number per sequence, or a list
with one array per sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatOrArray: TypeAlias = float | NDArray[np.float64]
ArrayOrList: TypeAlias = NDArray[Any] | list[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Marginals:
    """The marginals p(yₜ) and p(yₜ₋₁, yₜ).

    ``pairwise`` is L times as large as the scores. So it is computed when it is first read, from
    the arrays that were passed. Do not change them before that: if a change is detected, an
    InputError is raised.
    """

    unary: ArrayOrList
    """``[t, y]`` = p(yₜ = y), with the shape of the unary scores; 0 in the padding."""
    log_partition: FloatOrArray
    """log Z."""
    _pairwise: Callable[[], ArrayOrList] = field(repr=False)

    @cached_property
    def pairwise(self) -> ArrayOrList:
        """``[t - 1, a, b]`` = p(yₜ₋₁ = a, yₜ = b), shape (T-1, L, L)."""
        return self._pairwise()


class Counts(NamedTuple):
    """The gradient of log Z: the expected number of uses of each score, summed over the batch."""

    unary: ArrayOrList
    """The shape of the unary scores."""
    transition: ArrayOrList
    """The shape of the transition scores."""
    start: NDArray[np.float64]
    """(L,)"""
    end: NDArray[np.float64]
    """(L,)"""
    log_partition: FloatOrArray
    """log Z; if labels were passed, -log p(labels)."""


class Path(NamedTuple):
    """The best path: its labels, shape (T,), -1 in the padding; and its score."""

    labels: ArrayOrList
    score: FloatOrArray


class KBest(NamedTuple):
    """The best paths, best first: labels ``(k, T)`` and scores ``(k,)``."""

    labels: ArrayOrList
    score: ArrayOrList


class Forward(NamedTuple):
    """The forward table log α and log Z."""

    alpha: ArrayOrList
    """``[t, b]`` = log Σ exp(score) over all beginnings of paths that end in label b at t."""
    log_partition: FloatOrArray
    """log Z = log Σ_b exp(alpha[T-1, b])."""


class Backward(NamedTuple):
    """The backward table log β and log Z."""

    beta: ArrayOrList
    """``[t, a]`` = log Σ exp(score) over all endings of paths after label a at t; 0 at T-1."""
    log_partition: FloatOrArray
    """log Z."""


class ViterbiTable(NamedTuple):
    """The best scores π and the back-pointers κ of the Viterbi recursion."""

    score: ArrayOrList
    """``[t, b]`` = the score of the best beginning of a path that ends in label b at t."""
    back_pointer: ArrayOrList
    """``[t, b]`` = the label at t-1 of that beginning; -1 at t = 0, or if there is no beginning."""
