"""Train a model again, with the corrected sentences, while the server answers requests."""

import inspect
import threading
from pathlib import Path
from typing import Any

from trellis.app.model_files import read_labelled
from trellis.app.web.correcting import Corrections, key_of
from trellis.app.web.http.errors import RequestError, explain_error
from trellis.app.web.served import ChainModel
from trellis.app.web.session import PATIENCE, Session, start_thread
from trellis.metrics import accuracy, span_f1
from trellis.models.files import load

__all__ = ["Retraining"]

_FILE = "retrained.trellis"


class Retraining:
    """One training at a time: the training data and the corrections, from the weights of the file.

    The scores before and after it are those of the labelled data without the corrected sentences.
    """

    def __init__(self, session: Session, corrections: Corrections, train: Path | None) -> None:
        self.session, self.corrections, self.train = session, corrections, train
        self._lock = threading.Lock()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._state: dict[str, Any] = _make_state("idle")

    @property
    def is_possible(self) -> bool:
        """True if the server has training data and a model that can be trained."""
        return self.train is not None and any(
            isinstance(model, ChainModel) for model in self.session.models
        )

    def start(self, number: int) -> dict[str, Any]:
        """Start a thread that trains a model; an earlier training must have ended."""
        chain = self.session.chain(number)
        if self.train is None:
            raise RequestError(422, "the server has no training data: start it with --train FILE")
        with self._lock:
            if self._state["state"] == "running":
                raise RequestError(409, "the model is being trained")
            self._state = _make_state("running")
            self._thread = start_thread(self._run, number, chain, self.train)
        return {"state": "running"}

    def state(self) -> dict[str, Any]:
        """Return the progress or the result of the training."""
        with self._lock:
            return dict(self._state)

    def close(self) -> None:
        """Stop the training after its current iteration."""
        self._stopped = True
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def _update(self, **values: Any) -> None:
        with self._lock:
            self._state |= values

    def _run(self, number: int, chain: ChainModel, train: Path) -> None:
        try:
            self._update(before=self._score(number, chain))
            model = self._fit(chain, train)
            if self._stopped:
                return  # a model that is half trained must not replace an earlier file
            trained = ChainModel(chain.name, model, chain.path)
            self._update(after=self._score(number, trained))
            if self.corrections.folder is not None:
                model.save(self.corrections.folder / _FILE)
                self._update(file=_FILE)
            self.session.replace_model(number, trained)
            self._update(state="done")
        except OSError as error:
            name = Path(error.filename or _FILE).name  # the page need not know the folder
            self._update(state="failed", error=f"{name}: {error.strerror}")
        except Exception as error:
            self._update(state="failed", error=str(explain_error(error)))

    def _fit(self, chain: ChainModel, train: Path) -> Any:
        """Return a new model, trained from the weights of the file."""
        X, y = read_labelled(chain.model, chain.path, train, self.session.reading)
        corrected = self.corrections.pairs()
        model = load(chain.path)  # the model that answers requests must not change
        layout = model.corpus_layout_
        arguments: dict[str, Any] = {}
        if "warm_start" in model.get_params():
            model.set_params(warm_start=True)
        if "callback" in inspect.signature(model.fit).parameters:
            arguments["callback"] = self._report
        model.fit([*X, *corrected[0]], [*y, *corrected[1]], **arguments)
        if "warm_start" in model.get_params():
            model.set_params(warm_start=chain.model.warm_start)
        model.corpus_layout_ = layout
        return model

    def _report(self, progress: Any) -> bool:
        """Publish an iteration or an epoch; a truthy result stops the training."""
        self._update(iteration=progress[0], loss=float(progress.loss))
        return self._stopped

    def _score(self, number: int, chain: ChainModel) -> dict[str, float] | None:
        """Return the scores on the data that is not corrected; None without labelled data."""
        if self.session.data_path is None:
            return None
        data = self.session.data(number)
        corrected = set(map(key_of, self.corrections.pairs()[0]))
        indices = [n for n, x in enumerate(data.X) if key_of(x) not in corrected]
        y = [data.y[n] for n in indices]
        labels = chain.model.predict([data.X[n] for n in indices])
        predicted = [list(map(str, row)) for row in labels]
        right = accuracy(y, predicted)
        f1 = right if chain.spans is None else span_f1(y, predicted, chain.spans)
        return {"f1": f1, "accuracy": right}


def _make_state(state: str) -> dict[str, Any]:
    keys = ("iteration", "loss", "before", "after", "error", "file")
    return {"state": state, **dict.fromkeys(keys)}
