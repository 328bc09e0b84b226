"""The values of a batch with their gradients: what a layer needs, in as few calls as possible.

A small batch takes the card less time than Python takes to launch it. So both walks follow each
other at once, share one piece of memory, and are prepared when the first batch of a kind comes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trellis.inference.chain import kernels_shared as kernels
from trellis.inference.chain.triton import BYTES, accurate, plan
from trellis.inference.gpu.launch import launch, launch_again, on_device
from trellis.inference.gpu.signature import kinds_of, remembered
from trellis.inference.gpu.status import Marks

__all__ = ["Step", "step_of"]

Given: TypeAlias = tuple[Any, ...]

_ALIGNED = 16  # numbers: each part of the memory begins at a multiple of so many
_FOUND, _MARKS = 3, 4  # lengths and marks, of the parts of that memory
_STRIDED = (0, 5, 6)  # emissions, tags and mask may lie in any way; the rest is made dense
_COLUMNS = 64  # that a program sums over all rows
_SUM = {"block": _COLUMNS, "num_warps": 4}
_prepared: dict[Any, dict[Any, Any]] = {}  # for callers that keep nothing themselves


def step_of(given: Given, summed: bool, prepared: dict[Any, Any] | None = None) -> "Step":
    """What computes log p of the tags of each row, or their sum, for batches like this one.

    Given are emissions, transitions, start, end, lengths, tags and mask as in `triton.forward`,
    with transitions that all positions share. What is prepared for their kind may be known.

    >>> zero, tags = torch.zeros(2), torch.tensor([[0, 1]])
    >>> given = (torch.zeros(1, 2, 2), torch.zeros(2, 2), zero, zero, torch.tensor([2]), tags, None)
    >>> step = step_of(given, summed=True)
    >>> value, kept = step(given)
    >>> value.exp()  # four paths
    tensor(0.2500)
    >>> step.weigh(kept, torch.tensor(2.0))[0]  # 1 for the tag, less what is expected; all twice
    tensor([[[ 1., -1.],
             [-1.,  1.]]])
    """
    if prepared is None:
        prepared = remembered(_prepared, kinds_of(None, *given), dict)
    step: Step = remembered(prepared, summed, lambda: (_Total if summed else _Rows)(given))
    return step


class Step(ABC):
    """Both walks over batches of one kind."""

    launched: tuple[Any, ...] = (kernels.forward_kernel, kernels.backward_kernel)

    def __init__(self, given: Given) -> None:
        emissions, transitions, start, end, lengths, tags, mask = given
        self.shape, self.number = emissions.shape, accurate(emissions)
        rows, steps, labels = self.shape
        flat = (transitions, start, end, *([] if lengths is None else [lengths]))
        self.dense = all(x.is_contiguous() for x in flat)
        self.width = (labels + 1) ** 2  # of all shared scores, and the value
        own = [x.dtype for x in (emissions, transitions, start, end)]
        self.types = None if all(dtype is self.number for dtype in own) else own
        size = self.number.itemsize
        self.begins = [0]
        for count in (  # in the order of `arguments`
            rows * steps * labels,  # α
            rows * 3 * labels,  # scratch
            labels**2,  # transitions, the later label first
            -(-rows * 8 // size),  # lengths
            -(-rows * 4 // size),  # marks, if nobody wants them
            *self.inside(),
        ):
            self.begins.append(self.begins[-1] + -(-count // _ALIGNED) * _ALIGNED)
        self.count = self.begins.pop()
        self.m_strides = (0, 0) if mask is None else mask.stride()
        self.e_strides, self.t_strides = emissions.stride(), tags.stride()
        common = (self.number, labels, True)
        flags = (("masked", mask is not None), ("tagged", True), ("flip", True))
        forward = plan(*common, "forward", BYTES, flags)
        flags = (("shared", True), ("tagged", True), ("weighted", False))
        self.plans: tuple[Any, ...] = (forward, plan(*common, "backward", BYTES, flags))
        self.forms: list[Any] = []

    def __call__(
        self, given: Given, marks: Marks | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The value, and what `weigh` needs.

        Mistakes go to the marks; where a row has one, all is of no use, and nothing outside of it
        is touched.
        """
        if not self.dense:
            given = tuple(
                x if x is None or i in _STRIDED else x.contiguous() for i, x in enumerate(given)
            )
        work = given[0].new_empty(self.count, dtype=self.number)
        value, kept = self.results(work)
        written = self.written(value, kept)
        with on_device(work):
            if not self.forms:
                self._first(given, marks, work, written)
                return value, kept
            at, size = work.data_ptr(), self.number.itemsize
            parts = [at + size * begin for begin in self.begins]
            if marks is not None:
                parts[_MARKS] = marks.address
            found = parts[_FOUND]  # in the place of what there is not, which is not read
            places = [found if x is None else x.data_ptr() for x in given]
            calls = self.arguments(*places, *parts, *[x.data_ptr() for x in written])
            launch_again(self.forms, calls)
        return value, kept

    def _first(
        self, given: Given, marks: Marks | None, work: Tensor, written: list[Tensor]
    ) -> None:
        """Compile what is needed, and launch it."""
        parts = [work[begin:] for begin in self.begins]
        parts[_MARKS] = parts[_MARKS].view(torch.int32) if marks is None else marks.tensor
        parts[_FOUND] = found = parts[_FOUND].view(torch.int64)
        there = [found if x is None else x for x in given]
        calls = self.arguments(*there, *parts, *written)
        steps = zip(self.launched, calls, self.plans, strict=True)
        forms = [launch(kernel, *call, plan) for kernel, call, plan in steps]
        self.forms = forms if all(forms) else []  # none in the interpreter

    def arguments(self, *given: Any) -> list[tuple[int, tuple[Any, ...]]]:
        """Programs and arguments of all kernels, of tensors or of where they lie."""
        e, a, start, end, lengths, tags, mask, *parts = given
        alpha, scratch, flipped, found, marks, values, columns, unit = parts[:8]
        rows, steps, labels = self.shape
        there = (
            e, *self.e_strides, a, 0, 0, labels, 1, start, end, lengths, mask, *self.m_strides,
            tags, *self.t_strides, found, marks, values, alpha, flipped, rows, steps, labels,
        )  # fmt: skip
        back = (
            e, *self.e_strides, flipped, 0, 0, 1, labels, end, found, tags, *self.t_strides, alpha,
            values, 1, unit, values, columns, scratch, steps, labels,
        )  # fmt: skip
        return [(rows, there), (rows, back)]

    @abstractmethod
    def inside(self) -> tuple[int, ...]:
        """How many numbers there are of what lies in the shared memory of this kind alone."""

    @abstractmethod
    def results(self, like: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Memory for the value, and for what is kept."""

    @abstractmethod
    def written(self, value: Tensor, kept: tuple[Tensor, ...]) -> list[Tensor]:
        """Where the kernels put both."""

    @abstractmethod
    def weigh(self, kept: Sequence[Tensor], weight: Tensor) -> Sequence[Tensor]:
        """Σ weight ∂ value / ∂ emissions, transitions, start and end, in their types.

        A few operators, as it runs on a thread of PyTorch's whose caches are cold: there a launch
        of our own takes five times as long. None of the results is a view of another tensor: they
        are the caller's, who may change one and not the others.
        """

    def typed(self, found: Sequence[Tensor]) -> Sequence[Tensor]:
        """Gradients in the types of what was given."""
        if self.types is None:
            return found
        return [x.to(dtype) for x, dtype in zip(found, self.types, strict=True)]


class _Rows(Step):
    """The value of each row. Kept are its gradients: of the emissions, and of all shared scores."""

    def inside(self) -> tuple[int, ...]:
        return ()

    def results(self, like: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        rows = self.shape[0]
        return like.new_empty(rows), (like.new_empty(self.shape), like.new_empty(rows, self.width))

    def written(self, value: Tensor, kept: tuple[Tensor, ...]) -> list[Tensor]:
        unit, columns = kept
        return [value, columns, unit]

    def weigh(self, kept: Sequence[Tensor], weight: Tensor) -> Sequence[Tensor]:
        unit, columns = kept
        labels = self.shape[2]
        total = (columns * weight[:, None]).sum(0)
        pairs = total[2 * labels : -1].view(labels, labels).t()  # the later label came first
        found = (pairs, total[:labels], total[labels : 2 * labels])
        apart = [x.clone(memory_format=torch.contiguous_format) for x in found]
        return self.typed([unit * weight.view(-1, 1, 1), *apart])


class _Total(Step):
    """The sum of all values. Kept are its gradients, as parts of one tensor."""

    launched = (*Step.launched, kernels.sum_kernel)

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        rows, steps, labels = self.shape
        begin = rows * steps * labels
        self.numbers = begin + self.width - 1
        self.views: list[Any] = [  # of the gradients: sizes, strides, begin
            (self.shape, (steps * labels, labels, 1), 0),
            ((labels, labels), (labels, 1), begin + 2 * labels),
            ((labels,), (1,), begin),
            ((labels,), (1,), begin + labels),
        ]
        self.programs = -(-self.width // _COLUMNS)
        self.plans = (*self.plans, _SUM)

    def inside(self) -> tuple[int, ...]:
        rows = self.shape[0]
        return rows, rows * self.width  # values and columns

    def results(self, like: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        view = like.new_empty(self.numbers).as_strided
        return like.new_empty(()), tuple([view(*place) for place in self.views])

    def written(self, value: Tensor, kept: tuple[Tensor, ...]) -> list[Tensor]:
        unit, _, start, _ = kept
        return [unit, start, value]  # at `start` begin all shared scores

    def arguments(self, *given: Any) -> list[tuple[int, tuple[Any, ...]]]:
        columns, _, total, value = given[-4:]
        rows, _, labels = self.shape
        return [*super().arguments(*given), (self.programs, (columns, total, value, rows, labels))]

    def weigh(self, kept: Sequence[Tensor], weight: Tensor) -> Sequence[Tensor]:
        return self.typed(torch._foreach_mul(kept, weight))
