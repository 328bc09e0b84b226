"""`trellis classify`: labels of whole texts."""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from trellis.app.terminal import show, show_json
from trellis.data import files
from trellis.embeddings.classifier import TextClassifier
from trellis.errors import InputError
from trellis.loading import load

__all__ = ["run"]

_BATCH = 4096


def run(
    path: Path,
    sources: list[Path],
    test: Path | None,
    *,
    k: int,
    threshold: float,
    as_json: bool,
    jobs: int | None,
) -> None:
    """Label each line of the files, or of standard input; or score a file with labels."""
    model = load(path)
    if not isinstance(model, TextClassifier):
        raise InputError(f"{path}: a {type(model).__name__}, which labels no texts")
    model.n_jobs = jobs
    if test is not None:
        scores = model.test(test, k=k, threshold=threshold)
        if as_json:
            show_json(scores._asdict())
            return
        show(f"{scores.texts:,} texts, precision@{k} {100 * scores.precision:.2f}")
        show(f"recall@{k} {100 * scores.recall:.2f}")
        return
    for batch in _batches(_lines(sources)):
        for text, found in zip(batch, model.predict(batch, k=k, threshold=threshold), strict=True):
            if as_json:
                show_json({"text": text, "labels": [own._asdict() for own in found]})
            else:
                print("\t".join(f"{own.label}\t{own.probability:.6f}" for own in found))


def _lines(sources: list[Path]) -> Iterator[str]:
    for source in sources:
        yield from files.lines(source, errors="replace")
    if not sources:
        yield from files.lines(sys.stdin.buffer, errors="replace")


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    left = iter(lines)
    while batch := list(islice(left, _BATCH)):
        yield batch
