"""The loss of a batch with its gradient: all launches of a loss layer, prepared for a kind.

A small batch takes the card less time than Python takes for four launches and as many tensors. So
they are prepared when the first batch of a kind comes, and share one piece of memory.
"""

from typing import Any

import torch
from torch import Tensor

from trellis.inference.ctc import kernels_frames as kernels
from trellis.inference.ctc.kernels_walks import walk_in, walk_out
from trellis.inference.ctc.triton import aligned, lanes, pairs, tiles
from trellis.inference.gpu.launch import launch, launch_again, on_device
from trellis.inference.gpu.signature import kinds_of, remembered
from trellis.inference.gpu.status import Marks

__all__ = ["loss_and_gradient"]

_prepared: dict[Any, dict[Any, Any]] = {}


def loss_and_gradient(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    logits: bool,
    entropy: float,
    reduction: str,
    marks: Marks | None = None,
    prepared: dict[Any, Any] | None = None,
) -> tuple[Tensor, Tensor]:
    """The loss of each row ("none"), their "sum" or their "mean" a label, and d loss / d input.

    Of losses of their own the gradient of each. As `triton.forward` and `backward` have them; rows
    that have a mistake get a mark of 1. The classes of the input lie beside each other, and all
    else is contiguous. What is prepared for the kind of the tensors may be known.

    >>> rows = (torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1]))
    >>> loss, gradient = loss_and_gradient(torch.zeros(2, 1, 2), *rows, 0, True, 0.0, "sum")
    >>> loss.neg().exp()  # three of four paths
    tensor(0.7500)
    """
    rows = (targets, input_lengths, target_lengths)
    own = (blank, logits, entropy != 0.0, reduction)
    if prepared is None:
        prepared = remembered(_prepared, kinds_of(None, input, *rows), dict)
    step: _Step = remembered(prepared, own, lambda: _Step(input, targets, *own))
    with on_device(input):
        return step(input, *rows, entropy, marks)


class _Step:
    """All launches for batches of one kind."""

    def __init__(
        self,
        input: Tensor,
        targets: Tensor,
        blank: int,
        logits: bool,
        entropy: bool,
        reduction: str,
    ) -> None:
        frames, rows, classes = input.shape
        width = targets.shape[1] + 1
        like = torch.empty_like(input)  # of an input that is not dense it is laid out otherwise
        whole, small = torch.int32, input.dtype
        kept = rows * (frames + 2) * 2 * width
        self.parts: list[tuple[int, torch.dtype]] = []  # where they begin, in bytes
        begin = 0
        for size, dtype in (
            (rows * frames * width, small),  # scores
            (kept, small),  # states
            (kept, whole),  # powers
            (kept if entropy else 0, small),  # heats
            (frames * rows if logits else 0, torch.float64),  # log_norm
            (rows * 2 * width, whole),  # links
            (rows, small),  # losses
            (rows, whole),  # marks, if nobody wants them
        ):
            self.parts.append((begin, dtype))
            begin += -(-max(size, 1) * dtype.itemsize // 64) * 64
        self.bytes = begin + 64
        self.summed = reduction != "none"
        self.value: tuple[int, ...] = () if self.summed else (rows,)
        flags = (("LOGITS", logits), ("KEEP", True), ("ALIGN", aligned(input)))
        own = (*flags, *pairs(width).items())
        self.programs, score = tiles(frames, rows, classes, width, own)
        flags = (("LOGITS", logits), ("WEIGHTED", False), ("ALIGN", aligned(input, like)))
        own = (*flags, ("SUMMED", self.summed), ("MEAN", reduction == "mean"))
        write = tiles(frames, rows, classes, width, own)[1]
        walk = lanes(width, (("KEEP", True), ("ENTROPY", entropy)))
        self.plans = (score, walk, walk, write)
        self.walkers = 2 * rows
        strides, out_strides = input.stride()[:2], like.stride()[:2]
        self.score_sizes = (*strides, frames, rows, width - 1, blank)
        self.walk_sizes = (frames, width - 1)
        self.write_sizes = (*strides, *out_strides, frames, rows, width - 1, blank)
        self.forms: list[Any] = []

    def __call__(
        self,
        input: Tensor,
        targets: Tensor,
        ends: Tensor,
        sizes: Tensor,
        entropy: float,
        marks: Marks | None,
    ) -> tuple[Tensor, Tensor]:
        """As `loss_and_gradient`."""
        gradient = torch.empty_like(input)
        value = input.new_empty(self.value)
        work = input.new_empty(self.bytes, dtype=torch.uint8)
        weight = value.new_full((1,), entropy, dtype=torch.float64) if entropy else value
        tensors = (input, targets, ends, sizes, weight, gradient, value)
        places = [x.data_ptr() for x in tensors]
        bits = 0
        for place in places:
            bits |= place
        if self.forms and bits % 16 == 0:
            at = work.data_ptr()
            parts: list[Any] = [at + begin for begin, _ in self.parts]
            launch_again(self.forms, self._arguments(marks and marks.address, *places, *parts))
            return value, gradient
        parts = [work[begin:-64].view(dtype) for begin, dtype in self.parts]
        calls = self._arguments(marks and marks.tensor, *tensors, *parts)
        steps = zip(_KERNELS, calls, self.plans, strict=True)
        forms = [launch(kernel, *call, plan) for kernel, call, plan in steps]
        if all(forms) and bits % 16 == 0:
            self.forms = forms
        return value, gradient

    def _arguments(self, marks: Any, *given: Any) -> list[tuple[int, tuple[Any, ...]]]:
        """Programs and arguments of all kernels, of tensors or of where they lie."""
        x, targets, ends, sizes, weight, gradient, value, *parts = given
        scores, states, powers, heats, log_norm, links, loss, unwanted = parts
        loss = loss if self.summed else value
        wrong = unwanted if marks is None else marks
        score = (x, targets, ends, sizes, wrong, links, log_norm, scores, states)
        walk = (scores, targets, ends, sizes, states, powers, heats)
        write = (x, targets, ends, sizes, links, log_norm, states, loss, loss, 1, gradient, value)
        return [
            (self.programs, score + self.score_sizes),
            (self.walkers, walk + self.walk_sizes),
            (self.walkers, (*walk, loss, weight, *self.walk_sizes)),
            (self.programs, write + self.write_sizes),
        ]


_KERNELS = (kernels.score_frames, walk_in, walk_out, kernels.write_gradient)
