"""The words of a corpus that occur often enough, the commonest first."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.formats.strings import unpack_strings

__all__ = ["Vocabulary"]

Counts: TypeAlias = NDArray[np.int64]

_SOME = 1 << 14  # words that are strings of Python at a time


class Vocabulary(NamedTuple):
    """Words and how often each occurs; of equal counts the lesser UTF-8 bytes come first."""

    words: list[str]
    counts: Counts

    @classmethod
    def of(cls, corpus: "_core.Corpus", min_count: int, most: int | None) -> "Vocabulary":
        """The words of a corpus that occur ``min_count`` times or more, at most so many.

        >>> from trellis.embeddings import sources
        >>> corpus = sources.read([["a", "rose", "is", "a", "rose"], ["a", "dog"]], 1)
        >>> words, counts = Vocabulary.of(corpus, 1, 3)
        >>> words, counts.tolist()
        (['a', 'rose', 'dog'], [3, 2, 1])
        """
        data, ends, counts, _ = corpus.common_words(min_count, most or 0)
        if not len(counts):
            raise InputError(f"no word occurs {min_count} times: min_count is too large")
        return cls(unpack_strings(data.view(np.uint8), ends, "the text"), counts)

    def joined(self, new: "Vocabulary", min_count: int) -> "Vocabulary":
        """Both together: counts are added, and new words come in if they occur often enough."""
        index = {word: i for i, word in enumerate(self.words)}
        words, counts = list(self.words), self.counts.tolist()
        for word, count in zip(new.words, new.counts.tolist(), strict=True):
            if word in index:
                counts[index[word]] += count
            elif count >= min_count:
                words.append(word)
                counts.append(count)
        order = sorted(range(len(words)), key=lambda i: (-counts[i], words[i].encode()))
        return Vocabulary([words[i] for i in order], np.array([counts[i] for i in order], np.int64))

    def number(self, corpus: "_core.Corpus") -> None:
        """Tell a corpus which number each of its words has here."""
        data, ends, _, types = corpus.common_words(0, 0)
        index = {word: i for i, word in enumerate(self.words)}
        numbers = np.empty(corpus.types, np.int32)
        for begin in range(0, len(types), _SOME):
            part = ends[begin : begin + _SOME + 1]
            letters = data[part[0] : part[-1]].view(np.uint8)
            names = unpack_strings(letters, part - part[0], "the text")
            numbers[types[begin : begin + _SOME]] = [index.get(name, -1) for name in names]
        corpus.number(numbers)
