"""Actions after each iteration of fit: history, development scores, callback, checkpoint."""

import logging
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.checks import integer_at_least
from trellis.data import tags
from trellis.data.shards.corpus import Corpus
from trellis.errors import InputError, UnseenLabelWarning
from trellis.formats.parts import compared_parameters
from trellis.metrics import scorer
from trellis.models.chain.checkpoint import Checkpoint, History, fingerprint
from trellis.models.chain.labels import count_unseen
from trellis.models.chain.problem import Problem
from trellis.models.chain.solvers import default_max_iter, restore_state
from trellis.native import isa
from trellis.optim import EarlyStopping
from trellis.optim.display import Draw, describe_iteration
from trellis.optim.result import Progress, Result
from trellis.sequences import label_lists, sequences

__all__ = ["Monitor", "TrainingRun", "read_dev", "warn_of_unseen_labels"]

_log = logging.getLogger("trellis")
_NO_LIMIT = int(np.iinfo(np.int64).max)  # the patience if training never stops early


class Monitor(NamedTuple):
    """The arguments of fit that monitor or stop the training."""

    dev: tuple[Any, Any] | None
    dev_every: int
    callback: Callable[[Progress], object] | None
    checkpoint: Checkpoint | None

    def check(self, early_stopping: int | None) -> None:
        """Validate the arguments before training starts."""
        integer_at_least(self.dev_every, 1, "dev_every")
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback must be a function, not {self.callback!r}")
        if not isinstance(self.checkpoint, Checkpoint | None):
            raise InputError(f"checkpoint must be a Checkpoint, not {self.checkpoint!r}")
        if self.dev is None and early_stopping is not None:
            raise InputError("early_stopping needs a development set: fit(X, y, dev=(X, y))")


def read_dev(dev: Any, any_type: bool = False) -> tuple[list[Any], list[Any]] | None:
    """Return the development set (X, y) as lists; ``any_type`` as for `sequences`."""
    if dev is None:
        return None
    if isinstance(dev, Corpus):
        dev = dev.load()
    if not isinstance(dev, tuple | list) or len(dev) != 2:
        raise InputError(f"dev must be a pair (X, y), not {type(dev).__name__}")
    if not any_type and isinstance(dev[0], list) and dev[0] and isinstance(dev[0][0], str):
        raise InputError(
            "dev must be a pair (X, y) of sequences and their labels, but dev[0] is one sequence"
        )
    X, y = sequences(dev[0], any_type=any_type), label_lists(dev[1])
    if len(X) != len(y):
        raise InputError(f"dev has {len(X)} sequences and {len(y)} label lists")
    return X, y


def warn_of_unseen_labels(dev: tuple[Any, Any] | None, classes: Any, stacklevel: int = 3) -> None:
    """Warn about labels of the development set that are not among the classes of training.

    ``stacklevel`` is 3 in ``fit`` itself: the warning then names the line that calls ``fit``.
    """
    if dev is None:
        return
    unseen = count_unseen(dev[1], classes)
    if unseen.counts:
        warnings.warn(f"dev: {unseen}", UnseenLabelWarning, stacklevel=stacklevel)


class TrainingRun:
    """One run of a solver, which calls this object with the Progress of each iteration.

    The solver stops if the call returns True. The class is a `ResumableRun`: a checkpoint can save
    it.
    """

    def __init__(self, model: Any, monitor: Monitor, draw: Draw) -> None:
        self.model, self.monitor, self.draw = model, monitor, draw
        self.losses: History = []
        self.iteration = 0
        self.tokens = 0
        """The tokens of the training data; 0 if their number per second is not shown."""
        self._earlier_evaluations = 0
        self._state: Callable[[], Any] | None = None
        self.early: EarlyStopping | None = None
        if monitor.dev is not None:
            patience = model.early_stopping or _NO_LIMIT
            self.early = EarlyStopping(self._score_dev, patience=patience, every=monitor.dev_every)
        # Progress bars read the histories of the model during training.
        model.losses_, model.dev_scores_ = self.losses, self.dev_scores

    def resume(self, data: Iterable[NDArray[Any] | None], w0: NDArray[np.float64]) -> Any:
        """Restore the run from its checkpoint; return the solver's state, or None if there is none.

        ``data`` are all arrays that the result depends on. Raise InputError if the checkpoint was
        saved with different data.
        """
        model, checkpoint = self.model, self.monitor.checkpoint
        if checkpoint is None:
            return None
        settings = {"model": type(model).__name__, **compared_parameters(model)}
        saved = checkpoint.restore(settings, fingerprint([*data, w0]))
        if saved is None:
            return None
        with checkpoint.errors_name_file():
            state = restore_state(model.solver, saved.arrays, len(w0))
            if saved.best_w is not None and (
                saved.best_w.shape != w0.shape or saved.best_w.dtype != np.float64
            ):
                raise InputError(f"best_w must be an array of {len(w0)} float64 numbers")
        self.losses[:] = saved.losses
        self._earlier_evaluations = getattr(state, "evaluations", 0)
        if self.early:
            self.early.restore(saved.scores, saved.best_w, saved.since_best)
            model.dev_scores_ = self.dev_scores
        return state

    def __call__(self, progress: Progress) -> bool:
        """Record an iteration; return True to stop the solver."""
        self.iteration, self._state = progress.iteration, progress.state
        self.losses.append((progress.iteration, progress.loss))
        _log.debug("iteration %d: loss %.6f", progress.iteration, progress.loss)
        should_stop = self.early(progress) if self.early else False
        self._draw_progress(progress)
        if self.monitor.callback is not None and self.monitor.callback(progress):
            should_stop = True
        if self.monitor.checkpoint and not should_stop and progress.state is not None:
            should_stop = self.monitor.checkpoint.after_iteration(self)
        return should_stop

    def finish(self, result: Result[Any], problem: Problem) -> None:
        """Set the weights of the model.

        They are the weights of the last iteration or, with early stopping, those with the best
        development score.
        """
        model, early_stopping, w = self.model, self.early, result.w
        model.n_iter_, model.objective_ = result.n_iter, result.loss
        model.converged_, model.isa_ = result.converged, isa()
        if early_stopping and model.early_stopping and early_stopping.best_w is not None:
            w = early_stopping.best_w
            model.n_iter_ = max(early_stopping.history, key=lambda entry: entry[1])[0]
            model.objective_ = dict(self.losses)[model.n_iter_]
        model.set_weights(w)
        if model.solver == "sgd":
            # In an epoch of sgd, the loss of each sequence is measured before its own step. So the
            # loss of the final weights is computed here.
            model.objective_ = problem.loss(w)
        _log.info("%d iterations, loss %.6f: %s", result.n_iter, result.loss, result.message)

    def _draw_progress(self, progress: Progress) -> None:
        limit = self.model.max_iter or default_max_iter(self.model.solver)
        text = describe_iteration(progress.iteration, progress.loss, self.dev_scores)
        if self.tokens and progress.seconds > 0:
            evaluations = progress.evaluations - self._earlier_evaluations
            speed = self.tokens * evaluations / progress.seconds
            text += f"  {speed:,.0f} tokens/s"
        self.draw(min(1.0, progress.iteration / limit) if limit else None, text)

    def _score_dev(self, w: NDArray[np.float64]) -> float:
        self.model.set_weights(w)
        options = {}
        if self.model.scoring == "span_f1":
            options["scheme"] = tags.detect([str(label) for label in self.model.classes_])
        assert self.monitor.dev is not None
        try:
            return scorer(self.model.scoring, **options)(self.model, *self.monitor.dev)
        except InputError as error:
            # The index of the sequence in the message is an index into dev, not the training data.
            raise InputError(f"dev: {error}") from None

    # ---- for the checkpoint

    @property
    def dev_scores(self) -> History:
        """(iteration, score) of each scoring of the development set."""
        return self.early.history if self.early else []

    @property
    def since_best(self) -> int:
        """The number of scores since the best one."""
        return self.early.since_best if self.early else 0

    def best_weights(self) -> NDArray[np.float64] | None:
        """Return the weights with the best score so far."""
        return self.early.best_w if self.early else None

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state of the solver."""
        assert self._state is not None
        arrays: dict[str, NDArray[Any]] = self._state().to_arrays()
        return arrays
