"""Evaluation of word vectors: correlation with human similarity scores, and analogies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.data import files
from trellis.embeddings.search import unit_rows
from trellis.errors import FormatError

__all__ = [
    "AnalogyScores",
    "SectionScore",
    "SimilarityScores",
    "WordVectors",
    "analogies",
    "correct_answers",
    "fold_case",
    "row_by_word",
    "similarity",
]

FilePath: TypeAlias = str | os.PathLike[str]

# Number of nearest words to search for each analogy. One is not enough: the three words of the
# question, and words that differ from them only in case, are not valid answers.
_CANDIDATES = 8
_BATCH = 4096  # questions per search; a larger batch needs more memory for scores


class WordVectors(Protocol):
    """The part of `trellis.Vectors` that is used here; `Vectors` imports this module."""

    words: list[str]
    matrix: NDArray[np.float32]
    unseen: Callable[[str], NDArray[np.float32]] | None

    def similarity(self, a: str, b: str) -> float:
        """See `trellis.Vectors.similarity`."""

    def search(
        self, queries: NDArray[np.float32], k: int, restrict: int | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """See `trellis.Vectors.search`."""


class SimilarityScores(NamedTuple):
    """Correlation between cosines and human scores."""

    spearman: float
    """Rank correlation; NaN for fewer than two known pairs, or if all scores are equal."""
    pearson: float
    """Linear correlation; NaN in the same cases as ``spearman``."""
    pairs: int
    """Number of pairs that were used."""
    skipped: int
    """Number of pairs with a word that has no vector."""


class SectionScore(NamedTuple):
    """Correct answers and questions of one section of an analogy file."""

    right: int
    asked: int


class AnalogyScores(NamedTuple):
    """Result of the questions "a is to b as c is to …"."""

    accuracy: float
    """right / asked; NaN if no question could be asked."""
    right: int
    asked: int
    skipped: int
    """Number of questions with a word that has no vector."""
    sections: dict[str, SectionScore]


def similarity(
    vectors: WordVectors,
    path: FilePath,
    restrict: int | None,
    ignore_case: bool,
    with_unseen: bool,
) -> SimilarityScores:
    """See `trellis.Vectors.evaluate_similarity`."""
    rows = row_by_word(vectors, restrict, ignore_case)
    human_scores: list[float] = []
    cosines: list[float] = []
    n_skipped = 0
    for word1, word2, score in _read_pairs(path):
        pair_rows = [rows.get(fold_case(word, ignore_case)) for word in (word1, word2)]
        if None in pair_rows and not (with_unseen and vectors.unseen):
            n_skipped += 1
            continue
        first_word, second_word = (
            word if row is None else vectors.words[row]
            for word, row in zip((word1, word2), pair_rows, strict=True)
        )
        human_scores.append(score)
        cosines.append(vectors.similarity(first_word, second_word))
    if not (human_scores or n_skipped):
        raise FormatError(f"{path}: the file has no pairs of words")
    spearman = _correlation(_ranks(human_scores), _ranks(cosines))
    pearson = _correlation(human_scores, cosines)
    return SimilarityScores(spearman, pearson, len(human_scores), n_skipped)


def analogies(
    vectors: WordVectors, path: FilePath, restrict: int | None, ignore_case: bool
) -> AnalogyScores:
    """See `trellis.Vectors.evaluate_analogies`."""
    rows = row_by_word(vectors, restrict, ignore_case)
    sections: dict[str, list[int]] = {}  # name -> [correct answers, questions]
    questions: list[list[int]] = []
    question_sections: list[str] = []
    n_skipped = 0
    for section, words in _read_questions(path):
        sections.setdefault(section, [0, 0])
        question = [rows.get(fold_case(word, ignore_case), -1) for word in words]
        if min(question) < 0:
            n_skipped += 1
            continue
        questions.append(question)
        question_sections.append(section)
    table = np.array(questions, np.int64).reshape(-1, 4)
    correct_flags = correct_answers(vectors, table, restrict, ignore_case)
    for section, is_correct in zip(question_sections, correct_flags, strict=True):
        sections[section][0] += is_correct
        sections[section][1] += 1
    n_correct, n_questions = sum(correct_flags), len(correct_flags)
    accuracy = n_correct / n_questions if n_questions else float("nan")
    scores = {name: SectionScore(*counts) for name, counts in sections.items()}
    return AnalogyScores(accuracy, n_correct, n_questions, n_skipped, scores)


def correct_answers(
    vectors: WordVectors, questions: NDArray[np.int64], restrict: int | None, ignore_case: bool
) -> list[bool]:
    """Return whether each question (N, 4) of row numbers a b c d is answered correctly.

    The answer is the nearest word to b − a + c that is not a, b or c. It must be d.
    """
    words = vectors.words
    correct_flags: list[bool] = []
    for begin in range(0, len(questions), _BATCH):
        batch = questions[begin : begin + _BATCH]
        a, b, c = (unit_rows(vectors.matrix[batch[:, i]]) for i in range(3))
        _, ids = vectors.search(unit_rows(b - a + c), _CANDIDATES, restrict)
        for question, nearest_rows in zip(batch.tolist(), ids.tolist(), strict=True):
            *question_words, expected_answer = (
                fold_case(words[row], ignore_case) for row in question
            )
            candidates = (fold_case(words[row], ignore_case) for row in nearest_rows)
            answer = next((word for word in candidates if word not in question_words), None)
            correct_flags.append(answer == expected_answer)
    return correct_flags


def row_by_word(vectors: WordVectors, restrict: int | None, ignore_case: bool) -> dict[str, int]:
    """Return the row of each of the first ``restrict`` words.

    If words differ only in case and case is ignored, the first one counts.
    """
    words = vectors.words[:restrict]
    # The words are added in reverse order: later entries of a dict replace earlier ones, and the
    # first word must remain.
    reversed_rows = zip(reversed(words), range(len(words) - 1, -1, -1), strict=True)
    return {fold_case(word, ignore_case): row for word, row in reversed_rows}


def fold_case(word: str, ignore_case: bool) -> str:
    """Return the form of a word for comparisons: upper case if case is ignored."""
    # word2vec and gensim use upper case, not casefold. The results must agree with theirs.
    return word.upper() if ignore_case else word


def _read_pairs(path: FilePath) -> Iterator[tuple[str, str, float]]:
    """Yield (word, word, score) of each line."""
    name = os.fspath(path)
    for line_number, line in enumerate(files.lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t") if "\t" in line else line.split()
        try:
            word1, word2, score = fields[0].strip(), fields[1].strip(), float(fields[2])
        except (IndexError, ValueError):
            problem = f"expected two words and a score, found {files.quote(line)}"
            raise files.line_error(name, line_number, problem) from None
        if not np.isfinite(score):
            raise files.line_error(name, line_number, f"the score is {score}: must be finite")
        yield word1, word2, score


def _read_questions(path: FilePath) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of the section and the four words of each question."""
    name, section = os.fspath(path), None
    for line_number, line in enumerate(files.lines(path), 1):
        if line.startswith(":"):
            section = line[1:].strip()
        elif line.strip():
            words = line.split()
            if len(words) != 4 or section is None:
                problem = f"expected four words in a section, found {files.quote(line)}"
                raise files.line_error(name, line_number, problem)
            yield section, words
    if section is None:
        raise FormatError(f"{name}: has no section; a line such as ': capitals' starts one")


def _ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Return the rank of each value, from 1; equal values get the mean of their ranks."""
    _, inverse, counts = np.unique(
        np.asarray(values, np.float64), return_inverse=True, return_counts=True
    )
    ranks: NDArray[Any] = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return ranks


def _correlation(a: ArrayLike, b: ArrayLike) -> float:
    """Return the Pearson correlation; NaN if it is not defined."""
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if len(x) < 2:
        return float("nan")
    x, y = x - x.mean(), y - y.mean()
    norm_product = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / norm_product if norm_product else float("nan")
