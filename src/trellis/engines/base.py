"""The interface of engines: place shards, sum a function over shards, run it over each of them.

The shards and the tree of the sum are fixed by the data (`tree`), so an engine decides only where
and when a shard is computed. Every engine gives the same bits.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from trellis.engines.storage import Arrays, Placed, Shared
from trellis.engines.tasks import Block

__all__ = ["Engine", "add_in_place", "make_blocks"]


class Engine(ABC):
    """Where the shards of a corpus are computed."""

    isa: str
    """The instruction set of all tasks."""
    progress: Callable[[str, int, int], None] | None = None
    """``progress(name, done, shards)`` is called when shards are done, from any thread."""

    def place(
        self, function: Callable[..., Arrays], items: Sequence[Any], *arguments: Any
    ) -> list[Placed]:
        """Return handles of function(item, …), arrays that stay on the disks of the workers.

        A worker computes the arrays of an item when it first needs them.
        """
        return [Placed.at(function, item, arguments) for item in items]

    @abstractmethod
    def sum(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        *arguments: Any,
        name: str = "sum",
        add: Callable[[Any, Any], Any] = operator.add,
        length: int = 0,
    ) -> Any:
        """Return Σ function(item, …) over the items, by the binary tree of `tree`.

        ``length`` is the length of the values if they are vectors: long ones are added by slices.
        """

    @abstractmethod
    def run(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        *arguments: Any,
        name: str = "run",
    ) -> Iterator[Any]:
        """Yield function(item, …) of each item, in order.

        Only a few results wait at a time, so the results together may be larger than the memory.
        """

    @abstractmethod
    def forget(self, *items: Placed | Shared) -> None:
        """Remove the files and the memory of items that are not needed any more."""

    @contextmanager
    def holding(self, *items: Placed | Shared) -> Iterator[None]:
        """Forget items at the end of a ``with`` block, also after an error or Ctrl-C."""
        try:
            yield
        finally:
            self.forget(*items)

    @property
    @abstractmethod
    def task_threads(self) -> int:
        """The number of threads that a task may use."""

    def _counter(self, name: str, shards: int) -> Callable[[int], None]:
        """Return a function that adds to the number of shards that are done."""
        done = 0

        def count(more: int) -> None:
            nonlocal done
            done += more
            if self.progress is not None:
                self.progress(name, done, shards)

        return count

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the engine."""


def make_blocks(items: Sequence[Any], size: int) -> tuple[list[Block], tuple[Any, ...]]:
    """Return the blocks of items, and the arguments of items that are placed."""
    placed = items[0].arguments if isinstance(items[0], Placed) else ()
    blocks = [
        Block(first, items[first : first + size], len(placed))
        for first in range(0, len(items), size)
    ]
    return blocks, placed


def add_in_place(a: Any, b: Any) -> Any:
    """Return a + b of two arrays, in the memory of a; a must not be read-only."""
    return np.add(a, b, out=a) if a.flags.writeable else a + b
