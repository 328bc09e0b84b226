"""CTC on the GPU: losses and gradients of torch tensors, as Triton kernels.

1. `score_frames`, parallel over frames, reads the input once. It computes log_norm and gathers the
   scores of the target's labels, so that the walks read rows of S + 1 numbers instead of V.
2. `walk_in` has two programs per batch row. One validates the row and goes from the left, one goes
   from the right, and they meet in the middle. All states are stored.
3. `walk_out`: each walk continues over the states that the other has stored, and replaces them by
   occupation probabilities. Together they need T dependent steps, not 2 T.
4. `write_gradient`, parallel over frames, reads the input again and writes the gradient.

All sums have a fixed order, so that the same input gives the same bits. The head of
kernels_frames.py explains the arguments of all kernels.
"""

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

import torch
from torch import Tensor

from trellis.inference.ctc import kernels_frames as kernels
from trellis.inference.ctc.kernels_walks import walk_in, walk_out
from trellis.inference.gpu.launch import (
    LaunchPlan,
    compute_dtype,
    find_plan,
    launch,
    options_of_walk,
    power_of_two,
)
from trellis.inference.gpu.status import RowStatus

__all__ = ["CTCPlan", "find_plan", "weighted_gradient"]

_TILE = 1024  # elements per program: 8 per thread
_FRAME_WARPS = 4  # warps of the kernels that are parallel over frames
_MAX_WALK_WARPS = 16  # warps of a walk: 512 threads, one for each of up to 512 lanes

# Names of tensors for the kernels; the head of kernels_frames.py explains them.
_BATCH = ("x", "targets", "input_lengths", "target_lengths")
_INPUTS = (*_BATCH, "entropy_weight", "weight", "total", "gradient")
_SAVED = (*_BATCH, "loss", "log_norm", "states", "links")


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

    def __init__(
        self,
        batch: tuple[Tensor, ...],
        blank: int,
        logits: bool,
        entropy: bool,
        gradient: str = "later",
        reduction: str = "none",
    ) -> None:
        x = _contiguous_classes(batch[0])
        self.blank, self.logits, self.entropy = blank, logits, entropy
        self.gradient, is_summed, dtype = gradient, reduction != "none", compute_dtype(x)
        (frames, rows, _), labels = x.shape, batch[1].shape[1]
        integers, constants, programs = _sizes(x, torch.empty_like(x), labels, logits)
        lanes = constants["P"]
        walk = options_of_walk(min(lanes // 32, _MAX_WALK_WARPS))
        frame = {"num_warps": _FRAME_WARPS}
        flags = {"WEIGHTED": False, "SUMMED": is_summed, "MEAN": reduction == "mean"}
        flags |= {"KEEP": gradient != "no", "ENTROPY": entropy}
        launches: list[Any] = [(kernels.score_frames, programs, frame)]
        launches += [(walk_in, 2 * rows, walk), (walk_out, 2 * rows, walk)]
        if gradient == "now":
            launches.append((kernels.write_gradient, programs, frame))
        states = (rows, 2 if gradient == "no" else frames + 2, 2, labels + 1)
        saved = {
            "log_norm": ((frames, rows) if logits else (0, 0), torch.float64),
            "states": (states, dtype),
            "links": ((rows, 2, labels + 1), torch.int32),
        }
        arrays = {
            **saved,
            "loss": ((rows,), dtype),
            "scores": ((rows, frames, labels + 1), dtype),
            "powers": (states, torch.int32),
            "entropies": (states if entropy else (1,), dtype),
            "status": ((rows,), torch.int32),
        }
        super().__init__(
            launches,
            _INPUTS,
            {
                **({"total": ((), dtype)} if is_summed else {"loss": ((rows,), dtype)}),
                **(saved if gradient == "later" else {}),
            },
            {name: (max(prod(shape), 1), dtype) for name, (shape, dtype) in arrays.items()},
            {**integers, "blank": blank, "weight_b": 1},
            {**constants, **flags},
        )

    def run(
        self, batch: tuple[Any, ...], status: RowStatus | None = None, entropy: float = 0.0
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the loss, (B,) or (), and the tensors for `gradients`. `entropy` is λ.

        If the status of a row is 1, its results are invalid.
        """
        x, targets, *lengths = batch
        x = _contiguous_classes(x)
        inputs = (x, targets.contiguous(), *lengths)
        weight = x.new_full((1,), entropy, dtype=torch.float64) if self.entropy else None
        gradient = torch.empty_like(x) if self.gradient == "now" else None
        outputs, _ = self.launch((*inputs, weight, None, None, gradient), status)
        saved = {"now": (gradient,), "later": (*inputs, *outputs), "no": ()}[self.gradient]
        return outputs[0], saved

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
    x, gradient = _contiguous_classes(saved[0]), torch.empty_like(saved[0])
    output = _contiguous_classes(gradient)
    integers, constants, programs = _sizes(x, output, saved[1].shape[1], logits)
    tensors = (x, *saved[1:], weight, saved[4], output)
    names = (*_SAVED, "weight", "total", "gradient")
    launch(
        kernels.write_gradient,
        programs,
        _FRAME_WARPS,
        dict(zip(names, tensors, strict=True)),
        {**integers, "blank": blank, "weight_b": weight.stride(0)},
        {**constants, "WEIGHTED": True, "SUMMED": False, "MEAN": False},
    )
    return gradient if output is gradient else gradient.copy_(output)


def _contiguous_classes(x: Tensor) -> Tensor:
    return x if x.stride(2) == 1 else x.contiguous()


def _sizes(
    x: Tensor, output: Tensor, labels: int, logits: bool
) -> tuple[dict[str, int], dict[str, int], int]:
    """Return integers, constants and the number of programs of kernels parallel over frames."""
    (frames, rows, classes), width = x.shape, labels + 1
    columns = min(power_of_two(classes), _TILE)
    height = min(_TILE // columns, power_of_two(frames), 32)
    strides = (*x.stride()[:2], *output.stride()[:2])
    lanes = max(power_of_two(width), 32)
    names = ("stride_t", "stride_b", "gradient_t", "gradient_b")
    integers = {"T": frames, "B": rows, "S": labels, **dict(zip(names, strides, strict=True))}
    constants = {
        "V": classes,
        "ROWS": height,
        "COLUMNS": columns,
        "LABELS": min(power_of_two(width), _TILE // height),
        "LOGITS": logits,
        # The largest power of two ≤ 16 that divides all strides of frames: so many elements can be
        # loaded at once.
        "ALIGN": gcd(16, *strides),
        "P": lanes,
        "BLOCK": min(16, max(1, 8192 // lanes)),
    }
    return integers, constants, -(-frames // height) * rows
