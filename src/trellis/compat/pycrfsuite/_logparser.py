r"""Parser of the messages of a training. It detects events and stores the logged values.

>>> parser = TrainLogParser()
>>> for line in ("Feature generation\n", "Number of features: 7\n", "Seconds required: 0.1\n"):
...     event = parser.feed(line)
>>> event, parser.featgen_num_features
('featgen_end', 7)
"""

import fractions
import re
from typing import Any, ClassVar, NamedTuple

__all__ = ["LabelScore", "TrainLogParser"]


class LabelScore(NamedTuple):
    """Scores of one label in the holdout data."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


_NUMBERS = (
    ("loss", float, re.compile(r"Loss: (\d+\.\d+)")),
    ("feature_norm", float, re.compile(r"Feature norm: (\d+\.\d+)")),
    ("error_norm", float, re.compile(r"Error norm: (\d+\.\d+)")),
    ("active_features", int, re.compile(r"Active features: (\d+)")),
    ("linesearch_trials", int, re.compile(r"Line search trials: (\d+)")),
    ("linesearch_step", float, re.compile(r"Line search step: (\d+\.\d+)")),
    ("time", float, re.compile(r"Seconds required for this iteration: (\d+\.\d+)")),
)
_ACCURACIES = (
    ("item_accuracy", re.compile(r"Item accuracy: (\d+) / (\d+)")),
    ("instance_accuracy", re.compile(r"Instance accuracy: (\d+) / (\d+)")),
)
_AVERAGES = re.compile(r"Macro-average precision, recall, F1: \((\S+), (\S+), (\S+)\)")
_LABEL = re.compile(r" {4}(.+): \((\d+), (\d+), (\d+)\) \((\S+), (\S+), (\S+)\)")
_HEAD = re.compile(r"\*{5} (?:Iteration|Epoch) #(\d+) \*{5}\n")
_SECONDS = re.compile(r"Seconds required: (\d+\.\d+)")
_FEATURES = re.compile(r"Number of features: (\d+)")
_TOTAL = re.compile(r"Total seconds required for training: (\d+\.\d+)")


class TrainLogParser:
    """The log of one training. `iterations` has a dict of logged values for each iteration."""

    def __init__(self) -> None:
        self.state: str | None = None
        self.featgen_percent = -2  # the first message, "0", increases it to 0
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []
        """(event, begin, end): the messages of the event are ``log[begin:end]``."""

    @property
    def last_log(self) -> str:
        """The log of the last event."""
        _, begin, end = self.events[-1]
        return "".join(self.log[begin:end])

    def feed(self, line: str) -> str | None:
        """Parse one message; return the event that it ends, or None."""
        self.log.append(line)
        if self.state is None:
            self.state = "STARTING"
            self._parse_start(line)
            self.events.append(("start", 0, 1))
            return "start"
        event = self._STATES[self.state](self, line)
        if event is not None:
            # These two events are detected one line late, so the last line is not part of them.
            end = len(self.log) - (event in ("prepared", "optimization_end"))
            self.events.append((event, self.events[-1][2], end))
        return event

    def _parse_start(self, line: str) -> str | None:
        """Parse a message before the feature generation."""
        if line.startswith("Feature generation"):
            self.state = "FEATGEN"
        return None

    def _parse_features(self, line: str) -> str | None:
        """Parse a message of the feature generation; return its event."""
        if line.isdigit() or line == ".":
            self.featgen_percent += 2
            return "featgen_progress"
        if match := _FEATURES.match(line):
            self.featgen_num_features = int(match[1])
        if match := _SECONDS.match(line):
            self.featgen_seconds = float(match[1])
            self.state = "AFTER_FEATGEN"
            return "featgen_end"
        return None

    def _parse_preparation(self, line: str) -> str | None:
        """Parse a message before the first iteration; return its event."""
        if _HEAD.match(line):
            self.state = "ITERATION"
            self._parse_iteration(line)
            return "prepared"
        if "terminated with error" in line:
            self.state = "AFTER_ITERATION"
            return "prepare_error"
        return None

    def _parse_iteration(self, line: str) -> str | None:
        """Store the values of a line about an iteration; return the event of its last line."""
        if match := _HEAD.match(line):
            self.last_iteration = {"num": int(match[1]), "scores": {}}
            self.iterations.append(self.last_iteration)
        elif line == "\n":
            self.state = "AFTER_ITERATION"
            return "iteration"
        assert self.last_iteration is not None
        self.last_iteration |= {
            key: convert(match[1])
            for key, convert, pattern in _NUMBERS
            if (match := pattern.match(line))
        }
        for key, pattern in _ACCURACIES:
            if match := pattern.match(line):
                accuracy = fractions.Fraction(int(match[1]), int(match[2])) if int(match[2]) else 0
                self.last_iteration |= {key: accuracy, f"{key}_float": float(accuracy)}
        if match := _AVERAGES.match(line):
            names = ("avg_precision", "avg_recall", "avg_f1")
            self.last_iteration |= zip(names, map(float, match.groups()), strict=True)
        if match := _LABEL.match(line):
            label, *counts = match.groups()
            scores = [None if text.startswith("*") else float(text) for text in counts[3:]]
            self.last_iteration["scores"][label] = LabelScore(*map(int, counts[:3]), *scores)
        return None

    def _parse_between_iterations(self, line: str) -> str | None:
        """Parse a message after an iteration; return its event."""
        if _HEAD.match(line):
            self.state = "ITERATION"
            return self._parse_iteration(line)
        if match := _TOTAL.match(line):
            self.training_seconds = float(match[1])
        if line.startswith("Storing the model"):
            self.state = "STORING"
            return "optimization_end"
        return None

    def _parse_storing(self, line: str) -> str | None:
        """Parse a message about the storing of the model; return the last event."""
        if match := _SECONDS.match(line):
            self.storing_seconds = float(match[1])
        return "end" if line == "\n" else None

    _STATES: ClassVar = {
        "STARTING": _parse_start,
        "FEATGEN": _parse_features,
        "AFTER_FEATGEN": _parse_preparation,
        "ITERATION": _parse_iteration,
        "AFTER_ITERATION": _parse_between_iterations,
        "STORING": _parse_storing,
    }
