"""Measure the peak memory of a training process, for each form of the input.

    python benchmarks/crf_memory.py "ours, file" 8936

This example trains on 8,936 sentences. It prints as JSON the memory before the training, the peak
memory, and the loss.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from corpora import require
from crf_data import (
    CHUNKING,
    Corpus,
    Outcome,
    Task,
    build_all,
    chunking_dicts,
    chunking_names,
    read,
)
from machine import resident

# more than the six corrections that L-BFGS stores, so that all of its memory is in use
ITERATIONS = 10


class Probe(NamedTuple):
    """Memory and result of a training process."""

    imported: int  # resident bytes after the imports, before any data
    peak: int  # bytes
    loss: float
    digest: str  # checksum of the weights; empty for the peers


def measure_in_process(form: str, sentences: int) -> Probe:
    """Train in a new process, and return its measurements."""
    command = [sys.executable, __file__, form, str(sentences)]
    reply = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Probe(**json.loads(reply.stdout))


def _train_peer(items: Callable[[Corpus], Iterable[Any]], sentences: int) -> tuple[Outcome, str]:
    peers = importlib.import_module("crf_peers")
    corpus = read(CHUNKING, sentences)
    trainer = peers.trainer_for(Task("memory", [], [], [], ITERATIONS))
    peers.append(trainer, items(corpus), corpus.y)
    return peers.train(trainer), ""


def _train_peer_on_dicts(sentences: int) -> tuple[Outcome, str]:
    corpus = read(CHUNKING, sentences)
    task = Task("memory", [], build_all(chunking_dicts, corpus), corpus.y, ITERATIONS)
    return importlib.import_module("crf_peers").fit_dicts(task), ""


def _train_ours(
    read_tokens: Callable[[int], tuple[Any, Any]], sentences: int
) -> tuple[Outcome, str]:
    ours = importlib.import_module("crf_ours")
    features = importlib.import_module("trellis.features").chunking()
    X, y = read_tokens(sentences)
    crf, outcome = ours.train(Task("memory", X, [], y, ITERATIONS, features), n_jobs=1)
    return outcome, ours.digest(crf)


def _read_file(sentences: int) -> tuple[Any, Any]:
    X, y = importlib.import_module("trellis.data.conll").read(require(CHUNKING))
    return X[:sentences], y[:sentences]


FORMS: dict[str, Callable[[int], tuple[Outcome, str]]] = {
    "python-crfsuite, lists of names": lambda n: _train_peer(
        lambda c: build_all(chunking_names, c), n
    ),
    "python-crfsuite, a sentence at a time": lambda n: _train_peer(
        lambda c: map(chunking_names, c.X), n
    ),
    "sklearn-crfsuite, dicts": _train_peer_on_dicts,
    "ours, token lists": lambda n: _train_ours(lambda n: read(CHUNKING, n), n),
    "ours, file": lambda n: _train_ours(_read_file, n),
}
MODULES = {
    "python-crfsuite": "crf_peers",
    "sklearn-crfsuite": "sklearn_crfsuite",
    "ours": "crf_ours",
}


def main() -> None:
    """Train with one form of the input, and print the measurements."""
    form, sentences = sys.argv[1], int(sys.argv[2])
    side = form.partition(",")[0]
    importlib.import_module(MODULES[side])
    imported = resident("VmRSS")
    outcome, digest = FORMS[form](sentences)
    print(json.dumps(Probe(imported, resident("VmHWM"), outcome.loss, digest)._asdict()))


if __name__ == "__main__":
    main()
