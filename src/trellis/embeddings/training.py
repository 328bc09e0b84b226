"""Epochs over a corpus: slices of it go to the native threads, and progress is told between."""

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
    "Callback",
    "History",
    "Progress",
    "Schedule",
    "check_choice",
    "check_number",
    "seed_of",
    "table",
    "train",
]

_log = logging.getLogger("trellis")

_SLICE = 1 << 20  # words between two reports: large, since threads wait for each other there
_LOSS_EVERY = 64  # steps: in long texts the loss is an estimate from so few that it costs nothing

Table: TypeAlias = NDArray[np.float32]


class Progress(NamedTuple):
    """How far training has come."""

    epoch: int
    """From 0."""
    epochs: int
    fraction: float
    """Of all words of all epochs."""
    words_per_second: float
    """Since training began."""
    loss: float
    """The mean since the last report, for each word that was predicted."""


Callback: TypeAlias = Callable[[Progress], object]


class Schedule(NamedTuple):
    """The learning rate falls linearly with the words seen, from the first to the last."""

    first: float
    last: float
    epochs: int


class History(NamedTuple):
    """What training was like."""

    losses: list[float]
    """The mean of each epoch."""
    words_per_second: float


def train(
    step: Callable[..., tuple[float, float]],
    corpus: "_core.Corpus",
    schedule: Schedule,
    seed: int,
    threads: int,
    callback: Callback | None,
) -> History:
    """Run all epochs; ``step`` is a method of the native trainer."""
    before = corpus.chunk_words()  # words before each chunk, and at the end
    cuts = np.searchsorted(before, np.arange(0, before[-1], _SLICE)).tolist()
    total = float(before[-1]) * schedule.epochs
    every = int(min(max(before[-1] // 10_000, 1), _LOSS_EVERY))
    losses: list[float] = []
    begin = time.perf_counter()
    for epoch in range(schedule.epochs):
        seen = float(before[-1]) * epoch
        loss = terms = 0.0
        for first, last in zip(cuts, [*cuts[1:], len(before) - 1], strict=True):
            if first == last:
                continue
            part = step(
                corpus=corpus,
                first=first,
                last=last,
                first_rate=schedule.first,
                last_rate=schedule.last,
                seen=seen,
                total=total,
                seed=_mixed(seed, epoch),
                loss_every=every,
                threads=threads,
            )
            loss, terms = loss + part[0], terms + part[1]
            if callback is not None:
                done = seen + float(before[last])
                speed = done / max(time.perf_counter() - begin, 1e-9)
                mean = part[0] / part[1] if part[1] else np.nan
                callback(Progress(epoch, schedule.epochs, done / total, speed, mean))
        losses.append(loss / terms if terms else np.nan)
        speed = (seen + float(before[-1])) / max(time.perf_counter() - begin, 1e-9)
        _log.info("epoch %d: loss %.4f, %.0f words/s", epoch + 1, losses[-1], speed)
    return History(losses, total / max(time.perf_counter() - begin, 1e-9))


def table(rows: int, dim: int) -> Table:
    """Memory for rows of a table, padded to cache lines; the first ``dim`` columns count."""
    return _core.embedding_table(rows, dim)


def seed_of(random_state: Any) -> int:
    """A seed from None, an integer or a generator of NumPy."""
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    seed = as_integer(random_state, "random_state")
    if not 0 <= seed < 2**63:
        raise InputError(f"random_state is {seed}: must be in 0..2^63-1")
    return seed


def _mixed(seed: int, epoch: int) -> int:
    """Seeds of epochs that have nothing in common."""
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0])


def check_number(owner: Any, name: str, least: float, most: float = np.inf) -> None:
    """Raise unless an attribute is a number within the bounds; integers if `least` is one."""
    value = getattr(owner, name)
    if isinstance(least, int):
        value = as_integer(value, name)
    elif not isinstance(value, int | float | np.number) or isinstance(value, bool):
        raise InputError(f"{name} must be a number, not {value!r}")
    if not least <= value <= most or value == np.inf:
        bound = f"at least {least}" if most == np.inf else f"in {least}..{most}"
        raise InputError(f"{name} is {value}: must be {bound}")


def check_choice(owner: Any, name: str, choices: Any) -> None:
    """Raise unless an attribute is one of these."""
    if getattr(owner, name) not in tuple(choices):
        raise InputError(
            f"{name} is {getattr(owner, name)!r}: must be one of {', '.join(map(str, choices))}"
        )
