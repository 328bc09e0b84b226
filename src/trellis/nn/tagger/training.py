"""From a network and a corpus to weights: steps, schedules, and a state that can be saved."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trellis.errors import InputError
from trellis.nn.tagger.cuda_graph import Graphs
from trellis.nn.tagger.data import Batch, Corpus, Epoch, Padded, bucketed
from trellis.nn.tagger.network import Network
from trellis.nn.tagger.optimizer import LazyRows, clip

__all__ = ["OPTIMIZERS", "SCHEDULES", "Progress", "Trainer", "schedule"]

OPTIMIZERS = ("adamw", "sgd")
SCHEDULES = ("constant", "linear", "cosine")
_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

_SMALL = 512  # tokens of a batch

Arrays = dict[str, NDArray[Any]]


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
    """Of the last step."""


class Trainer:
    """The optimisers of a network, and epochs over a corpus."""

    def __init__(self, network: Network, corpus: Corpus, settings: Any, seed: int) -> None:
        self.network, self.corpus, self.settings, self.seed = network, corpus, settings, seed
        self.named = {n: p for n, p in network.named_parameters() if p.requires_grad}
        self.optimizers = _optimizers(network, list(self.named.values()), settings)
        self.precision = _TYPES.get(settings.precision)
        if self.precision is not None and corpus.device.type != "cuda":
            raise InputError(f"precision={settings.precision!r} is for a card, not for the CPU")
        self.scaler = torch.amp.GradScaler(enabled=self.precision is torch.float16)
        self.rate = 0.0
        """The learning rate of the last step."""
        self.total = torch.zeros((), device=corpus.device)
        """The loss of an epoch so far."""
        self.graphs = Graphs(corpus) if self._may_be_captured() else None

    def _may_be_captured(self) -> bool:
        """Whether nothing in a step waits for the card, or depends on more than sizes."""
        plain = self.precision is not torch.float16 and self.settings.optimizer == "adamw"
        on_card = self.corpus.device.type == "cuda" and self.corpus.allowed is None
        return on_card and plain and self.network.fixed_sizes

    def epoch(self, number: int) -> tuple[float, float]:
        """Train on all sequences once; the loss a token, and how many seconds it took."""
        began = time.perf_counter()
        torch.manual_seed((self.seed << 16) + number)  # an epoch depends on its number alone
        generator = np.random.default_rng([self.seed, number])
        size = self.settings.batch_size
        parts = bucketed(self.corpus.lengths, size, generator)
        batches = Epoch(self.corpus, parts)
        self.total.zero_()
        self.network.train()
        small = self.corpus.tokens < _SMALL * len(parts) and self.corpus.device.type == "cpu"
        # on a card the way back would run on a thread of its own, and waking that takes longer
        with (
            torch.autograd.set_multithreading_enabled(False),
            _threads(1 if small else None),
            _beside(self.graphs),
        ):
            for n, batch in enumerate(batches.padded(size) if self.graphs else batches):
                self._set_rate(number - 1 + n / len(batches))
                if not isinstance(batch, Padded):
                    self._step(batch)
                elif self.graphs:
                    self.graphs(batch, self._step, self._forget)
        self.network.eval()
        self._forget()
        loss = float(self.total) / self.corpus.tokens  # the only time that the device is waited for
        return loss, time.perf_counter() - began

    def _forget(self) -> None:
        for p in self.named.values():  # zero_grad without its hooks, once for all
            p.grad = None

    def _step(self, batch: Batch) -> None:
        self._forget()
        half = self.precision
        # casts that a graph remembers would be those of old weights
        cast = torch.autocast("cuda", dtype=half, cache_enabled=False) if half else nullcontext()
        with cast:
            loss = -self.network.log_likelihood(batch)
        self.scaler.scale(loss / batch.tokens).backward()  # type: ignore[no-untyped-call]
        if self.settings.clip:
            for optimizer in self.optimizers:
                self.scaler.unscale_(optimizer)
            clip(self.named.values(), self.settings.clip)
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        self.total += loss.detach()

    def _set_rate(self, epochs: float) -> None:
        share = schedule(self.settings.schedule, epochs, self.settings.epochs)
        self.rate = self.settings.learning_rate * share
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(self.rate)
                else:
                    group["lr"] = self.rate

    # ---- what a checkpoint holds

    def to_arrays(self) -> Arrays:
        """Weights, and what the optimisers know of each."""
        found = {f"network.{n}": as_array(t) for n, t in self.network.state_dict().items()}
        for name, p in self.named.items():
            for optimizer in self.optimizers:
                for key, value in optimizer.state.get(p, {}).items():
                    if value is not None:
                        found[f"{key}.{name}"] = as_array(torch.as_tensor(value))
        found["scale"] = np.array(self.scaler.get_scale() if self.scaler.is_enabled() else 1.0)
        return found

    def restore(self, arrays: Arrays) -> None:
        """Take up what `to_arrays` gave."""
        load_state(self.network, arrays)
        if self.graphs:  # they would go on with what the optimisers knew before
            self.graphs = Graphs(self.corpus)
        if self.scaler.is_enabled():
            self.scaler = torch.amp.GradScaler(init_scale=float(arrays["scale"]))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    name = next(n for n, own in self.named.items() if own is p)
                    optimizer.state[p] = _state_of(arrays, name, p, optimizer)


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """So many threads of PyTorch: with a small batch, to wake a second one takes what it saves."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _beside(graphs: Graphs | None) -> Iterator[None]:
    """On the stream that graphs are captured on: PyTorch's first one cannot be captured."""
    if graphs is None:
        yield
        return
    usual = torch.cuda.current_stream(graphs.corpus.device)
    graphs.stream.wait_stream(usual)
    try:
        with torch.cuda.stream(graphs.stream):
            yield
    finally:
        usual.wait_stream(graphs.stream)


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A copy in the memory of NumPy, which later steps do not change."""
    return np.array(tensor.detach().cpu().numpy())


def load_state(network: nn.Module, arrays: Arrays, prefix: str = "network.") -> None:
    """Weights of a network from arrays, each of which must be there, finite and of its shape."""
    own = network.state_dict()
    for name, tensor in own.items():
        array = arrays.get(prefix + name)
        if array is None or array.shape != tuple(tensor.shape) or array.dtype != np.float32:
            raise InputError(f"tensor {prefix + name!r} is missing, or of another shape or type")
        if not np.isfinite(array).all():
            raise InputError(f"tensor {prefix + name!r} is not finite")
        own[name] = torch.from_numpy(np.array(array))
    network.load_state_dict(own)


def _state_of(arrays: Arrays, name: str, p: Tensor, optimizer: Any) -> dict[str, Any]:
    fused = any(group.get("fused") for group in optimizer.param_groups)
    state = {}
    for key in ("step", "exp_avg", "exp_avg_sq", "momentum_buffer"):
        array = arrays.get(f"{key}.{name}")
        if array is None:
            continue
        if array.shape not in ((), tuple(p.shape)) or not np.isfinite(array).all():
            raise InputError(f"tensor '{key}.{name}' is of another shape, or not finite")
        there = p.device if key != "step" or fused else "cpu"
        state[key] = torch.from_numpy(np.array(array)).to(there)
    return state


def _optimizers(network: Network, parameters: list[Tensor], settings: Any) -> list[Any]:
    sparse = {
        id(m.weight)
        for m in network.modules()
        if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.sparse
    }
    dense = [p for p in parameters if id(p) not in sparse]
    tables = [p for p in parameters if id(p) in sparse]
    options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimizer == "sgd":
        made: list[Any] = [torch.optim.SGD(dense, momentum=0.9, foreach=True, **options)]
        # rows that are rarely touched must not go on by momentum
        return made + ([torch.optim.SGD(tables, lr=settings.learning_rate)] if tables else [])
    made = [torch.optim.AdamW(dense, fused=True, **_for_graphs(network.device, options))]
    return made + ([LazyRows(tables, **options)] if tables else [])


def _for_graphs(device: torch.device, options: dict[str, Any]) -> dict[str, Any]:
    """A CUDA graph reads the rate of each step where it lies."""
    if device.type != "cuda":
        return options
    return {**options, "lr": torch.tensor(options["lr"], device=device), "capturable": True}


def schedule(name: str, epochs: float, most: int) -> float:
    """By what the learning rate is multiplied after so many epochs out of `most`.

    >>> [round(schedule("linear", e, 11), 2) for e in (0.5, 1.0, 6.0, 11.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if name == "constant":
        return 1.0
    warm = min(1.0, 0.1 * most)
    if epochs < warm:
        return epochs / warm
    share = min(1.0, (epochs - warm) / (most - warm))
    return 1.0 - share if name == "linear" else 0.5 * (1.0 + math.cos(math.pi * share))
