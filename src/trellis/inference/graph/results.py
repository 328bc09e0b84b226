"""Results of inference on graphs."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Best", "Marginals", "Samples"]

Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


class Marginals(NamedTuple):
    """p(y_v) and p(y_f), or approximations of them, and log Z."""

    variables: Doubles
    """``[v, y]`` = p(y_v = y), shape (variables, most labels); 0 past the last label of v."""
    factors: list[Doubles]
    """p(y_f), in the order of the graph's ``factors``, each with the shape of its table. An entry
    with several factors has them along the first axis."""
    log_partition: float
    kind: str
    """The meaning of ``log_partition``: "exact", "lower bound", "upper bound" or "Bethe" (an
    estimate)."""
    converged: bool
    iterations: int
    residual: float
    """The largest change of a message in the last iteration; in mean field, of a probability."""


class Best(NamedTuple):
    """The best labelling, or the best labelling that an approximate search found."""

    labels: Integers
    """``(variables,)``"""
    score: float
    optimal: bool
    """True if the algorithm proves that no labelling is better."""
    converged: bool
    iterations: int
    residual: float

    @property
    def energy(self) -> float:
        """The energy: -score."""
        return -self.score


class Samples(NamedTuple):
    """Labellings from Markov chains, and diagnostics of their convergence."""

    labels: NDArray[Any]
    """``(chains, samples, variables)``"""
    score: Doubles
    """``(chains, samples)``"""
    variables: Doubles
    """``[v, y]``: the fraction of samples in which variable v has label y."""
    r_hat: Doubles
    """``(variables,)``: near 1 if the chains agree. Draw more samples if it is above 1.01. It is
    the worst value over the labels of the variable. It is NaN if the variable never changed its
    label, or if there are fewer than four samples per chain."""
    effective_size: Doubles
    """``(variables,)``: the number of independent samples with the same information. It is NaN
    under the same conditions as ``r_hat``."""
