"""The recurrence of a bidirectional LSTM in the native core, for float32 tensors on the CPU.

>>> gates, u = torch.zeros(3, 8), torch.zeros(2, 4, 1)
>>> engine = Engine(torch.tensor([2, 1]))  # two sequences, of 2 steps and of 1
>>> h, c, before = engine.forward(gates, u)
>>> gates[0].tolist()  # sigmoid(0) is 1/2, and tanh(0) is 0
[0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.0, 0.5]
"""

from typing import Any

import torch
from torch import Tensor

from trellis import _core
from trellis.native import resolve_jobs

__all__ = ["Engine"]


class Engine:
    """The two ways over packed sequences, of which ``sizes`` go as far as each step."""

    def __init__(self, sizes: Tensor) -> None:
        self.sizes: Any = sizes.numpy()

    def forward(self, gates: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States h and c, and h of the step before, (N, 2 · hidden) each; 0 before a first step.

        ``gates`` (N, 8 · hidden) are W x + b of i, f, g and o, of the forward direction and then of
        the backward one; they become the activations. ``u`` is (2, 4 · hidden, hidden).
        """
        shape = (len(gates), 2 * u.shape[2])
        h, c, before = (gates.new_empty(shape) for _ in range(3))
        a, b, x, y, z = _arrays(gates, u, h, c, before)
        _core.lstm_forward(a, b, self.sizes, x, y, z, resolve_jobs(None))
        return h, c, before

    def backward(self, d_h: Tensor, activations: Tensor, c: Tensor, u: Tensor) -> Tensor:
        """The gradient of W x + b (N, 8 · hidden), from that of h and what `forward` has made."""
        d_gates = torch.empty_like(activations)
        a, b, x, y, out = _arrays(d_h, activations, c, u, d_gates)
        _core.lstm_backward(a, b, x, y, self.sizes, out, resolve_jobs(None))
        return d_gates


def _arrays(*tensors: Tensor) -> Any:
    return [x.detach().numpy() for x in tensors]
