"""Tables of log p(symbol | y) from smoothed counts: the base class of emissions of symbols."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.formats.native import Tensors, expect
from trellis.models.chain.emissions.base import Emission, Floats

__all__ = ["TableEmission", "log"]


def log(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log p, with log 0 = -inf and no warning."""
    with np.errstate(divide="ignore"):
        return np.log(p)


class TableEmission(Emission):
    """p(v | y) = (#(v, y) + s) / (#(y) + s (V + 1)) for V symbols v, with the smoothing s.

    The additional 1 is for one more row, of all unknown symbols. The method ``statistics`` of
    subclasses returns the counts #(v, y), shape (symbols, states).
    """

    log_probabilities: Floats
    """(symbols + 1, states) log p(symbol | y); the last row is for unknown symbols."""

    def __init__(self, smoothing: float = 0.1) -> None:
        self.smoothing = smoothing

    def maximise(self, statistics: Any) -> None:
        """Set the table from (expected) counts, shape (symbols, states)."""
        counts = np.asarray(statistics) + self.smoothing
        unknown_counts = np.full((1, counts.shape[1]), self.smoothing)
        counts = np.concatenate([counts, unknown_counts])
        totals = counts.sum(axis=0)
        self.log_probabilities = log(counts / np.where(totals > 0, totals, 1.0))

    @abstractmethod
    def names(self) -> list[str]:
        """Return the symbols as text, in the order of the rows."""

    @property
    def unknown_scores(self) -> Floats:
        """(states,) The scores of an unknown symbol.

        Without smoothing, the log p of an unknown symbol is -inf in every state. The symbol is then
        ignored: its scores are 0.
        """
        scores = self.log_probabilities[-1]
        return np.where(np.isneginf(scores), 0.0, scores)

    def read_table(self, tensors: Tensors, name: str, n_symbols: int, n_states: int) -> None:
        """Set the table from a tensor of a file; raise InputError if it is invalid."""
        table = expect(tensors, name, np.float64, (n_symbols + 1, n_states))
        if np.isnan(table).any() or (table > 0).any():
            raise InputError(f"{name} must be log-probabilities: at most 0, not nan")
        self.log_probabilities = table
