"""Training steps: losses, and gradients compared with central differences, for every kernel."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from trellis import _core

SHAPES = [(1, 1, 5), (1, 6, 100), (6, 6, 100), (7, 9, 33), (3, 17, 16), (10, 11, 64), (2, 8, 48)]
LOSSES = ("negative", "hierarchical", "ova", "softmax")


pytestmark = pytest.mark.usefixtures("isa")


def problem(shape: tuple[int, int, int], loss: str) -> tuple[NDArray[np.float32], ...]:
    """Return hidden vectors and rows, both padded, and labels that fit the loss."""
    hidden, targets, dim = shape
    rng = np.random.default_rng(targets)
    tables = []
    for rows in (hidden, targets):
        padded = np.zeros((rows, -(-dim // 16) * 16), np.float32)
        padded[:, :dim] = rng.normal(size=(rows, dim)) / dim**0.25
        tables.append(padded)
    label = np.zeros(targets, np.float32)
    if loss == "negative":
        label[0] = 1
    elif loss != "softmax":
        label[:] = rng.random(targets) < 0.5
    return (*tables, label)


def step(
    hidden: NDArray[np.float32],
    rows: NDArray[np.float32],
    label: NDArray[np.float32],
    loss: str,
    rate: float,
) -> float:
    target = len(rows) // 2 if loss == "softmax" else -1
    return _core.embedding_step(hidden, rows, label, np.ones_like(label), target, rate)


def expected_loss(
    hidden: NDArray[np.float64], rows: NDArray[np.float64], label: NDArray[np.float32], loss: str
) -> float:
    """Return the loss by its definition, in float64."""
    scores = hidden @ rows.T
    if loss == "softmax":
        target_scores = scores[:, len(rows) // 2]
        return float((np.logaddexp.reduce(scores, axis=1) - target_scores).sum())
    return float(np.logaddexp(0, np.where(label > 0, -scores, scores)).sum())


def central_differences(
    f: Callable[[NDArray[np.float64]], float], x: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return the numerical gradient of f at x."""
    point = x.astype(np.float64)
    gradient = np.zeros_like(point)
    for i in np.ndindex(*point.shape):
        high, low = point.copy(), point.copy()
        high[i] += 1e-4
        low[i] -= 1e-4
        gradient[i] = (f(high) - f(low)) / 2e-4
    return gradient


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_step_descends_the_gradient(shape: tuple[int, int, int], loss: str) -> None:
    hidden, rows, label = problem(shape, loss)
    h, w = hidden.astype(np.float64), rows.astype(np.float64)
    step_loss = step(hidden, rows, label, loss, 1.0)
    assert step_loss == pytest.approx(expected_loss(h, w, label, loss), rel=1e-5, abs=1e-6)
    by_hidden = central_differences(lambda x: expected_loss(x, w, label, loss), hidden * 0 + h)
    by_rows = central_differences(lambda x: expected_loss(h, x, label, loss), rows * 0 + w)
    np.testing.assert_allclose(hidden - h, -by_hidden, atol=2e-5)
    np.testing.assert_allclose(rows - w, -by_rows, atol=2e-5)
    assert (hidden[:, shape[2] :] == 0).all()  # padding stays zero
    assert (rows[:, shape[2] :] == 0).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_step_descends_the_loss_of_the_kernel(loss: str) -> None:
    """Compare with central differences of the loss that the kernel returns."""
    hidden, rows, label = problem((2, 5, 6), loss)

    def kernel_loss(x: NDArray[np.float32]) -> float:
        return step(x.copy(), rows.copy(), label, loss, 0.0)

    moved = hidden.copy()
    step(moved, rows.copy(), label, loss, 1.0)
    for i in np.ndindex(2, 6):
        high, low = hidden.copy(), hidden.copy()
        high[i] += 0.01
        low[i] -= 0.01
        slope = (kernel_loss(high) - kernel_loss(low)) / float(high[i] - low[i])
        assert moved[i] - hidden[i] == pytest.approx(-slope, abs=2e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_large_scores(loss: str) -> None:
    hidden, rows, label = problem((2, 5, 6), loss)
    hidden *= 1e3
    before = hidden.astype(np.float64), rows.astype(np.float64)
    step_loss = step(hidden, rows, label, loss, 1e-3)
    assert step_loss == pytest.approx(expected_loss(*before, label, loss), rel=1e-5)
    assert np.isfinite(hidden).all()
    assert np.isfinite(rows).all()


def test_repeated_rows_add_up() -> None:
    """A negative sample that is drawn twice is updated twice."""
    sentences = [["a", "b"]] * 200
    from trellis import Word2Vec

    model = Word2Vec(4, min_count=1, negatives=7, n_jobs=1, random_state=0).fit(sentences)
    assert np.isfinite(model.input_).all()
    assert np.isfinite(model.output_).all()


def test_invalid_step_input() -> None:
    hidden, rows, label = problem((2, 5, 6), "negative")
    with pytest.raises(ValueError, match="the same width"):
        _core.embedding_step(hidden, np.zeros((5, 32), np.float32), label, label, -1, 1.0)
    with pytest.raises(ValueError, match="one entry per row"):
        _core.embedding_step(hidden, rows, label[:3], label[:3], -1, 1.0)
    with pytest.raises(ValueError, match="padded"):
        _core.embedding_step(
            np.zeros((1, 5), np.float32), np.zeros((5, 5), np.float32), label, label, -1, 1.0
        )
