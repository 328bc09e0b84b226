"""Measure the limits of this machine (GFLOP/s and GB/s), and the peak memory of one call.

    python benchmarks/machine.py

These are the limits that a program can reach. They are lower than those of the data sheet, because
the machine may be shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits


class Limits(NamedTuple):
    """The best of several runs, because other programs may slow down single runs."""

    gflops: float  # float64 on one core; a multiply-add counts as two
    copy_1: float  # GB/s read + written, one core, arrays far beyond the caches
    copy_2: float  # the same on two cores
    copy_cached: float  # GB/s, one core, 32 MB: a batch that fits a large L3 cache


def measure(quick: bool = False) -> Limits:
    """Measure all limits, in about two seconds (quick) or five."""
    megabytes = 256 if quick else 1024
    repeats = 3 if quick else 7
    return Limits(
        gflops=peak_gflops(repeats),
        copy_1=copy_bandwidth(megabytes, 1, repeats),
        copy_2=copy_bandwidth(megabytes, 2, repeats),
        copy_cached=copy_bandwidth(16, 1, 10 * repeats),
    )


def peak_gflops(repeats: int, size: int = 1536) -> float:
    """Measure a large float64 matrix product on one BLAS thread: 2 n³ flops."""
    rng = np.random.default_rng(0)
    left, right = rng.random((size, size)), rng.random((size, size))
    product = np.empty_like(left)
    with threadpool_limits(1):
        seconds = _best(lambda: np.matmul(left, right, out=product), repeats)
    return 2 * size**3 / seconds / 1e9


def copy_bandwidth(megabytes: int, threads: int, repeats: int) -> float:
    """Measure np.copyto between two arrays of `megabytes` each, divided among threads."""
    source = np.ones(megabytes * 1_000_000 // 8)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    with ThreadPoolExecutor(threads) as pool:
        # np.copyto releases the GIL, so Python threads run in parallel
        seconds = _best(lambda: list(pool.map(lambda part: np.copyto(*part), parts)), repeats)
    return 2 * source.nbytes / seconds / 1e9


def added_peak(call: Callable[[], object]) -> int | None:
    """Return the resident bytes at the peak of a call minus those before it; None if not Linux.

    Call it in a new process: memory that was freed earlier would be reused, and would not count.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the current size
        before = resident("VmRSS")
        result = call()  # the results count, so they must exist until the peak is read
        # not ru_maxrss: a child inherits the maximum of its parent
        return resident("VmHWM") - before if result is not None else None
    except OSError:
        return None


def resident(field: str) -> int:
    """Return the resident bytes of this process: VmRSS now, VmHWM at the peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def _best(call: Callable[[], object], repeats: int) -> float:
    """Return the shortest time of a call in seconds, after one call that is not timed."""
    call()
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def main() -> None:
    """Print the limits."""
    limits = measure()
    print(f"float64 multiply-add, one core   {limits.gflops:7.1f} GFLOP/s")
    print(f"copy beyond the caches, one core {limits.copy_1:7.1f} GB/s")
    print(f"copy beyond the caches, two      {limits.copy_2:7.1f} GB/s")
    print(f"copy within 32 MB, one core      {limits.copy_cached:7.1f} GB/s")


if __name__ == "__main__":
    main()
