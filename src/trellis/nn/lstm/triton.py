"""The recurrence of a bidirectional LSTM on a card: all steps of all sequences in one launch.

A program walks one sequence in one direction. Each step is a product of h with U, a row of which
lies across the lanes, so that U is read at full width, from the cache after the first step. What
cuDNN launches for each step of a batch that is ragged takes longer than the steps do.
"""

# ruff: noqa: N803
# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

import torch
import triton
import triton.language as tl
from torch import Tensor

from trellis.inference.gpu.launch import launch, on_device, power_of_two

__all__ = ["Engine"]

_TILE = 2048  # numbers of U that a program holds at once, of each gate
_VARYING = ["H", "rows", "steps"]


class Engine:
    """The two ways over packed sequences: all that the kernels read of a batch is its `walk`.

    ``walk`` (steps + rows,) says where the tokens of each step begin, then how many of the steps
    each sequence has. Tokens that no sequence comes to are padding: they stay 0.
    """

    def __init__(self, walk: Tensor, rows: int) -> None:
        self.walk, self.rows, self.steps = walk, rows, len(walk) - rows

    def forward(self, gates: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """h, c and the h before of both directions (N, 2 · hidden).

        ``gates`` (N, 8 · hidden) are W x + b: input, forget, cell and output of one direction, then
        of the other; they become what their nonlinearities make of them. ``u`` is
        (2, 4 · hidden, hidden).
        """
        hidden = u.shape[2]
        h, c, before = (gates.new_zeros(len(gates), 2 * hidden) for _ in range(3))
        with on_device(gates):
            turned = u.transpose(1, 2).contiguous()
            args = (gates, turned, h, c, before, self.walk, hidden, self.rows, self.steps)
            launch(_forward_kernel, 2 * self.rows, args, _plan, hidden)
        return h, c, before

    def backward(self, d_h: Tensor, gates: Tensor, c: Tensor, u: Tensor) -> Tensor:
        """The gradient with respect to W x + b, from what `forward` has made of it, and its c."""
        hidden = u.shape[2]
        d_gates = torch.zeros_like(gates)
        with on_device(gates):
            given = (d_h, gates, u.contiguous(), c, d_gates, self.walk)
            args = (*given, hidden, self.rows, self.steps)
            launch(_backward_kernel, 2 * self.rows, args, _plan, hidden)
        return d_gates


def _plan(hidden: int) -> dict[str, int]:
    block = max(32, power_of_two(hidden))
    return {"BLOCK": block, "TILE": max(4, _TILE // block), "num_warps": 8 if block > 32 else 4}


@triton.jit
def _route(walk, rows, steps):
    """Direction and sequence of this program, the sequence's length, and where steps begin."""
    back = tl.program_id(0) // rows
    row = tl.program_id(0) % rows
    return back, row, tl.load(walk + steps + row).to(tl.int32)


@triton.jit
def _token(walk, row, t):
    return tl.load(walk + t) + row


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit(do_not_specialize=_VARYING)
def _forward_kernel(
    gates,  # (N, 8 H)
    u,  # (2, H, 4 H): the later unit in the lanes
    h,  # (N, 2 H)
    c,
    before,
    walk,
    H,
    rows,
    steps,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    back, row, length = _route(walk, rows, steps)
    j = tl.arange(0, BLOCK)
    used = j < H
    u += back * 4 * H * H
    cell = tl.zeros([BLOCK], tl.float32)
    last = tl.zeros([BLOCK], tl.float32)
    token = tl.zeros([], tl.int64)
    for s in range(length):
        earlier = token
        token = _token(walk, row, tl.where(back == 1, length - 1 - s, s))
        at = gates + token * 8 * H + back * 4 * H + j
        i = tl.load(at, mask=used, other=0.0)
        f = tl.load(at + H, mask=used, other=0.0)
        g = tl.load(at + 2 * H, mask=used, other=0.0)
        o = tl.load(at + 3 * H, mask=used, other=0.0)
        if s > 0:
            sum_i = tl.zeros([TILE, BLOCK], tl.float32)
            sum_f = tl.zeros([TILE, BLOCK], tl.float32)
            sum_g = tl.zeros([TILE, BLOCK], tl.float32)
            sum_o = tl.zeros([TILE, BLOCK], tl.float32)
            for start in tl.range(0, H, TILE, loop_unroll_factor=4):
                k = start + tl.arange(0, TILE)
                own = tl.load(h + earlier * 2 * H + back * H + k, mask=k < H, other=0.0)[:, None]
                there = u + k[:, None] * 4 * H + j[None, :]
                wanted = (k < H)[:, None] & used[None, :]
                sum_i += own * tl.load(there, mask=wanted, other=0.0)
                sum_f += own * tl.load(there + H, mask=wanted, other=0.0)
                sum_g += own * tl.load(there + 2 * H, mask=wanted, other=0.0)
                sum_o += own * tl.load(there + 3 * H, mask=wanted, other=0.0)
            i += tl.sum(sum_i, 0)
            f += tl.sum(sum_f, 0)
            g += tl.sum(sum_g, 0)
            o += tl.sum(sum_o, 0)
        i = tl.sigmoid(i)
        f = tl.sigmoid(f)
        g = _tanh(g)
        o = tl.sigmoid(o)
        cell = f * cell + i * g
        tl.store(at, i, mask=used)
        tl.store(at + H, f, mask=used)
        tl.store(at + 2 * H, g, mask=used)
        tl.store(at + 3 * H, o, mask=used)
        out = token * 2 * H + back * H + j
        tl.store(before + out, last, mask=used)
        last = o * _tanh(cell)
        tl.store(c + out, cell, mask=used)
        tl.store(h + out, last, mask=used)
        tl.debug_barrier()  # h is read by other threads


@triton.jit(do_not_specialize=_VARYING)
def _backward_kernel(
    d_h,  # (N, 2 H)
    gates,  # (N, 8 H): after the nonlinearities
    u,  # (2, 4 H, H)
    c,
    d_gates,
    walk,
    H,
    rows,
    steps,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    back, row, length = _route(walk, rows, steps)
    j = tl.arange(0, BLOCK)
    used = j < H
    u += back * 4 * H * H
    dh_after = tl.zeros([BLOCK], tl.float32)
    dc = tl.zeros([BLOCK], tl.float32)
    for s in range(length):
        t = tl.where(back == 1, s, length - 1 - s)
        token = _token(walk, row, t)
        first = s == length - 1
        earlier = _token(walk, row, tl.where(first, t, t - 1 + 2 * back))
        at = gates + token * 8 * H + back * 4 * H + j
        i = tl.load(at, mask=used, other=0.0)
        f = tl.load(at + H, mask=used, other=0.0)
        g = tl.load(at + 2 * H, mask=used, other=0.0)
        o = tl.load(at + 3 * H, mask=used, other=0.0)
        unit = back * H + j
        bend = _tanh(tl.load(c + token * 2 * H + unit, mask=used, other=0.0))
        c_before = tl.load(c + earlier * 2 * H + unit, mask=j < tl.where(first, 0, H), other=0.0)
        dh = tl.load(d_h + token * 2 * H + unit, mask=used, other=0.0) + dh_after
        dc += dh * o * (1.0 - bend * bend)
        out = d_gates + token * 8 * H + back * 4 * H
        tl.store(out + j, dc * g * i * (1.0 - i), mask=used)
        tl.store(out + H + j, dc * c_before * f * (1.0 - f), mask=used)
        tl.store(out + 2 * H + j, dc * i * (1.0 - g * g), mask=used)
        tl.store(out + 3 * H + j, dh * bend * o * (1.0 - o), mask=used)
        dc *= f
        tl.debug_barrier()  # the gradients are read by other threads
        total = tl.zeros([TILE, BLOCK], tl.float32)
        for start in tl.range(0, 4 * H, TILE, loop_unroll_factor=4):
            m = start + tl.arange(0, TILE)
            own = tl.load(out + m, mask=m < 4 * H, other=0.0)[:, None]
            wanted = (m < 4 * H)[:, None] & used[None, :]
            total += own * tl.load(u + m[:, None] * H + j[None, :], mask=wanted, other=0.0)
        dh_after = tl.sum(total, 0)
