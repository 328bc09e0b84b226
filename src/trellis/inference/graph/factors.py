"""A factor graph: score(y) = Σ_f θ_f(y_f), p(y) = exp(score(y)) / Z."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis import _core
from trellis.checks import MAX_SCORE, is_not_a_score
from trellis.errors import InputError
from trellis.inference.graph.results import Doubles, Integers

__all__ = ["Factor", "FactorGraph"]

_MAX_ORDER = 32  # as kMaxOrder in the core; NumPy before version 2 has at most 32 axes


class Factor(NamedTuple):
    """One entry of a graph: one factor, or several factors of the same shape."""

    variables: Integers
    """``(factors, order)``"""
    table: Doubles
    """``(1, labels, …)`` if all factors share it, otherwise ``(factors, labels, …)``"""
    single: bool
    """True if the caller passed one factor, without an axis for several."""

    @property
    def size(self) -> int:
        """The number of entries of one table."""
        return int(np.prod(self.table.shape[1:]))


class FactorGraph:
    """Discrete variables, and factors over subsets of them, each a table of log scores.

    score(y) = Σ_f θ_f(y_f). A higher score is better, -inf forbids, NaN and +inf are errors.

    ``cardinalities`` is the number of labels of each variable. ``factors`` is a list of pairs
    ``(variables, table)``: ``variables`` are the variables of the factor, and ``table`` has one
    axis for each of them. Many factors of the same shape can be one pair: ``variables`` is then
    ``(F, order)``, and ``table`` is ``(F, labels, …)``, or one table that all share.

    >>> agree = np.log([[0.8, 0.2], [0.2, 0.8]])
    >>> graph = FactorGraph([2, 2, 2], [((0,), np.log([0.9, 0.1])), ([[0, 1], [1, 2]], agree)])
    >>> round(graph.score([0, 0, 0]), 4) == round(float(np.log(0.9 * 0.8 * 0.8)), 4)
    True
    """

    def __init__(self, cardinalities: ArrayLike, factors: Iterable[tuple[Any, Any]] = ()) -> None:
        self.cardinalities = _validate_cardinalities(cardinalities)
        self.entries = [
            _validate_entry(i, pair, self.cardinalities) for i, pair in enumerate(_as_list(factors))
        ]

    def __getstate__(self) -> dict[str, Any]:
        # The objects of the core cannot be pickled. They are built again at their first use.
        return {k: v for k, v in self.__dict__.items() if k not in ("core", "plans")}

    @classmethod
    def pairwise(cls, unary: ArrayLike, edges: ArrayLike, tables: ArrayLike) -> FactorGraph:
        """Return a graph of n variables with L labels each, and a factor for each edge.

        ``unary`` is (n, L), ``edges`` (E, 2), and ``tables`` (L, L) or (E, L, L).

        >>> graph = FactorGraph.pairwise(np.zeros((3, 2)), [[0, 1], [1, 2]], np.zeros((2, 2)))
        >>> len(graph), graph.factors
        (3, 5)
        """
        scores = _as_floats(unary, "unary")
        if scores.ndim != 2:
            raise InputError(f"unary must be (variables, labels), not of shape {scores.shape}")
        n_variables, n_labels = scores.shape
        factors: list[tuple[Any, Any]] = [(np.arange(n_variables)[:, None], scores)]
        edge_variables = np.asarray(edges)
        if edge_variables.size:
            factors.append((edge_variables, tables))
        elif edge_variables.ndim not in (1, 2):
            raise InputError(f"edges must be (edges, 2), not of shape {edge_variables.shape}")
        return cls(np.full(n_variables, n_labels), factors)

    def rescored(self, tables: Doubles) -> FactorGraph:
        """Return a graph with the same structure and new scores, concatenated as in `tables`.

        Shared tables stay shared. The analysis of the structure (`core`, `plans`) is reused.

        >>> graph = FactorGraph([2], [((0,), [0.0, 0.0])])
        >>> graph.rescored(np.array([0.0, 1.5])).score([1])
        1.5
        """
        flat = _as_floats(tables, "tables")
        if flat.shape != self.tables.shape:
            raise InputError(f"tables have shape {flat.shape}: must be {self.tables.shape}")
        invalid = np.flatnonzero(is_not_a_score(flat))
        if invalid.size:
            raise InputError(f"the array of tables{describe_bad_score(flat, (int(invalid[0]),))}")
        # __init__ is not called: it would validate the structure again in every training step.
        graph = object.__new__(FactorGraph)
        graph.__dict__ = {**self.__dict__, "core": self.core, "tables": flat, "plans": self.plans}
        graph.entries, begin = [], 0
        for entry in self.entries:
            table = flat[begin : begin + entry.table.size].reshape(entry.table.shape)
            graph.entries.append(entry._replace(table=table))
            begin += entry.table.size
        return graph

    @cached_property
    def plans(self) -> dict[int, tuple[bool, int, float]]:
        """For each limit of table entries: whether elimination meets it, its width, its entries."""
        return {}

    def __len__(self) -> int:
        """Return the number of variables."""
        return len(self.cardinalities)

    @property
    def factors(self) -> int:
        """The number of factors."""
        return sum(len(entry.variables) for entry in self.entries)

    @property
    def order(self) -> int:
        """The largest number of variables of a factor."""
        return max((entry.variables.shape[1] for entry in self.entries), default=0)

    def score(self, labels: ArrayLike) -> float:
        """Σ_f θ_f(y_f) of one labelling.

        >>> FactorGraph([2], [((0,), [0.0, 1.5])]).score([1])
        1.5
        """
        return self.core.score(self.tables, self.checked(labels))

    def neighbours(self, variable: int) -> list[int]:
        """Return the variables that share a factor with this one: its Markov blanket.

        >>> FactorGraph([2] * 4, [([[0, 1], [1, 2], [2, 3]], np.zeros((2, 2)))]).neighbours(1)
        [0, 2]
        """
        if not 0 <= variable < len(self):
            raise InputError(
                f"there is no variable {variable}: the graph has {len(self)} variables"
            )
        variables: set[int] = set()
        for entry in self.entries:
            rows = entry.variables[(entry.variables == variable).any(axis=1)]
            variables.update(rows.ravel().tolist())
        return sorted(variables - {variable})

    # ---- for the algorithms

    @cached_property
    def tables(self) -> Doubles:
        """All tables, flattened and concatenated."""
        return np.concatenate([np.zeros(0), *(entry.table.ravel() for entry in self.entries)])

    @cached_property
    def core(self) -> _core.Graph:
        """The structure of the graph, without scores, as an object of the native core."""
        begin, scope, table_offsets, offset = [np.zeros(1, dtype=np.int64)], [], [], 0
        for entry in self.entries:
            count, order = entry.variables.shape
            begin.append(np.arange(1, count + 1, dtype=np.int64) * order + begin[-1][-1])
            scope.append(entry.variables.ravel())
            step = entry.size if len(entry.table) > 1 else 0  # 0: all factors share one table
            table_offsets.append(offset + step * np.arange(count, dtype=np.int64))
            offset += entry.table.size
        return _core.Graph(
            self.cardinalities, *(_concatenate(arrays) for arrays in (begin, scope, table_offsets))
        )

    @cached_property
    def uniform(self) -> bool:
        """True if all variables have the same number of labels."""
        return bool((self.cardinalities == self.most_labels).all())

    @cached_property
    def most_labels(self) -> int:
        """The largest number of labels of a variable."""
        return int(self.cardinalities.max(initial=0))

    def rows(self, flat: Doubles, fill: float = 0.0) -> Doubles:
        """Return a row per variable, padded with ``fill``, from the values of all variables."""
        if self.uniform:
            return flat.reshape(len(self), self.most_labels)
        padded_rows = np.full((len(self), self.most_labels), fill)
        padded_rows[np.arange(self.most_labels) < self.cardinalities[:, None]] = flat
        return padded_rows

    def split(self, flat: Doubles) -> list[Doubles]:
        """Return one array per entry of ``factors``, from the values of all factors."""
        arrays, begin = [], 0
        for entry in self.entries:
            shape = (len(entry.variables), *entry.table.shape[1:])
            end = begin + int(np.prod(shape))
            values = flat[begin:end].reshape(shape)
            arrays.append(values[0] if entry.single else values)
            begin = end
        return arrays

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """The total number of labels of all variables, and of table entries of all factors."""
        n_entries = sum(len(entry.variables) * entry.size for entry in self.entries)
        return int(self.cardinalities.sum()), n_entries

    def checked(self, labels: Any) -> Integers:
        """Validate labels and return them as integers, shape (variables,)."""
        try:
            array = np.asarray(labels)
        except ValueError:
            raise InputError("labels must be one integer for each variable") from None
        if array.shape != (len(self),):
            raise InputError(f"labels have shape {array.shape}: must be {(len(self),)}")
        if len(self) == 0:
            return np.zeros(0, dtype=np.int64)
        if array.dtype.kind not in "iu":
            raise InputError(f"labels must be integers, not {array.dtype}")
        invalid = np.flatnonzero((array < 0) | (array >= self.cardinalities))
        if invalid.size:
            v = int(invalid[0])
            raise InputError(
                f"variable {v} has label {array[v]}: must be 0 to {self.cardinalities[v] - 1}"
            )
        return array.astype(np.int64)


def _concatenate(arrays: Sequence[Integers]) -> Integers:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays])


def _as_list(factors: Any) -> list[Any]:
    if isinstance(factors, str | bytes) or not isinstance(factors, Iterable):
        raise InputError(f"factors must be a list of (variables, table), not {factors!r:.60}")
    return list(factors)


def _validate_cardinalities(value: Any) -> Integers:
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError("cardinalities must be a list of integers") from None
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(f"cardinalities must be a list of integers, not {value!r:.60}")
    invalid = np.flatnonzero(array < 1) if array.size else array
    if invalid.size:
        raise InputError(
            f"variable {invalid[0]} has {array[invalid[0]]} labels: must be at least 1"
        )
    return array.astype(np.int64)


def _as_floats(value: Any, name: str) -> Doubles:
    try:
        return np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers, not {value!r:.60}") from None


def _validate_entry(i: int, pair: Any, cardinalities: Integers) -> Factor:
    """Validate entry i of ``factors``."""
    try:
        scope, table = pair
        variables = np.asarray(scope)
    except (TypeError, ValueError):
        raise InputError(f"factor {i} must be a pair (variables, table)") from None
    is_single = variables.ndim == 1
    rows = variables[None] if is_single else variables
    if rows.ndim != 2 or rows.shape[1] == 0 or rows.dtype.kind not in "iu":
        raise InputError(
            f"factor {i}: variables must be integers, (order,) or (factors, order), "
            f"not {rows.dtype} of shape {variables.shape}"
        )
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    _check_variables(i, rows, is_single, len(cardinalities))
    return Factor(rows, _validate_table(i, table, rows, is_single, cardinalities), is_single)


def _factor_name(i: int, row: int, single: bool) -> str:
    return f"factor {i}" if single else f"factor {i}, row {row}"


def _check_variables(i: int, rows: Integers, single: bool, count: int) -> None:
    invalid = np.argwhere((rows < 0) | (rows >= count))
    if invalid.size:
        row, slot = invalid[0]
        raise InputError(
            f"{_factor_name(i, row, single)} has variable {rows[row, slot]}, "
            f"but the graph has {count} variables"
        )
    order = rows.shape[1]
    if order > _MAX_ORDER:
        raise InputError(f"factor {i} has {order} variables: at most {_MAX_ORDER} are supported")
    sorted_rows = np.sort(rows, axis=1)
    repeated = np.argwhere(sorted_rows[:, 1:] == sorted_rows[:, :-1])
    if repeated.size:
        row, slot = repeated[0]
        raise InputError(
            f"{_factor_name(i, row, single)} has variable {sorted_rows[row, slot]} twice"
        )


def _validate_table(
    i: int, value: Any, rows: Integers, single: bool, cardinalities: Integers
) -> Doubles:
    table = _as_floats(value, f"factor {i}: the table")
    row_shapes = cardinalities[rows]
    different_rows = np.flatnonzero((row_shapes != row_shapes[:1]).any(axis=1))
    if different_rows.size:
        row = int(different_rows[0])
        raise InputError(
            f"factor {i}: row {row} has variables of {_join_sizes(row_shapes[row])} labels, "
            f"row 0 of {_join_sizes(row_shapes[0])}: all rows of a factor must have the same shape"
        )
    shape = tuple(row_shapes[0].tolist()) if len(row_shapes) else table.shape[-rows.shape[1] :]
    if single or table.ndim == rows.shape[1]:
        table = table[None]
    if table.shape[1:] != shape or len(table) not in (1, len(rows)):
        alternative = "" if single else f", or ({len(rows)}, {_join_sizes(shape)})"
        raise InputError(
            f"factor {i}: the table has shape {np.shape(value)}: "
            f"must be ({_join_sizes(shape)}){alternative}"
        )
    invalid = np.argwhere(is_not_a_score(table))
    if invalid.size:
        shown_table, index = (table[0], invalid[0][1:]) if len(table) == 1 else (table, invalid[0])
        raise InputError(
            f"factor {i}: the table{describe_bad_score(shown_table, tuple(index.tolist()))}"
        )
    return table


def describe_bad_score(table: Doubles, index: tuple[int, ...]) -> str:
    """Return the end of the message about a score that is NaN, +inf or too large."""
    value = table[index]
    if np.isfinite(value):
        return (
            f" overflows: it is {value} at {list(index)}, but finite scores must be within "
            f"±{MAX_SCORE:g}"
        )
    return f" is {value} at {list(index)}: must be finite or -inf"


def _join_sizes(sizes: NDArray[Any] | tuple[int, ...]) -> str:
    return ", ".join(str(int(size)) for size in sizes)
