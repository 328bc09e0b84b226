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

from functools import cache
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from trellis.inference.chain import kernels_shared as kernels
from trellis.inference.chain.triton_steps import steps_kernel
from trellis.inference.gpu.launch import launch, on_device, power_of_two
from trellis.inference.gpu.status import Marks

__all__ = ["BYTES", "Forward", "accurate", "backward", "forward", "look", "plan", "viterbi"]

# Warps of a program by block of labels (the next power of two): 32 lanes share the labels of a row,
# so a second warp pays only where one has not enough registers for the transitions.
_WARPS = {
    "forward": {16: 1, 32: 1, 64: 1, 128: 8},
    "backward": {16: 1, 32: 1, 64: 2, 128: 8},
    "best": {16: 1, 32: 1, 64: 1, 128: 8},
}
BYTES = 128 * 128 * 4  # of transitions that a program can keep in registers


class Forward(NamedTuple):
    """Values of all rows."""

    value: Tensor
    """``(B,)`` log Z, or log p of the tags."""
    alpha: Tensor
    """``(B, T, L)`` what `backward` needs, in a form of its own."""


def forward(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor | None,
    tags: Tensor | None = None,
    mask: Tensor | None = None,
    marks: Marks | None = None,
) -> Forward:
    """Log Z of each row, or log p of its tags ``(B, T)`` if given.

    Without a path log Z is -inf, and so is log p where the tags are forbidden. A mask ``(B, T)``
    may take the place of lengths; its steps that count must come first, and where they do not, or
    where something else is wrong with a row, its mark says so as in `look`, and the rest is of no
    use.

    >>> scores = torch.zeros(1, 3, 2)  # zero scores: Z counts the paths
    >>> zero = torch.zeros(2)
    >>> forward(scores, torch.zeros(2, 2), zero, zero, torch.tensor([3])).value.exp().round()
    tensor([8.])
    """
    rows, steps, labels = emissions.shape
    number = accurate(emissions)
    value = emissions.new_empty(rows, dtype=number)
    alpha = emissions.new_empty((rows, steps, labels), dtype=number)
    found = emissions.new_empty(rows, dtype=torch.int64)
    told = emissions.new_empty(rows, dtype=torch.int32) if marks is None else marks.tensor
    shared = transitions.dim() == 2
    transitions = transitions.contiguous() if shared else transitions
    with on_device(emissions):
        args = (
            emissions, *emissions.stride(), transitions, *_strides(transitions),
            start.contiguous(), end.contiguous(), *_grids(mask, lengths, tags, found), found,
            told, value, alpha, alpha, rows, steps, labels,
        )  # fmt: skip
        flags = ("masked", mask is not None), ("tagged", tags is not None), ("flip", False)
        how = plan(number, labels, shared, "forward", BYTES, flags)
        launch(kernels.forward_kernel, rows, args, how)
    return Forward(value, alpha)


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
    >>> alpha = forward(scores, torch.zeros(2, 2), zero, zero, lengths).alpha
    >>> found = backward(
    ...     scores, torch.zeros(2, 2), zero, zero, lengths, None, alpha, torch.ones(1)
    ... )
    >>> found[1]  # two steps, four transitions
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    rows, steps, labels = emissions.shape
    d_emissions = torch.empty_like(emissions, memory_format=torch.contiguous_format)
    shared = transitions.dim() == 2
    d_transitions, held = alpha, transitions
    if shared:
        # with the later label first, as the kernel walks: its registers follow this load's layout
        held = transitions.t().contiguous().t()
    else:
        d_transitions = torch.empty_like(transitions, memory_format=torch.contiguous_format)
    sums = alpha.new_empty((rows, (2 + labels if shared else 2) * labels))
    scratch = alpha.new_empty((rows, 3, labels))
    with on_device(emissions):
        args = (
            emissions, *emissions.stride(), held, *_strides(held),
            end.contiguous(), lengths.contiguous(),
            *((lengths, 0, 0) if tags is None else (tags, *tags.stride())), alpha,
            weight, weight.stride(0), d_emissions, d_transitions, sums, scratch, steps, labels,
        )  # fmt: skip
        flags = ("shared", shared), ("tagged", tags is not None), ("weighted", True)
        how = plan(alpha.dtype, labels, shared, "backward", BYTES, flags)
        launch(kernels.backward_kernel, rows, args, how)
    total = sums.sum(0).to(start.dtype)
    d_start, d_end, rest = torch.split(total, [labels, labels, len(total) - 2 * labels])
    if shared:
        d_transitions = rest.view(labels, labels).t().contiguous()
    return d_emissions, d_transitions, d_start, d_end


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
    score = emissions.new_empty(rows, dtype=accurate(emissions))
    best = emissions.new_empty((rows, steps, labels), dtype=accurate(emissions))
    path = torch.empty((rows, steps), dtype=torch.int64, device=emissions.device)
    end, lengths, flipped = end.contiguous(), lengths.contiguous(), transitions
    if transitions.dim() == 2:
        transitions, flipped = transitions.contiguous(), transitions.t().contiguous().t()
    with on_device(emissions):
        args = (
            emissions, *emissions.stride(), transitions, *_strides(transitions),
            start.contiguous(), end, lengths, score, best, steps, labels,
        )  # fmt: skip
        how = plan(best.dtype, labels, transitions.dim() == 2, "best", BYTES)
        launch(kernels.viterbi_kernel, rows, args, how)
        args = (best, flipped, *_strides(flipped), end, lengths, path, steps, labels)
        launch(kernels.trace_kernel, rows, args, _one_warp(("block", _block(labels))))
    return path, score


def look(
    emissions: Tensor, mask: Tensor | None, lengths: Tensor | None, tags: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The lengths of all rows, and what is wrong with them.

    From a mask ``(B, T)`` or lengths ``(B,)``; tags ``(B, T)`` are looked at if given. Of the
    second, 1 says that steps between others do not count, 2 that the length is impossible, 4 that a
    tag is.

    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> look(torch.zeros(2, 3, 5), mask, None)
    (tensor([2, 2]), tensor([1, 0], dtype=torch.int32))
    """
    rows, steps, labels = emissions.shape
    found = torch.empty(rows, dtype=torch.int64, device=emissions.device)
    marks = torch.empty(rows, dtype=torch.int32, device=emissions.device)
    with on_device(emissions):
        args = (*_grids(mask, lengths, tags, found), found, marks, steps, labels)
        how = _one_warp(("masked", mask is not None), ("tagged", tags is not None))
        launch(steps_kernel, rows, args, how)
    return found, marks


def _grids(
    mask: Tensor | None, lengths: Tensor | None, tags: Tensor | None, other: Tensor
) -> tuple[Any, ...]:
    """Lengths, mask and tags as the kernels take them; `other` stands for what there is not."""
    m = (other, 0, 0) if mask is None else (mask, *mask.stride())
    t = (other, 0, 0) if tags is None else (tags, *tags.stride())
    return (other if lengths is None else lengths.contiguous(), *m, *t)


def accurate(emissions: Tensor) -> torch.dtype:
    """The type that is computed in."""
    return torch.float64 if emissions.dtype == torch.float64 else torch.float32


def _strides(transitions: Tensor) -> tuple[int, ...]:
    """Of row, step, label before and label after; 0 where all share one matrix."""
    return (0,) * (4 - transitions.dim()) + transitions.stride()


def _block(labels: int) -> int:
    return max(16, power_of_two(labels))


@cache
def _one_warp(*constants: tuple[str, int]) -> dict[str, Any]:
    return {**dict(constants), "num_warps": 1}


@cache
def plan(
    number: torch.dtype,
    labels: int,
    shared: bool,
    way: str,
    most: int,
    flags: tuple[tuple[str, bool], ...] = (),
) -> dict[str, Any]:
    """How a kernel is built: its number type, its tiles, and whether it keeps the transitions."""
    block = _block(labels)
    held = shared and block * block * number.itemsize <= most
    wide = block * number.itemsize // 4  # float64 takes twice the registers
    count = _WARPS[way][min(wide, 128)] if held else 1 if block <= 32 else 4
    return {
        "dtype": tl.float64 if number == torch.float64 else tl.float32,
        "block": block if held else 16,
        "tile": min(block, 32 if count <= 2 else 64),
        "held": held,
        **dict(flags),
        "num_warps": count,
        "enable_fp_fusion": True,
    }
