"""A bidirectional LSTM over packed sequences, its recurrence in one call for both directions.

    i, f, o = σ(…), g = tanh(…) of W xₜ + U hₜ₋₁ + b
    cₜ = f ⊙ cₜ₋₁ + i ⊙ g
    hₜ = o ⊙ tanh(cₜ)

The same numbers as ``torch.nn.LSTM``, whose parameters it takes. W x + b of all tokens and both
directions is one product; an engine does the rest, step by step, and the way back.
"""

from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from trellis.nn.lstm import cpu as lstm_native

__all__ = ["bidirectional", "runs_on_card"]

_MOST = 320  # hidden units; U of more does not stay in the caches of a card


def bidirectional(
    lstm: nn.LSTM, x: Tensor, sizes: Tensor, walk: Tensor | None = None, rows: int = 0
) -> Tensor:
    """What ``lstm(PackedSequence(x, sizes))`` gives, (N, 2 · hidden); ``lstm`` is bidirectional.

    On a card ``walk`` and ``rows`` say what sizes do, as `lstm_triton.Engine` reads it there.

    >>> lstm, x = nn.LSTM(3, 4, bidirectional=True), torch.ones(5, 3)
    >>> bidirectional(lstm, x, torch.tensor([2, 2, 1])).shape  # sequences of 3 and 2 tokens
    torch.Size([5, 8])
    """
    engine = _engine(lstm, x, sizes, walk, rows)
    if engine is None:
        found: Tensor = lstm(PackedSequence(x, sizes))[0].data
        return found
    for layer in range(lstm.num_layers):
        if layer and lstm.training and lstm.dropout:
            x = nn.functional.dropout(x, lstm.dropout)
        w, u, b, b2 = (
            [getattr(lstm, f"{name}_l{layer}{way}") for way in ("", "_reverse")]
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        gates = torch.addmm(torch.cat(b) + torch.cat(b2), x, torch.cat(w).t()).float()
        x = _Recurrence.apply(gates, torch.stack(u), engine)  # type: ignore[no-untyped-call]
    return x


def runs_on_card(lstm: nn.LSTM) -> bool:
    """Whether our kernels take it: others are cuDNN's."""
    weight: Tensor = lstm.weight_hh_l0  # type: ignore[assignment]
    if not _plain(lstm) or _triton() is None:
        return False
    return weight.is_cuda and weight.dtype == torch.float32 and lstm.hidden_size <= _MOST


def _engine(lstm: nn.LSTM, x: Tensor, sizes: Tensor, walk: Tensor | None, rows: int) -> Any:
    """What does the recurrence over such tensors; None: nn.LSTM."""
    if torch.compiler.is_compiling() or not _plain(lstm):
        return None
    if x.device.type == "cpu":
        return lstm_native.Engine(sizes) if x.dtype == torch.float32 else None
    if walk is None or not runs_on_card(lstm):
        return None
    return _triton().Engine(walk, rows)


def _plain(lstm: nn.LSTM) -> bool:
    return lstm.bias and not lstm.proj_size


@cache
def _triton() -> Any:
    """The engine of the card, or None where there is no Triton: cuDNN's is as good, but slower."""
    try:
        return import_module("trellis.nn.lstm.triton")
    except ImportError:
        return None


class _Recurrence(torch.autograd.Function):
    """h from W x + b of all tokens (N, 8 · hidden), which is overwritten, and U of both ways."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, u: Tensor, engine: Any) -> Tensor:
        h: Tensor
        h, c, before = engine.forward(gates, u)  # a product's result, which nobody else needs
        ctx.save_for_backward(gates, c, before, u)
        ctx.engine = engine
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor) -> tuple[Tensor, Tensor, None]:
        activations, c, before, u = ctx.saved_tensors
        d_gates = ctx.engine.backward(d_h.contiguous(), activations, c, u)
        d_both, h_both = (x.view(len(x), 2, -1).transpose(0, 1) for x in (d_gates, before))
        return d_gates, torch.bmm(d_both.transpose(1, 2), h_both), None
