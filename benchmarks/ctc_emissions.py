"""Emissions as a trained speech network gives them, of sentences that are known.

Most frames are blank, a letter takes one to three, and the network is sure of most of what it says:
0.23 nat of entropy a frame on average ("peaky"), or 1.7 ("soft"), as in BASELINES. One letter in
nine has a rival that it may lose to.
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
_WIDTH = {"peaky": (0.8, 7.55), "soft": (1.0, 4.5)}  # spread of the scores, height of what is said


class Utterance(NamedTuple):
    """A sentence and its emissions."""

    text: str
    log_probs: np.ndarray  # (500, 32) float32


def sentences(count: int, seed: int = 0) -> list[str]:
    """Windows of words from the sentences that the language model's answers are recorded for."""
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
    """Scores of a network that has heard a text, as log-probabilities."""
    spread, height = _WIDTH[kind]
    said = np.zeros(FRAMES, dtype=np.int64)
    x = rng.normal(0.0, spread, (FRAMES, len(LABELS)))
    gaps = rng.dirichlet(np.full(len(text) + 1, 2.0))
    room = FRAMES - 3 * len(text) - 2
    begin = 1.0
    for i, letter in enumerate(text):
        begin += room * gaps[i]
        first = int(begin) + 1  # a blank before, so that letters that are repeated are two
        frames = range(first, first + int(rng.integers(1, 3)))
        begin += 3
        label = LABELS.index(letter)
        said[frames.start : frames.stop] = label
        if rng.random() < 1 / 9:  # somewhat alike: the rival wins half of the time
            rival = int(rng.integers(1, 29))
            x[frames.start : frames.stop, rival] += height + rng.normal(0.0, 1.0)
    x[np.arange(FRAMES), said] += height
    x -= np.logaddexp.reduce(x, axis=1, keepdims=True)
    return x.astype(np.float32)


def utterances(count: int, kind: str, seed: int = 0) -> list[Utterance]:
    """Sentences and what a network makes of them."""
    rng = np.random.default_rng(seed + 1)
    return [Utterance(text, emissions(text, kind, rng)) for text in sentences(count, seed)]


def entropy(rows: list[Utterance]) -> float:
    """The mean entropy of a frame."""
    x = np.concatenate([u.log_probs for u in rows])
    return float(-(np.exp(x) * x).sum(axis=1).mean())


def error_rate(texts: list[str], rows: list[Utterance]) -> float:
    """Characters that are wrong, of those that were said: edit distance over length."""
    wrong = sum(distance(text, u.text) for text, u in zip(texts, rows, strict=True))
    return wrong / sum(len(u.text) for u in rows)


def distance(a: str, b: str) -> int:
    """The edit distance of two texts."""
    row = np.arange(len(b) + 1)
    codes = np.array([ord(c) for c in b], dtype=np.int64)
    for i, c in enumerate(a, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (codes != ord(c)))
        new = np.concatenate(([i], best))
        # insertions: the least of all to the left, one more for each step
        row = np.minimum.accumulate(new - np.arange(len(new))) + np.arange(len(new))
    return int(row[-1])
