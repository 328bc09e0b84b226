"""Compare two installs of trellis with each other: times in turns, and the bits of their results.

    python benchmarks/versions.py OLD/bin/python NEW/bin/python
    python benchmarks/versions.py OLD/bin/python NEW/bin/python --only "CRF fit" --repeats 25
    python benchmarks/versions.py --list

Each operation runs in two processes, one per install. They take turns call by call, so that noise
affects both. The column `ratio` is new / old of the medians. `paired` is the median of the ratios
of neighbouring calls, which resists slow drift better. `bits` compares checksums of the results.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import format_rows

Call = Callable[[], Any]
"""``call() -> result``: one timed call; the result is hashed by `digest`."""

OPERATIONS: dict[str, Callable[[], Call]] = {}


def operation(name: str) -> Callable[[Callable[[], Call]], Callable[[], Call]]:
    """Register a function that prepares the data of an operation and returns the timed call."""

    def register(prepare: Callable[[], Call]) -> Callable[[], Call]:
        OPERATIONS[name] = prepare
        return prepare

    return register


# ---- the operations; the imports are inside, because each worker needs only some of them


def _scores(count: int, length: int, labels: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(length, labels)) for _ in range(count)], rng.normal(
        size=(labels, labels)
    )


@operation("chain marginals (200, 25, 20)")
def _chain_marginals() -> Call:
    from trellis.inference import chain

    unary, transition = _scores(200, 25, 20)
    return lambda: chain.marginals(unary, transition)


@operation("chain viterbi (200, 25, 20)")
def _chain_viterbi() -> Call:
    from trellis.inference import chain

    unary, transition = _scores(200, 25, 20)
    return lambda: chain.viterbi(unary, transition)


@operation("chain log Z, one long sequence (1, 100000, 9)")
def _chain_long() -> Call:
    from trellis.inference import chain

    unary, transition = _scores(1, 100_000, 9)
    return lambda: chain.log_partition(unary, transition)


@operation("chain kbest (50, 25, 20), k = 10")
def _chain_kbest() -> Call:
    from trellis.inference import chain

    unary, transition = _scores(50, 25, 20)
    return lambda: chain.kbest(unary, transition, k=10)


def _layer_inputs() -> tuple[Any, Any, Any]:
    import torch

    torch.manual_seed(0)
    emissions = torch.randn(32, 64, 20, requires_grad=True)
    mask = torch.arange(64) < torch.randint(20, 65, (32, 1))
    return emissions, torch.randint(0, 20, (32, 64)), mask


@operation("nn.CRF step (32, 64, 20)")
def _layer_step() -> Call:
    import torch

    from trellis.nn import CRF

    emissions, tags, mask = _layer_inputs()
    torch.manual_seed(1)
    layer = CRF(20, batch_first=True)

    def step() -> Any:
        loss = -layer(emissions, tags, mask=mask)
        (gradient,) = torch.autograd.grad(loss, emissions)
        return gradient.numpy()

    return step


@operation("nn.CRF decode (32, 64, 20)")
def _layer_decode() -> Call:
    import torch

    from trellis.nn import CRF

    emissions, _, mask = _layer_inputs()
    torch.manual_seed(1)
    layer = CRF(20, batch_first=True)
    return lambda: layer.decode(emissions.detach(), mask=mask)


@operation("CTC layer (16, 150, 32)")
def _ctc_layer() -> Call:
    import torch

    from trellis.nn import ctc_loss

    torch.manual_seed(0)
    logits = torch.randn(150, 16, 32).log_softmax(2).requires_grad_()
    targets = torch.randint(1, 32, (16, 30))
    frames, lengths = torch.full((16,), 150), torch.full((16,), 30)

    def step() -> Any:
        loss = ctc_loss(logits, targets, frames, lengths)
        (gradient,) = torch.autograd.grad(loss, logits)
        return gradient.numpy()

    return step


@operation("CTC beam search (500, 32), width 100")
def _ctc_beam() -> Call:
    from trellis.inference import ctc

    log_probs = _emissions(500, 32)
    return lambda: [(h.labels, h.log_prob) for h in ctc.beam_search(log_probs, beam_width=100)]


def _emissions(frames: int, symbols: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(frames, symbols))
    logits[np.arange(frames), rng.integers(0, symbols, frames)] += 7
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


@operation("CTCDecoder (300, 28)")
def _ctc_decoder() -> Call:
    from trellis import CTCDecoder

    decoder = CTCDecoder(["", " ", *"abcdefghijklmnopqrstuvwxyz"])
    log_probs = _emissions(300, 28)
    return lambda: decoder.decode(log_probs)


def _chunking(part: str, count: int | None) -> tuple[list[Any], list[Any]]:
    from crf_data import CHUNKING, CHUNKING_TEST, read

    corpus = read(CHUNKING if part == "train" else CHUNKING_TEST, count)
    return corpus.X, corpus.y


def _fit(solver: str, iterations: int, count: int, **settings: Any) -> Call:
    from trellis import CRF
    from trellis.features import chunking

    X, y = _chunking("train", count)
    return lambda: (
        CRF(
            chunking(),
            l2=1.0,
            solver=solver,
            max_iter=iterations,
            n_jobs=1,
            random_state=1,
            **settings,
        )
        .fit(X, y)
        .coef_
    )


@operation("CRF fit, lbfgs, 1500 sentences")
def _fit_lbfgs() -> Call:
    return _fit("lbfgs", 10, 1500)


@operation("CRF fit, l1, 1500 sentences")
def _fit_l1() -> Call:
    return _fit("lbfgs", 10, 1500, l1=0.5)


@operation("CRF fit, perceptron, 1500 sentences")
def _fit_perceptron() -> Call:
    return _fit("perceptron", 3, 1500)


def _model() -> Any:
    from trellis import CRF
    from trellis.features import chunking

    X, y = _chunking("train", 500)
    return CRF(chunking(), l2=1.0, max_iter=15).fit(X, y)


@operation("CRF predict, 2012 sentences")
def _predict() -> Call:
    crf, (X, _) = _model(), _chunking("test", None)
    return lambda: crf.predict(X)


@operation("CRF marginals, 2012 sentences")
def _predict_marginals() -> Call:
    crf, (X, _) = _model(), _chunking("test", None)
    return lambda: crf.predict_marginals(X)


@operation("CRF predict, one sentence")
def _predict_one() -> Call:
    crf, (X, _) = _model(), _chunking("test", 1)
    return lambda: [crf.predict(X) for _ in range(100)]


@operation("CRF predict, dicts, 500 sentences")
def _predict_dicts() -> Call:
    from crf_data import build_all, chunking_dicts, read

    from trellis import CRF

    corpus = read("chunking/conll2000.train.conll.gz", 500)
    items = build_all(chunking_dicts, corpus)
    crf = CRF(l2=1.0, max_iter=10).fit(items, corpus.y)
    return lambda: crf.predict(items)


def _text() -> list[list[str]]:
    X, _ = _chunking("train", None)
    return [[token[0] for token in sentence] for sentence in X]


@operation("Word2Vec fit, 212,000 words")
def _word2vec() -> Call:
    from trellis import Word2Vec

    text = _text()
    return lambda: Word2Vec(50, epochs=1, n_jobs=1, random_state=1).fit(text).input_


@operation("FastText fit, 3000 sentences")
def _fasttext() -> Call:
    from trellis import FastText

    text = _text()[:3000]
    return lambda: FastText(50, epochs=1, bucket=20_000, n_jobs=1, random_state=1).fit(text).input_


@operation("graph marginals, grid 40 x 40")
def _graph() -> Call:
    from trellis.inference import graph

    rng = np.random.default_rng(0)
    unary = rng.normal(size=(40, 40, 4))
    transition = rng.normal(size=(4, 4))
    return lambda: graph.grid_marginals(unary, transition, transition)


@operation("NeuralTagger fit, 200 sentences")
def _tagger() -> Call:
    import torch

    from trellis import NeuralTagger

    torch.set_num_threads(1)
    X, y = _chunking("train", 200)
    X = [[token[0] for token in sentence] for sentence in X]
    return lambda: NeuralTagger(epochs=1, random_state=1).fit(X, y).losses_


# ---- taking turns


def digest(value: Any) -> str:
    """Return a checksum of arrays and plain values, nested in lists, tuples and dicts."""
    state = hashlib.sha256()
    _feed(state, value)
    return state.hexdigest()[:12]


def _feed(state: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        state.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, dict):
        _feed(state, sorted(value.items()))
    elif isinstance(value, list | tuple):
        for item in value:
            _feed(state, item)
    else:
        state.update(repr(value).encode())


def work(name: str) -> None:
    """Prepare the operation, print a checksum of its result, then time one call per input line."""
    call = OPERATIONS[name]()
    print(digest(call()), flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        call()
        print(time.perf_counter() - begin, flush=True)


class Worker:
    """A process that runs one operation with one install."""

    def __init__(self, python: str, name: str) -> None:
        command = [python, str(Path(__file__)), "--worker", name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.digest = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise SystemExit(f"a worker ended early: {self._process.args}")
        return line

    def seconds(self) -> float:
        """Return the time of one call."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def compare(name: str, old: str, new: str, repeats: int) -> list[Any]:
    """Return the row of one operation."""
    workers = [Worker(old, name), Worker(new, name)]
    for worker in workers:
        worker.seconds()  # warm caches
    turns = []
    for turn in range(repeats):
        order = (0, 1) if turn % 2 == 0 else (1, 0)
        seconds = {side: workers[side].seconds() for side in order}
        turns.append((seconds[0], seconds[1]))
    for worker in workers:
        worker.close()
    before, after = (statistics.median(side) for side in zip(*turns, strict=True))
    best = min(b for _, b in turns) / min(a for a, _ in turns)
    paired = statistics.median(b / a for a, b in turns)
    bits = "same" if workers[0].digest == workers[1].digest else "differ"
    return [name, 1e3 * before, 1e3 * after, after / before, paired, best, bits]


def main() -> None:
    """Run the chosen operations and print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", nargs="?", help="python of the environment with the old version")
    parser.add_argument("new", nargs="?", help="python of the environment with the new version")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="operations whose name contains this"
    )
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--list", action="store_true", help="list the operations")
    parser.add_argument("--worker", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker)
    if options.list:
        return print("\n".join(OPERATIONS))
    if not (options.old and options.new):
        parser.error("give the python of both environments")
    names = [name for name in OPERATIONS if any(part in name for part in options.only)]
    columns = ("operation", "old ms", "new ms", "ratio", "paired", "minima", "bits")
    rows = []
    for name in names:
        rows.append(compare(name, options.old, options.new, options.repeats))
        print("  ".join(format_rows(columns, rows[-1:])[2:]), flush=True)
    return print("\n" + "\n".join(format_rows(columns, rows)))


if __name__ == "__main__":
    main()
