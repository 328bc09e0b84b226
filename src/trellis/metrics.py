"""Metrics of predicted labels: by token, by sequence and by span.

``y_true`` and ``y_pred`` are lists of label lists. For each label, TP is the number of correct
predictions, ``predicted`` the number of all predictions, and ``support`` the number of true labels:

    precision = TP / predicted    recall = TP / support    F1 = 2 · precision · recall / their sum

A quotient 0 / 0 is 0.0, as in conlleval. The accuracy of an empty list is 0.0 too.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.data.tags import Reader
from trellis.errors import InputError

__all__ = [
    "Confusion",
    "Report",
    "Scores",
    "accuracy",
    "confusion",
    "label_report",
    "scorer",
    "sequence_accuracy",
    "span_f1",
    "span_scores",
]

Labels: TypeAlias = Sequence[Sequence[str]]


class Scores(NamedTuple):
    """Precision, recall, F1, and the number of true labels or spans."""

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Report:
    """Scores of each label, sorted by name, and their averages. ``str()`` returns a table."""

    per_label: dict[str, Scores]
    micro: Scores
    """The scores of all labels counted together; "overall" in conlleval."""
    macro: Scores
    """The mean over all labels that occur in y_true or y_pred."""
    weighted: Scores
    """The mean weighted by support."""

    @property
    def precision(self) -> float:
        """The micro-averaged precision."""
        return self.micro.precision

    @property
    def recall(self) -> float:
        """The micro-averaged recall."""
        return self.micro.recall

    @property
    def f1(self) -> float:
        """The micro-averaged F1."""
        return self.micro.f1

    @property
    def support(self) -> int:
        """The number of true labels or spans."""
        return self.micro.support

    def __str__(self) -> str:
        averages = {"micro": self.micro, "macro": self.macro, "weighted": self.weighted}
        names = [*(label or "_" for label in self.per_label), *averages]
        width = max(map(len, names))
        rows = [
            f"{name:{width}}  {s.precision:9.4f}  {s.recall:6.4f}  {s.f1:6.4f}  {s.support:7}"
            for name, s in zip(names, [*self.per_label.values(), *averages.values()], strict=True)
        ]
        rows.insert(len(self.per_label), "")
        return "\n".join([f"{'':{width}}  precision  recall      F1  support", *rows])


class Confusion(NamedTuple):
    """The sorted labels, and the number of times that each label was predicted as each label."""

    labels: list[str]
    matrix: NDArray[np.int64]
    """(labels, labels) ``matrix[i, j]`` counts ``labels[i]`` predicted as ``labels[j]``."""


def accuracy(y_true: Labels, y_pred: Labels) -> float:
    """Return the number of correct labels divided by the number of labels.

    >>> accuracy([["A", "B"], ["B"]], [["A", "A"], ["B"]]) == 2 / 3
    True
    """
    pairs = _count_pairs(y_true, y_pred)
    correct = sum(n for (true, predicted), n in pairs.items() if true == predicted)
    return _ratio(correct, pairs.total())


def sequence_accuracy(y_true: Labels, y_pred: Labels) -> float:
    """Return the fraction of sequences in which every label is correct.

    >>> sequence_accuracy([["A", "B"], ["B"]], [["A", "A"], ["B"]])
    0.5
    """
    _check_sequences(y_true, y_pred)
    correct = sum(
        list(labels) == list(guesses) for labels, guesses in zip(y_true, y_pred, strict=True)
    )
    return _ratio(correct, len(y_true))


def confusion(y_true: Labels, y_pred: Labels) -> Confusion:
    """Count how often each label was predicted as each label.

    >>> confusion([["A", "B"], ["B"]], [["A", "A"], ["B"]])
    Confusion(labels=['A', 'B'], matrix=array([[1, 0],
           [1, 1]]))
    """
    pairs = _count_pairs(y_true, y_pred)
    labels = sorted(map(str, set(chain.from_iterable(pairs))))  # str(): NumPy strings become str
    index = {label: i for i, label in enumerate(labels)}
    matrix = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for (true, predicted), n in pairs.items():
        matrix[index[true], index[predicted]] = n
    return Confusion(labels, matrix)


def label_report(y_true: Labels, y_pred: Labels) -> Report:
    """Return precision, recall and F1 of each label. The micro average is the accuracy.

    >>> print(label_report([["A", "B"], ["B"]], [["A", "A"], ["B"]]))
              precision  recall      F1  support
    A            0.5000  1.0000  0.6667        1
    B            1.0000  0.5000  0.6667        2
    <BLANKLINE>
    micro        0.6667  0.6667  0.6667        3
    macro        0.7500  0.7500  0.6667        3
    weighted     0.8333  0.6667  0.6667        3
    """
    labels, matrix = confusion(y_true, y_pred)
    counts = (matrix.diagonal(), matrix.sum(axis=0), matrix.sum(axis=1))
    return _build_report(*(Counter(dict(zip(labels, n.tolist(), strict=True))) for n in counts))


def span_scores(
    y_true: Labels, y_pred: Labels, scheme: str = "BIO", strict: bool = False
) -> Report:
    """Return precision, recall and F1 of spans. A correct span has the correct label and ends.

    ``scheme`` and ``strict`` have the same meaning as in ``trellis.data.tags.spans``. By default
    the result is the same as in conlleval and in seqeval's default mode. With ``strict=True``, it
    is the same as in seqeval's strict mode.

    >>> true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> predicted = [["B-PER", "I-PER", "O", "I-ORG"]]
    >>> scores = span_scores(true, predicted)
    >>> scores.f1, scores.per_label["PER"]
    (0.5, Scores(precision=1.0, recall=1.0, f1=1.0, support=1))
    >>> round(span_scores(true, predicted, strict=True).f1, 4)  # an I-ORG alone is no span
    0.6667
    """
    _check_sequences(y_true, y_pred)
    read = Reader(scheme, strict)
    correct: list[str] = []
    predicted: list[str] = []
    true: list[str] = []
    label = itemgetter(0)
    for n, (labels, guesses) in enumerate(zip(y_true, y_pred, strict=True)):
        true_spans = _read_spans(read, "y_true", n, labels)
        predicted_spans = _read_spans(read, "y_pred", n, guesses)
        # The spans of a sequence are distinct, so a set has all of them.
        correct += map(label, set(true_spans).intersection(predicted_spans))
        predicted += map(label, predicted_spans)
        true += map(label, true_spans)
    return _build_report(Counter(correct), Counter(predicted), Counter(true))


def span_f1(y_true: Labels, y_pred: Labels, scheme: str = "BIO", strict: bool = False) -> float:
    """Return the micro-averaged F1 of ``span_scores``.

    >>> span_f1([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "O"]]) == 2 / 3
    True
    """
    return span_scores(y_true, y_pred, scheme, strict).f1


_SCORERS: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "sequence_accuracy": sequence_accuracy,
    "span_f1": span_f1,
}


def scorer(name: str, **options: Any) -> Callable[[Any, Any, Labels], float]:
    """Return a metric for scikit-learn's ``scoring=``: a function (estimator, X, y) → number.

    ``name`` is ``accuracy``, ``sequence_accuracy`` or ``span_f1``; ``options`` are arguments of
    that function.

    >>> class AllOutside:
    ...     def predict(self, sequences):
    ...         return [["O"] * len(tokens) for tokens in sequences]
    >>> scorer("span_f1", scheme="BIOES")(AllOutside(), [["in", "Rome"]], [["O", "S-LOC"]])
    0.0
    >>> scorer("accuracy")(AllOutside(), [["in", "Rome"]], [["O", "S-LOC"]])
    0.5
    """
    if name not in _SCORERS:
        raise InputError(f"scorer {name!r} is unknown: must be one of {', '.join(_SCORERS)}")
    metric = partial(_SCORERS[name], **options)
    try:
        metric([], [])  # raises TypeError for an unknown option before the first fit
    except TypeError as error:
        raise InputError(f"scorer {name!r}: {error}") from None
    return partial(_predict_and_score, metric)


def _predict_and_score(metric: Callable[..., float], estimator: Any, x: Any, y: Labels) -> float:
    return metric(y, estimator.predict(x))


def _ratio(part: float, total: float) -> float:
    """Return part / total, or 0 if the total is 0."""
    return part / total if total else 0.0


def _compute_scores(correct: int, predicted: int, support: int) -> Scores:
    precision, recall = _ratio(correct, predicted), _ratio(correct, support)
    f1 = _ratio(2 * precision * recall, precision + recall)
    return Scores(precision, recall, f1, support)


def _build_report(correct: Counter[str], predicted: Counter[str], true: Counter[str]) -> Report:
    names = sorted(true.keys() | predicted.keys())
    per_label = {
        name: _compute_scores(correct[name], predicted[name], true[name]) for name in names
    }
    return Report(
        per_label,
        micro=_compute_scores(correct.total(), predicted.total(), true.total()),
        macro=_average(list(per_label.values()), [1] * len(per_label)),
        weighted=_average(list(per_label.values()), [s.support for s in per_label.values()]),
    )


def _average(scores: list[Scores], weights: list[int]) -> Scores:
    precision, recall, f1 = (
        _ratio(sum(w * s[i] for s, w in zip(scores, weights, strict=True)), sum(weights))
        for i in range(3)
    )
    return Scores(precision, recall, f1, sum(s.support for s in scores))


def _read_spans(read: Reader, name: str, n: int, tags: Sequence[str]) -> list[tuple[str, int, int]]:
    try:
        return read(tags)
    except InputError as error:
        raise InputError(f"{name}, sequence {{sequence}}, {error}", sequence=n) from None


def _count_pairs(y_true: Labels, y_pred: Labels) -> Counter[tuple[str, str]]:
    """Count each pair (true label, predicted label)."""
    _check_sequences(y_true, y_pred)
    flat_true, flat_pred = chain.from_iterable(y_true), chain.from_iterable(y_pred)
    return Counter(zip(flat_true, flat_pred, strict=True))


def _check_sequences(y_true: Labels, y_pred: Labels) -> None:
    for name, y in (("y_true", y_true), ("y_pred", y_pred)):
        if not _is_list(y):
            raise InputError(f"{name} must be a list of label lists, not {y!r:.60}")
        for n, labels in enumerate(y):
            if not _is_list(labels):
                raise InputError(
                    f"{name}, sequence {{sequence}} must be a list of labels, not {labels!r:.60}",
                    sequence=n,
                )
        _check_labels(name, y)
    if len(y_true) != len(y_pred):
        raise InputError(f"y_true has {len(y_true)} sequences, y_pred has {len(y_pred)}")
    for n, (labels, guesses) in enumerate(zip(y_true, y_pred, strict=True)):
        if len(labels) != len(guesses):
            raise InputError(
                f"sequence {{sequence}}: y_true has {len(labels)} labels, "
                f"y_pred has {len(guesses)}",
                sequence=n,
            )


def _is_list(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | dict | set)


def _check_labels(name: str, y: Labels) -> None:
    try:
        if all(isinstance(label, str) for label in set(chain.from_iterable(y))):
            return
    except TypeError:  # a label is not hashable: the code below names it
        pass
    n, position, label = next(
        (n, position, label)
        for n, labels in enumerate(y)
        for position, label in enumerate(labels)
        if not isinstance(label, str)
    )
    raise InputError(
        f"{name}, sequence {{sequence}}, position {position}: label {label!r} is not a string",
        sequence=n,
    )
