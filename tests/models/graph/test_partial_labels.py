"""Training of graph models with unknown labels (None) and sets of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_data import clique_graphs, enumerate_scores, graphs, images, is_allowed
from test_graph_gradients import assert_gradient, objective_of

from trellis import CRF, GraphCRF, GridCRF
from trellis.errors import InputError
from trellis.inference import graph
from trellis.models.graph.targets import encode_targets

LIKELIHOODS = ("likelihood", "trw", "bethe", "pseudolikelihood")


def weights_of(model: Any) -> np.ndarray:
    """Return the weights of a fitted model as one vector."""
    nodes = np.concatenate([model.coef_, model.intercept_[:, None]], axis=1)
    arrays = [nodes, model.pair_coef_, *model.clique_coef_.values()]
    return np.concatenate([array.ravel() for array in arrays])


@pytest.mark.parametrize("types", [False, True])
def test_the_likelihood_by_enumeration(types: bool, rng: np.random.Generator) -> None:
    """-log Σ_y p(y | x) over the labellings y that agree with the known labels."""
    X, y = clique_graphs(rng, 4, types=types, partial=True)
    model = GraphCRF(l2=0.1, max_iter=6).fit(X, y)
    v = np.array([1.0, 0.5, 2.0, 1.0])
    f, size = objective_of(GraphCRF(l2=0.3), X, y, v)
    w = weights_of(model)
    expected = []
    for x, known in zip(X, y, strict=True):
        scores = enumerate_scores(model, x)
        allowed = [score for labels, score in scores.items() if is_allowed(labels, known)]
        assert 1 < len(allowed) < len(scores)
        expected.append(np.logaddexp.reduce(allowed) - np.logaddexp.reduce([*scores.values()]))
    np.testing.assert_allclose(model.log_likelihood(X, y), expected, rtol=0, atol=1e-10)
    loss = 0.15 * float(w @ w) - float(v @ expected)
    assert f(w, np.empty(size)) == pytest.approx(loss, rel=1e-10)


@pytest.mark.parametrize("method", ["trw", "bp"])
def test_messages_with_partial_labels(method: str, rng: np.random.Generator) -> None:
    """log Z of the allowed labellings and log Z of all are computed with the same method."""
    X, y = graphs(rng, 4)
    y = [[None, {"a", "b"}, *labels[2:]] for labels in y]
    objective = {"trw": "trw", "bp": "bethe"}[method]
    options: dict[str, Any] = {"damping": 0.4, "max_sweeps": 5000}
    model = GraphCRF(objective, l2=0.3, max_iter=8, inference=method, **options).fit(X, y)
    f, size = objective_of(GraphCRF(objective, l2=0.0, **options), X, y)
    expected = []
    for g, known in zip(model.factor_graphs(X), y, strict=True):
        mask = np.array(
            [[is_allowed([c], [label]) for c in model.classes_] for label in known], dtype=bool
        )
        penalty = (np.arange(len(known))[:, None], np.where(mask, 0.0, -np.inf))
        factors = [(entry.variables, entry.table) for entry in g.entries]
        allowed = graph.FactorGraph(g.cardinalities, [*factors, penalty])
        log_z, log_z_allowed = (
            graph.log_partition(h, method, damping=0.4, tolerance=1e-10, max_iter=5000)
            for h in (g, allowed)
        )
        expected.append(log_z_allowed - log_z)
    np.testing.assert_allclose(model.log_likelihood(X, y), expected, atol=1e-6)
    assert f(weights_of(model), np.empty(size)) == pytest.approx(-sum(expected), abs=1e-6)


def test_pseudolikelihood_by_enumeration(rng: np.random.Generator) -> None:
    """Only nodes whose neighbours are known have a term; a set has the sum of its labels."""
    X, y = clique_graphs(rng, 6, partial=True)
    y[1:4] = [["a" if label is None else label for label in labels] for labels in y[1:4]]
    model = GraphCRF("pseudolikelihood", l2=0.1, max_iter=6).fit(X, y)
    classes = model.classes_.tolist()
    expected, n_terms, n_sets = 0.0, 0, 0
    for x, known in zip(X, y, strict=True):
        scores = enumerate_scores(model, x)
        groups = [set(row) for row in (*x[1], *(row for rows in x[4].values() for row in rows))]
        for v, label in enumerate(known):
            others = set().union(*(group for group in groups if v in group)) - {v}
            if any(known[u] is None or isinstance(known[u], set) for u in others):
                continue
            # The labels of other nodes do not matter, because they are no neighbours.
            way = [k if isinstance(k, str) else classes[0] for k in known]
            terms = {k: scores[(*way[:v], k, *way[v + 1 :])] for k in classes}
            allowed = [s for k, s in terms.items() if is_allowed([k], [label])]
            expected -= np.logaddexp.reduce(allowed) - np.logaddexp.reduce([*terms.values()])
            n_terms += 1
            n_sets += isinstance(label, set)
    assert n_sets > 0
    assert n_terms < sum(map(len, y))
    f, size = objective_of(GraphCRF("pseudolikelihood", l2=0.0), X, y)
    assert f(weights_of(model), np.empty(size)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("objective", LIKELIHOODS)
@pytest.mark.parametrize("types", [False, True])
def test_gradients(objective: str, types: bool, rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 3, types=types, partial=True)
    X = [(*x[:4], {"three": x[4]["three"]}, x[5]) for x in X]  # cliques of four are slow with types
    if types:
        y[0][:4] = list("adbe")
    model = GraphCRF(objective, l2=0.2, max_sweeps=5000, damping=0.4)
    f, size = objective_of(model, X, y, np.array([1.0, 0.5, 2.0]))
    direction_only = np.random.default_rng(3).permutation(size)[:60]
    assert_gradient(f, 0.3 * rng.normal(size=size), entries=direction_only)


@pytest.mark.parametrize("objective", LIKELIHOODS)
def test_sets_of_one_label_are_labels(objective: str, rng: np.random.Generator) -> None:
    X, y = graphs(rng, 5)
    sets = [[{label} if i % 2 else label for i, label in enumerate(labels)] for labels in y]
    known, partial = (GraphCRF(objective, max_iter=10).fit(X, labels) for labels in (y, sets))
    assert (known.coef_ == partial.coef_).all()
    assert (known.pair_coef_ == partial.pair_coef_).all()


@pytest.mark.parametrize("objective", ["likelihood", "trw", "bethe"])
def test_graphs_without_labels_change_nothing(objective: str, rng: np.random.Generator) -> None:
    X, y = graphs(rng, 6)
    unknown = [[None] * len(labels) for labels in y[4:]]
    f, size = objective_of(GraphCRF(objective, max_sweeps=3000), X, [*y[:4], *unknown])
    known, _ = objective_of(GraphCRF(objective, max_sweeps=3000), X[:4], y[:4])
    w = 0.3 * rng.normal(size=size)
    gradients = np.empty(size), np.empty(size)
    assert f(w, gradients[0]) == pytest.approx(known(w, gradients[1]), abs=1e-8)
    np.testing.assert_allclose(*gradients, atol=1e-6)


def test_a_chain_as_graph_is_the_chain_model(rng: np.random.Generator) -> None:
    rows = [rng.normal(size=(int(n), 3)) for n in rng.integers(3, 7, size=12)]
    y = [rng.integers(3, size=len(x)).tolist() for x in rows]
    for labels in y:
        labels[1] = None
        labels[-1] = {0, 1}
    y[0][0], y[1][0], y[2][0] = 0, 1, 2
    X = [(x, [[i, i + 1] for i in range(len(x) - 1)]) for x in rows]
    ours = GraphCRF(l2=0.7, fit_intercept=False, tol=1e-9).fit(X, y)
    theirs = CRF(l2=0.7, states="all", solver_options={"epsilon": 1e-9, "delta": 1e-14}).fit(
        rows, y
    )
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-6)
    np.testing.assert_allclose(ours.log_likelihood(X, y), theirs.log_likelihood(rows, y), atol=1e-3)


@pytest.mark.parametrize("objective", ["likelihood", "trw", "pseudolikelihood"])
def test_few_labels_are_enough_for_strong_edges(objective: str) -> None:
    """Rings of one label, and a third of the labels: better than the labelled nodes alone."""
    rng = np.random.default_rng(2)
    ring = [[i, (i + 1) % 9] for i in range(9)]
    truth = rng.integers(2, size=80)
    nodes = [label + 1.2 * rng.normal(size=(9, 1)) for label in truth]
    X, y = [(x, ring) for x in nodes], [[int(label)] * 9 for label in truth]
    partial = [[k if i % 9 < 4 else None for i, k in enumerate(labels)] for labels in y]
    model = GraphCRF(objective, l2=0.5).fit(X[:40], partial[:40])
    alone = [(x, ()) for x in nodes]
    without = GraphCRF(l2=0.5).fit(alone[:40], partial[:40])
    assert model.score(X[40:], y[40:]) > without.score(alone[40:], y[40:]) + 0.1


def test_images(rng: np.random.Generator) -> None:
    X, y = images(rng, 6, 10)
    hidden = [np.where(rng.random(labels.shape) < 0.7, None, labels) for labels in y]
    model = GridCRF(max_iter=40).fit(X[:4], hidden[:4])
    assert model.score(X[4:], y[4:]) > 0.8
    exact = GridCRF("likelihood").fit([x[:, :4] for x in X], [labels[:, :4] for labels in hidden])
    assert exact.log_likelihood([x[:, :4] for x in X], [z[:, :4] for z in hidden]).max() < 0.0


@pytest.mark.parametrize("objective", ["trw", "bethe", "pseudolikelihood", "likelihood"])
def test_gradients_of_grids(objective: str, rng: np.random.Generator) -> None:
    X, y = images(rng, 2, 4)
    y = [labels.astype(object) for labels in y]
    for labels in y:
        labels[0, 0] = labels[2, 2] = None
    f, size = objective_of(GridCRF(objective, l2=0.2, max_sweeps=3000), X, y)
    assert_gradient(f, 0.2 * rng.normal(size=size))


def test_the_score_counts_known_labels() -> None:
    X = [(np.eye(3), ())] * 2
    model = GraphCRF("pseudolikelihood", l2=1e-3).fit(X, [[0, 1, 2]] * 2)
    assert model.score(X, [[0, None, 1], [{0, 2}, frozenset({0, 1}), None]]) == pytest.approx(0.75)
    assert model.score(X, [[0, None, 2], [{1, 2}, {0, 2}, {0, 1}]]) == pytest.approx(0.4)
    assert model.score(X, [[None] * 3] * 2) == 0.0
    likelihoods = model.log_likelihood(X, [[None] * 3, [{0, 1, 2}, None, None]])
    np.testing.assert_allclose(likelihoods, 0.0, atol=1e-12)


def test_reports_count_known_labels(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 10)
    y = [[None, *labels[1:]] for labels in y]
    report = GraphCRF("trw", max_iter=20).fit(X, y).report_
    assert report is not None
    n_known = sum(len(labels) - 1 for labels in y)
    assert (report.train_score * n_known) % 1.0 == pytest.approx(0.0, abs=1e-9)


def test_types_with_partial_labels(rng: np.random.Generator) -> None:
    """A type has the labels of its nodes, members of sets included; None adds no label."""
    nodes, types = np.zeros((4, 1)), [0, 0, 1, 1]
    X: Any = [(nodes, [[0, 1], [1, 2], [2, 3]], None, types)]
    samples = GraphCRF()._collect(X)
    classes, allowed, targets = encode_targets([["a", None, {"c", "d"}, "e"]], samples, np.ones(1))
    assert classes == ("a", "c", "d", "e")
    assert allowed is not None
    assert allowed.tolist() == [[True, False, False, False], [False, True, True, True]]
    assert targets.labels.tolist() == [0, 0, -1, 3]  # the second node can only be "a"
    assert targets.allowed is not None
    assert targets.allowed[2].tolist() == [False, True, True, False]
    with pytest.raises(InputError, match="no node of type 1 has a known label in y"):
        GraphCRF().fit(X, [["a", "b", None, None]])
    model = GraphCRF(max_iter=2).fit(X, [["a", None, {"c", "d"}, "e"]])
    impossible = model.log_likelihood(X * 2, [[{"c", "d"}, None, "e", "e"], [None] * 4])
    assert impossible[0] == -np.inf
    assert impossible[1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("objective", ["perceptron", "ssvm"])
def test_objectives_that_need_all_labels(objective: str, rng: np.random.Generator) -> None:
    X, y = graphs(rng, 3)
    y = [[*labels] for labels in y]
    y[1][2] = None
    message = f"sequence 1, position 2 has no known label: objective='{objective}' needs"
    with pytest.raises(InputError, match=message):
        GraphCRF(objective).fit(X, y)
    y[1][2] = {"a", "b"}
    with pytest.raises(InputError, match=message):
        GraphCRF(objective).fit(X, y)


@pytest.mark.parametrize("kind", [GraphCRF, GridCRF])
def test_invalid_partial_labels(kind: Any) -> None:
    X: Any = [(np.zeros((3, 2)), [[0, 1]])] if kind is GraphCRF else [np.zeros((1, 3))]
    for row, message in (
        ([None] * 3, "no label is known at any position"),
        ([0, set(), 1], r"sequence 0, position 1: set\(\) is not a set of labels"),
        ([0, 1, {None, 1}], "sequence 0, position 2: .* must not be empty or contain None"),
        ([0, float("nan"), None], "nan cannot be a label"),
    ):
        with pytest.raises(InputError, match=message):
            kind().fit(X, [row] if kind is GraphCRF else [[row]])
    chain: Any = [(np.zeros((3, 2)), [[0, 1], [1, 2]])]
    with pytest.raises(InputError, match="'pseudolikelihood' uses the labelled nodes whose"):
        GraphCRF("pseudolikelihood").fit(chain, [[0, None, 1]])
