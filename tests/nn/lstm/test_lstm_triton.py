"""The Triton kernels of the bidirectional LSTM, interpreted or on a GPU, equal PyTorch."""

import copy

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence

triton = pytest.importorskip("triton", reason="Triton is not installed")

from trellis.nn.lstm import bidirectional as module  # noqa: E402
from trellis.nn.lstm.triton import Engine  # noqa: E402

INTERPRETED = triton.knobs.runtime.interpret
DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.skipif(
        not (INTERPRETED or torch.cuda.is_available()), reason="needs a GPU, or the interpreter"
    ),
]


@pytest.fixture(autouse=True)
def use_triton_engine(monkeypatch):
    """Use the Triton engine on any device."""
    monkeypatch.setattr(
        module,
        "_choose_engine",
        lambda lstm, x, sizes, packing, rows: Engine(packing.to(DEVICE), rows),
    )


def make_case(lengths, width, hidden, padding=0, layers=1):
    torch.manual_seed(len(lengths) + hidden)
    sizes = torch.tensor([sum(n > t for n in lengths) for t in range(max(lengths))])
    packing = torch.cat([sizes.cumsum(0) - sizes, torch.tensor(lengths)])
    lstm = torch.nn.LSTM(width, hidden, layers, bidirectional=True).to(DEVICE)
    x = torch.randn(sum(lengths) + padding, width, device=DEVICE, requires_grad=True)
    return lstm, x, sizes, packing


@pytest.mark.parametrize("padding", [0, 5])
@pytest.mark.parametrize(
    ("lengths", "width", "hidden", "layers"),
    [([1], 2, 1, 1), ([3, 2, 1], 4, 3, 2), ([6, 6, 2], 5, 17, 1), ([4, 1], 3, 70, 1)],
)
def test_equal_to_pytorch(lengths, width, hidden, layers, padding):
    lstm, x, sizes, packing = make_case(lengths, width, hidden, padding, layers)
    exact, count = copy.deepcopy(lstm).double().cpu(), sum(lengths)
    x_exact = x.detach().double().cpu().requires_grad_()
    theirs = exact(PackedSequence(x_exact[:count], sizes))[0].data
    ours = module.bidirectional(lstm, x, sizes, packing, len(lengths))
    torch.testing.assert_close(ours[:count].double().cpu(), theirs, rtol=1e-5, atol=1e-6)
    assert (ours[count:] == 0).all() or layers > 1
    weight = torch.randn_like(theirs)
    expected = torch.autograd.grad(theirs, [x_exact, *exact.parameters()], weight)
    padded_weight = torch.zeros_like(ours)
    padded_weight[:count] = weight
    actual = torch.autograd.grad(ours, [x, *lstm.parameters()], padded_weight)
    for gradient, reference in zip(actual, expected, strict=True):
        torch.testing.assert_close(gradient.double().cpu(), reference, rtol=1e-4, atol=1e-5)


def test_two_runs_give_the_same_bits():
    lstm, x, sizes, packing = make_case([5, 3, 3], 4, 20)
    first, second = (
        torch.autograd.grad(
            module.bidirectional(lstm, x, sizes, packing, 3).square().sum(), [x, *lstm.parameters()]
        )
        for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
