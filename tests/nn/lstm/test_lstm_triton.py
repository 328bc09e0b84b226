"""The kernels of the bidirectional LSTM against PyTorch's, in Triton's interpreter or on a card."""

import copy

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence

triton = pytest.importorskip("triton", reason="Triton is not installed")

from trellis.nn.lstm import bidirectional as module  # noqa: E402
from trellis.nn.lstm.triton import Engine  # noqa: E402

INTERPRETED = triton.knobs.runtime.interpret
DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = pytest.mark.skipif(
    not (INTERPRETED or torch.cuda.is_available()), reason="neither interpreter nor card"
)


@pytest.fixture(autouse=True)
def our_kernels(monkeypatch):
    """Whatever the device."""
    monkeypatch.setattr(
        module, "_engine", lambda lstm, x, sizes, walk, rows: Engine(walk.to(DEVICE), rows)
    )


def case(lengths, width, hidden, padding=0, layers=1):
    torch.manual_seed(len(lengths) + hidden)
    sizes = torch.tensor([sum(n > t for n in lengths) for t in range(max(lengths))])
    walk = torch.cat([sizes.cumsum(0) - sizes, torch.tensor(lengths)])
    lstm = torch.nn.LSTM(width, hidden, layers, bidirectional=True).to(DEVICE)
    x = torch.randn(sum(lengths) + padding, width, device=DEVICE, requires_grad=True)
    return lstm, x, sizes, walk


@pytest.mark.parametrize("padding", [0, 5])
@pytest.mark.parametrize(
    ("lengths", "width", "hidden", "layers"),
    [([1], 2, 1, 1), ([3, 2, 1], 4, 3, 2), ([6, 6, 2], 5, 17, 1), ([4, 1], 3, 70, 1)],
)
def test_it_is_pytorchs(lengths, width, hidden, layers, padding):
    lstm, x, sizes, walk = case(lengths, width, hidden, padding, layers)
    exact, count = copy.deepcopy(lstm).double().cpu(), sum(lengths)
    wide = x.detach().double().cpu().requires_grad_()
    theirs = exact(PackedSequence(wide[:count], sizes))[0].data
    ours = module.bidirectional(lstm, x, sizes, walk, len(lengths))
    torch.testing.assert_close(ours[:count].double().cpu(), theirs, rtol=1e-5, atol=1e-6)
    assert (ours[count:] == 0).all() or layers > 1
    weight = torch.randn_like(theirs)
    wanted = torch.autograd.grad(theirs, [wide, *exact.parameters()], weight)
    full = torch.zeros_like(ours)
    full[:count] = weight
    found = torch.autograd.grad(ours, [x, *lstm.parameters()], full)
    for own, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(own.double().cpu(), right, rtol=1e-4, atol=1e-5)


def test_equal_bits():
    lstm, x, sizes, walk = case([5, 3, 3], 4, 20)
    first, again = (
        torch.autograd.grad(
            module.bidirectional(lstm, x, sizes, walk, 3).square().sum(), [x, *lstm.parameters()]
        )
        for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
