"""The values of a batch with their gradients: what a layer needs, in as few calls as possible.

A small batch takes the card less time than Python takes to launch it. So both walks follow each
other at once, share one piece of memory, and are prepared when the first batch of a kind comes.
"""

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trellis.inference.chain import triton_kernels as kernels
from trellis.inference.chain.triton import BYTES, accurate, plan
from trellis.inference.kinds import kinds_of, remembered
from trellis.inference.triton_launch import launch, launch_again, on_device
from trellis.inference.triton_marks import Marks

__all__ = ["Step", "step_of"]

Given: TypeAlias = tuple[Any, ...]

_ALIGNED = 16  # numbers: each part of the memory begins at a multiple of so many
_COLUMNS = 64  # that a program sums over all rows
_SUM = {"block": _COLUMNS, "num_warps": 4}
_TOGETHER = 2**18  # numbers: gradients of a batch up to so large are one tensor
_prepared: dict[Any, dict[Any, Any]] = {}


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
    step: Step | None = prepared.get(summed)
    if step is None:
        step = prepared[summed] = (_Total if summed else _Rows)(given)
    return step


class Step(ABC):
    """Both walks over batches of one kind."""

    kernels: tuple[Any, ...] = (kernels.forward_kernel, kernels.backward_kernel)

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
        for count in (
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
        with on_device(work):
            if not self.forms:
                self._first(given, marks, work, value, kept)
                return value, kept
            at, size = work.data_ptr(), self.number.itemsize
            parts = [at + size * begin for begin in self.begins]
            if marks is not None:
                parts[_MARKS] = marks.address
            found = parts[_FOUND]  # in the place of what there is not, which is not read
            places = [found if x is None else x.data_ptr() for x in given]
            calls = self.arguments(*places, *parts, *self.places(value, kept))
            launch_again(self.forms, calls)
        return value, kept

    def _first(
        self, given: Given, marks: Marks | None, work: Tensor, value: Tensor, kept: Any
    ) -> None:
        """Compile what is needed, and launch it."""
        parts = [work[begin:] for begin in self.begins]
        parts[_MARKS] = parts[_MARKS].view(torch.int32) if marks is None else marks.tensor
        parts[_FOUND] = found = parts[_FOUND].view(torch.int64)
        there = [found if x is None else x for x in given]
        calls = self.arguments(*there, *parts, *self.tensors(value, kept))
        steps = zip(self.kernels, calls, self.plans, strict=True)
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
    def tensors(self, value: Tensor, kept: tuple[Tensor, ...]) -> list[Tensor]:
        """What the kernels are to write."""

    @abstractmethod
    def places(self, value: Tensor, kept: tuple[Tensor, ...]) -> list[int]:
        """Where that is."""

    @abstractmethod
    def weigh(self, kept: tuple[Tensor, ...], weight: Tensor) -> list[Tensor]:
        """Σ weight ∂ value / ∂ emissions, transitions, start and end, in their types.

        A few operators and views, as it runs on a thread of PyTorch's whose caches are cold:
        there a launch of our own takes five times as long.
        """

    def shared(self, begin: int, turned: bool) -> list[Any]:
        """Where the shared scores lie in their tensor: sizes, strides and begin of each."""
        labels = self.shape[2]
        strides = (1, labels) if turned else (labels, 1)  # the later label first, or the earlier
        return [
            ((labels, labels), strides, begin + 2 * labels),
            ((labels,), (1,), begin),
            ((labels,), (1,), begin + labels),
        ]

    def typed(self, found: list[Tensor]) -> list[Tensor]:
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

    def tensors(self, value: Tensor, kept: tuple[Tensor, ...]) -> list[Tensor]:
        unit, columns = kept
        return [value, columns, unit]

    def places(self, value: Tensor, kept: tuple[Tensor, ...]) -> list[int]:
        return [x.data_ptr() for x in self.tensors(value, kept)]

    def weigh(self, kept: tuple[Tensor, ...], weight: Tensor) -> list[Tensor]:
        unit, columns = kept
        total = (columns * weight[:, None]).sum(0)
        found = [total.as_strided(*view) for view in self.shared(0, True)]
        return self.typed([unit * weight.view(-1, 1, 1), *found])


class _Total(Step):
    """The sum of all values. Kept are its gradients, in one tensor or two.

    Parts of one tensor keep all of it alive, which a parameter's gradient must not do to much
    memory.
    """

    kernels = (*Step.kernels, kernels.sum_kernel)

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        rows, steps, labels = self.shape
        unit, shared = rows * steps * labels, self.width - 1
        together = unit + shared <= _TOGETHER
        self.counts = [unit + shared] if together else [unit, shared]
        self.begin = unit if together else 0  # of the shared scores in the last tensor
        shares = self.shared(self.begin, False)
        whole = (self.shape, (steps * labels, labels, 1), 0)
        self.views = [(0, whole), *[(-1, view) for view in shares]]
        self.programs = -(-self.width // _COLUMNS)
        self.plans = (*self.plans, _SUM)

    def inside(self) -> tuple[int, ...]:
        rows = self.shape[0]
        return rows, rows * self.width  # values and columns

    def results(self, like: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        return like.new_empty(()), tuple([like.new_empty(count) for count in self.counts])

    def tensors(self, value: Tensor, kept: tuple[Tensor, ...]) -> list[Tensor]:
        return [kept[0], kept[-1][self.begin :], value]

    def places(self, value: Tensor, kept: tuple[Tensor, ...]) -> list[int]:
        total = kept[-1].data_ptr() + self.begin * self.number.itemsize
        return [kept[0].data_ptr(), total, value.data_ptr()]

    def arguments(self, *given: Any) -> list[tuple[int, tuple[Any, ...]]]:
        columns, _, total, value = given[-4:]
        rows, _, labels = self.shape
        return [*super().arguments(*given), (self.programs, (columns, total, value, rows, labels))]

    def weigh(self, kept: tuple[Tensor, ...], weight: Tensor) -> list[Tensor]:
        parts = [x * weight for x in kept]
        return self.typed([parts[n].as_strided(*view) for n, view in self.views])


_FOUND, _MARKS = 3, 4  # of the parts of the shared memory
_STRIDED = (0, 5, 6)  # emissions, tags and mask may lie in any way
