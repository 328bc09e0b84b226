"""Collocations: pairs of words that stand together more often than chance, joined into one.

score(a, b) = (count(a b) − discount) · N / (count(a) · count(b))       N words of text
npmi(a, b)  = ln(p(a b) / (p(a) p(b))) / −ln p(a b)                     in −1..1
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from trellis.embeddings.training import check_choice, check_number
from trellis.errors import InputError

__all__ = ["Phrase", "Phrases"]


class Phrase(NamedTuple):
    """Two words that belong together."""

    words: tuple[str, str]
    score: float
    occurrences: int


class Phrases:
    """Finds collocations in token lists and joins them; twice over, they grow to three and four.

    >>> text = [["new", "york", "is", "big"], ["i", "like", "new", "york"], ["new", "is", "big"]]
    >>> phrases = Phrases(min_count=2, threshold=1.0, discount=1.0).fit(text)
    >>> phrases.transform([["in", "new", "york"]])
    [['in', 'new_york']]

    Parameters
    ----------
    min_count
        Pairs, and words in them, must occur so often.
    threshold
        The score that a pair must reach: 10 is usual for "default", 0.5 for "npmi".
    scoring
        "default" is word2vec's, the first formula above; "npmi" the second.
    discount
        Taken off counts of pairs, so that rare ones score low; None is ``min_count``.
    connectors
        Words such as "of" that may stand inside a phrase without being counted.

    """

    def __init__(
        self,
        *,
        min_count: int = 5,
        threshold: float = 10.0,
        scoring: str = "default",
        discount: float | None = None,
        delimiter: str = "_",
        connectors: Iterable[str] = (),
    ) -> None:
        self.min_count = min_count
        self.threshold = threshold
        self.scoring = scoring
        self.discount = discount
        self.delimiter = delimiter
        self.connectors = frozenset(connectors)
        check_number(self, "min_count", 1)
        check_number(self, "threshold", -math.inf)
        check_choice(self, "scoring", ("default", "npmi"))

    def fit(self, sentences: Iterable[Sequence[str]]) -> "Phrases":
        """Count words and pairs, and keep the pairs that score high enough."""
        if isinstance(sentences, str) or not isinstance(sentences, Iterable):
            raise InputError(f"sentences is {type(sentences).__name__}: must be lists of words")
        words: Counter[str] = Counter()
        pairs: Counter[tuple[str, ...]] = Counter()
        for number, sentence in enumerate(sentences):
            if isinstance(sentence, str):
                raise InputError(f"sequence {number} is a str: must be a list of words")
            words.update(sentence)
            pairs.update(group for _, _, group in self._groups(sentence))
        total = sum(words.values())
        if not total:
            raise InputError("there are no words to count")
        self.phrases_: dict[tuple[str, ...], Phrase] = {}
        for group, count in pairs.items():
            first, last = group[0], group[-1]
            if min(count, words[first], words[last]) < self.min_count:
                continue
            score = self._score(count, words[first], words[last], total)
            if score >= self.threshold:
                self.phrases_[group] = Phrase((first, last), score, count)
        return self

    def transform(self, sentences: Iterable[Sequence[str]]) -> list[list[str]]:
        """The sentences with phrases joined by the delimiter."""
        return [self._joined(sentence) for sentence in sentences]

    def iterate(self, sentences: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """One sentence after the other, in constant memory; else as `transform`."""
        return map(self._joined, sentences)

    def _groups(self, sentence: Sequence[str]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Where two words with nothing but connectors between them begin and end."""
        places = [i for i, word in enumerate(sentence) if word not in self.connectors]
        for i, j in pairwise(places):
            yield i, j + 1, tuple(sentence[i : j + 1])

    def _score(self, count: int, first: int, last: int, total: int) -> float:
        if self.scoring == "npmi":
            p = count / total
            return math.log(p * total * total / (first * last)) / -math.log(p) if p < 1 else 1.0
        discount = self.min_count if self.discount is None else self.discount
        return (count - discount) * total / (first * last)

    def _joined(self, sentence: Sequence[str]) -> list[str]:
        if not hasattr(self, "phrases_"):
            raise InputError("these Phrases are not fitted: call fit first")
        joined: list[str] = []
        done = 0  # from the left, and no word twice
        for begin, end, group in self._groups(sentence):
            if begin >= done and group in self.phrases_:
                joined += sentence[done:begin]
                joined.append(self.delimiter.join(group))
                done = end
        return [*joined, *sentence[done:]]
