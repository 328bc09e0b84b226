"""The engine of a Dask cluster, from plain tasks only.

Everything that a task needs is in the task graph: the weights, the feature map and the shard. So
the scheduler can run a task again on any worker. The numbers of a shard are on the disk of the
worker that uses them. A worker that does not have them computes them.
"""

from __future__ import annotations

import itertools
import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

import trellis
from trellis import native
from trellis.checks import as_positive
from trellis.engines.base import Engine, make_blocks
from trellis.engines.storage import Placed, Shared, folder_of, remove
from trellis.engines.tasks import Block, Task, run_all, run_block
from trellis.engines.tree import block_size, split
from trellis.errors import EngineError, InputError, TrellisError

__all__ = ["Dask"]

_BLOCKS_PER_THREAD = 2  # more blocks than threads, so that threads end at about the same time
_WAITING = 2  # tasks of `run` for each thread of the cluster, running or waiting
_SLICE = 10_000_000  # weights; longer gradients are added by slices of this length
_ATTEMPTS = 10  # a call whose tasks were on several workers that were killed starts again
_CACHE_BYTES = 1 << 30  # of a worker without a memory limit
_LOST_SECONDS = 60.0  # without a worker, after which a call ends
_CONNECT_SECONDS = 10
_LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"
_numbers = itertools.count()  # part of the names of tasks: no result is taken from an earlier call


class Dask(Engine):
    """Computes shards on a Dask cluster.

    ``client`` is a ``distributed.Client``, or the address of a scheduler such as
    ``"tcp://scheduler:8786"``. All workers must have the same version of trellis, and must be able
    to read the files of the corpus under the same paths. They use the best instruction set that
    all of them have. ``cache_bytes`` limits the memory of each worker for shards that are kept
    ready between iterations, by default to a quarter of the smallest memory limit of a worker.
    """

    def __init__(self, client: Any, *, cache_bytes: int | None = None) -> None:
        distributed = _import_distributed()
        self._owns_client = isinstance(client, str)
        self.client = _connect(distributed, client) if isinstance(client, str) else client
        if not isinstance(self.client, distributed.Client):
            raise InputError(
                "client must be a distributed.Client or the address of a scheduler, not "
                f"{type(client).__name__}"
            )
        self._shared: dict[str, Any] = {}  # key -> future
        self._homes: dict[int, str] = {}  # first shard of a block -> address of its worker
        self._n_blocks = 0
        try:
            if cache_bytes is None:
                limits = [worker["memory_limit"] for worker in self._workers().values()]
                cache_bytes = min(filter(None, limits), default=_CACHE_BYTES * 4) // 4
            self.cache_bytes = as_positive(cache_bytes, "cache_bytes")
            self.isa = self._agree()
        except BaseException:
            self.close()
            raise

    @property
    def task_threads(self) -> int:
        """1: a worker runs as many tasks as it has threads."""
        return 1

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
        self._n_blocks = self._n_blocks or _BLOCKS_PER_THREAD * self._count_threads()
        blocks, placed = make_blocks(items, block_size(len(items), self._n_blocks))
        slices = [slice(None)]
        if length > _SLICE:
            slices = [slice(begin, begin + _SLICE) for begin in range(0, length, _SLICE)]

        def submit() -> list[Any]:
            homes = self._find_homes([block.first for block in blocks])
            shared = [self._broadcast(argument) for argument in (*placed, *arguments)]
            leaves = [
                self._submit(
                    name, run_block, self._task(), function, add, block, *shared, worker=home
                )
                for block, home in zip(blocks, homes, strict=True)
            ]
            if self.progress is not None:
                count = self._counter(name, len(items))
                sizes = {
                    leaf.key: len(block.items) for leaf, block in zip(leaves, blocks, strict=True)
                }
                for leaf in leaves:
                    leaf.add_done_callback(lambda leaf: count(sizes[leaf.key]))
            return [self._submit_tree(name, _slices_of(self, leaves, part), add) for part in slices]

        values = self._gather(submit)
        return values[0] if len(values) == 1 else np.concatenate(values)

    def run(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        *arguments: Any,
        name: str = "run",
    ) -> Iterator[Any]:
        """Yield function(item, …) of each item, in order."""
        blocks, placed = make_blocks(items, 1)
        pending: deque[tuple[Block, Any]] = deque()
        limit = _WAITING * self._count_threads()
        count = self._counter(name, len(items))

        def submit(block: Block) -> Any:
            shared = [self._broadcast(argument) for argument in (*placed, *arguments)]
            return self._submit(name, run_all, self._task(), function, block, *shared)

        try:
            for block in blocks:
                pending.append((block, submit(block)))
                if len(pending) >= limit:
                    yield from self._take(pending, submit)
                    count(1)
            while pending:
                yield from self._take(pending, submit)
                count(1)
        finally:
            self._cancel([future for _, future in pending])

    def forget(self, *items: Placed | Shared) -> None:
        """Remove the files and the memory of items that are not needed any more."""
        keys = [item.key for item in items]
        for key in keys:
            self._shared.pop(key, None)
        if self.client.status == "running":
            # A worker that was lost has no files, and a lost scheduler has its own error.
            with suppress(OSError, TimeoutError):
                self.client.run(remove_from_worker, keys, on_error="ignore")

    def close(self) -> None:
        """Release what the workers hold; close the client if the engine has opened it."""
        self._shared.clear()
        if self._owns_client:
            self.client.close()

    # ---- tasks

    def _submit_tree(self, name: str, leaves: Sequence[Any], add: Callable[[Any, Any], Any]) -> Any:
        """Return the future of the sum of futures, by the binary tree."""
        if len(leaves) == 1:
            return leaves[0]
        first = split(len(leaves))
        left = self._submit_tree(name, leaves[:first], add)
        right = self._submit_tree(name, leaves[first:], add)
        return self._submit(f"{name}-sum", add_values, add, left, right)

    def _submit(
        self, name: str, function: Callable[..., Any], *arguments: Any, worker: str | None = None
    ) -> Any:
        """Return the future of a task; it runs on ``worker`` if that is alive."""
        options: dict[str, Any] = {"key": f"trellis-{name}-{next(_numbers)}", "pure": False}
        if worker is not None:
            options |= {"workers": [worker], "allow_other_workers": True}
        return self.client.submit(function, *arguments, **options)

    def _broadcast(self, argument: Any) -> Any:
        """Return a future for a large argument, so that each worker receives it once."""
        if isinstance(argument, Shared):
            if argument.key not in self._shared:
                self._shared[argument.key] = self._embed("shared", argument)
            return self._shared[argument.key]
        if isinstance(argument, np.ndarray):
            return self._embed("weights", argument)
        return argument

    def _embed(self, name: str, value: Any) -> Any:
        """Return the future of a task that contains the value: the scheduler can run it again."""
        import dask

        with dask.config.set({_LARGE_GRAPH: "1TB"}):
            return self._submit(name, identity, value)

    def _find_homes(self, blocks: list[int]) -> list[str]:
        """Return the worker of each block, which has its files if it is still alive.

        Blocks of a lost worker go to the workers with the fewest.
        """
        workers = self._workers()
        load = dict.fromkeys(sorted(workers), 0)
        for block in blocks:
            if self._homes.get(block) in load:
                load[self._homes[block]] += 1
        for block in blocks:
            if self._homes.get(block) not in load:
                self._homes[block] = min(load, key=load.__getitem__)
                load[self._homes[block]] += 1
        return [self._homes[block] for block in blocks]

    # ---- results

    def _gather(self, submit: Callable[[], list[Any]]) -> list[Any]:
        """Return the results of submitted tasks; start again if workers were killed repeatedly."""
        from distributed import KilledWorker

        for attempt in range(_ATTEMPTS):
            futures: list[Any] = []
            try:
                futures = submit()
                self._wait(futures)
                return list(self.client.gather(futures))
            except KilledWorker as error:
                if attempt == _ATTEMPTS - 1:
                    raise EngineError(
                        f"a task was on {_ATTEMPTS} groups of workers that were killed, perhaps "
                        f"because the memory is full: use smaller shards ({error})"
                    ) from None
            except BaseException as error:
                self._cancel(futures)
                if (translated := _translate(error)) is error:
                    raise
                raise translated from error
        raise AssertionError("unreachable")

    def _wait(self, futures: list[Any]) -> None:
        """Wait until the futures are done; raise EngineError if the cluster stays without workers.

        Without this, a call would wait for ever after the last worker is lost.
        """
        from distributed import wait

        while True:
            try:
                with self.client.as_current():  # the process may have other clients
                    wait(futures, timeout=_LOST_SECONDS)
                return
            except TimeoutError:
                self._workers()

    def _take(self, pending: deque[tuple[Block, Any]], submit: Callable[[Block], Any]) -> list[Any]:
        """Remove the first task of `run`, and return its results."""
        block, future = pending.popleft()
        futures = iter([future])
        results: list[Any] = self._gather(lambda: [next(futures, None) or submit(block)])[0]
        return results

    def _cancel(self, futures: list[Any]) -> None:
        if futures and self.client.status == "running":
            self.client.cancel(futures, force=True)

    # ---- the cluster

    def _task(self) -> Task:
        return Task(trellis.__version__, self.isa, None, self.cache_bytes)

    def _workers(self) -> dict[str, Any]:
        """Return the workers by their addresses; wait if there is none."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        if not workers:
            try:
                self.client.wait_for_workers(1, timeout=_LOST_SECONDS)
            except TimeoutError:
                raise EngineError(
                    f"the cluster has had no worker for {_LOST_SECONDS:g} s: start workers, and "
                    "fit with the same checkpoint to resume"
                ) from None
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return dict(workers)

    def _count_threads(self) -> int:
        self._workers()
        return max(1, int(sum(self.client.nthreads().values())))

    def _agree(self) -> str:
        """Return the best instruction set of all workers and of the client."""
        self._workers()
        common = [*native.available_isas()]
        for address, (version, names) in self.client.run(describe_process).items():
            if version != trellis.__version__:
                raise EngineError(
                    f"worker {address} has trellis {version}, but the client has "
                    f"{trellis.__version__}: install the same version on all machines"
                )
            common = [name for name in common if name in names]
        if native.isa() in common:
            return native.isa()
        if not common:
            raise EngineError("the workers and the client have no instruction set in common")
        return common[-1]


def identity(value: Any) -> Any:
    """Return the value: a task that the scheduler can repeat."""
    return value


def add_values(add: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    """Return the sum; a result of another task must not change, so vectors are added to a copy."""
    return first + second if isinstance(first, np.ndarray) else add(first, second)


def take_slice(value: Any, part: slice) -> Any:
    """Return a slice of a vector, as an array of its own."""
    return value[part].copy()


def describe_process() -> tuple[str, tuple[str, ...]]:
    """Return the version of trellis and the instruction sets of a process."""
    return trellis.__version__, native.available_isas()


def remove_from_worker(keys: Sequence[str], dask_worker: Any) -> None:
    """Remove the files of keys; Dask passes the worker, which `Client.run` does not set."""
    remove(keys, folder_of(dask_worker))


def _slices_of(engine: Dask, leaves: list[Any], part: slice) -> list[Any]:
    """Return futures of a slice of each vector; the vectors themselves for ``slice(None)``."""
    if part == slice(None):
        return leaves
    return [engine._submit("slice", take_slice, leaf, part) for leaf in leaves]


def _translate(error: BaseException) -> BaseException:
    """Return the error of a task, or an EngineError for a problem of the cluster."""
    if isinstance(error, TrellisError | KeyboardInterrupt | MemoryError):
        return error
    module = type(error).__module__
    is_cluster = module.startswith("distributed") or isinstance(error, OSError | TimeoutError)
    if is_cluster or type(error).__name__ in ("CancelledError", "FutureCancelledError"):
        return EngineError(
            f"the scheduler or the connection to it was lost ({type(error).__name__}: {error}): "
            "start the cluster again, and fit with the same checkpoint to resume"
        )
    return error


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError("the Dask engine needs a package: pip install 'trellis[dask]'") from None
    return distributed


def _connect(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=_CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise EngineError(
            f"scheduler {address}: no answer after {_CONNECT_SECONDS} s: check the address and "
            f"that the scheduler runs ({type(error).__name__})"
        ) from None
