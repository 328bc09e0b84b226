"""Malformed graphs and wrong arguments raise an error that names the place and the value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis import _core
from trellis.errors import InputError
from trellis.inference import graph
from trellis.inference.graph import FactorGraph

TWO = np.zeros((2, 2))
BAD_GRAPHS: dict[str, tuple[Any, Any, str]] = {
    "cardinalities of text": ("ab", [], "list of integers"),
    "cardinalities that are not whole": ([2.0, 2.0], [], "list of integers"),
    "cardinalities of two axes": ([[2], [2]], [], "list of integers"),
    "ragged cardinalities": ([[2], [2, 3]], [], "list of integers"),
    "no labels": ([2, 0], [], "variable 1 has 0 labels"),
    "negative labels": ([-3], [], "variable 0 has -3 labels"),
    "factors of text": ([2], "factors", "list of"),
    "factors of a number": ([2], 7, "list of"),
    "a factor without a table": ([2], [((0,),)], "factor 0 must be a pair"),
    "a factor of three": ([2], [((0,), [0, 0], 1)], "factor 0 must be a pair"),
    "a missing variable": ([2, 2], [((0, 2), TWO)], "factor 0 has variable 2, but the graph has 2"),
    "a negative variable": ([2, 2], [((0, -1), TWO)], "factor 0 has variable -1"),
    "an edge to a missing node": (
        [2] * 3,
        [((0,), [0, 0]), ([[0, 1], [1, 3]], TWO)],
        "factor 1, row 1 has variable 3, but the graph has 3",
    ),
    "a variable twice": ([2, 2], [((1, 1), TWO)], "factor 0 has variable 1 twice"),
    "variables that are not whole": ([2], [((0.0,), [0, 0])], "factor 0: variables must be int"),
    "no variables": ([2], [((), 1.0)], "factor 0: variables must be"),
    "variables of three axes": ([2], [([[[0]]], [0, 0])], "factor 0: variables must be"),
    "a table too small": ([2, 3], [((0, 1), TWO)], r"shape \(2, 2\): must be \(2, 3\)"),
    "a table transposed": ([2, 3], [((0, 1), np.zeros((3, 2)))], r"must be \(2, 3\)"),
    "too few tables": (
        [2] * 3,
        [([[0, 1], [1, 2], [0, 2]], np.zeros((2, 2, 2)))],
        r"must be \(2, 2\), or \(3, 2, 2\)",
    ),
    "rows of different labels": (
        [2, 2, 3],
        [([[0, 1], [1, 2]], TWO)],
        "row 1 has variables of 2, 3 labels, row 0 of 2, 2",
    ),
    "a table of text": ([2], [((0,), "ab")], "factor 0: the table must be an array of numbers"),
    "nan": ([2, 2], [((0, 1), [[0, 0], [np.nan, 0]])], r"factor 0: the table is nan at \[1, 0\]"),
    "inf": ([2], [((0,), [0, np.inf])], r"factor 0: the table is inf at \[1\]"),
    "nan in one of many": (
        [2] * 3,
        [([[0, 1], [1, 2]], [TWO, np.full((2, 2), np.nan)])],
        r"factor 0: the table is nan at \[1, 0, 0\]",
    ),
}


@pytest.mark.parametrize("name", BAD_GRAPHS)
def test_malformed_graphs(name: str) -> None:
    cards, factors, message = BAD_GRAPHS[name]
    with pytest.raises(InputError, match=message):
        FactorGraph(cards, factors)


def test_too_many_variables_in_a_factor() -> None:
    with pytest.raises(InputError, match="33 variables"):
        FactorGraph([1] * 33, [(np.arange(33), np.zeros((1,) * 33))])


@pytest.mark.parametrize(
    ("unary", "edges", "tables", "message"),
    [
        (np.zeros(3), [[0, 1]], TWO, "unary must be"),
        (np.zeros((3, 2)), [0, 1, 2], TWO, "factor 1"),
        (np.zeros((3, 2)), [[0, 3]], TWO, "variable 3"),
        (np.zeros((3, 2)), [[0, 1, 2]], TWO, "factor 1"),
        (np.zeros((3, 2)), [[0, 1]], np.zeros((3, 3)), "must be"),
        (np.full((3, 2), np.nan), [[0, 1]], TWO, "nan"),
        ("unary", [[0, 1]], TWO, "numbers"),
    ],
)
def test_malformed_pairwise_graphs(unary: Any, edges: Any, tables: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        FactorGraph.pairwise(unary, edges, tables)


def test_empty_and_degenerate_graphs_are_accepted() -> None:
    no_edges = FactorGraph.pairwise(np.zeros((3, 2)), [], TWO)
    assert graph.log_partition(no_edges) == pytest.approx(3 * np.log(2))
    none = FactorGraph.pairwise(np.zeros((0, 2)), np.zeros((0, 2), dtype=int), TWO)
    assert graph.log_partition(none) == 0.0
    empty = FactorGraph([2, 2], [(np.zeros((0, 2), dtype=int), TWO)])
    assert graph.marginals(empty).factors[0].shape == (0, 2, 2)
    sure = FactorGraph([1, 1], [((0, 1), [[3.0]])])
    assert graph.log_partition(sure, "bp") == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0], "shape"),
        ([0, 2], "variable 1 has label 2"),
        ([-1, 0], "variable 0 has label -1"),
        ([0.0, 1.0], "integers"),
        (["a", "b"], "integers"),
        ([[0], [0, 1]], "one integer for each variable"),
    ],
)
def test_bad_labels(labels: Any, message: str) -> None:
    g = FactorGraph([2, 2], [((0, 1), TWO)])
    for call in (
        lambda: g.score(labels),
        lambda: graph.score(g, labels),
        lambda: graph.icm(g, initial=labels),
        lambda: graph.alpha_expansion(g, initial=labels),
        lambda: graph.gibbs(g, initial=labels),
    ):
        with pytest.raises(InputError, match=message):
            call()


@pytest.mark.parametrize("call", [graph.marginals, graph.best, graph.log_partition])
def test_unknown_methods_and_wrong_graphs(call: Any) -> None:
    g = FactorGraph([2], [])
    with pytest.raises(InputError, match="method must be one of exact"):
        call(g, "magic")
    with pytest.raises(InputError, match="FactorGraph"):
        call([[0, 1]])
    with pytest.raises(InputError, match="FactorGraph"):
        graph.score(None, [0])


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("bp", {"damping": 1.0}, "damping"),
        ("bp", {"damping": "some"}, "damping"),
        ("bp", {"schedule": "chaos"}, "schedule"),
        ("bp", {"max_iter": -1}, "max_iter"),
        ("bp", {"tolerance": -1e-3}, "tolerance"),
        ("bp", {"tolerance": np.nan}, "tolerance"),
        ("bp", {"n_jobs": 0}, "n_jobs"),
        ("trw", {"damping": -0.5}, "damping"),
        ("mean-field", {"max_iter": 2.5}, "max_iter"),
        ("exact", {"max_entries": "many"}, "max_entries"),
        ("exact", {"n_jobs": "two"}, "n_jobs"),
    ],
)
def test_bad_options(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        graph.marginals(FactorGraph([2, 2], [((0, 1), TWO)]), method, **options)


@pytest.mark.parametrize(
    "options",
    [{"n": 0}, {"burn_in": -1}, {"thin": 0}, {"chains": 0}, {"n": 2**40}, {"n": 1.5}],
)
def test_bad_numbers_of_samples(options: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match=next(iter(options)) if options.get("n") != 2**40 else "fit"
    ):
        graph.gibbs(FactorGraph([2], []), **options)
    with pytest.raises(InputError, match="n "):
        graph.exact_sample(FactorGraph([2], []), n=0)
    with pytest.raises(InputError, match="no variable 3"):
        FactorGraph([2], []).neighbours(3)


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def test_the_core_validates_its_arguments() -> None:
    """The core never reads or writes outside of an array, whatever Python passes."""
    for arrays in (
        (ints(2), ints(0, 2), ints(0, 1), ints(0)),
        (ints(2), ints(0, 1), ints(-1), ints(0)),
        (ints(2), ints(0, 1), ints(0), ints(-1)),
        (ints(2), ints(0), ints(0), ints(0)),
        (ints(2), ints(0, 3), ints(0), ints(0)),
        (ints(0), ints(0, 1), ints(0), ints(0)),
        (ints(2**40, 2**40), ints(0, 2), ints(0, 1), ints(0)),
        (ints(2), ints(0, 0), ints(), ints(0)),
        (ints(1, 2, 1), ints(0, 1, 4), ints(1, 0, 2, 2), ints(4, 2)),  # a variable twice
        (ints(2**63 - 1, 2**63 - 1), ints(0), ints(), ints()),
    ):
        with pytest.raises(ValueError, match=r"."):
            _core.Graph(*arrays)
    core = _core.Graph(ints(2, 2), ints(0, 2), ints(0, 1), ints(0))
    tables = np.zeros(4)
    with pytest.raises(ValueError, match="plan"):
        core.exact(tables, np.zeros(2), None, None, 1)
    core.plan(100.0)
    for bad in (
        lambda: core.exact(np.zeros(3), np.zeros(2), None, None, 1),
        lambda: core.exact(tables, np.zeros(1), None, None, 1),
        lambda: core.exact(tables, np.zeros(2), np.zeros(3), None, 1),
        lambda: core.exact(tables, np.zeros(2), np.zeros(4), np.zeros(3), 1),
        lambda: core.exact(tables, np.zeros(2), None, None, 0),
        lambda: core.best(tables, np.zeros(2), ints(0), 1),
        lambda: core.score(tables, ints(0, 2)),
        lambda: core.climb(tables, ints(0, -1), 3),
        lambda: core.mean_field(tables, np.zeros(3), 3, 0.0),
        lambda: core.sample(tables, np.zeros(2), ints(0, 0, 0, 0), 1),
        lambda: core.gibbs(tables, 1, 2, np.zeros(4), ints(0, 0), ints(0, 0), np.zeros(2), 1),
        lambda: core.conditionals(tables, ints(0, 0), np.zeros(3)),
    ):
        with pytest.raises(ValueError, match=r"."):
            bad()
