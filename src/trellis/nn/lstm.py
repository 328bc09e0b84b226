"""A bidirectional LSTM over packed sequences on the CPU, both directions in one loop.

    i, f, o = σ(…), g = tanh(…) of W xₜ + U hₜ₋₁ + b
    cₜ = f ⊙ cₜ₋₁ + i ⊙ g
    hₜ = o ⊙ tanh(cₜ)

The same numbers as ``torch.nn.LSTM``, whose parameters it takes. PyTorch walks each direction by
itself and records every small operation for the way back; here the second direction is the first on
reversed sequences, so that each step is one batched product for both, and the way back is written
out. With the small batches of a tagger a training step takes half the time.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["bidirectional", "reversal"]


def bidirectional(lstm: nn.LSTM, x: Tensor, sizes: Tensor, back: Tensor) -> Tensor:
    """What ``lstm(PackedSequence(x, sizes))`` gives, (N, 2 · hidden).

    ``lstm`` is bidirectional; ``back`` is the `reversal` of the sequences.
    """
    steps = sizes.tolist()
    for layer in range(lstm.num_layers):
        if layer and lstm.training and lstm.dropout:
            x = nn.functional.dropout(x, lstm.dropout)
        w, u, b, b2 = (
            torch.stack([getattr(lstm, f"{name}_l{layer}{way}") for way in ("", "_reverse")])
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        both = torch.stack([x, x.index_select(0, back)])
        gates = torch.baddbmm((b + b2).unsqueeze(1), both, w.transpose(1, 2))
        h: Tensor = _Recurrence.apply(gates, u, steps)  # type: ignore[no-untyped-call]
        x = torch.cat([h[0], h[1].index_select(0, back)], dim=1)
    return x


def reversal(sizes: Tensor, row: Tensor, lengths: Tensor) -> Tensor:
    """Where each packed token is if all sequences are turned round; its own inverse.

    >>> sizes, row = torch.tensor([2, 2, 1]), torch.tensor([0, 1, 0, 1, 0])  # lengths 3 and 2
    >>> reversal(sizes, row, torch.tensor([3, 2]))
    tensor([4, 3, 2, 1, 0])
    """
    begin = sizes.cumsum(0) - sizes
    step = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    return begin[lengths[row] - 1 - step] + row


class _Recurrence(torch.autograd.Function):
    """h from W x + b of all tokens (2, N, 4 · hidden), and U (2, 4 · hidden, hidden)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, u: Tensor, steps: list[int]) -> Tensor:
        ways, count, _ = gates.shape
        hidden = u.shape[2]
        gates = gates.clone()
        c, h = (gates.new_empty(ways, count, hidden) for _ in range(2))
        i_f = gates[:, :, : 2 * hidden]
        each = _by_step(steps, gates[0], gates[1], i_f, *torch.split(gates, hidden, 2), c, h)
        u_there, u_back = u.transpose(1, 2).contiguous()
        c_before = h_before = None
        for there, back, i_f, i, f, g, o, c_now, h_now in each:
            if h_before is not None:
                h_there, h_back = h_before[:, : len(there)]
                there.addmm_(h_there, u_there)
                back.addmm_(h_back, u_back)
            i_f.sigmoid_()
            torch.mul(i, g.tanh_(), out=c_now)
            if c_before is not None:
                c_now.addcmul_(f, c_before[:, : len(there)])
            torch.tanh(c_now, out=h_now)
            h_now.mul_(o.sigmoid_())
            c_before, h_before = c_now, h_now
        ctx.save_for_backward(gates, u, c, h)
        ctx.steps = steps
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor) -> tuple[Tensor, Tensor, None]:
        gates, u, c, h = ctx.saved_tensors
        steps, hidden = ctx.steps, u.shape[2]
        d_gates, by_c, f = _slopes(gates, c, steps, hidden)
        d_h = d_h.clone()
        ways = _by_step(steps, d_gates.flatten(2), *d_gates.unbind(2), d_h, by_c, f)
        dc_after = dh_after = None
        for d_now, d_i, d_f, d_g, d_o, dh, slope, f_now in reversed(ways):
            if dh_after is not None:
                dh[:, : dh_after.shape[1]].add_(dh_after)
            dc = dh * slope
            if dc_after is not None:
                dc[:, : dc_after.shape[1]].add_(dc_after)
            for d in (d_i, d_f, d_g):
                d.mul_(dc)
            d_o.mul_(dh)
            dh_after = torch.bmm(d_now, u)
            dc_after = dc.mul_(f_now)
        d_flat = d_gates.flatten(2)
        d_u = torch.bmm(d_flat[:, steps[0] :].transpose(1, 2), _before(h, steps))
        return d_flat, d_u, None


def _slopes(
    gates: Tensor, c: Tensor, steps: list[int], hidden: int
) -> tuple[Tensor, Tensor, Tensor]:
    """∂c/∂(i, f, g) and ∂h/∂o before their nonlinearities, ∂h/∂c, and ∂c/∂(c before)."""
    i, f, g, o = torch.split(gates, hidden, 2)
    tanh = c.tanh()
    found = gates.new_empty(*gates.shape[:2], 4, hidden)
    torch.mul(g, i - i * i, out=found[:, :, 0])
    found[:, : steps[0], 1] = 0.0
    later = f[:, steps[0] :]
    torch.mul(_before(c, steps), later - later * later, out=found[:, steps[0] :, 1])
    torch.mul(i, 1 - g * g, out=found[:, :, 2])
    torch.mul(tanh, o - o * o, out=found[:, :, 3])
    return found, o * (1 - tanh * tanh), f


def _by_step(steps: list[int], *tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """The parts of all tensors that belong to each step; tokens are the axis before the last."""
    return list(zip(*(torch.split(x, steps, -2) for x in tensors), strict=True))


def _before(x: Tensor, steps: list[int]) -> Tensor:
    """What (2, N, …) says of the step before, for all tokens but the first ones."""
    parts = torch.split(x, steps, 1)
    short = [a[:, :n] for a, n in zip(parts[:-1], steps[1:], strict=True)]
    return torch.cat(short, 1) if short else x[:, :0]
