"""Compare the online solvers with their equations in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import trellis
from trellis import _core, optim
from trellis.errors import InputError
from trellis.models.chain.labels import encode
from trellis.models.chain.training import build_problem
from trellis.optim.arow import arow
from trellis.optim.online import OnlineState
from trellis.optim.passive_aggressive import passive_aggressive
from trellis.optim.perceptron import perceptron
from trellis.optim.sgd import sgd

SOLVERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "sgd": (sgd, {"l2": 0.5}),
    "perceptron": (perceptron, {}),
    "passive-aggressive": (passive_aggressive, {}),
    "arow": (arow, {}),
}


class Toy:
    """A few sequences, the core's learner for them, and φ(x, y) in plain Python."""

    def __init__(self, seed: int = 0, n: int = 6, labels: str = "PQR") -> None:
        rng = np.random.default_rng(seed)
        self.X, self.y = [], []
        for _ in range(n):
            length = int(rng.integers(1, 4))
            self.y.append([labels[rng.integers(len(labels))] for _ in range(length)])
            self.X.append(
                [
                    {
                        f"a{a}": float(rng.integers(1, 5)) / 2
                        for a in rng.choice(4, 2, replace=False)
                    }
                    for _ in range(length)
                ]
            )
        self.y[0] = [*labels][: len(self.y[0])]
        self.model = trellis.CRF(states="all", max_iter=1, l2=0.5).fit(self.X, self.y)
        batch = self.model.features_.find(self.X)
        known = encode(self.y, batch.lengths, self.model.classes_.tolist())
        self.data = build_problem(self.model, batch, known, self.model.layout_, None).data
        self.size = len(self.model.coef_)
        self.classes = self.model.classes_.tolist()

    @property
    def learner(self) -> Any:
        return _core.Online(self.data)

    def phi(self, x: Any, labels: Any) -> np.ndarray:
        out, count = np.zeros(self.size), len(self.classes)
        names = self.model.features_.names()
        numbers = [self.classes.index(label) for label in labels]
        for t, (token, n) in enumerate(zip(x, numbers, strict=True)):
            for name, value in token.items():
                out[names.index(name) * count + n] += value
            if t:
                out[len(names) * count + numbers[t - 1] * count + n] += 1.0
        return out

    def best(self, x: Any, w: np.ndarray) -> tuple[str, ...]:
        every = list(product(self.classes, repeat=len(x)))
        scores = np.array([w @ self.phi(x, labels) for labels in every])
        top = np.sort(scores)[::-1]
        # With a tie, the two implementations could choose different labellings.
        assert len(top) == 1 or top[0] - top[1] > 1e-9, "the example has a tie"
        return every[int(np.argmax(scores))]

    def orders(self, seed: int, epochs: int) -> list[np.ndarray]:
        rng = np.random.Generator(np.random.PCG64(seed))
        return [rng.permutation(len(self.X)) for _ in range(epochs)]


def first_weights(toy: Toy) -> np.ndarray:
    return np.random.default_rng(3).normal(0.0, 0.1, toy.size)


# ---- one step at a time


def test_a_perceptron_step_by_hand() -> None:
    """After one mistake, features of the correct labels get +1, those of the wrong labels -1."""
    X, y = [[{"a": 1.0}, {"b": 2.0}]], [["Q", "P"]]
    model = trellis.CRF(states="all", solver="perceptron", max_iter=1, random_state=0).fit(X, y)
    # with all weights 0 the first labelling wins: P P. Wrong is Q at 0, right is P at 1.
    # state (a, P), (a, Q), (b, P), (b, Q), then P→P, P→Q, Q→P, Q→Q; one step: w and its average
    step = np.array([-1.0, 1.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0])
    np.testing.assert_allclose(model.coef_, step / 2)  # the mean of w before and after the step


def test_perceptron_and_its_average() -> None:
    toy, epochs = Toy(), 3
    w = first_weights(toy)
    averages = [w.copy()]
    losses = []
    for order in toy.orders(7, epochs):
        errors = 0
        for i in order:
            guess = toy.best(toy.X[i], w)
            errors += sum(a != b for a, b in zip(guess, toy.y[i], strict=True))
            w = w + toy.phi(toy.X[i], toy.y[i]) - toy.phi(toy.X[i], guess)
            averages.append(w.copy())
        losses.append(errors)
    result = perceptron(
        toy.learner, len(toy.X), first_weights(toy), max_iter=epochs, random_state=7
    )
    assert result.state.losses == losses
    np.testing.assert_allclose(result.state.vectors["w"], w, atol=1e-12)
    # The average is over the weights before the first step and after each step.
    np.testing.assert_allclose(result.w, np.mean(averages, axis=0), atol=1e-10)


@pytest.mark.parametrize("variant", [0, 1, 2])
@pytest.mark.parametrize("count_errors", [True, False])
@pytest.mark.parametrize("aggressiveness", [1.0, 0.05])
def test_passive_aggressive(variant: int, count_errors: bool, aggressiveness: float) -> None:
    toy = Toy(seed=1)
    w, losses = first_weights(toy), []
    for order in toy.orders(5, 3):
        total = 0.0
        for i in order:
            guess = toy.best(toy.X[i], w)
            wrong = sum(a != b for a, b in zip(guess, toy.y[i], strict=True))
            if not wrong:
                continue
            d = toy.phi(toy.X[i], toy.y[i]) - toy.phi(toy.X[i], guess)
            hinge = -(w @ d) + (np.sqrt(wrong) if count_errors else 1.0)
            tau = hinge / (d @ d + (1 / (2 * aggressiveness) if variant == 2 else 0.0))
            w = w + (min(tau, aggressiveness) if variant == 1 else tau) * d
            total += hinge
        losses.append(total)
    result = passive_aggressive(
        toy.learner,
        len(toy.X),
        first_weights(toy),
        variant=variant,
        aggressiveness=aggressiveness,
        count_errors=count_errors,
        average=False,
        max_iter=3,
        random_state=5,
    )
    np.testing.assert_allclose(result.w, w, atol=1e-10)
    np.testing.assert_allclose(result.state.losses, losses, atol=1e-10)


def test_passive_aggressive_without_limit_wins_by_the_margin() -> None:
    """With variant 0, the correct labelling wins by exactly the margin after the step."""
    toy = Toy(seed=2, n=1)
    w = first_weights(toy)
    guess = toy.best(toy.X[0], w)
    result = passive_aggressive(
        toy.learner, 1, w, variant=0, average=False, max_iter=1, random_state=0
    )
    wrong = sum(a != b for a, b in zip(guess, toy.y[0], strict=True))
    assert wrong > 0
    margin = result.w @ (toy.phi(toy.X[0], toy.y[0]) - toy.phi(toy.X[0], guess))
    assert margin == pytest.approx(np.sqrt(wrong))


@pytest.mark.parametrize(("variance", "gamma"), [(1.0, 1.0), (0.5, 3.0)])
def test_arow(variance: float, gamma: float) -> None:
    toy = Toy(seed=3)
    w, sigma, losses = first_weights(toy), np.full(toy.size, variance), []
    for order in toy.orders(2, 3):
        total = 0.0
        for i in order:
            guess = toy.best(toy.X[i], w)
            wrong = sum(a != b for a, b in zip(guess, toy.y[i], strict=True))
            if not wrong:
                continue
            d = toy.phi(toy.X[i], toy.y[i]) - toy.phi(toy.X[i], guess)
            hinge = -(w @ d) + wrong
            alpha = hinge / (d @ (sigma * d) + gamma)
            w = w + alpha * sigma * d
            sigma = 1 / (1 / sigma + d * d / gamma)
            total += hinge
        losses.append(total)
    result = arow(
        toy.learner,
        len(toy.X),
        first_weights(toy),
        variance=variance,
        gamma=gamma,
        max_iter=3,
        random_state=2,
    )
    np.testing.assert_allclose(result.w, w, atol=1e-10)
    np.testing.assert_allclose(result.state.vectors["variance"], sigma, atol=1e-12)
    np.testing.assert_allclose(result.state.losses, losses, atol=1e-10)


def test_sgd_steps() -> None:
    """wₜ₊₁ = wₜ - ηₜ (∇lossᵢ + λ wₜ), with the t₀ that calibration chose."""
    toy, l2 = Toy(seed=4), 0.5
    result = sgd(toy.learner, len(toy.X), first_weights(toy), l2=l2, max_iter=3, random_state=9)
    lam, t0, w, t = l2 / len(toy.X), result.state.numbers["t0"], first_weights(toy), 0
    for order in toy.orders(9, 3):
        for i in order:
            every = list(product(toy.classes, repeat=len(toy.X[i])))
            table = np.array([toy.phi(toy.X[i], labels) for labels in every])
            # The L2 step comes first, then the step of the loss.
            eta = 1 / (lam * (t0 + t))
            w = w * (1 - eta * lam)
            p = np.exp(table @ w - (table @ w).max())
            w = w - eta * ((p / p.sum()) @ table - toy.phi(toy.X[i], toy.y[i]))
            t += 1
    np.testing.assert_allclose(result.w, w, rtol=1e-6, atol=1e-8)


def test_sgd_gets_close_to_the_optimum() -> None:
    toy = Toy(n=40)
    exact = trellis.CRF(states="all", l2=0.5).fit(toy.X, toy.y)
    settings = {"max_iter": 300, "period": 300, "random_state": 0}
    result = sgd(toy.learner, 40, np.zeros(toy.size), l2=0.5, **settings)
    loss = _core.Objective(toy.data, False).evaluate(result.w, 0.5, 1, np.empty(toy.size))
    assert result.n_iter == 300
    assert loss == pytest.approx(exact.objective_, rel=1e-3)
    assert loss >= exact.objective_ - 1e-4  # objective_ itself is exact to about 1e-5


def test_the_perceptron_stops_after_an_epoch_without_mistakes() -> None:
    X, y = [[["a"], ["b"]], [["b"], ["a"]]], [["P", "Q"], ["Q", "P"]]
    model = trellis.CRF(solver="perceptron", random_state=0).fit(X, y)
    assert model.converged_
    assert model.n_iter_ < 10
    assert model.predict(X) == y
    assert model.objective_ == 0


# ---- stopping and resuming


@pytest.mark.parametrize("name", SOLVERS)
def test_resuming_gives_the_same_bits(name: str) -> None:
    toy = Toy(n=12)
    solve, options = SOLVERS[name]
    uninterrupted = solve(
        toy.learner, 12, np.zeros(toy.size), max_iter=6, delta=0.0, random_state=3, **options
    )
    part = solve(
        toy.learner, 12, np.zeros(toy.size), max_iter=2, delta=0.0, random_state=3, **options
    )
    arrays = {key: value.copy() for key, value in part.state.to_arrays().items()}
    for _ in range(2):
        state = OnlineState.from_arrays(arrays)
        rest = solve(
            toy.learner, 12, np.zeros(toy.size), max_iter=6, delta=0.0, state=state, **options
        )
        assert rest.w.tobytes() == uninterrupted.w.tobytes()
        assert rest.state.losses == uninterrupted.state.losses
        assert rest.n_iter == uninterrupted.n_iter


@pytest.mark.parametrize("name", SOLVERS)
def test_a_state_round_trips(name: str) -> None:
    toy = Toy()
    solve, options = SOLVERS[name]
    state = solve(toy.learner, 6, np.zeros(toy.size), max_iter=2, random_state=1, **options).state
    again = OnlineState.from_arrays(state.to_arrays())
    assert again.epoch == state.epoch
    assert again.losses == state.losses
    assert again.numbers == state.numbers
    assert again.random == state.random
    assert again.vectors.keys() == state.vectors.keys()
    for key, vector in state.vectors.items():
        assert np.array_equal(again.vectors[key], vector)


@pytest.mark.parametrize("name", SOLVERS)
def test_w0_is_not_changed(name: str) -> None:
    toy = Toy()
    solve, options = SOLVERS[name]
    w0 = first_weights(toy)
    kept = w0.copy()
    solve(toy.learner, 6, w0, max_iter=2, random_state=1, **options)
    assert np.array_equal(w0, kept)


@pytest.mark.parametrize("name", SOLVERS)
def test_the_callback_can_stop_a_run(name: str) -> None:
    toy = Toy(n=12)
    solve, options = SOLVERS[name]
    seen: list[Any] = []

    def callback(progress: Any) -> bool:
        assert not progress.w.flags.writeable
        seen.append((progress.iteration, progress.loss, progress.active))
        return len(seen) == 2

    result = solve(
        toy.learner, 12, np.zeros(toy.size), random_state=1, callback=callback, **options
    )
    assert [n for n, _, _ in seen] == [1, 2]
    assert result.n_iter == 2
    assert not result.converged
    assert [loss for _, loss, _ in seen] == result.state.losses
    assert seen[-1][2] == np.count_nonzero(result.w)


# ---- bad input


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    "bad", [{"max_iter": 0}, {"max_iter": 1.5}, {"delta": -1.0}, {"delta": float("nan")}]
)
def test_bad_limits(name: str, bad: dict[str, Any]) -> None:
    toy = Toy()
    solve, options = SOLVERS[name]
    with pytest.raises(InputError):
        solve(toy.learner, 6, np.zeros(toy.size), **(options | bad))


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("sgd", {"l2": 0.0}),
        ("sgd", {"l2": -1.0}),
        ("sgd", {"l2": "much"}),
        ("sgd", {"eta": 0.0}),
        ("sgd", {"eta": float("inf")}),
        ("passive-aggressive", {"variant": 3}),
        ("passive-aggressive", {"variant": "one"}),
        ("passive-aggressive", {"aggressiveness": 0.0}),
        ("passive-aggressive", {"aggressiveness": float("nan")}),
        ("arow", {"gamma": 0.0}),
        ("arow", {"gamma": "wide"}),
        ("arow", {"variance": -1.0}),
    ],
)
def test_bad_options(name: str, bad: dict[str, Any]) -> None:
    toy = Toy()
    solve, options = SOLVERS[name]
    with pytest.raises(InputError):
        solve(toy.learner, 6, np.zeros(toy.size), **(options | bad))


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.pop("random"),
        lambda a: a.pop("losses"),
        lambda a: a.update({"random": a["random"][:3]}),
        lambda a: a.update({"other.thing": np.zeros(1)}),
    ],
)
def test_arrays_that_are_not_a_state(change: Callable[[Any], Any]) -> None:
    toy = Toy()
    arrays = dict(perceptron(toy.learner, 6, np.zeros(toy.size), max_iter=1).state.to_arrays())
    change(arrays)
    with pytest.raises(InputError, match="not a state"):
        OnlineState.from_arrays(arrays)


def test_solvers_are_functions_of_the_package() -> None:
    """``optim.sgd`` was a module, and the other three were not exported."""
    functions = {solver: function for solver, (function, _) in SOLVERS.items()}
    assert functions == {
        "sgd": optim.sgd,
        "perceptron": optim.perceptron,
        "passive-aggressive": optim.passive_aggressive,
        "arow": optim.arow,
    }
    assert {function.__name__ for function in functions.values()} <= {*optim.__all__}


def test_online_learners_need_all_labels_and_no_edge_features() -> None:
    with pytest.raises(InputError, match=r"perceptron.*labels"):
        trellis.CRF(solver="perceptron").fit([["a", "b"]], [["P", None]])
    edges = trellis.CRF(lambda x: [[w] for w in x], edge_features=lambda x: [[w] for w in x])
    with pytest.raises(InputError, match=r"arow.*edge"):
        edges.set_params(solver="arow").fit([["a", "b"]], [["P", "Q"]])
