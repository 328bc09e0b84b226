"""A training run: epochs, development scores, the best weights, and the file to go on from."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from trellis.errors import InputError, OptimizationError
from trellis.models.chain.checkpoint import Checkpoint, fingerprint
from trellis.nn.tagger.data import Corpus
from trellis.nn.tagger.training import Arrays, Progress, Trainer, as_array, load_state

__all__ = ["Run", "fingerprint_of"]

_log = logging.getLogger("trellis")
_NO_SCORE = -1.0  # in a table of numbers


class Run:
    """Epochs until they are all done, or the score on the development set gets no better."""

    def __init__(self, trainer: Trainer, score: Callable[[], float] | None) -> None:
        self.trainer, self.score = trainer, score
        self.progress: list[Progress] = []
        self.best: Arrays = {}
        """The weights with the best score so far."""
        self.since_best = 0

    def to_end(
        self, callback: Callable[[Progress], object] | None, checkpoint: Checkpoint | None
    ) -> None:
        """Train; the network is left with the best weights."""
        settings = self.trainer.settings
        for number in range(len(self.progress) + 1, settings.epochs + 1):
            self._epoch(number)
            patience = settings.patience or settings.epochs
            stop = self.score is not None and self.since_best >= patience
            stop = bool(callback and callback(self.progress[-1])) or stop
            if stop or number == settings.epochs:
                break
            if checkpoint and checkpoint.after_iteration(self):
                break
        if self.best:
            load_state(self.trainer.network, self.best)

    def _epoch(self, number: int) -> None:
        loss, seconds = self.trainer.epoch(number)
        if not np.isfinite(loss):
            raise OptimizationError(f"epoch {number}: the loss is {loss}; a lower learning_rate?")
        found = None if self.score is None else self.score()
        speed = self.trainer.corpus.tokens / seconds
        self.since_best += 1
        if found is not None and found > max((s for _, s in self.dev_scores), default=-np.inf):
            state = self.trainer.network.state_dict()
            self.best = {f"network.{name}": as_array(t) for name, t in state.items()}
            self.since_best = 0
        self.progress.append(Progress(number, loss, found, seconds, speed, self.trainer.rate))
        _log.info("epoch %d: loss %.4f, dev %s, %.1f s", number, loss, found, seconds)

    # ---- what `Checkpoint` asks for

    @property
    def iteration(self) -> int:
        """The number of finished epochs."""
        return len(self.progress)

    def best_weights(self) -> None:
        """Return None: the best weights are among the arrays."""

    @property
    def losses(self) -> list[tuple[int, float]]:
        """Epoch and loss."""
        return [(p.epoch, p.loss) for p in self.progress]

    @property
    def dev_scores(self) -> list[tuple[int, float]]:
        """Epoch and score on the development set."""
        return [(p.epoch, p.dev_score) for p in self.progress if p.dev_score is not None]

    def to_arrays(self) -> Arrays:
        """All that is needed to go on."""
        table = [[_NO_SCORE if v is None else v for v in p] for p in self.progress]
        best = {name.replace("network.", "best.", 1): a for name, a in self.best.items()}
        own: Arrays = {"progress": np.array(table, np.float64)}
        own["seed"] = np.array(self.trainer.seed, np.int64)
        return own | best | self.trainer.to_arrays()

    def restore(self, arrays: Arrays, since_best: int) -> None:
        """Take up what `to_arrays` gave."""
        table = arrays["progress"]
        if table.ndim != 2 or table.shape[1] != len(Progress._fields):
            raise InputError(f"a table of epochs has shape {table.shape}")
        self.progress = [
            Progress(int(row[0]), row[1], None if row[2] == _NO_SCORE else row[2], *row[3:])
            for row in table.tolist()
        ]
        self.trainer.seed = int(arrays["seed"])
        self.trainer.restore(arrays)
        self.since_best = since_best
        self.best = {
            name.replace("best.", "network.", 1): np.array(array)
            for name, array in arrays.items()
            if name.startswith("best.")
        }


def fingerprint_of(corpus: Corpus, network: Any) -> str:
    """A checksum of the training data and of the shapes of the network."""
    allowed = None if corpus.allowed is None else corpus.allowed.cpu().numpy()
    shapes = np.array([n for t in network.state_dict().values() for n in t.shape], np.int64)
    return fingerprint([corpus.lengths, corpus.form, corpus.tags, allowed, shapes])
