"""Sequences with labels, in memory and as a corpus of shards."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.data import Corpus

__all__ = ["WORDS", "Rows", "make_corpus", "make_data"]

WORDS = ["the", "dog", "Ann", "sings", "New", "York", "of", "3", "x-ray"]
TAGS = ["O", "B-P", "I-P", "B-Q"]


def make_data(seed: int = 0, n: int = 60) -> tuple[list[list[str]], list[list[Any]]]:
    random = np.random.default_rng(seed)
    X = [[str(random.choice(WORDS)) for _ in range(random.integers(1, 9))] for _ in range(n)]
    y: list[list[Any]] = []
    for x in X:
        labels: list[str] = []
        for word in x:
            after_p = bool(labels) and labels[-1] in ("B-P", "I-P")
            choices = [t for t in TAGS if t != "I-P" or after_p]
            common = WORDS.index(word) % len(choices)
            labels.append(choices[common] if random.random() < 0.8 else str(random.choice(choices)))
        y.append(labels)
    return X, y


class Rows:
    """A dataset in memory."""

    def __init__(self, X: list[Any], y: list[Any]) -> None:
        self.X, self.y = X, y

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, part: slice) -> dict[str, list[Any]]:
        return {"tokens": self.X[part], "tags": self.y[part]}


def make_corpus(X: list[Any], y: list[Any], shards: int) -> Corpus:
    return Corpus.dataset(Rows(X, y), shard=-(-len(X) // shards))
