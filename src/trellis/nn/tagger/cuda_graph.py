"""Training steps on a GPU as CUDA graphs: Python starts one launch per step instead of hundreds.

A CUDA graph has fixed sizes and fixed memory addresses. So batches are padded to a few shapes, one
graph is captured per shape, and each batch is copied to the memory from which its graph reads.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trellis.nn.tagger.data import Batch, Corpus, PaddedBatch, PaddedShape

__all__ = ["StepGraphs"]


class _Graph(NamedTuple):
    replay: Callable[[], None]
    integers: Tensor
    """The memory from which the graph reads its batch."""


class StepGraphs:
    """Runs training steps of padded batches as CUDA graphs, except the first step of each shape.

    A step may only change tensors that exist before it, and must never synchronise with the GPU.
    ``drop_gradients`` releases all gradients. It is called before and after a capture, because
    neither a graph nor the next step may use the gradients of another step.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.stream = torch.cuda.Stream(corpus.device)  # type: ignore[no-untyped-call]
        self._graphs: dict[PaddedShape, _Graph | None] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def run(
        self, batch: PaddedBatch, step: Callable[[Batch], Any], drop_gradients: Callable[[], None]
    ) -> None:
        """Run the training step of a batch."""
        shape = batch.shape
        if shape not in self._graphs:
            # The first batch of a shape runs without a graph: Triton may compile kernels for it,
            # and compiling is not allowed during a capture.
            self._graphs[shape] = None
            step(batch.batch(self.corpus))
            return
        graph = self._graphs[shape]
        if graph is None:
            graph = self._graphs[shape] = self._capture(batch, step, drop_gradients)
        graph.integers.copy_(batch.integers)
        graph.replay()

    def _capture(
        self, batch: PaddedBatch, step: Callable[[Batch], Any], drop_gradients: Callable[[], None]
    ) -> _Graph:
        integers = batch.integers.clone()
        graph = torch.cuda.CUDAGraph()
        drop_gradients()
        torch.cuda.synchronize(self.corpus.device)
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            step(PaddedBatch(integers, batch.shape).batch(self.corpus))
        finally:
            graph.capture_end()
            drop_gradients()
        return _Graph(graph.replay, integers)
