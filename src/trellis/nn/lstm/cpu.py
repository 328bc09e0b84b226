"""The recurrence of a bidirectional LSTM in the native core, for float32 tensors on the CPU.

>>> gates, u = torch.zeros(3, 8), torch.zeros(2, 4, 1)
>>> engine = Engine(torch.tensor([2, 1]))  # two sequences, of 2 steps and of 1
>>> h, c, h_before = engine.forward(gates, u)
>>> gates[0].tolist()  # sigmoid(0) is 1/2, and tanh(0) is 0
[0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.0, 0.5]
"""

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from trellis import _core
from trellis.native import resolve_jobs

__all__ = ["Engine"]

Arrays = list[NDArray[Any]]


class Engine:
    """Both directions over packed sequences; ``sizes`` (T,) counts the sequences at each step."""

    def __init__(self, sizes: Tensor) -> None:
        self.sizes: Any = sizes.numpy()  # (T,) int64

    def forward(self, gates: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return h, c and the h of the previous step, each (N, 2 · hidden).

        The previous h of the first step is 0. ``gates`` (N, 8 · hidden) holds W x + b of the gates
        i, f, g and o, first for the forward direction, then for the backward one. It is overwritten
        with the activations. ``u`` has shape (2, 4 · hidden, hidden).
        """
        shape = (len(gates), 2 * u.shape[2])
        h, c, h_before = (gates.new_empty(shape) for _ in range(3))
        self._run(_core.lstm_forward, _as_arrays(gates, u), _as_arrays(h, c, h_before))
        return h, c, h_before

    def backward(self, d_h: Tensor, activations: Tensor, c: Tensor, u: Tensor) -> Tensor:
        """Return the gradient of W x + b, (N, 8 · hidden), from the gradient of h, (N, 2 · hidden).

        ``activations`` and ``c`` are the results of `forward`; the activations are its ``gates``.
        """
        d_gates = torch.empty_like(activations)
        self._run(_core.lstm_backward, _as_arrays(d_h, activations, c, u), _as_arrays(d_gates))
        return d_gates

    def _run(self, kernel: Callable[..., None], inputs: Arrays, outputs: Arrays) -> None:
        kernel(*inputs, self.sizes, *outputs, resolve_jobs(None))


def _as_arrays(*tensors: Tensor) -> Arrays:
    return [x.detach().numpy() for x in tensors]
