"""Generate emissions like those of a trained speech network, for known sentences.

Most frames are blank, and a letter takes one to three frames. The mean entropy of a frame is
0.23 nat ("peaky": the network is almost certain) or 1.7 nat ("soft"). One letter in
nine has a similar letter with about the same score.
"""

from __future__ import annotations

import gzip
import json
from typing import NamedTuple

import numpy as np
from corpora import find

LM = find("models/lm/wiki3g.arpa.gz")
LETTERS = " 'abcdefghijklmnopqrstuvwxyz"
LABELS = ["", *LETTERS, "?", "!", ";"]  # 32 with the blank first
FRAMES = 500
# spread of the scores, height of the correct label
_SHAPES = {"peaky": (0.8, 7.55), "soft": (1.0, 4.5)}


class Utterance(NamedTuple):
    """A sentence and its emissions."""

    text: str
    log_probs: np.ndarray  # (500, 32) float32


def sentences(count: int, seed: int = 0) -> list[str]:
    """Return windows of words from the recorded sentences of the language model."""
    path = LM.with_name("wiki3g.expected.json.gz")
    texts = [row["text"] for row in json.loads(gzip.decompress(path.read_bytes()))]
    plain = [[w for w in text.split() if set(w) <= set(LETTERS)] for text in texts]
    words = [w for text in plain for w in text]
    rng = np.random.default_rng(seed)
    rows = []
    while len(rows) < count:
        at, size = int(rng.integers(len(words) - 40)), int(rng.integers(85, 130))
        window = " ".join(words[at : at + 40])
        rows.append(window[: window.rindex(" ", 0, size)])
    return rows


def emissions(text: str, kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return log-probabilities (frames, labels) like those of a network for a text."""
    spread, height = _SHAPES[kind]
    said = np.zeros(FRAMES, dtype=np.int64)
    x = rng.normal(0.0, spread, (FRAMES, len(LABELS)))
    gaps = rng.dirichlet(np.full(len(text) + 1, 2.0))
    free_frames = FRAMES - 3 * len(text) - 2
    begin = 1.0
    for i, letter in enumerate(text):
        begin += free_frames * gaps[i]
        # a blank before each letter, so that repeated letters are not merged
        first = int(begin) + 1
        frames = range(first, first + int(rng.integers(1, 3)))
        begin += 3
        label = LABELS.index(letter)
        said[frames.start : frames.stop] = label
        if rng.random() < 1 / 9:  # here another letter gets about the same score
            rival = int(rng.integers(1, 29))
            x[frames.start : frames.stop, rival] += height + rng.normal(0.0, 1.0)
    x[np.arange(FRAMES), said] += height
    x -= np.logaddexp.reduce(x, axis=1, keepdims=True)
    return x.astype(np.float32)


def utterances(count: int, kind: str, seed: int = 0) -> list[Utterance]:
    """Return sentences and their emissions."""
    rng = np.random.default_rng(seed + 1)
    return [Utterance(text, emissions(text, kind, rng)) for text in sentences(count, seed)]


def entropy(rows: list[Utterance]) -> float:
    """Return the mean entropy of a frame, in nat."""
    x = np.concatenate([u.log_probs for u in rows])
    return float(-(np.exp(x) * x).sum(axis=1).mean())


def error_rate(texts: list[str], rows: list[Utterance]) -> float:
    """Return the character error rate: edit distance divided by length."""
    wrong = sum(distance(text, u.text) for text, u in zip(texts, rows, strict=True))
    return wrong / sum(len(u.text) for u in rows)


def distance(a: str, b: str) -> int:
    """Return the edit distance of two texts."""
    row = np.arange(len(b) + 1)
    codes = np.array([ord(c) for c in b], dtype=np.int64)
    for i, c in enumerate(a, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (codes != ord(c)))
        new = np.concatenate(([i], best))
        # insertions: the minimum of all cells to the left, plus one for each step
        row = np.minimum.accumulate(new - np.arange(len(new))) + np.arange(len(new))
    return int(row[-1])
