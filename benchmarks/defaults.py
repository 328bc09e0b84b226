"""Scores of the default penalties, before and now, and of the penalty that --tune chooses.

    python benchmarks/defaults.py --quick                  # 500 sentences of each corpus, minutes
    python benchmarks/defaults.py --json benchmarks/results/defaults.json

Each model is `CRF(l2=…)` with the features that it has by default. The old default was l2=1, the
new one is l2="auto". The tuned value is the best of eight on the development set; the table has the
scores on the test set, which nothing was chosen by. A corpus without a development set gives every
tenth training sentence. The second table has the time of the search, and the calibration error of
the probabilities (see calibration.py).
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from calibration import calibration_error
from corpora import require
from sections import run_sections
from timing import Table

from trellis import CRF
from trellis.app.training.tuning import score, search
from trellis.data import conll, conllu, tags

VALUES, OLD_DEFAULT, QUICK = 8, 1.0, 500
Data = tuple[list[Any], list[Any]]


class Source(NamedTuple):
    """The files of a corpus, and the number of sentences to use; None means all."""

    train: str
    dev: str | None
    test: str
    count: int | None = None
    tested: int | None = None
    column: str = "upos"
    """The labels of CoNLL-U files."""


LETTERS = "ocr/letters.npz"
CORPORA = {
    "CoNLL-2000, chunks": Source("chunking/conll2000.train.conll.gz", None,
                                 "chunking/conll2000.test.conll.gz"),
    "CoNLL-2002, Spanish": Source("ner/conll2002-es.train.conll.gz",
                                  "ner/conll2002-es.testa.conll.gz",
                                  "ner/conll2002-es.testb.conll.gz"),
    "CoNLL-2002, Dutch": Source("ner/conll2002-nl.train.conll.gz",
                                "ner/conll2002-nl.testa.conll.gz",
                                "ner/conll2002-nl.testb.conll.gz"),
    "WNUT-17": Source("ner/wnut17.train.conll.gz", "ner/wnut17.dev.conll.gz",
                      "ner/wnut17.test.conll.gz"),
    "GUM, UPOS": Source("pos/ud-en-gum.train.conllu.gz", "pos/ud-en-gum.dev.conllu.gz",
                        "pos/ud-en-gum.test.conllu.gz"),
    "SNIPS": Source("slots/snips.train.conll.gz", None, "slots/snips.test.conll.gz"),
    "SNIPS, 300 sentences": Source("slots/snips.train.conll.gz", None,
                                   "slots/snips.test.conll.gz", 300),
    "US addresses": Source("addresses/usaddress.train.conll.gz", None,
                           "addresses/usaddress.test.conll.gz"),
    "Brown, 1,000 sentences": Source("pos/brown.train.conll.gz", None,
                                     "pos/brown.test.conll.gz", 1000, 500),
    "GUM, XPOS, 2,000 sentences": Source("pos/ud-en-gum.train.conllu.gz",
                                         "pos/ud-en-gum.dev.conllu.gz",
                                         "pos/ud-en-gum.test.conllu.gz", 2000, None, "xpos"),
    "OCR letters": Source(LETTERS, LETTERS, LETTERS),
}  # fmt: skip


def read(name: str, column: str) -> Data:
    """Return the sentences and labels of a file."""
    path = require(name)
    return conllu.read(path, column=column) if ".conllu" in name else conll.read(path)


def read_letters() -> tuple[Data, Data, Data]:
    """Return words of folds 2 to 9, 1 and 0 as arrays of pixels, (letters, 128), and letters."""
    file = np.load(require(LETTERS))
    cuts, fold = file["word_offsets"][1:-1], file["fold"]
    words = np.split(np.unpackbits(file["pixels"], axis=1).astype(np.float64), cuts)
    letters = [[chr(ord("a") + n) for n in word] for word in np.split(file["labels"], cuts)]

    def take(is_chosen: Any) -> Data:
        chosen = np.flatnonzero(is_chosen).tolist()
        return [words[i] for i in chosen], [letters[i] for i in chosen]

    return take(fold >= 2), take(fold == 1), take(fold == 0)


def thin(data: Data, count: int | None) -> Data:
    """Return about ``count`` sentences, evenly spaced; SNIPS and Brown are sorted by topic."""
    step = max(1, len(data[0]) // count) if count else 1
    return data[0][::step][:count], data[1][::step][:count]


def split(source: Source, quick: bool) -> tuple[Data, Data, Data]:
    """Return the training, development and test data."""
    count = min(QUICK, source.count or QUICK) if quick else source.count
    if source.train == LETTERS:
        train, dev, test = read_letters()
        return thin(train, count), thin(dev, QUICK if quick else None), test
    test = thin(read(source.test, source.column), QUICK if quick else source.tested)
    train = read(source.train, source.column)
    if source.dev is not None:
        dev = read(source.dev, source.column)
        return thin(train, count), thin(dev, QUICK if quick else None), test
    X, y = train
    dev = X[9::10], y[9::10]
    rest = [x for i, x in enumerate(X) if i % 10 != 9], [y for i, y in enumerate(y) if i % 10 != 9]
    return thin(rest, count), thin(dev, QUICK if quick else 1500), test


class Run(NamedTuple):
    """A fitted model, its score on the test set in percent, and the seconds of its training."""

    model: Any
    score: float
    seconds: float


def run(l2: Any, train: Data, test: Data, scheme: str) -> Run:
    """Train with one penalty, and score the test set."""
    start = time.perf_counter()
    model = CRF(l2=l2, n_jobs=1).fit(*train)
    seconds = time.perf_counter() - start
    return Run(model, 100 * score(test[1], model.predict(test[0]), scheme), seconds)


def defaults(quick: bool) -> list[Table]:
    """Return the table of scores, and the table of times and calibration errors."""
    metric = "span F1 or accuracy on the test set, %"
    columns = ["corpus", "sentences", "tokens", "labels", "l2=1", "auto", "tuned",
               "auto - tuned", "l2 auto", "l2 tuned"]  # fmt: skip
    scores = Table(f"Default and tuned penalties: {metric}", columns)
    columns = ["corpus", "l2=1, s", "auto, s", "search, s", "error, l2=1", "error, auto"]
    others = Table("Time of one training and of the search, calibration error on test", columns)
    for name, source in CORPORA.items():
        train, dev, test = split(source, quick)
        labels = {label for row in train[1] for label in row}
        scheme = tags.detect(labels, otherwise="plain")
        start = time.perf_counter()
        trials = [*search(CRF(n_jobs=1), *train, VALUES, 0, dev)]
        seconds = time.perf_counter() - start
        best = max(trials, key=lambda trial: trial.score)
        old, new, tuned = (run(l2, train, test, scheme) for l2 in (OLD_DEFAULT, "auto", best.l2))
        row = [f"{result.score:.2f}" for result in (old, new, tuned)]
        row += [f"{new.score - tuned.score:+.2f}", f"{new.model.l2_:.3g}", f"{best.l2:.3g}"]
        scores.add(name, len(train[0]), sum(map(len, train[1])), len(labels), *row)
        errors = [f"{calibration_error(result.model, *test):.4f}" for result in (old, new)]
        others.add(name, *(f"{s:.1f}" for s in (old.seconds, new.seconds, seconds)), *errors)
        print(name, *row, flush=True)
    scores.notes.append(f"tuned: the best of {VALUES} values of l2 on the development set")
    return [scores, others]


if __name__ == "__main__":
    run_sections(str(__doc__), [], {"defaults": defaults})
