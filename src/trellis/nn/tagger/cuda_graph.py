"""Training steps on a card as CUDA graphs: one launch a step, instead of hundreds from Python.

A graph has fixed sizes and fixed memory. So batches are padded to a few sizes, each of which gets a
graph of its own, and what a batch is made of is copied to where its graph reads it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trellis.nn.tagger.data import Batch, Corpus, Padded, Room

__all__ = ["Graphs"]


class _Graph(NamedTuple):
    replay: Callable[[], None]
    integers: Tensor
    """Where it reads its batch."""


class Graphs:
    """Runs a step for padded batches, from the second of a size on by a graph.

    A step must leave nothing behind but changes of tensors that were there before it, and never
    wait for the card. ``forget`` drops what would be kept from one step to the next.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.stream = torch.cuda.Stream(corpus.device)  # type: ignore[no-untyped-call]
        self._made: dict[Room, _Graph | None] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(
        self, given: Padded, step: Callable[[Batch], Any], forget: Callable[[], None]
    ) -> None:
        """Make the step of a batch."""
        room = given.room
        if room not in self._made:  # the first of its size, which compiles what is not compiled yet
            self._made[room] = None
            step(given.batch(self.corpus))
            return
        graph = self._made[room]
        if graph is None:
            graph = self._made[room] = self._captured(given, step, forget)
        graph.integers.copy_(given.integers)
        graph.replay()

    def _captured(
        self, given: Padded, step: Callable[[Batch], Any], forget: Callable[[], None]
    ) -> _Graph:
        integers = given.integers.clone()
        graph = torch.cuda.CUDAGraph()
        forget()
        torch.cuda.synchronize(self.corpus.device)
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            step(Padded(integers, given.room).batch(self.corpus))
        finally:
            graph.capture_end()
            forget()
        return _Graph(graph.replay, integers)
