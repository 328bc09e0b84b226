"""The loop of the online solvers with scripted losses, and SGD on a learner in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trellis.errors import InputError, OptimizationError
from trellis.optim.online import Epochs, OnlineState, UpdateRule, run_epochs
from trellis.optim.result import Progress, Result
from trellis.optim.sgd import SampleLosses, sgd


def run_script(
    losses: list[float], *, sequences: int = 5, random_state: Any = 0, **settings: Any
) -> tuple[Result[OnlineState], list[NDArray[np.int64]]]:
    """Run a rule whose losses are given; return the result and the order of each epoch."""
    orders: list[NDArray[np.int64]] = []

    def start(state: OnlineState) -> None:
        state.numbers |= {"t0": 1.0, "scale": 1.0}

    def epoch(state: OnlineState, order: NDArray[np.int64]) -> float:
        orders.append(order)
        state.vectors["w"][0] += 1.0
        return losses[state.epoch]

    rule = UpdateRule("sgd", start, epoch, lambda state: 2.0 * state.vectors["w"])
    options = {"period": 0, "delta": 0.0, "callback": None, "max_iter": len(losses), "state": None}
    options |= settings | {"random_state": random_state}
    return run_epochs(rule, sequences, np.zeros(2), Epochs(**options)), orders


@pytest.mark.parametrize(
    ("losses", "period", "delta", "epochs"),
    [
        ([8, 4, 2, 1, 1], 0, 0.5, 5),  # period 0: no test
        ([8, 4, 2, 0, 1], 0, 0.5, 4),  # a loss of 0 always ends the run
        ([8, 4, 2, 1.9, 1], 1, 0.5, 4),  # 0.1 / 1.9 is below 0.5
        ([3, 2, 1, 0.5], 1, 0.5, 4),  # (3 - 2) / 2 is not below 0.5
        ([3, 2.0001, 1, 0.5], 1, 0.5, 2),
        ([1, 2, 1, 0.5], 1, 0.0, 2),  # a loss that rises
        ([8, 7.9, 4, 3.9, 3.8, 1], 2, 0.5, 5),
        ([8, 8, 8, 8, 8], 3, 0.1, 4),  # there is no loss of three epochs ago before that
        ([8, 8, 8], 3, 0.1, 3),
    ],
)
def test_the_end_of_a_run(losses: list[float], period: int, delta: float, epochs: int) -> None:
    result, orders = run_script(losses, period=period, delta=delta)
    assert result.n_iter == result.n_evaluations == len(orders) == epochs
    converged = epochs < len(losses)
    assert result.converged is converged
    assert result.message == ("the loss no longer falls" if converged else f"{len(losses)} epochs")
    assert result.loss == losses[epochs - 1]
    assert result.state.losses == losses[:epochs]
    assert result.w.tolist() == [2.0 * epochs, 0.0]


def test_orders_are_permutations_of_the_seed() -> None:
    _, orders = run_script([3, 2, 1], random_state=7)
    generator = np.random.Generator(np.random.PCG64(7))
    for order in orders:
        assert order.dtype == np.int64
        np.testing.assert_array_equal(order, generator.permutation(5))
    # A generator is used once, for the seed.
    _, drawn = run_script([3, 2, 1], random_state=np.random.default_rng(4))
    seed = int(np.random.default_rng(4).integers(2**63))
    _, seeded = run_script([3, 2, 1], random_state=seed)
    np.testing.assert_array_equal(drawn, seeded)


def test_a_resumed_run_continues_the_orders_and_the_losses() -> None:
    losses = [9.0, 8.0, 7.0, 6.0]
    _, expected = run_script(losses)
    first, orders = run_script(losses, max_iter=1)
    second, more = run_script(losses, state=first.state)
    np.testing.assert_array_equal(orders + more, expected)
    assert (second.n_iter, second.loss, second.state.losses) == (4, 6.0, losses)
    finished, none = run_script(losses, state=second.state)
    assert (finished.n_iter, finished.loss, finished.converged, none) == (4, 6.0, False, [])


def test_progress_of_each_epoch() -> None:
    seen: list[Progress] = []
    result, _ = run_script([3, 2, 1], callback=lambda p: seen.append(p) or p.iteration == 2)
    assert (result.n_iter, result.converged) == (2, False)
    assert result.message == "stopped by the callback"
    values = [(p.iteration, p.loss, p.active, p.evaluations, p.w.tolist()) for p in seen]
    assert values == [(1, 3, 1, 1, [2.0, 0.0]), (2, 2, 1, 2, [4.0, 0.0])]
    for progress in seen:
        assert np.isnan([progress.gradient_norm, progress.step]).all()
        assert progress.state() is result.state


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_losses_that_are_not_finite(loss: float) -> None:
    with pytest.raises(OptimizationError, match=rf"the loss is {loss} after epoch 2: values or"):
        run_script([1.0, loss, 1.0])


def test_limits_of_the_numbers_of_a_state() -> None:
    result, _ = run_script([3.0, 2.0])
    for name in ("vector.w", "number.t0", "losses"):
        for value in (np.nan, np.inf, 1e301):
            arrays = result.state.to_arrays()
            arrays[name] = arrays[name].copy()
            arrays[name][0] = value
            with pytest.raises(InputError, match=f"{name} is out of range"):
                OnlineState.from_arrays(arrays)
    arrays = result.state.to_arrays()
    arrays["losses"] = arrays["losses"][:1]
    with pytest.raises(InputError, match="2 epochs and 1 losses"):
        OnlineState.from_arrays(arrays)


class LeastSquares:
    """½ (xᵢ·w - yᵢ)² for each sequence, with the interface of the core's learner."""

    def __init__(self, factor: float = 1.0) -> None:
        rng = np.random.default_rng(3)
        self.x, self.y = factor * rng.normal(size=(7, 3)), rng.normal(size=7)
        self.calls: list[tuple[int, float, float, int]] = []

    def sgd(
        self, order: Any, lam: float, t0: float, before: int, w: Any, scale: float
    ) -> tuple[float, float]:
        assert np.isfinite(w).all()
        assert np.isfinite(scale)
        self.calls.append((len(order), lam, t0, before))
        total = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for n, i in enumerate(order):
                eta = 1.0 / (lam * (t0 + before + n))
                scale *= 1.0 - eta * lam
                error = self.x[i] @ w * scale - self.y[i]
                total += 0.5 * error**2
                w -= eta * error / scale * self.x[i]
        return total, scale

    def first_step(self, lam: float, eta: float, sample: int) -> float:
        """Return the step among eta · 2ᵏ, k = -9 ... 9, with the lowest loss after one pass."""
        order = np.random.default_rng(0).permutation(7)[:sample]
        losses = {}
        for step in eta * 2.0 ** np.arange(-9.0, 10.0):
            w, t0 = np.zeros(3), 1.0 / (lam * step)
            for n, i in enumerate(order):
                rate = 1.0 / (lam * (t0 + n))
                w = (1.0 - rate * lam) * w
                w -= rate * (self.x[i] @ w - self.y[i]) * self.x[i]
            errors = self.x[order] @ w - self.y[order]
            losses[step] = 0.5 * float(errors @ errors) + 0.5 * lam * len(order) * float(w @ w)
        return float(min(losses, key=losses.__getitem__))


@pytest.mark.parametrize("eta", [1e-3, 0.1, 0.4])
@pytest.mark.parametrize(("l2", "sample"), [(0.5, 1000), (6.0, 1000), (6.0, 4)])
def test_the_first_step_of_sgd_and_its_losses(eta: float, l2: float, sample: int) -> None:
    learner = LeastSquares()
    losses: list[float] = []
    result = sgd(
        learner, 7, np.zeros(3), l2=l2, eta=eta, sample=sample, max_iter=3, delta=0.0,
        callback=lambda p: losses.append(p.loss), random_state=1,
    )  # fmt: skip
    lam = l2 / 7
    t0 = 1.0 / (lam * learner.first_step(lam, eta, sample))
    assert result.state.numbers["t0"] == pytest.approx(t0, rel=1e-12)
    assert learner.calls[-3:] == [(7, lam, pytest.approx(t0), 7 * n) for n in range(3)]
    assert {count for count, *_ in learner.calls[:-3]} == {min(7, sample)}
    assert {before for *_, before in learner.calls[:-3]} == {0}
    # The loss of an epoch is that of each sequence before its step, and the L2 term after it.
    generator, w, expected = np.random.Generator(np.random.PCG64(1)), np.zeros(3), []
    for epoch in range(3):
        total = 0.0
        for n, i in enumerate(generator.permutation(7)):
            rate = 1.0 / (lam * (t0 + 7 * epoch + n))
            w = (1.0 - rate * lam) * w
            error = learner.x[i] @ w - learner.y[i]
            total += 0.5 * error**2
            w -= rate * error * learner.x[i]
        expected.append(total + 0.5 * l2 * float(w @ w))
    assert losses == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(result.w, w, rtol=1e-9)


def test_losses_in_python() -> None:
    """The same steps as with a learner that does them itself."""
    data = LeastSquares()

    def loss(i: int, w: Any, gradient: Any) -> float:
        error = data.x[i] @ w - data.y[i]
        gradient[:] = error * data.x[i]
        return 0.5 * float(error**2)

    w0, options = np.ones(3), {"l2": 0.5, "max_iter": 3, "delta": 0.0, "random_state": 1}
    expected = sgd(data, 7, w0, **options)
    result = sgd(SampleLosses(loss), 7, w0, **options)
    np.testing.assert_allclose(result.w, expected.w, rtol=1e-9)
    np.testing.assert_allclose(result.state.losses, expected.state.losses, rtol=1e-9)
    assert w0.tolist() == [1.0, 1.0, 1.0]
    # A run is resumed with the same bits, because the state is that of the core's learner.
    first = sgd(SampleLosses(loss), 7, w0, **options | {"max_iter": 1})
    second = sgd(SampleLosses(loss), 7, w0, **options, state=first.state)
    assert second.w.tolist() == result.w.tolist()
    with pytest.raises(InputError, match="sequences is 0: at least one is needed"):
        sgd(data, 0, w0, **options)
    with pytest.raises(InputError, match=r"loss must be a function of \(i, w, gradient\), not 3"):
        SampleLosses(3)
    with pytest.raises(OptimizationError, match="the loss is nan after epoch 1"):
        sgd(SampleLosses(lambda i, w, gradient: np.nan), 7, w0, **options)


class OneNumber:
    """A learner whose loss after a pass is a function of the step size alone."""

    def __init__(self, loss: Callable[[float], float]) -> None:
        self.loss = loss

    def sgd(
        self, order: Any, lam: float, t0: float, before: int, w: Any, scale: float
    ) -> tuple[float, float]:
        if t0 < 1e299:
            w[0] = 1.0 / t0
        return self.loss(w[0]), 0.0


@pytest.mark.parametrize(
    ("loss", "step"),
    [
        (lambda step: step, 2.0**-30),  # the first power of 2 below 1e-9
        (lambda step: -step, 2.0**30),
        (lambda step: abs(step - 3e-9), 2.0**-28),
        (lambda step: abs(step - 1e8), 2.0**26),
        (lambda step: 0.0 if 0.9 < step < 1.1 else 1.0, 1.0),
    ],
)
def test_the_search_for_a_step_ends(loss: Callable[[float], float], step: float) -> None:
    state = sgd(OneNumber(loss), 7, np.ones(1), l2=7.0, eta=1.0, max_iter=1).state
    assert state.numbers["t0"] == 1.0 / step


@pytest.mark.parametrize(("weight", "scale"), [(np.inf, 1.0), (np.nan, 1.0), (1.0, np.inf)])
def test_steps_that_overflow_are_not_chosen(weight: float, scale: float) -> None:
    class Overflow(OneNumber):
        def sgd(
            self, order: Any, lam: float, t0: float, before: int, w: Any, old_scale: float
        ) -> tuple[float, float]:
            assert np.isfinite([w[0], old_scale]).all()
            if 1.0 / t0 > 0.3:
                w[0] = weight
                return -9.0, scale
            return super().sgd(order, lam, t0, before, w, old_scale)

    state = sgd(Overflow(lambda step: -step), 7, np.ones(1), l2=7.0, eta=1.0, max_iter=1).state
    assert state.numbers["t0"] == 4.0
