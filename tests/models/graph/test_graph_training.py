"""Training on graphs with loops: convexity, exactness on trees, and warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_data import graphs, images
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from test_graph_gradients import assert_gradient, objective_of

from trellis import GraphCRF, GridCRF
from trellis.models.graph.losses import MAX_RESIDUAL
from trellis.models.graph.samples import Shape
from trellis.models.graph.training import Whitening


def dim_images(rng: np.random.Generator, count: int) -> tuple[list[Any], list[Any]]:
    """Return noisy images: from weights of 0, the first step would mainly change pair weights."""
    X, y = [], []
    for _ in range(count):
        i, j = np.indices((24, 24))
        a, b = rng.integers(6, 18, size=2)
        truth = ((i - a) ** 2 + (j - b) ** 2 < 30).astype(int)
        grey = 0.45 + 0.08 * truth + 0.04 * rng.normal(size=truth.shape)
        X.append(np.stack([grey, grey**2, grey + 0.01 * rng.normal(size=grey.shape)], axis=-1))
        y.append(truth)
    return X, y


@pytest.mark.parametrize("kind", [GraphCRF, GridCRF])
def test_the_reweighted_objective_is_convex_and_above_the_likelihood(
    kind: Any, rng: np.random.Generator
) -> None:
    X, y = graphs(rng, 4) if kind is GraphCRF else images(rng, 2, 4)
    f, size = objective_of(kind("trw", l2=0.0, max_sweeps=5000), X, y)
    exact, _ = objective_of(kind("likelihood", l2=0.0), X, y)
    g = np.empty(size)
    for scale in (0.3, 1.0, 2.0):
        a, b = scale * rng.normal(size=(2, size))
        for w in (a, b):
            assert f(w, g) >= exact(w, g) - 1e-7
        assert f(0.5 * (a + b), g) <= 0.5 * (f(a, g) + f(b, g)) + 1e-7


def test_trw_is_exact_without_pairs_and_on_trees(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 3)
    g = np.empty(3 * 5 + 9)
    w = rng.normal(size=len(g))
    w[15:] = 0.0
    values = [objective_of(GraphCRF(name), X, y)[0](w, g) for name in ("trw", "likelihood")]
    assert values[0] == pytest.approx(values[1])
    trees = [(nodes, [[i, i + 1] for i in range(len(nodes) - 1)]) for nodes, _ in X]
    w = rng.normal(size=len(g))
    values = [objective_of(GraphCRF(name), trees, y)[0](w, g) for name in ("trw", "likelihood")]
    assert values[0] == pytest.approx(values[1])


def test_edges_improve_accuracy_with_weak_features(rng: np.random.Generator) -> None:
    X, y = dim_images(rng, 8)
    model = GridCRF(l2=0.1, symmetric=True, max_iter=40).fit(X[:5], y[:5])
    report = model.report_
    assert report is not None
    assert report.train_score > report.alone_score
    assert report.residual <= MAX_RESIDUAL
    p = model.predict_marginals(X[:5])
    assert np.mean(np.array(p).argmax(axis=-1) == np.array(y[:5])) == pytest.approx(
        report.train_score
    )
    assert model.score(X[5:], y[5:]) > 0.9


def test_warning_if_the_bethe_likelihood_reduces_accuracy() -> None:
    """The Bethe log Z is not a bound, so a model with a lower loss may be worse."""
    X, y = dim_images(np.random.default_rng(2), 4)
    with pytest.warns(ConvergenceWarning, match="edge potentials reduce accuracy"):
        model = GridCRF("bethe", l2=0.1, symmetric=True, max_iter=60).fit(X, y)
    assert model.report_ is not None
    assert model.report_.residual <= MAX_RESIDUAL


def test_training_starts_at_the_weights_of_the_nodes_alone(rng: np.random.Generator) -> None:
    """So the loss is never above that of softmax regression, which has no edges."""
    from trellis import SoftmaxRegression

    X, y = images(rng, 4, 8)
    model = GridCRF(l2=1.0).fit(X, y)
    rows = np.concatenate([x.reshape(-1, 2) for x in X])
    labels = np.concatenate([image.ravel() for image in y])
    alone = SoftmaxRegression(l2=1.0).fit(rows, labels)
    assert model.report_ is not None
    assert model.report_.alone_score == pytest.approx(alone.score(rows, labels), abs=0.01)
    assert model.objective_ < alone.objective_


def test_steps_are_rejected_where_messages_do_not_converge(rng: np.random.Generator) -> None:
    X, y = images(rng, 3, 10)
    with pytest.warns(ConvergenceWarning, match="does not converge beyond"):
        model = GridCRF("bethe", l2=0.01, max_sweeps=3).fit(X, y)
    assert model.report_ is not None
    assert model.report_.residual <= MAX_RESIDUAL
    assert not model.converged_
    f, size = objective_of(GridCRF("bethe", max_sweeps=1), X, y)
    assert f(5.0 * rng.normal(size=size), np.empty(size)) == np.inf


def test_warning_if_messages_do_not_converge(rng: np.random.Generator) -> None:
    X, y = images(rng, 3, 10)
    with pytest.warns(ConvergenceWarning, match="messages still change by"):
        GridCRF(l2=0.01, max_sweeps=1).fit(X, y)


def test_warning_if_edges_reduce_accuracy(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss with wrong labels simulates a bad approximation."""
    X, y = images(rng, 3, 10)
    original = GridCRF._objective_of

    def with_wrong_labels(self: Any, samples: Any, targets: Any, shape: Any, name: str) -> Any:
        if name == "trw":
            targets = targets._replace(labels=1 - targets.labels)
        return original(self, samples, targets, shape, name)

    monkeypatch.setattr(GridCRF, "_objective_of", with_wrong_labels)
    with pytest.warns(ConvergenceWarning, match="edge potentials reduce accuracy"):
        GridCRF().fit(X, y)


@pytest.mark.parametrize("thin", [False, True])
def test_whitened_weights(thin: bool, rng: np.random.Generator) -> None:
    X, y = graphs(rng, 5, edge_features=2)
    if thin:
        X = [(sparse.csr_matrix(nodes), *rest) for nodes, *rest in X]
    model = GraphCRF("trw", l2=0.3, max_sweeps=3000)
    f, size = objective_of(model, X, y)
    samples = model._collect(X)
    whitening = Whitening(samples, Shape(3, 5, 3), 0.3)
    w = 0.3 * rng.normal(size=size)
    np.testing.assert_allclose(whitening.weights(whitening.coordinates(w)), w)
    assert_gradient(whitening.objective(f), whitening.coordinates(w))


def test_equal_and_constant_features(rng: np.random.Generator) -> None:
    X, y = images(rng, 3, 8)
    twice = [np.concatenate([x, x, 0.0 * x], axis=-1) for x in X]
    model = GridCRF(l2=0.0, max_iter=20).fit(twice, y)
    assert np.isfinite(model.coef_).all()
    seen: list[np.ndarray] = []
    GridCRF(max_iter=3).fit(X, y, callback=lambda p: seen.append(p.w.copy()))
    last = GridCRF(max_iter=3).fit(X, y)
    np.testing.assert_allclose(seen[-1][:2], last.coef_[0])


def test_models_trained_with_trw_predict_with_trw(rng: np.random.Generator) -> None:
    X, y = images(rng, 3, 8)
    model = GridCRF(max_iter=20).fit(X, y)
    p = model.predict_marginals(X)[0]
    other = GridCRF(max_iter=20, inference="bp").fit(X, y).predict_marginals(X)[0]
    assert np.abs(p - other).max() > 1e-4
    same = GridCRF(max_iter=20, inference="trw").fit(X, y).predict_marginals(X)[0]
    assert (p == same).all()


def test_l1_penalty_with_messages(rng: np.random.Generator) -> None:
    X, y = graphs(rng, 10)
    assert (GraphCRF("trw", l1=3.0).fit(X, y).coef_ == 0.0).any()


@pytest.mark.parametrize("objective", ["likelihood", "pseudolikelihood", "trw", "bethe"])
def test_disconnected_parts_are_equivalent_to_samples(
    objective: str, rng: np.random.Generator
) -> None:
    X, y = graphs(rng, 4)
    nodes = np.concatenate([features for features, _ in X])
    starts = np.cumsum([0, *(len(features) for features, _ in X[:-1])])
    edges = np.concatenate([pairs + n for (_, pairs), n in zip(X, starts, strict=True)])
    separate, size = objective_of(GraphCRF(objective, max_sweeps=3000), X, y)
    joined, _ = objective_of(
        GraphCRF(objective, max_sweeps=3000), [(nodes, edges)], [np.concatenate(y)]
    )
    w, g, h = 0.3 * rng.normal(size=size), np.empty(size), np.empty(size)
    assert separate(w, g) == pytest.approx(joined(w, h), abs=1e-7)
    np.testing.assert_allclose(g, h, atol=1e-5)
