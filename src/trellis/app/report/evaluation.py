"""What all parts of a report are about: a model, the right labels of some data, and its guesses."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Self

from trellis.data import tags
from trellis.errors import InputError
from trellis.metrics import Report, label_report, span_scores

__all__ = ["Case"]

_WORD = ("word", "w", "w[0]", "word.lower()", "text", "token", "form")
"""Features that are often the word itself."""


@dataclass(frozen=True)
class Case:
    """Labels are strings here, whatever they are in the model."""

    model: Any
    X: Sequence[Any]
    raw: Sequence[Sequence[Any]]
    """y as it was given."""
    y: list[list[str]]
    guess: list[list[str]]
    labels: list[str]
    """Those of the model, in the order of ``classes_``."""
    scheme: str

    @classmethod
    def of(cls, model: Any, X: Any, y: Any) -> Self:
        """Predict, and check that X and y fit together."""
        if not hasattr(model, "predict_marginals"):
            raise InputError(f"a report is of a sequence model, not of {type(model).__name__}")
        if len(X) != len(y):
            raise InputError(f"X has {len(X)} sequences, y has {len(y)}")
        if not sum(map(len, y)):
            raise InputError("X has no tokens: there is nothing to report on")
        for n, own in enumerate(y):
            for position, label in enumerate(own):
                if label is None or isinstance(label, set | frozenset):
                    raise InputError(
                        f"sequence {n}, position {position}: the label is {label!r}, but a report "
                        "needs all labels"
                    )
        guess = model.predict(X)
        for n, (ours, theirs) in enumerate(zip(guess, y, strict=True)):
            if len(ours) != len(theirs):
                raise InputError(f"sequence {n} has {len(ours)} positions and {len(theirs)} labels")
        labels = [str(label) for label in model.classes_]
        gold = _strings(y)
        return cls(
            model,
            X,
            y,
            gold,
            _strings(guess),
            labels,
            tags.detect({*labels, *chain(*gold)}, otherwise="plain"),
        )

    def words(self, n: int) -> list[str]:
        """The tokens of a sequence as they can be read; numbers where they cannot."""
        x = self.X[n]
        if hasattr(x, "shape"):
            return [str(t) for t in range(x.shape[0])]
        return [_word(token, t) for t, token in enumerate(x)]

    def spans(self, labels: Sequence[str]) -> list[tags.Span]:
        """What the labels mark; in a plain scheme each token for itself."""
        if self.scheme == "plain":
            return [tags.Span(label, t, t + 1) for t, label in enumerate(labels)]
        return tags.spans(labels, self.scheme)

    @property
    def is_hmm(self) -> bool:
        """Whether what the model adds up are logarithms of probabilities."""
        return hasattr(self.model, "emissions_")

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each label is right."""
        return Counter(chain.from_iterable(self.y))

    @cached_property
    def scores(self) -> Report:
        """Of spans; in a plain scheme, of tokens."""
        if self.scheme == "plain":
            return label_report(self.y, self.guess)
        return span_scores(self.y, self.guess, self.scheme)

    @cached_property
    def kinds(self) -> list[str]:
        """Labels of spans (in a plain scheme: labels), the most frequent first."""
        seen = Counter(span.label for labels in self.y for span in self.spans(labels))
        if self.scheme == "plain":
            named = set(self.labels)
        else:
            named = {label.partition("-")[2] for label in self.labels if label != "O"}
        return sorted({*seen, *named}, key=lambda kind: (-seen[kind], kind))

    def place(self, label: str) -> tuple[str, str]:
        """Where a label stands in pictures: O first, and those of one kind of span together."""
        return ("", label) if self.scheme == "plain" else (label.partition("-")[2], label)

    def frequent(self, count: int) -> list[int]:
        """Numbers of the most frequent labels, in the order in which they are shown."""
        order = sorted(range(len(self.labels)), key=lambda n: (-self.counts[self.labels[n]], n))
        return sorted(order[:count], key=lambda n: self.place(self.labels[n]))


def _strings(y: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[str(label) for label in own] for own in y]


def _word(token: Any, position: int) -> str:
    """The word in a token: a string, the first of several columns, or a feature by its name."""
    if isinstance(token, str):
        return token
    if isinstance(token, tuple) and token:
        return str(token[0])
    if isinstance(token, list):  # of names of features
        token = dict(str(name).split("=", 1) for name in token if "=" in str(name))
    if isinstance(token, dict):
        found = next((token[name] for name in _WORD if name in token), None)
        return found if isinstance(found, str) else str(position)
    return str(position)
