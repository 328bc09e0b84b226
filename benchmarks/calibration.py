"""Expected calibration error of the neural tagger's marginals, before and after calibration.

    python benchmarks/calibration.py            # WNUT-17 and SNIPS, CPU, minutes

The tagger is trained on 2,500 sentences. `fit` chooses the temperature on the development set. The
tables have the error on that set and on the test set, and that of a linear CRF beside it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from crf_data import Corpus, read
from sections import run_sections
from timing import Table

from trellis import CRF, NeuralTagger

SENTENCES, BINS = 2500, 15


class Files(NamedTuple):
    """The files of a corpus; without a development file, some sentences of the training file."""

    train: str
    dev: str | None
    test: str


CORPORA = {
    "WNUT-17": Files("ner/wnut17.train.conll.gz", "ner/wnut17.dev.conll.gz",
                     "ner/wnut17.test.conll.gz"),
    "SNIPS": Files("slots/snips.train.conll.gz", None, "slots/snips.test.conll.gz"),
}  # fmt: skip


def calibration_error(model: Any, X: list[Any], y: list[Any]) -> float:
    """Return Σ |accuracy − mean probability| · share, over bins of the highest probability."""
    p = np.concatenate(model.predict_marginals(X))
    predicted = model.classes_[p.argmax(axis=1)]
    is_right = predicted == np.array([label for labels in y for label in labels])
    best = p.max(axis=1)
    bins = np.minimum((best * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, is_right, BINS) - np.bincount(bins, best, BINS)
    return float(np.abs(gaps).sum() / len(best))


def words_of(corpus: Corpus) -> list[list[str]]:
    """Return the first column of each sentence."""
    return [[token[0] for token in x] for x in corpus.X]


def split(files: Files, quick: bool) -> tuple[Corpus, Corpus, Corpus]:
    """Return the training, development and test data.

    SNIPS is sorted by intent, so its sentences are taken from the whole file.
    """
    count = SENTENCES // 5 if quick else SENTENCES
    train, test = read(files.train), read(files.test)
    if files.dev is not None:
        return Corpus(train.X[:count], train.y[:count]), read(files.dev), test
    step = len(train.X) // count
    chosen, others = slice(0, count * step, step), slice(1, None, 2 * step)
    return Corpus(train.X[chosen], train.y[chosen]), Corpus(train.X[others], train.y[others]), test


def calibration(quick: bool) -> list[Table]:
    """Return a table with a row for each corpus and data set."""
    columns = ["corpus", "data", "temperature 1", "calibrated", "temperature", "linear CRF"]
    table = Table(f"Expected calibration error, {BINS} bins", columns)
    for name, files in CORPORA.items():
        train, dev, test = split(files, quick)
        words = words_of(train)
        tagger = NeuralTagger(hidden=64, epochs=3 if quick else 30, device="cpu", random_state=0)
        tagger.fit(words, train.y, dev=(words_of(dev), dev.y))
        linear = CRF(l2=1.0, max_iter=100).fit(words, train.y)
        temperature = tagger.temperature_
        for kind, corpus in (("dev", dev), ("test", test)):
            data = words_of(corpus), corpus.y
            after = calibration_error(tagger, *data)
            tagger.temperature_ = 1.0
            before = calibration_error(tagger, *data)
            tagger.temperature_ = temperature
            row = (before, after, temperature, calibration_error(linear, *data))
            table.add(name, kind, *(f"{value:.4f}" for value in row))
    return [table]


if __name__ == "__main__":
    run_sections(__doc__ or "", ["trellis", "torch"], {"calibration": calibration})
