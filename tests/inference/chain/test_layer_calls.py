"""The short way of layers says what the long way says, or that it does not know."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import _core
from trellis.inference import chain
from trellis.inference.chain import layer


def batch(seed: int, rows: int, width: int, labels: int, dtype=np.float64, spread=1.0):
    rng = np.random.default_rng(seed)
    shapes = ((rows, width, labels), (labels, labels), (labels,), (labels,))
    scores = [(spread * rng.normal(size=shape)).astype(dtype) for shape in shapes]
    return scores, rng.integers(1, width + 1, rows), rng.integers(0, labels, (rows, width))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 12), st.integers(1, 40), st.booleans()
)
def test_as_the_long_way(seed, rows, width, labels, tagged):
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
        scores, lengths, tags = batch(seed, rows, width, labels, dtype)
        given_tags = tags if tagged else None
        found = layer.counts(*scores, lengths, given_tags)
        due = chain.expected_counts(*scores, lengths=lengths, labels=given_tags)
        assert found.unary.dtype == dtype
        np.testing.assert_allclose(found.value, due.log_partition, rtol=tolerance)
        np.testing.assert_allclose(found.unary, due.unary, atol=tolerance)
        np.testing.assert_allclose(found.pairs, due.transition, atol=tolerance * rows * width)
        labels_found, score = layer.best(*scores, lengths)
        path = chain.viterbi(*scores, lengths=lengths)
        np.testing.assert_array_equal(labels_found, np.maximum(path.labels, 0))
        np.testing.assert_allclose(score, path.score, rtol=tolerance)


def test_scores_far_apart():
    scores, lengths, tags = batch(0, 5, 30, 7, spread=400.0)
    found = layer.counts(*scores, lengths, tags)
    due = chain.expected_counts(*scores, lengths=lengths, labels=tags)
    np.testing.assert_allclose(found.unary, due.unary, atol=1e-12)
    np.testing.assert_allclose(found.value, due.log_partition, rtol=1e-12)


def test_any_layout_of_memory():
    scores, lengths, _ = batch(3, 4, 6, 5)
    due = layer.counts(*scores, lengths, None)
    turned = np.asfortranarray(scores[0]), np.asfortranarray(scores[1]), *scores[2:]
    found = layer.counts(*turned, lengths, None)
    np.testing.assert_array_equal(found.unary, due.unary)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("which", range(4))
def test_numbers_that_are_none(which, value):
    scores, lengths, _ = batch(1, 3, 4, 3)
    lengths[:] = 4
    scores[which].flat[0] = value
    assert layer.counts(*scores, lengths, None) is None


def test_no_path():
    scores, lengths, tags = batch(2, 3, 4, 3)
    scores[0][1, 0] = -np.inf
    assert layer.counts(*scores, lengths, tags) is None
    assert layer.best(*scores, lengths) is None


def test_a_forbidden_tag():
    scores, lengths, tags = batch(2, 3, 4, 3)
    scores[0][1, 0, tags[1, 0]] = -np.inf
    assert layer.counts(*scores, lengths, tags) is None
    assert layer.counts(*scores, lengths, None) is not None


def test_a_tag_that_is_none():
    scores, lengths, tags = batch(2, 3, 4, 3)
    tags[2, 0] = 3
    assert layer.counts(*scores, lengths, tags) is None
    assert layer.look(None, lengths, tags, (3, 4, 3)) is None
    tags[2, 0] = -1
    assert layer.look(None, lengths, tags, (3, 4, 3)) is None
    lengths[2] = 3
    tags[2] = 0, 1, 2, -100
    tags[:2] = 0
    assert layer.look(None, lengths, tags, (3, 4, 3)) is not None


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 6))
def test_looking_at_masks(seed, rows, width):
    rng = np.random.default_rng(seed)
    mask = rng.random((rows, width)) < 0.7
    tags = np.where(mask, rng.integers(0, 3, mask.shape), -100)
    seen = layer.look(mask, None, tags, (rows, width, 3))
    if not mask.any(axis=1).all():
        assert seen is None
        return
    np.testing.assert_array_equal(seen.lengths, mask.sum(axis=1))
    assert seen.in_front == bool((mask[:, :-1] >= mask[:, 1:]).all())


@pytest.mark.parametrize("lengths", [[0, 2], [2, 5], [-1, 1]])
def test_lengths_that_cannot_be(lengths):
    assert layer.look(None, np.array(lengths), None, (2, 4, 3)) is None


def test_sizes_are_checked_once_more():
    scores, lengths, tags = batch(0, 3, 4, 3)
    found = np.empty(3, dtype=np.int64)
    with pytest.raises(ValueError, match="one of mask and lengths"):
        _core.look_at_steps(None, None, None, 4, 3, found)
    with pytest.raises(ValueError, match="tags must be"):
        _core.look_at_steps(None, lengths, tags, 5, 3, found)
    with pytest.raises(ValueError, match="lengths must have one entry per row"):
        layer.counts(*scores, lengths[:2], None)
    with pytest.raises(ValueError, match="a length is out of range"):
        layer.counts(*scores, np.array([1, 2, 5]), None)
    with pytest.raises(ValueError, match="transition must be"):
        layer.best(scores[0], np.zeros((2, 2)), *scores[2:], lengths)
    with pytest.raises(ValueError, match="one entry per step"):
        layer.counts(*scores, lengths, tags[:, :2].copy())
