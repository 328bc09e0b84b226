"""The gradient with respect to log-probabilities and logits equals central differences."""

from __future__ import annotations

import numpy as np
import pytest
from ctc_cases import Batch, make_batch

from trellis.inference.ctc import cpu, reference

STEP = 1e-5


def central_differences(batch: Batch, logits: bool, weight: np.ndarray) -> np.ndarray:
    """d(Σ weight · finite loss) / d(scores)."""

    def value(scores: np.ndarray) -> float:
        loss = cpu.forward(scores, *batch[1:], logits)[0]
        return float(np.sum(weight * np.where(np.isfinite(loss), loss, 0.0)))

    slope = np.zeros_like(batch.scores)
    for i in np.ndindex(batch.scores.shape):
        up, down = batch.scores.copy(), batch.scores.copy()
        up[i] += STEP
        down[i] -= STEP
        slope[i] = (value(up) - value(down)) / (2 * STEP)
    return slope


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("shape", [(10, 4, 5, 4), (8, 3, 11, 4), (5, 3, 3, 5)])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_core(shape: tuple[int, int, int, int], scale: float, logits: bool) -> None:
    batch = make_batch(21, shape, scale=scale, blank=1)
    weight = np.random.default_rng(22).normal(size=shape[1])
    loss, log_norm, kept = cpu.forward(*batch, logits)
    got = cpu.backward(*batch, logits, log_norm, kept, loss, weight)
    want = central_differences(batch, logits, weight)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-8)


@pytest.mark.parametrize("logits", [False, True])
def test_reference(logits: bool) -> None:
    batch = make_batch(23, (9, 1, 4, 3), blank=2)
    case = batch.row(0, logits)
    got = reference.gradient(case.scores, case.target, case.blank, logits)
    want = central_differences(batch, logits, np.ones(1))[:, 0]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-8)
