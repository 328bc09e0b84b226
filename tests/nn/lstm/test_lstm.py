"""Our bidirectional LSTM equals that of PyTorch, in float32 and in float64."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples
from torch.nn.utils.rnn import PackedSequence

from trellis import _core
from trellis.nn.lstm import bidirectional as module
from trellis.nn.lstm import cpu
from trellis.nn.lstm.bidirectional import bidirectional

HIDDEN = (1, 3, 16, 17, 100, 128)


@pytest.fixture(autouse=True)
def one_thread_of_pytorch():
    """Use one thread, because the matrix products are too small for more."""
    previous = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(previous)


def sizes_of(lengths):
    return torch.tensor([sum(n > t for n in lengths) for t in range(max(lengths))])


def make_case(lengths, width=3, hidden=4, layers=1):
    torch.manual_seed(0)
    sizes = sizes_of(lengths)
    lstm = torch.nn.LSTM(width, hidden, layers, bidirectional=True)
    return lstm, torch.randn(int(sizes.sum()), width, requires_grad=True), sizes


def gradients(value, inputs):
    torch.manual_seed(1)
    weight = torch.randn(value.shape).to(value.dtype)
    return torch.autograd.grad((value * weight).sum(), inputs)


def check_against_pytorch(lengths, isas=("",), **shape):
    """Assert that values and gradients equal those of nn.LSTM in float64, within float32."""
    lstm, x, sizes = make_case(lengths, **shape)
    exact, x_exact = copy.deepcopy(lstm).double(), x.detach().double().requires_grad_()
    theirs = exact(PackedSequence(x_exact, sizes))[0].data
    expected = gradients(theirs, [x_exact, *exact.parameters()])
    for _ in isas:
        ours = bidirectional(lstm, x, sizes)
        assert type(ours.grad_fn).__name__ == "_RecurrenceBackward"  # not nn.LSTM itself
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=2e-6)
        actual = gradients(ours, [x, *lstm.parameters()])
        for gradient, reference in zip(actual, expected, strict=True):
            tolerance = 5e-6 * (1 + float(reference.abs().max()))
            torch.testing.assert_close(gradient.double(), reference, rtol=1e-5, atol=tolerance)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("sequences", [1, 2, 3, 4, 5, 6, 7, 8, 9, 33])
def test_equal_to_pytorch(hidden, sequences, each_isa):
    check_against_pytorch(
        [1 + 5 * n % 7 for n in range(sequences)], each_isa(), width=5, hidden=hidden
    )


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [12], [9] * 4, [40, 1, 1], [6, 5, 4, 3, 2, 1]])
def test_equal_to_pytorch_for_any_lengths(lengths, each_isa):
    check_against_pytorch(lengths, each_isa(), hidden=19)


@settings(deadline=None, max_examples=examples(25))
@given(st.lists(st.integers(1, 6), min_size=1, max_size=20), st.integers(1, 40), st.integers(1, 3))
def test_equal_to_pytorch_for_random_shapes(lengths, hidden, layers):
    check_against_pytorch(lengths, hidden=hidden, layers=layers)


def test_error_is_like_that_of_pytorch_in_float32():
    lstm, x, sizes = make_case([30, 28, 15, 2], width=20, hidden=100)
    exact = copy.deepcopy(lstm).double()(PackedSequence(x.double(), sizes))[0].data
    ours, theirs = bidirectional(lstm, x, sizes), lstm(PackedSequence(x, sizes))[0].data
    our_error, their_error = ((h.double() - exact).abs().max() for h in (ours, theirs))
    assert our_error < 2 * their_error + 1e-7


def test_saturated_gates():
    lstm, x, sizes = make_case([5, 3], hidden=7)
    with torch.no_grad():
        x *= 300.0
    ours, theirs = bidirectional(lstm, x, sizes), lstm(PackedSequence(x, sizes))[0].data
    torch.testing.assert_close(ours, theirs)
    assert all(g.isfinite().all() for g in gradients(ours, [x, *lstm.parameters()]))


def test_nan_stays_in_its_sequence():
    lstm, x, sizes = make_case([3, 2])
    with torch.no_grad():
        x[1] = torch.nan  # the first token of the second sequence
        h = bidirectional(lstm, x, sizes)
    assert h[[1, 3]].isnan().any(dim=1).all()
    assert h[[0, 2, 4]].isfinite().all()


def test_no_grad_gives_the_same_values():
    lstm, x, sizes = make_case([5, 3, 1], hidden=9, layers=2)
    with torch.no_grad():
        without_grad = bidirectional(lstm, x, sizes)
    assert torch.equal(without_grad, bidirectional(lstm, x, sizes))


def test_threads_do_not_change_bits(monkeypatch, each_isa):
    lstm, x, sizes = make_case([1 + n % 9 for n in range(45)], width=6, hidden=21)
    for _ in each_isa():
        results = []
        for threads in (1, 2, 5):
            monkeypatch.setattr(cpu, "resolve_jobs", lambda _, n=threads: n)
            h = bidirectional(lstm, x, sizes)
            results.append([h.detach(), *gradients(h, [x, *lstm.parameters()])])
        for result in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], result, strict=True))


def test_float64_falls_back_to_pytorch():
    lstm, x, sizes = make_case([4, 2, 1], width=2, hidden=2)
    lstm, x = lstm.double(), x.detach().double()
    assert torch.equal(bidirectional(lstm, x, sizes), lstm(PackedSequence(x, sizes))[0].data)


def test_dropout_between_layers(monkeypatch):
    lstm, x, sizes = make_case([4, 2], layers=2)
    lstm.dropout = 0.5
    calls = []

    def record_dropout(h, p):
        calls.append((h.shape[1], p))
        return torch.zeros_like(h)

    monkeypatch.setattr(module.nn.functional, "dropout", record_dropout)
    bidirectional(lstm, x, sizes)
    assert calls == [(8, 0.5)]
    bidirectional(lstm.eval(), x, sizes)
    assert len(calls) == 1


def test_second_derivative_raises():
    lstm, x, sizes = make_case([2])
    value = bidirectional(lstm, x, sizes).square().sum()
    (gradient,) = torch.autograd.grad(value, x, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        gradient.sum().backward()


# ---- errors of the binding


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([], "sizes has 0 tokens, but the arrays have 5"),
        ([3, 1], "sizes has 4 tokens, but the arrays have 5"),
        ([3, 3], r"sizes\[1\] is 3: more than the 5 tokens"),
        ([2, 3], r"sizes\[1\] is 3: must be from 1 to 2"),
        ([6], r"sizes\[0\] is 6: must be from 1 to 5"),
        ([3, 2, 0], r"sizes\[2\] is 0: must be from 1 to 2"),
        ([3, 3, -1], "sizes"),
        ([2**63 - 1, 2**63 - 1, 7], "sizes"),
    ],
)
def test_invalid_sizes_raise(sizes, message):
    gates, u, invalid_sizes = torch.zeros(5, 16), torch.zeros(2, 8, 2), torch.tensor(sizes).long()
    with pytest.raises(ValueError, match=message):
        cpu.Engine(invalid_sizes).forward(gates, u)
    h = torch.zeros(5, 4)
    with pytest.raises(ValueError, match=message):
        cpu.Engine(invalid_sizes).backward(h, gates, h, u)


def test_inconsistent_shapes_raise():
    def zeros(*shape):
        return np.zeros(shape, np.float32)

    sizes, h, gates, u = np.array([3, 2]), zeros(5, 4), zeros(5, 16), zeros(2, 8, 2)
    _core.lstm_forward(gates, u, sizes, h, h.copy(), h.copy(), 1)
    for arguments, message in [
        ((zeros(5, 15), u, sizes, h, h, h, 1), "gates"),
        ((gates, zeros(2, 8, 3), sizes, h, h, h, 1), "u must"),
        ((gates, zeros(1, 8, 2), sizes, h, h, h, 1), "u must"),
        ((zeros(5, 0), zeros(2, 0, 0), sizes, h, h, h, 1), "u must"),
        ((gates, u, sizes, zeros(4, 4), h, h, 1), "h, c and before"),
        ((gates, u, sizes, h, zeros(5, 3), h, 1), "h, c and before"),
        ((gates, u, sizes, h, h, h, 0), "threads"),
    ]:
        with pytest.raises(ValueError, match=message):
            _core.lstm_forward(*arguments)
    for arguments, message in [
        ((zeros(4, 4), gates, h, u, sizes, gates, 1), "d_h"),
        ((h, zeros(5, 8), h, u, sizes, gates, 1), "activations"),
        ((h, gates, zeros(5, 2), u, sizes, gates, 1), "c must"),
        ((h, gates, h, u, sizes, zeros(5, 17), 1), "d_gates"),
        ((h, gates, h, u, sizes, gates, -1), "threads"),
    ]:
        with pytest.raises(ValueError, match=message):
            _core.lstm_backward(*arguments)


def test_output_arrays_are_never_converted_to_copies():
    gates, u, sizes = np.zeros((2, 8)), np.zeros((2, 4, 1), np.float32), np.array([1, 1])
    h = [np.zeros((2, 2), np.float32) for _ in range(3)]
    with pytest.raises(TypeError):
        _core.lstm_forward(gates, u, sizes, *h, 1)  # float64 would be converted to a copy


@pytest.mark.parametrize("options", [{"bias": False}, {"proj_size": 2}])
def test_unsupported_networks_fall_back_to_pytorch(options):
    lstm = torch.nn.LSTM(3, 4, bidirectional=True, **options)
    x, sizes = torch.randn(5, 3), torch.tensor([2, 2, 1])
    assert torch.equal(bidirectional(lstm, x, sizes), lstm(PackedSequence(x, sizes))[0].data)


def test_without_triton_a_gpu_uses_cudnn(monkeypatch):
    module._import_triton.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "trellis.nn.lstm.triton", None)
    assert module._import_triton() is None
    assert not module.runs_on_gpu(torch.nn.LSTM(3, 4, bidirectional=True))
    module._import_triton.cache_clear()
