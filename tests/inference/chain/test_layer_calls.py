"""The fast calls of the layers give the results of the general functions, or None."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis import _core
from trellis.inference import chain
from trellis.inference.chain import layer


def batch(seed: int, rows: int, width: int, labels: int, dtype=np.float64, spread=1.0):
    rng = np.random.default_rng(seed)
    shapes = ((rows, width, labels), (labels, labels), (labels,), (labels,))
    scores = [(spread * rng.normal(size=shape)).astype(dtype) for shape in shapes]
    return scores, rng.integers(1, width + 1, rows), rng.integers(0, labels, (rows, width))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 12), st.integers(1, 40), st.booleans()
)
def test_same_as_the_general_functions(seed, rows, width, labels, tagged):
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
        scores, lengths, tags = batch(seed, rows, width, labels, dtype)
        labels_or_none = tags if tagged else None
        fast = layer.expected_counts(scores, lengths, labels_or_none)
        right = chain.expected_counts(*scores, lengths=lengths, labels=labels_or_none)
        assert fast.unary.dtype == dtype
        np.testing.assert_allclose(fast.value, right.log_partition, rtol=tolerance)
        np.testing.assert_allclose(fast.unary, right.unary, atol=tolerance)
        np.testing.assert_allclose(fast.pairs, right.transition, atol=tolerance * rows * width)
        best_labels, score = layer.best_paths(scores, lengths)
        path = chain.viterbi(*scores, lengths=lengths)
        np.testing.assert_array_equal(best_labels, np.maximum(path.labels, 0))
        np.testing.assert_allclose(score, path.score, rtol=tolerance)


def test_wide_range_of_scores():
    scores, lengths, tags = batch(0, 5, 30, 7, spread=400.0)
    fast = layer.expected_counts(scores, lengths, tags)
    right = chain.expected_counts(*scores, lengths=lengths, labels=tags)
    np.testing.assert_allclose(fast.unary, right.unary, atol=1e-12)
    np.testing.assert_allclose(fast.value, right.log_partition, rtol=1e-12)


def test_any_memory_layout():
    scores, lengths, _ = batch(3, 4, 6, 5)
    right = layer.expected_counts(scores, lengths, None)
    turned = np.asfortranarray(scores[0]), np.asfortranarray(scores[1]), *scores[2:]
    fast = layer.expected_counts(turned, lengths, None)
    np.testing.assert_array_equal(fast.unary, right.unary)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("which", range(4))
def test_values_that_are_not_finite(which, value):
    scores, lengths, _ = batch(1, 3, 4, 3)
    lengths[:] = 4
    scores[which].flat[0] = value
    assert layer.expected_counts(scores, lengths, None) is None


def test_no_path():
    scores, lengths, tags = batch(2, 3, 4, 3)
    scores[0][1, 0] = -np.inf
    assert layer.expected_counts(scores, lengths, tags) is None
    assert layer.best_paths(scores, lengths) is None


def test_forbidden_tag():
    scores, lengths, tags = batch(2, 3, 4, 3)
    scores[0][1, 0, tags[1, 0]] = -np.inf
    assert layer.expected_counts(scores, lengths, tags) is None
    assert layer.expected_counts(scores, lengths, None) is not None


def test_invalid_tag():
    scores, lengths, tags = batch(2, 3, 4, 3)
    tags[2, 0] = 3
    assert layer.expected_counts(scores, lengths, tags) is None
    assert layer.find_steps(None, lengths, tags, (3, 4, 3)) is None
    tags[2, 0] = -1
    assert layer.find_steps(None, lengths, tags, (3, 4, 3)) is None
    lengths[2] = 3
    tags[2] = 0, 1, 2, -100
    tags[:2] = 0
    assert layer.find_steps(None, lengths, tags, (3, 4, 3)) is not None


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 6))
def test_steps_of_masks(seed, rows, width):
    rng = np.random.default_rng(seed)
    mask = rng.random((rows, width)) < 0.7
    tags = np.where(mask, rng.integers(0, 3, mask.shape), -100)
    steps = layer.find_steps(mask, None, tags, (rows, width, 3))
    if not mask.any(axis=1).all():
        assert steps is None
        return
    np.testing.assert_array_equal(steps.lengths, mask.sum(axis=1))
    assert steps.prefix == bool((mask[:, :-1] >= mask[:, 1:]).all())


@pytest.mark.parametrize("lengths", [[0, 2], [2, 5], [-1, 1]])
def test_invalid_lengths(lengths):
    assert layer.find_steps(None, np.array(lengths), None, (2, 4, 3)) is None


def test_sizes_are_validated_by_the_core():
    scores, lengths, tags = batch(0, 3, 4, 3)
    counts = np.empty(3, dtype=np.int64)
    with pytest.raises(ValueError, match="one of mask and lengths"):
        _core.look_at_steps(None, None, None, 4, 3, counts)
    with pytest.raises(ValueError, match="tags must be"):
        _core.look_at_steps(None, lengths, tags, 5, 3, counts)
    with pytest.raises(ValueError, match="lengths must have one entry per row"):
        layer.expected_counts(scores, lengths[:2], None)
    with pytest.raises(ValueError, match="a length is out of range"):
        layer.expected_counts(scores, np.array([1, 2, 5]), None)
    with pytest.raises(ValueError, match="transition must be"):
        layer.best_paths((scores[0], np.zeros((2, 2)), *scores[2:]), lengths)
    with pytest.raises(ValueError, match="one entry per step"):
        layer.expected_counts(scores, lengths, tags[:, :2].copy())
