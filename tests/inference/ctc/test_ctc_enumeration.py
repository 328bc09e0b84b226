"""Loss, posterior and gradient equal those of the enumeration of all paths, to 1e-10."""

from __future__ import annotations

import numpy as np
import pytest
from ctc_cases import Case, enumerate_paths, generate_cases

from trellis.inference import ctc
from trellis.inference.ctc import cpu, reference

TOLERANCE = 1e-10


def require_equal(case: Case) -> None:
    loss, occupation = enumerate_paths(case)
    options = {"blank": case.blank, "logits": case.logits}
    np.testing.assert_allclose(
        ctc.loss(case.scores, case.target, **options), loss, rtol=TOLERANCE, atol=TOLERANCE
    )
    got = ctc.posterior(case.scores, case.target, **options)
    np.testing.assert_allclose(got, occupation, rtol=0, atol=TOLERANCE)
    sums = got.sum(axis=1)
    np.testing.assert_allclose(sums, 1.0 if loss < np.inf else 0.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e4])
def test_random_cases(isa: str, scale: float) -> None:
    for case in generate_cases(seed=1, count=150, scale=scale):
        require_equal(case)


@pytest.mark.parametrize("impossible", [0.1, 0.5])
def test_probability_zero(isa: str, impossible: float) -> None:
    cases = generate_cases(seed=2, count=150, scale=1.0, impossible=impossible)
    # Logits that are all -inf are not a distribution. A separate test has such a frame.
    for case in cases:
        if not np.isnan(case.log_probs).any():
            require_equal(case)


def test_reference() -> None:
    for case in generate_cases(seed=3, count=200, scale=2.0, impossible=0.05):
        loss, occupation = enumerate_paths(case)
        x = case.log_probs
        if np.isnan(x).any():
            continue
        got = reference.loss(x, case.target, case.blank)
        np.testing.assert_allclose(got, loss, rtol=TOLERANCE, atol=TOLERANCE)
        got = reference.posterior(x, case.target, case.blank)
        np.testing.assert_allclose(got, occupation, rtol=0, atol=TOLERANCE)


def test_gradient() -> None:
    for case in generate_cases(seed=4, count=150, scale=2.0):
        loss, occupation = enumerate_paths(case)
        frames = len(case.scores)
        want = np.exp(case.log_probs) * (loss < np.inf) - occupation if case.logits else -occupation
        row = (
            np.array([case.target], dtype=np.int64).reshape(1, -1),
            np.array([frames]),
            np.array([len(case.target)]),
            case.blank,
            case.logits,
        )
        x = case.scores[:, None]
        value, log_norm, kept = cpu.forward(x, *row)
        weight = np.array([-0.7])
        got = cpu.backward(x, *row, log_norm, kept, value, weight)[:, 0]
        np.testing.assert_allclose(got, -0.7 * want, rtol=0, atol=TOLERANCE)


def test_all_paths_count_when_scores_are_zero() -> None:
    """With three frames, the target "a" has six of eight paths: aaa aa- a-- -aa -a- --a."""
    assert np.exp(-ctc.loss(np.zeros((3, 2)), [1])) == pytest.approx(6.0)
    assert np.exp(-ctc.loss(np.zeros((3, 2)), [1, 1])) == pytest.approx(1.0)


def test_a_frame_without_an_allowed_label() -> None:
    x = np.zeros((4, 3))
    x[2] = -np.inf
    for logits in (False, True):
        assert ctc.loss(x, [1], logits=logits) == np.inf
        assert not ctc.posterior(x, [1], logits=logits).any()
