"""Validation of the arguments that all CTC functions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.checks import MAX_SCORE, as_integer, is_not_a_score
from trellis.errors import InputError

Array: TypeAlias = NDArray[Any]
Labels: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]

_SUM_TOLERANCE = 1e-3  # probabilities in half precision sum to 1 within this


class FrameBatch(NamedTuple):
    """Validated scores of a batch; a single sequence is a batch with one row."""

    scores: Array  # (B, T, V)
    lengths: NDArray[np.int64]  # (B,)
    blank: int
    single: bool  # True if the caller passed (T, V): results then have no batch axis


def prepare(log_probs: Any, blank: Any, lengths: ArrayLike | None) -> FrameBatch:
    """Validate the scores of one sequence or of a padded batch. They must not be NaN or +inf."""
    scores = _validate_scores(log_probs)
    is_single = scores.ndim == 2
    if is_single:
        if lengths is not None:
            raise InputError(
                f"lengths must be None for one sequence: log_probs has shape {scores.shape}"
            )
        scores = scores[None]
    row_lengths = _validate_lengths(lengths, scores.shape[0], scores.shape[1])
    _check_finite(scores, row_lengths, is_single)
    refuse_probabilities(scores, "log_probs", row_lengths)
    return FrameBatch(scores, row_lengths, as_integer(blank, "blank"), is_single)


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
    padded_rows = np.zeros((count, int(lengths.max())), dtype=np.int64)
    for b, row in enumerate(rows):
        padded_rows[b, : len(row)] = row
    return padded_rows, lengths


def core_arguments(batch: FrameBatch, targets: Any) -> tuple[Array, Array, Array, Array, int]:
    """Return the validated arguments in the order of cpu.py, with the frames first."""
    padded, target_lengths = prepare_targets(targets, batch)
    return batch.scores.swapaxes(0, 1), padded, batch.lengths, target_lengths, batch.blank


def integers(value: Any, name: str, sequence: int | None = None) -> NDArray[np.int64]:
    """Convert integers to an int64 array. `sequence` is the index that error messages name."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:  # ragged
        raise InputError(f"{name} is not a list of integers: {error}", sequence=sequence) from None
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {array.dtype}: must be integers", sequence=sequence)
    return array.astype(np.int64)


def refuse_probabilities(scores: Array, name: str, lengths: Array | None = None) -> None:
    """Raise InputError if scores (…, V) are probabilities instead of their logarithms.

    Only probabilities are at least 0 and sum to 1: a log-probability is at most 0. With
    ``lengths``, frames of the batch (B, T, V) beyond the length of their row do not count.

    >>> refuse_probabilities(np.array([[0.6, 0.4]]), "log_probs")
    ... # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: log_probs are probabilities, every frame sums to 1: pass their
    logarithms, np.log(log_probs)
    """
    first = scores.reshape(-1, scores.shape[-1])[0]
    if not are_probabilities(first):  # usually the only test: it reads one frame
        return
    if lengths is not None:
        scores = scores[np.arange(scores.shape[1]) < lengths[:, None]]
    if are_probabilities(scores):
        raise InputError(
            f"{name} are probabilities, every frame sums to 1: pass their logarithms, "
            f"np.log({name})"
        )


def are_probabilities(scores: Any) -> bool:
    """Return True if scores (…, V), an array or a tensor, are at least 0 and sum to 1."""
    if not len(scores):
        return False
    return bool((scores >= 0).all() and (abs(scores.sum(-1) - 1) < _SUM_TOLERANCE).all())


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


def _validate_lengths(lengths: Any, n_rows: int, n_frames: int) -> NDArray[np.int64]:
    if lengths is None:
        return np.full(n_rows, n_frames, dtype=np.int64)
    array = integers(lengths, "lengths")
    if array.shape != (n_rows,):
        raise InputError(f"lengths have shape {array.shape}; log_probs has {n_rows} batch rows")
    invalid = (array < 1) | (array > n_frames)
    if invalid.any():
        b = int(np.argmax(invalid))
        raise InputError(
            f"length of batch row {{sequence}} is {array[b]}: must be 1 to {n_frames}", sequence=b
        )
    return array


def _check_finite(scores: Array, lengths: NDArray[np.int64], single: bool) -> None:
    # This fast test reads all scores once. If it fails, the bad value may be in the padding, where
    # it is allowed, so the rows are tested one by one.
    if scores.dtype == np.float32:  # all finite values are within MAX_SCORE
        is_valid = scores.max() < np.inf
    else:
        is_valid = scores.max() <= MAX_SCORE and scores.min() >= -MAX_SCORE
    if is_valid:
        return
    for b, length in enumerate(lengths):
        invalid = is_not_a_score(scores[b, :length])
        if invalid.any():
            t, v = np.argwhere(invalid)[0]
            value = scores[b, t, v]
            row = "" if single else "batch row {sequence}, "
            rule = f"overflows: finite scores must be within ±{MAX_SCORE:g}"
            rule = rule if np.isfinite(value) else "must be finite or -inf"
            raise InputError(
                f"log_probs of {row}frame {t}, label {v} is {value}: {rule}", sequence=b
            )
