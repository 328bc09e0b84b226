"""`Evaluation`: a model, data with true labels, and the model's predictions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Self

from trellis.data import tags
from trellis.errors import InputError
from trellis.metrics import Report, label_report, span_scores
from trellis.models.chain.description import Description

__all__ = ["Evaluation"]

_WORD_FEATURES = ("word", "w", "w[0]", "word.lower()", "text", "token", "form")
"""Usual names of the feature that is the word itself."""


@dataclass(frozen=True)
class Evaluation:
    """What every section of a report is about; labels are strings, whatever the model has."""

    model: Any
    X: Sequence[Any]
    raw: Sequence[Sequence[Any]]
    """The true labels before they became strings, as the model knows them."""
    y: list[list[str]]
    """The true labels."""
    predicted: list[list[str]]
    labels: list[str]
    """Labels of the model, in the order of ``classes_``."""
    scheme: str

    @classmethod
    def of(cls, model: Any, X: Any, y: Any) -> Self:
        """Predict the labels of X, after checking that X and y fit together."""
        if not hasattr(model, "describe"):
            raise InputError(f"a report needs a sequence model, not a {type(model).__name__}")
        if len(X) != len(y):
            raise InputError(f"X has {len(X)} sequences, y has {len(y)}")
        if not sum(map(len, y)):
            raise InputError("X has no tokens: there is nothing to report on")
        _check_labels(y)
        predicted = model.predict(X)
        for n, (labels, true_labels) in enumerate(zip(predicted, y, strict=True)):
            if len(labels) != len(true_labels):
                sizes = f"{len(labels)} positions and {len(true_labels)} labels"
                raise InputError(f"sequence {{sequence}} has {sizes}", sequence=n)
        classes = [str(label) for label in model.classes_]
        true = _convert_to_strings(y)
        # Also of the true labels: the data may have labels that the model does not know.
        scheme = tags.detect({*classes, *chain(*true)}, otherwise="plain")
        return cls(model, X, y, true, _convert_to_strings(predicted), classes, scheme)

    @cached_property
    def description(self) -> Description:
        """Size and training record of the model."""
        description: Description = self.model.describe()
        return description

    def words(self, n: int) -> list[str]:
        """Return the words of a sequence; positions where a token has no word."""
        x = self.X[n]
        if hasattr(x, "shape"):  # an array or a sparse matrix of features
            return [str(t) for t in range(x.shape[0])]
        return [_find_word(token, t) for t, token in enumerate(x)]

    def spans(self, labels: Sequence[str]) -> list[tags.Span]:
        """Return the spans of the labels; in a plain scheme, each token is a span."""
        if self.scheme == "plain":
            return [tags.Span(label, t, t + 1) for t, label in enumerate(labels)]
        return tags.spans(labels, self.scheme)

    @cached_property
    def counts(self) -> Counter[str]:
        """Number of tokens with each true label."""
        return Counter(chain.from_iterable(self.y))

    @cached_property
    def scores(self) -> Report:
        """Scores of spans; in a plain scheme, of tokens."""
        if self.scheme == "plain":
            return label_report(self.y, self.predicted)
        return span_scores(self.y, self.predicted, self.scheme)

    @cached_property
    def span_labels(self) -> list[str]:
        """Labels of spans (in a plain scheme, of tokens), the most frequent first."""
        counts = Counter(span.label for labels in self.y for span in self.spans(labels))
        if self.scheme == "plain":
            names = set(self.labels)
        else:
            names = {label.partition("-")[2] for label in self.labels if label != "O"}
        return sorted({*counts, *names}, key=lambda name: (-counts[name], name))

    def sort_key(self, label: str) -> tuple[str, str]:
        """Return the key that sorts labels in pictures: O first, then by the label of the span."""
        return ("", label) if self.scheme == "plain" else (label.partition("-")[2], label)

    def most_frequent(self, count: int) -> list[int]:
        """Return the indices of the most frequent labels, in the order of the pictures."""
        order = sorted(range(len(self.labels)), key=lambda n: (-self.counts[self.labels[n]], n))
        return sorted(order[:count], key=lambda n: self.sort_key(self.labels[n]))


def _check_labels(y: Sequence[Sequence[Any]]) -> None:
    """Raise if a label is unknown (None) or a set: scores need the true label of every token."""
    for n, labels in enumerate(y):
        for position, label in enumerate(labels):
            if label is None or isinstance(label, set | frozenset):
                raise InputError(
                    f"sequence {{sequence}}, position {position}: the label is {label!r}, but a "
                    "report needs all labels",
                    sequence=n,
                )


def _convert_to_strings(y: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[str(label) for label in labels] for labels in y]


def _find_word(token: Any, position: int) -> str:
    """Return the word of a token: a string, the first of several columns, or a feature."""
    if isinstance(token, str):
        return token
    if isinstance(token, tuple) and token:
        return str(token[0])
    if isinstance(token, list):  # feature names such as "word=Rome"
        token = dict(str(name).split("=", 1) for name in token if "=" in str(name))
    if isinstance(token, dict):
        word = next((token[name] for name in _WORD_FEATURES if name in token), None)
        return word if isinstance(word, str) else str(position)
    return str(position)
