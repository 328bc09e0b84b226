"""The chain on a card: log Z and its gradient, and the best path, as Triton kernels.

For `trellis.nn`, which checks what it passes. All take

``emissions``
    ``(B, T, L)`` float16, bfloat16, float32 or float64, of any strides. Computed in float64 if they
    have it, else in float32.
``transitions``
    ``(L, L)``, or ``(B, T-1, L, L)`` where they depend on the position.
``start``, ``end``
    ``(L,)``
``lengths``
    ``(B,)`` int64, from 1 to T. Nothing behind them is read as a score.

-inf forbids. The same input gives the same bits. docs/kernels.md says how it works and how fast.
"""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from trellis.inference.chain import triton_kernels as kernels
from trellis.inference.chain.triton_steps import steps_kernel
from trellis.inference.triton_launch import launch, on_device, power_of_two

__all__ = ["backward", "forward", "look", "viterbi"]

# Warps of a program by block of labels (the next power of two): 32 lanes share the labels of a row,
# so a second warp pays only where one has not enough registers for the transitions.
_FORWARD = {16: 1, 32: 1, 64: 1, 128: 8}
_BACKWARD = {16: 1, 32: 1, 64: 2, 128: 8}
_VITERBI = {16: 1, 32: 1, 64: 1, 128: 8}
_BYTES = 128 * 128 * 4  # of transitions that a program can keep in registers


def forward(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Log Z of each row ``(B,)``, or log p of its tags ``(B, T)`` if given; and α.

    α ``(B, T, L)`` is what `backward` needs, in a form of its own. Without a path log Z is -inf,
    and so is log p where the tags are forbidden.

    >>> scores = torch.zeros(1, 3, 2)  # zero scores: Z counts the paths
    >>> zero = torch.zeros(2)
    >>> value, alpha = forward(scores, torch.zeros(2, 2), zero, zero, torch.tensor([3]))
    >>> value.exp().round()
    tensor([8.])
    """
    rows, steps, labels = emissions.shape
    value = emissions.new_empty(rows, dtype=_accurate(emissions))
    alpha = emissions.new_empty((rows, steps, labels), dtype=_accurate(emissions))
    if transitions.dim() == 2:
        transitions = transitions.contiguous()
    with on_device(emissions):
        launch(
            kernels.forward_kernel, rows, emissions, *emissions.stride(), transitions,
            *_strides(transitions), start.contiguous(), end.contiguous(), lengths.contiguous(),
            lengths if tags is None else tags.contiguous(), value, alpha, steps, labels,
            **_plan(emissions, transitions, _FORWARD), tagged=tags is not None,
        )  # fmt: skip
    return value, alpha


def backward(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None,
    alpha: Tensor,
    weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Σ_b weight_b ∂ value_b / ∂ emissions, transitions, start and end, each in its shape.

    0 behind the lengths, and for rows without a path.

    >>> scores, zero, lengths = torch.zeros(1, 3, 2), torch.zeros(2), torch.tensor([3])
    >>> _, alpha = forward(scores, torch.zeros(2, 2), zero, zero, lengths)
    >>> found = backward(
    ...     scores, torch.zeros(2, 2), zero, zero, lengths, None, alpha, torch.ones(1)
    ... )
    >>> found[1]  # two steps, four transitions
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    rows, steps, labels = emissions.shape
    shared = transitions.dim() == 2
    d_emissions = torch.empty_like(emissions, memory_format=torch.contiguous_format)
    sums = alpha.new_empty((rows, (2 + labels if shared else 2) * labels))
    scratch = alpha.new_empty((rows, 3, labels))
    if not shared:
        d_transitions = torch.empty_like(transitions, memory_format=torch.contiguous_format)
    with on_device(emissions):
        launch(
            kernels.backward_kernel, rows, emissions, *emissions.stride(), transitions,
            *_strides(transitions), end.contiguous(), lengths.contiguous(),
            lengths if tags is None else tags.contiguous(), alpha, weight, weight.stride(0),
            d_emissions, alpha if shared else d_transitions, sums, scratch, steps, labels,
            **_plan(emissions, transitions, _BACKWARD), shared=shared, tagged=tags is not None,
        )  # fmt: skip
    totals = sums.sum(0).view(-1, labels).to(start.dtype)
    if shared:
        d_transitions = totals[2:].to(transitions.dtype)
    return d_emissions, d_transitions, totals[0], totals[1].to(end.dtype)


def viterbi(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """The best labels ``(B, T)``, 0 behind the lengths, and their score ``(B,)``.

    Of several best labels at a position, going back from the end, the first.

    >>> scores = torch.tensor([[[0.0, 1.0], [0.9, 0.0]]])
    >>> stay, zero = torch.tensor([[0.0, 0.0], [0.0, 1.0]]), torch.zeros(2)
    >>> viterbi(scores, stay, zero, zero, torch.tensor([2]))
    (tensor([[1, 1]]), tensor([2.]))
    """
    rows, steps, labels = emissions.shape
    score = emissions.new_empty(rows, dtype=_accurate(emissions))
    best = emissions.new_empty((rows, steps, labels), dtype=_accurate(emissions))
    path = torch.empty((rows, steps), dtype=torch.int64, device=emissions.device)
    end, lengths, flipped = end.contiguous(), lengths.contiguous(), transitions
    if transitions.dim() == 2:
        transitions, flipped = transitions.contiguous(), transitions.t().contiguous().t()
    with on_device(emissions):
        launch(
            kernels.viterbi_kernel, rows, emissions, *emissions.stride(), transitions,
            *_strides(transitions), start.contiguous(), end, lengths, score, best, steps, labels,
            **_plan(emissions, transitions, _VITERBI),
        )  # fmt: skip
        launch(
            kernels.trace_kernel, rows, best, flipped, *_strides(flipped), end, lengths, path,
            steps, labels, block=_block(labels), num_warps=1,
        )  # fmt: skip
    return path, score


def look(mask: Tensor | None, lengths: Tensor | None, tags: Tensor | None, labels: int) -> Tensor:
    """``(2, B)`` in one launch: the lengths of all rows, and what is wrong with them.

    From a mask ``(B, T)`` or lengths ``(B,)``; tags ``(B, T)`` are looked at if given. Of the
    second, 1 says that steps between others do not count, 2 that the length is impossible, 4 that a
    tag is.

    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> look(mask, None, None, 5)
    tensor([[2, 2],
            [1, 0]])
    """
    grid = mask if mask is not None else tags
    assert grid is not None
    rows, steps = grid.shape
    found = torch.empty((2, rows), dtype=torch.int64, device=grid.device)
    own = grid if tags is None else tags
    with on_device(grid):
        launch(
            steps_kernel, rows, grid, *grid.stride(), found if lengths is None else lengths, own,
            *own.stride(), found, rows, steps, labels, masked=mask is not None,
            tagged=tags is not None, block=min(power_of_two(steps), 1024), num_warps=1,
        )  # fmt: skip
    return found


def _accurate(emissions: Tensor) -> torch.dtype:
    return torch.float64 if emissions.dtype == torch.float64 else torch.float32


def _strides(transitions: Tensor) -> tuple[int, ...]:
    """Of row, step, label before and label after; 0 where all share one matrix."""
    return (0,) * (4 - transitions.dim()) + transitions.stride()


def _block(labels: int) -> int:
    return max(16, power_of_two(labels))


def _plan(emissions: Tensor, transitions: Tensor, warps: dict[int, int]) -> dict[str, Any]:
    """How a kernel is built: its number type, its tiles, and whether it keeps the transitions."""
    dtype, block = _accurate(emissions), _block(emissions.shape[-1])
    held = transitions.dim() == 2 and block * block * dtype.itemsize <= _BYTES
    wide = block * dtype.itemsize // 4  # float64 takes twice the registers
    count = warps[min(wide, 128)] if held else 1 if block <= 32 else 4
    return {
        "dtype": tl.float64 if dtype == torch.float64 else tl.float32,
        "block": block if held else 16,
        "tile": min(block, 32 if count <= 2 else 64),
        "held": held,
        "num_warps": count,
        "enable_fp_fusion": True,
    }
