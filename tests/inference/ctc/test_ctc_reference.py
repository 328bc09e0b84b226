"""The native core agrees with the reference for long, ragged, peaked and extreme batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ctc_cases import Batch, Case, make_batch

from trellis.inference import ctc
from trellis.inference.ctc import cpu, reference

# T, B, V, S: targets use all labels, or a part of them; over 256 labels; several segments
SHAPES = [(30, 5, 6, 9), (40, 4, 50, 8), (9, 3, 4, 9), (700, 2, 20, 300), (600, 2, 300, 40)]


def both(batch: Batch, logits: bool, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Compute the loss, and the gradient weighted by 1, 2, 3, ..."""
    weight = np.arange(1, len(batch.targets) + 1, dtype=batch.scores.dtype)
    loss, log_norm, kept = cpu.forward(*batch, logits, **options)
    out = np.full_like(batch.scores, np.nan)
    cpu.backward(*batch, logits, log_norm, kept, loss, weight, out=out, **options)
    return loss, out


def expected(case: Case, frames: int) -> tuple[float, np.ndarray]:
    """Compute the reference in float64. The gradient is 0 in the padding."""
    scores = case.scores.astype(np.float64)
    log_probs = reference.log_softmax(scores) if case.logits else scores
    gradient = reference.gradient(scores, case.target, case.blank, case.logits)
    padding = np.zeros((frames - len(scores), scores.shape[1]))
    return reference.loss(log_probs, case.target, case.blank), np.vstack([gradient, padding])


def require_equal(batch: Batch, logits: bool, tolerance: float) -> None:
    loss, gradient = both(batch, logits)
    assert loss.dtype == gradient.dtype == batch.scores.dtype
    for b in range(len(loss)):
        want, slope = expected(batch.row(b, logits), len(batch.scores))
        np.testing.assert_allclose(loss[b], want, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(
            gradient[:, b], (b + 1) * slope, rtol=0, atol=(b + 1) * tolerance
        )


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 1e-6)])
def test_ragged_batches(
    isa: str, shape: tuple[int, ...], logits: bool, dtype: type, tolerance: float
) -> None:
    require_equal(make_batch(5, shape, dtype, scale=2.0, blank=shape[2] - 1), logits, tolerance)


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("scale", [50.0, 1e3, 1e4])
def test_large_scores(isa: str, scale: float, logits: bool) -> None:
    """Scores with a range too large for scaled probabilities are computed in log space."""
    for shape in SHAPES[:3]:
        require_equal(make_batch(6, shape, scale=scale), logits, 1e-9)


def test_large_logits_in_float32() -> None:
    """log_norm is rounded to 1e-3 here, but the gradient must be exact."""
    for shape in SHAPES[:3]:
        batch = make_batch(7, shape, np.float32, scale=1e4)
        require_equal(batch, True, 1e-6)
        shifted = batch._replace(scores=np.float32(1e4) + make_batch(7, shape, np.float32).scores)
        require_equal(shifted, True, 1e-6)


@pytest.mark.parametrize("gap", [2.0, 12.0, 30.0, 60.0])
def test_peaked_distributions(isa: str, gap: float) -> None:
    """As in a trained network, one label per frame is far above the others; most are blank."""
    rng = np.random.default_rng(8)
    frames, vocabulary, labels = 400, 30, 80
    target = rng.integers(1, vocabulary, labels)
    scores = rng.normal(size=(frames, 1, vocabulary))
    at = np.zeros(frames, dtype=int)
    at[2 + 5 * np.arange(labels) + rng.integers(-1, 2, labels)] = target
    scores[np.arange(frames), 0, at] += gap
    batch = Batch(scores, target[None], np.array([frames]), np.array([labels]), 0)
    require_equal(batch, True, 1e-9)


def test_small_losses_keep_their_digits() -> None:
    """Small probabilities are not lost next to 1, also in float32."""
    scores = np.zeros((300, 1, 200), dtype=np.float32)
    scores[:, 0, 0] = 25.0
    scores[100, 0, :2] = 0.0, 25.0
    batch = Batch(scores, np.array([[1]]), np.array([300]), np.array([1]), 0)
    loss = both(batch, True)[0][0]
    want = expected(batch.row(0, True), 300)[0]
    assert 0.0 < want < 1e-6
    assert loss == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("logits", [False, True])
def test_same_bits_for_every_number_of_threads(logits: bool) -> None:
    for shape in [(200, 9, 30, 40), (150, 3, 400, 30), (300, 1, 2000, 20)]:
        batch = make_batch(9, shape, np.float32)
        want = both(batch, logits, n_jobs=1)
        for n_jobs in (2, 3, 8):
            for a, b in zip(want, both(batch, logits, n_jobs=n_jobs), strict=True):
                assert a.tobytes() == b.tobytes()


def test_padding_is_not_read() -> None:
    for logits in (False, True):
        for shape in SHAPES[:3]:
            batch = make_batch(10, shape)
            scores, targets = batch.scores.copy(), batch.targets.copy()
            for b in range(shape[1]):
                scores[batch.input_lengths[b] :, b] = np.nan
                targets[b, batch.target_lengths[b] :] = -1
            again = both(batch._replace(scores=scores, targets=targets), logits)
            for a, b in zip(both(batch, logits), again, strict=True):
                assert a.tobytes() == b.tobytes()


def test_nan_stays_in_its_row() -> None:
    for shape in SHAPES[:2]:
        for value in (np.nan, np.inf):
            batch = make_batch(11, shape)
            batch.scores[1, 0, batch.targets[0, 0]] = value
            loss, gradient = both(batch, True)
            assert np.isnan(loss[0])
            assert np.isnan(gradient[: batch.input_lengths[0], 0]).all()
            assert np.isfinite(loss[1])
            assert np.isfinite(gradient[:, 1:]).all()


@pytest.mark.parametrize("logits", [False, True])
def test_infeasible_rows(logits: bool) -> None:
    """Infeasible rows have loss +inf and gradient 0. Feasible rows do not change."""
    targets = np.array([[1, 1, 2], [1, 2, 1], [3, 3, 3], [1, 2, 3]])
    lengths = np.array([3, 3, 5, 2])
    for vocabulary in (4, 20):
        scores = np.random.default_rng(12).normal(size=(5, 4, vocabulary))
        batch = Batch(scores, targets, lengths, np.full(4, 3), 0)
        loss, gradient = both(batch, logits)
        assert np.isinf(loss).tolist() == [True, False, False, True]
        assert not gradient[:, [0, 3]].any()
        require_equal(batch, logits, 1e-10)


def test_strides_and_layouts() -> None:
    batch = make_batch(13, (12, 4, 7, 5))
    want_loss, want = both(batch, True)
    by_row = np.ascontiguousarray(batch.scores.swapaxes(0, 1))
    spread = np.zeros((12, 4, 14))[:, :, ::2]
    spread[:] = batch.scores
    for scores in (by_row.swapaxes(0, 1), spread, batch.scores[::-1][::-1]):
        loss, gradient = both(batch._replace(scores=scores), True)
        np.testing.assert_array_equal(loss, want_loss)
        np.testing.assert_array_equal(gradient, want)


def test_public_batch_is_the_engine() -> None:
    batch = make_batch(14, (12, 4, 7, 5))
    scores = np.ascontiguousarray(batch.scores.swapaxes(0, 1))
    targets = [row[:n].tolist() for row, n in zip(batch.targets, batch.target_lengths, strict=True)]
    loss = ctc.loss(scores, targets, lengths=batch.input_lengths, logits=True)
    np.testing.assert_array_equal(loss, cpu.forward(*batch, True)[0])
    shares = ctc.posterior(scores, targets, lengths=batch.input_lengths, logits=True)
    for b, target in enumerate(targets):
        n = batch.input_lengths[b]
        one = ctc.posterior(scores[b, :n], target, logits=True)
        np.testing.assert_allclose(shares[b, :n], one, rtol=0, atol=1e-14)
        assert not shares[b, n:].any()
    assert ctc.loss(scores[0], targets[0], logits=True) == pytest.approx(loss[0], rel=1e-14)


def test_no_frames_at_all() -> None:
    x = np.zeros((3, 2, 4))
    rows = (np.array([[1], [1]]), np.array([0, 0]), np.array([0, 1]), 0, True)
    loss, log_norm, kept = cpu.forward(x, *rows)
    assert loss.tolist() == [0.0, np.inf]
    assert not cpu.backward(x, *rows, log_norm, kept, loss, np.ones(2)).any()
    for shape in ((0, 2, 4), (3, 0, 4)):
        x, few = np.zeros(shape), shape[1]
        rows = (np.ones((few, 1), int), np.zeros(few, int), np.zeros(few, int), 0, True)
        loss, log_norm, kept = cpu.forward(x, *rows)
        assert loss.tolist() == [0.0] * few
        assert cpu.backward(x, *rows, log_norm, kept, loss, np.ones(few)).shape == shape
