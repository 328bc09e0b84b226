"""v(word) = mean of the rows of the word and of its character n-grams, in a fastText file.

Rows are the words', then the buckets', of which a pruned file has kept some; a word that is not in
the vocabulary has its n-grams' rows alone.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.formats.fasttext import FastTextFile
from trellis.formats.quantization import QuantizedMatrix

__all__ = ["SubwordRows"]

_NUMBERS = 1 << 22  # gathered at a time
_IDS = 1 << 20  # estimated, of one batch of words

Ids = NDArray[np.int64]


class SubwordRows:
    """The input rows of a file by word. Words are bytes, as they are in the file.

    >>> from trellis.formats.fasttext import Args
    >>> rows = np.array([[1.0, 0.0], [0.0, 2.0], [4.0, 4.0]], np.float32)
    >>> args = Args(dim=2, minn=3, maxn=3, bucket=1)
    >>> file = FastTextFile(args, [b"a", b"b"], np.array([2, 1]), [], np.array([]), 3, rows, rows)
    >>> SubwordRows(file).vectors([b"a", b"c"])
    array([[2.5, 2. ],
           [4. , 4. ]], dtype=float32)
    """

    def __init__(self, file: FastTextFile) -> None:
        self.file = file
        self.index = {word: row for row, word in enumerate(file.words)}
        self._kept: NDArray[np.int32] | None = None
        if file.prune is not None:
            self._kept = file.prune[np.argsort(file.prune[:, 0])]

    def ids(self, words: Sequence[bytes]) -> tuple[Ids, Ids]:
        """``(begin, ids)``: the rows of word i are ``ids[begin[i] : begin[i + 1]]``."""
        own = np.array([self.index.get(word, -1) for word in words], np.int64)
        args = self.file.args
        if args.maxn == 0 or args.bucket == 0 or not len(words):
            return _begins((own >= 0).astype(np.int64)), own[own >= 0]
        begin, buckets = _core.subword_ids(list(words), args.minn, args.maxn, args.bucket)
        owner = np.repeat(np.arange(len(words)), np.diff(begin))
        rows, found = self.bucket_rows(buckets)
        owners = np.concatenate([np.flatnonzero(own >= 0), owner[found]])
        order = np.argsort(owners, kind="stable")  # a word's own row first
        ids = np.concatenate([own[own >= 0], rows])[order]
        return _begins(np.bincount(owners, minlength=len(words))), ids

    def vectors(self, words: Sequence[bytes]) -> NDArray[np.float32]:
        """The vector of each word; zero if none of its rows is there."""
        result = np.zeros((len(words), self.file.args.dim), np.float32)
        for first, batch in self._batches(words):
            begin, ids = self.ids(batch)
            result[first : first + len(batch)] = self.means(begin, ids)
        return result

    def rows(self, ids: Ids) -> NDArray[np.float32]:
        """Rows of the input matrix as floats."""
        matrix = self.file.input
        return matrix.rows(ids) if isinstance(matrix, QuantizedMatrix) else matrix[ids]

    def bucket_rows(self, buckets: NDArray[np.int32]) -> tuple[Ids, NDArray[np.bool_]]:
        """Rows of those buckets that have one, and which have."""
        words = len(self.file.words)
        if self._kept is None:
            return words + buckets.astype(np.int64), np.ones(len(buckets), np.bool_)
        if not len(self._kept):
            return np.empty(0, np.int64), np.zeros(len(buckets), np.bool_)
        place = np.searchsorted(self._kept[:, 0], buckets).clip(max=len(self._kept) - 1)
        found = self._kept[place, 0] == buckets
        return words + self._kept[place[found], 1].astype(np.int64), found

    def bucket_table(self) -> NDArray[np.int32] | None:
        """The row of each bucket of a pruned file, -1 where it has none."""
        if self._kept is None:
            return None
        rows = np.full(self.file.args.bucket, -1, np.int32)
        rows[self._kept[:, 0]] = len(self.file.words) + self._kept[:, 1]
        return rows

    def _batches(self, words: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
        """Words whose n-grams fit the memory, and where each batch begins."""
        kinds = max(1, self.file.args.maxn - max(self.file.args.minn, 1) + 1)
        first = size = 0
        for i, word in enumerate(words):
            size += (len(word) + 2) * kinds
            if size > _IDS or i - first >= _IDS:
                yield first, words[first : i + 1]
                first, size = i + 1, 0
        if first < len(words):
            yield first, words[first:]

    def means(self, begin: Ids, ids: Ids) -> NDArray[np.float32]:
        """The mean of the rows ``ids[begin[i] : begin[i + 1]]`` for each i, zero of none."""
        counts = np.diff(begin)
        begin = begin[:-1][counts > 0]
        sums = np.zeros((len(begin), self.file.args.dim), np.float32)
        step = max(1, _NUMBERS // self.file.args.dim)
        for start in range(0, len(ids), step):
            rows = self.rows(ids[start : start + step])
            first = int(np.searchsorted(begin, start, "right")) - 1
            last = int(np.searchsorted(begin, start + len(rows)))
            cuts = np.maximum(begin[first:last], start) - start
            with np.errstate(over="ignore", invalid="ignore"):  # a forged file's
                sums[first:last] += np.add.reduceat(rows, cuts)
        result = np.zeros((len(counts), self.file.args.dim), np.float32)
        result[counts > 0] = sums / counts[counts > 0, None].astype(np.float32)
        return result


def _begins(counts: Ids) -> Ids:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
