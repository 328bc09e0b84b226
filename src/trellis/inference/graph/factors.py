"""A factor graph: score(y) = Σ_f θ_f(y_f), p(y) = exp(score(y)) / Z."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.inference.graph.results import Doubles, Integers

__all__ = ["Factor", "FactorGraph"]

_MOST_ORDER = 32  # as in the core


class Factor(NamedTuple):
    """One entry of a graph: one factor, or several of one shape."""

    variables: Integers
    """``(factors, order)``"""
    table: Doubles
    """``(1, labels, …)`` shared by all, or ``(factors, labels, …)``"""
    single: bool
    """Whether it was given as one factor."""

    @property
    def size(self) -> int:
        """Entries of one table."""
        return int(np.prod(self.table.shape[1:]))


class FactorGraph:
    """Discrete variables and factors over some of them, each a table of log scores.

    score(y) = Σ_f θ_f(y_f): higher is better, -inf forbids, NaN and +inf are errors.

    ``cardinalities`` has the number of labels of each variable. ``factors`` is a list of pairs
    ``(variables, table)``: ``variables`` is the factor's variables, and ``table`` has an axis for
    each of them. Many factors of one shape go into one pair: ``variables`` is then ``(F, order)``
    and ``table`` one for each ``(F, labels, …)``, or one that all share.

    >>> agree = np.log([[0.8, 0.2], [0.2, 0.8]])
    >>> graph = FactorGraph([2, 2, 2], [((0,), np.log([0.9, 0.1])), ([[0, 1], [1, 2]], agree)])
    >>> round(graph.score([0, 0, 0]), 4) == round(float(np.log(0.9 * 0.8 * 0.8)), 4)
    True
    """

    def __init__(self, cardinalities: Any, factors: Iterable[tuple[Any, Any]] = ()) -> None:
        self.cardinalities = _cardinalities(cardinalities)
        self.entries = [
            _entry(i, pair, self.cardinalities) for i, pair in enumerate(_listed(factors))
        ]

    @classmethod
    def pairwise(cls, unary: Any, edges: Any, tables: Any) -> "FactorGraph":
        """Variables of L labels each: ``unary`` (n, L), ``edges`` (E, 2), ``tables`` (L, L) or (E, L, L).

        >>> graph = FactorGraph.pairwise(np.zeros((3, 2)), [[0, 1], [1, 2]], np.zeros((2, 2)))
        >>> len(graph), graph.factors
        (3, 5)
        """  # noqa: E501
        scores = _numbers(unary, "unary")
        if scores.ndim != 2:
            raise InputError(f"unary must be (variables, labels), not of shape {scores.shape}")
        n, labels = scores.shape
        own = [(np.arange(n)[:, None], scores)]
        pairs = np.asarray(edges)
        if pairs.size:
            own.append((pairs, tables))
        elif pairs.ndim not in (1, 2):
            raise InputError(f"edges must be (edges, 2), not of shape {pairs.shape}")
        return cls(np.full(n, labels), own)

    def rescored(self, tables: Doubles) -> "FactorGraph":
        """The same structure with other scores, one table after the other as in `tables`.

        Shared tables stay shared. What was found out about the structure is not found out again.

        >>> graph = FactorGraph([2], [((0,), [0.0, 0.0])])
        >>> graph.rescored(np.array([0.0, 1.5])).score([1])
        1.5
        """
        flat = _numbers(tables, "tables")
        if flat.shape != self.tables.shape:
            raise InputError(f"tables have shape {flat.shape}: must be {self.tables.shape}")
        if np.isnan(flat).any() or (flat == np.inf).any():
            raise InputError("tables must not be NaN or +inf")
        other = object.__new__(FactorGraph)
        other.__dict__ = {**self.__dict__, "core": self.core, "tables": flat, "plans": self.plans}
        other.entries, begin = [], 0
        for entry in self.entries:
            own = flat[begin : begin + entry.table.size].reshape(entry.table.shape)
            other.entries.append(entry._replace(table=own))
            begin += entry.table.size
        return other

    @cached_property
    def plans(self) -> dict[int, tuple[bool, int, float]]:
        """By the most entries: whether elimination fits, the width, the entries."""
        return {}

    def __len__(self) -> int:
        """How many variables there are."""
        return len(self.cardinalities)

    @property
    def factors(self) -> int:
        """How many factors there are."""
        return sum(len(entry.variables) for entry in self.entries)

    @property
    def order(self) -> int:
        """The most variables that a factor has."""
        return max((entry.variables.shape[1] for entry in self.entries), default=0)

    def score(self, labels: Any) -> float:
        """Σ_f θ_f(y_f) of one labelling.

        >>> FactorGraph([2], [((0,), [0.0, 1.5])]).score([1])
        1.5
        """
        return self.core.score(self.tables, self.checked(labels))

    def neighbours(self, variable: int) -> list[int]:
        """The variables that share a factor with this one: its Markov blanket.

        >>> FactorGraph([2] * 4, [([[0, 1], [1, 2], [2, 3]], np.zeros((2, 2)))]).neighbours(1)
        [0, 2]
        """
        if not 0 <= variable < len(self):
            raise InputError(f"there is no variable {variable}: the graph has {len(self)}")
        found: set[int] = set()
        for entry in self.entries:
            rows = entry.variables[(entry.variables == variable).any(axis=1)]
            found.update(rows.ravel().tolist())
        return sorted(found - {variable})

    # ---- for the algorithms

    @cached_property
    def tables(self) -> Doubles:
        """All tables, one after the other."""
        return np.concatenate([np.zeros(0), *(entry.table.ravel() for entry in self.entries)])

    @cached_property
    def core(self) -> _core.Graph:
        """The structure alone, as the native core has it."""
        begin, scope, place, first = [np.zeros(1, dtype=np.int64)], [], [], 0
        for entry in self.entries:
            count, order = entry.variables.shape
            begin.append(np.arange(1, count + 1, dtype=np.int64) * order + begin[-1][-1])
            scope.append(entry.variables.ravel())
            own = len(entry.table) > 1
            place.append(first + entry.size * np.arange(count, dtype=np.int64) * own)
            first += entry.table.size
        return _core.Graph(self.cardinalities, *(_joined(a) for a in (begin, scope, place)))

    @cached_property
    def uniform(self) -> bool:
        """Whether all variables have the same number of labels."""
        return bool((self.cardinalities == self.most_labels).all())

    @cached_property
    def most_labels(self) -> int:
        """The most labels that a variable has."""
        return int(self.cardinalities.max(initial=0))

    def rows(self, flat: Doubles, fill: float = 0.0) -> Doubles:
        """One row a variable, from the labels of all variables one after the other."""
        if self.uniform:
            return flat.reshape(len(self), self.most_labels)
        out = np.full((len(self), self.most_labels), fill)
        out[np.arange(self.most_labels) < self.cardinalities[:, None]] = flat
        return out

    def split(self, flat: Doubles) -> list[Doubles]:
        """As `factors` were given, from the entries of all factors one after the other."""
        out, begin = [], 0
        for entry in self.entries:
            shape = (len(entry.variables), *entry.table.shape[1:])
            end = begin + int(np.prod(shape))
            own = flat[begin:end].reshape(shape)
            out.append(own[0] if entry.single else own)
            begin = end
        return out

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """Labels of all variables, and entries of all factors."""
        entries = sum(len(e.variables) * e.size for e in self.entries)
        return int(self.cardinalities.sum()), entries

    def checked(self, labels: Any) -> Integers:
        """Labels as integers in range."""
        try:
            found = np.asarray(labels)
        except ValueError:
            raise InputError("labels must be one integer for each variable") from None
        if found.shape != (len(self),):
            raise InputError(f"labels have shape {found.shape}: must be {(len(self),)}")
        if len(self) == 0:
            return np.zeros(0, dtype=np.int64)
        if found.dtype.kind not in "iu":
            raise InputError(f"labels must be integers, not {found.dtype}")
        bad = np.flatnonzero((found < 0) | (found >= self.cardinalities))
        if bad.size:
            v = int(bad[0])
            raise InputError(
                f"variable {v} has label {found[v]}, but only {self.cardinalities[v]} labels"
            )
        return found.astype(np.int64)


def _joined(parts: Sequence[Integers]) -> Integers:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _listed(factors: Any) -> list[Any]:
    if isinstance(factors, str | bytes) or not isinstance(factors, Iterable):
        raise InputError(f"factors must be a list of (variables, table), not {factors!r:.60}")
    return list(factors)


def _cardinalities(given: Any) -> Integers:
    try:
        found = np.asarray(given)
    except ValueError:
        raise InputError("cardinalities must be a list of integers") from None
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InputError(f"cardinalities must be a list of integers, not {given!r:.60}")
    bad = np.flatnonzero(found < 1) if found.size else found
    if bad.size:
        raise InputError(f"variable {bad[0]} has {found[bad[0]]} labels: at least one is needed")
    return found.astype(np.int64)


def _numbers(given: Any, what: str) -> Doubles:
    try:
        return np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be an array of numbers, not {given!r:.60}") from None


def _entry(i: int, pair: Any, cardinalities: Integers) -> Factor:
    try:
        given, table = pair
        variables = np.asarray(given)
    except (TypeError, ValueError):
        raise InputError(f"factor {i} must be a pair (variables, table)") from None
    single = variables.ndim == 1
    rows = variables[None] if single else variables
    if rows.ndim != 2 or rows.shape[1] == 0 or rows.dtype.kind not in "iu":
        raise InputError(
            f"factor {i}: variables must be integers, (order,) or (factors, order), "
            f"not {rows.dtype} of shape {variables.shape}"
        )
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    _check_variables(i, rows, single, len(cardinalities))
    return Factor(rows, _table(i, table, rows, single, cardinalities), single)


def _name(i: int, row: int, single: bool) -> str:
    return f"factor {i}" if single else f"factor {i}, row {row}"


def _check_variables(i: int, rows: Integers, single: bool, count: int) -> None:
    bad = np.argwhere((rows < 0) | (rows >= count))
    if bad.size:
        r, k = bad[0]
        raise InputError(
            f"{_name(i, r, single)} has variable {rows[r, k]}, but the graph has {count}"
        )
    order = rows.shape[1]
    if order > _MOST_ORDER:
        raise InputError(f"factor {i} has {order} variables: at most {_MOST_ORDER} are possible")
    ordered = np.sort(rows, axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if twice.size:
        r, k = twice[0]
        raise InputError(f"{_name(i, r, single)} has variable {ordered[r, k]} twice")


def _table(i: int, given: Any, rows: Integers, single: bool, cardinalities: Integers) -> Doubles:
    table = _numbers(given, f"factor {i}: the table")
    labels = cardinalities[rows]
    differ = np.flatnonzero((labels != labels[:1]).any(axis=1))
    if differ.size:
        r = int(differ[0])
        raise InputError(
            f"factor {i}: row {r} has variables of {_shape(labels[r])} labels, row 0 of "
            f"{_shape(labels[0])}: factors of one shape share an entry"
        )
    shape = tuple(labels[0].tolist()) if len(labels) else table.shape[-rows.shape[1] :]
    if single or table.ndim == rows.shape[1]:
        table = table[None]
    if table.shape[1:] != shape or len(table) not in (1, len(rows)):
        many = "" if single else f", or ({len(rows)}, {_shape(shape)})"
        raise InputError(
            f"factor {i}: the table has shape {np.shape(given)}: must be ({_shape(shape)}){many}"
        )
    bad = np.argwhere(np.isnan(table) | (table == np.inf))
    if bad.size:
        at = tuple(bad[0].tolist())
        where = list(at[1:]) if len(table) == 1 else list(at)
        raise InputError(f"factor {i}: the table is {table[at]} at {where}")
    return table


def _shape(sizes: NDArray[Any] | tuple[int, ...]) -> str:
    return ", ".join(str(int(size)) for size in sizes)
