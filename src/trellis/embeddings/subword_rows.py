"""v(word) = mean or sum of the rows of the word and of its n-grams, in the layout of fastText.

The rows of words come first, then the rows of buckets. A hash assigns each n-gram to a bucket. A
pruned file has only some of the buckets. A word outside the vocabulary has only the rows of its
n-grams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.formats.fasttext import FastTextFile
from trellis.formats.quantization import QuantizedMatrix

__all__ = ["SubwordRows"]

# These two constants limit temporary memory:
_NUMBERS = 1 << 22  # number of floats that are copied at a time
_IDS = 1 << 20  # estimated number of n-grams in one batch of words

Ids = NDArray[np.int64]


class SubwordRows:
    """The input rows of each word of a file. Words are bytes, as in the file.

    ``combine`` is "mean" or "sum": how the rows of a word become its vector.

    >>> from trellis.formats.fasttext import Args
    >>> rows = np.array([[1.0, 0.0], [0.0, 2.0], [4.0, 4.0]], np.float32)
    >>> args = Args(dim=2, minn=3, maxn=3, bucket=1)
    >>> file = FastTextFile(args, [b"a", b"b"], np.array([2, 1]), [], np.array([]), 3, rows, rows)
    >>> SubwordRows(file).vectors([b"a", b"c"])
    array([[2.5, 2. ],
           [4. , 4. ]], dtype=float32)
    """

    def __init__(self, file: FastTextFile, combine: str = "mean") -> None:
        self.file, self.combine = file, combine
        self.index = {word: row for row, word in enumerate(file.words)}
        # (bucket, row) pairs of a pruned file, by ascending bucket; None if all buckets have rows.
        self._buckets: NDArray[np.int32] | None = None
        if file.prune is not None:
            self._buckets = file.prune[np.argsort(file.prune[:, 0])]

    def ids(self, words: Sequence[bytes]) -> tuple[Ids, Ids]:
        """Return ``(begin, ids)``: the rows of word i are ``ids[begin[i] : begin[i + 1]]``."""
        word_rows = np.array([self.index.get(word, -1) for word in words], np.int64)
        known_words = np.flatnonzero(word_rows >= 0)
        args = self.file.args
        if args.maxn == 0 or args.bucket == 0 or not len(words):
            return _offsets((word_rows >= 0).astype(np.int64)), word_rows[known_words]
        begin, buckets = _core.subword_ids(list(words), args.minn, args.maxn, args.bucket)
        ngram_words = np.repeat(np.arange(len(words)), np.diff(begin))
        rows, has_row = self.bucket_rows(buckets)
        words_of_rows = np.concatenate([known_words, ngram_words[has_row]])
        # A stable sort leaves the row of the word before the rows of its n-grams, as in fastText.
        # The order of a sum changes its last bits.
        order = np.argsort(words_of_rows, kind="stable")
        ids = np.concatenate([word_rows[known_words], rows])[order]
        return _offsets(np.bincount(words_of_rows, minlength=len(words))), ids

    def vectors(self, words: Sequence[bytes]) -> NDArray[np.float32]:
        """Return the vector of each word, (words, dim); zero if it has no rows."""
        result = np.zeros((len(words), self.file.args.dim), np.float32)
        for first, batch in self._batches(words):
            begin, ids = self.ids(batch)
            result[first : first + len(batch)] = self.combined(begin, ids)
        return result

    def rows(self, ids: Ids) -> NDArray[np.float32]:
        """Return rows of the input matrix as floats, (ids, dim)."""
        matrix = self.file.input
        return matrix.rows(ids) if isinstance(matrix, QuantizedMatrix) else matrix[ids]

    def bucket_rows(self, buckets: NDArray[np.int32]) -> tuple[Ids, NDArray[np.bool_]]:
        """Return the rows of the buckets that have a row, and the mask of these buckets."""
        n_words = len(self.file.words)
        if self._buckets is None:
            return n_words + buckets.astype(np.int64), np.ones(len(buckets), np.bool_)
        if not len(self._buckets):
            return np.empty(0, np.int64), np.zeros(len(buckets), np.bool_)
        position = np.searchsorted(self._buckets[:, 0], buckets).clip(max=len(self._buckets) - 1)
        has_row = self._buckets[position, 0] == buckets
        return n_words + self._buckets[position[has_row], 1].astype(np.int64), has_row

    def bucket_table(self) -> NDArray[np.int32] | None:
        """Return the row of each bucket, -1 if it has none; None if the file is not pruned."""
        if self._buckets is None:
            return None
        rows = np.full(self.file.args.bucket, -1, np.int32)
        rows[self._buckets[:, 0]] = len(self.file.words) + self._buckets[:, 1]
        return rows

    def _batches(self, words: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
        """Yield the first index and the words of each batch; batches have about `_IDS` n-grams."""
        n_lengths = max(1, self.file.args.maxn - max(self.file.args.minn, 1) + 1)
        first = size = 0
        for i, word in enumerate(words):
            size += (len(word) + 2) * n_lengths  # "<" and ">" are added to a word
            if size > _IDS or i - first >= _IDS:
                yield first, words[first : i + 1]
                first, size = i + 1, 0
        if first < len(words):
            yield first, words[first:]

    def combined(self, begin: Ids, ids: Ids) -> NDArray[np.float32]:
        """Return the vector of rows ``ids[begin[i] : begin[i + 1]]`` of each word i, or zero."""
        counts = np.diff(begin)
        begin = begin[:-1][counts > 0]
        sums = np.zeros((len(begin), self.file.args.dim), np.float32)
        batch_size = max(1, _NUMBERS // self.file.args.dim)
        # The rows of a word can lie in several batches, so their partial sums are added.
        for start in range(0, len(ids), batch_size):
            rows = self.rows(ids[start : start + batch_size])
            first = int(np.searchsorted(begin, start, "right")) - 1
            last = int(np.searchsorted(begin, start + len(rows)))
            offsets = np.maximum(begin[first:last], start) - start
            with np.errstate(over="ignore", invalid="ignore"):  # a damaged file can overflow
                sums[first:last] += np.add.reduceat(rows, offsets)
        result = np.zeros((len(counts), self.file.args.dim), np.float32)
        if self.combine == "mean":
            sums /= counts[counts > 0, None].astype(np.float32)
        result[counts > 0] = sums
        return result


def _offsets(counts: Ids) -> Ids:
    """Return 0 and the cumulative sums of the counts."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
