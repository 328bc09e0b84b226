"""Partial labels: a label here and there in all sentences, against all labels of some.

A CRF learns from what is known: with labels y_K known at some positions, it maximises
log p(y_K | x) = log Σ_y p(y | x) over all labellings y that agree with them. Two ways to spend the
same number of labels on the sentences of CoNLL-2000 are compared: at random positions of all
sentences, the others left unknown (``None``), and at all positions of randomly chosen sentences.

    python examples/partial_labels.py [--data FOLDER] [--figure partial_labels.svg]

FOLDER holds conll2000.train.conll.gz and conll2000.test.conll.gz: word, part of speech, chunk.
"""

import argparse
from pathlib import Path

import numpy as np

from trellis import CRF
from trellis.data import conll
from trellis.features import chunking
from trellis.metrics import span_f1
from trellis.plots import curves

DATA = Path(__file__).parents[2] / "shared" / "data" / "chunking"
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
POSITIONS, SENTENCES = "positions of all sentences", "whole sentences"


def some_positions(X: list, y: list, share: float, rng: np.random.Generator) -> tuple[list, list]:
    """All sentences; each label is known with probability share."""
    hidden = [
        [label if known else None for label, known in zip(own, mask, strict=True)]
        for own in y
        for mask in [rng.random(len(own)) < share]
    ]
    return X, hidden


def some_sentences(X: list, y: list, share: float, rng: np.random.Generator) -> tuple[list, list]:
    """A share of the sentences with all their labels."""
    chosen = sorted(rng.permutation(len(X))[: round(share * len(X))])
    return [X[i] for i in chosen], [y[i] for i in chosen]


def main() -> None:
    """Train both ways with ever more labels, print, draw."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, default=DATA, help="folder of the two files")
    options.add_argument("--figure", type=Path, help="SVG file to write")
    given = options.parse_args()
    X, y = conll.read(given.data / "conll2000.train.conll.gz")
    test, gold = conll.read(given.data / "conll2000.test.conll.gz")

    print(f"{sum(map(len, X)):,} tokens of {len(X):,} sentences; chunk F1 on the test set\n")
    print(f"labels known   at {POSITIONS}   of {SENTENCES}")
    series: dict[str, list] = {POSITIONS: [], SENTENCES: []}
    for share in SHARES:
        for name, choose in ((POSITIONS, some_positions), (SENTENCES, some_sentences)):
            labelled = choose(X, y, share, np.random.default_rng(0))
            crf = CRF(chunking(), max_iter=100).fit(*labelled)
            series[name].append((100 * share, 100 * span_f1(gold, crf.predict(test))))
        first, second = (series[name][-1][1] for name in (POSITIONS, SENTENCES))
        print(f"{share:12.0%}{first:32.2f}{second:21.2f}", flush=True)
    if given.figure:
        title = "CoNLL-2000: where to spend the labels"
        curves(series, "labels known, %", "test chunk F1", title).save(given.figure)


if __name__ == "__main__":
    main()
