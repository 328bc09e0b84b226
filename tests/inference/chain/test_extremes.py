"""Extreme scores: forced paths near underflow, huge scores in long sequences, overflow."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trellis import native
from trellis.errors import InputError
from trellis.inference import chain
from trellis.inference.chain import reference
from trellis.inference.chain.batch import validate

INF = np.inf
RNG = np.random.default_rng


def test_a_forced_path_through_a_tiny_probability() -> None:
    """On the only allowed path, the sum of the scaled probabilities is subnormal."""
    transition = np.full((3, 3), -INF)
    transition[0, 1] = transition[1, 1] = -3.0
    transition[2, 2] = 0.0
    unary = np.array([[0.0, 0.0, -INF], [0.0, -708.0, -INF], [0.0, 0.0, -INF]])
    want = reference.log_partition(unary, transition)
    assert np.isfinite(want)
    assert chain.log_partition(unary, transition) == pytest.approx(want, rel=1e-12)
    np.testing.assert_allclose(
        chain.marginals(unary, transition).unary, reference.marginals(unary, transition).unary
    )
    counts = chain.expected_counts([np.zeros((3, 3)), unary], transition)
    assert counts.transition.sum() == pytest.approx(4.0)


@pytest.mark.parametrize("span", [300.0, 700.0, 750.0, 1000.0])
def test_forbidden_transitions_and_wide_scores(span: float, isa: str) -> None:
    rng = RNG(int(span))
    unary, transitions = [], []
    for _ in range(400):
        labels, length = int(rng.integers(2, 6)), int(rng.integers(2, 15))
        transition = rng.uniform(-80.0, 80.0, (labels, labels))
        transition[rng.random((labels, labels)) < rng.uniform(0.0, 0.7)] = -INF
        unary.append(rng.uniform(-span, span, (length, labels)))
        transitions.append(transition)
    for u, a in zip(unary, transitions, strict=True):
        want = reference.log_partition(u, a)
        assert chain.log_partition(u, a) == pytest.approx(want, rel=1e-12)
        if want > -INF:
            p, q = chain.marginals(u, a), reference.marginals(u, a)
            np.testing.assert_allclose(p.unary, q.unary, atol=1e-10)
            np.testing.assert_allclose(p.pairwise, q.pairwise, atol=1e-10)


@pytest.mark.parametrize("size", [1e4, 1e6, 1e8, 1e12])
@pytest.mark.parametrize("positional", [False, True])
def test_marginals_of_huge_scores_sum_to_one(size: float, positional: bool) -> None:
    """In log space, rounding at the size of the scores must not add up along the sequence."""
    unary = RNG(0).normal(size=(5000, 3))
    transition = np.full((3, 3), size)
    transition[2, 2] = -size
    if positional:
        transition = np.broadcast_to(transition, (4999, 3, 3)).copy()
    p = chain.marginals(unary, transition)
    np.testing.assert_allclose(p.unary.sum(axis=1), 1.0, atol=1e-11)
    np.testing.assert_allclose(p.pairwise.sum(axis=2), p.unary[:-1], atol=1e-11)
    np.testing.assert_allclose(p.pairwise.sum(axis=1), p.unary[1:], atol=1e-11)


ROUTINES: list[Callable[..., Any]] = [
    chain.log_partition,
    chain.marginals,
    chain.expected_counts,
    chain.viterbi,
    chain.entropy,
    chain.sample,
    chain.max_marginals,
]


@pytest.mark.parametrize("routine", ROUTINES)
def test_overflow_is_an_error(routine: Callable[..., Any]) -> None:
    big = np.full((2, 2), 1e308)
    with pytest.raises(InputError, match="sequence 0 overflow"):
        routine(big, np.zeros((2, 2)), start=np.full(2, 1e308))
    with pytest.raises(InputError, match="sequence 0 overflow"):
        routine(big, np.full((1, 2, 2), 1e308))


def test_positional_float64_transitions_keep_their_digits() -> None:
    unary = np.zeros((2, 1), dtype=np.float32)
    score = 1e8 + 1.1
    assert chain.log_partition(unary, np.full((1, 1, 1), score)) == score
    assert chain.log_partition([unary], [np.full((1, 1, 1), score)])[0] == score
    assert chain.marginals(unary, np.full((1, 1, 1), score)).unary.dtype == np.float64


def test_counts_of_many_float32_sequences() -> None:
    batch, transition = np.zeros((20_000, 2, 3), np.float32), np.zeros((1, 3, 3), np.float32)
    counts = chain.expected_counts(batch, transition)
    np.testing.assert_allclose(counts.transition, 20_000 / 9, rtol=1e-6)


def test_scores_changed_before_pairwise() -> None:
    unary, transition = np.array([[1.0, 0.0], [0.0, 0.0]]), np.zeros((2, 2))
    p = chain.marginals(unary, transition)
    unary[0] = [0.0, 1.0]  # log Z stays the same
    with pytest.raises(InputError, match="changed"):
        p.pairwise  # noqa: B018


def test_pairwise_after_another_isa(use_isa: Callable[[str], None]) -> None:
    rng = RNG(3)
    for _ in range(30):
        use_isa(native.available_isas()[-1])
        p = chain.marginals(rng.normal(size=(9, 5)), rng.normal(size=(5, 5)))
        use_isa(native.available_isas()[0])
        np.testing.assert_allclose(p.pairwise.sum(axis=2), p.unary[:-1])


def test_lengths_are_copied() -> None:
    lengths = np.array([2, 3])
    p = chain.marginals(RNG(1).normal(size=(2, 4, 3)), np.zeros((3, 3)), lengths=lengths)
    lengths[:] = 10**9
    assert p.pairwise.shape == (2, 3, 3, 3)


def test_results_can_be_pickled() -> None:
    p = chain.marginals(RNG(2).normal(size=(4, 3)), np.zeros((3, 3)))
    back = pickle.loads(pickle.dumps(p))
    assert np.array_equal(back.unary, p.unary)
    assert np.array_equal(back.pairwise, p.pairwise)


def test_numpy_integers_as_counts() -> None:
    unary, transition = np.zeros((1000, 2)), np.zeros((2, 2))
    assert chain.kbest(unary, transition, k=np.int8(5)).labels.shape == (5, 1000)
    assert chain.sample(unary, transition, n=np.int16(100)).shape == (100, 1000)
    for count in (10**13, 10**30):
        with pytest.raises(InputError, match=f"{count}.*1000 positions"):
            chain.kbest(unary, transition, k=count)
        with pytest.raises(InputError, match=f"{count}.*1000 positions"):
            chain.sample(unary, transition, n=count)


def test_messages_for_empty_input() -> None:
    with pytest.raises(InputError, match="batch is empty"):
        chain.log_partition(np.zeros((0, 3, 2)), np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"labels of sequence 0 .*\(0,\).* 2 positions"):
        chain.score([np.zeros((2, 2))], np.zeros((2, 2)), labels=[[]])
    with pytest.raises(InputError, match="mask is not an array"):
        chain.log_partition(np.zeros((2, 2)), np.zeros((2, 2)), mask=[[True], [True, False]])
    with pytest.raises(InputError, match="n_jobs"):
        chain.log_partition(np.zeros((2, 2)), np.zeros((2, 2)), n_jobs=np.array([1, 2]))


def test_infinite_results_are_an_overflow() -> None:
    scores = validate(chain.Scores(np.zeros((2, 3, 2)), np.zeros((2, 2))), 1)
    status = np.zeros((2, 2), np.int64)
    scores.raise_for(status, np.array([0.0, -np.inf]))
    for value in (np.inf, np.nan):
        with pytest.raises(InputError, match="scores of sequence 1 overflow"):
            scores.raise_for(status, np.array([0.0, value]))
