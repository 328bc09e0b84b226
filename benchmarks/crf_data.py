"""What both sides of the CRF benchmarks are given: sentences, features made in Python, settings.

Imports neither trellis nor a peer, so that the memory of each can be measured without the other.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parents[2] / "shared" / "data"
CHUNKING = DATA / "chunking" / "conll2000.train.conll.gz"
CHUNKING_TEST = DATA / "chunking" / "conll2000.test.conll.gz"
SPANISH = DATA / "ner" / "conll2002-es.train.conll.gz"
BROWN = tuple(DATA / "pos" / f"brown.{part}.conll.gz" for part in ("train", "test"))
BROWN_TOKENS = 100_010

Sentence = list[tuple[str, ...]]
Labels = list[list[str]]


class Corpus(NamedTuple):
    """Sentences of (word, …) and the label of each token."""

    X: list[Sentence]
    y: Labels

    @property
    def tokens(self) -> int:
        """How many there are."""
        return sum(map(len, self.y))


@dataclass(frozen=True)
class Task:
    """The same training for ours and for CRFsuite: −Σ log p(y | x) + c1 ‖w‖₁ + c2 ‖w‖²."""

    name: str
    X: list[Any]  # as ours takes it
    items: list[Any]  # as CRFsuite takes it: the same attributes, made in Python
    y: Labels
    iterations: int
    features: Any = None  # how ours makes features of X; None: they are ready
    c1: float = 0.0
    c2: float = 1.0
    all_transitions: bool = False


class Outcome(NamedTuple):
    """Where a training ended."""

    loss: float
    iterations: int
    evaluations: int
    weights: int
    active: int  # weights that are not 0


def read(path: Path, most: int | None = None) -> Corpus:
    """The first sentences of a column file, as a program without a library would read them."""
    if not path.exists():
        raise SystemExit(f"{path} is missing: the CRF benchmarks need the shared data")
    corpus = Corpus([], [])
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for rows in _blocks(file):
            if most is not None and len(corpus.X) >= most:
                break
            corpus.X.append([tuple(row[:-1]) for row in rows])
            corpus.y.append([row[-1] for row in rows])
    return corpus


def _blocks(lines: Iterable[str]) -> Iterator[list[list[str]]]:
    rows: list[list[str]] = []
    for line in chain(lines, [""]):
        row = line.rstrip("\n").split("\t")
        if len(row) > 1:
            rows.append(row)
        elif rows and not row[0]:
            yield rows
            rows = []


def brown(tokens: int = BROWN_TOKENS) -> Corpus:
    """Every ninth sentence of the Brown corpus until there are that many tokens.

    All of them have 260 labels. The files hold the corpus with each tenth sentence apart.
    """
    train, test = (zip(*read(path), strict=True) for path in BROWN)
    corpus, found = Corpus([], []), 0
    for number, (words, labels) in enumerate(_merged(train, test)):
        if number % 9 == 0 and found < tokens:
            corpus.X.append(words)
            corpus.y.append(labels)
            found += len(words)
    return corpus


def _merged(train: Iterator[Any], test: Iterator[Any]) -> Iterator[Any]:
    """Sentences in the order of the corpus: number % 10 == 9 is in the test file."""
    number = 0
    for sentence in train:
        yield sentence
        number += 1
        if number % 10 == 9:
            yield next(test)
            number += 1


# ---- features in Python, as the peers' users write them, each string made once


def _chunking_templates() -> list[tuple[str, int, int, int]]:
    """(name, column, size, first offset) of CRFsuite's chunking example."""
    shapes = [(0, "w", 1, 2), (0, "w", 2, 1), (1, "pos", 1, 2), (1, "pos", 2, 2), (1, "pos", 3, 2)]
    return [
        ("|".join(f"{field}[{o}]" for o in range(first, first + size)), column, size, first)
        for column, field, size, radius in shapes
        for first in range(-radius, radius - size + 2)
    ]


CHUNKING_TEMPLATES = _chunking_templates()


def _chunking_runs(sentence: Sentence) -> Iterator[tuple[str, int, list[str]]]:
    """(name, first position, values from there on) of each template."""
    grams = {}
    for column, values in enumerate(zip(*sentence, strict=True)):
        grams[column, 1] = list(values)
        grams[column, 2] = ["|".join(pair) for pair in pairwise(values)]
        grams[column, 3] = ["|".join(t) for t in zip(values, values[1:], values[2:], strict=False)]
    for name, column, size, first in CHUNKING_TEMPLATES:
        begin = max(0, -first)
        yield name, begin, grams[column, size][begin + first :]


def chunking_names(sentence: Sentence) -> list[list[str]]:
    """Attributes as lists of names, the way of python-crfsuite."""
    items: list[list[str]] = [[] for _ in sentence]
    for name, begin, values in _chunking_runs(sentence):
        for item, value in zip(items[begin:], values, strict=False):
            item.append(f"{name}:{value}")
    items[0].append("__BOS__")
    items[-1].append("__EOS__")
    return items


def chunking_dicts(sentence: Sentence) -> list[dict[str, Any]]:
    """The same attributes as dicts, the way of sklearn-crfsuite."""
    items: list[dict[str, Any]] = [{} for _ in sentence]
    for name, begin, values in _chunking_runs(sentence):
        for item, value in zip(items[begin:], values, strict=False):
            item[name] = value
    items[0]["__BOS__"] = True
    items[-1]["__EOS__"] = True
    return items


def ner_dicts(sentence: Sentence) -> list[dict[str, Any]]:
    """The attributes of sklearn-crfsuite's tutorial: the word and its neighbours."""
    around = [
        {
            "lower": word.lower(),
            "isupper": word.isupper(),
            "istitle": word.istitle(),
            "pos": pos,
            "pos2": pos[:2],
        }
        for word, pos in sentence
    ]
    before = [{f"-1:{name}": value for name, value in own.items()} for own in around]
    after = [{f"+1:{name}": value for name, value in own.items()} for own in around]
    items: list[dict[str, Any]] = []
    for i, (word, _) in enumerate(sentence):
        own = {"suffix3": word[-3:], "suffix2": word[-2:], "isdigit": word.isdigit()}
        items.append({"bias": 1.0, **around[i], **own})
        items[i] |= before[i - 1] if i else {"BOS": True}
        items[i] |= after[i + 1] if i + 1 < len(sentence) else {"EOS": True}
    return items


def pos_names(sentence: Sentence) -> list[list[str]]:
    """The word, its neighbours, and affixes of up to three letters."""
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


def made(make: Callable[[Sentence], list[Any]], corpus: Corpus) -> list[Any]:
    """The features of all sentences."""
    return [make(sentence) for sentence in corpus.X]
