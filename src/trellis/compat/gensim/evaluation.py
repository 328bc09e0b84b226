"""gensim's evaluations: correlation with human scores of word pairs, and accuracy on analogies."""

import os
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from trellis.data import files
from trellis.embeddings.evaluation import WordVectors, correct_answers, fold_case, row_by_word
from trellis.errors import InputError

__all__ = ["Options", "word_analogies", "word_pairs"]


class Options(NamedTuple):
    """Arguments that both evaluations have."""

    restrict: int | None
    """Number of words to use, from the first row; None for all."""
    ignore_case: bool
    count_unknown: bool
    """If True, a pair with an unknown word has cosine 0; an analogy with one counts as wrong."""


def word_pairs(
    vectors: WordVectors, path: str | os.PathLike[str], delimiter: str, options: Options
) -> tuple[Any, Any, float]:
    """See `Keyed.evaluate_word_pairs`; lines that are not a pair and a score are ignored."""
    row_by_word_form = row_by_word(vectors, options.restrict, options.ignore_case)
    human_scores: list[float] = []
    cosines: list[float] = []
    n_unknown = 0
    for line in files.lines(path):
        if line.startswith("#"):
            continue
        fields = line.rstrip("\r\n").split(delimiter)
        try:
            (word1, word2), score = fields[:-1], float(fields[-1])
        except ValueError:  # gensim skips invalid lines, trellis.Vectors raises an error
            continue
        rows = [
            row_by_word_form.get(fold_case(word, options.ignore_case), -1)
            for word in (word1, word2)
        ]
        is_known = min(rows) >= 0
        n_unknown += not is_known
        if is_known or options.count_unknown:
            first, second = (vectors.words[row] for row in rows)
            human_scores.append(score)
            cosines.append(vectors.similarity(first, second) if is_known else 0.0)
    if not human_scores:
        raise InputError(f"{path}: no pair has vectors for both words")
    n_pairs = len(human_scores) + (0 if options.count_unknown else n_unknown)
    pearson = stats.pearsonr(human_scores, cosines)
    spearman = stats.spearmanr(human_scores, cosines)
    return pearson, spearman, 100.0 * n_unknown / n_pairs


def word_analogies(
    vectors: WordVectors, path: str | os.PathLike[str], options: Options
) -> tuple[float, list[dict[str, Any]]]:
    """See `Keyed.evaluate_word_analogies`; lines that do not have four words are ignored."""
    sections, questions = _read_questions(vectors, path, options)
    known_rows = [question.rows for question in questions if question.is_known]
    table = np.array(known_rows, np.int64).reshape(-1, 4)
    correct_flags = iter(correct_answers(vectors, table, options.restrict, options.ignore_case))
    for question in questions:
        is_correct = question.is_known and next(correct_flags)
        question.section["correct" if is_correct else "incorrect"].append(question.words)
    totals = {
        result: [words for section in sections for words in section[result]]
        for result in ("correct", "incorrect")
    }
    sections.append({"section": "Total accuracy", **totals})
    n_correct, n_incorrect = len(totals["correct"]), len(totals["incorrect"])
    return n_correct / max(n_correct + n_incorrect, 1), sections


class _Question(NamedTuple):
    section: dict[str, Any]
    words: tuple[str, ...]
    rows: list[int]
    """Row of each word; -1 for an unknown word."""

    @property
    def is_known(self) -> bool:
        return min(self.rows) >= 0


def _read_questions(
    vectors: WordVectors, path: str | os.PathLike[str], options: Options
) -> tuple[list[dict[str, Any]], list[_Question]]:
    """Return the sections and the questions of an analogy file."""
    row_by_word_form = row_by_word(vectors, options.restrict, options.ignore_case)
    sections: list[dict[str, Any]] = []
    questions: list[_Question] = []
    for number, line in enumerate(files.lines(path), 1):
        words = tuple(fold_case(word, options.ignore_case) for word in line.split())
        if line.startswith(": "):
            sections.append({"section": line[2:].strip(), "correct": [], "incorrect": []})
        elif not sections:
            raise files.line_error(
                os.fspath(path), number, "a section such as ': capitals' is missing"
            )
        elif len(words) == 4:
            question = _Question(
                sections[-1], words, [row_by_word_form.get(word, -1) for word in words]
            )
            if question.is_known or options.count_unknown:
                questions.append(question)
    return sections, questions
