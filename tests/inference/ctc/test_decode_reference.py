"""The reference of decoding agrees with enumeration, and the native core with the reference."""

from __future__ import annotations

import numpy as np
import pytest
from decode_oracles import (
    collapse,
    draw_emissions,
    enumerate_alignments,
    enumerate_labellings,
    generate_emissions,
)

from trellis.inference import ctc
from trellis.inference.ctc import reference


def test_beam_search_finds_every_labelling() -> None:
    for log_probs, blank in generate_emissions(31, 25, frames=5):
        want = enumerate_labellings(log_probs, blank)
        hypotheses = reference.beam_search(log_probs, blank, beam_width=10_000)
        assert {tuple(labels) for labels, _ in hypotheses} == set(want)
        assert len(hypotheses) == len(want)
        for labels, score in hypotheses:
            assert score == pytest.approx(want[tuple(labels)], rel=1e-10, abs=1e-10)


def test_align_is_the_best_of_all_paths() -> None:
    rng = np.random.default_rng(32)
    feasible = 0
    for log_probs, blank in generate_emissions(33, 60):
        labels = [v for v in range(log_probs.shape[1]) if v != blank]
        target = tuple(rng.choice(labels, int(rng.integers(0, 4))).tolist())
        score, paths = enumerate_alignments(log_probs, target, blank)
        path, best_score = reference.align(log_probs, target, blank)
        assert best_score == pytest.approx(score, rel=1e-12)
        if paths:
            feasible += 1
            assert tuple(path.tolist()) in paths
    assert feasible > 30


def test_greedy() -> None:
    for log_probs, blank in generate_emissions(34, 30):
        labels, score = reference.greedy(log_probs, blank)
        assert tuple(labels) == collapse(log_probs.argmax(axis=1).tolist(), blank)
        assert score == pytest.approx(log_probs.max(axis=1).sum())


@pytest.mark.parametrize("beam_width", [3, 25])
@pytest.mark.parametrize("cut", [None, -4.0])
def test_native_beam_search(isa: str, beam_width: int, cut: float | None) -> None:
    rng = np.random.default_rng(35)
    for frames, vocabulary in ((25, 6), (60, 20)):
        x = draw_emissions(rng, (frames, vocabulary), scale=3.0)
        limit = -np.inf if cut is None else cut
        want = reference.beam_search(x, 1, beam_width=beam_width, min_log_prob=limit)
        hypotheses = ctc.beam_search(
            x, blank=1, beam_width=beam_width, k=beam_width, min_log_prob=cut
        )
        assert [hypothesis.labels.tolist() for hypothesis in hypotheses] == [
            list(labels) for labels, _ in want
        ]
        scores = [score for _, score in want]
        np.testing.assert_allclose(
            [hypothesis.log_prob for hypothesis in hypotheses], scores, rtol=1e-10
        )


def test_native_align(isa: str) -> None:
    """Targets have one to more than 256 labels, some of them repeated."""
    rng = np.random.default_rng(36)
    sizes = [(1, 3, 1), (17, 3, 7), (64, 5, 30), (65, 5, 31), (200, 30, 63), (301, 8, 130)]
    for frames, vocabulary, length in [*sizes, (900, 40, 400)]:
        x = draw_emissions(rng, (frames, vocabulary), scale=2.0)
        target = rng.integers(1, vocabulary, length)
        path, score = reference.align(x, target, 0)
        alignment = ctc.align(x, target)
        assert alignment.score == pytest.approx(score, rel=1e-10)
        assert alignment.labels.tolist() == path.tolist()
        assert collapse(path.tolist(), 0) == tuple(target.tolist())


def test_native_align_without_a_frame_to_spare(isa: str) -> None:
    rng = np.random.default_rng(37)
    for length in (1, 2, 15, 16, 17, 33, 255, 256, 257):
        target = 1 + np.arange(length) % 5
        x = draw_emissions(rng, (length, 6))
        alignment = ctc.align(x, target)
        assert alignment.labels.tolist() == target.tolist()
        assert alignment.starts.tolist() == list(range(length))
        assert alignment.score == pytest.approx(x[np.arange(length), target].sum(), rel=1e-12)
