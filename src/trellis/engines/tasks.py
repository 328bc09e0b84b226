"""What a task does, on any engine: calls a function for each shard of a block, adds the results.

An exception names the shard and, if there is one, the line. A task runs only with the version of
trellis and the instruction set of the client: another one would give other bits.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import trellis
from trellis import native
from trellis.engines import storage
from trellis.engines.storage import Placed, Shared
from trellis.engines.tree import TreeSum
from trellis.errors import EngineError, TrellisError

__all__ = ["Block", "Task", "errors_name_shard", "run_all", "run_block"]


@dataclass(frozen=True)
class Block:
    """Consecutive shards of one task."""

    first: int
    """The number of the first shard."""
    items: Sequence[Any]
    placed: int = 0
    """The number of arguments of `Placed` items, which come before those of the function."""


@dataclass(frozen=True)
class Task:
    """The settings of the client that a task must have."""

    version: str
    isa: str
    folder: str | None
    """The folder for the files of tasks; None for that of the Dask worker."""
    cache_bytes: int
    """The memory of a process for prepared shards."""

    @classmethod
    def here(cls, folder: str | None, cache_bytes: int) -> Task:
        """Return the settings of this process."""
        return cls(trellis.__version__, native.isa(), folder, cache_bytes)

    def prepare(self) -> None:
        """Take over the settings; raise EngineError if this process has other ones."""
        if trellis.__version__ != self.version:
            raise EngineError(
                f"{_host()} has trellis {trellis.__version__}, but the client has {self.version}: "
                "install the same version on all machines"
            )
        if native.isa() != self.isa:
            if self.isa not in native.available_isas():
                raise EngineError(
                    f"{_host()} cannot run the instruction set {self.isa}, only "
                    f"{', '.join(native.available_isas())}: start the client with the environment "
                    f"variable TRELLIS_ISA={native.available_isas()[-1]}"
                )
            native.use_isa(self.isa)
        storage.configure(self.folder, self.cache_bytes)


def run_block(
    task: Task,
    function: Callable[..., Any],
    add: Callable[[Any, Any], Any],
    block: Block,
    *arguments: Any,
) -> Any:
    """Return the sum of function(item, …) over a block, by the tree."""
    total = TreeSum(add)
    for value in _call(task, function, block, arguments):
        total.push(value)
    return total.result()


def run_all(task: Task, function: Callable[..., Any], block: Block, *arguments: Any) -> list[Any]:
    """Return function(item, …) of each item of a block."""
    return list(_call(task, function, block, arguments))


def _call(
    task: Task, function: Callable[..., Any], block: Block, arguments: tuple[Any, ...]
) -> Iterator[Any]:
    """Yield function(item, …); the first ``block.placed`` arguments are those of the items."""
    task.prepare()
    placed, rest = arguments[: block.placed], arguments[block.placed :]
    on_cluster = storage.dask_worker() is not None
    for number, item in enumerate(block.items, block.first):
        with errors_name_shard(getattr(item, "number", number), item):
            for shared in arguments:
                if on_cluster and isinstance(shared, Shared):
                    shared.spill()
            ready = item.with_arguments(placed) if isinstance(item, Placed) else item
            yield function(ready, *rest)


@contextmanager
def errors_name_shard(number: int, item: Any) -> Iterator[None]:
    """Let an error name the shard, its file and, for an error of a sequence, the line."""
    try:
        yield
    except EngineError:
        raise
    except TrellisError as error:
        raise type(error)(f"shard {number} ({_place(item, error)}): {error}") from None
    except OSError as error:  # such as a full disk
        raise EngineError(
            f"shard {number} ({_place(item)}) on {_host()}: {error.filename or ''}: "
            f"{error.strerror or error}"
        ) from None
    except Exception as error:  # of a function of the user
        error.add_note(f"in shard {number} ({_place(item)})")
        raise


def _place(item: Any, error: TrellisError | None = None) -> str:
    shard = getattr(item, "item", item)  # that of a `Placed`
    name = str(getattr(shard, "name", shard))
    if error is None or error.sequence is None or not hasattr(shard, "line_of"):
        return name
    try:
        line = shard.line_of(error.sequence)
    except (TrellisError, OSError):  # the message stays useful without the line
        line = None
    return name if line is None else f"{name}, line {line}"


def _host() -> str:
    """Return the name of the worker for messages."""
    worker = storage.dask_worker()
    return f"worker {worker.address}" if worker is not None else f"host {socket.gethostname()}"
