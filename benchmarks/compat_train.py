"""Compare python-crfsuite's Trainer with its replacement: CoNLL-2000, CRFsuite's features.

    python benchmarks/compat_train.py           1,500 sentences, five algorithms, about a minute

Both read the same lists of names, train with the same parameters and write a model file. Before
the times are printed, L-BFGS must end at the same loss, and the models of the other algorithms must
have the same accuracy on the training data.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pycrfsuite
from crf_data import CHUNKING, build_all, chunking_names, read
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
    """Train on lists of names and write the model file; return the parsed log."""
    trainer = library.Trainer(algorithm, ALGORITHMS[algorithm], verbose=False)
    for x, labels in zip(X, y, strict=True):
        trainer.append(x, labels)
    trainer.train(str(path))
    return trainer.logparser


def check(algorithm: str, logs: list[Any], paths: list[Path], X: Any, y: Any) -> None:
    """Raise unless both models are equivalent."""
    losses = [log.last_iteration["loss"] for log in logs]
    if algorithm == "lbfgs" and abs(losses[0] - losses[1]) > 1e-4 * losses[1]:
        raise WrongResultError(f"{algorithm}: the losses differ: {losses}")
    correct = []
    for path in paths:
        tagger = ours.Tagger()
        tagger.open(str(path))
        pairs = zip((tagger.tag(x) for x in X), y, strict=True)
        correct.append(sum(a == b for p in pairs for a, b in zip(*p, strict=True)))
    if abs(correct[0] - correct[1]) > 0.01 * sum(map(len, y)):
        raise WrongResultError(f"{algorithm}: the numbers of correct labels differ: {correct}")


def main() -> None:
    """Print a table with a row for each algorithm."""
    print(describe_machine(("trellis", "python-crfsuite")))
    corpus = read(CHUNKING, SENTENCES)
    X, y = build_all(chunking_names, corpus), corpus.y
    table = Table("Trainer, append to file", ("algorithm", "ours, s", "theirs, s", "ratio"))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("ours", "theirs")]
        for algorithm in ALGORITHMS:
            libraries = list(zip((ours, pycrfsuite), paths, strict=True))
            logs = [train(library, algorithm, X, y, path) for library, path in libraries]
            check(algorithm, logs, paths, X, y)
            calls = [
                lambda lib=library, name=algorithm, path=path: train(lib, name, X, y, path)
                for library, path in libraries
            ]
            cases = [Case("ours", calls[0], REPEATS), Case("theirs", calls[1], REPEATS)]
            times = time_alternating(cases, REPEATS)
            our_time, peer_time = times["ours"], times["theirs"]
            seconds = (f"{our_time.median:.2f}", f"{peer_time.median:.2f}")
            table.add(algorithm, *seconds, ratio(peer_time, our_time))
            table.keep(algorithm, times)
    print(table.text(False))


if __name__ == "__main__":
    main()
