"""Cliques of three and more nodes in GraphCRF: enumeration, symmetry, training, prediction."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from graph_data import OBJECTIVES, clique_graphs, enumerate_scores
from test_graph_gradients import objective_of

from trellis import CRF, GraphCRF
from trellis.errors import InputError
from trellis.inference import graph
from trellis.models.graph import cliques, inference


def fitted(X: Any, y: Any, objective: str = "likelihood", **options: Any) -> Any:
    """Return a model after a few iterations, with weights that are not small."""
    return GraphCRF(objective, l2=0.05, max_iter=8, random_state=0, **options).fit(X, y)


@pytest.mark.parametrize("types", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_a_fitted_model_agrees_with_enumeration(
    symmetric: bool, types: bool, rng: np.random.Generator
) -> None:
    """Likelihoods, marginals of nodes and factors, log Z and the best labelling."""
    X, y = clique_graphs(rng, 4, types=types)
    model = fitted(X, y, symmetric=symmetric)
    assert model.clique_coef_["three"].shape == (2, *(len(model.classes_),) * 3)
    assert model.clique_coef_["four"].shape == (1, *(len(model.classes_),) * 4)
    classes = model.classes_.tolist()
    likelihoods, marginals = model.log_likelihood(X, y), model.predict_marginals(X)
    predicted, factor_graphs = model.predict(X), model.factor_graphs(X)
    for i, x in enumerate(X):
        scores = enumerate_scores(model, x)
        log_z = np.logaddexp.reduce([*scores.values()])
        assert likelihoods[i] == pytest.approx(scores[tuple(y[i])] - log_z, abs=1e-10)
        assert tuple(predicted[i]) == max(scores, key=scores.__getitem__)
        p = np.zeros((len(y[i]), len(classes)))
        triples = np.zeros((3, *(len(classes),) * 3))
        for labels, score in scores.items():
            index = np.array([classes.index(label) for label in labels])
            p[np.arange(len(p)), index] += np.exp(score - log_z)
            triples[(range(3), *index[x[4]["three"]].T)] += np.exp(score - log_z)
        np.testing.assert_allclose(marginals[i], p, rtol=0, atol=1e-10)
        exact = graph.marginals(factor_graphs[i])
        assert exact.log_partition == pytest.approx(log_z, abs=1e-10)
        # The factors are nodes, edges, "four" (the second graph has none) and "three".
        assert len(exact.factors) == (3 if i == 1 else 4)
        np.testing.assert_allclose(exact.factors[-1], triples, rtol=0, atol=1e-10)


@pytest.mark.parametrize("objective", ["likelihood", "pseudolikelihood", "perceptron", "ssvm"])
def test_losses_by_enumeration(objective: str, rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 3)
    weights = np.array([1.0, 0.25, 3.0])
    model = fitted(X, y)
    classes = model.classes_.tolist()
    f, size = objective_of(GraphCRF(objective, l2=0.7, inference="exact"), X, y, weights)
    nodes = np.concatenate([model.coef_, model.intercept_[:, None]], axis=1)
    arrays = [nodes, model.pair_coef_, model.clique_coef_["four"], model.clique_coef_["three"]]
    w = np.concatenate([array.ravel() for array in arrays])
    assert len(w) == size
    expected = 0.35 * float(w @ w)
    for x, labels, weight in zip(X, y, weights, strict=True):
        scores, truth = enumerate_scores(model, x), tuple(labels)
        if objective == "likelihood":
            levels = [np.logaddexp.reduce([*scores.values()])]
        elif objective == "pseudolikelihood":
            levels = [
                np.logaddexp.reduce([scores[(*truth[:v], k, *truth[v + 1 :])] for k in classes])
                for v in range(len(truth))
            ]
        else:
            margin = float(objective == "ssvm")
            levels = [
                max(
                    score + margin * sum(a != b for a, b in zip(way, truth, strict=True))
                    for way, score in scores.items()
                )
            ]
        expected += weight * sum(level - scores[truth] for level in levels)
    assert f(w, np.empty(size)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("objective", ["trw", "bethe"])
def test_losses_with_messages(objective: str, rng: np.random.Generator) -> None:
    """Their log Z is that of the functions for factor graphs; "trw" is never below the exact loss.

    For "bethe", the graphs have no factor inside another: GraphCRF merges those.
    """
    X, y = clique_graphs(rng, 4)
    if objective == "bethe":
        triples = [[0, 1, 2], [2, 3, 4], [4, 1, 3]]
        X = [(x[0], (), None, None, {"three": triples}, x[5]) for x in X]
    model = fitted(X, y)
    options: dict[str, Any] = {"damping": 0.4, "max_sweeps": 5000}
    loss, size = objective_of(GraphCRF(objective, l2=0.0, **options), X, y)
    exact, _ = objective_of(GraphCRF(l2=0.0), X, y)
    nodes = np.concatenate([model.coef_, model.intercept_[:, None]], axis=1)
    arrays = [nodes, model.pair_coef_, *model.clique_coef_.values()]
    w = 0.5 * np.concatenate([array.ravel() for array in arrays])
    for name in ("coef_", "intercept_", "pair_coef_"):
        setattr(model, name, 0.5 * getattr(model, name))
    model.clique_coef_ = {name: 0.5 * table for name, table in model.clique_coef_.items()}
    method = {"trw": "trw", "bethe": "bp"}[objective]
    expected = sum(
        graph.log_partition(g, method, tolerance=1e-10, max_iter=5000, damping=0.4)
        - g.score([model.classes_.tolist().index(label) for label in labels])
        for g, labels in zip(model.factor_graphs(X), y, strict=True)
    )
    value = loss(w, np.empty(size))
    assert value == pytest.approx(expected, abs=1e-6)
    if objective == "trw":
        assert value > exact(w, np.empty(size)) + 1e-3


def test_trw_is_exact_on_trees_of_cliques(rng: np.random.Generator) -> None:
    """Edges inside a clique are part of it, so they close no loop."""
    cliques = {"three": [[0, 1, 2], [2, 3, 4]], "four": [[4, 5, 6, 7]]}
    edges = [[0, 1], [1, 0], [2, 1], [4, 3], [6, 5], [7, 8]]
    X: Any = [(rng.normal(size=(9, 2)), edges, None, None, cliques) for _ in range(3)]
    y = [rng.integers(3, size=9) for _ in X]
    values, gradients = [], []
    for objective in ("likelihood", "trw", "bethe"):
        f, size = objective_of(GraphCRF(objective, max_sweeps=5000), X, y)
        w = np.random.default_rng(1).normal(size=size)
        gradients.append(np.empty(size))
        values.append(f(w, gradients[-1]))
    assert values[1:] == pytest.approx([values[0]] * 2, abs=1e-5)
    np.testing.assert_allclose(gradients[1], gradients[0], atol=1e-4)
    np.testing.assert_allclose(gradients[2], gradients[0], atol=1e-4)


def test_a_chain_of_second_order(rng: np.random.Generator) -> None:
    """Cliques of three consecutive nodes: every path is enumerated with its second-order scores."""
    n_labels, lengths = 3, (1, 2, 5, 6)
    rows = [rng.normal(size=(n, 2)) for n in lengths]
    X = [
        (x, [[0, 1]] * (len(x) > 1), None, None, [[i, i + 1, i + 2] for i in range(len(x) - 2)])
        for x in rows
    ]
    y = [rng.integers(n_labels, size=n) for n in lengths]
    y[-1][:3] = [0, 1, 2]
    model = GraphCRF(l2=0.1, fit_intercept=False, tol=1e-8).fit(X, y)
    pair, triple = model.pair_coef_[0], model.clique_coef_["cliques"][0]
    total = 0.0
    for x, labels, p in zip(rows, y, model.predict_marginals(X), strict=True):
        scores = {}
        for path in itertools.product(range(n_labels), repeat=len(x)):
            score = sum(model.coef_[label] @ x[t] for t, label in enumerate(path))
            score += pair[path[0], path[1]] if len(path) > 1 else 0.0
            for t in range(2, len(path)):
                score += triple[path[t - 2], path[t - 1], path[t]]
            scores[path] = score
        log_z = np.logaddexp.reduce([*scores.values()])
        total += log_z - scores[tuple(labels)]
        first = [
            sum(np.exp(s - log_z) for path, s in scores.items() if path[0] == k)
            for k in range(n_labels)
        ]
        np.testing.assert_allclose(p[0], first, rtol=0, atol=1e-10)
    w = [*model.coef_.ravel(), *pair.ravel(), *triple.ravel()]
    assert model.objective_ == pytest.approx(total + 0.05 * np.dot(w, w), rel=1e-10)


def test_a_clique_of_two_is_an_edge(rng: np.random.Generator) -> None:
    rows = [rng.normal(size=(int(n), 3)) for n in rng.integers(2, 7, size=8)]
    y = [rng.integers(3, size=len(x)) for x in rows]
    edges = [[[i, i + 1] for i in range(len(x) - 1)] for x in rows]
    X: Any = [(x, (), None, None, {"next": e}) for x, e in zip(rows, edges, strict=True)]
    ours = GraphCRF(l2=0.7, fit_intercept=False, tol=1e-9).fit(X, y)
    chain = CRF(l2=0.7, states="all", solver_options={"epsilon": 1e-9, "delta": 1e-14})
    chain.fit(rows, [labels.tolist() for labels in y])
    assert ours.objective_ == pytest.approx(chain.objective_, rel=1e-6)


def test_symmetric_cliques_have_no_order(rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 6)
    turned = [
        (*x[:4], {name: rng.permuted(rows, axis=1) for name, rows in x[4].items()}, x[5]) for x in X
    ]
    for objective in ("likelihood", "pseudolikelihood", "ssvm"):
        model = fitted(X, y, objective, symmetric=True)
        for weights in model.clique_coef_.values():
            for order in itertools.permutations(range(1, weights.ndim)):
                assert (weights == weights.transpose(0, *order)).all()
        edges = [(x[0], [pair[::-1] for pair in x[1]], *x[2:]) for x in turned]
        likelihoods = model.log_likelihood(edges, y)
        np.testing.assert_allclose(model.log_likelihood(X, y), likelihoods, atol=1e-10)


def parity_graphs(rng: np.random.Generator, count: int) -> tuple[list[Any], list[Any]]:
    """Return triples with an even number of ones; the third node has no feature.

    It depends on the other two together, but on neither of them alone.
    """
    y = [[a, b, (a + b) % 2] for a, b in rng.integers(2, size=(count, 2)).tolist()]
    nodes = [[[2 * a - 1], [2 * b - 1], [0]] + 0.3 * rng.normal(size=(3, 1)) for a, b, _ in y]
    return [(x, [[0, 1], [1, 2], [2, 0]], None, None, [[0, 1, 2]]) for x in nodes], y


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_cliques_learn_what_edges_cannot(objective: str, rng: np.random.Generator) -> None:
    X, y = parity_graphs(rng, 100)
    options: dict[str, Any] = {"l2": 1.0 if objective == "ssvm" else 0.1, "random_state": 0}
    model = GraphCRF(objective, **options).fit(X[:50], y[:50])
    edges = [x[:2] for x in X]
    without = GraphCRF("likelihood", l2=0.1).fit(edges[:50], y[:50])
    assert model.score(X[50:], y[50:]) > without.score(edges[50:], y[50:]) + 0.1
    parity = [(-1) ** (a + b + c) for a, b, c in itertools.product((0, 1), repeat=3)]
    assert np.corrcoef(model.clique_coef_["cliques"].ravel(), parity)[0, 1] > 0.9


def test_all_methods_of_inference(rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 8)
    base = fitted(X, y)
    exact, p = base.predict(X), base.predict_marginals(X)
    for method in ("exact", "bp", "trw", "icm"):
        other = GraphCRF(**{**base.get_params(), "inference": method, "max_sweeps": 2000})
        other.__dict__.update({k: v for k, v in vars(base).items() if k.endswith("_")})
        same = np.mean([np.mean(a == b) for a, b in zip(other.predict(X), exact, strict=True)])
        assert same > (0.6 if method == "icm" else 0.9), method
        if method in ("exact", "bp"):
            tolerance = 1e-12 if method == "exact" else 0.15
            for ours, expected in zip(other.predict_marginals(X), p, strict=True):
                np.testing.assert_allclose(ours, expected, atol=tolerance)
    bound = GraphCRF(**{**base.get_params(), "inference": "trw", "max_sweeps": 5000})
    bound.__dict__.update({k: v for k, v in vars(base).items() if k.endswith("_")})
    assert (bound.log_likelihood(X, y) <= base.log_likelihood(X, y) + 1e-8).all()


@pytest.mark.parametrize("method", ["expansion", "cut"])
def test_cuts_are_for_pairs(method: str, rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 4)
    with pytest.raises(InputError, match=rf"X has cliques 'four' of 4 nodes: inference='{method}'"):
        fitted(X, y, "ssvm", inference=method)
    model = fitted(X, y)
    model.inference = method
    with pytest.raises(InputError, match="supports at most two; use 'auto'"):
        model.predict(X)
    pairs = fitted([x[:2] for x in X], y, inference="expansion")
    assert len(pairs.predict([x[:2] for x in X])) == 4


def test_samples_that_do_not_fit_into_memory_together(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = clique_graphs(rng, 7)
    model = fitted(X, y)
    expected, marginals = model.predict(X), model.predict_marginals(X)
    monkeypatch.setattr(inference, "MAX_TABLE_ENTRIES", 2000)
    small = fitted(X, y)
    np.testing.assert_allclose(small.clique_coef_["three"], model.clique_coef_["three"], atol=1e-6)
    assert [a.tolist() for a in small.predict(X)] == [a.tolist() for a in expected]
    for p, q in zip(small.predict_marginals(X), marginals, strict=True):
        np.testing.assert_allclose(p, q, atol=1e-6)


def test_slices_count_the_tables_of_cliques() -> None:
    X: Any = [(np.zeros((4, 1)), [[0, 1]], None, None, [[0, 1, 2]] * n) for n in (0, 1, 2)]
    samples = GraphCRF()._collect(X)  # 5 · 9, 5 · 9 + 27 and 5 · 9 + 54 numbers
    assert list(samples.slices(3, 116)) == [(0, 1), (1, 2), (2, 3)]
    assert list(samples.slices(3, 117)) == [(0, 2), (2, 3)]
    part = samples.part(2, 3).cliques[0]
    assert (part.nodes.tolist(), part.begin.tolist()) == ([[0, 1, 2]] * 2, [0, 2])
    assert part.samples().tolist() == [0, 0]
    assert samples.cliques[0].nodes[1:].tolist() == [[8, 9, 10]] * 2


def test_the_same_bits_for_every_number_of_threads(rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 12)
    for objective in ("likelihood", "trw", "bethe", "pseudolikelihood", "ssvm"):
        one, three = (fitted(X, y, objective, n_jobs=n) for n in (1, 3))
        for name, weights in one.clique_coef_.items():
            assert (weights == three.clique_coef_[name]).all()


def test_copies_and_callbacks(rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 6)
    seen: list[int] = []
    model = GraphCRF("trw").fit(X, y, callback=lambda p: seen.append(p.iteration) or len(seen) == 3)
    assert seen == [1, 2, 3]
    again = pickle.loads(pickle.dumps(model))
    assert (again.log_likelihood(X, y) == model.log_likelihood(X, y)).all()


def test_sample_weights_repeat_samples(rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 4)
    twice = GraphCRF(tol=1e-9).fit([*X, X[0]], [*y, y[0]])
    weighted = GraphCRF(tol=1e-9).fit(X, y, sample_weight=[2, 1, 1, 1])
    np.testing.assert_allclose(
        twice.clique_coef_["three"], weighted.clique_coef_["three"], atol=1e-4
    )


def test_l1_makes_weights_of_cliques_zero(rng: np.random.Generator) -> None:
    X, y = clique_graphs(rng, 10)
    assert (GraphCRF(l1=2.0).fit(X, y).clique_coef_["three"] == 0.0).any()


def test_graphs_without_a_type_of_the_model(rng: np.random.Generator) -> None:
    """They have no such clique, so its weights do not matter."""
    X, y = clique_graphs(rng, 4)
    model = fitted(X, y)
    before = model.log_likelihood([x[:4] for x in X], y)
    for weights in model.clique_coef_.values():
        weights += 1.0
    assert (model.log_likelihood([x[:4] for x in X], y) == before).all()
    empty = [(*x[:4], {"three": np.zeros((0, 3), dtype=int), "four": []}) for x in X]
    assert (model.log_likelihood(empty, y) == before).all()


def test_label_orders_of_a_symmetric_table(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.random.default_rng(0).normal(size=(2, 3, 3, 3))
    orders = [weights.transpose(0, *order) for order in itertools.permutations((1, 2, 3))]
    symmetric = cliques.symmetric_weights(weights)
    np.testing.assert_allclose(symmetric, np.mean(orders, axis=0), atol=1e-15)
