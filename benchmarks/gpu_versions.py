"""Compare two builds of trellis on one GPU: the steps of the CRF and CTC layers, in turns.

    python benchmarks/gpu_versions.py OLD/package NEW/package

Each package is a folder that contains `trellis` with its native core. Each step runs in two
processes, one per package, which take turns, so that a slow phase of the machine affects both.
Times are medians between CUDA events. The column `x` is new / old. Only public calls are used, so
any two versions can be compared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gpu_crf
import gpu_ctc
import torch
from gpu_timing import between_events, graph, warm_up
from timing import Table

Step = Callable[[], Any]

ROUNDS = 9
SECONDS = 0.03  # per round and step


def steps() -> Iterator[tuple[str, Callable[[], Step]]]:
    """Yield the name of each step, and the function that prepares it."""
    for shape in gpu_crf.SHAPES:
        yield f"CRF {shape}", lambda x=shape: gpu_crf.ours(gpu_crf.make(x))[0]
        yield f"CRF {shape}, graph", lambda x=shape: graph(gpu_crf.ours(gpu_crf.make(x))[0])
        yield f"CRF {shape}, decode", lambda x=shape: gpu_crf.ours(gpu_crf.make(x))[1]
    for shape in gpu_crf.SHAPES[:3]:
        for route in ("mask with a hole", "lengths", "no mask", "validate=False", "per row"):
            yield (
                f"CRF {shape}, {route}",
                lambda x=shape, route=route: gpu_crf.routes(gpu_crf.make(x))[route](),
            )
    for size in gpu_ctc.SHAPES:
        yield f"CTC {size}", lambda x=size: ctc_step(x)
        yield f"CTC {size}, graph", lambda x=size: graph(ctc_step(x))


def ctc_step(shape: gpu_ctc.Shape) -> Step:
    """Return a step of the CTC loss from logits."""
    return gpu_ctc.ours(gpu_ctc.load_ours(), gpu_ctc.make(shape))


def work() -> None:
    """Prepare each step in turn, and measure it once per input line, until the line "next"."""
    for _, build in steps():
        try:
            step = build()
            count = max(2, min(50, int(SECONDS / warm_up(step))))
        except Exception as error:
            print(f"failed {type(error).__name__}: {error}".replace("\n", " "), flush=True)
            continue
        print("ready", flush=True)
        for line in sys.stdin:
            if line.strip() == "next":
                break
            step()
            print(statistics.median(between_events(step, count)), flush=True)
        del step
        torch.cuda.empty_cache()


class Worker:
    """A process that measures the steps with one package."""

    def __init__(self, package: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{package}:{os.environ.get('PYTHONPATH', '')}"},
        )

    def read(self) -> str:
        """Return the next line of the process."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            sys.exit("a worker ended early")
        return line

    def send(self, line: str) -> None:
        """Write a line to the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


def main() -> None:
    """Measure all steps with both packages, and print a row for each step when it is known."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", nargs="*", type=Path, metavar="PACKAGE")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work()
    if len(options.packages) != 2:
        parser.error("expected two packages: OLD NEW")
    workers = [Worker(package) for package in options.packages]
    table = Table("GPU, old and new in turns, ms", ("step", "old", "new", "x"))
    for name, _ in steps():
        states = [worker.read() for worker in workers]
        if states == ["ready", "ready"]:
            times: list[list[float]] = [[], []]
            for turn in range(ROUNDS):
                for side in (0, 1) if turn % 2 == 0 else (1, 0):
                    workers[side].send("measure")
                    times[side].append(float(workers[side].read()))
            old, new = (statistics.median(side) for side in times)
            table.add(name, old, new, new / old)
            print(f"{name:45} {old:8.3f} {new:8.3f} {new / old:6.2f}", flush=True)
        else:
            print(f"{name:45} {states}", flush=True)
        for worker, state in zip(workers, states, strict=True):
            if state == "ready":
                worker.send("next")
    print(table.text())
    return None


if __name__ == "__main__":
    main()
