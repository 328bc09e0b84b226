"""CTC on the GPU: the functions of cpu.py for torch tensors, as Triton kernels.

1. `score_frames`, parallel over frames: reads the input once, makes log_norm and gathers the scores
   of the target's labels, so that the walks read rows of S + 1 numbers instead of V.
2. `walk_in`, two programs a batch row: one walks from the left and one from the right, and they
   meet in the middle. All states are kept.
3. `walk_out`: what is left of both walks. Each meets the states that the other has kept and puts
   occupation probabilities in their place. The two need T dependent steps together, not 2 T.
4. `write_gradient`, parallel over frames: reads the input once more, writes the gradient.

All sums are made in a fixed order, so that the same input gives the same bits. The lanes of a walk
are threads; they exchange through shared memory, once a step.
"""

from functools import cache, lru_cache
from math import gcd

import torch
from torch import Tensor

from trellis.inference.ctc import kernels_frames as kernels
from trellis.inference.ctc.kernels_walks import walk_in, walk_out
from trellis.inference.gpu.launch import launch, on_device, power_of_two

__all__ = ["aligned", "backward", "forward", "lanes", "look", "pairs", "tiles"]

_TILE = 1024  # elements that a program works on at once, 8 a thread
_WARPS = 4  # of the kernels that are parallel over frames
_MOST_WARPS = 16  # of a walk, which has a thread a lane up to 512 labels


def forward(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    logits: bool,
    gradient: bool = True,
    entropy: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """-log p(target | input) of each row, minus `entropy` times the entropy of its alignments.

    `input` is (T, B, V) of log-probabilities, or of logits whose softmax is then taken here, in
    float16, bfloat16, float32 or float64 (its numbers in turn float32 or float64); targets (B, S)
    are padded and integers of 64 bits, as the lengths are. Returns loss (B), log_norm
    (T, B) in float64 (or empty), and what `backward` needs (empty without `gradient`). Values
    of labels and lengths are not checked; wrong ones give wrong numbers, and touch nothing.
    """
    frames, rows, _ = input.shape
    width = targets.shape[1] + 1
    number = torch.float64 if input.dtype == torch.float64 else torch.float32
    input = _with_close_classes(input)
    new = input.new_empty
    log_norm = new((frames, rows) if logits else (0, 0), dtype=torch.float64)
    loss = new(rows, dtype=number)
    scores = new((rows, frames, width), dtype=number)
    kept = (rows, frames + 2 if gradient else 2, 2, width)
    states = new(kept, dtype=number)
    powers = new(kept, dtype=torch.int32)
    heats = new(kept, dtype=number) if entropy else states
    weight = loss.new_full((1,), entropy, dtype=torch.float64) if entropy else loss
    args = (targets.contiguous(), input_lengths, target_lengths)
    with on_device(input):
        own = (("LOGITS", logits), ("KEEP", gradient), ("ALIGN", aligned(input)))
        programs, plan = tiles(*input.shape, width, (*own, ("P", 0), ("BLOCK", 0)))
        sizes = (*input.stride()[:2], frames, rows, width - 1, blank)
        unused = (targets, targets)  # it does not look at them
        given = (input, *args, *unused, log_norm, scores, states, *sizes)
        launch(kernels.score_frames, programs, given, plan)
        plan = lanes(width, (("KEEP", gradient), ("ENTROPY", entropy != 0.0)))
        given = (scores, *args, states, powers, heats)
        launch(walk_in, 2 * rows, (*given, frames, width - 1), plan)
        launch(walk_out, 2 * rows, (*given, loss, weight, frames, width - 1), plan)
    return loss, log_norm, states if gradient else new(0, dtype=number)


def backward(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    logits: bool,
    log_norm: Tensor,
    alpha: Tensor,
    loss: Tensor,
    weight: Tensor | None,
) -> Tensor:
    """(T, B, V): weight[b] · d loss[b] / d input, in the type of the input; no weights are ones.

    0 behind the lengths, and in rows whose loss is infinite.
    """
    frames, rows, classes = input.shape
    width = targets.shape[1] + 1
    gradient = torch.empty_like(input)
    input, out = _with_close_classes(input), _with_close_classes(gradient)
    targets = targets.contiguous()
    links = look(targets, input_lengths, target_lengths, frames, classes, blank)[1]
    with on_device(input):
        flags = (("LOGITS", logits), ("WEIGHTED", weight is not None), ("SUMMED", False))
        own = (*flags, ("MEAN", False), ("ALIGN", aligned(input, out)))
        programs, plan = tiles(*input.shape, width, own)
        args = (
            input, targets, input_lengths, target_lengths, links, log_norm, alpha, loss,
            *((loss, 0) if weight is None else (weight, weight.stride(0))),
            out, loss, *input.stride()[:2], *out.stride()[:2], frames, rows, width - 1, blank,
        )  # fmt: skip
        launch(kernels.write_gradient, programs, args, plan)
    return gradient if out is gradient else gradient.copy_(out)


def look(
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    frames: int,
    classes: int,
    blank: int,
) -> tuple[Tensor, Tensor]:
    """What is wrong with the rows, and where their labels occur again.

    (B) integers: 1 where a row has an impossible length or label, or a blank in its target; and
    the links that `backward` follows.
    """
    rows, longest = targets.shape
    targets = targets.contiguous()
    wrong = targets.new_empty(rows, dtype=torch.int32)
    links = targets.new_empty((rows, 2, longest + 1), dtype=torch.int32)
    with on_device(targets):
        args = (targets, input_lengths, target_lengths, wrong, links)
        plan = pairs(longest + 1)
        launch(kernels.look_at_targets, rows, (*args, frames, longest, classes, blank), plan)
    return wrong, links


def _with_close_classes(input: Tensor) -> Tensor:
    return input if input.stride(2) == 1 else input.contiguous()


def aligned(*tensors: Tensor) -> int:
    """A power of two that divides where all frames begin: what the loads may take at once."""
    return gcd(16, *(stride for tensor in tensors for stride in tensor.stride()[:2]))


Constants = tuple[tuple[str, int], ...]


@lru_cache(maxsize=4096)
def tiles(
    frames: int, rows: int, classes: int, width: int, constants: Constants
) -> tuple[int, dict[str, int]]:
    """Programs, and the plan of a kernel that is parallel over frames."""
    columns = min(power_of_two(classes), _TILE)
    tall = min(_TILE // columns, power_of_two(frames), 32)
    labels = min(power_of_two(width), _TILE // tall)
    return -(-frames // tall) * rows, _frames(classes, tall, columns, labels, constants)


@cache
def _frames(
    classes: int, tall: int, columns: int, labels: int, constants: Constants
) -> dict[str, int]:
    sizes = {"V": classes, "ROWS": tall, "COLUMNS": columns, "LABELS": labels}
    return {**sizes, **dict(constants), "num_warps": _WARPS}


@cache
def lanes(width: int, constants: Constants = ()) -> dict[str, int]:
    """The plan of a walk."""
    count = max(power_of_two(width), 32)
    return {"P": count, **dict(constants), "num_warps": min(count // 32, _MOST_WARPS)}


@cache
def pairs(width: int) -> dict[str, int]:
    """The plan of a kernel that compares all labels of a target with each other."""
    count = lanes(width)["P"]
    return {"P": count, "BLOCK": max(1, 4096 // count)}
