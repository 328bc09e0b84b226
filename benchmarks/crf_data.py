"""Sentences, features and settings for both sides of the CRF benchmarks.

This module imports neither trellis nor a peer, so that the memory of each can be measured without
the other.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, NamedTuple

from corpora import require

CHUNKING = "chunking/conll2000.train.conll.gz"
CHUNKING_TEST = "chunking/conll2000.test.conll.gz"
SPANISH = "ner/conll2002-es.train.conll.gz"
BROWN = tuple(f"pos/brown.{part}.conll.gz" for part in ("train", "test"))
BROWN_TOKENS = 100_010

Sentence = list[tuple[str, ...]]
Labels = list[list[str]]


class Corpus(NamedTuple):
    """Sentences of (word, …) tuples, and the label of each token."""

    X: list[Sentence]
    y: Labels

    @property
    def tokens(self) -> int:
        """Return the number of tokens."""
        return sum(map(len, self.y))


@dataclass(frozen=True)
class Task:
    """A training for ours and for CRFsuite: minimise −Σ log p(y | x) + c1 ‖w‖₁ + c2 ‖w‖²."""

    name: str
    X: list[Any]  # input of ours
    items: list[Any]  # input of CRFsuite: the same attributes, built in Python
    y: Labels
    iterations: int
    features: Any = None  # features of ours; None if X already has them
    c1: float = 0.0
    c2: float = 1.0
    all_transitions: bool = False


class Outcome(NamedTuple):
    """The state at the end of a training."""

    loss: float
    iterations: int
    evaluations: int
    weights: int
    active: int  # weights that are not 0


def read(name: str, count: int | None = None) -> Corpus:
    """Return the first `count` sentences of a column file, or all of them."""
    corpus = Corpus([], [])
    with gzip.open(require(name), "rt", encoding="utf-8") as file:
        for rows in _blocks(file):
            if count is not None and len(corpus.X) >= count:
                break
            corpus.X.append([tuple(row[:-1]) for row in rows])
            corpus.y.append([row[-1] for row in rows])
    return corpus


def _blocks(lines: Iterable[str]) -> Iterator[list[list[str]]]:
    """Yield the rows of each sentence; empty lines separate sentences."""
    rows: list[list[str]] = []
    for line in chain(lines, [""]):
        row = line.rstrip("\n").split("\t")
        if len(row) > 1:
            rows.append(row)
        elif rows and not row[0]:
            yield rows
            rows = []


def brown(tokens: int = BROWN_TOKENS) -> Corpus:
    """Return every ninth sentence of the Brown corpus, until `tokens` tokens are reached.

    These sentences have 260 labels. The test file has every tenth sentence of the corpus.
    """
    train, test = (zip(*read(name), strict=True) for name in BROWN)
    corpus, total = Corpus([], []), 0
    for number, (words, labels) in enumerate(_merged(train, test)):
        if number % 9 == 0 and total < tokens:
            corpus.X.append(words)
            corpus.y.append(labels)
            total += len(words)
    return corpus


def _merged(train: Iterator[Any], test: Iterator[Any]) -> Iterator[Any]:
    """Yield sentences in the order of the corpus: number % 10 == 9 is in the test file."""
    number = 0
    for sentence in train:
        yield sentence
        number += 1
        if number % 10 == 9:
            yield next(test)
            number += 1


# ---- features in Python, as users of the peers write them; each string is built once


def _chunking_templates() -> list[tuple[str, int, int, int]]:
    """Return (name, column, size, first offset) of each template of CRFsuite's chunking example."""
    shapes = [(0, "w", 1, 2), (0, "w", 2, 1), (1, "pos", 1, 2), (1, "pos", 2, 2), (1, "pos", 3, 2)]
    return [
        ("|".join(f"{field}[{o}]" for o in range(first, first + size)), column, size, first)
        for column, field, size, radius in shapes
        for first in range(-radius, radius - size + 2)
    ]


CHUNKING_TEMPLATES = _chunking_templates()


def _chunking_runs(sentence: Sentence) -> Iterator[tuple[str, int, list[str]]]:
    """Yield (name, first position, values from that position) of each template."""
    grams = {}
    for column, values in enumerate(zip(*sentence, strict=True)):
        grams[column, 1] = list(values)
        grams[column, 2] = ["|".join(pair) for pair in pairwise(values)]
        grams[column, 3] = ["|".join(t) for t in zip(values, values[1:], values[2:], strict=False)]
    for name, column, size, first in CHUNKING_TEMPLATES:
        begin = max(0, -first)
        yield name, begin, grams[column, size][begin + first :]


def chunking_names(sentence: Sentence) -> list[list[str]]:
    """Return attributes as lists of names, for python-crfsuite."""
    items: list[list[str]] = [[] for _ in sentence]
    for name, begin, values in _chunking_runs(sentence):
        for item, value in zip(items[begin:], values, strict=False):
            item.append(f"{name}:{value}")
    items[0].append("__BOS__")
    items[-1].append("__EOS__")
    return items


def chunking_dicts(sentence: Sentence) -> list[dict[str, Any]]:
    """Return the same attributes as dicts, for sklearn-crfsuite."""
    items: list[dict[str, Any]] = [{} for _ in sentence]
    for name, begin, values in _chunking_runs(sentence):
        for item, value in zip(items[begin:], values, strict=False):
            item[name] = value
    items[0]["__BOS__"] = True
    items[-1]["__EOS__"] = True
    return items


def ner_dicts(sentence: Sentence) -> list[dict[str, Any]]:
    """Return the attributes of sklearn-crfsuite's tutorial: the word and its neighbours."""
    shapes = [
        {
            "lower": word.lower(),
            "isupper": word.isupper(),
            "istitle": word.istitle(),
            "pos": pos,
            "pos2": pos[:2],
        }
        for word, pos in sentence
    ]
    before = [{f"-1:{name}": value for name, value in shape.items()} for shape in shapes]
    after = [{f"+1:{name}": value for name, value in shape.items()} for shape in shapes]
    items: list[dict[str, Any]] = []
    for i, (word, _) in enumerate(sentence):
        affixes = {"suffix3": word[-3:], "suffix2": word[-2:], "isdigit": word.isdigit()}
        items.append({"bias": 1.0, **shapes[i], **affixes})
        items[i] |= before[i - 1] if i else {"BOS": True}
        items[i] |= after[i + 1] if i + 1 < len(sentence) else {"EOS": True}
    return items


def pos_names(sentence: Sentence) -> list[list[str]]:
    """Return the word, its neighbours, and affixes of up to three letters."""
    words = ["", *(word for (word,) in sentence), ""]
    items = []
    for before, word, after in zip(words, words[1:], words[2:], strict=False):
        item = [f"w[0]:{word}"]
        item += [f"prefix{n}:{word[:n]}" for n in (1, 2, 3)]
        item += [f"suffix{n}:{word[-n:]}" for n in (1, 2, 3)]
        item.append(f"w[-1]:{before}" if before else "__BOS__")
        item.append(f"w[1]:{after}" if after else "__EOS__")
        items.append(item)
    return items


def build_all(build: Callable[[Sentence], list[Any]], corpus: Corpus) -> list[Any]:
    """Return the features of all sentences."""
    return [build(sentence) for sentence in corpus.X]
