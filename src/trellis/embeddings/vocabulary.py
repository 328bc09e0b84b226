"""The words of a corpus that occur often enough, most frequent first."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.embeddings.vectors import Vectors
from trellis.errors import InputError
from trellis.formats.strings import unpack_strings

__all__ = ["Vocabulary"]

Counts: TypeAlias = NDArray[np.int64]

_STRINGS = 1 << 14  # words that are converted to Python strings at a time, to limit memory


class Vocabulary(NamedTuple):
    """Words by descending count. Words of equal count are in the order of their UTF-8 bytes."""

    words: list[str]
    counts: Counts
    """(words,)"""

    @classmethod
    def of(cls, corpus: _core.Corpus, min_count: int, max_words: int | None) -> Vocabulary:
        """Return the ``max_words`` most frequent words that occur at least ``min_count`` times.

        >>> from trellis.embeddings import sources
        >>> corpus = sources.read([["a", "rose", "is", "a", "rose"], ["a", "dog"]], 1)
        >>> words, counts = Vocabulary.of(corpus, 1, 3)
        >>> words, counts.tolist()
        (['a', 'rose', 'dog'], [3, 2, 1])
        """
        letters, ends, counts, _ = corpus.common_words(min_count, max_words or 0)  # 0: no limit
        if not len(counts):
            raise InputError(
                f"min_count is {min_count}: no word occurs {min_count} times; "
                "choose a smaller min_count, or more text"
            )
        return cls(unpack_strings(letters.view(np.uint8), ends, "the text"), counts)

    def joined(self, new: Vocabulary, min_count: int) -> Vocabulary:
        """Return the union with the vocabulary ``new``.

        A word that is in both has the sum of its counts. Words of ``new`` that are not in this
        vocabulary must occur at least ``min_count`` times.
        """
        index = {word: i for i, word in enumerate(self.words)}
        words, counts = list(self.words), self.counts.tolist()
        for word, count in zip(new.words, new.counts.tolist(), strict=True):
            if word in index:
                counts[index[word]] += count
            elif count >= min_count:
                words.append(word)
                counts.append(count)
        # The same order as in `_core.Corpus.common_words`: the core needs descending counts.
        order = sorted(range(len(words)), key=lambda i: (-counts[i], words[i].encode()))
        return Vocabulary([words[i] for i in order], np.array([counts[i] for i in order], np.int64))

    def with_pretrained(self, vectors: Vectors | None, dim: int) -> Vocabulary:
        """Return the union with the words of pretrained vectors.

        The count of each of these words grows by one, as in fastText.
        """
        if vectors is None:
            return self
        if vectors.dim != dim:
            raise InputError(
                f"pretrained has {vectors.dim} dimensions: must have {dim}, as the model"
            )
        return self.joined(Vocabulary(vectors.words, np.ones(len(vectors), np.int64)), 1)

    def copy_pretrained(self, vectors: Vectors | None, rows: NDArray[np.float32]) -> None:
        """Copy the pretrained vectors of this vocabulary's words into their rows of a table."""
        if vectors is not None:
            source_rows = np.array([vectors.index.get(word, -1) for word in self.words])
            known_words = np.flatnonzero(source_rows >= 0)
            rows[known_words, : vectors.dim] = vectors.matrix[source_rows[known_words]]

    def number(self, corpus: _core.Corpus) -> None:
        """Number the words of a corpus as in this vocabulary; -1 for unknown words."""
        letters, ends, _, types = corpus.common_words(0, 0)
        index = {word: i for i, word in enumerate(self.words)}
        numbers = np.empty(corpus.types, np.int32)
        for begin in range(0, len(types), _STRINGS):
            part_ends = ends[begin : begin + _STRINGS + 1]
            part_letters = letters[part_ends[0] : part_ends[-1]].view(np.uint8)
            names = unpack_strings(part_letters, part_ends - part_ends[0], "the text")
            numbers[types[begin : begin + _STRINGS]] = [index.get(name, -1) for name in names]
        corpus.number(numbers)
