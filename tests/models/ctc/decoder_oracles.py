"""Expected results of a decoder by enumeration of all paths, and emissions of a known text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby, product

import numpy as np

Words = tuple[str, ...]

LETTERS = ["", "a", "b", " "]  # few enough that all paths of six frames can be listed

# A small model: "a b" and "b ab" are probable, and it knows only the words a, b and ab.
ARPA = """\\data\\
ngram 1=6
ngram 2=6
ngram 3=2

\\1-grams:
-1.75\t<unk>
-99\t<s>\t-0.25
-0.75\t</s>
-0.5\ta\t-0.125
-1.0\tb\t-0.0625
-1.25\tab\t-0.5

\\2-grams:
-0.25\t<s> a\t-0.5
-1.5\t<s> b\t-0.125
-0.125\ta b\t-0.375
-0.5\tb </s>
-0.375\tb ab\t-0.25
-0.0625\tab </s>

\\3-grams:
-0.0625\t<s> a b
-0.5\ta b </s>

\\end\\
"""


def words_of(text: str) -> Words:
    """Return the words of a text. Several spaces have the same meaning as one space."""
    return tuple(text.split())


@lru_cache(maxsize=64)
def _texts(frames: int, labels: tuple[str, ...], blank: int) -> tuple[np.ndarray, list[Words]]:
    paths = list(product(range(len(labels)), repeat=frames))
    spelt = ("".join(labels[v] for v, _ in groupby(path) if v != blank) for path in paths)
    return np.array(paths), [words_of(text) for text in spelt]


def enumerate_texts(
    log_probs: np.ndarray, labels: Sequence[str] = tuple(LETTERS), blank: int = 0
) -> dict[Words, float]:
    """Return log p of each text: the sum over all paths that spell it."""
    paths, texts = _texts(len(log_probs), tuple(labels), blank)
    scores = log_probs[np.arange(len(log_probs)), paths].sum(axis=1)
    log_probs: dict[Words, list[float]] = defaultdict(list)
    for words, score in zip(texts, scores, strict=True):
        log_probs[words].append(score)
    return {words: float(np.logaddexp.reduce(logs)) for words, logs in log_probs.items()}


def fused(
    acoustic: dict[Words, float], bonus: Callable[[Words], float]
) -> list[tuple[Words, float, float]]:
    """Return (words, log p, score) of all texts, best first."""
    rows = [(words, p, p + bonus(words)) for words, p in acoustic.items()]
    return sorted(rows, key=lambda row: -row[2])


def draw_emissions(
    rng: np.random.Generator, shape: tuple[int, ...], scale: float = 1.5
) -> np.ndarray:
    """Return log-softmax of normally distributed scores."""
    x = rng.normal(size=shape) * scale
    return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)


def say(
    spelling: Sequence[str], labels: Sequence[str], sure: float = 0.97, hold: int = 2
) -> np.ndarray:
    """Return emissions of a spelling: for each unit ``hold`` frames, then one blank."""
    blank = list(labels).index("")
    frames = [n for unit in spelling for n in [*[list(labels).index(unit)] * hold, blank]]
    p = np.full((len(frames), len(labels)), (1 - sure) / (len(labels) - 1))
    p[np.arange(len(frames)), frames] = sure
    return np.log(p)


def confuse(log_probs: np.ndarray, rng: np.random.Generator, scale: float) -> np.ndarray:
    """Return the emissions with noise added to the scores."""
    x = log_probs + scale * rng.normal(size=log_probs.shape)
    return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)
