"""Peak memory of a training process: python-crfsuite, sklearn-crfsuite, and trellis in their place.

    python benchmarks/compat_memory.py          # four corpora, L-BFGS, minutes

Each training is a new process that reads a corpus, builds the features of one sentence at a time
(of all sentences for sklearn-crfsuite, which takes lists), trains, and writes the model. All
programs of a corpus minimise the same objective on the same features. The figures are the
peak of the resident memory (VmHWM), the interpreter and all imports included. This script imports
NumPy, which python-crfsuite does not need, only where it prints the table.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corpora import require
from crf_data import CHUNKING, Corpus, build_all, chunking_names, pos_names, read

ITERATIONS = 20  # more than the six corrections that L-BFGS stores
CORPORA: dict[str, tuple[str, int | None]] = {
    "WNUT-17": ("ner/wnut17.train.conll.gz", None),
    "SNIPS, 3,000 queries": ("slots/snips.train.conll.gz", 3000),
    "addresses": ("addresses/usaddress.train.conll.gz", None),
    "CoNLL-2000, 3,000 sentences": (CHUNKING, 3000),
}
MEGABYTE = 1 << 20


def features(corpus: Corpus) -> Callable[[Any], list[list[str]]]:
    """Return the function that builds the features of a sentence."""
    return chunking_names if len(corpus.X[0][0]) > 1 else pos_names


def train_pycrfsuite(module: str, corpus: Corpus, path: str) -> float:
    """Append one sentence at a time, train, and return the last loss."""
    trainer = importlib.import_module(module).Trainer("lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": 1.0, "max_iterations": ITERATIONS})
    build = features(corpus)
    for sentence, labels in zip(corpus.X, corpus.y, strict=True):
        trainer.append(build(sentence), labels)
    trainer.train(path)
    return float(trainer.logparser.last_iteration["loss"])


def train_sklearn_crfsuite(module: str, corpus: Corpus, path: str) -> float:
    """Fit on lists of features, and return the last loss."""
    library = importlib.import_module(module)
    crf = library.CRF(c1=0.0, c2=1.0, max_iterations=ITERATIONS, model_filename=path)
    crf.fit(build_all(features(corpus), corpus), corpus.y)
    return float(crf.training_log_.last_iteration["loss"])


def train_trellis(module: str, corpus: Corpus, path: str) -> float:
    """Fit trellis.CRF with a function that builds the features, and return the last loss."""
    options = {"l2": 2.0, "transitions": "seen", "max_iter": ITERATIONS}
    crf = importlib.import_module(module).CRF(features(corpus), **options)
    crf.fit(corpus.X, corpus.y)
    return float(crf.losses_[-1][-1])


PROGRAMS: dict[str, tuple[Callable[[str, Corpus, str], float], str]] = {
    "python-crfsuite": (train_pycrfsuite, "pycrfsuite"),
    "compat.pycrfsuite": (train_pycrfsuite, "trellis.compat.pycrfsuite"),
    "trellis.CRF": (train_trellis, "trellis"),
    "sklearn-crfsuite": (train_sklearn_crfsuite, "sklearn_crfsuite"),
    "compat.sklearn_crfsuite": (train_sklearn_crfsuite, "trellis.compat.sklearn_crfsuite"),
}


def measure(program: str, corpus: str) -> tuple[int, float]:
    """Train in a new process; return its peak memory in bytes and the last loss."""
    command = [sys.executable, __file__, program, corpus]
    reply = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    peak, loss = json.loads(reply.stdout)
    return peak, loss


def probe(program: str, corpus: str) -> None:
    """Train in this process, and print the peak memory and the loss as JSON."""
    train, module = PROGRAMS[program]
    name, count = CORPORA[corpus]
    with tempfile.TemporaryDirectory() as folder:
        loss = train(module, read(name, count), str(Path(folder, "model")))
    status = Path("/proc/self/status").read_text()
    print(json.dumps([1024 * int(status.partition("VmHWM:")[2].split()[0]), loss]))


def main() -> None:
    """Print a table with a row for each corpus."""
    from timing import Table, WrongResultError, describe_machine

    print(describe_machine(("trellis", "python-crfsuite", "sklearn-crfsuite")))
    table = Table("Peak memory of a training, MB", ("corpus", *PROGRAMS))
    for corpus in CORPORA:
        require(CORPORA[corpus][0])
        results = {program: measure(program, corpus) for program in PROGRAMS}
        losses = [loss for _, loss in results.values()]
        if max(losses) > 1.02 * min(losses):  # the iterations differ a little before they converge
            raise WrongResultError(f"{corpus}: the losses differ: {losses}")
        table.add(corpus, *(f"{peak / MEGABYTE:.0f}" for peak, _ in results.values()))
    print(table.text(False))


if __name__ == "__main__":
    probe(*sys.argv[1:]) if len(sys.argv) > 1 else main()
