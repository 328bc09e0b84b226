"""Runs the epochs of training: the core trains on one slice of the corpus after the other."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import as_integer
from trellis.errors import InputError

__all__ = [
    "FILE_LOSSES",
    "LOSSES",
    "Callback",
    "History",
    "Progress",
    "Schedule",
    "loss_arguments",
    "seed_of",
    "table",
    "train",
]

_log = logging.getLogger("trellis")

_SLICE = 1 << 20  # words per slice; large, because all threads wait at the end of a slice
_LOSS_EVERY = 64  # in long texts the loss is estimated from every 64th step to save time

Table: TypeAlias = NDArray[np.float32]

LOSSES = {"negative": 0, "hierarchical": 1, "softmax": 2, "ova": 3}
"""The losses, with their numbers in the native trainer."""
FILE_LOSSES = {"negative": "ns", "hierarchical": "hs", "softmax": "softmax", "ova": "ova"}
"""The names of the losses in fastText's files."""


class Progress(NamedTuple):
    """State of the training after a slice; the argument of a callback."""

    epoch: int
    """Number of the current epoch, from 0."""
    epochs: int
    """Number of epochs in total."""
    fraction: float
    """Fraction of the work that is done: words seen / words of all epochs."""
    words_per_second: float
    """Mean speed since training started."""
    loss: float
    """Mean loss per predicted word in the last slice."""


Callback: TypeAlias = Callable[[Progress], object]


class Schedule(NamedTuple):
    """Learning rate. It falls linearly from ``first`` to ``last`` with the number of words seen."""

    first: float
    last: float
    epochs: int


class History(NamedTuple):
    """Losses and speed of a finished training."""

    losses: list[float]
    """Mean loss of each epoch."""
    words_per_second: float
    terms: list[float]
    """Number of predictions in the loss of each epoch; without any, the loss is NaN."""


def train(
    step: Callable[..., tuple[float, float]],
    corpus: _core.Corpus,
    schedule: Schedule,
    seed: int,
    threads: int,
    callback: Callback | None,
) -> History:
    """Run all epochs. ``step`` is a method of the native trainer.

    ``step`` trains on one slice; it returns the sum of the losses, and the number of terms in it.
    """
    words_before = corpus.chunk_words()  # (chunks + 1,): words before each chunk, then all words
    corpus_words = float(words_before[-1])
    slices = _slices(words_before)
    total_words = corpus_words * schedule.epochs
    options = {
        "corpus": corpus,
        "first_rate": schedule.first,
        "last_rate": schedule.last,
        "total": total_words,
        "loss_every": int(min(max(words_before[-1] // 10_000, 1), _LOSS_EVERY)),
        "threads": threads,
    }
    losses: list[float] = []
    terms: list[float] = []
    clock = _Clock()
    for epoch in range(schedule.epochs):
        words_seen = corpus_words * epoch
        epoch_seed = _epoch_seed(seed, epoch)
        loss = n_terms = 0.0
        for first, last in slices:
            sums = step(first=first, last=last, seen=words_seen, seed=epoch_seed, **options)
            loss, n_terms = loss + sums[0], n_terms + sums[1]
            if callback is not None:
                words_done = words_seen + float(words_before[last])
                mean_loss = sums[0] / sums[1] if sums[1] else np.nan
                speed = clock.words_per_second(words_done)
                callback(
                    Progress(epoch, schedule.epochs, words_done / total_words, speed, mean_loss)
                )
        losses.append(loss / n_terms if n_terms else np.nan)
        terms.append(n_terms)
        speed = clock.words_per_second(words_seen + corpus_words)
        _log.info("epoch %d: loss %.4f, %.0f words/s", epoch + 1, losses[-1], speed)
    return History(losses, clock.words_per_second(total_words), terms)


def _slices(words_before: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the first chunk and the end (exclusive) of each slice of about `_SLICE` words."""
    first_chunks = np.searchsorted(words_before, np.arange(0, words_before[-1], _SLICE)).tolist()
    pairs = zip(first_chunks, [*first_chunks[1:], len(words_before) - 1], strict=True)
    # A chunk can be longer than a slice. Then two slices begin at the same chunk, and the first of
    # them is empty and omitted.
    return [(first, last) for first, last in pairs if first < last]


class _Clock:
    """Measures the speed since it was created."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def words_per_second(self, words: float) -> float:
        return words / max(time.perf_counter() - self._start, 1e-9)


def loss_arguments(
    loss: str, counts: NDArray[np.int64], exponent: float, negatives: int
) -> dict[str, Any]:
    """Return the arguments of the native trainer that depend on the loss.

    ``counts`` are the counts of the predicted words or labels. Negative sampling draws them with
    probability proportional to counts^exponent. Hierarchical softmax needs the path of each output
    in a Huffman tree.
    """
    noise = None
    path: tuple[Any, ...] = (None, None, None)
    if loss == "negative":
        # With the alias method, a draw takes constant time for any size of the vocabulary.
        noise = _core.alias_cells(counts.astype(np.float64) ** exponent)
    if loss == "hierarchical":
        path = _core.huffman(counts)
    return {
        "loss": LOSSES[loss],
        "negatives": negatives if loss == "negative" else 0,
        "noise": noise,
        "path_begin": path[0],
        "path_node": path[1],
        "path_right": path[2],
    }


def table(n_rows: int, dim: int) -> Table:
    """Return an uninitialised table (rows, dim rounded up to a cache line), aligned for SIMD."""
    return _core.embedding_table(n_rows, dim)


def seed_of(random_state: Any) -> int:
    """Return the seed for a ``random_state``: None, an integer or a random generator of NumPy."""
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))  # its default integers have 32 bits on Windows
    seed = as_integer(random_state, "random_state")
    if not 0 <= seed < 2**63:
        raise InputError(f"random_state is {seed}: must be in 0..2^63-1")
    return seed


def _epoch_seed(seed: int, epoch: int) -> int:
    """Return the seed of one epoch; seeds of different epochs are independent."""
    # With seed + epoch, models with the seeds 0 and 1 would use the same seeds for most epochs.
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0])
