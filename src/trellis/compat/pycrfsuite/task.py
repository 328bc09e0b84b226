"""The data and parameters of one training, and the messages that all algorithms send."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.compat.pycrfsuite.data import Part
from trellis.inference import chain
from trellis.models.chain.weights import WeightLayout
from trellis.native import resolve_jobs

__all__ = ["Task", "Vector"]

Vector: TypeAlias = NDArray[np.float64]


class Task(NamedTuple):
    """One training: data, parameters, and the function that receives the messages."""

    layout: WeightLayout
    train: Part
    holdout: Part | None
    labels: list[str]
    parameters: dict[str, Any]
    send: Callable[[str], None]

    def data(self) -> _core.TrainingData:
        """Return the training data for the objectives and online learners of the core."""
        rows, optional_arguments = self.train.native_rows(), [None] * 6
        return _core.TrainingData(
            self.layout.native,
            rows,
            None,
            self.train.row_begin,
            self.train.label,
            *optional_arguments,
        )

    def evaluate(self, w: Vector) -> None:
        """Send the scores of the holdout sequences, if there are any."""
        if self.holdout is not None:
            predicted = self.tag(w)
            for line in _report_lines(self.labels, self.holdout, predicted):
                self.send(line)

    def tag(self, w: Vector) -> NDArray[np.int64]:
        """Return the best labels of all holdout sequences, concatenated."""
        holdout, threads = self.holdout, resolve_jobs(None)
        if holdout is None or not len(holdout.lengths):
            return np.zeros(0, np.int64)
        unary = np.empty((len(holdout.label), self.layout.n_labels))
        _core.Scorer(self.layout.native, w).scores(holdout.native_rows(), threads, unary)
        unary_scores = _core.split_rows(unary, holdout.lengths)
        paths = chain.viterbi(unary_scores, self.layout.transition_matrix(w))
        return np.concatenate(paths.labels)

    def send_parameters(self, title: str, *names: str) -> None:
        """Send a title and the values of parameters.

        ``"shown=name"`` sends the parameter ``name`` under the name ``shown``.
        """
        self.send(f"{title}\n")
        for name in names:
            shown_name, _, key = name.partition("=")
            value = self.parameters[key or shown_name]
            self.send(
                f"{shown_name}: {value:f}\n"
                if isinstance(value, float)
                else f"{shown_name}: {value}\n"
            )
        self.send("\n")

    def send_end(self, started: float) -> None:
        """Send the time that the training took."""
        seconds = time.process_time() - started
        self.send(f"Total seconds required for training: {seconds:.3f}\n")
        self.send("\n")


def _report_lines(labels: list[str], part: Part, predicted: NDArray[Any]) -> list[str]:
    """Return lines with precision, recall and F1 of each label, their averages, and accuracies."""
    n_labels, expected = len(labels), part.label
    is_correct = expected == predicted
    match_counts, model_counts, ref_counts = (
        np.bincount(numbers, minlength=n_labels)
        for numbers in (expected[is_correct], predicted, expected)
    )
    lines = ["Performance by label (#match, #model, #ref) (precision, recall, F1):\n"]
    sums = np.zeros(3)
    for name, n_match, n_model, n_ref in zip(
        labels, match_counts, model_counts, ref_counts, strict=True
    ):
        score_text = "******, ******, ******"
        if n_ref:
            precision, recall = n_match / n_model if n_model else 0.0, n_match / n_ref
            denominator = precision + recall
            f1 = 2 * precision * recall / denominator if denominator else 0.0
            scores = np.array([precision, recall, f1])
            sums += scores
            score_text = ", ".join(f"{score:1.4f}" for score in scores)
        lines.append(f"    {name}: ({n_match}, {n_model}, {n_ref}) ({score_text})\n")
    # As in CRFsuite, the sum is divided by the number of all labels, even if some do not occur.
    averages = ", ".join(f"{mean:f}" for mean in sums / max(n_labels, 1))
    lines.append(f"Macro-average precision, recall, F1: ({averages})\n")
    ends = np.cumsum(part.lengths)
    correct_sequences = sum(
        is_correct[end - length : end].all() for end, length in zip(ends, part.lengths, strict=True)
    )
    for unit, n_correct, n_total in (
        ("Item", int(match_counts[ref_counts > 0].sum()), len(expected)),
        ("Instance", int(correct_sequences), len(part.lengths)),
    ):
        accuracy = n_correct / n_total if n_total else 0.0
        lines.append(f"{unit} accuracy: {n_correct} / {n_total} ({accuracy:1.4f})\n")
    return lines
