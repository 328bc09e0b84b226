"""Validation of the arguments that all CTC functions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.checks import as_integer
from trellis.errors import InputError

Array: TypeAlias = NDArray[Any]
Labels: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]


class FrameBatch(NamedTuple):
    """Validated scores of a batch; a single sequence is a batch with one row."""

    scores: Array  # (B, T, V)
    lengths: NDArray[np.int64]  # (B,)
    blank: int
    single: bool  # True if the caller passed (T, V): results then have no batch axis


def prepare(log_probs: Any, blank: Any, lengths: ArrayLike | None) -> FrameBatch:
    """Validate the scores of one sequence or of a padded batch. They must not be NaN or +inf."""
    scores = _validate_scores(log_probs)
    single = scores.ndim == 2
    if single:
        if lengths is not None:
            raise InputError(
                f"lengths must be None for one sequence: log_probs has shape {scores.shape}"
            )
        scores = scores[None]
    row_lengths = _validate_lengths(lengths, scores.shape[0], scores.shape[1])
    _check_finite(scores, row_lengths, single)
    return FrameBatch(scores, row_lengths, as_integer(blank, "blank"), single)


def prepare_targets(targets: Any, batch: FrameBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all targets in one array (B, S), padded with 0, and their lengths (B,)."""
    count = len(batch.lengths)
    if batch.single:
        targets = [targets]
    if not isinstance(targets, list | tuple | np.ndarray) or len(targets) != count:
        size = len(targets) if hasattr(targets, "__len__") else type(targets).__name__
        raise InputError(f"targets must be a list of {count} lists, one per batch row, not {size}")
    name = "target of batch row {sequence}"
    rows = [integers(target, name, b) for b, target in enumerate(targets)]
    for b, row in enumerate(rows):
        if row.ndim != 1:
            raise InputError(f"{name} has shape {row.shape}: must be a list", sequence=b)
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    padded = np.zeros((count, int(lengths.max())), dtype=np.int64)
    for b, row in enumerate(rows):
        padded[b, : len(row)] = row
    return padded, lengths


def integers(value: Any, name: str, sequence: int | None = None) -> NDArray[np.int64]:
    """Convert integers to an int64 array. `sequence` is the index that error messages name."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:  # ragged
        raise InputError(f"{name} is not a list of integers: {error}", sequence=sequence) from None
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {array.dtype}: must be integers", sequence=sequence)
    return array.astype(np.int64)


def _validate_scores(log_probs: Any) -> Array:
    scores = np.asarray(log_probs)
    if scores.dtype not in (np.float32, np.float64):
        raise InputError(f"log_probs has dtype {scores.dtype}: must be float32 or float64")
    if scores.ndim not in (2, 3):
        raise InputError(f"log_probs has shape {scores.shape}: must be (T, V) or (B, T, V)")
    if 0 in scores.shape:
        empty = "the batch" if scores.ndim == 3 and scores.shape[0] == 0 else "batch row 0"
        raise InputError(f"{empty} is empty: log_probs has shape {scores.shape}")
    return scores


def _validate_lengths(lengths: Any, count: int, frames: int) -> NDArray[np.int64]:
    if lengths is None:
        return np.full(count, frames, dtype=np.int64)
    array = integers(lengths, "lengths")
    if array.shape != (count,):
        raise InputError(f"lengths have shape {array.shape}; log_probs has {count} batch rows")
    bad = (array < 1) | (array > frames)
    if bad.any():
        b = int(np.argmax(bad))
        raise InputError(
            f"length of batch row {{sequence}} is {array[b]}: must be 1 to {frames}", sequence=b
        )
    return array


def _check_finite(scores: Array, lengths: NDArray[np.int64], single: bool) -> None:
    # This fast test reads all scores once. If it fails, the bad value may be in the padding, where
    # it is allowed, so the rows are tested one by one.
    if scores.max() < np.inf:
        return
    for b, length in enumerate(lengths):
        bad = ~(scores[b, :length] < np.inf)
        if bad.any():
            t, v = np.argwhere(bad)[0]
            row = "" if single else "batch row {sequence}, "
            raise InputError(
                f"log_probs of {row}frame {t}, label {v} is {scores[b, t, v]}: "
                "must be finite or -inf",
                sequence=b,
            )
