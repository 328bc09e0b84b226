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
from trellis.models.description import Description

__all__ = ["Evaluation"]

_WORD_FEATURES = ("word", "w", "w[0]", "word.lower()", "text", "token", "form")
"""Common names of the feature whose value is the word."""


@dataclass(frozen=True)
class Evaluation:
    """The data of all sections of a report. All labels are strings, except those in ``raw``."""

    model: Any
    X: Sequence[Any]
    raw: Sequence[Sequence[Any]]
    """The true labels, not converted to strings."""
    y: list[list[str]]
    """The true labels as strings."""
    predicted: list[list[str]]
    labels: list[str]
    """Labels of the model, in the order of ``classes_``."""
    scheme: str

    @classmethod
    def of(cls, model: Any, X: Any, y: Any) -> Self:
        """Return the evaluation of a model on X; raise InputError if X and y do not match."""
        if not hasattr(model, "describe"):
            raise InputError(f"model is a {type(model).__name__}, expected a sequence model")
        if len(X) != len(y):
            raise InputError(f"X has {len(X)} sequences, y has {len(y)}")
        if not sum(map(len, y)):
            raise InputError("X has no tokens: a report needs at least one")
        _check_labels(y)
        predicted = model.predict(X)
        for n, (labels, true_labels) in enumerate(zip(predicted, y, strict=True)):
            if len(labels) != len(true_labels):
                sizes = f"{len(labels)} positions and {len(true_labels)} labels"
                raise InputError(f"sequence {{sequence}} has {sizes}", sequence=n)
        classes = [str(label) for label in model.classes_]
        true = _convert_to_strings(y)
        # The true labels are included, because the model may not know all of them.
        scheme = tags.detect({*classes, *chain(*true)}, otherwise="plain")
        return cls(model, X, y, true, _convert_to_strings(predicted), classes, scheme)

    @cached_property
    def description(self) -> Description:
        """The size and the training record of the model."""
        description: Description = self.model.describe()
        return description

    def words(self, n: int) -> list[str]:
        """Return the words of sequence n. A token without a word is shown as its position."""
        x = self.X[n]
        if hasattr(x, "shape"):  # an array or a sparse matrix of features
            return [str(t) for t in range(x.shape[0])]
        return [_find_word(token, t) for t, token in enumerate(x)]

    def spans(self, labels: Sequence[str]) -> list[tags.Span]:
        """Return the spans of the labels. In the plain scheme, each token is a span."""
        if self.scheme == "plain":
            return [tags.Span(label, t, t + 1) for t, label in enumerate(labels)]
        return tags.spans(labels, self.scheme)

    @cached_property
    def label_counts(self) -> Counter[str]:
        """The number of tokens of each true label."""
        return Counter(chain.from_iterable(self.y))

    @cached_property
    def scores(self) -> Report:
        """The scores of spans. In the plain scheme, they are scores of tokens."""
        if self.scheme == "plain":
            return label_report(self.y, self.predicted)
        return span_scores(self.y, self.predicted, self.scheme)

    @cached_property
    def span_labels(self) -> list[str]:
        """The labels of spans (in the plain scheme, of tokens), the most frequent first."""
        counts = Counter(span.label for labels in self.y for span in self.spans(labels))
        if self.scheme == "plain":
            names = set(self.labels)
        else:
            names = {label.partition("-")[2] for label in self.labels if label != "O"}
        return sorted({*counts, *names}, key=lambda name: (-counts[name], name))

    def sort_key(self, label: str) -> tuple[str, str]:
        """Return the key that sorts labels in pictures: first O, then by the label of the span."""
        return ("", label) if self.scheme == "plain" else (label.partition("-")[2], label)

    def most_frequent(self, count: int) -> list[int]:
        """Return the indices of the most frequent labels, in the order of the pictures."""
        order = sorted(
            range(len(self.labels)), key=lambda n: (-self.label_counts[self.labels[n]], n)
        )
        return sorted(order[:count], key=lambda n: self.sort_key(self.labels[n]))


def _check_labels(y: Sequence[Sequence[Any]]) -> None:
    """Raise InputError if a label is None or a set: scores need one true label per token."""
    for n, labels in enumerate(y):
        for position, label in enumerate(labels):
            if label is None or isinstance(label, set | frozenset):
                raise InputError(
                    f"sequence {{sequence}}, position {position}: the label is {label!r}, but a "
                    "report needs one label per token",
                    sequence=n,
                )


def _convert_to_strings(y: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[str(label) for label in labels] for labels in y]


def _find_word(token: Any, position: int) -> str:
    """Return the word of a token: the token, its first column, or the value of a feature."""
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
