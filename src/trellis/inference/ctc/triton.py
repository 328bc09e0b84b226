"""CTC on the GPU: losses and gradients of torch tensors, as Triton kernels.

1. `score_frames`, parallel over frames, reads the input once. It computes log_norm and gathers the
   scores of the target's labels, so that the walks read rows of S + 1 numbers instead of V.
2. `walk_in` has two programs per batch row. One goes from the left, one from the right, and they
   meet in the middle. All states are stored.
3. `walk_out`: both walks continue over the states that the other has stored, and replace them by
   occupation probabilities. Together they need T dependent steps, not 2 T.
4. `write_gradient`, parallel over frames, reads the input again and writes the gradient.

All sums have a fixed order, so that the same input gives the same bits. The head of
kernels_frames.py explains the arguments of all kernels.
"""

from collections.abc import Sequence
from math import gcd
from typing import Any

import torch
from torch import Tensor

from trellis.inference.ctc import kernels_frames as kernels
from trellis.inference.ctc.kernels_walks import walk_in, walk_out
from trellis.inference.gpu.launch import (
    Call,
    LaunchPlan,
    find_plan,
    launch,
    on_device,
    power_of_two,
)
from trellis.inference.gpu.status import RowStatus

__all__ = ["CTCPlan", "find_plan", "weighted_gradient"]

_TILE = 1024  # elements per program: 8 per thread
_FRAME_WARPS = 4  # warps of the kernels that are parallel over frames
_MAX_WALK_WARPS = 16  # warps of a walk; up to 512 labels, each lane has one thread


class CTCPlan(LaunchPlan):
    """The prepared computation of the loss of batches of one signature; optionally its gradient.

    A batch is input (T, B, V), int64 targets (B, S), input_lengths (B,) and target_lengths (B,).
    The loss of a row is -log p(target | input), minus λ times the entropy of its alignments. With
    ``logits``, the kernels also compute the softmax of the input.

    gradient
        "now": it is computed with the loss. The backward pass, which PyTorch runs on another thread
        where Python is slow, then only multiplies. "later": a kernel of the backward pass computes
        it, which needs less memory. "no": it is not computed.
    reduction
        "none". If ``gradient`` is "now", also "sum" or "mean" as in `trellis.nn.ctc_loss`.

    >>> batch = (torch.zeros(2, 1, 2), torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1]))
    >>> plan = CTCPlan(batch, blank=0, logits=True, entropy=False, gradient="now", reduction="sum")
    >>> loss, saved = plan.run(batch)
    >>> loss.neg().exp()  # three of four paths
    tensor(0.7500)
    """

    specialized_on_alignment = True

    def __init__(
        self,
        batch: tuple[Tensor, ...],
        blank: int,
        logits: bool,
        entropy: bool,
        gradient: str = "later",
        reduction: str = "none",
    ) -> None:
        x, targets = (_contiguous_classes(batch[0]), batch[1])
        frames, rows, self.classes = x.shape
        self.shape, self.labels = (frames, rows), targets.shape[1]
        self.blank, self.logits, self.entropy = blank, logits, entropy
        self.gradient, self.summed = gradient, reduction != "none"
        self.dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        width = self.labels + 1
        self.strides = x.stride()[:2]
        output = torch.empty_like(x)  # its strides differ from those of x if x is not dense
        self.output_strides = output.stride()[:2]
        self.states = (rows, 2 if gradient == "no" else frames + 2, 2, width)
        states = rows * self.states[1] * 2 * width
        norms = frames * rows if logits else 1
        saved = gradient == "later"  # then the caller stores states, log_norm and links
        workspace = [
            (rows * frames * width, self.dtype),  # scores
            (states, torch.int32),  # powers
            (states if entropy else 1, self.dtype),  # entropies
            (1 if saved else states, self.dtype),  # states
            (1 if saved else norms, torch.float64),  # log_norm
            (1 if saved else rows * 2 * width, torch.int32),  # links
            (rows, self.dtype),  # loss of each row
            (rows, torch.int32),  # status
        ]
        flags = {"LOGITS": logits, "KEEP": gradient != "no", "ALIGN": _alignment(x)}
        sizes = _tile_sizes(frames, self.classes, width)
        lanes = _lanes(width)
        pairs = {"P": lanes, "BLOCK": max(1, 4096 // lanes)}
        # score_frames validates only with "now": the code needs registers and slows large inputs.
        inside = pairs if gradient == "now" else {"P": 0, "BLOCK": 0}
        warps = min(lanes // 32, _MAX_WALK_WARPS)
        walk = {"P": lanes, "KEEP": gradient != "no", "ENTROPY": entropy, "num_warps": warps}
        launches: list[Any] = [(kernels.score_frames, {**sizes, **flags, **inside})]
        launches += [(walk_in, walk), (walk_out, walk)]
        if gradient == "now":
            last = {"LOGITS": logits, "WEIGHTED": False, "ALIGN": _alignment(x, output)}
            last |= {"SUMMED": self.summed, "MEAN": reduction == "mean"}
            launches.append((kernels.write_gradient, {**sizes, **last}))
        else:
            launches.insert(0, (kernels.validate_targets, pairs))
        super().__init__(launches, workspace)
        self.frame_programs = -(-frames // sizes["ROWS"]) * rows

    def run(
        self, batch: tuple[Any, ...], status: RowStatus | None = None, entropy: float = 0.0
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the loss, (B,) or (), and the tensors for `gradients`. `entropy` is λ.

        If the status of a row is 1, its results are invalid.
        """
        x, targets, *lengths = batch
        x, targets = _contiguous_classes(x), targets.contiguous()
        new, rows = x.new_empty, self.shape[1]
        loss = new(() if self.summed else (rows,), dtype=self.dtype)
        weight = new((1,), dtype=torch.float64).fill_(entropy) if self.entropy else loss
        outputs = [loss, loss, loss, loss]
        saved: tuple[Tensor, ...] = ()
        if self.gradient == "now":
            gradient = torch.empty_like(x)
            outputs, saved = [gradient, loss, loss, loss], (gradient,)
        elif self.gradient == "later":
            states = new(self.states, dtype=self.dtype)
            log_norm = new(self.shape if self.logits else (0, 0), dtype=torch.float64)
            links = new((rows, 2, self.labels + 1), dtype=torch.int32)
            outputs = [loss, states, log_norm, links]
            saved = (x, targets, *lengths, loss, log_norm, states, links)
        self.launch([x, targets, *lengths, loss, weight, *outputs], status)
        return loss, saved

    def arguments(self, tensors: Sequence[Any], workspace: Sequence[Any]) -> list[Call]:
        """Return programs and arguments of each kernel; see LaunchPlan."""
        x, targets, ends, sizes, value, weight, gradient, *outputs = tensors
        scores, powers, entropies, states, log_norm, links, losses, status = workspace
        if self.gradient == "later":
            states, log_norm, links = outputs
        loss = losses if self.summed else value
        (frames, rows), labels, blank = self.shape, self.labels, self.blank
        target = (targets, ends, sizes)
        score = (x, *target, status, links, log_norm, scores, states, *self.strides, frames, rows)
        walk = (scores, *target, states, powers, entropies)
        calls: list[Call] = [
            (self.frame_programs, (*score, labels, blank)),
            (2 * rows, (*walk, frames, labels)),
            (2 * rows, (*walk, loss, weight, frames, labels)),
        ]
        if self.gradient != "now":
            validate = (*target, status, links, frames, labels, self.classes, blank)
            return [(rows, validate), *calls]
        write = (
            x, *target, links, log_norm, states, loss, loss, 1, gradient, value, *self.strides,
            *self.output_strides, frames, rows, labels, blank,
        )  # fmt: skip
        return [*calls, (self.frame_programs, write)]

    def gradients(self, saved: Sequence[Tensor], weight: Tensor) -> tuple[Tensor]:
        """Return the gradient of Σ weight · loss with respect to the input, (T, B, V)."""
        if self.gradient == "now":
            return (saved[0] * (weight.unsqueeze(1) if weight.dim() else weight),)
        return (weighted_gradient(saved, weight, self.blank, self.logits),)


def weighted_gradient(saved: Sequence[Tensor], weight: Tensor, blank: int, logits: bool) -> Tensor:
    """Σ_b weight[b] · ∂ loss[b] / ∂ input, (T, B, V), from the tensors that a plan has saved.

    The plan must have the gradient "later". The result is 0 after the lengths, and in rows whose
    loss is infinite.
    """
    x, targets, ends, sizes, loss, log_norm, states, links = saved
    frames, rows, classes = x.shape
    labels = targets.shape[1]
    gradient = torch.empty_like(x)
    output = _contiguous_classes(gradient)
    with on_device(x):
        tile = _tile_sizes(frames, classes, labels + 1)
        programs = -(-frames // tile["ROWS"]) * rows
        arguments = (
            x, targets, ends, sizes, links, log_norm, states, loss, weight, weight.stride(0),
            output, loss, *x.stride()[:2], *output.stride()[:2], frames, rows, labels, blank,
        )  # fmt: skip
        settings = (frames, classes, labels + 1, logits, _alignment(x, output))
        launch(kernels.write_gradient, programs, arguments, _gradient_constants, *settings)
    return gradient if output is gradient else gradient.copy_(output)


def _gradient_constants(
    frames: int, classes: int, width: int, logits: bool, alignment: int
) -> dict[str, int]:
    """Return the constants of write_gradient for weighted rows."""
    flags = {"LOGITS": logits, "WEIGHTED": True, "SUMMED": False, "MEAN": False}
    return {**_tile_sizes(frames, classes, width), **flags, "ALIGN": alignment}


def _contiguous_classes(x: Tensor) -> Tensor:
    return x if x.stride(2) == 1 else x.contiguous()


def _alignment(*tensors: Tensor) -> int:
    """Return the largest power of two ≤ 16 that divides all strides of frames: a load's width."""
    return gcd(16, *(stride for tensor in tensors for stride in tensor.stride()[:2]))


def _tile_sizes(frames: int, classes: int, width: int) -> dict[str, int]:
    """Return the tile sizes of the kernels that are parallel over frames. `width` is S + 1."""
    columns = min(power_of_two(classes), _TILE)
    rows = min(_TILE // columns, power_of_two(frames), 32)
    labels = min(power_of_two(width), _TILE // rows)
    sizes = {"V": classes, "ROWS": rows, "COLUMNS": columns, "LABELS": labels}
    return {**sizes, "num_warps": _FRAME_WARPS}


def _lanes(width: int) -> int:
    """Return the lanes of a walk: one for each blank and label, at least 32 (one warp)."""
    return max(power_of_two(width), 32)
