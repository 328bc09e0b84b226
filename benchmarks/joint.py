"""Time joint features against attributes × labels that describe the same weights.

    python benchmarks/joint.py            # CoNLL-2000 chunking and Spanish names, minutes

Three CRFs learn the same weights from the same features, on one thread. One has attributes × labels
and label bigrams. The others have joint features: as two functions, of (x, i, label) and
(previous, label), and as one function of (x, i, previous, label). The losses must agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from crf_data import CHUNKING, SPANISH, Corpus, chunking_names, ner_dicts, read
from sections import run_sections
from timing import Table, check_close, milliseconds, ratio, time_iterations

from trellis import CRF

ITERATIONS, L2 = 30, 2.0
ATTRIBUTES, TWO, ONE = "attributes × labels", "joint, two functions", "joint, one function"


def of_label(x: Any, i: int, label: str) -> list[str]:
    """Return the attributes of a position with a label."""
    return [f"{name}/{label}" for name in x[i]]


def of_pair(previous: str | None, label: str) -> list[str]:
    """Return the label bigram."""
    return [] if previous is None else [f"{previous}->{label}"]


def of_all(x: Any, i: int, previous: str | None, label: str) -> list[str]:
    """Return both."""
    return of_label(x, i, label) + of_pair(previous, label)


MODELS: dict[str, dict[str, Any]] = {
    ATTRIBUTES: {"transitions": "seen"},
    TWO: {"joint": [of_label, of_pair]},
    ONE: {"joint": of_all},
}


def train(model: str, corpus: Corpus, tick: Callable[[], None]) -> tuple[CRF, float]:
    """Return a fitted model, and the seconds of fit without its iterations."""
    spent = [time.perf_counter()]
    prepared = [0.0]

    def record(_: Any) -> None:
        if not prepared[0]:
            prepared[0] = time.perf_counter() - spent[0]
        tick()

    crf = CRF(**MODELS[model], l2=L2, max_iter=ITERATIONS, n_jobs=1)
    return crf.fit(corpus.X, corpus.y, callback=record), prepared[0]


def compare(name: str, corpus: Corpus, models: list[str], table: Table) -> None:
    """Add a row with the times of the models on a corpus."""
    trainings = {
        model: lambda tick, model=model: train(model, corpus, tick)  # type: ignore[misc]
        for model in models
    }
    times, results = time_iterations(trainings, turn=5)
    first = results[models[0]][0]
    for model in models[1:]:
        check_close(f"{name}, {model}", results[model][0].objective_, first.objective_, 1e-6)
        if len(results[model][0].coef_) != len(first.coef_):
            raise AssertionError(f"{name}, {model}: other weights")
    for model in models:
        crf, prepared = results[model]
        table.add(
            f"{name}: {model}",
            len(crf.coef_),
            milliseconds(times[model]),
            ratio(times[model], times[models[0]]),
            prepared,
            prepared + (ITERATIONS - 1) * times[model].median,
        )
    table.keep(name, times)


def section(quick: bool) -> list[Table]:
    """Compare the models on both corpora."""
    columns = [
        "model",
        "weights",
        "ms / iteration",
        "ratio",
        "s to iteration 1",
        f"s, {ITERATIONS}",
    ]
    table = Table("Joint features", columns)
    chunks, names = read(CHUNKING, 500 if quick else 2000), read(SPANISH, 500 if quick else 2000)
    chunks = Corpus([chunking_names(x) for x in chunks.X], chunks.y)  # type: ignore[misc]
    features = [[[f"{k}={v}" for k, v in d.items()] for d in ner_dicts(x)] for x in names.X]
    compare("CoNLL-2000", chunks, [ATTRIBUTES, TWO], table)
    compare("Spanish names", Corpus(features, names.y), [ATTRIBUTES, TWO, ONE], table)  # type: ignore[arg-type]
    table.notes.append(f"{len(chunks.X):,} and {len(names.X):,} sentences, one thread")
    return [table]


if __name__ == "__main__":
    run_sections(__doc__ or "", ["numpy", "scipy"], {"joint": section})
