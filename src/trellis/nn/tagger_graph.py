"""Training steps on a card as CUDA graphs: one launch a step, instead of hundreds from Python.

A graph has fixed sizes and fixed memory. So batches are padded to a few sizes, each of which gets a
graph of its own, and what a batch is made of is copied to where its graph reads it.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trellis.nn.tagger_data import Batch, Corpus, Padded, Room

__all__ = ["Graphs"]

_log = logging.getLogger("trellis")


class _Graph(NamedTuple):
    replay: Callable[[], None]
    integers: Tensor
    """Where it reads its batch."""


class Graphs:
    """Runs ``step(batch)`` for padded batches, from the second of a size on by a graph.

    ``step`` must leave nothing behind but changes of tensors that were there before it, and never
    wait for the card. ``forget`` drops what would be kept from one step to the next.
    """

    def __init__(
        self, corpus: Corpus, step: Callable[[Batch], Any], forget: Callable[[], None]
    ) -> None:
        self.corpus, self.step, self.forget = corpus, step, forget
        self.stream = torch.cuda.Stream(corpus.device)  # type: ignore[no-untyped-call]
        self._made: dict[Room, _Graph | None] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self._works = True

    def __call__(self, given: Padded) -> None:
        """Make the step of a batch."""
        room = given.room
        if room in self._made and self._works and self._made[room] is None:
            self._made[room] = self._captured(given)
        graph = self._made.setdefault(room, None)
        if graph is None:  # the first of its size, which also compiles what is not compiled yet
            self.step(given.batch(self.corpus))
            return
        graph.integers.copy_(given.integers)
        graph.replay()

    def _captured(self, given: Padded) -> _Graph | None:
        integers = given.integers.clone()
        graph = torch.cuda.CUDAGraph()
        self.forget()
        torch.cuda.synchronize(self.corpus.device)
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            self.step(Padded(integers, given.room).batch(self.corpus))
        except RuntimeError as error:
            self._works = False  # something of the network cannot be part of a graph
            _log.info("training goes on without CUDA graphs: %s", str(error).splitlines()[0])
        try:
            graph.capture_end()
        except RuntimeError:
            self._works = False
        self.forget()
        return _Graph(graph.replay, integers) if self._works else None
