"""The engine of one machine: threads of this process, or processes."""

from __future__ import annotations

import operator
import os
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from trellis import native
from trellis.checks import as_positive
from trellis.engines.base import Engine, make_blocks
from trellis.engines.storage import Placed, Shared, remove
from trellis.engines.tasks import Task, run_all, run_block
from trellis.engines.tree import TreeSum, block_size
from trellis.errors import EngineError

__all__ = ["Local"]

_BLOCKS_PER_JOB = 4  # more blocks than jobs, so that jobs end at about the same time


class Local(Engine):
    """Computes shards in this process or in processes of this machine.

    ``jobs`` shards are computed at a time: by threads, or with ``processes=True`` by processes.
    Processes are faster where Python code computes the features. ``folder`` is for the features
    of the shards, on a disk with enough space; by default it is temporary. ``cache_bytes`` limits
    the memory for shards that are kept ready between iterations.

    >>> Local(jobs=2).sum(lambda x: x * x, [1.0, 2.0, 3.0])
    14.0
    """

    def __init__(
        self,
        jobs: int | None = None,
        *,
        processes: bool = False,
        folder: str | os.PathLike[str] | None = None,
        cache_bytes: int = 1 << 30,
    ) -> None:
        self.jobs = native.resolve_jobs(jobs, "jobs")
        self.processes = processes
        self.cache_bytes = as_positive(cache_bytes, "cache_bytes")
        if folder is None:
            self.folder = tempfile.mkdtemp(prefix="trellis-")
            self._cleanup = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        else:
            self.folder = os.path.abspath(folder)
            os.makedirs(self.folder, exist_ok=True)
        self._pool: Executor | None = None

    @property
    def isa(self) -> str:  # type: ignore[override]
        """The instruction set of this process."""
        return native.isa()

    @property
    def task_threads(self) -> int:
        """1 if several shards are computed at a time, else all cores."""
        return 1 if self.jobs > 1 else native.resolve_jobs(None)

    def sum(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        *arguments: Any,
        name: str = "sum",
        add: Callable[[Any, Any], Any] = operator.add,
        length: int = 0,
    ) -> Any:
        """Return Σ function(item, …) over the items, by the binary tree of `tree`."""
        size = block_size(len(items), _BLOCKS_PER_JOB * self.jobs)
        total = TreeSum(add)
        blocks, placed = make_blocks(items, size)
        shared = self._share(*placed, *arguments)
        calls = ((run_block, self._task(), function, add, block, *shared) for block in blocks)
        count = self._counter(name, len(items))
        for block, value in zip(blocks, self._in_order(calls), strict=True):
            total.push(value)
            count(len(block.items))
        return total.result()

    def run(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        *arguments: Any,
        name: str = "run",
    ) -> Iterator[Any]:
        """Yield function(item, …) of each item, in order."""
        blocks, placed = make_blocks(items, 1)
        shared = self._share(*placed, *arguments)
        calls = ((run_all, self._task(), function, block, *shared) for block in blocks)
        count = self._counter(name, len(items))
        for values in self._in_order(calls):
            count(len(values))
            yield from values

    def forget(self, *items: Placed | Shared) -> None:
        """Remove the files and the memory of items that are not needed any more."""
        remove([item.key for item in items], Path(self.folder))

    def _share(self, *arguments: Any) -> tuple[Any, ...]:
        """Return the arguments; what all tasks share is a file for processes."""
        for argument in arguments:
            if self.processes and isinstance(argument, Shared):
                argument.spill(self.folder)
        return arguments

    def _task(self) -> Task:
        return Task.here(self.folder, self.cache_bytes)

    def _in_order(self, calls: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield the results of calls in order; at most two per job wait or run."""
        if self.jobs == 1 and not self.processes:
            yield from (call(*arguments) for call, *arguments in calls)
            return
        pending: deque[Future[Any]] = deque()
        try:
            for call in calls:
                pending.append(self._executor().submit(*call))
                if len(pending) >= 2 * self.jobs:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            self._pool = None
            raise EngineError(
                "a process of Local was killed, perhaps because the memory is full: use fewer jobs "
                "or smaller shards. A script that uses processes must start its work under "
                "if __name__ == '__main__':"
            ) from None
        finally:  # after an error or Ctrl-C, tasks that have not started are dropped
            for future in pending:
                future.cancel()
            wait(pending)  # a running task would write files again that `forget` removes

    def _executor(self) -> Executor:
        if self._pool is None:
            if self.processes:
                self._pool = ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn"))
            else:
                self._pool = ThreadPoolExecutor(self.jobs, thread_name_prefix="trellis")
        return self._pool

    def close(self) -> None:
        """End the threads or processes, and remove the temporary folder."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        if hasattr(self, "_cleanup"):
            self._cleanup()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("an engine cannot be pickled")
