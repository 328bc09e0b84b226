"""From a network and a corpus to weights: epochs, steps, schedules, early stopping."""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from trellis.nn.tagger_data import Corpus, Epoch, bucketed
from trellis.nn.tagger_network import Network
from trellis.nn.tagger_optim import LazyRows, clip

__all__ = ["SCHEDULES", "Progress", "Trainer"]

SCHEDULES = ("constant", "linear", "cosine")


class Progress(NamedTuple):
    """One epoch, as a callback sees it."""

    epoch: int
    """From 1 on."""
    loss: float
    """-log p(y | x) a token, in nats."""
    dev_score: float | None
    seconds: float
    """Of training, without the development set."""
    tokens_per_second: float
    learning_rate: float


class Trainer:
    """The optimisers of a network, and epochs of a corpus."""

    def __init__(self, network: Network, corpus: Corpus, settings: Any, seed: int) -> None:
        self.network, self.corpus, self.settings, self.seed = network, corpus, settings, seed
        self.device = corpus.device
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        sparse = {
            id(m.weight)
            for m in network.modules()
            if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.sparse
        }
        dense = [p for p in self.parameters if id(p) not in sparse]
        tables = [p for p in self.parameters if id(p) in sparse]
        options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
        if settings.optimizer == "sgd":
            self.optimizers: list[Any] = [torch.optim.SGD(dense, momentum=0.9, **options)]
            if tables:
                self.optimizers.append(torch.optim.SGD(tables, lr=settings.learning_rate))
        else:
            self.optimizers = [torch.optim.AdamW(dense, fused=True, **options)]
            if tables:
                self.optimizers.append(LazyRows(tables, **options))

    def epoch(self, number: int) -> Tensor:
        """Train on all sequences once; the sum of the losses, on the device."""
        generator = np.random.default_rng([self.seed, number])
        size = self.settings.batch_size
        batches = Epoch(self.corpus, bucketed(self.corpus.lengths, size, generator))
        total = torch.zeros((), device=self.device)
        self.network.train()
        for n, batch in enumerate(batches):
            self._rate(number - 1 + n / len(batches))
            for optimizer in self.optimizers:
                optimizer.zero_grad(set_to_none=True)
            loss = -self.network.log_likelihood(batch)
            (loss / len(batch.word)).backward()
            if self.settings.clip:
                clip(self.parameters, self.settings.clip)
            for optimizer in self.optimizers:
                optimizer.step()
            total += loss.detach()
        return total

    def _rate(self, epochs: float) -> None:
        rate = self.settings.learning_rate * schedule(
            self.settings.schedule, epochs, self.settings.epochs
        )
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate


def schedule(name: str, epochs: float, most: int) -> float:
    """By what the learning rate is multiplied after so many epochs of `most`.

    >>> [round(schedule("linear", e, 10), 2) for e in (0.0, 1.0, 5.5, 10.0)]
    [0.0, 1.0, 0.5, 0.0]
    """
    if name == "constant":
        return 1.0
    warm = min(1.0, 0.1 * most)
    if epochs < warm:
        return epochs / warm
    share = (epochs - warm) / max(most - warm, 1e-9)
    return 1.0 - share if name == "linear" else 0.5 * (1.0 + math.cos(math.pi * share))


def run_epoch(trainer: Trainer, number: int, score: Callable[[], float | None]) -> Progress:
    """Train for an epoch, then score the development set."""
    began = time.perf_counter()
    loss = float(trainer.epoch(number)) / trainer.corpus.tokens  # waits for the device
    seconds = time.perf_counter() - began
    rate = trainer.optimizers[0].param_groups[0]["lr"]
    return Progress(number, loss, score(), seconds, trainer.corpus.tokens / seconds, rate)
