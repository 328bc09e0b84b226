"""Windows of characters, and Adam on rows, in the native core equal references in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis import _core
from trellis.nn.words.chars import _max_windows


def draw_windows(words, longest, characters, width, filters, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, characters, (words, longest), generator=generator)
    return ids, torch.randn(characters, width, filters, generator=generator)


def check_windows(ids, table, isas=("",)):
    """Assert that values and gradients equal those of PyTorch operators in float64."""
    exact = table.double().requires_grad_()
    expected = _max_windows(ids, exact)
    weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    (expected_gradient,) = torch.autograd.grad((expected * weight).sum(), exact)
    for _ in isas:
        leaf = table.clone().requires_grad_()
        actual = _max_windows(ids, leaf)
        # this is the native operator
        assert type(actual.grad_fn).__name__ == "_MaxWindowsBackward"
        torch.testing.assert_close(actual.double(), expected, rtol=1e-6, atol=1e-6)
        (gradient,) = torch.autograd.grad((actual * weight).sum(), leaf)
        torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("filters", [1, 3, 8, 17, 50])
@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_windows_equal_pytorch(width, filters, each_isa):
    check_windows(*draw_windows(20, 9, 12, width, filters), each_isa())


@settings(deadline=None, max_examples=examples(40))
@given(*(st.integers(1, largest) for largest in (6, 5, 6, 8, 20)))
def test_windows_of_any_shape(words, longest, characters, width, filters):
    check_windows(*draw_windows(words, longest, characters, width, filters))


def test_slice_of_larger_rows():
    ids, table = draw_windows(6, 9, 8, 3, 5)
    assert not ids[:, :4].is_contiguous()
    check_windows(ids[:, :4], table)


def test_padding_has_no_value_and_no_gradient():
    ids, table = draw_windows(4, 5, 3, 2, 6)
    ids[1], ids[2, 2:] = 0, 0
    table.requires_grad_()
    actual = _max_windows(ids, table)
    assert (actual[1] == 0.0).all()
    assert (torch.autograd.grad(actual.sum(), table)[0][0] == 0.0).all()


@pytest.mark.parametrize("position", [0, 1, 2])
def test_windows_with_nan_are_nan(position, each_isa):
    ids, table = torch.tensor([[1, 2, 3]]), torch.ones(4, 1, 20)
    table[position + 1, 0, 7] = torch.nan
    for _ in each_isa():
        actual = _max_windows(ids, table)[0]
        assert actual.isnan().nonzero().tolist() == [[7]]


def test_invalid_windows_raise():
    ids, table = np.array([[0, 1, 3]]), np.zeros((4, 2, 5), np.float32)
    best, positions = np.zeros((1, 5), np.float32), np.zeros((1, 5), np.int32)
    _core.largest_windows(ids, table, best, positions)
    for arguments, message in [
        ((ids + 1, table, best, positions), "row 4 is not in a table of 4"),
        ((ids - 1, table, best, positions), "row -1 is not in a table of 4"),
        ((ids[:, :0], table, best, positions), "ids must have"),
        ((ids, table[:, :0], best, positions), "at least one position"),
        ((ids, table, best[:, :4].copy(), positions), r"\(words, filters\)"),
        ((ids, table, best, np.zeros((2, 5), np.int32)), r"\(words, filters\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            _core.largest_windows(*arguments)
    _core.largest_windows_backward(ids, positions, best, table)
    for arguments, message in [
        ((ids + 1, positions, best, table), "row 4 is not in a table of 4"),
        ((ids, positions + 3, best, table), "window 3 is not in a row of 3"),
        ((ids, positions - 1, best, table), "window -1 is not in a row of 3"),
        ((ids, positions, np.zeros((2, 5), np.float32), table), r"\(words, filters\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            _core.largest_windows_backward(*arguments)


# ---- Adam


def adam_in_float64(w, m, v, ids, g, beta1, beta2, decay, size, scale, epsilon):
    w, m, v = (x.astype(float) for x in (w, m, v))
    for row in sorted(set(ids.tolist())):
        expected_gradient = g[ids == row].astype(float).sum(axis=0)
        m[row] = beta1 * m[row] + (1 - beta1) * expected_gradient
        v[row] = beta2 * v[row] + (1 - beta2) * expected_gradient**2
        w[row] = decay * w[row] - size * m[row] / (np.sqrt(v[row]) * scale + epsilon)
    return w, m, v


@pytest.mark.parametrize("columns", [1, 5, 16, 33])
def test_rows_equal_adam(columns, each_isa):
    generator = np.random.default_rng(0)
    w, m, g = (generator.normal(size=(n, columns)).astype(np.float32) for n in (7, 7, 6))
    v, ids = m**2, np.array([3, 0, 3, 6, 3, 1])
    numbers = (0.9, 0.999, 0.99, 0.05, 1.7, 1e-8)
    expected = adam_in_float64(w, m, v, ids, g, *numbers)
    for _ in each_isa():
        actual = [x.copy() for x in (w, m, v)]
        _core.adam_rows(*actual, ids, g, *numbers)
        for table, expected_table in zip(actual, expected, strict=True):
            np.testing.assert_allclose(table, expected_table, rtol=2e-6, atol=2e-6)
        for table, before in zip(actual, (w, m, v), strict=True):
            assert np.array_equal(table[[2, 4, 5]], before[[2, 4, 5]])


def test_invalid_rows_raise():
    def zeros(*shape):
        return np.zeros(shape, np.float32)

    numbers = (0.9, 0.999, 1.0, 0.1, 1.0, 1e-8)
    tables, ids, g = [zeros(3, 2) for _ in range(3)], np.array([0, 2]), zeros(2, 2)
    _core.adam_rows(*tables, ids, g, *numbers)
    w, m, v = tables
    for arguments, message in [
        ((w, m, v, ids + 1, g), "row 3 is not in a table of 3"),
        ((w, m, v, ids - 1, g), "row -1 is not in a table of 3"),
        ((w, m, v, ids, zeros(1, 2)), "g must have one row per id"),
        ((w, m, v, ids, zeros(2, 3)), "g must have one row per id"),
        ((w, zeros(2, 2), v, ids, g), "the shape of the weights"),
        ((w, m, zeros(3, 1), ids, g), "the shape of the weights"),
    ]:
        with pytest.raises(ValueError, match=message):
            _core.adam_rows(*arguments, *numbers)
