"""`trellis neighbors`, `analogy`, `similarity`: questions about vectors of words."""

import sys
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from trellis.app.terminal import show, show_json
from trellis.embeddings.evaluation import SectionScore
from trellis.embeddings.vectors import Neighbor, Vectors

__all__ = ["analogy", "neighbors", "similarity"]


def neighbors(
    path: Path,
    words: list[str],
    *,
    k: int,
    limit: int | None,
    as_json: bool,
    jobs: int | None,
) -> None:
    """Print the nearest words of each."""
    vectors = _load(path, limit, jobs)
    asked = words or [word for line in sys.stdin for word in line.split()]
    found = vectors.nearest_each(asked, k)
    if as_json:
        show_json(
            [{"word": w, "near": _records(near)} for w, near in zip(asked, found, strict=True)]
        )
        return
    for number, (word, near) in enumerate(zip(asked, found, strict=True)):
        if len(asked) > 1:
            show(Text(f"\n{word}" if number else word, style="bold"))
        show(_table(near))


def analogy(
    path: Path,
    words: list[str],
    test: Path | None,
    *,
    k: int,
    restrict: int | None,
    limit: int | None,
    as_json: bool,
    jobs: int | None,
) -> None:
    """Print the answers to one question, or the scores of a file of them."""
    vectors = _load(path, limit, jobs)
    if test is None:
        near = vectors.analogy(words[0], words[1], words[2], k)
        show_json(_records(near)) if as_json else show(_table(near))
        return
    scores = vectors.evaluate_analogies(test, restrict=restrict)
    if as_json:
        sections = {name: own._asdict() for name, own in scores.sections.items()}
        show_json({**scores._asdict(), "sections": sections})
        return
    table = _plain("section", "right", "of", "%")
    total = SectionScore(scores.right, scores.asked)
    for name, own in [*scores.sections.items(), ("all", total)]:
        share = f"{100 * own.right / own.asked:.1f}" if own.asked else ""
        table.add_row(Text(name), f"{own.right:,}", f"{own.asked:,}", share)
    show(table)
    show(f"\n{scores.skipped:,} questions have a word without a vector")


def similarity(
    path: Path,
    words: list[str],
    test: Path | None,
    *,
    restrict: int | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print one cosine, or how well cosines agree with a file of judgements."""
    vectors = _load(path, limit, None)
    if test is None:
        cosine = vectors.similarity(*words)
        show_json({"words": words, "cosine": cosine}) if as_json else show(f"{cosine:.4f}")
        return
    scores = vectors.evaluate_similarity(test, restrict=restrict)
    if as_json:
        show_json(scores._asdict())
        return
    show(f"Spearman {scores.spearman:.4f}, Pearson {scores.pearson:.4f}")
    show(f"{scores.pairs:,} pairs, {scores.skipped:,} skipped for a word without a vector")


def _load(path: Path, limit: int | None, jobs: int | None) -> Vectors:
    vectors = Vectors.load(path, errors="replace", limit=limit)
    vectors.n_jobs = jobs
    return vectors


def _records(near: list[Neighbor]) -> list[dict[str, Any]]:
    return [own._asdict() for own in near]


def _table(near: list[Neighbor]) -> Table:
    table = _plain("word", "cosine")
    for own in near:
        table.add_row(Text(own.word), f"{own.score:.4f}")
    return table


def _plain(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table
