"""Collocations: pairs of words that occur together more often than by chance.

score(a, b) = (count(a b) − discount) · N / (count(a) · count(b))       N = number of words
npmi(a, b)  = ln(p(a b) / (p(a) p(b))) / −ln p(a b)                     in −1..1
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from trellis.checks import integer_in_range, number_in_range, one_of
from trellis.errors import InputError

__all__ = ["Phrase", "Phrases"]


class Phrase(NamedTuple):
    """A collocation of two words."""

    words: tuple[str, str]
    score: float
    occurrences: int


class Phrases:
    """Finds collocations in token lists and joins them into single tokens.

    Fit and transform the result again to find phrases of three and four words.

    >>> text = [["new", "york", "is", "big"], ["i", "like", "new", "york"], ["new", "is", "big"]]
    >>> phrases = Phrases(min_count=2, threshold=1.0, discount=1.0).fit(text)
    >>> phrases.transform([["in", "new", "york"]])
    [['in', 'new_york']]

    Parameters
    ----------
    min_count
        Minimum count of a pair, and of each of its words.
    threshold
        Minimum score of a pair; 10 is usual for "default", 0.5 for "npmi".
    scoring
        "default" is the score of word2vec, the first formula of this module; "npmi" the second.
    discount
        Number that is subtracted from the count of a pair, so that rare pairs get a low score; None
        means ``min_count``.
    delimiter
        String between the words of a phrase.
    connectors
        Words such as "of". They may be inside a phrase, but a phrase does not start or end with
        them.

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
        integer_in_range(min_count, 1, math.inf, "min_count")
        number_in_range(threshold, -math.inf, math.inf, "threshold")
        one_of(scoring, ("default", "npmi"), "scoring")

    def fit(self, sentences: Iterable[Sequence[str]]) -> Phrases:
        """Count words and pairs, and keep the pairs whose score reaches the threshold."""
        if isinstance(sentences, str) or not isinstance(sentences, Iterable):
            raise InputError(
                f"sentences is {type(sentences).__name__}: must be a list of word lists"
            )
        word_counts: Counter[str] = Counter()
        pair_counts: Counter[tuple[str, ...]] = Counter()
        for sequence_number, sentence in enumerate(sentences):
            if isinstance(sentence, str):
                raise InputError(
                    "sequence {sequence} is a str: must be a list of words",
                    sequence=sequence_number,
                )
            word_counts.update(sentence)
            pair_counts.update(group for _, _, group in self._find_pairs(sentence))
        n_words = sum(word_counts.values())
        if not n_words:
            raise InputError("sentences contain no words: at least one word is needed")
        self.phrases_: dict[tuple[str, ...], Phrase] = {}
        for group, count in pair_counts.items():
            first, last = group[0], group[-1]
            if min(count, word_counts[first], word_counts[last]) < self.min_count:
                continue
            score = self._score(count, word_counts[first], word_counts[last], n_words)
            if score >= self.threshold:
                self.phrases_[group] = Phrase((first, last), score, count)
        return self

    def transform(self, sentences: Iterable[Sequence[str]]) -> list[list[str]]:
        """Return the sentences with the words of each phrase joined by the delimiter."""
        return [self._join(sentence) for sentence in sentences]

    def iterate(self, sentences: Iterable[Sequence[str]]) -> Iterator[list[str]]:
        """Yield the sentences of `transform` one at a time; this needs constant memory."""
        return map(self._join, sentences)

    def _find_pairs(self, sentence: Sequence[str]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Yield begin, end and words of each pair; only connectors may be between its two words."""
        positions = [i for i, word in enumerate(sentence) if word not in self.connectors]
        for i, j in pairwise(positions):
            yield i, j + 1, tuple(sentence[i : j + 1])

    def _score(self, count: int, first: int, last: int, total: int) -> float:
        """Return the score of a pair from the counts of the pair, its words and all words."""
        if self.scoring == "npmi":
            p = count / total
            # At p = 1 the denominator log p is 0. The limit of the score is 1.
            return math.log(p * total * total / (first * last)) / -math.log(p) if p < 1 else 1.0
        discount = self.min_count if self.discount is None else self.discount
        return (count - discount) * total / (first * last)

    def _join(self, sentence: Sequence[str]) -> list[str]:
        """Return the sentence with the words of each phrase joined."""
        if not hasattr(self, "phrases_"):
            raise InputError("this Phrases object is not fitted: call fit first")
        joined_words: list[str] = []
        # Pairs are joined from left to right, and a word belongs to at most one pair.
        next_word = 0
        for begin, end, group in self._find_pairs(sentence):
            if begin >= next_word and group in self.phrases_:
                joined_words += sentence[next_word:begin]
                joined_words.append(self.delimiter.join(group))
                next_word = end
        return [*joined_words, *sentence[next_word:]]
