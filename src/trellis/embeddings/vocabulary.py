"""The words of a corpus that occur often enough, the commonest first."""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.formats.strings import unpack_strings

if TYPE_CHECKING:
    from trellis.embeddings.vectors import Vectors

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

    def with_pretrained(self, vectors: "Vectors | None", dim: int) -> "Vocabulary":
        """With the words of some vectors, each of which counts once more, as in fastText."""
        if vectors is None:
            return self
        if vectors.dim != dim:
            raise InputError(f"pretrained vectors have {vectors.dim} dimensions, the model {dim}")
        return self.joined(Vocabulary(vectors.words, np.ones(len(vectors), np.int64)), 1)

    def start_from(self, vectors: "Vectors | None", rows: NDArray[np.float32]) -> None:
        """Let the rows of words that have a vector be that vector."""
        if vectors is not None:
            known = [vectors.index.get(word, -1) for word in self.words]
            found = np.flatnonzero(np.array(known) >= 0)
            rows[found, : vectors.dim] = vectors.matrix[np.array(known)[found]]

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
