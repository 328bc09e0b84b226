"""`Emission`: p(xₜ | yₜ), the interface between an HMM and its observations."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.formats.native import Tensors
from trellis.formats.parts import Parts

__all__ = ["MIN_VARIANCE", "Emission", "Observations"]

Floats = NDArray[np.float64]

MIN_VARIANCE = 1e-12
"""The smallest value of ``min_variance``. A smaller variance could be only a rounding error of
squared differences."""


class Observations(NamedTuple):
    """The observations of all sequences, concatenated."""

    lengths: NDArray[np.int64]
    """(sequences,)"""
    values: Any
    """One observation per position, in the form that the emission reads fastest."""


class Emission(ABC):
    """The distribution p(xₜ | yₜ) of the observation of a position, one for each state.

    ``fit`` of the HMM calls `learn` once. If all labels are known and ``is_hidden`` is False, it
    then calls `statistics` and `maximise` once. Otherwise, it calls `start` once, and in each
    iteration `log_likelihood`, `statistics` and `maximise`. In all methods, p is an array of shape
    (positions, states): the probability of each state at each position, times the weight of the
    sequence.
    """

    kind: ClassVar[str]
    """Name of the distribution in a file and in ``HMM(emissions=…)``."""
    is_hidden: ClassVar[bool] = False
    """True if the parameters need Baum–Welch even if all labels are known."""

    @abstractmethod
    def learn(self, X: list[Any], n_jobs: int) -> Observations:
        """Validate training data, and store what they decide, such as the dimension."""

    @abstractmethod
    def read(self, X: list[Any], n_jobs: int) -> Observations:
        """Validate sequences and return their observations. Call it after `learn`."""

    @abstractmethod
    def start(
        self,
        values: Any,
        allowed: NDArray[np.bool_],
        weight: Floats,
        generator: np.random.Generator,
    ) -> Floats:
        """Set the first parameters of Baum–Welch; return the p that they come from.

        ``allowed`` is (positions, states): False where a label is known to be another one.
        ``weight`` is (positions,): the sample weight. Each row of p sums to the weight of its row.
        """

    @abstractmethod
    def log_likelihood(self, values: Any) -> Floats:
        """log p(xₜ | yₜ = j), a new array of shape (positions, states)."""

    @abstractmethod
    def statistics(self, values: Any, p: Floats) -> Any:
        """Return the sufficient statistics of the observations under p, (positions, states)."""

    @abstractmethod
    def maximise(self, statistics: Any) -> None:
        """Set the parameters to argmax Σₜⱼ pₜⱼ log p(xₜ | yₜ = j): the M-step."""

    def sample(self, states: NDArray[np.int64], generator: np.random.Generator) -> Any:
        """Draw one observation for each state; the result can be sliced into sequences."""
        raise InputError(f"{type(self).__name__} cannot draw observations: {self.no_samples}")

    no_samples: ClassVar[str] = "it has no method sample"

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of the fitted distribution."""
        raise InputError(
            f"emissions of the class {type(self).__name__} cannot be saved: it has no to_parts"
        )

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors, n_states: int) -> Self:
        """Return the distribution with these parts; raise InputError if one is invalid."""
        raise NotImplementedError
