"""The native core as a whole: Ctrl-C, subinterpreters, arrays that another thread changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from interrupted_calls import CALLS

TIMEOUT = 300  # s, against a hang


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_sigint_interrupts_native_call(name: str) -> None:
    script = Path(__file__).with_name("interrupted_calls.py")
    done = run(str(script), name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "interrupted", done.stdout


SUBINTERPRETER = """
import _xxsubinterpreters as subinterpreters
from trellis import _core
other = subinterpreters.create()
try:
    subinterpreters.run_string(other, "from trellis import _core")
    print("imported")
except subinterpreters.RunFailedError as error:
    print(error)
subinterpreters.destroy(other)
print(len(_core.Vocabulary()))
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="_xxsubinterpreters was renamed")
def test_subinterpreter_cannot_import_core() -> None:
    done = run("-c", SUBINTERPRETER)
    assert done.returncode == 0, done.stderr
    message, size = done.stdout.strip().splitlines()
    assert "ImportError" in message
    assert "subinterpreter" in message
    assert size == "0"


RACE = """
import threading
import numpy as np
from trellis import _core

BAD = 1 << 40

def race(array, bad, call, rounds=200):
    good, stop = array.copy(), threading.Event()
    def change():
        while not stop.is_set():
            array[...] = bad
            array[...] = good
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(rounds):
            try:
                call()
            except (ValueError, RuntimeError):
                pass
    finally:
        stop.set()
        thread.join()
    array[...] = good

rng = np.random.default_rng(0)
T, L = 20_000, 8
unary = rng.normal(size=(T, L))
starts, lengths = np.zeros(1, np.int64), np.array([T])
chain = _core.ChainFloat64(unary, starts, lengths, rng.normal(size=(L, L)), None, None, None, 1)
labels, score, state = np.zeros(T, np.int64), np.zeros(1), np.zeros((1, 2), np.int64)
race(labels, BAD, lambda: chain.score(labels, score, state))
race(labels, BAD, lambda: chain.viterbi(labels, score, state), 50)
uniforms, before = rng.random(T), np.zeros(1, np.int64)
race(labels, BAD, lambda: chain.sample(before, uniforms, labels, state), 20)

n = 2000
scope = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1).ravel()
graph = _core.Graph(np.full(n, 4), np.arange(n + 1) * 2, scope, np.arange(n) * 16)
tables, assigned = rng.normal(size=16 * n), np.zeros(n, np.int64)
race(assigned, BAD, lambda: graph.score(tables, assigned), 500)
race(assigned, BAD, lambda: graph.climb(tables, assigned, 5), 200)

rows = 20_000
begin, ids = np.arange(rows + 1) * 5, rng.integers(0, 50, 5 * rows).astype(np.int32)
x = _core.SparseRows(begin, ids, None)
cell = rng.integers(0, 6, rows).astype(np.int32)
race(cell, 1 << 28, lambda: _core.seen(x, 50, 6, cell, None, None, -np.inf), 50)
race(ids, 1 << 28, lambda: _core.seen(x, 50, 6, cell, None, None, -np.inf), 50)
race(begin, BAD, lambda: _core.seen(x, 50, 6, cell, None, None, -np.inf), 50)

state_label = np.tile(np.arange(6, dtype=np.uint16), 50)
bigram = np.arange(36, dtype=np.int32)
layout = _core.WeightLayout(6, np.arange(51) * 6, state_label, bigram, None, None)
scorer, out = _core.Scorer(layout, rng.normal(size=336)), np.zeros((rows, 6))
race(state_label, 65535, lambda: scorer.scores(x, 1, out), 50)
race(ids, 1 << 28, lambda: scorer.scores(x, 1, out), 50)

row_begin, y = np.arange(0, rows + 1, 20), cell.copy()
data = _core.TrainingData(layout, x, None, row_begin, y, None, None, None, None, None, None)
w, gradient = np.zeros(336), np.zeros(336)
race(y, 1 << 28, lambda: _core.Objective(data, False).evaluate(w, 1.0, 1, gradient), 20)
order = np.arange(rows // 20)
online = _core.Online(data)
race(order, BAD, lambda: online.perceptron(order, w, gradient, 1), 20)
print("survived")
"""


def test_arrays_changed_by_another_thread() -> None:
    done = run("-c", RACE)
    assert (done.returncode, done.stdout.strip()) == (0, "survived"), done.stderr
