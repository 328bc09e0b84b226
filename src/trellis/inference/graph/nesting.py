"""Factors inside other factors: θ_g + θ_f in place of θ_g and θ_f, if f has only variables of g.

Messages pass between a factor and single variables. So a pair inside a clique of three forms a loop
with it, and both sum-product and the tree-reweighted bound lose accuracy there. Adding the table of
the pair to that of the clique removes the loop, and no labelling changes its score.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.inference.graph.factors import Factor, FactorGraph
from trellis.inference.graph.results import Doubles, Integers

__all__ = ["Merged", "Nested", "find_nested"]


class Nested(NamedTuple):
    """Factors of one entry of a graph, each inside a factor of another entry."""

    entry: int
    rows: Integers
    """``(n,)``: the inner factors, as rows of ``entry``."""
    outer_entry: int
    outer_rows: Integers
    """``(n,)``: the factors that contain them, as rows of ``outer_entry``."""
    axes: tuple[int, ...]
    """For each variable of an inner factor, its axis in the table of the outer factor."""


class Merged:
    """A graph without nested factors, with the same scores of all labellings.

    >>> pair, triple = ((1, 0), [[1.0, 0.0], [0.0, 2.0]]), ((0, 1, 2), np.zeros((2, 2, 2)))
    >>> graph = FactorGraph([2, 2, 2], [pair, triple])
    >>> merged = Merged(graph).rescored(graph)
    >>> merged.factors, merged.score([1, 1, 0])
    (1, 2.0)
    """

    def __init__(self, graph: FactorGraph) -> None:
        self._entries = graph.entries
        self._nested = find_nested(graph)
        self._is_outer = {nested.outer_entry for nested in self._nested}
        self._kept = [np.ones(len(entry.variables), dtype=np.bool_) for entry in graph.entries]
        for nested in self._nested:
            self._kept[nested.entry][nested.rows] = False
        # The structure is validated and compiled once; `rescored` then fills in the scores.
        self._structure = graph
        if self._nested:
            self._structure = FactorGraph(
                graph.cardinalities,
                [
                    (entry.variables[kept], table)
                    for entry, kept, table in zip(
                        graph.entries, self._kept, self._sum_tables(graph), strict=True
                    )
                    if kept.any()
                ],
            )

    def rescored(self, graph: FactorGraph) -> FactorGraph:
        """Return the merged graph for the scores of ``graph``, which has the same structure."""
        if not self._nested:
            return graph
        tables = zip(self._kept, self._sum_tables(graph), strict=True)
        flat = [table.ravel() for kept, table in tables if kept.any()]
        return self._structure.rescored(np.concatenate(flat))

    def _sum_tables(self, graph: FactorGraph) -> list[Doubles]:
        """Return the tables of the kept factors of each entry, with nested tables added."""
        tables = [
            _separate(entry).copy() if i in self._is_outer else entry.table
            for i, entry in enumerate(graph.entries)
        ]
        for nested in self._nested:
            inner, outer = graph.entries[nested.entry], tables[nested.outer_entry]
            rows = _expand(_separate(inner)[nested.rows], nested.axes, outer.ndim - 1)
            np.add.at(
                outer, nested.outer_rows, np.broadcast_to(rows, (len(rows), *outer.shape[1:]))
            )
        return [
            table[kept] if len(table) == len(kept) else table
            for table, kept in zip(tables, self._kept, strict=True)
        ]

    def unmerged(self, beliefs: Doubles) -> Doubles:
        """Return the marginals of all factors of the first graph, concatenated.

        ``beliefs`` are those of the factors of the merged graph, concatenated.
        """
        if not self._nested:
            return beliefs
        shapes = [(len(entry.variables), *entry.table.shape[1:]) for entry in self._entries]
        marginals, begin = [np.empty(shape) for shape in shapes], 0
        for out, kept in zip(marginals, self._kept, strict=True):
            count = int(kept.sum()) * int(np.prod(out.shape[1:]))
            out[kept] = beliefs[begin : begin + count].reshape(-1, *out.shape[1:])
            begin += count
        for nested in self._nested:
            tables = marginals[nested.outer_entry][nested.outer_rows]
            marginals[nested.entry][nested.rows] = _sum_other_axes(tables, nested.axes)
        return np.concatenate([np.zeros(0), *(table.ravel() for table in marginals)])


def find_nested(graph: FactorGraph) -> list[Nested]:
    """Return the factors of two and more variables that are inside another one.

    Of several factors with the same variables, the first contains the others. Factors of one
    variable are never returned: they are part of every spanning forest.
    """
    scopes = [
        (-entry.variables.shape[1], i, row, tuple(entry.variables[row].tolist()))
        for i, (entry, rows) in enumerate(zip(graph.entries, _sharing_rows(graph), strict=True))
        for row in rows.tolist()
    ]
    outer_of: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}  # variable -> outer factors
    groups: dict[tuple[int, int, tuple[int, ...]], list[tuple[int, int]]] = {}
    for _, i, row, scope in sorted(scopes):  # the largest factors first
        candidates = min((outer_of.get(v, []) for v in scope), key=len)
        outer = next((c for c in candidates if set(scope) <= set(c[2])), None)
        if outer is None:
            for v in scope:
                outer_of.setdefault(v, []).append((i, row, scope))
        else:
            axes = tuple(outer[2].index(v) for v in scope)
            groups.setdefault((i, outer[0], axes), []).append((row, outer[1]))
    return [
        Nested(i, np.array(rows)[:, 0], outer_entry, np.array(rows)[:, 1], axes)
        for (i, outer_entry, axes), rows in groups.items()
    ]


def _sharing_rows(graph: FactorGraph) -> list[Integers]:
    """Return the rows of each entry that share two variables with another factor.

    Only these factors can be nested or contain a nested one. Usually there are few of them, so the
    slow search in `find_nested` has few candidates.
    """
    keys = []
    for entry in graph.entries:
        rows = np.sort(entry.variables, axis=1)
        pairs = itertools.combinations(rows.T, 2)
        keys.append([a * len(graph) + b for a, b in pairs])
    all_keys = [np.zeros(0, dtype=np.int64), *itertools.chain.from_iterable(keys)]
    _, number, counts = np.unique(np.concatenate(all_keys), return_inverse=True, return_counts=True)
    is_shared, begin, result = counts[number.ravel()] > 1, 0, []
    for entry, columns in zip(graph.entries, keys, strict=True):
        end = begin + len(columns) * len(entry.variables)
        shared = is_shared[begin:end].reshape(len(columns), len(entry.variables))
        result.append(np.flatnonzero(shared.any(axis=0)))
        begin = end
    return result


def _separate(entry: Factor) -> NDArray[np.float64]:
    """Return one table for each factor of an entry, also if they share one."""
    return np.broadcast_to(entry.table, (len(entry.variables), *entry.table.shape[1:]))


def _expand(tables: Doubles, axes: tuple[int, ...], order: int) -> Doubles:
    """Return ``tables`` with an axis for each of ``order`` outer variables; new axes of size 1."""
    ascending = np.argsort(axes)
    sizes = [1] * order
    for axis, size in zip(axes, tables.shape[1:], strict=True):
        sizes[axis] = size
    return tables.transpose(0, *(1 + ascending)).reshape(len(tables), *sizes)


def _sum_other_axes(tables: Doubles, axes: tuple[int, ...]) -> Doubles:
    """Sum the tables over all axes except ``axes``; the result has the axes in this order."""
    others = tuple(1 + axis for axis in range(tables.ndim - 1) if axis not in axes)
    ranks = np.argsort(np.argsort(axes))
    return np.asarray(tables.sum(axis=others).transpose(0, *(1 + ranks)))
