"""The losses of a batch with their gradient: all launches of a loss layer, prepared for a shape.

A small batch takes the card less time than Python takes for five launches and as many tensors. So
they are prepared when the first batch of a shape comes, and share one piece of memory.
"""

from typing import Any

import torch
from torch import Tensor

from trellis.inference.ctc import triton_kernels as kernels
from trellis.inference.ctc.triton import aligned, lanes, pairs, tiles
from trellis.inference.ctc.triton_walks import walk_in, walk_out
from trellis.inference.triton_launch import launch, launch_again, on_device, remembered

__all__ = ["losses_and_gradient"]

_prepared: dict[Any, "_Step"] = {}


def losses_and_gradient(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    logits: bool,
    entropy: float,
    share: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of each row, share[b] · d loss[b] / d input, and which rows have a mistake.

    As `triton.forward`, `backward` and `look` have them; no shares are ones. The classes of the
    input lie beside each other, and all else is contiguous.

    >>> rows = (torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1]))
    >>> loss, gradient, wrong = losses_and_gradient(
    ...     torch.zeros(2, 1, 2), *rows, 0, True, 0.0, None
    ... )
    >>> loss.neg().exp()  # three of four paths
    tensor([0.7500])
    """
    key = (
        input.shape,
        input.stride(),
        input.dtype,
        targets.shape,
        blank,
        logits,
        entropy != 0.0,
        share is not None,
        input.device,
    )
    own = (input, targets, blank, logits, entropy != 0.0, share is not None)
    step: _Step = remembered(_prepared, key, lambda: _Step(*own))
    with on_device(input):
        return step(input, targets, input_lengths, target_lengths, share, entropy)


class _Step:
    """All launches for batches of one shape."""

    def __init__(
        self, input: Tensor, targets: Tensor, blank: int, logits: bool, entropy: bool, shares: bool
    ) -> None:
        self.shape, self.blank = input.shape, blank
        frames, rows, classes = input.shape
        width = targets.shape[1] + 1
        like = torch.empty_like(input)  # of an input that is not dense it is laid out otherwise
        self.width, self.strides, self.out_strides = width, input.stride()[:2], like.stride()[:2]
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
        ):
            self.parts.append((begin, dtype))
            begin += -(-size * dtype.itemsize // 64) * 64
        self.bytes = begin + 64
        flags = (("LOGITS", logits), ("KEEP", True), ("ALIGN", aligned(input)))
        self.programs, score = tiles(frames, rows, classes, width, flags)
        flags = (("LOGITS", logits), ("WEIGHTED", shares), ("ALIGN", aligned(input, like)))
        walk = lanes(width, (("KEEP", True), ("ENTROPY", entropy)))
        write = tiles(frames, rows, classes, width, flags)[1]
        self.plans = (pairs(width), score, walk, walk, write)
        self.forms: list[Any] = []

    def __call__(
        self,
        input: Tensor,
        targets: Tensor,
        ends: Tensor,
        sizes: Tensor,
        share: Tensor | None,
        entropy: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `losses_and_gradient`."""
        rows = self.shape[1]
        gradient = torch.empty_like(input)
        loss = input.new_empty(rows)
        wrong = input.new_empty(rows, dtype=torch.int32)
        work = input.new_empty(self.bytes, dtype=torch.uint8)
        weight = loss.new_full((1,), entropy, dtype=torch.float64) if entropy else loss
        given = (input, targets, ends, sizes, loss if share is None else share, weight)
        tensors = (*given, gradient, loss, wrong)
        places = [x.data_ptr() for x in tensors]
        bits = 0
        for place in places:
            bits |= place
        if self.forms and bits % 16 == 0:
            at = work.data_ptr()
            launch_again(
                self.forms, self._arguments(*places, *[at + begin for begin, _ in self.parts])
            )
            return loss, gradient, wrong
        parts = (work[begin:-64].view(dtype) for begin, dtype in self.parts)
        steps = zip(_KERNELS, self._arguments(*tensors, *parts), self.plans, strict=True)
        forms = [launch(kernel, *call, plan) for kernel, call, plan in steps]
        if all(forms) and bits % 16 == 0:
            self.forms = forms
        return loss, gradient, wrong

    def _arguments(self, *given: Any) -> list[tuple[int, tuple[Any, ...]]]:
        """Programs and arguments of all kernels, of tensors or of where they lie."""
        x, targets, ends, sizes, share, weight, gradient, loss, wrong, *parts = given
        scores, states, powers, heats, log_norm, links = parts
        frames, rows, classes = self.shape
        most, blank = self.width - 1, self.blank
        batch = (targets, ends, sizes)
        kept = (scores, *batch, states, powers, heats)
        look = (*batch, wrong, links, frames, most, classes, blank)
        own = (*self.strides, frames, rows, most, blank)
        score = (x, *batch, log_norm, scores, states, *own)
        kept_by = (links, log_norm, states, loss, share, 1)
        places = (*self.strides, *self.out_strides, frames, rows, most, blank)
        write = (x, *batch, *kept_by, gradient, *places)
        return [
            (rows, look),
            (self.programs, score),
            (2 * rows, (*kept, frames, most)),
            (2 * rows, (*kept, loss, weight, frames, most)),
            (self.programs, write),
        ]


_KERNELS = (
    kernels.look_at_targets,
    kernels.score_frames,
    walk_in,
    walk_out,
    kernels.write_gradient,
)
