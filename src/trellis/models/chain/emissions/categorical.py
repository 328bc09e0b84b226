"""Categorical emissions: each observation is one symbol, an integer or a string."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.checks import check_not_empty
from trellis.errors import InputError
from trellis.formats.native import Tensors
from trellis.formats.parts import Parts
from trellis.models.chain.emissions.base import Floats, Observations
from trellis.models.chain.emissions.counts import count_symbols
from trellis.models.chain.emissions.table import TableEmission

__all__ = ["Categorical", "is_symbols"]


class Categorical(TableEmission):
    """A distribution over the symbols of the training data and one symbol for all unknown ones.

    A sequence is a list of integers or strings, or an array of integers of shape (length,) or
    (length, 1).

    >>> emission = Categorical(smoothing=0.0)
    >>> emission.learn([np.array([[1], [6], [6]]), ["six"]], n_jobs=1).values.tolist()
    [0, 1, 1, 2]
    >>> emission.symbols
    [1, 6, 'six']
    >>> emission.read([[6, 7]], n_jobs=1).values.tolist()  # 3 is the row of unknown symbols
    [1, 3]
    """

    kind: ClassVar[str] = "categorical"
    symbols: list[int | str]
    """The distinct symbols, sorted: integers, then strings."""

    def learn(self, X: list[Any], n_jobs: int) -> Observations:
        """Collect the distinct symbols."""
        parts, lengths = _read_symbols(X)
        distinct = set().union(*(np.unique(x).tolist() if _is_array(x) else x for x in parts))
        self.symbols = sorted(distinct, key=lambda symbol: (isinstance(symbol, str), symbol))
        return Observations(lengths, self._encode(parts))

    def read(self, X: list[Any], n_jobs: int) -> Observations:
        """Look up the symbols."""
        parts, lengths = _read_symbols(X)
        return Observations(lengths, self._encode(parts))

    def names(self) -> list[str]:
        """Return the symbols as text."""
        return [str(symbol) for symbol in self.symbols]

    def _encode(self, parts: list[Any]) -> NDArray[np.int64]:
        """Return the row of each symbol in the table, shape (positions,)."""
        index = {symbol: n for n, symbol in enumerate(self.symbols)}
        unknown = len(self.symbols)
        if all(map(_is_array, parts)):
            values, positions = np.unique(np.concatenate(parts), return_inverse=True)
            rows = np.array([index.get(value, unknown) for value in values.tolist()], np.int64)
            return rows[positions]
        symbols = (symbol for x in parts for symbol in (x.tolist() if _is_array(x) else x))
        return np.fromiter((index.get(symbol, unknown) for symbol in symbols), np.int64)

    def start(
        self,
        values: Any,
        allowed: NDArray[np.bool_],
        weight: Floats,
        generator: np.random.Generator,
    ) -> Floats:
        """Give each symbol a random preference for states."""
        preferences = generator.exponential(size=(len(self.symbols), allowed.shape[1])) + 1e-3
        p: Floats = allowed * preferences[values]
        p *= weight[:, None] / p.sum(axis=1, keepdims=True)
        self.maximise(self.statistics(values, p))
        return p

    def log_likelihood(self, values: Any) -> Floats:
        """log p(symbol | y)."""
        table = self.log_probabilities.copy()
        table[-1] = self.unknown_scores
        scores: Floats = np.take(table, values, axis=0)
        return scores

    def statistics(self, values: Any, p: Floats) -> Any:
        """Return the expected counts, shape (symbols, states)."""
        n_symbols = len(self.symbols)
        return count_symbols(values, p, n_symbols + 1)[:n_symbols]

    def sample(self, states: NDArray[np.int64], generator: np.random.Generator) -> list[Any]:
        """Draw symbols of the training data; unknown symbols are never drawn."""
        cumulative = np.cumsum(np.exp(self.log_probabilities[:-1]), axis=0).T  # (states, symbols)
        rows = np.empty(len(states), dtype=np.int64)
        for state in np.unique(states):
            positions = np.flatnonzero(states == state)
            limits = cumulative[state]
            if not limits[-1] > 0:  # no symbol was ever counted in this state
                limits = np.arange(1.0, len(limits) + 1)
            rows[positions] = np.searchsorted(
                limits, limits[-1] * generator.random(len(positions)), side="right"
            )
        return [self.symbols[row] for row in rows.tolist()]

    def to_parts(self) -> Parts:
        """Return the symbols and the table."""
        return {"symbols": self.symbols}, {"log_probabilities": self.log_probabilities}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors, n_states: int) -> Self:
        """Return the distribution with these parts."""
        emission = cls()
        symbols = meta["symbols"]
        if not isinstance(symbols, list) or not symbols or not all(map(_is_symbol, symbols)):
            raise InputError("symbols must be a list of integers and strings")
        if len(set(symbols)) != len(symbols):
            raise InputError("symbols must be distinct")
        emission.symbols = symbols
        emission.read_table(tensors, "log_probabilities", len(symbols), n_states)
        return emission


def is_symbols(x: Any) -> bool:
    """Return whether the items of a sequence are integers, which are symbols; not rows of counts.

    >>> is_symbols(np.array([[1], [6]])), is_symbols([1, 6]), is_symbols(np.array([[1, 6]]))
    (True, True, False)
    """
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "iu" and (x.ndim == 1 or (x.ndim == 2 and x.shape[1] == 1))
    is_list = isinstance(x, list | tuple) and len(x) > 0
    return is_list and all(_is_symbol(symbol) and not isinstance(symbol, str) for symbol in x)


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray)


def _is_symbol(symbol: Any) -> bool:
    return isinstance(symbol, str | int | np.integer) and not isinstance(symbol, bool)


def _read_symbols(X: list[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return each sequence as an array of integers or a list of symbols, and all lengths."""
    parts = [_read_sequence(x, i) for i, x in enumerate(X)]
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    check_not_empty(lengths)
    return parts, lengths


def _read_sequence(x: Any, i: int) -> Any:
    if isinstance(x, np.ndarray) and x.dtype.kind in "iu":
        if not is_symbols(x):
            raise InputError(
                f"sequence {{sequence}} has shape {x.shape}: categorical observations must be "
                '(length,) or (length, 1); for vectors, write emissions="gaussian" or "poisson"',
                sequence=i,
            )
        return x.ravel()
    if not isinstance(x, list | tuple):
        kind = x.dtype if isinstance(x, np.ndarray) else type(x).__name__
        raise InputError(
            f"sequence {{sequence}} must be a list or an array of integers or strings, not {kind}",
            sequence=i,
        )
    for t, symbol in enumerate(x):
        if not _is_symbol(symbol):
            raise InputError(
                f"sequence {{sequence}}, position {t}: a symbol must be an integer or a str, "
                f"not {symbol!r:.60}",
                sequence=i,
            )
    return [symbol if isinstance(symbol, str) else int(symbol) for symbol in x]
