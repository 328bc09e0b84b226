"""Peak memory of a whole training process, for each way to hand over the data.

    python benchmarks/crf_memory.py "ours, file" 8936

trains and prints, as JSON, bytes before and at the peak, and how the training ended.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from crf_data import CHUNKING, Corpus, Outcome, Task, chunking_dicts, chunking_names, made, read
from machine import resident

ITERATIONS = 10  # more than the six memories of L-BFGS, so that all of its pages are in use


class Probe(NamedTuple):
    """What a process says of itself."""

    imported: int  # bytes resident before any data
    peak: int
    loss: float
    digest: str  # of the weights; empty for the peers


def probe(way: str, sentences: int) -> Probe:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, way, str(sentences)]
    reply = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Probe(**json.loads(reply.stdout))


def _peer(items: Callable[[Corpus], Iterable[Any]], sentences: int) -> tuple[Outcome, str]:
    peers = importlib.import_module("crf_peers")
    corpus = read(CHUNKING, sentences)
    trainer = peers.trainer_for(Task("memory", [], [], [], ITERATIONS))
    peers.append(trainer, items(corpus), corpus.y)
    return peers.train(trainer), ""


def _peer_dicts(sentences: int) -> tuple[Outcome, str]:
    corpus = read(CHUNKING, sentences)
    task = Task("memory", [], made(chunking_dicts, corpus), corpus.y, ITERATIONS)
    return importlib.import_module("crf_peers").fit_dicts(task), ""


def _ours(read_tokens: Callable[[int], tuple[Any, Any]], sentences: int) -> tuple[Outcome, str]:
    ours = importlib.import_module("crf_ours")
    features = importlib.import_module("trellis.features").chunking()
    X, y = read_tokens(sentences)
    crf, outcome = ours.train(Task("memory", X, [], y, ITERATIONS, features), n_jobs=1)
    return outcome, ours.digest(crf)


def _from_file(sentences: int) -> tuple[Any, Any]:
    X, y = importlib.import_module("trellis.data.conll").read(CHUNKING)
    return X[:sentences], y[:sentences]


WAYS: dict[str, Callable[[int], tuple[Outcome, str]]] = {
    "python-crfsuite, lists of names": lambda n: _peer(lambda c: made(chunking_names, c), n),
    "python-crfsuite, a sentence at a time": lambda n: _peer(lambda c: map(chunking_names, c.X), n),
    "sklearn-crfsuite, dicts": _peer_dicts,
    "ours, token lists": lambda n: _ours(lambda n: read(CHUNKING, n), n),
    "ours, file": lambda n: _ours(_from_file, n),
}
MODULES = {
    "python-crfsuite": "crf_peers",
    "sklearn-crfsuite": "sklearn_crfsuite",
    "ours": "crf_ours",
}


def main() -> None:
    """In a fresh process: train one way and say what it took."""
    way, sentences = sys.argv[1], int(sys.argv[2])
    side = way.partition(",")[0]
    importlib.import_module(MODULES[side])
    imported = resident("VmRSS")
    outcome, digest = WAYS[way](sentences)
    print(json.dumps(Probe(imported, resident("VmHWM"), outcome.loss, digest)._asdict()))


if __name__ == "__main__":
    main()
