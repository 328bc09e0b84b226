"""Measure times on a GPU in turns, so that a slow phase of the machine affects all candidates."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

__all__ = [
    "attempt",
    "between_events",
    "graph",
    "in_turns",
    "kernel_times",
    "on_one_thread",
    "warm_up",
]

ROUNDS = 5
REPEATS = 100
PATIENCE = 2.0  # seconds per candidate; each candidate is timed at least three times
PAUSE = 0.3  # seconds: the threads of OpenMP spin for 0.2 s
SLOW = 0.05  # seconds: slower steps need no warm-up in each round

Step = Callable[[], Any]
T = TypeVar("T")


def graph(step: Step) -> Step:
    """Return a function that replays the kernels of a step, captured once in a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        result = step()

    def replay(_: Step = step) -> Any:
        # The step is kept alive: the graph reads the memory of its inputs and parameters.
        captured.replay()
        return result

    return replay


def on_one_thread(step: Step) -> Step:
    """Return a step whose backward pass runs on the calling thread, not on that of autograd."""

    def step_on_one_thread() -> Any:
        with torch.autograd.set_multithreading_enabled(False):
            return step()

    return step_on_one_thread


def attempt(name: str, call: Callable[[], T]) -> T | None:
    """Return the result of a call. If it fails, print the reason and return None."""
    try:
        return call()
    except Exception as error:
        print(f"  {name}: {type(error).__name__}: {str(error).splitlines()[0]}")
        torch.cuda.empty_cache()
        return None


def warm_up(step: Step) -> float:
    """Return the seconds of a warm step, after the threads of earlier checks have stopped."""
    time.sleep(PAUSE)
    begin = last = time.perf_counter()
    calls = 0
    while calls < 2 or last - begin < PAUSE:
        once, calls = last, calls + 1
        step()
        torch.cuda.synchronize()
        last = time.perf_counter()
    return last - once


def in_turns(builds: Mapping[str, Callable[[], Step]]) -> dict[str, float | None]:
    """Return the median milliseconds of each step between CUDA events; all steps take turns.

    The result is None for a step that fails. Slow steps are repeated less often.
    """
    steps, seconds = {}, {}
    for name, build in builds.items():
        step = attempt(name, build)
        once = None if step is None else attempt(name, lambda step=step: warm_up(step))
        if step is not None and once is not None:
            steps[name], seconds[name] = step, once
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            repeats = max(3, min(REPEATS, int(PATIENCE / seconds[name])))
            count = min(-(-repeats // ROUNDS), repeats - len(times[name]))
            if count and seconds[name] < SLOW:
                step()
            times[name] += between_events(step, count)
    return {name: statistics.median(times[name]) if name in times else None for name in builds}


def between_events(step: Step, count: int) -> list[float]:
    """Return the milliseconds of each of ``count`` steps."""
    events = []
    for _ in range(count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in events]


def kernel_times(step: Step) -> dict[str, float]:
    """Return the microseconds of each kernel of a step."""
    step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(5):
            step()
        torch.cuda.synchronize()
    times = {event.key: event.device_time_total / 5 for event in profile.key_averages()}
    return {name: microseconds for name, microseconds in times.items() if microseconds > 0}
