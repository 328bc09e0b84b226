"""Training that can be stopped at any moment: the solver's state in a file, saved as it runs."""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trellis.checks import as_integer
from trellis.errors import FormatError, InputError
from trellis.formats import native
from trellis.optim import EarlyStopping
from trellis.optim.result import Progress

__all__ = ["Checkpoint", "Saved", "fingerprint"]

_SHARE = 20  # of the time at most one part in so many goes into saving
# What may differ between the run that saved and the one that goes on: the state says the rest.
_FREE = {"features", "edge_features", "max_iter", "n_jobs", "random_state", "warm_start"}


class Saved(NamedTuple):
    """What a checkpoint holds."""

    arrays: dict[str, Any]
    """The state of the solver."""
    losses: list[tuple[int, float]]
    scores: list[tuple[int, float]]
    best_w: Any
    since_best: int


class Checkpoint:
    """Where ``fit(…, checkpoint=…)`` saves its state as it goes, and what it goes on from.

    ``every`` is a number of iterations; with None, saving takes at most a twentieth of the time.
    After a crash, ``resume=True`` with the same data and parameters ends with the same bits as a
    run that was never stopped; if no file is there yet, training begins at the beginning. The file
    is replaced as a whole or not at all. It is left in place when training ends: `remove` it once
    the model is saved.

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
        self.every = None if every is None else as_integer(every, "every")
        if self.every is not None and self.every < 1:
            raise InputError(f"every must be at least 1, or None, not {every}")
        self.resume = resume
        self.iteration = 0
        """Of the last state that was saved or taken up; 0 if none was."""
        self.stopped = False
        """Whether `halt` has ended fit."""
        self._halt = False
        self._next = 0.0  # when to save again, in seconds
        self._meta: dict[str, Any] = {}

    def halt(self) -> None:
        """Save after the iteration that is under way, and end fit: safe in a signal handler."""
        self._halt = True

    def remove(self) -> None:
        """Delete the file, if there is one."""
        self.path.unlink(missing_ok=True)

    def parameters(self) -> dict[str, str]:
        """Those of the run that is to go on, as ``repr`` writes them; {} if there is none."""
        if not (self.resume and self.path.exists()):
            return {}
        stored = native.read(self.path, kind="checkpoint").meta.get("parameters")
        return stored if isinstance(stored, dict) else {}

    def begin(self, parameters: dict[str, Any], data: str) -> Saved | None:
        """The state to go on from, if there is one, for a run with these parameters and data."""
        kept = {k: repr(v) for k, v in sorted(parameters.items()) if k not in _FREE}
        self._meta = {"parameters": kept, "data": data}
        if not (self.resume and self.path.exists()):
            return None
        meta, tensors = native.read(self.path, kind="checkpoint")[1:3]
        self._check(meta)
        with self.naming():
            saved = _saved(meta, tensors)
        self.iteration = saved.losses[-1][0] if saved.losses else 0
        return saved

    @contextmanager
    def naming(self) -> Iterator[None]:
        """What goes wrong inside is wrong with the file."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{self.path}: cannot be used: {error}") from None

    def _check(self, meta: dict[str, Any]) -> None:
        with self.naming():
            before, data = dict(meta["parameters"]), meta["data"]
        now = self._meta["parameters"]
        for name in sorted({*before, *now}):
            old, new = before.get(name), now.get(name)
            if old != new:
                raise InputError(f"{self.path} was saved with {name}={old}, and this is {new}")
        if data != self._meta["data"]:
            raise InputError(f"{self.path} was saved with other training data or features")

    def see(
        self, progress: Progress, losses: list[tuple[int, float]], early: EarlyStopping | None
    ) -> bool:
        """After an iteration that is not the last: save if it is time; whether to stop."""
        if progress.state is None or not (self._halt or self._due(progress.iteration)):
            return False
        began = time.monotonic()
        arrays = {f"state.{name}": a for name, a in progress.state().to_arrays().items()}
        arrays |= {"losses": _table(losses), "scores": _table(early.history if early else [])}
        if early and early.best_w is not None:
            arrays["best_w"] = early.best_w
        meta = {**self._meta, "since_best": early.since_best if early else 0}
        native.write(self.path, "checkpoint", meta, arrays)
        self.iteration = progress.iteration
        now = time.monotonic()
        self._next = now + _SHARE * (now - began)
        self.stopped = self._halt
        return self.stopped

    def _due(self, iteration: int) -> bool:
        return time.monotonic() >= self._next if self.every is None else iteration % self.every == 0


def fingerprint(arrays: Iterable[Any]) -> str:
    """A checksum of arrays, and of which of them are None.

    >>> fingerprint([np.zeros(2), None])[:8], fingerprint([np.zeros(3), None])[:8]
    ('06fac661', 'f86ba5b2')
    """
    total = hashlib.sha256()
    for array in arrays:
        if array is None:
            total.update(b"none;")
            continue
        total.update(f"{array.dtype.str}{array.shape};".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def _table(pairs: list[tuple[int, float]]) -> Any:
    return np.array(pairs, dtype=np.float64).reshape(-1, 2)


def _pairs(table: Any) -> list[tuple[int, float]]:
    return [(int(n), float(value)) for n, value in table]


def _saved(meta: dict[str, Any], tensors: native.Tensors) -> Saved:
    for name, array in tensors.items():
        if array.dtype == np.float64:
            native.finite(tensors, name)
    arrays = {k.removeprefix("state."): v for k, v in tensors.items() if k.startswith("state.")}
    tables = [native.expect(tensors, name, np.float64, (None, 2)) for name in ("losses", "scores")]
    best = np.array(tensors["best_w"]) if "best_w" in tensors else None
    return Saved(arrays, _pairs(tables[0]), _pairs(tables[1]), best, int(meta["since_best"]))
