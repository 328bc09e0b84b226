"""A bidirectional LSTM over packed sequences; one call computes the recurrence of both directions.

    i, f, o = σ(…), g = tanh(…) of W xₜ + U hₜ₋₁ + b
    cₜ = f ⊙ cₜ₋₁ + i ⊙ g
    hₜ = o ⊙ tanh(cₜ)

The result equals that of ``torch.nn.LSTM``, and the parameters are read from one. W x + b of all
tokens and both directions is a single matrix product. An engine (`cpu.Engine`, `triton.Engine`)
computes the recurrence step by step, and its backward pass.
"""

from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from trellis.nn.lstm import cpu

__all__ = ["bidirectional", "runs_on_gpu"]

# hidden units: with more, U does not fit the caches of a GPU, and cuDNN is faster
_MAX_GPU_HIDDEN = 320


def bidirectional(
    lstm: nn.LSTM, x: Tensor, sizes: Tensor, packing: Tensor | None = None, n_sequences: int = 0
) -> Tensor:
    """Return ``lstm(PackedSequence(x, sizes))[0].data``, shape (N, 2 · hidden).

    ``lstm`` must be bidirectional. ``x`` (N, width) holds the packed tokens. ``sizes`` (T,), on the
    CPU, holds the number of sequences at each step. The Triton engine reads ``packing``, shape
    (T + n_sequences,), on the GPU instead of ``sizes``: the index of the first token of each step,
    then the lengths of the sequences.

    >>> lstm, x = nn.LSTM(3, 4, bidirectional=True), torch.ones(5, 3)
    >>> bidirectional(lstm, x, torch.tensor([2, 2, 1])).shape  # sequences of 3 and 2 tokens
    torch.Size([5, 8])
    """
    engine = _choose_engine(lstm, x, sizes, packing, n_sequences)
    if engine is None:
        h: Tensor = lstm(PackedSequence(x, sizes))[0].data
        return h
    for layer in range(lstm.num_layers):
        if layer and lstm.training and lstm.dropout:
            x = nn.functional.dropout(x, lstm.dropout)
        # Each is a pair (forward, backward direction): W (4 H, width), U (4 H, H), biases (4 H,).
        w, u, b_input, b_hidden = (
            [getattr(lstm, f"{name}_l{layer}{suffix}") for suffix in ("", "_reverse")]
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        gates = torch.addmm(torch.cat(b_input) + torch.cat(b_hidden), x, torch.cat(w).t()).float()
        x = _Recurrence.apply(gates, torch.stack(u), engine)  # type: ignore[no-untyped-call]
    return x


def runs_on_gpu(lstm: nn.LSTM) -> bool:
    """Return True if the Triton kernels support this network. Otherwise cuDNN runs it on a GPU."""
    weight: Tensor = lstm.weight_hh_l0  # type: ignore[assignment]
    if not _is_supported(lstm) or _import_triton() is None:
        return False
    return weight.is_cuda and weight.dtype == torch.float32 and lstm.hidden_size <= _MAX_GPU_HIDDEN


def _choose_engine(
    lstm: nn.LSTM, x: Tensor, sizes: Tensor, packing: Tensor | None, n_sequences: int
) -> Any:
    """Return the engine for these tensors, or None if ``lstm`` itself must be called."""
    # torch.compile cannot trace into our kernels
    if torch.compiler.is_compiling() or not _is_supported(lstm):
        return None
    if x.device.type == "cpu":
        return cpu.Engine(sizes) if x.dtype == torch.float32 else None
    if packing is None or not runs_on_gpu(lstm):
        return None
    return _import_triton().Engine(packing, n_sequences)


def _is_supported(lstm: nn.LSTM) -> bool:
    return lstm.bias and not lstm.proj_size


@cache
def _import_triton() -> Any:
    """Return the module of the Triton engine, or None if Triton is not installed."""
    try:
        return import_module("trellis.nn.lstm.triton")
    except ImportError:
        return None


class _Recurrence(torch.autograd.Function):
    """h (N, 2 H) from W x + b of all tokens (N, 8 H) and U of both directions (2, 4 H, H).

    The engine overwrites ``gates`` with the activations, which the backward pass needs. This is
    safe because ``gates`` is the result of a matrix product that no other operation reads.
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, u: Tensor, engine: Any) -> Tensor:
        h: Tensor
        h, c, h_before = engine.forward(gates, u)
        ctx.save_for_backward(gates, c, h_before, u)
        ctx.engine = engine
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor) -> tuple[Tensor, Tensor, None]:
        activations, c, h_before, u = ctx.saved_tensors
        d_gates = ctx.engine.backward(d_h.contiguous(), activations, c, u)
        # (2, N, 4 H) and (2, N, H), one slice per direction: dU = Σₜ d_gatesₜ hₜ₋₁ᵀ
        d_pair, h_pair = (x.view(len(x), 2, -1).transpose(0, 1) for x in (d_gates, h_before))
        return d_gates, torch.bmm(d_pair.transpose(1, 2), h_pair), None
