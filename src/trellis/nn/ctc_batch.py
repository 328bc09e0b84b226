"""Validation and conversion of the arguments of the CTC loss."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from trellis.checks import MAX_SCORE, as_integer
from trellis.errors import InputError
from trellis.inference.ctc.inputs import are_probabilities
from trellis.nn.steps import as_integers, check_tensor

__all__ = [
    "Batch",
    "Lengths",
    "check_batch",
    "check_numbers",
    "check_status",
    "refuse_probabilities",
]

Lengths: TypeAlias = Tensor | Sequence[int] | int

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Batch(NamedTuple):
    """The arguments of a loss. `check_batch` gives them the types and shapes named here."""

    frames: Any  # (T, B, V) floating point
    targets: Any  # (B, S) int64
    input_lengths: Any  # (B,) int64
    target_lengths: Any  # (B,) int64


def check_batch(batch: Batch, blank: int) -> Batch:
    """Validate shapes, types and devices, and return converted tensors. Engines validate values."""
    frames, targets, input_lengths, target_lengths = batch
    _check_frames(frames, targets)
    n_classes = frames.shape[-1]
    if not 0 <= as_integer(blank, "blank") < n_classes:
        raise InputError(f"blank is {blank}: must be 0 to {n_classes - 1}")
    as_integers(targets, "targets")
    frames = frames.unsqueeze(1) if frames.dim() == 2 else frames
    n_rows = frames.shape[1]
    frame_counts = _as_lengths(input_lengths, "input_lengths", n_rows)
    target_sizes = _as_lengths(target_lengths, "target_lengths", n_rows)
    padded, target_sizes = _pad_targets(targets, target_sizes, n_rows, frames.shape[0])
    return Batch(
        frames,
        *(_as_int64(tensor, frames.device) for tensor in (padded, frame_counts, target_sizes)),
    )


def _check_frames(frames: Any, targets: Any) -> None:
    check_tensor(frames, "log_probs")
    check_tensor(targets, "targets")
    if frames.dtype not in _FLOATS:
        raise InputError(f"log_probs have type {frames.dtype}: must be floating-point numbers")
    if frames.dim() not in (2, 3):
        raise InputError(f"log_probs have shape {_shape_of(frames)}: must be (T, B, V) or (T, V)")
    if 0 in frames.shape:
        raise InputError(f"the batch is empty: log_probs have shape {_shape_of(frames)}")
    if frames.device.type not in ("cpu", "cuda"):
        raise InputError(f"log_probs are on {frames.device}: must be on the CPU or on CUDA")
    if targets.device != frames.device:
        raise InputError(f"targets are on {targets.device}, but log_probs are on {frames.device}")


def _as_int64(x: Tensor, device: torch.device) -> Tensor:
    """Return x as a contiguous int64 tensor on the device."""
    if x.dtype is torch.int64 and x.device == device and x.is_contiguous():
        return x
    return x.to(device, torch.int64, non_blocking=True).contiguous()


def _as_lengths(lengths: Lengths, name: str, n_rows: int) -> Tensor:
    tensor = as_integers(lengths, name)
    tensor = tensor.reshape(1) if tensor.dim() == 0 else tensor
    if tensor.shape != (n_rows,):
        raise InputError(
            f"{name} have shape {_shape_of(tensor)}: must be ({n_rows},), one per batch row"
        )
    return tensor


def _shape_of(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def _pad_targets(
    targets: Tensor, sizes: Tensor, n_rows: int, n_frames: int
) -> tuple[Tensor, Tensor]:
    """Return targets (B, S) and their lengths. Concatenated targets are split into rows."""
    if targets.dim() == 2:
        if targets.shape[0] != n_rows:
            raise InputError(f"targets have shape {_shape_of(targets)}: must have {n_rows} rows")
        return targets, sizes
    if targets.dim() != 1:
        raise InputError(
            f"targets have shape {_shape_of(targets)}: must be (B, S) or (sum of lengths,)"
        )
    if torch.compiler.is_compiling():
        # A traced program cannot read the lengths, so a row gets at most n_frames + 1 labels. A
        # longer target has no path, and with n_frames + 1 labels it has none either.
        max_length = min(targets.numel(), n_frames + 1)
    else:
        max_length = _longest_target(sizes, targets.numel())
    if not max_length:
        return targets.new_empty((n_rows, 0)), sizes
    sizes = sizes.to(targets.device)
    first_index = sizes.cumsum(0) - sizes
    index = first_index[:, None] + torch.arange(max_length, device=targets.device)
    return targets[index.clamp(max=targets.numel() - 1)], sizes.clamp(max=max_length)


def _longest_target(sizes: Tensor, total: int) -> int:
    """Return the largest target length. Raise InputError unless the lengths sum to ``total``."""
    shortest_length, longest_length, length_sum = torch.stack(
        [sizes.min(), sizes.max(), sizes.sum()]
    ).tolist()
    if shortest_length < 0:
        raise InputError(
            f"target length of batch row {{sequence}} is {shortest_length}: must not be negative",
            sequence=int(sizes.argmin()),
        )
    if length_sum != total:
        raise InputError(f"target_lengths sum to {length_sum}, but there are {total} targets")
    return int(longest_length)


def check_status(status: list[int], batch: Batch, blank: int) -> None:
    """Raise for the first row that a kernel has marked as invalid."""
    if any(status):
        row = status.index(1)
        raise InputError(_describe_problem(batch, blank, row), sequence=row)


def refuse_probabilities(batch: Batch) -> None:
    """Raise InputError if the frames are probabilities instead of their logarithms."""
    frames = batch.frames.detach()
    if not are_probabilities(frames[0, 0]):  # usually the only test: it reads one frame
        return
    is_inside = torch.arange(len(frames), device=frames.device)[:, None] < batch.input_lengths
    if are_probabilities(frames[is_inside]):
        raise InputError(
            "log_probs are probabilities, every frame sums to 1: pass their logarithms, "
            "log_probs.log(), or logits.log_softmax(-1)"
        )


def check_numbers(batch: Batch, loss: Tensor) -> None:
    """Raise if the input has NaN or +inf, or finite scores that overflow.

    The native core gives such rows no finite loss. So only rows whose loss is not finite are
    searched.
    """
    for row in (~torch.isfinite(loss.detach())).nonzero().flatten().tolist():
        frames = batch.frames[: int(batch.input_lengths[row]), row].detach()
        invalid = (~(frames < torch.inf)).nonzero().tolist()
        if invalid:
            frame, label = invalid[0]
            raise InputError(
                f"log_probs of batch row {{sequence}}, frame {frame}, class {label} are "
                f"{frames[frame, label].item()}: must be finite or -inf",
                sequence=row,
            )
        finite_values = frames[frames > -torch.inf].double().abs()
        largest = finite_values.max().item() if len(finite_values) else 0.0
        if math.isnan(loss[row].item()) or largest > MAX_SCORE:
            raise InputError(
                f"log_probs of batch row {{sequence}} overflow: the largest absolute value is "
                f"{largest:g}, but finite scores must be within ±{MAX_SCORE:g}",
                sequence=row,
            )


def _describe_problem(batch: Batch, blank: int, row: int) -> str:
    """Return the message for an invalid row; {sequence} stands for its number."""
    n_frames, _, n_classes = batch.frames.shape
    width = batch.targets.shape[1]
    input_length, target_length = int(batch.input_lengths[row]), int(batch.target_lengths[row])
    if not 0 <= input_length <= n_frames:
        return f"input length of batch row {{sequence}} is {input_length}: must be 0 to {n_frames}"
    if not 0 <= target_length <= width:
        return f"target length of batch row {{sequence}} is {target_length}: must be 0 to {width}"
    labels = batch.targets[row, :target_length].tolist()
    invalid_positions = (
        i for i, label in enumerate(labels) if label == blank or not 0 <= label < n_classes
    )
    i = next(invalid_positions)
    place = f"target of batch row {{sequence}}, position {i} is"
    if labels[i] == blank:
        return f"{place} the blank, {blank}"
    return f"{place} {labels[i]}: must be 0 to {n_classes - 1}"
