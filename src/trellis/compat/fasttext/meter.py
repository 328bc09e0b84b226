"""How answers and labels agree: counts for each label, and precision against recall."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError

__all__ = ["Counts", "Meter"]

Answers: TypeAlias = Sequence[tuple[int, float]]
Floats: TypeAlias = NDArray[np.float64]
_MISSED = -1.0  # the score of a label that was not among the answers


class Counts:
    """Labels that there were, that were answered, and that were answered rightly."""

    def __init__(self, labels: int) -> None:
        self.examples = 0
        self.gold, self.answered, self.right = np.zeros((3, labels), np.int64)
        self.scores: list[list[tuple[float, float]]] = [[] for _ in range(labels)]

    def add(self, labels: Sequence[int], answers: Answers) -> None:
        """Count one text; a label may come more than once, as in fastText."""
        self.examples += 1
        known = {label for label, _ in answers}
        for label, p in answers:
            is_right = label in labels
            self.answered[label] += 1
            self.right[label] += is_right
            self.scores[label].append((min(p, 1.0), float(is_right)))
        for label in labels:
            self.gold[label] += 1
            if label not in known:
                self.scores[label].append((_MISSED, 1.0))

    def precision(self) -> float:
        """Of all answers."""
        return _share(self.right.sum(), self.answered.sum())

    def recall(self) -> float:
        """Of all labels."""
        return _share(self.right.sum(), self.gold.sum())

    def of_label(self, label: int) -> dict[str, float]:
        """Precision, recall and F1 of one label; NaN where there is nothing to count."""
        gold, answered, right = self.gold[label], self.answered[label], self.right[label]
        return {
            "precision": _share(right, answered),
            "recall": _share(right, gold),
            "f1score": _share(2 * right, gold + answered),
        }


class Meter:
    """fastText's meter: scores of each label, and precision against recall.

    >>> counts = Counts(2)
    >>> for gold, answers in (([0], [(0, 0.9), (1, 0.1)]), ([1], [(0, 0.6), (1, 0.4)])):
    ...     counts.add(gold, answers)
    >>> meter = Meter(counts, {"a": 0, "b": 1})
    >>> meter.score_vs_true("a")[0], meter.precision_recall_curve("a")
    (array([0.6, 0.9]), (array([1., 1.]), array([1., 0.])))
    """

    def __init__(self, counts: Counts, labels: dict[str, int]) -> None:
        self._counts, self._labels = counts, labels

    def score_vs_true(self, label: str) -> tuple[Floats, Floats]:
        """Scores, ascending, and whether each was right; −1 where the label was not answered."""
        pairs = self._pairs(label)
        return pairs[:, 0], pairs[:, 1]

    def precision_recall_curve(self, label: str | None = None) -> tuple[Floats, Floats]:
        """Precision and recall from the highest threshold to the lowest, then (1, 0)."""
        pairs = self._pairs(label)
        pairs = pairs[pairs[:, 0] >= 0][::-1]
        if not len(pairs):
            return np.empty(0), np.empty(0)
        last = np.append(pairs[1:, 0] != pairs[:-1, 0], True)  # of equal scores
        right = np.cumsum(pairs[:, 1] == 1)[last]
        answered = np.flatnonzero(last) + 1
        gold = self._counts.gold
        total = int(gold.sum() if label is None else gold[self._number(label)])
        kept = slice(int(np.searchsorted(right, total)) + 1)  # once all are found, no further
        precision = right[kept] / answered[kept]
        recall = right[kept] / total if total else np.full(len(precision), np.nan)
        return np.append(precision, 1.0), np.append(recall, 0.0)

    def precision_at_recall(self, recall: float, label: str | None = None) -> float:
        """The best precision where recall is at least so high; 0 where it never is."""
        precisions, recalls = self.precision_recall_curve(label)
        return float(max(precisions[recalls >= recall], default=0.0))

    def recall_at_precision(self, precision: float, label: str | None = None) -> float:
        """The best recall where precision is at least so high; 0 where it never is."""
        precisions, recalls = self.precision_recall_curve(label)
        return float(max(recalls[precisions >= precision], default=0.0))

    def _number(self, label: str) -> int:
        if label not in self._labels:
            raise InputError(f"the model has no label {label!r}")
        return self._labels[label]

    def _pairs(self, label: str | None) -> Floats:
        scores = self._counts.scores
        own: Iterable[Any] = (
            [pair for pairs in scores for pair in pairs]
            if label is None
            else scores[self._number(label)]
        )
        return np.array(sorted(own), np.float64).reshape(-1, 2)


def _share(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if whole else float("nan")
