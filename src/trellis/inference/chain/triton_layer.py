"""The values of a batch with their gradients: what a layer needs, in as few calls as possible.

A small batch takes the card less time than Python takes to launch it. So both walks follow each
other at once, share one piece of memory, and are prepared when the first batch of a shape comes.
"""

from math import isqrt
from typing import Any

import torch
from torch import Tensor

from trellis.inference.chain import triton_kernels as kernels
from trellis.inference.chain.triton import BYTES, accurate, plan
from trellis.inference.marks import Marks
from trellis.inference.triton_launch import launch, launch_again, on_device, remembered

__all__ = ["totals", "values_and_gradients", "weigh"]

_ALIGNED = 16  # numbers: each part of the memory begins at a multiple of so many
_prepared: dict[Any, "_Step"] = {}


def values_and_gradients(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor | None,
    tags: Tensor,
    mask: Tensor | None,
    marks: Marks | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Log p of the tags of each row, its gradient, and what was found on the way.

    As in `triton.forward`, with transitions that all positions share. The gradient of each value
    with respect to the emissions, in the type that is computed in; a column a row of the batch with
    that with respect to all shared scores, and the value itself; and lengths and mistakes (2, B).
    Where a row has one, it is of no use, and nothing outside of it is touched. Mistakes go to the
    marks as well.

    >>> zero, tags = torch.zeros(2), torch.tensor([[0, 1]])
    >>> given = (torch.zeros(1, 2, 2), torch.zeros(2, 2), zero, zero, torch.tensor([2]), tags, None)
    >>> unit, columns, found = values_and_gradients(*given)
    >>> unit  # 1 for the tag, less what is expected
    tensor([[[ 0.5000, -0.5000],
             [-0.5000,  0.5000]]])
    >>> totals(columns)[3].exp()  # four paths
    tensor(0.2500)
    """
    grid = None if mask is None else (mask.dtype, mask.stride())
    key = (
        emissions.shape,
        emissions.stride(),
        emissions.dtype,
        transitions.dtype,
        start.dtype,
        end.dtype,
        tags.stride(),
        grid,
        marks is None,
        emissions.device,
    )
    step: _Step = remembered(_prepared, key, lambda: _Step(emissions, tags, mask, marks))
    given = (transitions.contiguous(), start.contiguous(), end.contiguous())
    with on_device(emissions):
        return step(emissions, *given, lengths, tags, mask, marks)


def totals(columns: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums over the rows of a batch, of the columns that `values_and_gradients` has made.

    Of their gradients with respect to transitions, start and end, and of their values. Views by
    their strides: each operator less is a tenth of the time that a small batch takes.
    """
    labels = isqrt(len(columns)) - 1  # there are labels² + 2 labels + 1 numbers of a row
    total = columns.sum(1)
    d_transitions = total.as_strided((labels, labels), (1, labels), 2 * labels)
    d_start = total.as_strided((labels,), (1,), 0)
    # a tensor of its own to autograd: the value may be changed in place, what is kept may not
    return d_transitions, d_start, total.as_strided((labels,), (1,), labels), total[-1].data


def weigh(unit: Tensor, columns: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Σ_b weight_b ∂ value_b / ∂ emissions, transitions, start and end.

    A few operators and views, as it runs on a thread of PyTorch's whose caches are cold:
    there a launch of our own takes five times as long.
    """
    return unit * weight.view(-1, 1, 1), *totals(columns * weight)[:3]


class _Step:
    """Both walks over batches of one shape."""

    def __init__(
        self, emissions: Tensor, tags: Tensor, mask: Tensor | None, marks: Marks | None
    ) -> None:
        self.shape, self.number = emissions.shape, accurate(emissions)
        rows, steps, labels = self.shape
        self.e_strides, self.t_strides = emissions.stride(), tags.stride()
        self.m_strides = (0, 0) if mask is None else mask.stride()
        self.width = (labels + 1) ** 2
        sizes = (rows * steps * labels, rows * self.width, rows * 3 * labels, labels**2, rows)
        self.begins = [0]
        for size in sizes:
            self.begins.append(self.begins[-1] + -(-size // _ALIGNED) * _ALIGNED)
        common = (self.number, labels, True)
        there = (("masked", mask is not None), ("tagged", True), ("marked", marks is not None))
        self.forward_plan = plan(*common, "forward", BYTES, (*there, ("flip", True)))
        flags = (("shared", True), ("tagged", True), ("weighted", False))
        self.backward_plan = plan(*common, "backward", BYTES, flags)
        self.forms: Any = None

    def __call__(
        self,
        e: Tensor,
        a: Tensor,
        start: Tensor,
        end: Tensor,
        lengths: Tensor | None,
        tags: Tensor,
        mask: Tensor | None,
        marks: Marks | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `values_and_gradients`."""
        rows, begins = self.shape[0], self.begins
        unit = e.new_empty(self.shape, dtype=self.number)
        work = e.new_empty(begins[-1], dtype=self.number)
        found = e.new_empty((2, rows), dtype=torch.int64)
        # what there is not is not read, but must be of the right kind
        own = found if lengths is None else lengths.contiguous()
        told = found if marks is None else marks.memory
        given = (e, a, start, end, own, found if mask is None else mask, tags, found, told, unit)
        if self.forms is None:
            parts = [work[begin:] for begin in begins[:-1]]
            there, back = self._arguments(*given, *parts)
            first = launch(kernels.forward_kernel, rows, there, self.forward_plan)
            second = launch(kernels.backward_kernel, rows, back, self.backward_plan)
            self.forms = first and (first, second)  # none in the interpreter
        else:
            at, size = work.data_ptr(), self.number.itemsize
            there, back = self._arguments(
                *[x.data_ptr() for x in given], *[at + size * begin for begin in begins[:-1]]
            )
            launch_again(self.forms, ((rows, there), (rows, back)))
        columns = work.as_strided((self.width, rows), (1, self.width), begins[1])
        return unit, columns, found

    def _arguments(self, *given: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Of the two kernels, of tensors or of where they lie."""
        e, a, start, end, lengths, mask, tags, found, marks, unit, *parts = given
        alpha, columns, scratch, flipped, value = parts
        rows, steps, labels = self.shape
        there = (
            e, *self.e_strides, a, 0, 0, labels, 1, start, end, lengths, mask, *self.m_strides,
            tags, *self.t_strides, found, marks, value, alpha, flipped, rows, steps, labels,
        )  # fmt: skip
        back = (
            e, *self.e_strides, flipped, 0, 0, 1, labels, end, found, tags, *self.t_strides, alpha,
            value, 1, unit, value, columns, scratch, steps, labels,
        )  # fmt: skip
        return there, back
