"""python-crfsuite's Trainer and the face of it in one process: CoNLL-2000, CRFsuite's features.

    python benchmarks/compat_train.py           1,500 sentences, five algorithms, about a minute

Both read the same lists of names, train with the same parameters and write a model file. L-BFGS
must end at the same loss, and the others must be as good on what they learned from, before a time
counts.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pycrfsuite
from crf_data import CHUNKING, chunking_names, made, read
from timing import Case, Table, WrongResultError, describe_machine, ratio, time_alternating

from trellis.compat import pycrfsuite as ours

SENTENCES, REPEATS = 1500, 3
ALGORITHMS = {
    "lbfgs": {"max_iterations": 20},
    "l2sgd": {"max_iterations": 5, "calibration.candidates": 3},
    "ap": {"max_iterations": 5},
    "pa": {"max_iterations": 5},
    "arow": {"max_iterations": 5},
}


def train(library: Any, algorithm: str, X: Any, y: Any, path: Path) -> Any:
    """A trained model, from lists of names to the file."""
    trainer = library.Trainer(algorithm, ALGORITHMS[algorithm], verbose=False)
    for x, labels in zip(X, y, strict=True):
        trainer.append(x, labels)
    trainer.train(str(path))
    return trainer.logparser


def check(algorithm: str, logs: list[Any], paths: list[Path], X: Any, y: Any) -> None:
    """Both must have learned the same."""
    losses = [log.last_iteration["loss"] for log in logs]
    if algorithm == "lbfgs" and abs(losses[0] - losses[1]) > 1e-4 * losses[1]:
        raise WrongResultError(f"{algorithm}: losses {losses}")
    right = []
    for path in paths:
        tagger = ours.Tagger()
        tagger.open(str(path))
        found = [tagger.tag(x) for x in X]
        right.append(
            sum(
                a == b for f, own in zip(found, y, strict=True) for a, b in zip(f, own, strict=True)
            )
        )
    if abs(right[0] - right[1]) > 0.01 * sum(map(len, y)):
        raise WrongResultError(f"{algorithm}: {right} labels are right")


def main() -> None:
    """One row for each algorithm."""
    print(describe_machine(("trellis", "python-crfsuite")))
    corpus = read(CHUNKING, SENTENCES)
    X, y = made(chunking_names, corpus), corpus.y
    table = Table("Trainer, append to file", ("algorithm", "ours, s", "theirs, s", "ratio"))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("ours", "theirs")]
        for algorithm in ALGORITHMS:
            both = list(zip((ours, pycrfsuite), paths, strict=True))
            logs = [train(own, algorithm, X, y, path) for own, path in both]
            check(algorithm, logs, paths, X, y)
            calls = [
                lambda own=own, name=algorithm, path=path: train(own, name, X, y, path)
                for own, path in both
            ]
            cases = [Case("ours", calls[0], REPEATS), Case("theirs", calls[1], REPEATS)]
            times = time_alternating(cases, REPEATS)
            a, b = times["ours"], times["theirs"]
            table.add(algorithm, f"{a.median:.2f}", f"{b.median:.2f}", ratio(b, a))
            table.keep(algorithm, times)
    print(table.text(False))


if __name__ == "__main__":
    main()
