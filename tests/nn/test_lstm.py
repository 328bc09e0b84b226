"""Our bidirectional LSTM against PyTorch's, its gradient against central differences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from trellis.nn.lstm import bidirectional, reversal


def case(lengths, width=3, hidden=4, layers=1):
    torch.manual_seed(0)
    lengths = sorted(lengths, reverse=True)
    sizes = torch.tensor([sum(n > t for n in lengths) for t in range(lengths[0])])
    row = torch.cat([torch.arange(int(n)) for n in sizes])
    lstm = torch.nn.LSTM(width, hidden, layers, bidirectional=True).double()
    x = torch.randn(len(row), width, dtype=torch.float64, requires_grad=True)
    return lstm, x, sizes, reversal(sizes, row, torch.tensor(lengths))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(1, 2))
def test_it_is_pytorchs(lengths, layers):
    lstm, x, sizes, back = case(lengths, layers=layers)
    ours, theirs = bidirectional(lstm, x, sizes, back), lstm(PackedSequence(x, sizes))[0].data
    torch.testing.assert_close(ours, theirs)
    weight = torch.randn_like(ours)
    wanted = [x, *lstm.parameters()]
    pairs = zip(
        torch.autograd.grad((ours * weight).sum(), wanted),
        torch.autograd.grad((theirs * weight).sum(), wanted),
        strict=True,
    )
    for own, other in pairs:
        torch.testing.assert_close(own, other)


def test_gradient_is_that_of_central_differences():
    lstm, x, sizes, back = case([4, 2, 1], width=2, hidden=2)
    parameters = list(lstm.parameters())

    def outputs(x, *parameters):
        names = [name for name, _ in lstm.named_parameters()]
        state = dict(zip(names, parameters, strict=True))
        shell = torch.nn.LSTM(2, 2, bidirectional=True).double()
        for name in names:
            delattr(shell, name)
            setattr(shell, name, state[name])
        return bidirectional(shell, x, sizes, back)

    assert torch.autograd.gradcheck(outputs, (x, *parameters))


def test_a_second_derivative_is_refused():
    lstm, x, sizes, back = case([2])
    value = bidirectional(lstm, x, sizes, back).square().sum()
    (slope,) = torch.autograd.grad(value, x, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        slope.sum().backward()


def test_reversal_turns_each_sequence():
    sequences = [torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[4.0], [5.0]])]
    packed = pack_sequence(sequences)
    turned = pack_sequence([s.flip(0) for s in sequences])
    row = torch.tensor([0, 1, 0, 1, 0])
    back = reversal(packed.batch_sizes, row, torch.tensor([3, 2]))
    assert torch.equal(packed.data[back], turned.data)
    assert torch.equal(back[back], torch.arange(5))
