"""What inference on graphs gives back."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Best", "Marginals", "Samples"]

Doubles: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


class Marginals(NamedTuple):
    """p(y_v) and p(y_f), or beliefs that stand for them, with log Z and how good it is."""

    variables: Doubles
    """``[v, y]`` = p(y_v = y): one row a variable, 0 beyond the labels that it has."""
    factors: list[Doubles]
    """p(y_f), in the order of the graph's ``factors``, each shaped as its table; where an entry has
    several factors, these are along the first axis."""
    log_partition: float
    kind: str
    """What ``log_partition`` is: "exact", "lower bound", "upper bound" or "Bethe" (an estimate)."""
    converged: bool
    iterations: int
    residual: float
    """The largest change of the last iteration: of a message, or in mean field of a probability."""


class Best(NamedTuple):
    """A labelling that is the best, or was found in looking for it."""

    labels: Integers
    score: float
    optimal: bool
    """Whether no labelling is better: proven, not hoped."""
    converged: bool
    iterations: int
    residual: float

    @property
    def energy(self) -> float:
        """-score."""
        return -self.score


class Samples(NamedTuple):
    """Labellings from a Markov chain, and whether it has forgotten where it began."""

    labels: NDArray[Any]
    """``(chains, samples, variables)``"""
    score: Doubles
    """``(chains, samples)``"""
    variables: Doubles
    """``[v, y]``: how often variable v had label y."""
    r_hat: Doubles
    """One a variable, of the indicators of its labels the worst: near 1 if the chains agree. Above
    1.01, draw more. NaN if the variable never changed its label, or there is one chain only."""
    effective_size: Doubles
    """One a variable: as many independent labellings would tell as much. NaN as above."""
