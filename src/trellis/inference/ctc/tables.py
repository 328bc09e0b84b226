"""The tables α and β of the CTC recursions, in log space, and the map 𝓑 from paths to targets.

The states of a target y₁ … y_S are the symbols of the extended target – y₁ – y₂ – … y_S –: blanks
at even indices, labels at odd ones, 2S + 1 in all. A path stays in its state or moves to the next
one; it may skip a blank between different labels. The tables are for users who want to see them:
the loss does not use them. They are float64 for any dtype of the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.inference.ctc import cpu
from trellis.inference.ctc.inputs import Array, Labels, core_arguments, integers, prepare

__all__ = ["Backward", "Forward", "backward", "collapse", "forward"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Forward(NamedTuple):
    """The forward table log α of a target, its states and log p(target).

    A batch has a leading axis; beyond the frames and states of a row, α is -inf and a symbol -1.
    """

    alpha: Floats
    """``[t, s]`` = log Σ p of all paths of frames 0 … t that are in state s at t, (T, 2S + 1)."""
    symbols: Integers
    """The symbol of each state, (2S + 1,): blanks and the labels of the target."""
    log_prob: float | Floats
    """log p(target) = log(exp α[T-1, 2S] + exp α[T-1, 2S-1])."""


class Backward(NamedTuple):
    """The backward table log β of a target, its states and log p(target), as in `Forward`."""

    beta: Floats
    """``[t, s]`` = log Σ p of all paths of the frames after t that go on from s, (T, 2S + 1)."""
    symbols: Integers
    """The symbol of each state, (2S + 1,)."""
    log_prob: float | Floats
    """log p(target)."""


def forward(
    log_probs: ArrayLike,
    targets: Labels | Sequence[Labels],
    *,
    blank: int = 0,
    lengths: ArrayLike | None = None,
    logits: bool = False,
) -> Forward:
    """α[t, s] = log pₜ(zₛ) + log Σ exp of α[t-1, s], α[t-1, s-1] and, if z may skip, α[t-1, s-2].

    z is the extended target. A skip leads from one label to a different label.

    >>> alpha, symbols, log_prob = forward(np.log([[0.4, 0.6], [0.5, 0.5]]), [1])
    >>> symbols.tolist(), np.exp(alpha).round(6).tolist()
    ([0, 1, 0], [[0.4, 0.6, 0.0], [0.2, 0.5, 0.3]])
    >>> round(float(np.exp(log_prob)), 6)  # the last two states: 0.5 + 0.3
    0.8
    """
    trellis = _Trellis(log_probs, targets, blank, lengths, logits)
    alpha = trellis.alpha()
    return Forward(*trellis.results(alpha, trellis.log_prob(alpha)))


def backward(
    log_probs: ArrayLike,
    targets: Labels | Sequence[Labels],
    *,
    blank: int = 0,
    lengths: ArrayLike | None = None,
    logits: bool = False,
) -> Backward:
    """β[t, s] = log Σ_s' pₜ₊₁(zₛ') exp β[t+1, s'] over the states s' that may follow s.

    β[T-1] is 0 for the last blank and the last label. At every frame,
    p(target) = Σₛ exp(α[t, s] + β[t, s]).

    >>> beta, symbols, log_prob = backward(np.log([[0.4, 0.6], [0.5, 0.5]]), [1])
    >>> np.exp(beta).round(6).tolist()
    [[0.5, 1.0, 0.5], [0.0, 1.0, 1.0]]
    """
    trellis = _Trellis(log_probs, targets, blank, lengths, logits)
    beta = trellis.beta()
    # Before the first frame, a path is about to enter the first blank or the first label.
    first = (trellis.scores[:, 0] + beta[:, 0])[:, :2]
    return Backward(*trellis.results(beta, np.logaddexp.reduce(first, axis=1)))


class _Trellis:
    """The states of a batch of targets and their scores: N is the largest number of states."""

    def __init__(
        self, log_probs: Any, targets: Any, blank: Any, lengths: Any, logits: bool
    ) -> None:
        batch = prepare(log_probs, blank, lengths)
        arguments = core_arguments(batch, targets)
        cpu.forward(*arguments, False)  # the core validates the targets
        _, padded, frame_counts, target_lengths, blank = arguments
        self.lengths: Integers = frame_counts
        self.single = batch.single
        self.last: Integers = 2 * target_lengths  # (B,): the last state of each row
        states = np.arange(2 * padded.shape[1] + 1)
        symbols = np.full((len(padded), len(states)), blank)
        symbols[:, 1::2] = padded
        self.inside: NDArray[np.bool_] = states <= self.last[:, None]
        self.skips = np.zeros(symbols.shape, dtype=np.bool_)
        self.skips[:, 3::2] = symbols[:, 3::2] != symbols[:, 1:-2:2]
        is_frame = np.arange(batch.scores.shape[1]) < self.lengths[:, None]
        # The padding may have any values, NaN too.
        frames = np.where(is_frame[:, :, None], batch.scores, 0.0).astype(np.float64)
        if logits:
            norm = np.logaddexp.reduce(frames, axis=2, keepdims=True)
            frames -= np.where(np.isneginf(norm), 0.0, norm)  # -inf - (-inf) would be NaN
        # (B, T, N): the score of each state at each frame
        self.scores: Floats = np.take_along_axis(frames, symbols[:, None, :], axis=2)
        self.scores[~np.broadcast_to(self.inside[:, None], self.scores.shape)] = -np.inf
        self.symbols = np.where(self.inside, symbols, -1)

    def alpha(self) -> Floats:
        table: Floats = np.full_like(self.scores, -np.inf)
        table[:, 0, :2] = self.scores[:, 0, :2]
        for t in range(1, table.shape[1]):
            before = table[:, t - 1]
            total = np.logaddexp(before, _shift(before, 1))
            skipped = np.where(self.skips, _shift(before, 2), -np.inf)
            is_frame = (t < self.lengths)[:, None]
            here = np.logaddexp(total, skipped) + self.scores[:, t]
            table[:, t] = np.where(is_frame, here, -np.inf)
        return table

    def beta(self) -> Floats:
        table: Floats = np.full_like(self.scores, -np.inf)
        states = np.arange(table.shape[2])
        is_end = (states >= self.last[:, None] - 1) & self.inside
        ends = np.where(is_end, 0.0, -np.inf)
        for t in range(table.shape[1] - 1, -1, -1):
            here = np.full(ends.shape, -np.inf)
            if t + 1 < table.shape[1]:
                after = self.scores[:, t + 1] + table[:, t + 1]
                skipped = _shift(np.where(self.skips, after, -np.inf), -2)
                here = np.logaddexp(np.logaddexp(after, _shift(after, -1)), skipped)
            is_last = (self.lengths == t + 1)[:, None]
            here = np.where(is_last, ends, here)
            table[:, t] = np.where((t < self.lengths)[:, None] & self.inside, here, -np.inf)
        return table

    def log_prob(self, alpha: Floats) -> Floats:
        """log p(target) of each row, (B,): the paths that end in the last blank or label."""
        rows = np.arange(len(alpha))
        final = alpha[rows, self.lengths - 1]
        label = np.where(self.last > 0, final[rows, self.last - 1], -np.inf)
        total: Floats = np.logaddexp(final[rows, self.last], label)
        return total

    def results(self, table: Floats, log_prob: Floats) -> tuple[Floats, Integers, Any]:
        if self.single:
            return table[0], self.symbols[0], float(log_prob[0])
        return table, self.symbols, log_prob


def _shift(rows: Floats, by: int) -> Floats:
    """Return ``rows[:, s - by]`` for each s, with -inf outside of the row."""
    shifted = np.full_like(rows, -np.inf)
    if by > 0:
        shifted[:, by:] = rows[:, :-by]
    else:
        shifted[:, :by] = rows[:, -by:]
    return shifted


def collapse(
    path: Labels | Sequence[Labels], *, blank: int = 0, lengths: ArrayLike | None = None
) -> list[int] | list[list[int]]:
    """𝓑(path): merge equal neighbours, then remove blanks.

    ``path`` has a label or the blank at each frame, (T,). The result is a target. Several paths, a
    list or an array (B, T) with ``lengths``, give a list of targets.

    >>> collapse([1, 1, 0, 1, 2])  # 𝓑(a a – a b) = a a b
    [1, 1, 2]
    >>> collapse([[0, 3, 3], [2, 0, 2]])
    [[3], [2, 2]]
    """
    blank = as_integer(blank, "blank")
    first: Any = path[0] if isinstance(path, list | tuple | np.ndarray) and len(path) else None
    if np.ndim(first) == 0:
        if lengths is not None:
            raise InputError("lengths must be None for one path")
        return _collapse(integers(path, "path"), blank, None)
    rows = [integers(row, "path {sequence}", i) for i, row in enumerate(path)]
    if lengths is not None:
        row_lengths = integers(lengths, "lengths")
        if row_lengths.shape != (len(rows),):
            raise InputError(f"lengths have shape {row_lengths.shape}; there are {len(rows)} paths")
        for i, (row, length) in enumerate(zip(rows, row_lengths.tolist(), strict=True)):
            if not 0 <= length <= len(row):
                raise InputError(
                    f"length of path {{sequence}} is {length}: must be 0 to {len(row)}", sequence=i
                )
            rows[i] = row[:length]
    return [_collapse(row, blank, i) for i, row in enumerate(rows)]


def _collapse(path: Array, blank: int, sequence: int | None) -> list[int]:
    name = "path" if sequence is None else "path {sequence}"
    if path.ndim != 1:
        raise InputError(f"{name} has shape {path.shape}: must be (T,)", sequence=sequence)
    if path.size and path.min() < 0:
        t = int(np.argmax(path < 0))
        raise InputError(
            f"{name}, frame {t} is {path[t]}: a label must be at least 0", sequence=sequence
        )
    is_new = np.ones(len(path), dtype=np.bool_)
    is_new[1:] = path[1:] != path[:-1]
    symbols: list[int] = path[is_new & (path != blank)].tolist()
    return symbols
