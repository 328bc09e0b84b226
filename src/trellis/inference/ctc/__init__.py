"""Connectionist temporal classification: p(target | input) where nobody knows the alignment.

At each of T frames a network gives the probability of every label and of the blank. A path takes
one of them at each frame; it stands for the target that is left when neighbours that are equal are
merged and blanks then removed. p(target) is the sum over all paths that stand for it.

Both functions take

``log_probs``
    ``(T, V)`` for one sequence, or ``(B, T, V)`` for a padded batch, with ``lengths``. float32 or
    float64. -inf is probability zero. With ``logits=True`` any scores: the softmax is part of the
    work, which is faster than to do it before, and more exact.
``targets``
    the labels without blanks: a list of integers, or for a batch a list of such lists.
``blank``
    the entry of the vocabulary that is the blank.
``n_jobs``
    threads; None is all cores. Results are the same bits for any number.

A target that no path of so many frames stands for is not an error: its loss is +inf. README.md
beside this file explains the recursions. cpu.py has the gradient, and wants frames first.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.inference.ctc import cpu
from trellis.native import as_integer

__all__ = ["loss", "posterior"]

Array: TypeAlias = NDArray[Any]
Labels: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]


def loss(
    log_probs: Array,
    targets: Labels | Sequence[Labels],
    *,
    blank: int = 0,
    lengths: Array | Sequence[int] | None = None,
    logits: bool = False,
    n_jobs: int | None = None,
) -> float | Array:
    """-log p(target | input): one number, or one a row of the batch; +inf if there is no path.

    >>> two_frames = np.log([[0.4, 0.6], [0.5, 0.5]])
    >>> round(loss(two_frames, [1]), 4)  # -log 0.8: all paths but (blank, blank)
    0.2231
    >>> loss(two_frames, [1, 1])  # needs a blank in between, so three frames
    inf
    >>> batch = np.zeros((2, 4, 3))
    >>> np.exp(-loss(batch, [[1, 2], []], lengths=[4, 2], logits=True)).round(4).tolist()
    [0.1852, 0.1111]
    """
    x = _prepare(log_probs, targets, blank, lengths)
    values = cpu.forward(x.frames, *x.rows, logits, n_jobs=n_jobs)[0]
    return float(values[0]) if x.single else values


def posterior(
    log_probs: Array,
    targets: Labels | Sequence[Labels],
    *,
    blank: int = 0,
    lengths: Array | Sequence[int] | None = None,
    logits: bool = False,
    n_jobs: int | None = None,
) -> Array:
    """``[t, v]`` = p(label v at frame t | target): shares of all paths that stand for the target.

    Shaped as ``log_probs``; each frame sums to 1, but is 0 behind the length and where there is no
    path at all. It is minus the gradient of the loss with respect to log-probabilities.

    >>> posterior(np.log([[0.4, 0.6], [0.5, 0.5]]), [1]).round(3).tolist()
    [[0.25, 0.75], [0.375, 0.625]]
    """
    x = _prepare(log_probs, targets, blank, lengths)
    # The shares depend only on differences within a frame: logits will do as they are.
    values, log_norm, kept = cpu.forward(x.frames, *x.rows, False, n_jobs=n_jobs)
    shares = np.empty((x.frames.shape[1], x.frames.shape[0], x.frames.shape[2]), x.frames.dtype)
    cpu.backward(
        x.frames,
        *x.rows,
        False,
        log_norm,
        kept,
        values,
        np.full_like(values, -1.0),
        out=shares.swapaxes(0, 1),
        n_jobs=n_jobs,
    )
    return shares[0] if x.single else shares


class _Batch(NamedTuple):
    """Checked arguments as cpu.py takes them."""

    frames: Array  # (T, B, V)
    rows: tuple[Array, Array, Array, int]  # targets, input lengths, target lengths, blank
    single: bool


def _prepare(
    log_probs: Any, targets: Any, blank: Any, lengths: Array | Sequence[int] | None
) -> _Batch:
    x = _scores(log_probs)
    single = x.ndim == 2
    if single:
        if lengths is not None:
            raise InputError(f"lengths go with a (B, T, V) array; log_probs has shape {x.shape}")
        x, targets = x[None], [targets]
    count, frames = x.shape[:2]
    input_lengths = _lengths(lengths, count, frames)
    padded, target_lengths = _targets(targets, count)
    _check_scores(x, input_lengths)
    rows = (padded, input_lengths, target_lengths, as_integer(blank, "blank"))
    return _Batch(x.swapaxes(0, 1), rows, single)


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
    array = _integers(lengths, "lengths")
    if array.shape != (count,):
        raise InputError(f"lengths have shape {array.shape}; log_probs has {count} batch rows")
    bad = (array < 1) | (array > frames)
    if bad.any():
        b = int(np.argmax(bad))
        raise InputError(f"length of batch row {b} is {array[b]}: must be 1 to {frames}")
    return array


def _targets(targets: Any, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All targets in one array, padded with 0, and their lengths."""
    if not isinstance(targets, list | tuple | np.ndarray) or len(targets) != count:
        given = len(targets) if hasattr(targets, "__len__") else type(targets).__name__
        raise InputError(f"targets must be a list of {count} lists, one a batch row, not {given}")
    rows = [_integers(target, f"target of batch row {b}") for b, target in enumerate(targets)]
    for b, row in enumerate(rows):
        if row.ndim != 1:
            raise InputError(f"target of batch row {b} has shape {row.shape}: must be a list")
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    padded = np.zeros((count, int(lengths.max())), dtype=np.int64)
    for b, row in enumerate(rows):
        padded[b, : len(row)] = row
    return padded, lengths


def _check_scores(x: Array, lengths: NDArray[np.int64]) -> None:
    if x.max() < np.inf:  # false for NaN too; but it may stand behind the end of a row
        return
    for b, length in enumerate(lengths):
        bad = ~(x[b, :length] < np.inf)
        if bad.any():
            t, v = np.argwhere(bad)[0]
            raise InputError(f"log_probs of batch row {b}, frame {t}, label {v} is {x[b, t, v]}")


def _integers(value: Any, name: str) -> NDArray[np.int64]:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:  # ragged
        raise InputError(f"{name} is not a list of integers: {error}") from None
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {array.dtype}: must be integers")
    return array.astype(np.int64)
