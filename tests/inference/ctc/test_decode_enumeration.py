"""Decoding agrees with the enumeration of all paths, to 1e-10."""

from __future__ import annotations

import re

import numpy as np
import pytest
from decode_oracles import (
    collapse,
    draw_emissions,
    enumerate_alignments,
    enumerate_labellings,
    generate_emissions,
)

from trellis.errors import InfeasibleError
from trellis.inference import ctc

TOLERANCE = 1e-10
UNLIMITED = 10_000  # a beam width larger than the number of labellings of any case


def require_every_labelling(log_probs: np.ndarray, blank: int) -> None:
    want = enumerate_labellings(log_probs, blank)
    possible = {labelling for labelling, score in want.items() if score > -np.inf}
    hypotheses = ctc.beam_search(log_probs, blank=blank, beam_width=UNLIMITED, k=UNLIMITED)
    got = {tuple(hypothesis.labels.tolist()): hypothesis.log_prob for hypothesis in hypotheses}
    assert len(got) == len(hypotheses), "a labelling is given twice"
    assert {labelling for labelling, score in got.items() if score > -np.inf} == possible
    for labelling in possible:
        assert got[labelling] == pytest.approx(want[labelling], rel=TOLERANCE, abs=TOLERANCE)
    scores = [hypothesis.log_prob for hypothesis in hypotheses]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0, 100.0])
def test_beam_search_finds_every_labelling(isa: str, scale: float) -> None:
    for log_probs, blank in generate_emissions(1, 40, scale=scale):
        require_every_labelling(log_probs, blank)


def test_beam_search_with_probability_zero(isa: str) -> None:
    rng = np.random.default_rng(2)
    for log_probs, blank in generate_emissions(3, 60):
        log_probs[rng.random(log_probs.shape) < 0.3] = -np.inf
        if (log_probs.max(axis=1) > -np.inf).all():
            require_every_labelling(log_probs, blank)


def test_all_masses_sum_to_one(isa: str) -> None:
    log_probs = draw_emissions(np.random.default_rng(4), (6, 4))
    hypotheses = ctc.beam_search(log_probs, beam_width=UNLIMITED, k=UNLIMITED)
    assert np.logaddexp.reduce([hypothesis.log_prob for hypothesis in hypotheses]) == pytest.approx(
        0.0, abs=1e-12
    )


def test_the_largest_case() -> None:
    """T = 6, V = 4: 4096 paths of 469 labellings, for every index of the blank."""
    for blank in range(4):
        log_probs = draw_emissions(np.random.default_rng(blank), (6, 4))
        hypotheses = ctc.beam_search(log_probs, blank=blank, beam_width=UNLIMITED, k=UNLIMITED)
        assert len(hypotheses) == len(enumerate_labellings(log_probs, blank))
        require_every_labelling(log_probs, blank)


def test_loss_of_beam_search_results(isa: str) -> None:
    for log_probs, blank in generate_emissions(5, 30):
        for hypothesis in ctc.beam_search(log_probs, blank=blank, beam_width=UNLIMITED, k=20):
            loss = ctc.loss(log_probs, hypothesis.labels, blank=blank)
            assert hypothesis.log_prob == pytest.approx(-loss, rel=TOLERANCE, abs=TOLERANCE)


def require_best_alignment(log_probs: np.ndarray, target: tuple[int, ...], blank: int) -> None:
    score, paths = enumerate_alignments(log_probs, target, blank)
    if not paths:
        with pytest.raises(InfeasibleError, match="batch row 0"):
            ctc.align(log_probs, list(target), blank=blank)
        return
    alignment = ctc.align(log_probs, list(target), blank=blank)
    assert alignment.score == pytest.approx(score, rel=TOLERANCE, abs=TOLERANCE)
    path = tuple(alignment.labels.tolist())
    assert path in paths
    assert alignment.labels.dtype == np.int64
    assert len(alignment.starts) == len(alignment.ends) == len(alignment.confidence) == len(target)
    end = 0
    for s, (label, start, stop) in enumerate(
        zip(target, alignment.starts, alignment.ends, strict=True)
    ):
        assert end <= start < stop <= len(log_probs)
        assert set(path[start:stop]) == {label}
        assert set(path[end:start]) <= {blank}
        confidence = np.exp(log_probs[start:stop, label].mean())
        assert alignment.confidence[s] == pytest.approx(confidence, rel=1e-9)
        end = stop
    assert set(path[end:]) <= {blank}


@pytest.mark.parametrize("scale", [0.5, 3.0, 1e4])
def test_align_is_the_best_of_all_paths(isa: str, scale: float) -> None:
    rng = np.random.default_rng(6)
    for log_probs, blank in generate_emissions(7, 120, scale=scale):
        labels = [v for v in range(log_probs.shape[1]) if v != blank]
        length = int(rng.integers(0, len(log_probs) + 1))
        require_best_alignment(log_probs, tuple(rng.choice(labels, length).tolist()), blank)


def test_align_with_probability_zero(isa: str) -> None:
    rng = np.random.default_rng(8)
    refused = 0
    for log_probs, blank in generate_emissions(9, 150):
        log_probs[rng.random(log_probs.shape) < 0.3] = -np.inf
        labels = [v for v in range(log_probs.shape[1]) if v != blank]
        target = tuple(rng.choice(labels, int(rng.integers(0, 4))).tolist())
        refused += not enumerate_alignments(log_probs, target, blank)[1]
        require_best_alignment(log_probs, target, blank)
    assert 20 < refused < 130, "the cases must be of both kinds"


def test_align_unnormalised_scores(isa: str) -> None:
    """Scores need not be normalised: the best path has the largest sum."""
    rng = np.random.default_rng(10)
    for scale in (1.0, 100.0, 1e4):
        for _ in range(30):
            require_best_alignment(-np.abs(rng.normal(size=(5, 3))) * scale, (1, 2), 0)
            require_best_alignment(rng.normal(size=(5, 3)), (1, 2), 0)


def test_align_with_as_many_labels_as_frames() -> None:
    x = draw_emissions(np.random.default_rng(11), (6, 4))
    require_best_alignment(x, (1, 2, 3, 1, 2, 3), 0)
    require_best_alignment(x, (1, 1, 1), 0)  # two blanks between: one frame to spare
    with pytest.raises(InfeasibleError, match=re.escape("batch row 0")):
        ctc.align(x[:4], [1, 1, 1])


def test_greedy_is_the_best_path(isa: str) -> None:
    for log_probs, blank in generate_emissions(12, 100):
        path = log_probs.argmax(axis=1).tolist()
        hypothesis = ctc.greedy(log_probs, blank=blank)
        assert hypothesis.labels.dtype == hypothesis.frames.dtype == np.int64
        assert tuple(hypothesis.labels.tolist()) == collapse(path, blank)
        assert hypothesis.log_prob == pytest.approx(log_probs.max(axis=1).sum(), rel=1e-12)
        at = 0
        for label, frame in zip(hypothesis.labels, hypothesis.frames, strict=True):
            while path[at] == blank or path[at] != label:
                at += 1
            end = at
            while end < len(path) and path[end] == label:
                end += 1
            assert frame == at + int(log_probs[at:end, label].argmax())
            at = end
