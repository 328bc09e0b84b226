"""The arguments of CTC in one form, and what is wrong with them."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.inference.gpu.signature import kinds_of, remembered
from trellis.nn.ctc_ops import kernels, plain
from trellis.nn.steps import check_tensor, integers

__all__ = ["Batch", "Lengths", "check_numbers", "look", "prepare", "raise_if"]

Lengths: TypeAlias = Tensor | Sequence[int] | int

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_fitting: dict[Any, dict[Any, Any]] = {}  # what is prepared for kinds that go together


class Batch(NamedTuple):
    """The arguments in one form."""

    frames: Tensor  # (T, B, V)
    targets: Tensor  # (B, S)
    input_lengths: Tensor
    target_lengths: Tensor
    single: bool
    prepared: dict[Any, Any] | None  # for their kind, if they are what was given

    @property
    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """Targets and lengths."""
        return self.targets, self.input_lengths, self.target_lengths


def prepare(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int,
) -> Batch:
    """Shapes, types and devices are checked here; values where they lie."""
    as_integer(blank, "blank")
    if isinstance(log_probs, Tensor):
        log_probs = log_probs.resolve_neg()  # engines read what lies in memory
    given = (log_probs, targets, input_lengths, target_lengths)
    kinds = kinds_of((type(blank), blank), *given) if plain(log_probs) else None
    prepared = _fitting.get(kinds)
    if prepared is not None:
        return Batch(*given, False, prepared)  # type: ignore[arg-type]
    check_tensor(log_probs, "log_probs")
    check_tensor(targets, "targets")
    if log_probs.dtype not in _FLOATS:
        raise InputError(f"log_probs have type {log_probs.dtype}: must be floating-point numbers")
    if log_probs.dim() not in (2, 3):
        raise InputError(f"log_probs have shape {_shape(log_probs)}: must be (T, B, V) or (T, V)")
    if 0 in log_probs.shape:
        raise InputError(f"the batch is empty: log_probs have shape {_shape(log_probs)}")
    if log_probs.device.type not in ("cpu", "cuda"):
        raise InputError(f"log_probs are on {log_probs.device}: must be on the CPU or on CUDA")
    if targets.device != log_probs.device:
        raise InputError(f"targets are on {targets.device}, log_probs on {log_probs.device}")
    classes = log_probs.shape[-1]
    if not 0 <= blank < classes:
        raise InputError(f"blank is {blank}: must be 0 to {classes - 1}")
    integers(targets, "targets")
    single = log_probs.dim() == 2
    frames = log_probs.unsqueeze(1) if single else log_probs
    rows = frames.shape[1]
    ends = _lengths(input_lengths, "input_lengths", rows)
    sizes = _lengths(target_lengths, "target_lengths", rows)
    padded, sizes = _padded(targets, sizes, rows, frames.shape[0])
    padded, ends, sizes = (_whole(x, frames.device) for x in (padded, ends, sizes))
    found = (frames, padded, ends, sizes)
    if kinds is None or any(x is not own for x, own in zip(found, given, strict=True)):
        return Batch(*found, single, None)
    return Batch(*found, single, remembered(_fitting, kinds, dict))  # as they were given


def _whole(x: Tensor, device: torch.device) -> Tensor:
    """As integers of 64 bits on the device, one after the other."""
    if x.dtype is torch.int64 and x.device == device and x.is_contiguous():
        return x
    return x.to(device, torch.int64, non_blocking=True).contiguous()


def _lengths(lengths: Lengths, name: str, rows: int) -> Tensor:
    found = integers(lengths, name)
    found = found.reshape(1) if found.dim() == 0 else found
    if found.shape != (rows,):
        raise InputError(f"{name} have shape {_shape(found)}: must be ({rows},), one a batch row")
    return found


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def _padded(targets: Tensor, sizes: Tensor, rows: int, frames: int) -> tuple[Tensor, Tensor]:
    """(B, S) of targets that may come one after the other, and their lengths."""
    if targets.dim() == 2:
        if targets.shape[0] != rows:
            raise InputError(f"targets have shape {_shape(targets)}: must have {rows} rows")
        return targets, sizes
    if targets.dim() != 1:
        raise InputError(f"targets have shape {_shape(targets)}: must be (B, S), or all in one row")
    if torch.compiler.is_compiling():
        widest = min(targets.numel(), frames + 1)  # known without a look; more has no path anyway
    else:
        widest = _widest(sizes, targets.numel())
    if not widest:
        return targets.new_empty((rows, 0)), sizes
    sizes = sizes.to(targets.device)
    first = sizes.cumsum(0) - sizes
    place = first[:, None] + torch.arange(widest, device=targets.device)
    return targets[place.clamp(max=targets.numel() - 1)], sizes.clamp(max=widest)


def _widest(sizes: Tensor, total: int) -> int:
    """The longest of targets that are given one after the other."""
    least, most, together = torch.stack([sizes.min(), sizes.max(), sizes.sum()]).tolist()
    if least < 0:
        row = int(sizes.argmin())
        raise InputError(f"target length of batch row {row} is {least}: must not be negative")
    if together != total:
        raise InputError(f"target_lengths sum to {together}, but there are {total} targets")
    return int(most)


def look(x: Batch, blank: int) -> None:
    """Raise for the first mistake in targets on a card. The CPU's engine has a check of its own.

    It is waited for at once: later the card would have run out of work by the time that it is seen.
    """
    if torch.compiler.is_compiling() or not x.frames.is_cuda:
        return
    if torch.cuda.is_current_stream_capturing():
        return
    wrong = kernels().look(*x.rows, x.frames.shape[0], x.frames.shape[2], blank)[0]
    raise_if(wrong.tolist(), x, blank)


def raise_if(marks: list[int], x: Batch, blank: int) -> None:
    """Raise for the first mistake that a look has found."""
    if any(marks):
        raise InputError(_mistake(x, blank, marks.index(1)))


def check_numbers(x: Batch, loss: Tensor) -> None:
    """A NaN makes a path impossible to the native core: looked for where a loss is not finite."""
    for row in (~torch.isfinite(loss.detach())).nonzero().flatten().tolist():
        bad = torch.isnan(x.frames[: int(x.input_lengths[row]), row]).nonzero()
        if len(bad):
            raise InputError(f"log_probs of batch row {row}, frame {int(bad[0, 0])} are nan")


def _mistake(x: Batch, blank: int, row: int) -> str:
    """What is wrong with a row."""
    frames, _, classes = x.frames.shape
    width = x.targets.shape[1]
    n, s = int(x.input_lengths[row]), int(x.target_lengths[row])
    if not 0 <= n <= frames:
        return f"input length of batch row {row} is {n}: must be 0 to {frames}"
    if not 0 <= s <= width:
        return f"target length of batch row {row} is {s}: must be 0 to {width}"
    labels = x.targets[row, :s].tolist()
    bad = (i for i, label in enumerate(labels) if label == blank or not 0 <= label < classes)
    i = next(bad)
    where = f"target of batch row {row}, position {i} is"
    if labels[i] == blank:
        return f"{where} the blank, {blank}"
    return f"{where} {labels[i]}: must be 0 to {classes - 1}"
