"""gensim's evaluations: pairs of words with people's scores, and analogies with what was right."""

import os
from typing import Any

import numpy as np
from scipy import stats

from trellis.data import files
from trellis.embeddings.evaluation import folded, right_answers, rows_of
from trellis.errors import InputError

__all__ = ["word_analogies", "word_pairs"]


def word_pairs(
    vectors: Any,
    path: str | os.PathLike[str],
    delimiter: str,
    restrict: int | None,
    ignore_case: bool,
    zero_unknown: bool,
) -> tuple[Any, Any, float]:
    """See `Keyed.evaluate_word_pairs`; lines that are no pairs are passed over."""
    row_of = rows_of(vectors, restrict, ignore_case)
    given: list[float] = []
    found: list[float] = []
    unknown = 0
    for line in files.lines(path):
        if line.startswith("#"):
            continue
        fields = line.rstrip("\r\n").split(delimiter)
        try:
            (a, b), score = fields[:-1], float(fields[-1])
        except ValueError:
            continue
        rows = [row_of.get(folded(word, ignore_case), -1) for word in (a, b)]
        is_known = min(rows) >= 0
        unknown += not is_known
        if is_known or zero_unknown:
            given.append(score)
            words = [vectors.words[row] for row in rows]
            found.append(vectors.similarity(*words) if is_known else 0.0)
    if not given:
        raise InputError(f"{path}: has no pairs of words that have vectors")
    total = len(given) + (0 if zero_unknown else unknown)
    pearson, spearman = stats.pearsonr(given, found), stats.spearmanr(given, found)
    return pearson, spearman, 100.0 * unknown / total


def word_analogies(
    vectors: Any,
    path: str | os.PathLike[str],
    restrict: int | None,
    ignore_case: bool,
    wrong_unknown: bool,
) -> tuple[float, list[dict[str, Any]]]:
    """See `Keyed.evaluate_word_analogies`; lines that are no questions are passed over."""
    row_of = rows_of(vectors, restrict, ignore_case)
    sections: list[dict[str, Any]] = []
    asked: list[tuple[dict[str, Any], tuple[str, ...], list[int]]] = []
    for number, line in enumerate(files.lines(path), 1):
        words = tuple(folded(word, ignore_case) for word in line.split())
        if line.startswith(": "):
            sections.append({"section": line[2:].strip(), "correct": [], "incorrect": []})
        elif not sections:
            raise files.wrong(os.fspath(path), number, "a section such as ': capitals' is missing")
        elif len(words) == 4:
            rows = [row_of.get(word, -1) for word in words]
            if min(rows) >= 0 or wrong_unknown:
                asked.append((sections[-1], words, rows))
    known = [rows for _, _, rows in asked if min(rows) >= 0]
    table = np.array(known, np.int64).reshape(-1, 4)
    right = iter(right_answers(vectors, table, restrict, ignore_case))
    for section, words, rows in asked:
        good = min(rows) >= 0 and next(right)
        section["correct" if good else "incorrect"].append(words)
    sections.append(
        {
            "section": "Total accuracy",
            **{
                kind: [words for section in sections for words in section[kind]]
                for kind in ("correct", "incorrect")
            },
        }
    )
    correct = len(sections[-1]["correct"])
    return correct / max(correct + len(sections[-1]["incorrect"]), 1), sections
