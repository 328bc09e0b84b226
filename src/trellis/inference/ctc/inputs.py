"""What every function of this package takes, checked, as the core reads it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer
from trellis.errors import InputError

Array: TypeAlias = NDArray[Any]
Labels: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]


class Batch(NamedTuple):
    """Sequences in rows: one, or as many as were given."""

    scores: Array  # (B, T, V)
    lengths: NDArray[np.int64]
    blank: int
    single: bool


def prepare(log_probs: Any, blank: Any, lengths: Array | Sequence[int] | None) -> Batch:
    """Scores of one sequence or of a padded batch: dtype, shape, lengths, no NaN, no +inf."""
    x = _scores(log_probs)
    single = x.ndim == 2
    if single:
        if lengths is not None:
            raise InputError(f"lengths go with a (B, T, V) array; log_probs has shape {x.shape}")
        x = x[None]
    known = _lengths(lengths, x.shape[0], x.shape[1])
    _check_scores(x, known, single)
    return Batch(x, known, as_integer(blank, "blank"), single)


def prepare_targets(targets: Any, x: Batch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All targets in one array, padded with 0, and their lengths."""
    count = len(x.lengths)
    if x.single:
        targets = [targets]
    if not isinstance(targets, list | tuple | np.ndarray) or len(targets) != count:
        given = len(targets) if hasattr(targets, "__len__") else type(targets).__name__
        raise InputError(f"targets must be a list of {count} lists, one a batch row, not {given}")
    rows = [integers(target, f"target of batch row {b}") for b, target in enumerate(targets)]
    for b, row in enumerate(rows):
        if row.ndim != 1:
            raise InputError(f"target of batch row {b} has shape {row.shape}: must be a list")
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    padded = np.zeros((count, int(lengths.max())), dtype=np.int64)
    for b, row in enumerate(rows):
        padded[b, : len(row)] = row
    return padded, lengths


def integers(value: Any, name: str) -> NDArray[np.int64]:
    """An array of int64 from anything that holds integers."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:  # ragged
        raise InputError(f"{name} is not a list of integers: {error}") from None
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {array.dtype}: must be integers")
    return array.astype(np.int64)


def _scores(log_probs: Any) -> Array:
    x = np.asarray(log_probs)
    if x.dtype not in (np.float32, np.float64):
        raise InputError(f"log_probs has dtype {x.dtype}: must be float32 or float64")
    if x.ndim not in (2, 3):
        raise InputError(f"log_probs has shape {x.shape}: must be (T, V) or (B, T, V)")
    if 0 in x.shape:
        what = "the batch" if x.ndim == 3 and x.shape[0] == 0 else "batch row 0"
        raise InputError(f"{what} is empty: log_probs has shape {x.shape}")
    return x


def _lengths(lengths: Any, count: int, frames: int) -> NDArray[np.int64]:
    if lengths is None:
        return np.full(count, frames, dtype=np.int64)
    array = integers(lengths, "lengths")
    if array.shape != (count,):
        raise InputError(f"lengths have shape {array.shape}; log_probs has {count} batch rows")
    bad = (array < 1) | (array > frames)
    if bad.any():
        b = int(np.argmax(bad))
        raise InputError(f"length of batch row {b} is {array[b]}: must be 1 to {frames}")
    return array


def _check_scores(x: Array, lengths: NDArray[np.int64], single: bool) -> None:
    if x.max() < np.inf:  # false for NaN too; but it may stand behind the end of a row
        return
    for b, length in enumerate(lengths):
        bad = ~(x[b, :length] < np.inf)
        if bad.any():
            t, v = np.argwhere(bad)[0]
            row = "" if single else f"batch row {b}, "
            raise InputError(f"log_probs of {row}frame {t}, label {v} is {x[b, t, v]}")
