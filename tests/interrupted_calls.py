"""Long native calls: run as ``interrupted_calls.py NAME``.

A signal arrives DELAY seconds after the start of the call; its handler raises KeyboardInterrupt, as
that of Ctrl-C. The script prints ``interrupted`` and the seconds since the signal if the call did
not finish, else ``finished``.
"""

from __future__ import annotations

import operator
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

import interrupted_model_calls
import numpy as np

from trellis import _core

DELAY = 0.1  # s from the start of the call to the signal
THREADS = 2


def chain(sequences: int, length: int, labels: int, wide: bool = False) -> _core.ChainFloat64:
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(sequences * length, labels))
    transition = rng.normal(size=(labels, labels)) * (1000.0 if wide else 1.0)
    starts = np.arange(sequences, dtype=np.int64) * length
    return _core.ChainFloat64(
        unary, starts, np.full(sequences, length), transition, None, None, None, THREADS
    )


def outcomes(sequences: int) -> np.ndarray:
    return np.zeros((sequences, 2), np.int64)


def log_partition(
    sequences: int, length: int, labels: int, wide: bool = False
) -> Callable[[], None]:
    batch = chain(sequences, length, labels, wide)
    return partial(batch.log_partition, np.zeros(sequences), outcomes(sequences))


def marginals(sequences: int, length: int, labels: int, wide: bool = False) -> Callable[[], None]:
    batch, out = chain(sequences, length, labels, wide), np.zeros((sequences * length, labels))
    counts = np.zeros((labels, labels))
    return partial(
        batch.marginals, out, None, None, counts, np.zeros(sequences), outcomes(sequences), None
    )


def viterbi(sequences: int, length: int, labels: int) -> Callable[[], None]:
    batch, out = chain(sequences, length, labels), np.zeros(sequences * length, np.int64)
    return partial(batch.viterbi, out, np.zeros(sequences), outcomes(sequences))


def max_marginals(sequences: int, length: int, labels: int) -> Callable[[], None]:
    batch, out = chain(sequences, length, labels), np.zeros((sequences * length, labels))
    return partial(batch.max_marginals, out, outcomes(sequences))


def alpha_table(length: int, labels: int) -> Callable[[], None]:
    batch, out = chain(1, length, labels), np.zeros((length, labels))
    return partial(batch.alpha_table, out, np.zeros(1), outcomes(1))


def beta_table(length: int, labels: int) -> Callable[[], None]:
    batch, out = chain(1, length, labels), np.zeros((length, labels))
    return partial(batch.beta_table, out, np.zeros(1), outcomes(1))


def best_table(length: int, labels: int) -> Callable[[], None]:
    batch, out = chain(1, length, labels), np.zeros((length, labels))
    pointers = np.zeros((length, labels), np.int64)
    return partial(batch.best_table, out, pointers, np.zeros(1), outcomes(1))


def kbest(length: int, labels: int, k: int) -> Callable[[], None]:
    batch = chain(1, length, labels)
    labels_out = np.zeros(k * length, np.int64)
    before, counts = np.zeros(1, np.int64), np.zeros(1, np.int64)
    return partial(batch.kbest, k, before, labels_out, np.zeros((1, k)), counts)


def sample(length: int, labels: int, n: int) -> Callable[[], None]:
    batch, uniforms = chain(1, length, labels), np.random.default_rng(1).random(n * length)
    out = np.zeros(n * length, np.int64)
    return partial(batch.sample, np.zeros(1, np.int64), uniforms, out, outcomes(1))


def frames(rows: int, length: int, vocabulary: int) -> np.ndarray:
    scores = np.random.default_rng(0).normal(size=(rows, length, vocabulary))
    return scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True)


def ctc_loss(rows: int, length: int, labels: int, backward: bool) -> Callable[[], None]:
    x = np.ascontiguousarray(frames(rows, length, 30).transpose(1, 0, 2))
    x *= 1.0 if backward else 300.0  # such scores need log space, which takes longer
    targets = np.random.default_rng(1).integers(1, 30, (rows, labels))
    loss = _core.CtcFloat64(
        x, targets, np.full(rows, length), np.full(rows, labels), 0, True, THREADS
    )
    value, norm, alpha = (
        np.zeros(rows),
        np.zeros((length, rows)),
        np.zeros((rows, length, 2 * labels + 1)),
    )
    if backward:
        loss.forward(value, norm, alpha)
        gradient = np.zeros_like(x)
        return partial(loss.backward, norm, alpha, value, np.ones(rows), gradient)
    return partial(loss.forward, value, norm, alpha)


def ctc_align(length: int, labels: int) -> Callable[[], None]:
    x = frames(1, length, 30)
    targets = np.random.default_rng(1).integers(1, 30, (1, labels))
    out = [np.zeros((1, length), np.int64), *(np.zeros((1, labels), np.int64) for _ in range(2))]
    return partial(
        _core.ctc_align,
        x,
        targets,
        np.array([length]),
        np.array([labels]),
        0,
        1,
        *out,
        np.zeros((1, labels)),
        np.zeros(1),
    )


def beam_search(length: int, width: int) -> Callable[[], None]:
    x = frames(1, length, 200)
    return partial(_core.ctc_beam_search, x, np.array([length]), 0, width, 1, -np.inf, THREADS)


def ring(variables: int, labels: int) -> tuple[_core.Graph, np.ndarray]:
    scope = np.stack([np.arange(variables), (np.arange(variables) + 1) % variables], axis=1).ravel()
    begin = np.arange(variables + 1, dtype=np.int64) * 2
    table = np.arange(variables, dtype=np.int64) * labels**2
    graph = _core.Graph(np.full(variables, labels), begin, scope, table)
    return graph, np.random.default_rng(0).normal(size=variables * labels**2)


def exact(variables: int, labels: int) -> Callable[[], None]:
    graph, tables = ring(variables, labels)
    graph.plan(1e9)
    return partial(
        graph.exact, tables, np.zeros(variables), np.zeros(variables * labels), None, THREADS
    )


def propagate(variables: int, labels: int, residual: bool) -> Callable[[], None]:
    graph, tables = ring(variables, labels)
    ones, entries = np.ones(variables), variables * labels
    sizes = (variables, variables, 2 * entries)
    settings = (False, residual, 0.99, 0.0, 10**6, THREADS)
    results = (np.zeros(entries), None, *(np.zeros(size) for size in sizes))
    return partial(graph.propagate, tables, ones, *settings, *results)


def gibbs(variables: int, sweeps: int) -> Callable[[], None]:
    graph, tables = ring(variables, 8)
    uniforms = np.random.default_rng(1).random(sweeps * variables)
    labels, kept = np.zeros(variables, np.int64), np.zeros(sweeps * variables, np.int64)
    return partial(graph.gibbs, tables, 1, sweeps, uniforms, labels, kept, np.zeros(sweeps), 1)


def grid(side: int, labels: int) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    unary, table = rng.normal(size=(side, side, labels)), rng.normal(size=(labels, labels))
    return partial(_core.Grid, unary, table, table, False, 0.99, 0.0, 10**6, THREADS)


def nearest(rows: int, queries: int) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(rows, 100)).astype(np.float32)
    asked = rng.normal(size=(queries, 100)).astype(np.float32)
    scores, ids = np.zeros((queries, 10), np.float32), np.zeros((queries, 10), np.int64)
    return partial(_core.nearest, table, np.ones(rows, np.float32), asked, THREADS, scores, ids)


def vocabulary(tokens: int) -> Callable[[], None]:
    sequences = [[[f"w{i % 999}-{k}" for k in range(9)] for i in range(1000)]] * (tokens // 1000)
    return partial(_core.Vocabulary().learn, sequences)


def corpus(megabytes: int) -> Callable[[], None]:
    text = b" ".join(b"word%d" % (i * i % 99991) for i in range(10**5)) + b"\n"
    text *= megabytes * 2**20 // len(text)
    return partial(_core.Corpus(1).add_text, text)


def arpa(words: int) -> Callable[[], None]:
    lines = "".join(f"-1.5\tw{i}\t-0.5\n" for i in range(words))
    text = f"\\data\\\nngram 1={words}\n\n\\1-grams:\n{lines}\\end\\\n".encode()
    return partial(_core.ArpaReader().feed, text)


def ngrams(words: int, step: str) -> Callable[[], object]:
    training = _core.NgramTraining(
        order=5,
        characters=False,
        skip_symbols=False,
        decimals=7,
        memory=2**31,
        threads=THREADS,
        folder=tempfile.gettempdir(),
    )
    text = b" ".join(b"word%d" % (i * i % 99991 * i % 9973) for i in range(words)) + b"\n"
    if step == "feed":
        return partial(training.feed, text * 20)
    training.feed(text)
    if step == "estimate":
        return partial(training.estimate, [0] * 5, (0.5, 1.0, 1.5))
    training.estimate([0] * 5, (0.5, 1.0, 1.5))
    return training.next_block


def word_vectors(rows: int) -> Callable[[], None]:
    line = ("word" + " 0.125" * 300 + "\n").encode()
    out = np.zeros((rows, 300), np.float32)
    return partial(_core.vector_rows, line * rows, True, out)


def lstm(steps: int, hidden: int) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    gates = rng.normal(size=(steps, 8 * hidden)).astype(np.float32)
    u = rng.normal(size=(2, 4 * hidden, hidden)).astype(np.float32)
    h, c, before = (np.zeros((steps, 2 * hidden), np.float32) for _ in range(3))
    return partial(_core.lstm_forward, gates, u, np.ones(steps, np.int64), h, c, before, THREADS)


def training_data(
    sequences: int, length: int, labels: int, trigrams: int = 0
) -> tuple[_core.TrainingData, int]:
    """Return data with 500 attributes, five at each position, and the number of weights."""
    rng, rows, attributes = np.random.default_rng(0), sequences * length, 500
    begin, ids = np.arange(rows + 1, dtype=np.int64) * 5, rng.integers(0, attributes, rows * 5)
    state_label = np.tile(np.arange(labels, dtype=np.uint16), attributes)
    layout = _core.WeightLayout(
        labels,
        np.arange(attributes + 1, dtype=np.int64) * labels,
        state_label,
        np.arange(labels**2, dtype=np.int32),
        None,
        None,
        np.arange(trigrams) * (labels**3 // trigrams) if trigrams else None,
    )
    x = _core.SparseRows(begin, ids.astype(np.int32), None)
    y = rng.integers(0, labels, rows).astype(np.int32)
    row_begin = np.arange(0, rows + 1, length, dtype=np.int64)
    data = _core.TrainingData(layout, x, None, row_begin, y, *(None,) * 6)
    return data, attributes * labels + labels**2 + trigrams


def objective(sequences: int, length: int, labels: int, trigrams: int = 0) -> Callable[[], None]:
    data, size = training_data(sequences, length, labels, trigrams)
    evaluate = _core.Objective(data, False).evaluate
    return partial(evaluate, np.zeros(size), 1.0, THREADS, np.zeros(size))


def online(sequences: int, length: int, labels: int) -> Callable[[], None]:
    data, size = training_data(sequences, length, labels)
    order, w = np.arange(sequences), np.zeros(size)
    return partial(_core.Online(data).perceptron, order, w, np.zeros(size), 1)


def names(count: int) -> list[str]:
    return [f"name{k}" for k in range(count)]


def items(positions: int) -> _core.ItemSequence:
    rows = [[f"w{i}-{k}" for k in range(9)] for i in range(999)]
    return _core.ItemSequence([rows[i % 999] for i in range(positions)])


CALLS: dict[str, Callable[[], Callable[[], None]]] = {
    "log_partition of many sequences": lambda: log_partition(100, 1000, 700),
    "log_partition of one sequence in log space": lambda: log_partition(1, 100_000, 300, True),
    "marginals of many sequences": lambda: marginals(2000, 400, 100),
    "marginals of one sequence": lambda: marginals(1, 20_000, 500),
    "marginals in log space": lambda: marginals(1, 50_000, 100, True),
    "viterbi of one sequence": lambda: viterbi(1, 100_000, 300),
    "forward table": lambda: alpha_table(50_000, 300),
    "backward table": lambda: beta_table(50_000, 300),
    "table of best scores": lambda: best_table(100_000, 300),
    "max_marginals": lambda: max_marginals(1, 50_000, 300),
    "kbest": lambda: kbest(3000, 100, 300),
    "count of paths": lambda: partial(
        chain(1, 30_000, 300).count_paths, 2**36, np.zeros(1, np.int64)
    ),
    "sample": lambda: sample(50_000, 64, 100),
    "ctc forward": lambda: ctc_loss(1, 20_000, 8_000, False),
    "ctc backward": lambda: ctc_loss(8, 10_000, 4_000, True),
    "ctc align": lambda: ctc_align(120_000, 50_000),
    "ctc beam search": lambda: beam_search(20_000, 200),
    "graph exact": lambda: exact(60, 100),
    "graph belief": lambda: propagate(2000, 32, False),
    "graph residual belief": lambda: propagate(2000, 32, True),
    "graph gibbs": lambda: gibbs(1000, 10_000),
    "grid": lambda: grid(300, 8),
    "nearest": lambda: nearest(200_000, 5000),
    "vocabulary": lambda: vocabulary(3_000_000),
    "one position with many names": lambda: partial(_core.Vocabulary().learn, [[names(6_000_000)]]),
    "one position with a large dict": lambda: partial(
        _core.ItemSequence, [dict.fromkeys(names(6_000_000), 1.0)]
    ),
    "item sequence": lambda: partial(_core.ItemSequence, [names(9)] * 2_000_000),
    "items of a sequence": lambda: items(300_000).items,
    "names of a sequence": lambda: partial(_core.Vocabulary().learn_items, items(4_000_000)),
    "n-grams of a long word": lambda: partial(_core.subword_ids, ["ab" * 500_000], 3, 60, 10**6),
    "training": lambda: objective(80_000, 20, 60),
    "training on one sequence": lambda: objective(1, 60_000, 200),
    "training of order 2": lambda: objective(80_000, 20, 30, 2000),
    "training of order 2 on one sequence": lambda: objective(1, 100_000, 30, 300),
    "online training on one sequence": lambda: online(1, 60_000, 200),
    "huffman": lambda: partial(_core.huffman, np.arange(4_000_000, 0, -1)),
    "alias cells": lambda: partial(_core.alias_cells, np.ones(30_000_000) / 3),
    "corpus": lambda: corpus(600),
    "arpa": lambda: arpa(6_000_000),
    "n-gram counts": lambda: ngrams(10**6, "feed"),
    "n-gram estimate": lambda: ngrams(3_000_000, "estimate"),
    "n-gram lines": lambda: ngrams(3_000_000, "next_block"),
    "word vectors": lambda: word_vectors(200_000),
    "lstm": lambda: lstm(20_000, 512),
    "tokens": lambda: partial(_core.tokens, "," * 60_000_000),
    "tokens, one word": lambda: partial(_core.tokens, "a" * 400_000_000),
    **interrupted_model_calls.CALLS,
}


def main(name: str) -> None:
    call = CALLS[name]()

    # A timer of the system, because a thread could not run while the call holds the GIL.
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    results: list[object] = []
    start = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, DELAY)
    try:
        # No Python code runs between the end of the call and the end of extend(). So if Python
        # handles the signal only after the call, the list has its result.
        results.extend(map(operator.call, [call]))
        time.sleep(2 * DELAY)  # a call that was shorter than DELAY
    except KeyboardInterrupt:
        seconds = time.perf_counter() - start - DELAY
    print("finished" if results else "interrupted", seconds, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
