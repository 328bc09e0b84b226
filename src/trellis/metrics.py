"""Metrics of predicted labels: by token, by sequence and by span.

``y_true`` and ``y_pred`` are lists of label lists. For each label, TP is the number of correct
predictions, ``predicted`` the number of all predictions, and ``support`` the number of true labels:

    precision = TP / predicted    recall = TP / support
    F1 = 2 · precision · recall / (precision + recall)

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

from trellis.checks import integer_at_least, number_at_least, number_in_range
from trellis.data.tags import Reader
from trellis.errors import InputError

__all__ = [
    "Comparison",
    "Confusion",
    "Report",
    "Scores",
    "Threshold",
    "accuracy",
    "choose_threshold",
    "confusion",
    "label_report",
    "paired_bootstrap",
    "scorer",
    "sequence_accuracy",
    "span_f1",
    "span_scores",
]

Labels: TypeAlias = Sequence[Sequence[str]]
_DRAWN_COUNTS = 1 << 20  # numbers that the bootstrap draws at a time: 8 MB


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
            f"{name:{width}}  {precision:9.4f}  {recall:6.4f}  {f1:6.4f}  {support:7}"
            for name, (precision, recall, f1, support) in zip(
                names, [*self.per_label.values(), *averages.values()], strict=True
            )
        ]
        rows.insert(len(self.per_label), "")
        return "\n".join([f"{'':{width}}  precision  recall      F1  support", *rows])


class Confusion(NamedTuple):
    """The sorted labels, and how often each true label was predicted as each label."""

    labels: list[str]
    matrix: NDArray[np.int64]
    """(labels, labels) ``matrix[i, j]`` counts ``labels[i]`` predicted as ``labels[j]``."""


class Comparison(NamedTuple):
    """The scores of two predictions, and the difference b - a."""

    a: float
    b: float
    difference: float
    low: float
    """The lower end of the confidence interval of the difference."""
    high: float
    p_value: float


class Threshold(NamedTuple):
    """A threshold on the probability of spans, and the scores of the spans that reach it."""

    min_probability: float
    precision: float
    recall: float
    f1: float


def accuracy(y_true: Labels, y_pred: Labels) -> float:
    """Return the number of correct labels divided by the number of labels.

    >>> accuracy([["A", "B"], ["B"]], [["A", "A"], ["B"]]) == 2 / 3
    True
    """
    pairs = _count_pairs(y_true, y_pred)
    n_correct = sum(n for (true, predicted), n in pairs.items() if true == predicted)
    return _ratio(n_correct, pairs.total())


def sequence_accuracy(y_true: Labels, y_pred: Labels) -> float:
    """Return the fraction of sequences in which every label is correct.

    >>> sequence_accuracy([["A", "B"], ["B"]], [["A", "A"], ["B"]])
    0.5
    """
    _check_sequences(y_true, y_pred)
    n_correct = sum(
        list(labels) == list(predicted_labels)
        for labels, predicted_labels in zip(y_true, y_pred, strict=True)
    )
    return _ratio(n_correct, len(y_true))


def confusion(y_true: Labels, y_pred: Labels) -> Confusion:
    """Count how often each true label was predicted as each label.

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
    reader = Reader(scheme, strict)
    correct: list[str] = []
    predicted: list[str] = []
    true: list[str] = []
    label = itemgetter(0)
    for n, (labels, predicted_labels) in enumerate(zip(y_true, y_pred, strict=True)):
        true_spans = _read_spans(reader, "y_true", n, labels)
        predicted_spans = _read_spans(reader, "y_pred", n, predicted_labels)
        # The spans of a sequence are distinct, so a set has all of them.
        correct += map(label, set(true_spans).intersection(predicted_spans))
        predicted += map(label, predicted_spans)
        true += map(label, true_spans)
    return _build_report(Counter(correct), Counter(predicted), Counter(true))


def choose_threshold(
    y_true: Labels,
    spans: Sequence[Sequence[tuple[str, int, int, float]]],
    *,
    min_precision: float | None = None,
    beta: float = 1.0,
    scheme: str = "BIO",
) -> Threshold:
    """Choose the smallest probability of spans, ``min_probability``, on a development set.

    ``spans`` has (label, start, end, probability) for each sequence, as
    ``predict_spans(X, min_probability=0.01)`` returns them. The result is the threshold with the
    best Fβ = (1 + β²) · precision · recall / (β² · precision + recall): with β > 1, recall counts
    more. With ``min_precision``, the result is the threshold with the largest recall among all
    thresholds with at least this precision.

    >>> true = [["B-PER", "O", "B-LOC"], ["O", "O", "B-LOC"]]
    >>> spans = [[("PER", 0, 1, 0.9), ("LOC", 2, 3, 0.4)], [("PER", 0, 1, 0.7), ("LOC", 2, 3, 0.2)]]
    >>> choose_threshold(true, spans, min_precision=0.9)
    Threshold(min_probability=0.8, precision=1.0, recall=0.3333333333333333, f1=0.5)
    >>> choose_threshold(true, spans, beta=2)
    Threshold(min_probability=0.2, precision=0.75, recall=1.0, f1=0.8571428571428571)
    """
    number_at_least(beta, 0, "beta")
    if min_precision is not None:
        number_in_range(min_precision, 0, 1, "min_precision")
    read = Reader(scheme)
    if len(y_true) != len(spans):
        raise InputError(f"y_true has {len(y_true)} sequences, spans has {len(spans)}")
    chances, correct, support = [], [], 0
    for n, (labels, row) in enumerate(zip(y_true, spans, strict=True)):
        true = set(_read_spans(read, "y_true", n, labels))
        support += len(true)
        for span in row:
            if not -1e-6 <= span[3] <= 1.0 + 1e-6:  # sums of marginals have rounding errors
                raise InputError(f"spans of sequence {n}: {tuple(span)!r} has no probability")
        chances += [span[3] for span in row]
        correct += [tuple(span[:3]) in true for span in row]
    if not chances:
        raise InputError("spans has no span: a threshold cannot be chosen")
    order = np.argsort(-np.array(chances), kind="stable")
    p = np.array(chances)[order]
    n_correct = np.cumsum(np.array(correct)[order])
    # The candidates: for each distinct probability, all spans with at least this probability.
    last = np.flatnonzero(np.append(p[1:] < p[:-1], True))
    # A threshold is halfway to the next smaller probability, so that a rounding error in a
    # probability does not change which spans reach the threshold.
    limits = (p[last] + np.append(p[last[1:]], p[-1])) / 2
    precision = n_correct[last] / (last + 1)
    recall = n_correct[last] / max(support, 1)
    if min_precision is None:
        weighted = beta**2 * precision + recall
        # Fβ without its factor 1 + β².
        quality = precision * recall / np.where(weighted > 0, weighted, 1.0)
    else:
        quality = np.where(precision >= min_precision, recall, -1.0)
    best = int(np.argmax(quality))
    if quality[best] < 0:
        best = int(np.argmax(precision))
        raise InputError(
            f"no threshold has a precision of {min_precision:g}: the highest is "
            f"{precision[best]:.4f}, with min_probability={limits[best]:.4f}"
        )
    scores = _compute_scores(int(n_correct[last[best]]), int(last[best]) + 1, support)
    return Threshold(float(limits[best]), *scores[:3])


def span_f1(y_true: Labels, y_pred: Labels, scheme: str = "BIO", strict: bool = False) -> float:
    """Return the micro-averaged F1 of ``span_scores``.

    >>> span_f1([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "O"]]) == 2 / 3
    True
    """
    return span_scores(y_true, y_pred, scheme, strict).f1


def paired_bootstrap(
    y_true: Labels,
    y_a: Labels,
    y_b: Labels,
    metric: str = "span_f1",
    *,
    scheme: str = "BIO",
    n_samples: int = 10_000,
    confidence: float = 0.95,
    random_state: Any = 0,
) -> Comparison:
    """Compare two predictions of the same sequences by resampling the sequences.

    A sample has as many sequences as the data, drawn with replacement; both predictions are scored
    on the same samples. The interval contains the middle ``confidence`` (0.95: 95 %) of the
    differences d* of the samples. The p-value is the share of samples with |d* - d| ≥ |d|, where d
    is the difference on the data: how often chance alone gives a difference as large as d.
    ``metric`` is ``span_f1`` with a tagging ``scheme``, ``accuracy`` or ``sequence_accuracy``.

    >>> true = [["B-PER", "O"], ["O", "B-LOC"]] * 20
    >>> better = [["B-PER", "O"], ["O", "B-LOC"], ["B-PER", "O"], ["O", "O"]] * 10
    >>> worse = [["B-PER", "O"], ["O", "O"]] * 20
    >>> result = paired_bootstrap(true, worse, better)
    >>> round(result.a, 3), round(result.b, 3), result.low > 0, result.p_value < 0.05
    (0.667, 0.857, True, True)
    """
    if metric not in _COUNTERS:
        raise InputError(f"metric is {metric!r}: must be one of {', '.join(_COUNTERS)}")
    n_samples = integer_at_least(n_samples, 1, "n_samples")
    number_in_range(confidence, 0, 1, "confidence")
    read = Reader(scheme)
    counts = [_COUNTERS[metric](y_true, guesses, read) for guesses in (y_a, y_b)]
    if not len(counts[0]):
        raise InputError("y_true has no sequences")
    # Sequences with equal counts are of the same kind. A sample is one multinomial draw: how many
    # sequences of each kind. This is faster than to draw an index for each sequence.
    kinds, sizes = np.unique(np.hstack(counts), axis=0, return_counts=True)
    generator = np.random.default_rng(random_state)
    samples = np.empty(n_samples)
    step = max(1, _DRAWN_COUNTS // len(kinds))
    for begin in range(0, n_samples, step):
        block = samples[begin : begin + step]
        drawn_counts = (
            generator.multinomial(sizes.sum(), sizes / sizes.sum(), size=len(block)) @ kinds
        )
        block[:] = _score_counts(drawn_counts[:, 3:]) - _score_counts(drawn_counts[:, :3])
    data_a, data_b = (_score_counts(c.sum(axis=0)) for c in counts)
    difference = float(data_b - data_a)
    low, high = np.quantile(samples, [(1 - confidence) / 2, (1 + confidence) / 2])
    # The tolerance: a sample is extreme too if only a rounding error makes |d* - d| below |d|.
    is_extreme = np.abs(samples - difference) >= abs(difference) - 1e-12
    p_value = (1 + int(is_extreme.sum())) / (1 + n_samples)
    return Comparison(float(data_a), float(data_b), difference, float(low), float(high), p_value)


def _count_spans(y_true: Labels, y_pred: Labels, read: Reader) -> NDArray[np.int64]:
    """Return (correct, predicted, true) spans of each sequence, shape (sequences, 3)."""
    _check_sequences(y_true, y_pred)
    rows = []
    for n, (labels, guesses) in enumerate(zip(y_true, y_pred, strict=True)):
        true, predicted = (
            set(_read_spans(read, name, n, row))
            for name, row in (("y_true", labels), ("y_pred", guesses))
        )
        rows.append((len(true & predicted), len(predicted), len(true)))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _count_tokens(y_true: Labels, y_pred: Labels, read: Reader) -> NDArray[np.int64]:
    """Return (correct, n, n) of each sequence of n labels, so that the F1 is the accuracy."""
    _check_sequences(y_true, y_pred)
    rows = []
    for labels, guesses in zip(y_true, y_pred, strict=True):
        correct = sum(a == b for a, b in zip(labels, guesses, strict=True))
        rows.append((correct, len(labels), len(labels)))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _count_sequences(y_true: Labels, y_pred: Labels, read: Reader) -> NDArray[np.int64]:
    """Return (1 if all labels are correct else 0, 1, 1) of each sequence."""
    counts = _count_tokens(y_true, y_pred, read)
    correct = counts[:, 0] == counts[:, 1]
    return np.stack([correct, np.ones_like(correct), np.ones_like(correct)], axis=1).astype(int)


_COUNTERS = {
    "span_f1": _count_spans,
    "accuracy": _count_tokens,
    "sequence_accuracy": _count_sequences,
}


def _score_counts(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """2 · correct / (predicted + true), shape (…) for counts (…, 3); 0 without spans."""
    total = counts[..., 1] + counts[..., 2]
    scores: NDArray[np.float64] = 2 * counts[..., 0] / np.maximum(total, 1)
    return scores


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
        weighted=_average(
            list(per_label.values()), [scores.support for scores in per_label.values()]
        ),
    )


def _average(scores: list[Scores], weights: list[int]) -> Scores:
    precision, recall, f1 = (
        _ratio(
            sum(weight * row[i] for row, weight in zip(scores, weights, strict=True)),
            sum(weights),
        )
        for i in range(3)
    )
    return Scores(precision, recall, f1, sum(label_scores.support for label_scores in scores))


def _read_spans(
    reader: Reader, name: str, n: int, tags: Sequence[str]
) -> list[tuple[str, int, int]]:
    try:
        return reader(tags)
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
    for n, (labels, predicted_labels) in enumerate(zip(y_true, y_pred, strict=True)):
        if len(labels) != len(predicted_labels):
            raise InputError(
                f"sequence {{sequence}}: y_true has {len(labels)} labels, "
                f"y_pred has {len(predicted_labels)}",
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
