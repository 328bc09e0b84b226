"""Training of the regressions: losses, callbacks, step sizes, separable data, reference class."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import trellis
from trellis import LogisticRegression, SoftmaxRegression
from trellis.errors import FormatError, InputError
from trellis.formats import native

X = np.random.default_rng(0).normal(size=(60, 2))
NOISE = np.random.default_rng(1).normal(size=60)
TWO = (X[:, 0] + NOISE > 0).astype(int)
THREE = np.digitize(X[:, 1] + NOISE, [-0.7, 0.7])
MODELS: list[tuple[Any, Any]] = [(LogisticRegression, TWO), (SoftmaxRegression, THREE)]


def joint(x: Any, label: int) -> list[float]:
    """Return φ(x, y): x, and a one, at the place of y."""
    return [value * (label == k) for k in range(3) for value in (*x, 1.0)]


@pytest.mark.parametrize(("kind", "y"), MODELS)
@pytest.mark.parametrize("options", [{"solver": "newton"}, {"solver": "gradient"}, {}, {"l1": 0.5}])
def test_losses_and_callback(kind: Any, y: Any, options: dict[str, Any]) -> None:
    seen = []
    model = kind(**options).fit(X, y, callback=lambda step: seen.append(step))
    assert model.losses_ == [(step.iteration, step.loss) for step in seen]
    assert [iteration for iteration, _ in model.losses_] == [*range(1, model.n_iter_ + 1)]
    assert all(a >= b - 1e-9 for (_, a), (_, b) in pairwise(model.losses_))
    assert model.losses_[-1][1] == model.objective_


@pytest.mark.parametrize(
    ("kind", "y"), [*MODELS, (lambda **o: SoftmaxRegression(features=joint, **o), THREE)]
)
@pytest.mark.parametrize("solver", ["lbfgs", "newton", "gradient"])
def test_a_callback_stops_training(kind: Any, y: Any, solver: str) -> None:
    model = kind(solver=solver)
    with pytest.warns(ConvergenceWarning, match="did not converge: stopped by the callback"):
        model.fit(X, y, callback=lambda step: step.iteration == 2)
    assert (model.n_iter_, len(model.losses_), model.converged_) == (2, 2, False)


def ascend(x: Any, y: Any, steps: list[float]) -> Any:
    """w ← w + t (Xᵀ(y - p) - w), the intercept last and without penalty."""
    rows, w = np.column_stack([x, np.ones(len(x))]), np.zeros(x.shape[1] + 1)
    for step in steps:
        p = 1 / (1 + np.exp(-rows @ w))
        w += step * (rows.T @ (y - p) - np.where(np.arange(3) < 2, w, 0.0))
    return w


@pytest.mark.parametrize(
    ("step", "steps"), [(0.01, [0.01] * 7), (lambda k: 0.02 / k, [0.02 / k for k in range(1, 8)])]
)
def test_step_sizes(step: Any, steps: list[float]) -> None:
    with pytest.warns(ConvergenceWarning, match="limit of 7 iterations"):
        model = LogisticRegression(solver="gradient", step=step, max_iter=7).fit(X, TWO)
    expected = ascend(X, TWO, steps)
    np.testing.assert_allclose(model.coef_[0], expected[:2], rtol=1e-12)
    np.testing.assert_allclose(model.intercept_, expected[2:], rtol=1e-12)
    both = SoftmaxRegression(solver="gradient", step=step, max_iter=7)
    with pytest.warns(ConvergenceWarning):
        both.fit(X, TWO)
    seen: list[float] = []
    with pytest.warns(ConvergenceWarning):
        both.fit(X, TWO, callback=lambda progress: seen.append(progress.step))
    assert seen == steps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0.0}, "step is 0: must be more than 0"),
        ({"step": -1.0}, "step must be finite and at least 0, not -1.0"),
        ({"step": "long"}, "step must be a number, not 'long'"),
        (
            {"step": lambda k: 1.0 / (k - 1) if k > 1 else 0.0},
            r"step\(1\) is 0: must be more than 0",
        ),
        ({"step": lambda k: "one" if k == 2 else 0.001}, r"step\(2\) must be a number, not 'one'"),
        ({"step": 0.1, "solver": "lbfgs"}, "step needs solver='gradient': lbfgs chooses its steps"),
        ({"step": 0.1, "solver": "newton"}, "step needs solver='gradient': newton chooses its"),
    ],
)
@pytest.mark.parametrize(("kind", "y"), MODELS)
def test_bad_steps(kind: Any, y: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**{"solver": "gradient", **options}).fit(X, y)


# ---- separable data

LINE = np.array([[-2.0], [-1.0], [1.0], [2.0]])
SIDES = [0, 0, 1, 1]


def on_line(x: Any, label: int) -> list[float]:
    return [float(x[0]) * label]


@pytest.mark.parametrize("solver", ["lbfgs", "newton", "gradient"])
@pytest.mark.parametrize("kind", [LogisticRegression, SoftmaxRegression, "joint"])
def test_separable_data_without_a_penalty(kind: Any, solver: str) -> None:
    model = (
        SoftmaxRegression(features=on_line, l2=0.0, solver=solver)
        if kind == "joint"
        else kind(l2=0.0, solver=solver)
    )
    with pytest.warns(ConvergenceWarning, match="separates the classes.* set l2 > 0$") as caught:
        model.fit(LINE, SIDES)
    assert len(caught) == 1
    assert not model.converged_
    assert np.isfinite(model.coef_).all()
    np.testing.assert_array_equal(model.predict(LINE), SIDES)


@pytest.mark.parametrize("kind", [LogisticRegression, SoftmaxRegression])
@pytest.mark.parametrize(
    ("options", "x", "sample_weight"),
    [
        ({"l2": 1e-3}, LINE, None),
        ({"l2": 0.0, "l1": 1e-3}, LINE, None),
        ({"l2": 0.0}, LINE[[0, 2, 1, 3]], None),
        ({"l2": 0.0}, np.array([[-2.0], [1.0], [1.0], [2.0]]), None),
    ],
    ids=["l2", "l1", "not separable", "a tie"],
)
def test_no_warning(kind: Any, options: dict[str, Any], x: Any, sample_weight: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kind(**options).fit(x, SIDES, sample_weight).converged_


@pytest.mark.parametrize("kind", [LogisticRegression, SoftmaxRegression])
def test_samples_without_weight_do_not_count_as_mistakes(kind: Any) -> None:
    x = np.array([[-2.0], [3.0], [1.0], [2.0]])
    with pytest.warns(ConvergenceWarning, match="separates the classes"):
        kind(l2=0.0).fit(x, SIDES, [1, 0, 1, 1])


# ---- reference class


@pytest.mark.parametrize("solver", ["lbfgs", "newton"])
@pytest.mark.parametrize("intercept", [True, False])
def test_reference_class(solver: str, intercept: bool) -> None:
    options = {"l2": 0.0, "fit_intercept": intercept, "tol": 1e-9}
    free = SoftmaxRegression(**options, solver="newton").fit(X, THREE)
    model = SoftmaxRegression(reference=1, solver=solver, **options).fit(X, THREE)
    assert model.coef_[1].tolist() == [0.0, 0.0]
    assert model.intercept_[1] == 0.0
    # Without a penalty, only the differences of weights have an effect.
    np.testing.assert_allclose(model.coef_, free.coef_ - free.coef_[1], atol=1e-5)
    np.testing.assert_allclose(model.intercept_, free.intercept_ - free.intercept_[1], atol=1e-5)
    np.testing.assert_allclose(model.objective_, free.objective_, rtol=1e-9)


def test_reference_class_with_a_penalty() -> None:
    """The penalty applies to the weights of the other classes only: two classes are logistic."""
    logistic = LogisticRegression(l2=0.7, tol=1e-9).fit(X, TWO)
    model = SoftmaxRegression(l2=0.7, reference=0, tol=1e-9).fit(X, TWO)
    np.testing.assert_allclose(model.coef_, [[0, 0], logistic.coef_[0]], atol=1e-7)
    np.testing.assert_allclose(model.intercept_, [0, logistic.intercept_[0]], atol=1e-7)
    np.testing.assert_allclose(model.objective_, logistic.objective_, rtol=1e-12)


def test_bad_reference() -> None:
    with pytest.raises(
        InputError, match=r"reference is 'x': must be one of the classes \[0, 1, 2\]"
    ):
        SoftmaxRegression(reference="x").fit(X, THREE)
    with pytest.raises(InputError, match="reference cannot be combined with features"):
        SoftmaxRegression(reference=0, features=joint).fit(X, THREE)


def test_files_keep_losses_reference_and_step(tmp_path: Path) -> None:
    path = tmp_path / "model.trellis"
    with pytest.warns(ConvergenceWarning):
        model = SoftmaxRegression(reference=2, solver="gradient", step=0.01, max_iter=3).fit(
            X, THREE
        )
    model.save(path)
    loaded = trellis.load(path)
    assert loaded.losses_ == model.losses_
    assert (loaded.reference, loaded.step) == (2, 0.01)
    # A function cannot be stored.
    model.set_params(step=lambda k: 0.01).save(path)
    assert trellis.load(path).step is None
    contents = native.read(path)
    meta = {**contents.meta, "parameters": {**contents.meta["parameters"], "reference": 9}}
    native.write(path, contents.kind, meta, contents.tensors)
    with pytest.raises(FormatError, match=r"reference is 9: must be one of the classes"):
        trellis.load(path)
