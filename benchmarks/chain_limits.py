"""Compare the speed on one thread with the measured limits of one core of this machine."""

from __future__ import annotations

from typing import NamedTuple

from machine import Limits
from timing import Table, Timing, milliseconds


class Work(NamedTuple):
    """One timed call: the function, the size and the time."""

    function: str  # marginals or viterbi
    labels: int
    sequences: int
    tokens: int
    timing: Timing


def limits_table(timed: list[Work], limits: Limits) -> Table:
    """Return a table of GFLOP/s and GB/s on one thread, with the measured limits of one core."""
    columns = ("function", "L", "ms", "GFLOP/s", "% peak", "GB/s", "% stream", "Mexp/s", "x bound")
    table = Table("Distance to the limits of one core", columns)
    table.notes = [
        f"one core: {limits.gflops:.1f} GFLOP/s (float64 matrix product), {limits.copy_1:.1f} GB/s "
        f"copy ({limits.copy_cached:.1f} within 32 MB); two cores: {limits.copy_2:.1f} GB/s",
        "marginals: 4 L² flops per token (a multiply-add counts as two) and L exponentials; "
        "Viterbi: 2 L² (an add and a max, which cannot be fused, so that its peak is half); "
        "bytes: scores read and results written once",
        "x bound: time over the larger of flops / peak and bytes / stream",
    ]
    for function, labels, count, tokens, timing in timed:
        marginal = function == "marginals"
        flops = (4 if marginal else 2) * labels**2 * tokens
        peak = limits.gflops * (1.0 if marginal else 0.5)
        written = tokens * labels if marginal else tokens
        moved = 8 * (tokens * labels + written + count)
        gflops, gbytes = flops / timing.median / 1e9, moved / timing.median / 1e9
        bound = max(flops / peak, moved / limits.copy_1) / 1e9
        table.add(
            function,
            labels,
            milliseconds(timing),
            gflops,
            100 * gflops / peak,
            gbytes,
            100 * gbytes / limits.copy_1,
            tokens * labels / timing.median / 1e6 if marginal else None,
            timing.median / bound,
        )
    return table
