"""Oracles of decoding: enumeration and a simple search. They do not import trellis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby, product

import numpy as np

Labelling = tuple[int, ...]


def collapse(path: tuple[int, ...] | list[int], blank: int) -> Labelling:
    """Merge equal neighbours, then remove blanks."""
    return tuple(v for v, _ in groupby(path) if v != blank)


@lru_cache(maxsize=256)
def _paths(frames: int, vocabulary: int, blank: int) -> tuple[np.ndarray, list[Labelling]]:
    paths = list(product(range(vocabulary), repeat=frames))
    return np.array(paths), [collapse(path, blank) for path in paths]


def enumerate_labellings(log_probs: np.ndarray, blank: int) -> dict[Labelling, float]:
    """Compute log p of every labelling that has a path: the sum over all its paths."""
    frames, vocabulary = log_probs.shape
    paths, labellings = _paths(frames, vocabulary, blank)
    scores = log_probs[np.arange(frames), paths].sum(axis=1)
    path_scores: dict[Labelling, list[float]] = defaultdict(list)
    for labelling, score in zip(labellings, scores, strict=True):
        path_scores[labelling].append(score)
    return {labelling: np.logaddexp.reduce(terms) for labelling, terms in path_scores.items()}


def enumerate_alignments(
    log_probs: np.ndarray, target: Labelling, blank: int
) -> tuple[float, list[Labelling]]:
    """Return the score of the best path of a target, and all paths with that score."""
    frames, vocabulary = log_probs.shape
    paths, labellings = _paths(frames, vocabulary, blank)
    matching = paths[[labelling == target for labelling in labellings]]
    if not len(matching):
        return -np.inf, []
    scores = log_probs[np.arange(frames), matching].sum(axis=1)
    best = scores.max()
    if best == -np.inf:
        return best, []
    close = scores >= best - 1e-12 * max(1.0, abs(best))
    return float(best), [tuple(path) for path in matching[close].tolist()]


def prefix_search(
    log_probs: np.ndarray,
    blank: int,
    beam_width: int,
    min_log_prob: float = -np.inf,
) -> list[tuple[Labelling, float]]:
    """Run beam search with probabilities. A dictionary maps each prefix to its two masses."""
    beam: dict[Labelling, tuple[float, float]] = {
        (): (1.0, 0.0)
    }  # mass that ends in a blank, and mass that ends in a label
    for row in log_probs:
        grown: dict[Labelling, list[float]] = defaultdict(lambda: [0.0, 0.0])
        best = int(row.argmax())
        tried = [
            (v, float(np.exp(row[v])))
            for v in range(len(row))
            if row[v] >= min_log_prob or v == best
        ]
        for prefix, (with_blank, without) in beam.items():
            for v, p in tried:
                if v == blank:
                    grown[prefix][0] += p * (with_blank + without)
                elif prefix and prefix[-1] == v:
                    grown[prefix][1] += p * without
                    grown[(*prefix, v)][1] += p * with_blank
                else:
                    grown[(*prefix, v)][1] += p * (with_blank + without)
        ranked = sorted(grown.items(), key=lambda item: -sum(item[1]))
        beam = {prefix: (a, b) for prefix, (a, b) in ranked[:beam_width] if a + b > 0}
    with np.errstate(divide="ignore"):
        return [(prefix, float(np.log(sum(terms)))) for prefix, terms in beam.items()]


def generate_emissions(
    seed: int, count: int, *, frames: int = 6, vocabulary: int = 4, scale: float = 1.0
) -> Iterator[tuple[np.ndarray, int]]:
    """Yield normalised log-probabilities (T, V) and the index of the blank."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        shape = int(rng.integers(1, frames + 1)), int(rng.integers(2, vocabulary + 1))
        yield draw_emissions(rng, shape, scale), int(rng.integers(shape[1]))


def draw_emissions(
    rng: np.random.Generator, shape: tuple[int, ...], scale: float = 1.0
) -> np.ndarray:
    """Return the log-softmax of normal scores."""
    x = rng.normal(size=shape) * scale
    return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)
