"""Compare two builds of trellis on one GPU: the steps of the CRF and CTC layers, in turns.

    python benchmarks/gpu_versions.py OLD/package NEW/package
    python benchmarks/gpu_versions.py OLD/package NEW/package --rounds 5 --prepare 6

Each package is a folder that contains `trellis` with its native core. Each step runs in two
processes, one per package, which take turns, so that a slow phase of the machine affects both.
Times are medians between CUDA events. The column `x` is new / old, and `difference` the largest
relative difference of the sums of absolute results. Only public calls are used, except for
position-dependent transitions, so most versions can be compared.

Compiling the kernels takes minutes. With ``--prepare N``, N processes per package compile them
first, into Triton's cache.
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

SECONDS = 0.03  # per round and step
SMALL = gpu_crf.SHAPES[0]
MANY = gpu_crf.Shape(16, 128, 200, 0.0, 0.0)  # more labels than registers can hold


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
    for size in (SMALL, gpu_crf.SHAPES[1]):
        yield f"CRF {size}, positions", lambda x=size: positional_step(x)
        yield f"CRF {size}, positions, graph", lambda x=size: graph(positional_step(x))
    wide = gpu_crf.SHAPES[1]
    yield (
        f"CRF {wide}, wide scores",
        lambda: graph(gpu_crf.ours(gpu_crf.make(wide, gpu_crf.WIDE))[0]),
    )
    yield f"CRF {MANY}, graph", lambda: graph(gpu_crf.ours(gpu_crf.make(MANY))[0])
    yield f"CRF {MANY}, decode", lambda: gpu_crf.ours(gpu_crf.make(MANY))[1]
    for size in gpu_ctc.SHAPES:
        yield f"CTC {size}", lambda x=size: ctc_step(x)
        yield f"CTC {size}, graph", lambda x=size: graph(ctc_step(x))


def positional_step(shape: gpu_crf.Shape) -> Step:
    """Return a step of the engine for position-dependent transitions, which need log space."""
    return gpu_crf.train(gpu_crf.load_ours()[0], gpu_crf.make(shape, positional=True))


def ctc_step(shape: gpu_ctc.Shape) -> Step:
    """Return a step of the CTC loss from logits."""
    return gpu_ctc.ours(gpu_ctc.load_ours(), gpu_ctc.make(shape))


def sums(result: Any) -> list[float]:
    """Return the sum of the absolute values of each tensor or list of numbers in a result."""
    if isinstance(result, torch.Tensor):
        return [float(result.detach().double().abs().sum())]
    if all(isinstance(x, int) for x in result):
        return [float(sum(result))]
    return [number for x in result for number in sums(x)]


def work() -> None:
    """Prepare each step in turn, and measure it once per input line, until the line "next"."""
    for _, build in steps():
        try:
            step = build()
            count = max(2, min(50, int(SECONDS / warm_up(step))))
            numbers = sums(step())
        except Exception as error:
            print(f"failed {type(error).__name__}: {error}".replace("\n", " "), flush=True)
            continue
        print("ready", *numbers, flush=True)
        for line in sys.stdin:
            if line.strip() == "next":
                break
            step()
            print(statistics.median(between_events(step, count)), flush=True)
        del step
        torch.cuda.empty_cache()


def compile_kernels(part: int, parts: int) -> None:
    """Run each `parts`-th step once, so that its kernels are in Triton's cache."""
    for number, (name, build) in enumerate(steps()):
        if number % parts == part:
            try:
                build()()
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)


def start(package: Path, *options: str, **pipes: Any) -> subprocess.Popen[str]:
    """Start this script with one package."""
    path = f"{package}:{os.environ.get('PYTHONPATH', '')}"
    command = [sys.executable, str(Path(__file__)), *options]
    return subprocess.Popen(command, text=True, env={**os.environ, "PYTHONPATH": path}, **pipes)


class Worker:
    """A process that measures the steps with one package."""

    def __init__(self, package: Path) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = start(package, "--worker", **pipes)

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
    parser.add_argument("--rounds", type=int, default=9, help="turns of each package (9)")
    parser.add_argument(
        "--prepare", type=int, default=0, metavar="N", help="processes per package that compile (0)"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compile", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work()
    if options.compile:
        return compile_kernels(*options.compile)
    if len(options.packages) != 2:
        parser.error("expected two packages: OLD NEW")
    parts = [
        start(package, "--compile", str(part), str(options.prepare))
        for part in range(options.prepare)
        for package in options.packages
    ]
    for process in parts:
        process.wait()
    workers = [Worker(package) for package in options.packages]
    columns = ("step", "old", "new", "x", "difference")
    table = Table("GPU, old and new in turns, ms", columns)
    for name, _ in steps():
        states = [worker.read().split() for worker in workers]
        if all(state[0] == "ready" for state in states):
            times: list[list[float]] = [[], []]
            for turn in range(options.rounds):
                for side in (0, 1) if turn % 2 == 0 else (1, 0):
                    workers[side].send("measure")
                    times[side].append(float(workers[side].read()))
            old, new = (statistics.median(side) for side in times)
            results = [[float(number) for number in state[1:]] for state in states]
            difference = max(abs(a - b) / max(abs(a), 1.0) for a, b in zip(*results, strict=True))
            table.add(name, old, new, new / old, difference)
            row = f"{name:45} {old:8.3f} {new:8.3f} {new / old:6.2f} {difference:8.1e}"
            print(row, flush=True)
        else:
            print(f"{name:45}", *(" ".join(state) for state in states), flush=True)
        for worker, state in zip(workers, states, strict=True):
            if state[0] == "ready":
                worker.send("next")
    print(table.text())
    return None


if __name__ == "__main__":
    main()
