"""Emissions that a recogniser might have made of lines of text: peaked, with mistakes in them."""

from __future__ import annotations

import lzma
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

DATA = Path(__file__).parents[2] / "shared" / "data"
LABELS = ["", " ", *"abcdefghijklmnopqrstuvwxyz'"]
_LETTERS = frozenset(LABELS[1:])


class Utterance(NamedTuple):
    """A text, and log-probabilities (frames, labels) of it."""

    text: str
    log_probs: np.ndarray


def lines(count: int, characters: int, skip: int = 100_000) -> list[str]:
    """Beginnings of paragraphs, of whole words and about so many characters; letters only.

    The language models of ../shared/data were made from the first lines of the text.
    """
    found: list[str] = []
    with lzma.open(DATA / "text" / "wiki100.txt.xz", "rt", encoding="utf-8") as file:
        for line in islice(file, skip, None):
            words, text = line.split(), ""
            while words and len(text) < characters:
                text = f"{text} {words.pop(0)}".strip()
            if len(text) >= characters and _LETTERS.issuperset(text):
                found.append(text)
            if len(found) == count:
                return found
    return found


def say(text: str, rng: np.random.Generator, frames: int, wrong: float = 0.12) -> np.ndarray:
    """(frames, labels): a peak of one or two frames for each letter, blanks between.

    In a share ``wrong`` of the peaks another letter, or the blank, is about as probable.
    """
    v = len(LABELS)
    scores = rng.normal(size=(frames, v))
    scores[:, 0] += 7.0
    step = frames / len(text)
    for n, letter in enumerate(text):
        at = int(n * step + rng.uniform(0.1, 0.4) * step)
        until = at + 1 + int(step >= 3 and rng.random() < 0.4)
        scores[at:until, 0] -= 6.0
        scores[at:until, LABELS.index(letter)] += rng.uniform(6.0, 8.0)
        if rng.random() < wrong:
            scores[at:until, rng.integers(0, v)] += rng.uniform(5.0, 9.0)
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def make(count: int, characters: int = 45, frames: int = 200, seed: int = 0) -> list[Utterance]:
    """So many utterances, the same for the same seed."""
    rng = np.random.default_rng(seed)
    return [Utterance(text, say(text, rng, frames)) for text in lines(count, characters)]
