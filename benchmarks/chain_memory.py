"""Measure the peak memory of ours and of hmmlearn on one long sequence, in separate processes."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from chain_hmm import Hmm, hmm_scaling, hmm_viterbi
from machine import added_peak
from timing import Table

LONG_T, LONG_L = 1_000_000, 9
SCRIPT = Path(__file__).with_name("chain.py")


def memory_table(with_ours: bool) -> Table:
    """Return a table of the peak memory of each call, measured in separate processes."""
    scores = LONG_T * LONG_L * 8
    table = Table(
        f"Peak memory, T = {LONG_T:,}, L = {LONG_L}: float64 scores of {scores / 1e6:.0f} MB",
        ("call", "added MB", "x scores, input not counted", "x scores, input counted"),
    )
    table.notes = [
        "added: peak resident memory during the call minus that before, including results"
    ]
    ours = ("ours marginals", "ours viterbi") if with_ours else ()
    for name in (*ours, "hmmlearn marginals", "hmmlearn viterbi"):
        command = [sys.executable, str(SCRIPT), "--probe", name]
        reply = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        added = json.loads(reply.stdout)
        times = None if added is None else added / scores
        table.add(name, added and added / 1e6, times, None if times is None else times + 1)
    return table


def probe_memory(name: str) -> None:
    """Print the bytes that one call adds at its peak. Run this in a new process."""
    side, function = name.split()
    rng = np.random.default_rng(0)
    start, transition = np.full(LONG_L, 1 / LONG_L), np.full((LONG_L, LONG_L), 1 / LONG_L)

    def call(unary: np.ndarray) -> Any:
        if side == "ours":
            chain = importlib.import_module("trellis.inference.chain")
            return getattr(chain, function)(unary, transition, start, n_jobs=1)
        hmm = Hmm(start, transition, [unary], [unary])
        return hmm_viterbi(hmm) if function == "viterbi" else hmm_scaling(hmm, posterior=True)

    call(rng.random((10, LONG_L)))  # warm-up call: the memory of imports and threads must not count
    unary = rng.random((LONG_T, LONG_L))  # scores for ours, probabilities for hmmlearn
    print(json.dumps(added_peak(lambda: call(unary))))
