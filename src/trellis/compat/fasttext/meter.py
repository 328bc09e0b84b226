"""Evaluation of predicted labels: counts for each label, and precision-recall curves."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError

__all__ = ["Counts", "Meter"]

Answers: TypeAlias = Sequence[tuple[int, float]]
Floats: TypeAlias = NDArray[np.float64]
_MISSED = -1.0  # score of a label that was not predicted


class Counts:
    """Occurrences of each label: in the data, predicted, and predicted correctly."""

    def __init__(self, n_labels: int) -> None:
        self.examples = 0
        self.gold, self.predicted, self.correct = np.zeros((3, n_labels), np.int64)
        self.scores: list[list[tuple[float, float]]] = [[] for _ in range(n_labels)]

    def add(self, labels: Sequence[int], answers: Answers) -> None:
        """Count the labels and predictions of one text. As in fastText, a label may occur twice."""
        self.examples += 1
        predicted = {label for label, _ in answers}
        for label, p in answers:
            is_correct = label in labels
            self.predicted[label] += 1
            self.correct[label] += is_correct
            self.scores[label].append((min(p, 1.0), float(is_correct)))
        for label in labels:
            self.gold[label] += 1
            if label not in predicted:
                self.scores[label].append((_MISSED, 1.0))

    def precision(self) -> float:
        """Return the fraction of all predictions that are correct."""
        return _ratio(self.correct.sum(), self.predicted.sum())

    def recall(self) -> float:
        """Return the fraction of all labels that were predicted."""
        return _ratio(self.correct.sum(), self.gold.sum())

    def of_label(self, label: int) -> dict[str, float]:
        """Return precision, recall and F1 of one label; NaN for a ratio with denominator 0."""
        gold, predicted, correct = self.gold[label], self.predicted[label], self.correct[label]
        return {
            "precision": _ratio(correct, predicted),
            "recall": _ratio(correct, gold),
            "f1score": _ratio(2 * correct, gold + predicted),
        }


class Meter:
    """fastText's meter: scores of each label, and precision-recall curves.

    >>> counts = Counts(2)
    >>> for gold, answers in (([0], [(0, 0.9), (1, 0.1)]), ([1], [(0, 0.6), (1, 0.4)])):
    ...     counts.add(gold, answers)
    >>> meter = Meter(counts, {"a": 0, "b": 1})
    >>> meter.score_vs_true("a")[0], meter.precision_recall_curve("a")
    (array([0.6, 0.9]), (array([1., 1.]), array([1., 0.])))
    """

    def __init__(self, counts: Counts, n_labels: dict[str, int]) -> None:
        self._counts, self._labels = counts, n_labels

    def score_vs_true(self, label: str) -> tuple[Floats, Floats]:
        """Return the scores of a label in ascending order, and 1 if correct or else 0.

        The score is −1 where the label was not predicted.
        """
        pairs = self._sorted_pairs(label)
        return pairs[:, 0], pairs[:, 1]

    def precision_recall_curve(self, label: str | None = None) -> tuple[Floats, Floats]:
        """Return precision and recall from the highest threshold to the lowest.

        The last point has precision 1 and recall 0, as in fastText.
        """
        pairs = self._sorted_pairs(label)
        pairs = pairs[pairs[:, 0] >= 0][::-1]
        if not len(pairs):
            return np.empty(0), np.empty(0)
        # The curve has one point for each distinct score, because a threshold cannot separate equal
        # scores.
        is_last = np.append(pairs[1:, 0] != pairs[:-1, 0], True)
        correct = np.cumsum(pairs[:, 1] == 1)[is_last]
        predicted = np.flatnonzero(is_last) + 1
        gold = self._counts.gold
        total = int(gold.sum() if label is None else gold[self._label_number(label)])
        end = int(np.searchsorted(correct, total)) + 1  # the curve ends at recall 1
        precision = correct[:end] / predicted[:end]
        recall = correct[:end] / total if total else np.full(len(precision), np.nan)
        return np.append(precision, 1.0), np.append(recall, 0.0)

    def precision_at_recall(self, recall: float, label: str | None = None) -> float:
        """Return the best precision with at least this recall; 0 if it is never reached."""
        precisions, recalls = self.precision_recall_curve(label)
        return float(max(precisions[recalls >= recall], default=0.0))

    def recall_at_precision(self, precision: float, label: str | None = None) -> float:
        """Return the best recall with at least this precision; 0 if it is never reached."""
        precisions, recalls = self.precision_recall_curve(label)
        return float(max(recalls[precisions >= precision], default=0.0))

    def _label_number(self, label: str) -> int:
        """Return the number of a label. Raise InputError if the model does not have it."""
        if label not in self._labels:
            raise InputError(f"label is {label!r}: the model has no such label")
        return self._labels[label]

    def _sorted_pairs(self, label: str | None) -> Floats:
        """Return (score, correct) of one label or of all labels, by ascending score, (N, 2)."""
        scores = self._counts.scores
        pairs: Iterable[Any]
        if label is None:
            pairs = [pair for label_pairs in scores for pair in label_pairs]
        else:
            pairs = scores[self._label_number(label)]
        return np.array(sorted(pairs), np.float64).reshape(-1, 2)


def _ratio(numerator: Any, denominator: Any) -> float:
    """Return numerator / denominator; NaN if the denominator is 0."""
    return float(numerator) / float(denominator) if denominator else float("nan")
