"""Checkpoints: the state of a training run in a file, so that a stopped run can be resumed."""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.checks import integer_at_least
from trellis.errors import FormatError, InputError
from trellis.formats import native

__all__ = ["Checkpoint", "ResumableRun", "Saved", "fingerprint"]

History: TypeAlias = list[tuple[int, float]]
"""Pairs (iteration, loss) or (iteration, score)."""

_COST_FACTOR = 20  # wait 20 times as long as a save takes: saving uses at most 1/20 of the time
# Parameters that may differ between the saved and the resumed run: the solver's state replaces
# them, or they do not change the result. Features are not compared as parameters: the computed
# features are part of the data, whose `fingerprint` is compared.
_MAY_DIFFER = {
    *("features", "edge_features", "joint"),
    *("max_iter", "n_jobs", "random_state", "verbose", "warm_start"),
}


class ResumableRun(Protocol):
    """The attributes and methods of a training run that a checkpoint can save."""

    @property
    def iteration(self) -> int:
        """The number of finished iterations or epochs."""

    @property
    def losses(self) -> History:
        """(iteration, loss) of each finished iteration."""

    @property
    def dev_scores(self) -> History:
        """(iteration, score) of each scoring of the development set."""

    @property
    def since_best(self) -> int:
        """The number of scores since the best one."""

    def best_weights(self) -> NDArray[np.float64] | None:
        """Return the weights with the best score.

        Return None if there is no score, or if the arrays of `to_arrays` contain these weights.
        """

    def to_arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return the state from which the run can continue with exactly the same results."""


class Saved(NamedTuple):
    """The contents of a checkpoint."""

    arrays: dict[str, Any]
    """The state of the run, as `ResumableRun.to_arrays` returned it."""
    losses: History
    scores: History
    best_w: NDArray[np.float64] | None
    since_best: int


class Checkpoint:
    """The file in which ``fit(…, checkpoint=…)`` saves its state, and from which it resumes.

    The state is saved after ``every`` iterations. With None, saving takes at most 1/20 of the time.
    After a crash, fit again with ``resume=True`` and the same data and parameters. The result has
    the same bits as without the crash. If there is no file yet, training starts from the beginning.
    The file is replaced atomically. It still exists when training ends: call `remove` when the
    model is saved.

    >>> import tempfile
    >>> from trellis import CRF
    >>> X, y = [["the", "dog", "barks"], ["a", "cat", "sleeps"]], [["DET", "NOUN", "VERB"]] * 2
    >>> path = Path(tempfile.mkdtemp()) / "run.checkpoint"
    >>> short = CRF(max_iter=4).fit(X, y, checkpoint=Checkpoint(path, every=2))
    >>> resumed = CRF().fit(X, y, checkpoint=Checkpoint(path, resume=True))
    >>> bool((resumed.coef_ == CRF().fit(X, y).coef_).all())
    True
    """

    def __init__(
        self, path: str | os.PathLike[str], *, every: int | None = None, resume: bool = False
    ) -> None:
        self.path = Path(path)
        self.every = None if every is None else integer_at_least(every, 1, "every")
        self.resume = resume
        self.iteration = 0
        """The iteration of the last state that was saved or restored; 0 if none was."""
        self.stopped = False
        """True if `halt` has ended fit."""
        self._halt_requested = False
        self._next_save = 0.0  # seconds on the monotonic clock
        self._meta: dict[str, Any] = {}

    @classmethod
    def at(cls, place: Any) -> Any:
        """Return the checkpoint of a folder, which resumes if it can; other values unchanged."""
        if not isinstance(place, str | os.PathLike):
            return place
        folder = Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder / "trellis.checkpoint", resume=True)

    def halt(self) -> None:
        """End fit after the current iteration, and save its state. Safe in a signal handler."""
        self._halt_requested = True

    def remove(self) -> None:
        """Delete the file if it exists."""
        self.path.unlink(missing_ok=True)

    def parameters(self) -> dict[str, str]:
        """Return the ``repr`` of each parameter of the run to resume; {} if there is none."""
        if not (self.resume and self.path.exists()):
            return {}
        stored_parameters = native.read(self.path, kind="checkpoint").meta.get("parameters")
        return stored_parameters if isinstance(stored_parameters, dict) else {}

    def restore(self, parameters: dict[str, Any], data: str) -> Saved | None:
        """Return the saved state of a run with these parameters and data, or None if there is none.

        ``data`` is the `fingerprint` of the training data. `after_iteration` writes the parameters
        and the fingerprint into the file.
        """
        reprs = {
            name: repr(value)
            for name, value in sorted(parameters.items())
            if name not in _MAY_DIFFER
        }
        self._meta = {"parameters": reprs, "data": data}
        if not (self.resume and self.path.exists()):
            return None
        meta, tensors = native.read(self.path, kind="checkpoint")[1:3]
        self._check_same_run(meta)
        with self.errors_name_file():
            saved = _read_saved(meta, tensors)
        self.iteration = saved.losses[-1][0] if saved.losses else 0
        return saved

    @contextmanager
    def errors_name_file(self) -> Iterator[None]:
        """Convert errors caused by invalid contents to a FormatError that names the file."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{self.path}: the checkpoint is invalid: {error}") from None

    def _check_same_run(self, meta: dict[str, Any]) -> None:
        with self.errors_name_file():
            saved_parameters, data = dict(meta["parameters"]), meta["data"]
        parameters = self._meta["parameters"]
        for name in sorted({*saved_parameters, *parameters}):
            # Parameters that a later version of trellis added are omitted if they have their
            # default.
            saved_value, value = (p.get(name, "(default)") for p in (saved_parameters, parameters))
            if saved_value != value:
                raise InputError(
                    f"{self.path} was saved with {name}={saved_value}, "
                    f"but this run has {name}={value}"
                )
        if data != self._meta["data"]:
            raise InputError(f"{self.path} was saved with different training data or features")

    def after_iteration(self, run: ResumableRun) -> bool:
        """Save the run if a save is due; return True if the run must stop because of `halt`.

        Call it after each iteration except the last, after which there is nothing to resume.
        """
        if not (self._halt_requested or self._is_due(run.iteration)):
            return False
        start_time = time.monotonic()
        arrays = {f"state.{name}": array for name, array in run.to_arrays().items()}
        arrays |= {"losses": _as_table(run.losses), "scores": _as_table(run.dev_scores)}
        best_weights = run.best_weights()
        if best_weights is not None:
            arrays["best_w"] = best_weights
        native.write(self.path, "checkpoint", {**self._meta, "since_best": run.since_best}, arrays)
        self.iteration = run.iteration
        finish_time = time.monotonic()
        self._next_save = finish_time + _COST_FACTOR * (finish_time - start_time)
        self.stopped = self._halt_requested
        return self.stopped

    def _is_due(self, iteration: int) -> bool:
        if self.every is None:
            return time.monotonic() >= self._next_save
        return iteration % self.every == 0


def fingerprint(arrays: Iterable[Any]) -> str:
    """Return a checksum of arrays; each of them may be None.

    >>> fingerprint([np.zeros(2), None])[:8], fingerprint([np.zeros(3), None])[:8]
    ('06fac661', 'f86ba5b2')
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none;")
            continue
        # The shape is part of the checksum: the same bytes in another shape are different data.
        digest.update(f"{array.dtype.str}{array.shape};".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _as_table(history: History) -> NDArray[np.float64]:
    """Return the pairs as an array of shape (entries, 2)."""
    return np.array(history, dtype=np.float64).reshape(-1, 2)


def _as_history(table: NDArray[np.float64]) -> History:
    return [(int(iteration), float(value)) for iteration, value in table]


def _read_saved(meta: dict[str, Any], tensors: native.Tensors) -> Saved:
    for name, array in tensors.items():
        if array.dtype == np.float64:
            native.finite(tensors, name)
    arrays = {
        key.removeprefix("state."): tensor
        for key, tensor in tensors.items()
        if key.startswith("state.")
    }
    losses, scores = (
        _as_history(native.expect(tensors, name, np.float64, (None, 2)))
        for name in ("losses", "scores")
    )
    if not {iteration for iteration, _ in scores} <= {iteration for iteration, _ in losses}:
        raise InputError("scores contains an iteration that is not in losses")
    since_best = integer_at_least(meta["since_best"], 0, "since_best")
    # The arrays of a file are read-only, so the weights are copied.
    best_weights = np.array(tensors["best_w"]) if "best_w" in tensors else None
    return Saved(arrays, losses, scores, best_weights, since_best)
