"""python-crfsuite's trainers: collect sequences, train, and write a model file."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from trellis import _core
from trellis.compat.pycrfsuite._logparser import TrainLogParser
from trellis.compat.pycrfsuite.data import Dataset, FeatureOptions, Part, select_features
from trellis.compat.pycrfsuite.parameters import (
    ALGORITHMS,
    ALIASES,
    TYPES,
    Parameter,
    parameters_of,
)
from trellis.compat.pycrfsuite.training import Task, train
from trellis.formats import crfsuite
from trellis.models.chain.weights import WeightLayout

__all__ = ["BaseTrainer", "CRFSuiteError", "Trainer"]


class CRFSuiteError(Exception):
    """CRFsuite's error with its code. trellis never raises it, but programs may catch it."""

    def __init__(self, code: Any) -> None:
        self.code = code
        super().__init__(f"Unexpected error {code}")


class BaseTrainer:
    """Collects sequences with their labels, and trains a CRFsuite model on them.

    ``algorithm`` is "lbfgs", "l2sgd", "ap", "pa" or "arow". The training calls `message` for each
    message, and `message` prints it if ``verbose``.
    """

    verbose: Any
    _data: Dataset
    _algorithm: str
    _parameters: dict[str, Parameter]
    _values: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> BaseTrainer:
        """Create a trainer that has no data yet; its algorithm is L-BFGS."""
        # This code is not in __init__, because some subclasses in users' programs do not call the
        # __init__ of this class.
        self = super().__new__(cls)
        self.verbose = None
        self._data = Dataset()
        self.select("lbfgs")
        return self

    def __init__(
        self,
        algorithm: str | None = None,
        params: dict[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    def message(self, message: str) -> None:
        """Print a message if ``verbose``; subclasses may override this."""
        if self.verbose:
            print(message, end="")

    # ---- settings

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Select the algorithm, and set its parameters to their defaults."""
        name = ALIASES.get(algorithm.lower(), algorithm.lower())
        if name not in ALGORITHMS or type != "crf1d":
            raise ValueError(f"Bad arguments: algorithm={name!r}, type={type!r}")
        self._algorithm, self._parameters = name, parameters_of(name)
        self._values = {p.name: p.default for p in self._parameters.values()}

    def params(self) -> list[str]:
        """Return the names of the parameters of the algorithm."""
        return list(self._parameters)

    def set_params(self, params: dict[str, Any]) -> None:
        """Set several parameters."""
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """Return the values of all parameters by name."""
        return {name: self.get(name) for name in self.params()}

    def set(self, name: str, value: Any) -> None:
        """Set one parameter to a number, or to a string that contains one."""
        # The value gets the type of the default. Like CRFsuite, this parses strings as numbers.
        default = self._find_parameter(name, f" = {value}").default
        try:
            if isinstance(default, str):
                self._values[name] = str(value)
            else:
                number = float(value)
                self._values[name] = int(number) if isinstance(default, int) else number
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name} must be a number, not {value!r}") from None

    def get(self, name: str) -> Any:
        """Return the value of one parameter."""
        self._find_parameter(name, " = ")
        value = self._values[name]
        return TYPES[name](value) if name in TYPES else value

    def help(self, name: str) -> str:
        """Return the description of a parameter."""
        return self._find_parameter(name).help

    def _find_parameter(self, name: str, more: str = "") -> Parameter:
        """Return a parameter of the algorithm. Raise ValueError if there is none of this name."""
        if name not in self._parameters:
            raise ValueError(f"Parameter not found: {name}{more}")
        return self._parameters[name]

    # ---- data

    def append(self, xseq: Any, yseq: Iterable[Any], group: int = 0) -> None:
        """Add a sequence (a list of items or an ItemSequence) and its labels to a group."""
        self._data.append(xseq, yseq, int(group))

    def clear(self) -> None:
        """Remove all sequences."""
        self._data = Dataset()

    # ---- training

    def train(self, model: str, holdout: int = -1) -> None:
        """Train on all groups except ``holdout``. Write the model file unless ``model`` is "".

        The holdout group is evaluated after each iteration; the messages contain the scores.
        """
        self._before_train()
        if holdout >= 0:
            self.message(f"Holdout group: {holdout + 1}\n")
            self.message("\n")
        data = self._data
        if _contains_nul(data.attributes) or any("\0" in label for label in data.labels):
            raise ValueError(
                "an attribute or label contains NUL, which CRFsuite's files cannot store"
            )
        training_part = data.part(holdout, inside=False)
        layout = self._select_features(training_part)
        task = Task(
            layout,
            training_part,
            data.part(holdout, inside=True) if holdout >= 0 else None,
            list(data.labels),
            self._values,
            self.message,
        )
        weights = train(self._algorithm, task)
        if model:
            self._write(model, layout, weights)

    def _before_train(self) -> None:
        """Prepare a training. A subclass may override this."""

    def _select_features(self, part: Part) -> WeightLayout:
        """Select the features, log as CRFsuite does, and return the layout of their weights."""
        values, started = self._values, time.process_time()
        self.message("Feature generation\n")
        self.message("type: CRF1d\n")
        self.message(f"feature.minfreq: {values['feature.minfreq']:f}\n")
        for name in ("feature.possible_states", "feature.possible_transitions"):
            self.message(f"{name}: {values[name]}\n")
        self.message("0")
        options = FeatureOptions(
            values["feature.minfreq"],
            bool(values["feature.possible_states"]),
            bool(values["feature.possible_transitions"]),
        )
        sizes = len(self._data.attributes), len(self._data.labels)
        layout = select_features(part, *sizes, options)
        # The log parser of python-crfsuite counts these characters as progress.
        for percent in range(2, 101, 2):
            self.message("." if percent % 10 else str(percent // 10))
        self.message("\n")
        self.message(f"Number of features: {layout.size}\n")
        self.message(f"Seconds required: {time.process_time() - started:.3f}\n")
        self.message("\n")
        return layout

    def _write(self, path: str, layout: WeightLayout, weights: Any) -> None:
        """Write the model file."""
        started = time.process_time()
        names, ends = self._data.attributes.strings()
        self.message("Storing the model\n")
        states, bigrams, *_ = layout.split(weights)
        before, after = np.divmod(layout.bigram, max(layout.n_labels, 1))
        attribute, labels = layout.state_attribute, list(self._data.labels)
        n_active_attributes = len(np.unique(attribute[states != 0]))
        n_active = int(np.count_nonzero(weights))
        self.message(f"Number of active features: {n_active} ({layout.size})\n")
        self.message(f"Number of active attributes: {n_active_attributes} ({len(ends) - 1})\n")
        self.message(f"Number of active labels: {len(labels)} ({len(labels)})\n")
        self.message("Writing labels\n")
        self.message("Writing attributes\n")
        self.message("Writing feature references for transitions\n")
        self.message("Writing feature references for attributes\n")
        columns = (attribute, layout.state_label, states, before, after, bigrams)
        crfsuite.write(path, crfsuite.Parts(labels, names.view(np.uint8), ends, *columns))
        self.message(f"Seconds required: {time.process_time() - started:.3f}\n")
        self.message("\n")


def _contains_nul(attributes: _core.Vocabulary) -> bool:
    # The packed names are not kept: they take much memory, and the training does not need them.
    names, _ = attributes.strings()
    return bool(np.any(names.view(np.uint8) == 0))


class Trainer(BaseTrainer):
    """A trainer that parses its messages. Each event calls a method such as ``on_iteration``.

    After the training, ``trainer.logparser`` contains the logged values, such as ``iterations``.
    """

    logparser: TrainLogParser | None = None

    def _before_train(self) -> None:
        self.logparser = TrainLogParser()

    def message(self, message: str) -> None:
        """Feed the log parser; if ``verbose``, call the method of the event."""
        assert self.logparser is not None
        event = self.logparser.feed(message)
        if not self.verbose or event is None:
            return
        log = self.logparser.last_log
        if event == "featgen_progress":
            self.on_featgen_progress(log, self.logparser.featgen_percent)
        elif event == "iteration":
            self.on_iteration(log, self.logparser.last_iteration)
        else:
            getattr(self, f"on_{event}")(log)

    def on_start(self, log: str) -> None:
        """Handle the first message."""
        print(log, end="")

    def on_featgen_progress(self, log: str, percent: int) -> None:
        """Handle progress of the feature generation."""
        print(log, end="")

    def on_featgen_end(self, log: str) -> None:
        """Handle the end of the feature generation."""
        print(log, end="")

    def on_prepared(self, log: str) -> None:
        """Handle the start of the algorithm."""
        print(log, end="")

    def on_prepare_error(self, log: str) -> None:
        """Handle an algorithm that could not start."""
        print(log, end="")

    def on_iteration(self, log: str, info: dict[str, Any] | None) -> None:
        """Handle the end of an iteration."""
        print(log, end="")

    def on_optimization_end(self, log: str) -> None:
        """Handle the end of the optimisation."""
        print(log, end="")

    def on_end(self, log: str) -> None:
        """Handle the end of the training, after the model is written."""
        print(log, end="")
