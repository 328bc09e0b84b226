"""Engines: the bits of CRFs that are trained on clusters, the cost of tasks, and lost workers.

    python benchmarks/engines.py bits [--iterations N]     # one SHA-256, with 20 workers killed
    python benchmarks/engines.py tasks                     # seconds per task, per MB; tasks of 1 s
    python benchmarks/engines.py scaling                   # the formula of docs/scale.md
    python benchmarks/engines.py memory                    # the peak memory of workers

`bits` trains on CoNLL-2000 (chunking) with engines of every kind. All machines are processes of
this one, so `scaling` cannot show a speed-up beyond its cores.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from corpora import find

from trellis import CRF
from trellis.data import Corpus
from trellis.data.files import blocks
from trellis.engines import Dask, Engine, Local
from trellis.engines.base import add_in_place
from trellis.features import named

KILLS = 20
WORKERS = 2  # of the cluster whose workers are killed
SHARD = 100_000  # bytes


@contextmanager
def cluster(workers: int, **options: Any) -> Iterator[Any]:
    """Yield the client of a cluster of processes."""
    from distributed import Client, LocalCluster

    options |= {"dashboard_address": ":0", "silence_logs": 50}
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, **options) as local,
        Client(local) as client,
    ):
        yield client


def digest(model: Any) -> str:
    """Return the SHA-256 of the weights."""
    return hashlib.sha256(np.ascontiguousarray(model.coef_).tobytes()).hexdigest()


class Clock:
    """The time of each call of `Engine.sum`."""

    def __init__(self, engine: Engine) -> None:
        self.calls: list[tuple[float, float, str]] = []  # start, end, name
        original = engine.sum

        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.monotonic()
            result = original(*arguments, **options)
            self.calls.append((start, time.monotonic(), options.get("name", "sum")))
            return result

        engine.sum = timed  # type: ignore[method-assign]

    def seconds(self, name: str) -> list[float]:
        """Return the times of the calls of one name."""
        return [end - start for start, end, other in self.calls if other == name]


# ---- bits


def train(
    corpus: Corpus, engine: Engine, iterations: int, callback: Any = None
) -> tuple[Any, Clock]:
    """Return a CRF, and the times of its sums."""
    clock = Clock(engine)
    return CRF(max_iter=iterations).fit(corpus, engine=engine, callback=callback), clock


def report(name: str, model: Any, clock: Clock, start: float) -> None:
    """Print a line of the table."""
    seconds = statistics.median(clock.seconds("gradient"))
    print(
        f"{name:34} {digest(model)[:16]}  loss {model.objective_!r:20} "
        f"{time.monotonic() - start:7.1f} s in all, {seconds:.3f} s per evaluation",
        flush=True,
    )


def bits(iterations: int) -> None:
    """Train the same CRF on every engine, then kill workers and the client."""
    folder = Path(tempfile.mkdtemp())
    path = folder / "train.conll"
    path.write_bytes(b"".join(blocks(find("chunking/conll2000.train.conll.gz"))))
    corpus = Corpus.text(path, shard=SHARD)
    print(f"{len(corpus.shards)} shards, {iterations} iterations")
    start = time.monotonic()
    memory = CRF(max_iter=iterations).fit(*corpus.load())
    print(
        f"{'in memory':34} {digest(memory)[:16]}  loss {memory.objective_!r:20} "
        f"{time.monotonic() - start:7.1f} s"
    )
    models = []
    for jobs in (1, 2, 8):
        start, engine = time.monotonic(), Local(jobs)
        model, clock = train(corpus, engine, iterations)
        report(f"Local({jobs})", model, clock, start)
        engine.close()
        models.append(model)
    difference = abs(models[0].coef_ - memory.coef_).max()
    relative = abs(models[0].objective_ - memory.objective_) / memory.objective_
    print(f"difference to memory: objective {relative:.1e} relative, weights {difference:.1e}")
    for workers in (1, 2, 4, 8):
        with cluster(workers) as client:
            start = time.monotonic()
            model, clock = train(corpus, Dask(client), iterations)
            report(f"Dask, {workers} workers", model, clock, start)
            models.append(model)
    models.append(kill_workers(corpus, iterations))
    print("one SHA-256" if len({digest(m) for m in models}) == 1 else "DIFFERENT BITS")


def kill_workers(corpus: Corpus, iterations: int) -> Any:
    """Train while random workers are killed at random moments; each is replaced at once."""
    from distributed import Client, LocalCluster

    random = np.random.default_rng(0)
    kills: list[float] = []
    threads: list[threading.Thread] = []
    with (
        LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as local,
        Client(local) as client,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        # Without a nanny, because a nanny gives up if its worker is killed while it starts.
        command = [sys.executable, "-m", "distributed.cli.dask_worker", local.scheduler_address]
        command += ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", folder]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        workers = [subprocess.Popen(command, **quiet) for _ in range(WORKERS)]

        def kill(n: int, delay: float) -> None:
            time.sleep(delay)
            workers[n].kill()
            kills.append(time.monotonic())
            workers[n].wait()
            workers[n] = subprocess.Popen(command, **quiet)

        def after(progress: Any) -> None:
            for thread in threads:
                thread.join()
            if len(threads) < KILLS:
                arguments = int(random.integers(WORKERS)), float(random.uniform(0, 1))
                threads.append(threading.Thread(target=kill, args=arguments))
                threads[-1].start()

        client.wait_for_workers(WORKERS)
        start = time.monotonic()
        model, clock = train(corpus, Dask(client), iterations, after)
        for thread in threads:
            thread.join()
        for worker in workers:
            worker.kill()
    report(f"Dask, {WORKERS} workers, {len(kills)} SIGKILLs", model, clock, start)
    calls = [(begin, end) for begin, end, name in clock.calls if name == "gradient"]
    hits = [sum(begin <= kill <= end for kill in kills) for begin, end in calls]
    calm = statistics.median(
        [end - begin for (begin, end), hit in zip(calls, hits, strict=True) if not hit] or [0.0]
    )
    costs = sorted(
        (end - begin - calm) / hit for (begin, end), hit in zip(calls, hits, strict=True) if hit
    )
    print(
        f"{sum(hits)} kills during evaluations: {statistics.median(costs):.2f} s more in the "
        f"median, {costs[-1]:.2f} s at most; an evaluation without a kill {calm:.2f} s"
    )
    return model


# ---- the cost of tasks


def nothing(item: Any) -> Any:
    """Return a number: the task has no work."""
    return 0


def spin(item: Any, seconds: float) -> Any:
    """Take a time without a processor, as a task does that another machine runs."""
    time.sleep(seconds)
    return 0


def vector(item: Any, w: Any) -> Any:
    """Return a gradient of the size of the weights."""
    return np.zeros_like(w)


def median_seconds(
    repeats: int, call: Callable[..., Any], *arguments: Any, **options: Any
) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call(*arguments, **options)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def tasks() -> None:
    """Measure the seconds per task and per MB, and the overhead at tasks of one second."""
    with cluster(2) as client:
        engine = Dask(client)
        engine._n_blocks = 10_000  # one task for each item
        few, many = (median_seconds(9, engine.sum, nothing, list(range(n))) for n in (8, 72))
        # Each item is a task, and an addition of two results is one too.
        print(
            f"{1000 * (many - few) / (2 * 64):.2f} ms per task; "
            f"{1000 * few:.1f} ms for a sum of 8 empty tasks"
        )
        add: dict[str, Any] = {"add": add_in_place}
        small, large = (
            median_seconds(9, engine.sum, vector, [0, 1], np.zeros(n), **add)
            for n in (125_000, 4_125_000)
        )
        print(f"{1000 * (large - small) / 32:.2f} ms per MB of weights: to 2 workers and back")
        local, n = Local(2), 24
        for seconds in (0.2, 1.0):
            times: list[list[float]] = [[], []]
            for _ in range(3):
                for engine_times, each in zip(times, (local, engine), strict=True):
                    engine_times.append(median_seconds(1, each.sum, spin, list(range(n)), seconds))
            ours, theirs = map(statistics.median, times)
            print(
                f"{n} tasks of {seconds} s, 2 at a time: Local {ours:.2f} s, Dask {theirs:.2f} s: "
                f"{100 * (theirs / ours - 1):.1f} % more"
            )


def scaling() -> None:
    """Compare sums of tasks on 1 to 8 workers with the formula of docs/scale.md."""
    n, work, size = 32, 1.0, 500_000
    items, w = list(range(n)), np.zeros(size)
    print(f"{n} tasks of {work} s, {size} weights; {os.cpu_count()} cores")
    add: dict[str, Any] = {"add": add_in_place}
    overhead = 0.0
    for workers in (2, 1, 4, 8):
        with cluster(workers) as client:
            engine = Dask(client)
            engine._n_blocks = n
            engine.sum(vector, items, w)
            empty = median_seconds(5, engine.sum, vector, items, w, **add)
            measured = median_seconds(3, engine.sum, both, items, w, work, **add)
        overhead = overhead or empty  # that of two workers, the number of cores here
        predicted = work * -(-n // workers) + overhead
        print(
            f"{workers} workers: {measured:.2f} s, formula {predicted:.2f} s "
            f"({100 * (measured / predicted - 1):+.1f} %), empty tasks {empty:.2f} s",
            flush=True,
        )


def both(item: Any, w: Any, seconds: float) -> Any:
    """Return a gradient after a time."""
    time.sleep(seconds)
    return np.zeros_like(w)


# ---- memory

WORDS = 40_000  # distinct words of a shard
SENTENCES = 16_000  # of a shard, about 2 MB


def write_repeated(path: Path, shards: int) -> int:
    """Write a corpus by repetition, in which each repetition has words of its own."""
    random = np.random.default_rng(0)
    words = random.zipf(1.3, size=(SENTENCES, 12)) % WORDS
    with open(path, "w") as file:
        for n in range(shards):
            for row in words.tolist():
                file.write("".join(f"w{word}x{n} L{word % 3}\n" for word in row) + "\n")
    return path.stat().st_size


def peak_memory() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def memory() -> None:
    """Measure the peak memory of workers for corpora of several sizes."""
    folder = Path(tempfile.mkdtemp())
    for shards in (2, 8, 32):
        path = folder / f"{shards}.conll"
        size = write_repeated(path, shards)
        corpus = Corpus.text(path, shard=size // shards)
        with cluster(2, memory_limit="500MB") as client:
            before = max(client.run(peak_memory).values())
            model = CRF(named(["w[0]"]), max_iter=3)
            model.fit(corpus, engine=Dask(client, cache_bytes=1))
            trained = max(client.run(peak_memory).values())
            model.predict(corpus, engine=Dask(client), to=folder / f"tagged{shards}")
            tagged = max(client.run(peak_memory).values())
        print(
            f"{len(corpus.shards)} shards, {size / 1e6:.0f} MB, weights "
            f"{model.coef_.nbytes / 1e6:.1f} MB: a worker has {before:.0f} MB at the start, at "
            f"most {trained:.0f} MB in training, {tagged:.0f} MB after tagging",
            flush=True,
        )


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("bits", "tasks", "scaling", "memory"))
    parser.add_argument("--iterations", type=int, default=60)
    arguments = parser.parse_args()
    if arguments.what == "bits":
        bits(arguments.iterations)
    else:
        {"tasks": tasks, "scaling": scaling, "memory": memory}[arguments.what]()


if __name__ == "__main__":
    sys.exit(main())
