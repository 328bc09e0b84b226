"""Token accuracy and F1 of the decoders viterbi, marginal and mbr, and of thresholds for spans.

    python benchmarks/decoding.py            # CoNLL-2000, CoNLL-2002 Spanish, WNUT-17; minutes

A CRF is trained on each corpus. The first table has the scores on the test set for each value of
`predict(X, decode=…)`, and the seconds of the call. The second table has thresholds of
`predict_spans(X, min_probability=…)` that were chosen on the development set, and the scores on
both sets. CoNLL-2000 has no development set: it is every tenth sentence of the training set, which
is not trained on.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from crf_data import Corpus, read
from sections import run_sections
from timing import Table

from trellis import CRF
from trellis.data import tags
from trellis.features import chunking, ner
from trellis.metrics import accuracy, choose_threshold, sequence_accuracy, span_scores
from trellis.models.chain.decoding import DECODERS

LEAST, PRECISIONS = 0.01, (0.8, 0.9, 0.95)


class Task(NamedTuple):
    """A corpus, the names of its files, and the model that is trained on it."""

    name: str
    train: str
    dev: str | None
    test: str
    model: CRF


TASKS = (
    Task(
        "CoNLL-2000",
        "chunking/conll2000.train.conll.gz",
        None,
        "chunking/conll2000.test.conll.gz",
        CRF(chunking(), max_iter=50),
    ),
    Task(
        "CoNLL-2002 es",
        "ner/conll2002-es.train.conll.gz",
        "ner/conll2002-es.testa.conll.gz",
        "ner/conll2002-es.testb.conll.gz",
        CRF(ner(["pos"]), l2=0.5, max_iter=100),
    ),
    Task(
        "WNUT-17",
        "ner/wnut17.train.conll.gz",
        "ner/wnut17.dev.conll.gz",
        "ner/wnut17.test.conll.gz",
        CRF(ner(), l2=0.5, max_iter=100),
    ),
)


def load(task: Task, quick: bool) -> tuple[Corpus, Corpus, Corpus]:
    """Return the training, development and test data; words that are alone are not tuples."""
    count = 500 if quick else None
    train, test = read(task.train, count), read(task.test, count)
    if task.dev is not None:
        dev = read(task.dev, count)
    else:
        dev = Corpus(train.X[9::10], train.y[9::10])
        kept = [i for i in range(len(train.X)) if i % 10 != 9]
        train = Corpus([train.X[i] for i in kept], [train.y[i] for i in kept])
    return tuple(Corpus([*map(unpack, c.X)], c.y) for c in (train, dev, test))  # type: ignore[return-value]


def unpack(sentence: Any) -> Any:
    """Return words instead of tuples with one column."""
    return [token[0] for token in sentence] if len(sentence[0]) == 1 else sentence


def from_spans(spans: Any, corpus: Corpus) -> list[list[str]]:
    """Return the tags of predicted spans."""
    rows = zip(spans, corpus.X, strict=True)
    return [tags.from_spans([span[:3] for span in row], len(x)) for row, x in rows]


def percent(*values: float) -> list[str]:
    """Return numbers as percentages with two digits."""
    return [f"{100 * value:.2f}" for value in values]


def decoding(quick: bool) -> list[Table]:
    """Return the table of decoders and the table of thresholds."""
    columns = ["corpus", "decode", "accuracy", "precision", "recall", "F1", "sequences", "seconds"]
    decoders = Table("Decoders on the test set, in percent", columns)
    columns = ["corpus", "chosen for", "threshold", "dev P", "dev R", "test P", "test R", "test F1"]
    thresholds = Table("Thresholds chosen on the development set", columns)
    for task in TASKS:
        train, dev, test = load(task, quick)
        model = task.model.set_params(n_jobs=1).fit(train.X, train.y)
        for decode in DECODERS:
            begin = time.perf_counter()
            predicted = model.predict(test.X, decode=decode)
            seconds = time.perf_counter() - begin
            report = span_scores(test.y, predicted)
            rates = (report.precision, report.recall, report.f1)
            values = percent(
                accuracy(test.y, predicted), *rates, sequence_accuracy(test.y, predicted)
            )
            decoders.add(task.name, decode, *values, f"{seconds:.2f}")
        spans = model.predict_spans(dev.X, min_probability=LEAST)
        goals: list[tuple[str, dict[str, float]]] = [("best F1", {}), ("best F2", {"beta": 2.0})]
        goals += [(f"precision {p:g}", {"min_precision": p}) for p in PRECISIONS]
        for goal, options in goals:
            chosen = choose_threshold(dev.y, spans, **options)
            limit = chosen.min_probability
            test_spans = model.predict_spans(test.X, min_probability=limit)
            report = span_scores(test.y, from_spans(test_spans, test))
            values = percent(
                chosen.precision, chosen.recall, report.precision, report.recall, report.f1
            )
            thresholds.add(task.name, goal, f"{limit:.3f}", *values)
    return [decoders, thresholds]


if __name__ == "__main__":
    run_sections(__doc__ or "", ["trellis"], {"decoding": decoding})
