"""The recurrence of a bidirectional LSTM in the native core, for float32 tensors on the CPU.

>>> gates, u = torch.zeros(3, 8), torch.zeros(2, 4, 1)
>>> h, c, before = forward(gates, u, torch.tensor([2, 1]))  # two sequences, of 2 steps and of 1
>>> gates[0].tolist()  # sigmoid(0) is 1/2, and tanh(0) is 0
[0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.0, 0.5]
"""

import torch
from torch import Tensor

from trellis import _core
from trellis.native import resolve_jobs

__all__ = ["backward", "forward"]


def forward(gates: Tensor, u: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """States h and c, and h of the step before, (N, 2 · hidden) each; 0 before a first step.

    ``gates`` (N, 8 · hidden) are W x + b of i, f, g and o, of the forward direction and then of the
    backward one; they become the activations. ``u`` is (2, 4 · hidden, hidden), and ``sizes`` are
    how many sequences go as far as each step.
    """
    shape = (len(gates), 2 * u.shape[2])
    h, c, before = (gates.new_empty(shape) for _ in range(3))
    given = (gates.detach().numpy(), u.detach().numpy(), sizes.numpy())
    _core.lstm_forward(*given, h.numpy(), c.numpy(), before.numpy(), resolve_jobs(None))
    return h, c, before


def backward(d_h: Tensor, activations: Tensor, c: Tensor, u: Tensor, sizes: Tensor) -> Tensor:
    """The gradient of W x + b (N, 8 · hidden), from that of h and what `forward` has made."""
    d_gates = torch.empty_like(activations)
    made = (activations.detach().numpy(), c.detach().numpy(), u.detach().numpy())
    _core.lstm_backward(
        d_h.detach().numpy(), *made, sizes.numpy(), d_gates.numpy(), resolve_jobs(None)
    )
    return d_gates
