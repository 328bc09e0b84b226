"""Random CTC problems, and the enumeration of all their paths."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, product
from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """One sequence."""

    scores: np.ndarray  # (T, V)
    target: list[int]
    blank: int
    logits: bool

    @property
    def log_probs(self) -> np.ndarray:
        """Return the scores as log-probabilities."""
        if not self.logits:
            return self.scores
        with np.errstate(invalid="ignore"):
            return self.scores - np.logaddexp.reduce(self.scores, axis=1, keepdims=True)


class Batch(NamedTuple):
    """A ragged batch with frames first, as cpu.py takes it."""

    scores: np.ndarray  # (T, B, V)
    targets: np.ndarray  # (B, S)
    input_lengths: np.ndarray
    target_lengths: np.ndarray
    blank: int

    def row(self, b: int, logits: bool) -> Case:
        """Return one row without its padding."""
        target = self.targets[b, : self.target_lengths[b]].tolist()
        return Case(self.scores[: self.input_lengths[b], b], target, self.blank, logits)


def enumerate_paths(case: Case) -> tuple[float, np.ndarray]:
    """Compute -log p(target) and p(label at the frame | target) from all paths of the target."""
    x = case.log_probs
    frames, vocabulary = x.shape
    paths = [
        path
        for path in product(range(vocabulary), repeat=frames)
        if [v for v, _ in groupby(path) if v != case.blank] == case.target
    ]
    occupation = np.zeros(x.shape)
    if not paths:
        return np.inf, occupation
    index = (np.arange(frames), np.array(paths))
    scores = x[index].sum(axis=1)
    log_p = np.logaddexp.reduce(scores)
    if log_p > -np.inf:
        np.add.at(occupation, index, np.exp(scores - log_p)[:, None])
    return -log_p, occupation


def draw_target(rng: np.random.Generator, vocabulary: int, blank: int, length: int) -> np.ndarray:
    """Draw labels other than the blank. Every second target repeats many labels."""
    limit = vocabulary if rng.random() < 0.5 else min(vocabulary, 3)
    return (blank + rng.integers(1, limit, length)) % vocabulary


def generate_cases(seed: int, count: int, scale: float, impossible: float = 0.0) -> Iterator[Case]:
    """Yield cases that are small enough to enumerate all paths."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        frames, vocabulary = int(rng.integers(1, 7)), int(rng.integers(2, 5))
        blank = int(rng.integers(vocabulary))
        scores = rng.normal(size=(frames, vocabulary)) * scale
        scores[rng.random(scores.shape) < impossible] = -np.inf
        target = draw_target(rng, vocabulary, blank, int(rng.integers(0, 5))).tolist()
        yield Case(scores, target, blank, bool(i % 2))


def make_batch(
    seed: int,
    shape: tuple[int, int, int, int],
    dtype: type = np.float64,
    scale: float = 1.0,
    blank: int = 0,
) -> Batch:
    """Return ragged rows of (T, B, V, S). Row 0 has full lengths, row 1 an empty target."""
    frames, rows, vocabulary, labels = shape
    rng = np.random.default_rng(seed)
    input_lengths = rng.integers((frames + 1) // 2, frames + 1, rows)
    target_lengths = rng.integers(0, labels + 1, rows)
    input_lengths[0], target_lengths[0] = frames, labels
    target_lengths[1:2] = 0
    return Batch(
        (rng.normal(size=(frames, rows, vocabulary)) * scale).astype(dtype),
        np.array([draw_target(rng, vocabulary, blank, labels) for _ in range(rows)]),
        input_lengths,
        target_lengths,
        blank,
    )
