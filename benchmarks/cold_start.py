"""Wall time of a training from a cold start: `trellis train` and a script with sklearn-crfsuite.

    python benchmarks/cold_start.py --quick
    PEER_PYTHON=peers/bin/python python benchmarks/cold_start.py --json results/cold_start.json

Both sides are new processes that read the same file, compute the same attributes, train with the
same penalty and the same limit of iterations on one thread, and save a model. PEER_PYTHON is the
Python of an environment with sklearn-crfsuite; without it, that of this script. The script of the
peer is cold_start_peer.py. The losses must agree to 1 %, and the numbers of attributes exactly.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from crf_data import read
from sections import run_sections
from timing import Table, WrongResultError

import trellis

CORPORA = {
    "US addresses": "addresses/usaddress.train.conll.gz",
    "WNUT-17": "ner/wnut17.train.conll.gz",
    "CoNLL-2000, words": "chunking/conll2000.train.conll.gz",
}
ITERATIONS, REPEATS, QUICK = 50, 3, 500
PEER = Path(__file__).with_name("cold_start_peer.py")


class Run(NamedTuple):
    """The wall time of a process in seconds, its peak memory in MB, and what it printed."""

    seconds: float
    megabytes: float
    output: str


def run(command: list[str]) -> Run:
    """Run a command in a new process."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {text}")
    return Run(seconds, usage.ru_maxrss / 1000, text)


def write(name: str, path: Path, count: int | None) -> int:
    """Write words and labels to a file; return the number of tokens."""
    corpus = read(name, count)
    with path.open("w", encoding="utf-8") as file:
        for x, y in zip(corpus.X, corpus.y, strict=True):
            file.writelines(f"{token[0]}\t{label}\n" for token, label in zip(x, y, strict=True))
            file.write("\n")
    return corpus.tokens


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the command of each side."""
    source, limit = str(folder / "train.conll"), str(ITERATIONS)
    peer = os.environ.get("PEER_PYTHON", sys.executable)
    train = [sys.executable, "-m", "trellis", "train", source, "-o", str(folder / "m.trellis")]
    return {
        "trellis": [*train, "--l2", "1", "--max-iter", limit, "--jobs", "1"],
        "sklearn-crfsuite": [peer, str(PEER), source, str(folder / "m.pickle"), limit],
    }


def check(ours: Run, peer: Run, model: Path) -> None:
    """Raise unless both sides minimised the same function."""
    loss, n_attributes = peer.output.split()[-2:]
    match = re.search(r"loss ([\d,.]+\d)", ours.output)
    our_loss = float(match[1].replace(",", "")) if match else float("nan")
    if not abs(our_loss - float(loss)) <= 0.01 * float(loss):
        raise WrongResultError(f"loss {our_loss}, the peer's is {loss}")
    n_ours = len(trellis.load(model).features_)
    if n_ours != int(n_attributes):
        raise WrongResultError(f"{n_ours} attributes, the peer has {n_attributes}")


def cold_start(quick: bool) -> list[Table]:
    """Return one table: a row for each corpus."""
    columns = ["corpus", "tokens", "trellis, s", "sklearn-crfsuite, s", "ratio", "trellis, MB",
               "sklearn-crfsuite, MB"]  # fmt: skip
    table = Table(f"Training from a cold start, {ITERATIONS} iterations, one thread", columns)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for corpus, source in CORPORA.items():
            n_tokens = write(source, folder / "train.conll", QUICK if quick else None)
            sides = commands(folder)
            runs: dict[str, list[Run]] = {side: [] for side in sides}
            for _ in range(1 if quick else REPEATS):
                for side, command in sides.items():
                    runs[side].append(run(command))
            check(runs["trellis"][0], runs["sklearn-crfsuite"][0], folder / "m.trellis")
            ours, peer = (statistics.median(r.seconds for r in runs[side]) for side in runs)
            memory = [f"{max(r.megabytes for r in runs[side]):.0f}" for side in runs]
            table.add(corpus, n_tokens, f"{ours:.1f}", f"{peer:.1f}", f"{peer / ours:.1f}", *memory)
    table.notes.append(f"medians of {1 if quick else REPEATS} runs of each side, in turns")
    return [table]


if __name__ == "__main__":
    run_sections(str(__doc__), ["trellis"], {"cold start": cold_start})
