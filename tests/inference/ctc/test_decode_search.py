"""Beam search with narrow beams, batches, threads, dtypes and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from decode_oracles import draw_emissions, generate_emissions, prefix_search
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.errors import InfeasibleError
from trellis.inference import ctc


def require_same_beam(hypotheses: list[Any], want: list[tuple[tuple[int, ...], float]]) -> None:
    assert [tuple(hypothesis.labels.tolist()) for hypothesis in hypotheses] == [
        labels for labels, _ in want
    ]
    np.testing.assert_allclose(
        [hypothesis.log_prob for hypothesis in hypotheses],
        [score for _, score in want],
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("beam_width", [1, 2, 3, 7, 20])
def test_narrow_beams(isa: str, beam_width: int) -> None:
    for log_probs, blank in generate_emissions(21, 25, frames=12, vocabulary=6, scale=1.5):
        want = prefix_search(log_probs, blank, beam_width)
        hypotheses = ctc.beam_search(log_probs, blank=blank, beam_width=beam_width, k=beam_width)
        require_same_beam(hypotheses, want)


@pytest.mark.parametrize("cut", [-0.5, -1.5, -3.0])
def test_labels_below_min_log_prob_are_skipped(isa: str, cut: float) -> None:
    for log_probs, blank in generate_emissions(22, 25, frames=12, vocabulary=8, scale=1.5):
        want = prefix_search(log_probs, blank, 10, cut)
        hypotheses = ctc.beam_search(log_probs, blank=blank, beam_width=10, k=10, min_log_prob=cut)
        require_same_beam(hypotheses, want)


def test_the_best_label_is_never_pruned() -> None:
    x = np.log([[0.4, 0.6], [0.4, 0.6]])
    hypotheses = ctc.beam_search(x, beam_width=5, k=5, min_log_prob=0.0)
    assert [hypothesis.labels.tolist() for hypothesis in hypotheses] == [[1]]
    assert hypotheses[0].log_prob == pytest.approx(2 * np.log(0.6))


def test_long_and_wide(isa: str) -> None:
    """Vocabulary sizes are not multiples of a vector. Beams grow and shrink."""
    rng = np.random.default_rng(23)
    for vocabulary in (2, 3, 17, 31, 33, 64, 130):
        x = draw_emissions(rng, (40, vocabulary), scale=4.0)
        require_same_beam(
            ctc.beam_search(x, blank=vocabulary - 1, beam_width=16, k=16),
            prefix_search(x, vocabulary - 1, 16),
        )


def test_many_frames_do_not_underflow() -> None:
    """For 20,000 flat frames, p of the best labelling is far below the smallest float."""
    x = np.full((20_000, 3), np.log(1 / 3))
    x[::2000, 1] += 3.0
    best = ctc.beam_search(x, beam_width=8)[0]
    assert -25_000 < best.log_prob < -1000
    assert best.log_prob <= -ctc.loss(x, best.labels) + 1e-6


def test_a_wider_beam_is_not_worse_than_greedy() -> None:
    for log_probs, blank in generate_emissions(24, 50, frames=10, vocabulary=5):
        path = ctc.greedy(log_probs, blank=blank)
        best = ctc.beam_search(log_probs, blank=blank, beam_width=500)[0]
        assert best.log_prob >= -ctc.loss(log_probs, path.labels, blank=blank) - 1e-9
        assert -ctc.loss(log_probs, path.labels, blank=blank) >= path.log_prob - 1e-9


def test_frames_are_at_the_peaks(isa: str) -> None:
    rng = np.random.default_rng(25)
    for _ in range(20):
        frames = np.sort(rng.choice(np.arange(1, 40, 2), 6, replace=False))
        labels = rng.integers(1, 9, 6)
        p = np.full((41, 9), 0.002)
        p[:, 0] = 0.984
        p[frames, 0], p[frames, labels] = 0.002, 0.984
        for hypothesis in (ctc.beam_search(np.log(p), beam_width=10)[0], ctc.greedy(np.log(p))):
            assert hypothesis.labels.tolist() == labels.tolist()
            assert hypothesis.frames.tolist() == frames.tolist()


def test_frames_increase() -> None:
    for log_probs, blank in generate_emissions(26, 40, frames=12, vocabulary=5):
        for hypothesis in ctc.beam_search(log_probs, blank=blank, beam_width=20, k=20):
            assert len(hypothesis.frames) == len(hypothesis.labels)
            assert (np.diff(hypothesis.frames) > 0).all()
            assert all(0 <= frame < len(log_probs) for frame in hypothesis.frames)


# ---- batches


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


CALLS = {
    "align": lambda x, y, **options: ctc.align(x, y, **options),
    "greedy": lambda x, y, **options: ctc.greedy(x, **options),
    "beam_search": lambda x, y, **options: ctc.beam_search(x, beam_width=12, k=3, **options),
}


def drawn_batch(dtype: type = np.float64) -> tuple[np.ndarray, list[list[int]], list[int]]:
    rng = np.random.default_rng(27)
    x = draw_emissions(rng, (9, 30, 11), scale=2.0).astype(dtype)
    lengths = rng.integers(12, 31, 9)
    targets = [rng.integers(1, 11, size).tolist() for size in rng.integers(0, 6, 9)]
    return x, targets, lengths.tolist()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_batch_rows_equal_single_sequences(isa: str, name: str, dtype: type) -> None:
    x, targets, lengths = drawn_batch(dtype)
    alone = [
        CALLS[name](row[:n], target) for row, target, n in zip(x, targets, lengths, strict=True)
    ]
    together = CALLS[name](x, targets, lengths=lengths)
    assert isinstance(together, list)
    assert same(alone, together)


@pytest.mark.parametrize("name", CALLS)
def test_the_same_bits_for_every_number_of_threads(name: str) -> None:
    x, targets, lengths = drawn_batch()
    first = CALLS[name](x, targets, lengths=lengths, n_jobs=1)
    for n_jobs in (2, 3, None):
        assert same(first, CALLS[name](x, targets, lengths=lengths, n_jobs=n_jobs))


@pytest.mark.parametrize("name", CALLS)
def test_padding_does_not_matter(name: str) -> None:
    x, targets, lengths = drawn_batch()
    dirty = x.copy()
    for row, length in zip(dirty, lengths, strict=True):
        row[length:] = np.nan
    assert same(
        CALLS[name](x, targets, lengths=lengths), CALLS[name](dirty, targets, lengths=lengths)
    )


@pytest.mark.parametrize("name", CALLS)
def test_arrays_that_are_not_contiguous(name: str) -> None:
    x, targets, lengths = drawn_batch()
    want = CALLS[name](x, targets, lengths=lengths)
    frames_first = np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1)
    strided = np.repeat(x, 2, axis=2)[:, :, ::2]
    backwards = x[:, :, ::-1].copy()[:, :, ::-1]
    read_only = x.copy()
    read_only.flags.writeable = False
    for other in (frames_first, strided, backwards, np.asfortranarray(x), read_only):
        before = other.copy()
        assert same(want, CALLS[name](other, targets, lengths=lengths))
        assert np.array_equal(before, other), "the caller's array was changed"


@pytest.mark.parametrize("name", CALLS)
def test_single_precision_is_close(name: str) -> None:
    x, targets, lengths = drawn_batch()
    wide = CALLS[name](x, targets, lengths=lengths)
    narrow = CALLS[name](x.astype(np.float32), targets, lengths=lengths)
    score = "score" if name == "align" else "log_prob"
    for one, other in zip(wide, narrow, strict=True):
        if name == "beam_search":
            one, other = one[0], other[0]
        assert np.array_equal(one.labels, other.labels)
        assert getattr(one, score) == pytest.approx(getattr(other, score), rel=1e-5)


def test_infeasible_rows_are_named() -> None:
    x = np.log(np.full((3, 4, 3), 1 / 3))
    with pytest.raises(InfeasibleError, match="batch row 1"):
        ctc.align(x, [[1], [1, 1, 1], [2]])
    with pytest.raises(InfeasibleError, match="batch row 2"):
        ctc.align(x, [[1], [1, 2], [2, 1]], lengths=[4, 4, 1])
    x[0, :, 2] = -np.inf
    with pytest.raises(InfeasibleError, match="batch row 0"):
        ctc.align(x, [[1, 2], [1], [2]])


# ---- edge cases


def test_one_frame() -> None:
    x = np.log([[0.2, 0.5, 0.3]])
    assert ctc.greedy(x).labels.tolist() == [1]
    hypotheses = ctc.beam_search(x, beam_width=5, k=5)
    assert [hypothesis.labels.tolist() for hypothesis in hypotheses] == [[1], [2], []]
    assert hypotheses[2].log_prob == pytest.approx(np.log(0.2))
    assert hypotheses[2].frames.shape == hypotheses[2].labels.shape == (0,)
    assert ctc.align(x, [2])[:3][0].tolist() == [2]


def test_only_the_blank() -> None:
    x = np.zeros((5, 1))
    assert ctc.greedy(x).labels.tolist() == []
    hypotheses = ctc.beam_search(x, k=4)
    assert [(hypothesis.labels.tolist(), hypothesis.log_prob) for hypothesis in hypotheses] == [
        ([], 0.0)
    ]
    alignment = ctc.align(x, [])
    assert alignment.labels.tolist() == [0] * 5
    assert alignment.starts.shape == alignment.confidence.shape == (0,)
    with pytest.raises(InfeasibleError):
        ctc.align(np.full((1, 1), -np.inf), [])


def test_a_frame_without_a_possible_label() -> None:
    """Every labelling has probability zero."""
    x = np.log(np.full((2, 3, 3), 1 / 3))
    x[1, 2] = -np.inf
    for name, call in CALLS.items():
        with pytest.raises(InfeasibleError, match="batch row 1" + ", frame 2" * (name != "align")):
            call(x, [[1], [1]])
        call(x, [[1], [1]], lengths=[3, 2])


def test_k_larger_than_the_number_of_labellings() -> None:
    x = np.log(np.full((2, 2), 0.5))
    assert len(ctc.beam_search(x, beam_width=100, k=100)) == 2  # (), (1): (1, 1) has no path
    assert len(ctc.beam_search(x, beam_width=1, k=1)) == 1
    assert len(ctc.beam_search(draw_emissions(np.random.default_rng(0), (9, 5)), k=7)) == 7


@given(
    seed=st.integers(0, 2**32 - 1),
    frames=st.integers(1, 30),
    vocabulary=st.integers(2, 12),
    scale=st.sampled_from([0.1, 1.0, 8.0, 1e3]),
    beam_width=st.integers(1, 40),
)
@settings(max_examples=examples(150), deadline=None)
def test_properties(seed: int, frames: int, vocabulary: int, scale: float, beam_width: int) -> None:
    rng = np.random.default_rng(seed)
    x = draw_emissions(rng, (frames, vocabulary), scale)
    blank = int(rng.integers(vocabulary))
    hypotheses = ctc.beam_search(x, blank=blank, beam_width=beam_width, k=beam_width)
    assert 1 <= len(hypotheses) <= beam_width
    scores = np.array([hypothesis.log_prob for hypothesis in hypotheses])
    assert (np.diff(scores) <= 0).all()
    assert len({tuple(hypothesis.labels.tolist()) for hypothesis in hypotheses}) == len(hypotheses)
    for hypothesis in hypotheses:
        assert blank not in hypothesis.labels.tolist()
        exact = -ctc.loss(x, hypothesis.labels, blank=blank)
        assert hypothesis.log_prob <= exact + 1e-9 * max(1.0, abs(exact))
    best = hypotheses[0]
    path = ctc.align(x, best.labels, blank=blank)
    assert path.score <= -ctc.loss(x, best.labels, blank=blank) + 1e-9 * max(1.0, abs(path.score))
    assert path.score == pytest.approx(x[np.arange(frames), path.labels].sum(), rel=1e-9)
    shifted = ctc.align(x + rng.normal(size=(frames, 1)), best.labels, blank=blank)
    assert np.array_equal(path.labels, shifted.labels)
