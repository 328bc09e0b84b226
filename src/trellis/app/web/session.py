"""What a server shows: its models, the labelled data, and the results of the analysis."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.app.cli.options import DataOptions
from trellis.app.model_files import read_labelled
from trellis.app.uncertainty import measure
from trellis.app.web.http.errors import RequestError, explain_error
from trellis.app.web.served import ChainModel
from trellis.errors import TrellisError

__all__ = ["PATIENCE", "Analysis", "Data", "Session", "start_thread"]

PATIENCE = 10  # seconds that a thread has, when the server stops, to end
_BLOCK = 64  # sequences that are analysed at a time; the page shows the progress between blocks


class Data(NamedTuple):
    """Labelled sequences in the form that a model takes."""

    X: list[Any]
    y: list[list[str]]


@dataclass
class Analysis:
    """The predictions of a model for the data, sequence by sequence.

    A thread fills the lists and arrays. Only the first ``count`` entries are valid.
    """

    predicted: list[list[str]]
    probability: NDArray[np.float64]
    """(sequences,) p(predicted labels | x)."""
    entropy: NDArray[np.float64]
    """(sequences,) H(y | x) in nats per token."""
    margin: NDArray[np.float64]
    """(sequences,) p(best) - p(second best)."""
    count: int = 0
    stopped: bool = False
    error: RequestError | None = None
    """Why the analysis ended before all sequences were analysed."""

    @property
    def progress(self) -> float:
        """The part of the data that is analysed."""
        return self.count / len(self.probability) if len(self.probability) else 1.0


@dataclass
class Session:
    """The models and data of a server. Requests read it; training replaces a model."""

    models: list[Any]
    data_path: Path | None = None
    reading: DataOptions = field(default_factory=DataOptions)
    _data: dict[int, Data] = field(default_factory=dict)
    _analyses: dict[int, Analysis] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def chain(self, number: int) -> ChainModel:
        """Return a sequence model; raise RequestError if there is none with this number."""
        model = self.models[number] if 0 <= number < len(self.models) else None
        if not isinstance(model, ChainModel):
            raise RequestError(422, f"model {number} is not a sequence model")
        return model

    def data(self, number: int) -> Data:
        """Return the labelled data as a model takes it; the file is read once for each model."""
        chain = self.chain(number)
        if self.data_path is None:
            raise RequestError(422, "the server has no labelled data: start it with --data FILE")
        with self._lock:
            if number not in self._data:
                try:
                    X, y = read_labelled(chain.model, chain.path, self.data_path, self.reading)
                except TrellisError as error:
                    raise RequestError(422, str(error)) from None
                self._data[number] = Data(X, y)
            return self._data[number]

    def read_data(self) -> Data:
        """Return the labelled data as the first sequence model takes it."""
        for number, model in enumerate(self.models):
            if isinstance(model, ChainModel):
                return self.data(number)
        raise RequestError(422, "--data needs a sequence model")

    def sequence(self, number: int, index: int) -> tuple[list[Any], list[str]]:
        """Return a sequence of the data and its true labels."""
        data = self.data(number)
        if index >= len(data.X):
            raise RequestError(422, f"index is {index}: the data has {len(data.X)} sequences")
        return data.X[index], data.y[index]

    def analysis(self, number: int) -> Analysis:
        """Return the analysis of the data by a model; the first call starts its thread.

        Raise RequestError if the model cannot analyse the data.
        """
        data = self.data(number)
        with self._lock:
            if number not in self._analyses:
                n = len(data.X)
                analysis = Analysis([[]] * n, np.zeros(n), np.zeros(n), np.zeros(n))
                self._analyses[number] = analysis
                model = self.chain(number).model
                arguments = (model, data.X, analysis)
                self._threads.append(start_thread(_analyse, *arguments))
            analysis = self._analyses[number]
        if analysis.error is not None:
            raise analysis.error
        return analysis

    def replace_model(self, number: int, chain: ChainModel) -> None:
        """Use another model in the place of one, for example after training."""
        with self._lock:
            self.models[number] = chain
            if stale := self._analyses.pop(number, None):
                stale.stopped = True

    def close(self) -> None:
        """Stop the threads of the analysis."""
        with self._lock:
            for analysis in self._analyses.values():
                analysis.stopped = True
            threads = list(self._threads)
        for thread in threads:
            thread.join(PATIENCE)


def start_thread(function: Callable[..., None], *arguments: Any) -> threading.Thread:
    """Start and return a thread that does not keep the process alive.

    Join it before the process ends: Python kills such threads, and those in native code crash.
    """
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def _analyse(model: Any, X: list[Any], analysis: Analysis) -> None:
    """Fill an analysis; keep the error if the model cannot label the sequences."""
    try:
        _analyse_blocks(model, X, analysis)
    except Exception as error:
        analysis.error = explain_error(error)


def _analyse_blocks(model: Any, X: list[Any], analysis: Analysis) -> None:
    """Fill an analysis, block by block."""
    for begin in range(0, len(X), _BLOCK):
        if analysis.stopped:
            return
        block = X[begin : begin + _BLOCK]
        end = begin + len(block)
        paths = model.predict_kbest(block, 2)
        analysis.predicted[begin:end] = [list(map(str, best.labels)) for best, *_ in paths]
        analysis.probability[begin:end] = [best.probability for best, *_ in paths]
        analysis.margin[begin:end] = [
            best.probability - (others[0].probability if others else 0.0) for best, *others in paths
        ]
        analysis.entropy[begin:end] = measure(model, block, "entropy")
        analysis.count = end
