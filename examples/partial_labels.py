"""Partial labels: some labels of all sentences, compared with all labels of some sentences.

A CRF can learn from sentences with missing labels. With labels y_K known at some positions, it
maximises log p(y_K | x) = log Σ_y p(y | x), where the sum is over all labellings y that agree with
y_K. The example spends the same number of labels on CoNLL-2000 in two ways: at random positions of
all sentences (the other labels are ``None``), and at all positions of random sentences.

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
POSITIONS, SENTENCES = "positions of all sentences", "complete sentences"


def some_positions(X: list, y: list, share: float, rng: np.random.Generator) -> tuple[list, list]:
    """Return all sentences, in which each label is known with probability ``share``."""
    hidden = [
        [label if known else None for label, known in zip(labels, mask, strict=True)]
        for labels in y
        for mask in [rng.random(len(labels)) < share]
    ]
    return X, hidden


def some_sentences(X: list, y: list, share: float, rng: np.random.Generator) -> tuple[list, list]:
    """Return a random fraction of the sentences, with all labels."""
    chosen = sorted(rng.permutation(len(X))[: round(share * len(X))])
    return [X[i] for i in chosen], [y[i] for i in chosen]


def main() -> None:
    """Train with increasing numbers of labels of both kinds, then print and draw the scores."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the two files")
    parser.add_argument("--figure", type=Path, help="SVG file to write")
    options = parser.parse_args()
    X, y = conll.read(options.data / "conll2000.train.conll.gz")
    test, gold = conll.read(options.data / "conll2000.test.conll.gz")

    print(f"{sum(map(len, X)):,} tokens of {len(X):,} sentences; chunk F1 on the test set\n")
    print(f"known labels   at {POSITIONS}   of {SENTENCES}")
    series: dict[str, list] = {POSITIONS: [], SENTENCES: []}
    for share in SHARES:
        for name, choose in ((POSITIONS, some_positions), (SENTENCES, some_sentences)):
            labelled = choose(X, y, share, np.random.default_rng(0))
            crf = CRF(chunking(), l2=1.0, max_iter=100).fit(*labelled)
            series[name].append((100 * share, 100 * span_f1(gold, crf.predict(test))))
        first, second = (series[name][-1][1] for name in (POSITIONS, SENTENCES))
        print(f"{share:12.0%}{first:32.2f}{second:21.2f}", flush=True)
    if options.figure:
        title = "CoNLL-2000: which labels to spend money on"
        curves(series, "known labels, %", "test chunk F1", title).save(options.figure)


if __name__ == "__main__":
    main()
