"""Training of a network: steps, epochs, development scores, the best weights, and resuming."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch

from trellis.checks import integer_in_range
from trellis.errors import InputError, OptimizationError
from trellis.models.chain.checkpoint import Checkpoint, fingerprint
from trellis.nn.tagger.cuda_graph import StepGraphs
from trellis.nn.tagger.data import Batch, Corpus, Epoch, PaddedBatch, bucket_by_length
from trellis.nn.tagger.network import Arrays, Network, copy_weights, load_weights
from trellis.nn.tagger.optimizer import (
    build_optimizers,
    clip_gradients,
    rate_factor,
    restore_state,
    set_rate,
    state_arrays,
)
from trellis.optim.display import Draw

__all__ = ["Progress", "Trainer", "TrainingRun", "after_epoch", "fingerprint_of"]

_log = logging.getLogger("trellis")

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
# tokens per batch: with fewer, waking a second CPU thread takes longer than it saves
_MIN_TOKENS_FOR_THREADS = 512
_NO_SCORE = -1.0  # replaces None in a table of numbers; a score is never negative


class Progress(NamedTuple):
    """The result of one epoch, the argument of a callback."""

    epoch: int
    """Number of the epoch; the first is 1."""
    loss: float
    """-log p(y | x) per token, in nats."""
    dev_score: float | None
    """Score on the development set, or None without one."""
    seconds: float
    """Time of the training steps, without the scoring of the development set."""
    tokens_per_second: float
    learning_rate: float
    """Learning rate of the last step."""


def after_epoch(
    epochs: int, draw: Draw, callback: Callable[[Progress], object] | None, progress: Progress
) -> bool:
    """Show the progress, call the callback, and return whether training stops."""
    text = f"epoch {progress.epoch} of {epochs}  loss {progress.loss:.4f}"
    if progress.dev_score is not None:
        text += f"  dev {100 * progress.dev_score:.2f}"
    draw(progress.epoch / epochs, f"{text}  {progress.tokens_per_second:,.0f} tokens/s")
    return callback is not None and bool(callback(progress))


class Trainer:
    """Trains a network on a corpus, one epoch per call."""

    def __init__(self, network: Network, corpus: Corpus, settings: Any, seed: int) -> None:
        self.network, self.corpus, self.settings, self.seed = network, corpus, settings, seed
        self.parameters = {n: p for n, p in network.named_parameters() if p.requires_grad}
        self.optimizers = build_optimizers(network, list(self.parameters.values()), settings)
        self.precision = _DTYPES.get(settings.precision)
        if self.precision is not None and corpus.device.type != "cuda":
            raise InputError(f"precision={settings.precision!r} needs a GPU, not the CPU")
        self.scaler = torch.amp.GradScaler(enabled=self.precision is torch.float16)
        self.rate = 0.0
        """Learning rate of the last step."""
        self.total_loss = torch.zeros((), device=corpus.device)
        """Loss of the current epoch so far."""
        self.graphs = StepGraphs(corpus) if self._can_capture() else None

    def _can_capture(self) -> bool:
        """Return True if a step never waits for the GPU, and needs only the shape of its batch."""
        # With fp16, a step copies to the host whether gradients overflowed. The learning rate of
        # SGD is a Python number, which a graph would store as a constant.
        is_plain = self.precision is not torch.float16 and self.settings.optimizer == "adamw"
        is_on_gpu = self.corpus.device.type == "cuda" and self.corpus.allowed is None
        # The weights of a batch are found by its sequences, which a padded batch does not have.
        is_unweighted = self.corpus.weights is None
        return is_on_gpu and is_plain and is_unweighted and self.network.fixed_sizes

    def run_epoch(self, number: int) -> tuple[float, float]:
        """Train on all sequences once, and return the loss per token and the time in seconds."""
        started = time.perf_counter()
        # The epoch number is part of the seed: a resumed training draws the same random numbers.
        torch.manual_seed((self.seed << 16) + number)
        generator = np.random.default_rng([self.seed, number])
        size = self.settings.batch_size
        groups = bucket_by_length(self.corpus.lengths, size, generator)
        batches = Epoch(self.corpus, groups)
        self.total_loss.zero_()
        self.network.train()
        is_small = self.corpus.tokens < _MIN_TOKENS_FOR_THREADS * len(groups)
        with (
            # By default autograd runs the GPU's backward pass on another thread, and waking it
            # takes time.
            torch.autograd.set_multithreading_enabled(False),
            _limit_threads(1 if is_small and self.corpus.device.type == "cpu" else None),
            _use_stream(self.graphs),
        ):
            for n, batch in enumerate(batches.padded(size) if self.graphs else batches):
                self._set_rate(number - 1 + n / len(batches))
                if not isinstance(batch, PaddedBatch):
                    self._step(batch)
                elif self.graphs:
                    self.graphs.run(batch, self._step, self._drop_gradients)
        self.network.eval()
        self._drop_gradients()
        # Only here does an epoch wait for the device: reading the loss copies it to the host.
        loss = float(self.total_loss) / self.corpus.tokens
        return loss, time.perf_counter() - started

    def _drop_gradients(self) -> None:
        # one loop instead of one call of zero_grad per optimiser
        for p in self.parameters.values():
            p.grad = None

    def _step(self, batch: Batch) -> None:
        self._drop_gradients()
        dtype = self.precision
        # autocast must not cache weights in half precision: a CUDA graph would reuse old ones.
        cast = torch.autocast("cuda", dtype=dtype, cache_enabled=False) if dtype else nullcontext()
        with cast:
            loss = -self.network.log_likelihood(batch, self._get_weights(batch))
        self.scaler.scale(loss / batch.tokens).backward()  # type: ignore[no-untyped-call]
        if self.settings.clip:
            for optimizer in self.optimizers:
                self.scaler.unscale_(optimizer)
            clip_gradients(self.parameters.values(), self.settings.clip)
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        self.total_loss += loss.detach()

    def _get_weights(self, batch: Batch) -> torch.Tensor | None:
        """Return the weights (B,) of the sequences of a batch, or None if all are 1."""
        weights = self.corpus.weights
        return None if weights is None else weights[torch.from_numpy(batch.sequences)]

    def _set_rate(self, epochs: float) -> None:
        factor = rate_factor(self.settings.schedule, epochs, self.settings.epochs)
        self.rate = self.settings.learning_rate * factor
        set_rate(self.optimizers, self.rate)

    def to_arrays(self) -> Arrays:
        """Return the weights, the state of the optimisers and the scale of the loss."""
        arrays = copy_weights(self.network) | state_arrays(self.optimizers, self.parameters)
        arrays["scale"] = np.array(self.scaler.get_scale() if self.scaler.is_enabled() else 1.0)
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """Set the state that `to_arrays` returned."""
        load_weights(self.network, arrays)
        if self.graphs:  # captured graphs would still write to the old state of the optimisers
            self.graphs = StepGraphs(self.corpus)
        if self.scaler.is_enabled():
            self.scaler = torch.amp.GradScaler(init_scale=float(arrays["scale"]))
        restore_state(self.optimizers, self.parameters, arrays)


class TrainingRun:
    """The epochs of a training, until the last one or until the development score stops improving.

    A `Checkpoint` can save a run: it has the members of `ResumableRun`.
    """

    def __init__(self, trainer: Trainer, score: Callable[[], float] | None) -> None:
        self.trainer, self.score = trainer, score
        self.progress: list[Progress] = []
        self.best: Arrays = {}
        """The weights with the best score so far, by "network.name"."""
        self.since_best = 0
        """Number of epochs since the best score."""

    def run(
        self, callback: Callable[[Progress], object] | None, checkpoint: Checkpoint | None
    ) -> None:
        """Train the network, and leave it with the best weights."""
        settings = self.trainer.settings
        patience = settings.patience or settings.epochs
        for epoch_number in range(len(self.progress) + 1, settings.epochs + 1):
            self._run_epoch(epoch_number)
            is_done = self.score is not None and self.since_best >= patience
            is_done = bool(callback and callback(self.progress[-1])) or is_done
            if is_done or epoch_number == settings.epochs:
                break
            if checkpoint and checkpoint.after_iteration(self):
                break
        if self.best:
            load_weights(self.trainer.network, self.best)

    def _run_epoch(self, number: int) -> None:
        loss, seconds = self.trainer.run_epoch(number)
        if not np.isfinite(loss):
            raise OptimizationError(
                f"epoch {number}: the loss is {loss}; try a smaller learning_rate"
            )
        score = None if self.score is None else self.score()
        speed = self.trainer.corpus.tokens / seconds
        self.since_best += 1
        if score is not None and score > max(
            (dev_score for _, dev_score in self.dev_scores), default=-np.inf
        ):
            self.best = copy_weights(self.trainer.network)
            self.since_best = 0
        self.progress.append(Progress(number, loss, score, seconds, speed, self.trainer.rate))
        _log.info("epoch %d: loss %.4f, dev %s, %.1f s", number, loss, score, seconds)

    @property
    def iteration(self) -> int:
        """Number of finished epochs."""
        return len(self.progress)

    @property
    def losses(self) -> list[tuple[int, float]]:
        """(epoch, loss) pairs."""
        return [(p.epoch, p.loss) for p in self.progress]

    @property
    def dev_scores(self) -> list[tuple[int, float]]:
        """(epoch, score on the development set) pairs."""
        return [(p.epoch, p.dev_score) for p in self.progress if p.dev_score is not None]

    def best_weights(self) -> None:
        """Return None, because `to_arrays` includes the best weights."""

    def to_arrays(self) -> Arrays:
        """Return the full state. A training that resumes from it ends with the same bits."""
        table = [
            [_NO_SCORE if row_value is None else row_value for row_value in progress]
            for progress in self.progress
        ]
        best = {name.replace("network.", "best.", 1): array for name, array in self.best.items()}
        arrays: Arrays = {"progress": np.array(table, np.float64)}
        arrays["seed"] = np.array(self.trainer.seed, np.int64)
        return arrays | best | self.trainer.to_arrays()

    def restore(self, arrays: Arrays, since_best: int) -> None:
        """Set the state that `to_arrays` returned."""
        table = arrays["progress"]
        if table.ndim != 2 or table.shape[1] != len(Progress._fields):
            expected = f"must be (epochs, {len(Progress._fields)})"
            raise InputError(f"tensor 'progress' has shape {table.shape}: {expected}")
        self.progress = [
            Progress(int(row[0]), row[1], None if row[2] == _NO_SCORE else row[2], *row[3:])
            for row in table.tolist()
        ]
        self.trainer.seed = integer_in_range(int(arrays["seed"]), 0, 2**31 - 1, "seed")
        self.since_best = since_best
        self.best = {
            name.replace("best.", "network.", 1): np.array(array)
            for name, array in arrays.items()
            if name.startswith("best.")
        }
        if self.best:
            load_weights(self.trainer.network, self.best)  # validates them
        self.trainer.restore(arrays)


@contextmanager
def _limit_threads(count: int | None) -> Iterator[None]:
    """Limit PyTorch to ``count`` CPU threads; None changes nothing."""
    previous = torch.get_num_threads()
    torch.set_num_threads(previous if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(previous)


@contextmanager
def _use_stream(graphs: StepGraphs | None) -> Iterator[None]:
    """Use the stream of the graphs: CUDA cannot capture its default stream."""
    if graphs is None:
        yield
        return
    default = torch.cuda.current_stream(graphs.corpus.device)
    graphs.stream.wait_stream(default)
    try:
        with torch.cuda.stream(graphs.stream):
            yield
    finally:
        default.wait_stream(graphs.stream)


def fingerprint_of(corpus: Corpus, network: Any) -> str:
    """Return a checksum of the training data and of the shapes of the network."""
    allowed = None if corpus.allowed is None else corpus.allowed.cpu().numpy()
    shapes = np.array([n for t in network.state_dict().values() for n in t.shape], np.int64)
    arrays = [corpus.lengths, corpus.word_id, corpus.tags, allowed, shapes]
    if corpus.weights is not None:
        arrays.append(corpus.weights.cpu().numpy())
    return fingerprint(arrays)
