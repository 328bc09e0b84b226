"""The values of a batch with their gradients: what a layer needs, in as few calls as possible.

A small batch takes the card less time than Python takes to launch it. So both walks follow each
other at once, share one piece of memory, and are prepared when the first batch of a kind comes.
"""

from typing import Any

import torch
from torch import Tensor

from trellis.inference.chain import triton_kernels as kernels
from trellis.inference.chain.triton import BYTES, accurate, plan
from trellis.inference.kinds import kinds_of, remembered
from trellis.inference.triton_launch import launch, launch_again, on_device
from trellis.inference.triton_marks import Marks

__all__ = ["total_and_gradients", "values_and_gradients", "weigh"]

_ALIGNED = 16  # numbers: each part of the memory begins at a multiple of so many
_COLUMNS = 64  # that a program sums over all rows
_SUM = {"block": _COLUMNS, "num_warps": 4}
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
    kinds: Any = None,
) -> tuple[Tensor, Tensor]:
    """Log p of the tags of each row, and its gradient.

    As in `triton.forward`, with transitions that all positions share. The gradient of each value
    with respect to the emissions, in the type that is computed in; and a column a row of the batch
    with that with respect to all shared scores, and the value itself. Mistakes go to the marks;
    where a row has one, it is of no use, and nothing outside of it is touched. The kinds of the
    tensors, or of those that they were made of, may be known already.

    >>> zero, tags = torch.zeros(2), torch.tensor([[0, 1]])
    >>> given = (torch.zeros(1, 2, 2), torch.zeros(2, 2), zero, zero, torch.tensor([2]), tags, None)
    >>> unit, columns = values_and_gradients(*given)
    >>> unit  # 1 for the tag, less what is expected
    tensor([[[ 0.5000, -0.5000],
             [-0.5000,  0.5000]]])
    >>> columns[-1].exp()  # four paths
    tensor([0.2500])
    """
    given = (emissions, transitions, start, end, lengths, tags, mask)
    unit, columns = _run(given, marks, kinds, False)
    return unit, columns


def total_and_gradients(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor | None,
    tags: Tensor,
    mask: Tensor | None,
    marks: Marks | None = None,
    kinds: Any = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The sum of all values, and its gradients: of emissions, transitions, start and end."""
    given = (emissions, transitions, start, end, lengths, tags, mask)
    unit, total, value = _run(given, marks, kinds, True)
    return value, unit, *_parts(total, emissions.shape[2])


def weigh(unit: Tensor, columns: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Σ_b weight_b ∂ value_b / ∂ emissions, transitions, start and end.

    A few operators and views, as it runs on a thread of PyTorch's whose caches are cold:
    there a launch of our own takes five times as long.
    """
    total = (columns * weight).sum(1)
    return unit * weight.view(-1, 1, 1), *_parts(total, unit.shape[2])


def _parts(total: Tensor, labels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of transitions, start and end: views by their strides, which take the least time."""
    return (
        total.as_strided((labels, labels), (1, labels), 2 * labels),
        total.as_strided((labels,), (1,), 0),
        total.as_strided((labels,), (1,), labels),
    )


def _run(
    given: tuple[Any, ...], marks: Marks | None, kinds: Any, summed: bool
) -> tuple[Tensor, ...]:
    """Gradient of the emissions and columns of all rows, or their total and the value in it."""
    key = (kinds or kinds_of(None, *given), summed)
    step: _Step = remembered(_prepared, key, lambda: _Step(given, summed))
    with on_device(given[0]):
        return step(given, marks)


class _Step:
    """Both walks over batches of one kind, and the sum over the rows if it is wanted."""

    def __init__(self, given: tuple[Any, ...], summed: bool) -> None:
        emissions, transitions, start, end, lengths, tags, mask = given
        self.shape, self.number = emissions.shape, accurate(emissions)
        rows, steps, labels = self.shape
        flat = (transitions, start, end, *([] if lengths is None else [lengths]))
        self.dense = all(x.is_contiguous() for x in flat)
        self.width, self.summed = (labels + 1) ** 2, summed
        size = self.number.itemsize
        self.begins = [0]
        for count in (
            rows * steps * labels,  # α
            rows * self.width,  # columns
            rows * 3 * labels,  # scratch
            labels**2,  # transitions, the later label first
            rows,  # values
            -(-rows * 8 // size),  # lengths
            -(-rows * 4 // size),  # marks, if nobody wants them
        ):
            self.begins.append(self.begins[-1] + -(-count // _ALIGNED) * _ALIGNED)
        m_strides = (0, 0) if mask is None else mask.stride()
        self.grids = (m_strides, tags.stride())
        self.e_strides = emissions.stride()
        common = (self.number, labels, True)
        flags = (("masked", mask is not None), ("tagged", True), ("flip", True))
        forward = plan(*common, "forward", BYTES, flags)
        flags = (("shared", True), ("tagged", True), ("weighted", False))
        plans = (forward, plan(*common, "backward", BYTES, flags), _SUM)
        self.plans = plans if summed else plans[:2]
        self.forms: list[Any] = []

    def __call__(self, given: tuple[Any, ...], marks: Marks | None) -> tuple[Tensor, ...]:
        """As `_run`."""
        e, a, start, end, lengths, tags, mask = given
        begins = self.begins
        unit = e.new_empty(self.shape, dtype=self.number)
        work = e.new_empty(begins[-1], dtype=self.number)
        if not self.dense:
            a, start, end = a.contiguous(), start.contiguous(), end.contiguous()
            lengths = None if lengths is None else lengths.contiguous()
            given = (e, a, start, end, lengths, tags, mask)
        made: tuple[Any, ...] = (unit,)
        if self.summed:
            made = (unit, work.new_empty(self.width), work.new_empty(()))
        if self.forms:
            at, size = work.data_ptr(), self.number.itemsize
            parts: list[Any] = [at + size * begin for begin in begins[:-1]]
            if marks is not None:
                parts[-1] = marks.address
            found: Any = parts[-2]  # in the place of what there is not, which is not read
            places = [found if x is None else x.data_ptr() for x in given]
            calls = self._arguments(*places, *parts, *[x.data_ptr() for x in made])
            launch_again(self.forms, calls)
        else:
            parts = [work[begin:] for begin in begins[:-1]]
            parts[-1] = parts[-1].view(torch.int32) if marks is None else marks.tensor
            parts[-2] = found = parts[-2].view(torch.int64)
            there = [found if x is None else x for x in given]
            calls = self._arguments(*there, *parts, *made)
            steps = zip(_KERNELS, calls, self.plans, strict=False)
            forms = [launch(kernel, *call, plan) for kernel, call, plan in steps]
            self.forms = forms if all(forms) else []  # none in the interpreter
        if self.summed:
            return made
        return unit, work.as_strided((self.width, self.shape[0]), (1, self.width), begins[1])

    def _arguments(self, *given: Any) -> list[tuple[int, tuple[Any, ...]]]:
        """Programs and arguments of all kernels, of tensors or of where they lie."""
        e, a, start, end, lengths, tags, mask, *parts = given
        alpha, columns, scratch, flipped, value, found, marks, unit, *sums = parts
        rows, steps, labels = self.shape
        m_strides, t_strides = self.grids
        there = (
            e, *self.e_strides, a, 0, 0, labels, 1, start, end, lengths, mask, *m_strides,
            tags, *t_strides, found, marks, value, alpha, flipped, rows, steps, labels,
        )  # fmt: skip
        back = (
            e, *self.e_strides, flipped, 0, 0, 1, labels, end, found, tags, *t_strides, alpha,
            value, 1, unit, value, columns, scratch, steps, labels,
        )  # fmt: skip
        if not self.summed:
            return [(rows, there), (rows, back)]
        programs = -(-self.width // _COLUMNS)
        return [(rows, there), (rows, back), (programs, (columns, *sums, rows, self.width))]


_KERNELS = (kernels.forward_kernel, kernels.backward_kernel, kernels.sum_kernel)
