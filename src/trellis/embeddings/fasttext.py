"""fastText: the vector of a word is the mean or sum of its row and the rows of its n-grams."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.embeddings.model import RowTable, Table
from trellis.embeddings.subword_rows import SubwordRows
from trellis.embeddings.training import FILE_LOSSES
from trellis.embeddings.vectors import Vectors
from trellis.embeddings.word2vec import Word2Vec
from trellis.errors import InputError, UnknownWordError
from trellis.estimator import names_arguments
from trellis.formats import fasttext as files
from trellis.formats.native import Tensors
from trellis.formats.parts import Parts, read_strings, store_strings
from trellis.formats.quantization import QuantizedMatrix
from trellis.native import resolve_jobs

__all__ = ["SUBWORD_RANGES", "FastText", "as_bytes"]

SUBWORD_RANGES: dict[str, tuple[int, float]] = {
    "minn": (0, 64),
    "maxn": (0, 64),
    "bucket": (0, 2**31 - 2**25),  # row numbers are int32, and words need up to 2^25 of them
}
"""Smallest and largest values of the parameters of n-grams."""

_NO_COUNTS = np.zeros(0, np.int64)
# Lookup tables of each model, with the array from which they were computed. They are not
# attributes of the model, because copies and pickles of the model would then be larger.
_LOOKUPS: WeakKeyDictionary[FastText, tuple[Any, SubwordRows]] = WeakKeyDictionary()
_INDEXES: WeakKeyDictionary[FastText, tuple[Any, dict[str, int]]] = WeakKeyDictionary()


class FastText(Word2Vec):
    """Word embeddings with character n-grams: unseen words get a vector from their n-grams.

    v(word) = mean (or sum) of V[word] and all V[g]; g is an n-gram of ``<word>``, minn ≤ |g| ≤ maxn

    The training is otherwise that of `Word2Vec`. Models can be loaded from fastText's files
    and saved to them (``.bin``).

    >>> text = [["the", "cat", "purrs"], ["the", "dog", "barks"]] * 50
    >>> model = FastText(8, min_count=1, bucket=1000, n_jobs=1, random_state=0).fit(text)
    >>> model.vector("cats").shape  # not in the text
    (8,)

    Parameters
    ----------
    minn, maxn
        Lengths of the shortest and longest n-grams; ``maxn=0`` means no n-grams.
    bucket
        Number of rows for n-grams.
    ngrams
        "hashed", as in fastText: a hash assigns each n-gram to one of ``bucket`` rows.
        "dictionary": the ``bucket`` most frequent n-grams that occur at least ``min_count`` times
        have one row each. The other n-grams have no row.
    combine
        "mean", as in fastText, or "sum", as in the paper (Bojanowski et al., 2017). The gradient of
        a sum is added to each of its rows, so a step moves a sum of n rows n times as far as each
        row: use a smaller ``alpha``. fastText's files can only store means.

    The other parameters are those of `Word2Vec`.

    """

    kind: ClassVar[str] = "fasttext"
    added_parameters = frozenset({"combine"})

    minn: int
    maxn: int
    bucket: int
    ngrams: str
    combine: str

    ngrams_: list[str]
    """The n-grams of the dictionary, most frequent first."""

    _INTEGERS: ClassVar[dict[str, tuple[int, float]]] = {**Word2Vec._INTEGERS, **SUBWORD_RANGES}
    _CHOICES: ClassVar[dict[str, Iterable[str]]] = {
        **Word2Vec._CHOICES,
        "ngrams": ("hashed", "dictionary"),
        "combine": ("mean", "sum"),
    }

    @names_arguments
    def __init__(
        self,
        vector_size: int = 100,
        *,
        window: int = 5,
        architecture: str = "skipgram",
        loss: str = "negative",
        negatives: int = 5,
        exponent: float = 0.75,
        shared_negatives: bool = True,
        sample: float = 1e-3,
        min_count: int = 5,
        max_vocabulary: int | None = None,
        alpha: float | None = None,
        min_alpha: float | None = 1e-4,
        epochs: int = 5,
        shrink_windows: bool = True,
        minn: int = 3,
        maxn: int = 6,
        bucket: int = 2_000_000,
        ngrams: str = "hashed",
        combine: str = "mean",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self._store_parameters(locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.maxn > 0 and self.minn > self.maxn:
            raise InputError(
                f"minn is {self.minn} and maxn is {self.maxn}: minn must be at most maxn"
            )
        if self.maxn > 0 and self.bucket == 0:
            raise InputError(
                "bucket is 0: must be at least 1, because n-grams need rows; or pass maxn=0"
            )

    # ---- training

    def fit(self, source: Any, **options: Any) -> Self:
        """See `Word2Vec.fit`."""
        if hasattr(self, "ngrams_"):
            del self.ngrams_  # `_dictionary_rows` learns the n-grams of the new text
        return super().fit(source, **options)

    def partial_fit(self, source: Any, **options: Any) -> Self:
        """See `Word2Vec.partial_fit`; n-grams keep their rows."""
        if isinstance(getattr(self, "_input", None), QuantizedMatrix):
            raise InputError("a quantised model cannot be trained")
        return super().partial_fit(source, **options)

    def _make_row_table(self) -> RowTable:
        n_words = len(self.words_)
        if self.maxn == 0:
            return RowTable(None, None, n_words)
        if self.ngrams == "hashed":
            begin, ids = _core.subword_ids(as_bytes(self.words_), self.minn, self.maxn, self.bucket)
            n_ngrams = self.bucket
        else:
            begin, ids = self._dictionary_rows()
            n_ngrams = len(self.ngrams_)
        return RowTable(*_insert_word_rows(begin, ids, n_words), n_words + n_ngrams)

    def _sums_rows(self) -> bool:
        return self.combine == "sum"

    def _dictionary_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the numbers of the n-grams of each word as ``(begin, ids)``, as in `RowTable`."""
        ngrams_of_words = [self._ngrams_of(word) for word in self.words_]
        if not hasattr(self, "ngrams_"):
            counts: Counter[str] = Counter()
            for word_ngrams, count in zip(ngrams_of_words, self.counts_.tolist(), strict=True):
                for ngram in word_ngrams:
                    counts[ngram] += count
            # N-grams of equal count are sorted by name: the order in a Counter would depend on the
            # order of the words.
            sorted_counts = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            self.ngrams_ = [
                ngram for ngram, count in sorted_counts[: self.bucket] if count >= self.min_count
            ]
        index = self._ngram_index()
        ids = [
            [index[ngram] for ngram in word_ngrams if ngram in index]
            for word_ngrams in ngrams_of_words
        ]
        begin = np.cumsum([0, *map(len, ids)], dtype=np.int64)
        return begin, np.array([i for word_ids in ids for i in word_ids], np.int32)

    def _ngrams_of(self, word: str) -> list[str]:
        return _core.subwords(word, self.minn, self.maxn)

    def _ngram_index(self) -> dict[str, int]:
        """Return the number of each n-gram of the dictionary, from a cache."""
        ngrams, index = _INDEXES.get(self, (None, None))
        if index is None or ngrams is not self.ngrams_:
            index = {ngram: i for i, ngram in enumerate(self.ngrams_)}
            _INDEXES[self] = self.ngrams_, index
        return index

    # ---- vectors

    def vector(self, word: str) -> NDArray[np.float32]:
        """Return the vector of any word; zero if neither the word nor its n-grams have a row."""
        self._check_fitted()
        if not isinstance(word, str):
            raise InputError(f"word is {type(word).__name__}: must be a str")
        if self.ngrams == "hashed":
            hashed_vector: NDArray[np.float32] = self._subword_rows().vectors(as_bytes([word]))[0]
            return hashed_vector
        rows = self._rows_of(word)
        if not len(rows):
            return np.zeros(self.vector_size, np.float32)
        vector: NDArray[np.float32] = self._combine(rows)
        return vector

    def ngram_vectors(self, ngrams: Iterable[str] | None = None) -> Vectors:
        """Return the rows of n-grams as `Vectors`, for example to find n-grams with similar use.

        ``ngrams`` are n-grams such as ``"<un"`` and ``"ing>"``, by default those of all words of
        the vocabulary. With ``ngrams="hashed"``, n-grams that share a bucket have the same row;
        with "dictionary", n-grams without a row are left out.

        >>> text = [["the", "cat", "purrs"], ["the", "dog", "barks"]] * 50
        >>> model = FastText(8, min_count=1, bucket=1000, n_jobs=1, random_state=0).fit(text)
        >>> grams = model.ngram_vectors()
        >>> grams.words[:4], len(grams.nearest("<th", k=3))
        (['<th', '<the', '<the>', 'the'], 3)
        """
        self._check_fitted()
        if ngrams is None:
            ngrams = (ngram for word in self.words_ for ngram in self._ngrams_of(word))
        elif isinstance(ngrams, str):
            raise InputError(f"ngrams is the str {ngrams!r}: must be a list of n-grams")
        names = list(dict.fromkeys(ngrams))
        if self.ngrams == "dictionary":
            index = self._ngram_index()
            names = [name for name in names if name in index]
            rows = np.array([index[name] for name in names], np.int64)
        else:
            rows = self._buckets_of(names)
        if not names:
            raise InputError("no n-gram has a row: pass other ngrams, or train with maxn above 0")
        matrix = self.input_[len(self.words_) + rows]
        return Vectors(names, matrix, n_jobs=self.n_jobs)

    def _buckets_of(self, ngrams: list[str]) -> NDArray[np.int64]:
        """Return the bucket of each n-gram; raise InputError if the model has no such n-gram."""
        for ngram in ngrams:
            if not isinstance(ngram, str) or not self.minn <= len(ngram) <= self.maxn:
                raise InputError(
                    f"{ngram!r:.60} is not an n-gram: must be a str of {self.minn} to {self.maxn} "
                    "characters, with < and > for the ends of a word"
                )
        return _core.word_hashes(as_bytes(ngrams)).astype(np.int64) % self.bucket

    def _combine(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the vector of a word or a context from its rows (rows, vector_size)."""
        result: NDArray[Any] = rows.sum(axis=0) if self.combine == "sum" else rows.mean(axis=0)
        return result

    def _rows_of(self, word: str) -> Table:
        """Return the rows of a word and of its n-grams, (rows, vector_size); possibly none."""
        if self.ngrams == "hashed":
            lookup = self._subword_rows()
            return lookup.rows(lookup.ids(as_bytes([word]))[1])
        index, n_words = self._ngram_index(), len(self.words_)
        ids = [n_words + index[ngram] for ngram in self._ngrams_of(word) if ngram in index]
        word_row = self.vectors_.index.get(word)
        if word_row is not None:
            ids.append(word_row)
        return self.input_[ids]

    def _hidden(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return the hidden vector h of a context, as in training.

        With CBOW and ``combine="mean"``, h is the mean of the rows of all words together. Otherwise
        it is the mean of the vectors of the words.
        """
        groups = [self._rows_of(word).astype(np.float64) for word in words]
        for word, rows in zip(words, groups, strict=True):
            if not len(rows):
                raise UnknownWordError(f"{word!r} has no vector: the model knows no part of it")
        if self.architecture == "cbow" and self.combine == "mean":
            groups = [np.concatenate(groups)]
        hidden: NDArray[np.float64] = np.mean([self._combine(rows) for rows in groups], axis=0)
        return hidden

    def _make_vectors(self) -> Vectors:
        if not isinstance(self._input, QuantizedMatrix) and _is_padded(self._input):
            rows = self._make_row_table()
            matrix = np.empty((len(self.words_), self.vector_size), np.float32)
            begin = np.arange(len(matrix) + 1) if rows.begin is None else rows.begin
            ids = np.arange(len(matrix), dtype=np.int32) if rows.row is None else rows.row
            _core.row_means(self._input, begin, ids, matrix, resolve_jobs(self.n_jobs))
            if self.combine == "sum":
                matrix *= np.diff(begin)[:, None].astype(np.float32)
        elif self.ngrams == "hashed":
            matrix = self._subword_rows().vectors(as_bytes(self.words_))
        else:
            matrix = np.stack(
                [self._combine(self.input_[ids]) for ids in _split_by_word(self._make_row_table())]
            )
        return Vectors(self.words_, matrix, unseen=self.vector, n_jobs=self.n_jobs)

    def _subword_rows(self) -> SubwordRows:
        """Return the lookup table of rows, from a cache."""
        table, rows = _LOOKUPS.get(self, (None, None))
        if rows is None or table is not self._input:
            rows = SubwordRows(self._make_file(), self.combine)
            _LOOKUPS[self] = self._input, rows
        return rows

    # ---- files

    def save_fasttext(self, path: str | os.PathLike[str]) -> None:
        """Write the ``.bin`` file of fastText."""
        self._check_fitted()
        files.write(path, self.to_file())

    @classmethod
    def from_file(cls, file: files.FastTextFile) -> Self:
        """Return the model of word vectors that a fastText file contains."""
        args = file.args
        if args.model == "supervised":
            raise InputError("the file contains a text classifier: use TextClassifier.load")
        losses = {file_name: name for name, file_name in FILE_LOSSES.items()}
        # max: a file may contain 0 for an argument that its training did not use.
        model = cls(
            args.dim,
            window=max(1, args.ws),
            architecture="cbow" if args.model == "cbow" else "skipgram",
            loss=losses[args.loss],
            negatives=max(1, args.neg),
            sample=args.t,
            min_count=max(1, args.min_count),
            epochs=max(1, args.epoch),
            minn=args.minn,
            maxn=args.maxn,
            bucket=args.bucket,
        )
        # fastText's words are bytes. With surrogateescape, `as_bytes` restores bytes that are not
        # UTF-8.
        model.words_ = [word.decode("utf-8", "surrogateescape") for word in file.words]
        model.counts_, model.n_tokens_ = np.array(file.counts), file.n_tokens
        model.losses_, model.words_per_second_ = [], 0.0
        model._input, model._output = file.input, file.output
        return model

    def to_file(self) -> files.FastTextFile:
        """Return the content of fastText's file for this model."""
        if self.ngrams != "hashed":
            raise InputError(
                "ngrams is 'dictionary': fastText's files can only store ngrams='hashed'"
            )
        if self.combine != "mean":
            raise InputError(
                "combine is 'sum': fastText's files can only store combine='mean'; "
                "save a .trellis file, or the vectors of the words as .vec"
            )
        return self._make_file()

    def _make_file(self) -> files.FastTextFile:
        """Return the rows in the layout of fastText's file."""
        is_quantized = isinstance(self._input, QuantizedMatrix)
        args = files.Args(
            dim=self.vector_size,
            ws=self.window,
            epoch=self.epochs,
            min_count=self.min_count,
            neg=self.negatives,
            loss=FILE_LOSSES[self.loss],
            model="cbow" if self.architecture == "cbow" else "sg",
            bucket=self.bucket if self.maxn > 0 else 0,
            minn=self.minn if self.maxn > 0 else 0,
            maxn=self.maxn,
            t=self.sample,
        )
        return files.FastTextFile(
            args,
            as_bytes(self.words_),
            self.counts_,
            [],
            _NO_COUNTS,
            self.n_tokens_,
            self._input if is_quantized else self.input_,
            self._output if is_quantized else self.output_,
        )

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of a ``.trellis`` file."""
        meta, tensors = super().to_parts()
        if self.ngrams == "dictionary" and self.maxn > 0:
            store_strings(tensors, "ngrams", self.ngrams_)
        return meta, tensors

    def _read_outputs(self, tensors: Tensors) -> int:
        if "ngrams.bytes" in tensors:
            self.ngrams_ = read_strings(tensors, "ngrams")
        return super()._read_outputs(tensors)


def as_bytes(words: Sequence[str]) -> list[bytes]:
    """Return words as the bytes of a fastText file; bytes that are not UTF-8 are restored."""
    return [word.encode("utf-8", "surrogateescape") for word in words]


def _insert_word_rows(
    begin: NDArray[np.int64], ids: NDArray[np.int32], n_words: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return ``(begin, ids)`` with the row of each word before the rows of its n-grams.

    In the arguments, ``begin`` (words + 1,) and ``ids``, n-grams are numbered from 0. The results
    contain rows of V, where the rows of n-grams follow the rows of all words.
    """
    starts = begin + np.arange(n_words + 1)
    row = np.empty(starts[-1], np.int32)
    is_ngram = np.ones(len(row), np.bool_)
    is_ngram[starts[:-1]] = False
    row[starts[:-1]] = np.arange(n_words)
    row[is_ngram] = ids + n_words
    return starts, row


def _is_padded(rows: Table) -> bool:
    """Return whether the core can read the table: aligned rows, padded to whole cache lines."""
    return rows.shape[1] % 16 == 0 and rows.flags.c_contiguous and rows.flags.aligned


def _split_by_word(rows: RowTable) -> list[NDArray[Any]]:
    """Return the array of row numbers of each word."""
    assert rows.begin is not None
    assert rows.row is not None
    return np.split(rows.row, rows.begin[1:-1])
