"""Validation and conversion of the arguments of the CTC loss."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.nn.steps import as_integers, check_tensor

__all__ = ["Batch", "Lengths", "check_batch", "check_numbers", "check_status"]

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
    classes = frames.shape[-1]
    if not 0 <= as_integer(blank, "blank") < classes:
        raise InputError(f"blank is {blank}: must be 0 to {classes - 1}")
    as_integers(targets, "targets")
    frames = frames.unsqueeze(1) if frames.dim() == 2 else frames
    rows = frames.shape[1]
    ends = _as_lengths(input_lengths, "input_lengths", rows)
    sizes = _as_lengths(target_lengths, "target_lengths", rows)
    padded, sizes = _pad_targets(targets, sizes, rows, frames.shape[0])
    return Batch(frames, *(_as_int64(x, frames.device) for x in (padded, ends, sizes)))


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


def _as_lengths(lengths: Lengths, name: str, rows: int) -> Tensor:
    tensor = as_integers(lengths, name)
    tensor = tensor.reshape(1) if tensor.dim() == 0 else tensor
    if tensor.shape != (rows,):
        raise InputError(
            f"{name} have shape {_shape_of(tensor)}: must be ({rows},), one per batch row"
        )
    return tensor


def _shape_of(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def _pad_targets(targets: Tensor, sizes: Tensor, rows: int, frames: int) -> tuple[Tensor, Tensor]:
    """Return targets (B, S) and their lengths. Concatenated targets are split into rows."""
    if targets.dim() == 2:
        if targets.shape[0] != rows:
            raise InputError(f"targets have shape {_shape_of(targets)}: must have {rows} rows")
        return targets, sizes
    if targets.dim() != 1:
        raise InputError(
            f"targets have shape {_shape_of(targets)}: must be (B, S) or (sum of lengths,)"
        )
    if torch.compiler.is_compiling():
        # A traced program cannot read the lengths. A target with more labels than frames has no
        # path, whatever its other labels are, so its row can be cut here.
        longest = min(targets.numel(), frames + 1)
    else:
        longest = _longest_target(sizes, targets.numel())
    if not longest:
        return targets.new_empty((rows, 0)), sizes
    sizes = sizes.to(targets.device)
    first = sizes.cumsum(0) - sizes
    index = first[:, None] + torch.arange(longest, device=targets.device)
    return targets[index.clamp(max=targets.numel() - 1)], sizes.clamp(max=longest)


def _longest_target(sizes: Tensor, total: int) -> int:
    """Return the largest target length. Raise InputError unless the lengths sum to ``total``."""
    smallest, largest, length_sum = torch.stack([sizes.min(), sizes.max(), sizes.sum()]).tolist()
    if smallest < 0:
        raise InputError(
            f"target length of batch row {{sequence}} is {smallest}: must not be negative",
            sequence=int(sizes.argmin()),
        )
    if length_sum != total:
        raise InputError(f"target_lengths sum to {length_sum}, but there are {total} targets")
    return int(largest)


def check_status(status: list[int], batch: Batch, blank: int) -> None:
    """Raise for the first row that a kernel has marked as invalid."""
    if any(status):
        row = status.index(1)
        raise InputError(_describe_problem(batch, blank, row), sequence=row)


def check_numbers(batch: Batch, loss: Tensor) -> None:
    """Raise if the input has a NaN. The native core treats such paths as impossible.

    So only rows without a finite loss are searched.
    """
    for row in (~torch.isfinite(loss.detach())).nonzero().flatten().tolist():
        bad = torch.isnan(batch.frames[: int(batch.input_lengths[row]), row]).nonzero()
        if len(bad):
            frame = int(bad[0, 0])
            raise InputError(
                f"log_probs of batch row {{sequence}}, frame {frame} are nan: must be numbers",
                sequence=row,
            )


def _describe_problem(batch: Batch, blank: int, row: int) -> str:
    """Return the message for an invalid row; {sequence} stands for its number."""
    frames, _, classes = batch.frames.shape
    width = batch.targets.shape[1]
    n, s = int(batch.input_lengths[row]), int(batch.target_lengths[row])
    if not 0 <= n <= frames:
        return f"input length of batch row {{sequence}} is {n}: must be 0 to {frames}"
    if not 0 <= s <= width:
        return f"target length of batch row {{sequence}} is {s}: must be 0 to {width}"
    labels = batch.targets[row, :s].tolist()
    bad = (i for i, label in enumerate(labels) if label == blank or not 0 <= label < classes)
    i = next(bad)
    where = f"target of batch row {{sequence}}, position {i} is"
    if labels[i] == blank:
        return f"{where} the blank, {blank}"
    return f"{where} {labels[i]}: must be 0 to {classes - 1}"
