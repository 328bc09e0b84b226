"""Losses and gradients equal torch's, including the corner cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ctc_cases import Batch, make_batch

from trellis.inference.ctc import cpu

torch = pytest.importorskip("torch")

# T, B, V, S; the third has targets as long as the input, the fifth more than 256 labels
SHAPES = [(50, 6, 20, 15), (60, 4, 200, 20), (7, 5, 30, 7), (40, 4, 3, 12), (700, 2, 40, 300)]
TOLERANCES = {
    np.float64: 1e-9,
    np.float32: 2e-5,
}  # torch computes in log space: its error is larger


def torch_loss(batch: Batch, scores: Any, logits: bool, zero_infinity: bool = False) -> Any:
    log_probs = scores.log_softmax(2) if logits else scores
    rest = [torch.from_numpy(array) for array in batch[1:4]]
    return torch.nn.functional.ctc_loss(
        log_probs, *rest, batch.blank, reduction="none", zero_infinity=zero_infinity
    )


def ours(batch: Batch, logits: bool, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    loss, log_norm, kept = cpu.forward(*batch, logits)
    return loss, cpu.backward(*batch, logits, log_norm, kept, loss, weight)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1.0, 5.0])
@pytest.mark.parametrize("blank", [0, 2])
def test_from_logits(shape: Any, dtype: type, scale: float, blank: int) -> None:
    batch = make_batch(31, shape, dtype, scale, blank)
    scores = torch.from_numpy(batch.scores.astype(np.float64)).requires_grad_()
    weight = np.linspace(-1.0, 2.0, shape[1]).astype(dtype)
    loss, gradient = ours(batch, True, weight)
    want = torch_loss(batch, scores, True)
    np.testing.assert_allclose(loss, want.detach().numpy(), rtol=TOLERANCES[dtype])
    finite = torch_loss(batch, scores, True, zero_infinity=True)
    (finite * torch.from_numpy(weight)).sum().backward()
    # For infeasible rows with a weight, torch returns the softmax as gradient.
    feasible = np.isfinite(loss)
    np.testing.assert_allclose(
        gradient[:, feasible], scores.grad.numpy()[:, feasible], rtol=0, atol=TOLERANCES[dtype]
    )
    assert not gradient[:, ~feasible].any()


@pytest.mark.parametrize("shape", SHAPES)
def test_from_log_probabilities(shape: Any) -> None:
    """The loss equals torch's. The gradient differs: torch's is correct only after a softmax."""
    batch = make_batch(32, shape)
    log_probs = torch.from_numpy(batch.scores).log_softmax(2)
    batch = batch._replace(scores=log_probs.numpy())
    loss, gradient = ours(batch, False, np.ones(shape[1]))
    want = torch_loss(batch, log_probs, False)
    np.testing.assert_allclose(loss, want.numpy(), rtol=1e-10)
    log_probs.requires_grad_()
    torch_loss(batch, log_probs, False, zero_infinity=True).sum().backward()
    inside = np.arange(shape[0])[:, None] < batch.input_lengths
    inside &= np.isfinite(loss)
    theirs = log_probs.grad.numpy() - log_probs.detach().exp().numpy()
    np.testing.assert_allclose(gradient[inside], theirs[inside], rtol=0, atol=1e-9)


def test_probability_zero() -> None:
    batch = make_batch(33, (20, 3, 6, 5))
    batch.scores[np.random.default_rng(34).random(batch.scores.shape) < 0.2] = -np.inf
    loss, gradient = ours(batch, False, np.ones(3))
    want = torch_loss(batch, torch.from_numpy(batch.scores), False).numpy()
    np.testing.assert_allclose(loss, want, rtol=1e-10)
    assert not np.isnan(gradient).any()


@pytest.mark.parametrize("scale", [1e3, 1e4])
def test_large_logits(scale: float) -> None:
    for shape in SHAPES[:3]:
        batch = make_batch(35, shape, scale=scale)
        scores = torch.from_numpy(batch.scores)
        loss, gradient = ours(batch, True, np.ones(shape[1]))
        np.testing.assert_allclose(loss, torch_loss(batch, scores, True).numpy(), rtol=1e-10)
        assert np.isfinite(gradient).all()
