"""Threads that answer requests, and batches of requests that arrive together.

The event loop reads and writes; models compute in threads, because the core releases the GIL. Under
load, requests wait while the threads work. All waiting requests of the same kind are then computed
as one batch: a switch of threads and a call of a model cost as much as labelling a short sentence.
"""

import asyncio
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

__all__ = ["Workers"]

_BATCH = 4096  # tokens; more would let the first request of a batch wait for the last

Compute = Callable[[list[Any]], list[Any]]
"""Returns one result for each of a list of sequences."""


class _Waiting(NamedTuple):
    key: Hashable
    compute: Compute
    sequences: list[Any]
    size: int
    """Number of tokens."""
    future: asyncio.Future[list[Any]]


class Workers:
    """``count`` threads, and the requests that wait for them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="trellis-serve")
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._tokens = 0  # of the waiting requests
        self._busy = 0  # threads that run `_drain`

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function that runs in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    async def compute(self, key: Hashable, compute: Compute, sequences: list[Any]) -> list[Any]:
        """Return ``compute(sequences)``, perhaps computed together with other requests.

        Requests with equal keys have the same ``compute``.
        """
        loop = asyncio.get_running_loop()
        entry = _Waiting(key, compute, sequences, sum(map(len, sequences)), loop.create_future())
        with self._lock:
            batches = self._tokens // _BATCH
            self._tokens += entry.size
            if not self._waiting or self._tokens // _BATCH > batches:
                # Not at once: other requests of this turn of the event loop join the batch.
                loop.call_soon(self._start, loop)
            self._waiting.append(entry)
        return await entry.future

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a thread, and more of them if there is much work.

        Threads that have little to compute would only wait for Python's global lock.
        """
        with self._lock:
            wanted = min(self.count, 1 + self._tokens // _BATCH) if self._waiting else 0
            new_threads = max(0, wanted - self._busy)
            self._busy += new_threads
        for _ in range(new_threads):
            self._pool.submit(self._drain, loop)

    def close(self) -> None:
        """Wait for the threads and end them."""
        self._pool.shutdown()

    def _drain(self, loop: asyncio.AbstractEventLoop) -> None:
        """Compute batches until nothing waits."""
        while batch := self._take():
            results = _compute_batch(batch)
            loop.call_soon_threadsafe(_deliver, batch, results)

    def _take(self) -> list[_Waiting]:
        """Remove and return waiting requests of one kind, the oldest first; [] ends the thread."""
        with self._lock:
            # Under too much load, answers for clients that are gone would delay all others.
            waiting = [entry for entry in self._waiting if not entry.future.done()]
            batch: list[_Waiting] = []
            self._waiting, size = [], 0
            for entry in waiting:
                if entry.key == waiting[0].key and size < _BATCH:
                    batch.append(entry)
                    size += entry.size
                else:
                    self._waiting.append(entry)
            self._tokens = sum(entry.size for entry in self._waiting)
            if not batch:
                self._busy -= 1
            return batch


def _compute_batch(batch: list[_Waiting]) -> list[Any]:
    """Return the results of each request, or the exception that it raised."""
    compute = batch[0].compute
    joined = [sequence for entry in batch for sequence in entry.sequences]
    try:
        results = compute(joined)
    except Exception as error:
        if len(batch) == 1:
            return [error]
        # One wrong sequence must not spoil the answers of the other requests.
        return [result for entry in batch for result in _compute_batch([entry])]
    parts, begin = [], 0
    for entry in batch:
        end = begin + len(entry.sequences)
        parts.append(results[begin:end])
        begin = end
    return parts


def _deliver(batch: list[_Waiting], results: list[Any]) -> None:
    for entry, result in zip(batch, results, strict=True):
        if entry.future.done():  # the client is gone, or the time is over
            continue
        if isinstance(result, Exception):
            entry.future.set_exception(result)
        else:
            entry.future.set_result(result)
