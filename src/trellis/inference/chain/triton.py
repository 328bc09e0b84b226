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

from trellis.inference.chain import triton_kernels as kernels
from trellis.inference.chain.triton_steps import steps_kernel, weigh_kernel
from trellis.inference.triton_launch import launch, on_device, power_of_two

__all__ = ["Walk", "look", "viterbi", "walk", "weigh"]

# Warps of a program by block of labels (the next power of two): 32 lanes share the labels of a row,
# so a second warp pays only where one has not enough registers for the transitions.
_WARPS = {
    "forward": {16: 1, 32: 1, 64: 1, 128: 8},
    "back": {16: 1, 32: 1, 64: 2, 128: 8},
    "best": {16: 1, 32: 1, 64: 1, 128: 8},
}
_BYTES = 128 * 128 * 4  # of transitions that a program can keep in registers
_TILE, _NARROW = 4096, 64  # of what is scaled, and of what is summed over rows


class Walk(NamedTuple):
    """Values of all rows and their gradients."""

    value: Tensor
    """``(B,)`` log Z, or log p of the tags."""
    unary: Tensor
    """``(B, T, L)`` its gradient by the emissions, or nothing of use if it was not wanted."""
    pairs: Tensor
    """``(B, L, L)`` by the row's transitions, or ``(B, T-1, L, L)`` by those of each position."""
    alpha: Tensor
    """``(B, T, L)`` of the way forward, in a form of its own: not negative at first if scaled."""


def walk(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None = None,
    *,
    gradient: bool = False,
) -> Walk:
    """Log Z of each row ``(B,)``, or log p of its tags ``(B, T)``, and the gradient, in one launch.

    Without a path log Z is -inf, and so is log p where the tags are forbidden. A row without a path
    has no gradient.

    >>> scores = torch.zeros(1, 3, 2)  # zero scores: Z counts the paths
    >>> zero, none = torch.zeros(2), torch.zeros(2, 2)
    >>> found = walk(scores, none, zero, zero, torch.tensor([3]), gradient=True)
    >>> found.value.exp().round()
    tensor([8.])
    >>> found.pairs  # two steps, four transitions
    tensor([[[0.5000, 0.5000],
             [0.5000, 0.5000]]])
    """
    rows, steps, labels = emissions.shape
    shared = transitions.dim() == 2
    new, number = emissions.new_empty, _accurate(emissions)
    value = new(rows, dtype=number)
    alpha = new((rows, steps, labels), dtype=number)
    unary = pairs = scratch = value
    if gradient:
        unary = new((rows, steps, labels), dtype=number)
        pairs = new((rows, labels, labels) if shared else transitions.shape, dtype=number)
        scratch = new((rows, 3, labels), dtype=number)
    transitions = transitions.contiguous() if shared else transitions
    t_row, t_step = (0, 0) if tags is None else tags.stride()
    with on_device(emissions):
        launch(
            kernels.walk_kernel, rows, emissions, *emissions.stride(), transitions,
            *_strides(transitions), start.contiguous(), end.contiguous(),
            lengths.contiguous(), lengths if tags is None else tags, t_row, t_step, value, alpha,
            unary, pairs, scratch, steps, labels,
            **_plan(number, labels, shared, "back" if gradient else "forward", _BYTES),
            shared=shared, tagged=tags is not None, wanted=gradient,
        )  # fmt: skip
    return Walk(value, unary, pairs, alpha)


def weigh(
    emissions: Tensor, transitions: Tensor, unary: Tensor, pairs: Tensor, lengths: Tensor,
    weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Σ_b weight_b ∂ value_b / ∂ emissions, transitions, start and end, from what `walk` has found.

    In the types and shapes of emissions and transitions, whose values are not looked at.

    >>> scores, zero, lengths = torch.zeros(1, 3, 2), torch.zeros(2), torch.tensor([3])
    >>> none = torch.zeros(2, 2)
    >>> found = walk(scores, none, zero, zero, lengths, gradient=True)
    >>> weigh(scores, none, found.unary, found.pairs, lengths, torch.tensor([2.0]))[2]
    tensor([1., 1.])
    """
    rows, steps, labels = unary.shape
    shared = transitions.dim() == 2
    d_emissions = torch.empty_like(emissions, memory_format=torch.contiguous_format)
    sums = unary.new_empty((2 + labels if shared else 2) * labels)
    d_transitions = sums
    if not shared:
        d_transitions = torch.empty_like(transitions, memory_format=torch.contiguous_format)
    tiles = -(-unary.numel() // _TILE)
    rest = -(-labels * labels // _NARROW) if shared else -(-pairs.numel() // _TILE)
    with on_device(unary):
        launch(
            weigh_kernel, tiles + 2 * -(-labels // _NARROW) + rest, unary, pairs, weight,
            weight.stride(0), lengths.contiguous(), d_emissions, d_transitions, sums, rows, steps,
            labels, tiles, shared=shared, tile=_TILE, narrow=_NARROW,
        )  # fmt: skip
    sums = sums.to(transitions.dtype)
    if not shared:
        d_start, d_end = torch.split(sums, labels)
        return d_emissions, d_transitions, d_start, d_end
    d_start, d_end, d_transitions = torch.split(sums, [labels, labels, labels * labels])
    return d_emissions, d_transitions.view(labels, labels), d_start, d_end


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
            **_plan(_accurate(emissions), labels, transitions.dim() == 2, "best", _BYTES),
        )  # fmt: skip
        launch(
            kernels.trace_kernel, rows, best, flipped, *_strides(flipped), end, lengths, path,
            steps, labels, block=_block(labels), num_warps=1,
        )  # fmt: skip
    return path, score


def look(
    mask: Tensor | None, lengths: Tensor | None, tags: Tensor | None, emissions: Tensor
) -> Tensor:
    """``(2, B)`` in one launch: the lengths of all rows, and what is wrong with them.

    From a mask ``(B, T)`` or lengths ``(B,)``; tags ``(B, T)`` are looked at if given. Of the
    second, 1 says that steps between others do not count, 2 that the length is impossible, 4 that a
    tag is.

    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> look(mask, None, None, torch.zeros(2, 3, 5))
    tensor([[2, 2],
            [1, 0]])
    """
    rows, steps, labels = emissions.shape
    found = torch.empty((2, rows), dtype=torch.int64, device=emissions.device)
    m_row, m_step = (0, 0) if mask is None else mask.stride()
    t_row, t_step = (0, 0) if tags is None else tags.stride()
    with on_device(emissions):
        launch(
            steps_kernel, rows, found if mask is None else mask, m_row, m_step,
            found if lengths is None else lengths.contiguous(), found if tags is None else tags,
            t_row, t_step, found, rows, steps, labels, masked=mask is not None,
            tagged=tags is not None, num_warps=1,
        )  # fmt: skip
    return found


def _accurate(emissions: Tensor) -> torch.dtype:
    return torch.float64 if emissions.dtype == torch.float64 else torch.float32


def _strides(transitions: Tensor) -> tuple[int, ...]:
    """Of row, step, label before and label after; 0 where all share one matrix."""
    return (0,) * (4 - transitions.dim()) + transitions.stride()


def _block(labels: int) -> int:
    return max(16, power_of_two(labels))


@cache
def _plan(number: torch.dtype, labels: int, shared: bool, way: str, most: int) -> dict[str, Any]:
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
        "num_warps": count,
        "enable_fp_fusion": True,
    }
