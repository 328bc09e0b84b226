"""The recurrence of a bidirectional LSTM on a GPU: all steps of all sequences in one launch.

One program computes one sequence in one direction. Each step multiplies h by U. The rows of U lie
along the lanes, so that U is read at full width, and from the cache after the first step. cuDNN
needs several launches per step for sequences of different lengths, and these launches take longer
than the computation of the steps.
"""

# ruff: noqa: N803
# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from trellis.inference.gpu.launch import launch, power_of_two

__all__ = ["Engine"]

_TILE = 2048  # entries of U per gate that a program holds in registers at once
_VARYING = ["H", "rows", "steps"]  # Triton must not compile a kernel for each value of these


class Engine:
    """Both directions over packed sequences, whose layout the kernels read from ``packing``.

    ``packing`` (n_steps + n_sequences,) holds the index of the first token of each step, then the
    length of each sequence. A token that belongs to no sequence is padding: its states and
    gradients stay 0.
    """

    def __init__(self, packing: Tensor, n_sequences: int) -> None:
        self.packing, self.n_sequences = packing, n_sequences
        self.n_steps = len(packing) - n_sequences

    def forward(self, gates: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return h, c and the h of the previous step, each (N, 2 · hidden).

        ``gates`` (N, 8 · hidden) holds W x + b of the gates i, f, g and o, first for the forward
        direction, then for the backward one. It is overwritten with the activations. ``u`` has
        shape (2, 4 · hidden, hidden).
        """
        hidden = u.shape[2]
        h, c, h_before = (gates.new_zeros(len(gates), 2 * hidden) for _ in range(3))
        u_transposed = u.transpose(1, 2).contiguous()
        tensors = {"gates": gates, "u": u_transposed, "h": h, "c": c, "h_before": h_before}
        self._launch(_forward_kernel, tensors, hidden)
        return h, c, h_before

    def backward(self, d_h: Tensor, activations: Tensor, c: Tensor, u: Tensor) -> Tensor:
        """Return the gradient of W x + b, (N, 8 · hidden), from the gradient of h, (N, 2 · hidden).

        ``activations`` and ``c`` are the results of `forward`; the activations are its ``gates``.
        """
        hidden = u.shape[2]
        d_gates = torch.zeros_like(activations)
        tensors = {"d_h": d_h, "activations": activations, "u": u.contiguous(), "c": c}
        self._launch(_backward_kernel, {**tensors, "d_gates": d_gates}, hidden)
        return d_gates

    def _launch(self, kernel: Any, tensors: dict[str, Tensor], hidden: int) -> None:
        """Launch a kernel with one program for each sequence and direction."""
        block = max(32, power_of_two(hidden))
        launch(
            kernel,
            2 * self.n_sequences,
            8 if block > 32 else 4,
            {**tensors, "packing": self.packing},
            {"H": hidden, "rows": self.n_sequences, "steps": self.n_steps},
            {"BLOCK": block, "TILE": max(4, _TILE // block)},
        )


@triton.jit
def _read_task(packing, rows, steps):
    """Return the direction (1 is backward), the sequence and its length for this program."""
    is_backward = tl.program_id(0) // rows
    row = tl.program_id(0) % rows
    return is_backward, row, tl.load(packing + steps + row).to(tl.int32)


@triton.jit
def _token_index(packing, row, t):
    """Return the packed index of token t of a sequence."""
    return tl.load(packing + t) + row


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit(do_not_specialize=_VARYING)
def _forward_kernel(
    gates,  # (N, 8 H): W x + b, overwritten with the activations
    u,  # (2, H, 4 H): transposed, so that the units of step t lie along the lanes
    h,  # (N, 2 H)
    c,  # (N, 2 H)
    h_before,  # (N, 2 H)
    packing,  # (n_steps + n_sequences,)
    H,
    rows,
    steps,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    is_backward, row, length = _read_task(packing, rows, steps)
    j = tl.arange(0, BLOCK)
    is_unit = j < H
    u += is_backward * 4 * H * H
    # cell and h_last are c and h of the previous step; a lane has one unit.
    cell = tl.zeros([BLOCK], tl.float32)
    h_last = tl.zeros([BLOCK], tl.float32)
    token = tl.zeros([], tl.int64)
    for s in range(length):
        token_before = token
        token = _token_index(packing, row, tl.where(is_backward == 1, length - 1 - s, s))
        gate = gates + token * 8 * H + is_backward * 4 * H + j
        i = tl.load(gate, mask=is_unit, other=0.0)
        f = tl.load(gate + H, mask=is_unit, other=0.0)
        g = tl.load(gate + 2 * H, mask=is_unit, other=0.0)
        o = tl.load(gate + 3 * H, mask=is_unit, other=0.0)
        if s > 0:
            sum_i = tl.zeros([TILE, BLOCK], tl.float32)
            sum_f = tl.zeros([TILE, BLOCK], tl.float32)
            sum_g = tl.zeros([TILE, BLOCK], tl.float32)
            sum_o = tl.zeros([TILE, BLOCK], tl.float32)
            for start in tl.range(0, H, TILE, loop_unroll_factor=4):
                k = start + tl.arange(0, TILE)
                h_pointers = h + token_before * 2 * H + is_backward * H + k
                h_tile = tl.load(h_pointers, mask=k < H, other=0.0)[:, None]
                u_tile = u + k[:, None] * 4 * H + j[None, :]
                is_inside = (k < H)[:, None] & is_unit[None, :]
                sum_i += h_tile * tl.load(u_tile, mask=is_inside, other=0.0)
                sum_f += h_tile * tl.load(u_tile + H, mask=is_inside, other=0.0)
                sum_g += h_tile * tl.load(u_tile + 2 * H, mask=is_inside, other=0.0)
                sum_o += h_tile * tl.load(u_tile + 3 * H, mask=is_inside, other=0.0)
            i += tl.sum(sum_i, 0)
            f += tl.sum(sum_f, 0)
            g += tl.sum(sum_g, 0)
            o += tl.sum(sum_o, 0)
        i = tl.sigmoid(i)
        f = tl.sigmoid(f)
        g = _tanh(g)
        o = tl.sigmoid(o)
        cell = f * cell + i * g
        tl.store(gate, i, mask=is_unit)
        tl.store(gate + H, f, mask=is_unit)
        tl.store(gate + 2 * H, g, mask=is_unit)
        tl.store(gate + 3 * H, o, mask=is_unit)
        out = token * 2 * H + is_backward * H + j
        tl.store(h_before + out, h_last, mask=is_unit)
        h_last = o * _tanh(cell)
        tl.store(c + out, cell, mask=is_unit)
        tl.store(h + out, h_last, mask=is_unit)
        tl.debug_barrier()  # in the next step, other threads read this h


@triton.jit(do_not_specialize=_VARYING)
def _backward_kernel(
    d_h,  # (N, 2 H)
    activations,  # (N, 8 H): i, f, g, o of both directions
    u,  # (2, 4 H, H)
    c,  # (N, 2 H)
    d_gates,  # (N, 8 H)
    packing,  # (n_steps + n_sequences,)
    H,
    rows,
    steps,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):
    is_backward, row, length = _read_task(packing, rows, steps)
    j = tl.arange(0, BLOCK)
    is_unit = j < H
    u += is_backward * 4 * H * H
    # gradients of h and c from the step that follows in the recurrence, computed before this step
    dh_after = tl.zeros([BLOCK], tl.float32)
    dc = tl.zeros([BLOCK], tl.float32)
    for s in range(length):
        t = tl.where(is_backward == 1, s, length - 1 - s)
        token = _token_index(packing, row, t)
        is_first = s == length - 1
        token_before = _token_index(packing, row, tl.where(is_first, t, t - 1 + 2 * is_backward))
        gate = activations + token * 8 * H + is_backward * 4 * H + j
        i = tl.load(gate, mask=is_unit, other=0.0)
        f = tl.load(gate + H, mask=is_unit, other=0.0)
        g = tl.load(gate + 2 * H, mask=is_unit, other=0.0)
        o = tl.load(gate + 3 * H, mask=is_unit, other=0.0)
        unit = is_backward * H + j
        tanh_c = _tanh(tl.load(c + token * 2 * H + unit, mask=is_unit, other=0.0))
        # Before the first step c is 0: the mask is False everywhere.
        has_before = j < tl.where(is_first, 0, H)
        c_before = tl.load(c + token_before * 2 * H + unit, mask=has_before, other=0.0)
        dh = tl.load(d_h + token * 2 * H + unit, mask=is_unit, other=0.0) + dh_after
        dc += dh * o * (1.0 - tanh_c * tanh_c)
        gate_gradients = d_gates + token * 8 * H + is_backward * 4 * H
        tl.store(gate_gradients + j, dc * g * i * (1.0 - i), mask=is_unit)
        tl.store(gate_gradients + H + j, dc * c_before * f * (1.0 - f), mask=is_unit)
        tl.store(gate_gradients + 2 * H + j, dc * i * (1.0 - g * g), mask=is_unit)
        tl.store(gate_gradients + 3 * H + j, dh * tanh_c * o * (1.0 - o), mask=is_unit)
        dc *= f
        tl.debug_barrier()  # below, other threads read these gradients
        weighted_sum = tl.zeros([TILE, BLOCK], tl.float32)
        for start in tl.range(0, 4 * H, TILE, loop_unroll_factor=4):
            m = start + tl.arange(0, TILE)
            d_tile = tl.load(gate_gradients + m, mask=m < 4 * H, other=0.0)[:, None]
            is_inside = (m < 4 * H)[:, None] & is_unit[None, :]
            weighted_sum += d_tile * tl.load(
                u + m[:, None] * H + j[None, :], mask=is_inside, other=0.0
            )
        dh_after = tl.sum(weighted_sum, 0)
