"""How good vectors are: cosines against people's judgement, differences against analogies."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from trellis.data import files
from trellis.embeddings.geometry import unit_rows
from trellis.errors import FormatError

if TYPE_CHECKING:
    from trellis.embeddings.vectors import Vectors

__all__ = [
    "AnalogyScores",
    "SectionScore",
    "SimilarityScores",
    "analogies",
    "folded",
    "right_answers",
    "rows_of",
    "similarity",
]

_CANDIDATES = 8  # three are the question's own words, and others may differ from them in case
_BATCH = 4096


class SimilarityScores(NamedTuple):
    """Agreement of cosines with the scores that people gave."""

    spearman: float
    """Of the ranks; NaN where fewer than two pairs are known, or all are alike."""
    pearson: float
    pairs: int
    """That were used."""
    skipped: int
    """Because a word has no vector."""


class SectionScore(NamedTuple):
    """Right answers of a section, and questions that were asked."""

    right: int
    asked: int


class AnalogyScores(NamedTuple):
    """Right answers to "a is to b as c is to …"."""

    accuracy: float
    right: int
    asked: int
    skipped: int
    """Because a word has no vector."""
    sections: dict[str, SectionScore]


def similarity(
    vectors: "Vectors",
    path: str | os.PathLike[str],
    restrict: int | None,
    ignore_case: bool,
    with_unseen: bool,
) -> SimilarityScores:
    """See `Vectors.evaluate_similarity`."""
    row_of = rows_of(vectors, restrict, ignore_case)
    given: list[float] = []
    found: list[float] = []
    skipped = 0
    for a, b, score in _pairs(path):
        known = [row_of.get(folded(word, ignore_case)) for word in (a, b)]
        if None in known and not (with_unseen and vectors.unseen):
            skipped += 1
            continue
        names = [
            w if row is None else vectors.words[row] for w, row in zip((a, b), known, strict=True)
        ]
        given.append(score)
        found.append(vectors.similarity(*names))
    if not (given or skipped):
        raise FormatError(f"{path}: has no pairs of words")
    ranks = _correlation(rankdata(given), rankdata(found))
    return SimilarityScores(ranks, _correlation(given, found), len(given), skipped)


def analogies(
    vectors: "Vectors", path: str | os.PathLike[str], restrict: int | None, ignore_case: bool
) -> AnalogyScores:
    """See `Vectors.evaluate_analogies`."""
    row_of = rows_of(vectors, restrict, ignore_case)
    sections: dict[str, list[int]] = {}
    rows: list[list[int]] = []
    owner: list[str] = []
    skipped = 0
    for section, words in _questions(path):
        sections.setdefault(section, [0, 0])
        known = [row_of.get(folded(word, ignore_case), -1) for word in words]
        if min(known) < 0:
            skipped += 1
            continue
        rows.append(known)
        owner.append(section)
    right = right_answers(vectors, np.array(rows, np.int64).reshape(-1, 4), restrict, ignore_case)
    for section, good in zip(owner, right, strict=True):
        sections[section][0] += good
        sections[section][1] += 1
    correct = sum(right)
    scores = {name: SectionScore(*own) for name, own in sections.items()}
    return AnalogyScores(
        correct / len(right) if right else float("nan"), correct, len(right), skipped, scores
    )


def right_answers(
    vectors: "Vectors", rows: NDArray[np.int64], restrict: int | None, ignore_case: bool
) -> list[bool]:
    """Whether the nearest word that the question does not name is its answer."""
    words = vectors.words
    found: list[bool] = []
    for begin in range(0, len(rows), _BATCH):
        batch = rows[begin : begin + _BATCH]
        a, b, c = (unit_rows(vectors.matrix[batch[:, i]]) for i in range(3))
        _, ids = vectors.search(unit_rows(b - a + c), _CANDIDATES, restrict)
        for asked, near in zip(batch.tolist(), ids.tolist(), strict=True):
            *named, answer = (folded(words[row], ignore_case) for row in asked)
            candidates = (folded(words[row], ignore_case) for row in near)
            found.append(next((w for w in candidates if w not in named), None) == answer)
    return found


def rows_of(vectors: "Vectors", restrict: int | None, ignore_case: bool) -> dict[str, int]:
    """The row of each word among the first; of words that differ in case, the first."""
    words = vectors.words[:restrict]
    last_first = zip(reversed(words), range(len(words) - 1, -1, -1), strict=True)
    return {folded(word, ignore_case): row for word, row in last_first}


def folded(word: str, ignore_case: bool) -> str:
    """The word as it is compared."""
    return word.upper() if ignore_case else word


def _pairs(path: str | os.PathLike[str]) -> Iterator[tuple[str, str, float]]:
    name = os.fspath(path)
    for number, line in enumerate(files.lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t") if "\t" in line else line.split()
        try:
            a, b, score = fields[0].strip(), fields[1].strip(), float(fields[2])
        except (IndexError, ValueError):
            what = f"not two words and a score: {files.shown(line)}"
            raise files.wrong(name, number, what) from None
        if not np.isfinite(score):
            raise files.wrong(name, number, f"the score is {score}")
        yield a, b, score


def _questions(path: str | os.PathLike[str]) -> Iterator[tuple[str, list[str]]]:
    name, section = os.fspath(path), None
    for number, line in enumerate(files.lines(path), 1):
        if line.startswith(":"):
            section = line[1:].strip()
        elif line.strip():
            words = line.split()
            if len(words) != 4 or section is None:
                what = f"not four words in a section: {files.shown(line)}"
                raise files.wrong(name, number, what)
            yield section, words
    if section is None:
        raise FormatError(f"{name}: no section, which a line such as ': capitals' would begin")


def _correlation(
    a: "NDArray[np.float64] | list[float]", b: "NDArray[np.float64] | list[float]"
) -> float:
    x, y = np.asarray(a, float), np.asarray(b, float)
    if len(x) < 2:
        return float("nan")
    x, y = x - x.mean(), y - y.mean()
    norms = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / norms if norms else float("nan")
