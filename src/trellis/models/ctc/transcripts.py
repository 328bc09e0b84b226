"""The results of a CTC decoder."""

import math
from typing import Any, NamedTuple

__all__ = ["Aligned", "Partial", "Transcript", "Unit", "Word", "joint_confidence", "transcript"]


class Word(NamedTuple):
    """A word and its frames [start, end)."""

    text: str
    start: int
    end: int


class Transcript(NamedTuple):
    """A decoded text and the terms of its score."""

    text: str
    words: list[Word]
    acoustic: float
    """log p(text | frames), summed over the paths in the beam."""
    lm: float
    """The sum of the terms of the language model, of β and of hot words."""
    score: float
    """``acoustic + lm``"""
    state: Any = None
    """State of the language model after the last word. Pass it as ``start`` for the next text."""


class Partial(NamedTuple):
    """The result of a stream for the frames so far."""

    text: str
    """The best text."""
    stable: str
    """The beginning of the text that later frames cannot change."""


class Unit(NamedTuple):
    """A word or a label of an alignment, and its frames [start, end)."""

    text: str
    start: int
    end: int
    confidence: float
    """exp(mean log-probability over its frames)."""


class Aligned(NamedTuple):
    """The times of a known text."""

    words: list[Unit]
    units: list[Unit]
    """The labels that spell the text."""
    score: float
    """Log-probability of the best path."""


def transcript(
    words: list[str],
    starts: list[int],
    ends: list[int],
    acoustic: float,
    bonus: float,
    state: Any,
) -> Transcript:
    """Return the `Transcript` of a hypothesis of the core; without times, ``starts`` is empty."""
    begins = starts if starts else [0] * len(words)
    timed_words = [
        Word(*word) for word in zip(words, begins, ends if ends else begins, strict=True)
    ]
    return Transcript(" ".join(words), timed_words, acoustic, bonus, acoustic + bonus, state)


def joint_confidence(units: list[Unit]) -> float:
    """Return the confidence of several units together: the mean is over all of their frames."""
    frames = [unit.end - unit.start for unit in units]
    logs = [math.log(unit.confidence) if unit.confidence > 0 else -math.inf for unit in units]
    log_sum = sum(
        frame_count * log_confidence
        for frame_count, log_confidence in zip(frames, logs, strict=True)
    )
    return math.exp(log_sum / sum(frames))
