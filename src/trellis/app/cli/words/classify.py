"""``trellis classify``: label lines of text with a text classifier."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

from trellis.app.cli.declarations import Argument, Option
from trellis.app.cli.options import Jobs, Json
from trellis.app.terminal import show, show_json
from trellis.data import files
from trellis.embeddings.classifier import TextClassifier
from trellis.errors import InputError
from trellis.models.files import load

__all__ = ["Options", "run"]

_BATCH = 4096  # lines classified at a time


@dataclass
class Options:
    """Options of ``trellis classify``."""

    model: Annotated[
        Path, Argument(help="Classifier: a .trellis, .bin or .ftz file.", metavar="MODEL")
    ]
    files: Annotated[
        list[Path] | None,
        Argument(help="Files with one text per line; default: standard input.", metavar="FILE"),
    ] = None
    k: Annotated[int, Option("-k", help="Number of labels per text.", metavar="K", min=1)] = 1
    threshold: Annotated[
        float, Option(help="Omit labels whose probability is smaller.", min=0.0, max=1.0)
    ] = 0.0
    test: Annotated[
        Path | None,
        Option(help="Print the scores on a file with labels, instead of labels.", metavar="FILE"),
    ] = None
    as_json: Json = False
    jobs: Jobs = None


def run(options: Options) -> None:
    """Label texts with a classifier of `trellis embed --supervised` or of fastText.

    Prints one line per text: labels and probabilities, separated by tabs.

    **Examples**

    `echo "quelle heure est-il" | trellis classify lid.176.ftz -k 3`

    `trellis classify intents.ftz --test test.txt`
    """
    model = load(options.model)
    if not isinstance(model, TextClassifier):
        raise InputError(
            f"{options.model}: the model is a {type(model).__name__}, expected a text classifier"
        )
    model.n_jobs = options.jobs
    if options.test is not None:
        _show_scores(model, options, options.test)
        return
    for batch in _split_batches(_read_lines(options.files or [])):
        labels = model.predict(batch, k=options.k, threshold=options.threshold)
        for text, predictions_of_text in zip(batch, labels, strict=True):
            predictions = [
                p._replace(probability=min(p.probability, 1.0)) for p in predictions_of_text
            ]
            if options.as_json:
                show_json({"text": text, "labels": [p._asdict() for p in predictions]})
            else:
                print("\t".join(f"{p.label}\t{p.probability:.6f}" for p in predictions))


def _show_scores(model: TextClassifier, options: Options, test: Path) -> None:
    scores = model.test(test, k=options.k, threshold=options.threshold)
    if options.as_json:
        show_json(scores._asdict())
        return
    show(f"{scores.texts:,} texts, precision@{options.k} {100 * scores.precision:.2f}")
    show(f"recall@{options.k} {100 * scores.recall:.2f}")


def _read_lines(sources: list[Path]) -> Iterator[str]:
    # As in fastText, invalid UTF-8 is replaced: it must not stop a long run.
    for source in sources:
        yield from files.lines(source, errors="replace")
    if not sources:
        yield from files.lines(sys.stdin.buffer, errors="replace")


def _split_batches(lines: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(lines)
    while batch := list(islice(iterator, _BATCH)):
        yield batch
