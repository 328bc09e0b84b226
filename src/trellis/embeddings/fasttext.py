"""fastText: a word's vector is the mean of its own row and those of its character n-grams."""

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.embeddings.subword_rows import SubwordRows
from trellis.embeddings.training import check_choice, check_number
from trellis.embeddings.vectors import Vectors
from trellis.embeddings.word2vec import RowTable, Table, Word2Vec
from trellis.errors import InputError
from trellis.formats import fasttext as files
from trellis.formats import native
from trellis.formats.quantization import QuantizedMatrix
from trellis.native import resolve_jobs

__all__ = ["FastText", "as_bytes"]

FILE_LOSSES = {"negative": "ns", "hierarchical": "hs", "softmax": "softmax"}
_NONE = np.zeros(0, np.int64)
# What unseen words are looked up in, with the table that it was made of; not part of a model, so
# that copies and pickles of one stay small.
_LOOKUPS: "WeakKeyDictionary[FastText, tuple[Any, SubwordRows]]" = WeakKeyDictionary()
_INDEXES: "WeakKeyDictionary[FastText, tuple[Any, dict[str, int]]]" = WeakKeyDictionary()


class FastText(Word2Vec):
    """Word embeddings with character n-grams, which unseen words share with those in the text.

    v(word) = mean of V[word] and V[g], g the n-grams of ``<word>`` with minn to maxn characters

    Training is that of `Word2Vec` but for this. Models go to fastText and come from it (``.bin``).

    >>> text = [["the", "cat", "purrs"], ["the", "dog", "barks"]] * 50
    >>> model = FastText(8, min_count=1, bucket=1000, n_jobs=1, random_state=0).fit(text)
    >>> model.vector("cats").shape  # not in the text
    (8,)

    Parameters
    ----------
    minn, maxn
        The shortest and longest n-grams; ``maxn=0`` has none.
    bucket
        Rows of n-grams.
    ngrams
        "hashed" as in fastText: n-grams share ``bucket`` rows. "dictionary": the ``bucket``
        commonest n-grams that occur ``min_count`` times have a row each, and others have none.

    The others are those of `Word2Vec`.

    """

    ngrams_: list[str]
    """The n-grams of the dictionary, the commonest first."""

    _kind = "fasttext"

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
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            vector_size,
            window=window,
            architecture=architecture,
            loss=loss,
            negatives=negatives,
            exponent=exponent,
            shared_negatives=shared_negatives,
            sample=sample,
            min_count=min_count,
            max_vocabulary=max_vocabulary,
            alpha=alpha,
            min_alpha=min_alpha,
            epochs=epochs,
            shrink_windows=shrink_windows,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.minn = minn
        self.maxn = maxn
        self.bucket = bucket
        self.ngrams = ngrams

    def vector(self, word: str) -> NDArray[np.float32]:
        """The vector of any word; zero if it shares no n-gram with the model."""
        self._fitted()
        if not isinstance(word, str):
            raise InputError(f"word is {type(word).__name__}, not str")
        if self.ngrams == "hashed":
            found: NDArray[np.float32] = self._subwords().vectors(as_bytes([word]))[0]
            return found
        rows = [i for i in (self._gram_index().get(g) for g in self._grams(word)) if i is not None]
        own = self.vectors_.index.get(word)
        ids = [len(self.words_) + i for i in rows] + ([] if own is None else [own])
        vector: NDArray[np.float32] = np.zeros(self.vector_size, np.float32)
        if ids:
            self.input_[ids].mean(axis=0, out=vector)
        return vector

    def save_fasttext(self, path: str | os.PathLike[str]) -> None:
        """Write fastText's own ``.bin`` file."""
        self._fitted()
        files.write(path, self._file())

    @classmethod
    def from_file(cls, file: files.FastTextFile) -> Self:
        """The model of a fastText file of word vectors."""
        args = file.args
        if args.model == "supervised":
            raise InputError("this is a text classifier: TextClassifier.load reads it")
        losses = {theirs: ours for ours, theirs in FILE_LOSSES.items()}
        model = cls(
            args.dim,
            window=max(1, args.ws),
            architecture="cbow" if args.model == "cbow" else "skipgram",
            loss=losses.get(args.loss, "negative"),
            negatives=max(1, args.neg),
            sample=args.t,
            min_count=max(1, args.min_count),
            epochs=max(1, args.epoch),
            minn=args.minn,
            maxn=args.maxn,
            bucket=args.bucket,
        )
        model.words_ = [word.decode("utf-8", "surrogateescape") for word in file.words]
        model.counts_, model.n_tokens_ = np.array(file.counts), file.n_tokens
        model.losses_, model.words_per_second_, model._vectors = [], 0.0, None
        model._input, model._output = file.input, file.output
        return model

    # ---- rows of n-grams

    def _check(self) -> None:
        super()._check()
        check_number(self, "minn", 0, 64)
        check_number(self, "maxn", 0, 64)
        check_number(self, "bucket", 0, 2**31 - 2**25)
        check_choice(self, "ngrams", ("hashed", "dictionary"))
        if self.maxn > 0 and self.minn > self.maxn:
            raise InputError(f"minn is {self.minn} and maxn {self.maxn}: minn must not be larger")
        if self.maxn > 0 and self.bucket == 0:
            raise InputError("bucket is 0: n-grams need rows; maxn=0 has none")
        if isinstance(getattr(self, "_input", None), QuantizedMatrix):
            del self.words_, self._input, self._output  # fit starts anew; see partial_fit

    def partial_fit(self, source: Any, **options: Any) -> Self:
        """As `Word2Vec.partial_fit`; rows of n-grams stay those of their n-grams."""
        if isinstance(getattr(self, "_input", None), QuantizedMatrix):
            raise InputError("a quantised model cannot be trained")
        return super().partial_fit(source, **options)

    def _rows(self) -> RowTable:
        words = len(self.words_)
        if self.maxn == 0:
            return RowTable(None, None, words)
        if self.ngrams == "hashed":
            begin, ids = _core.subword_ids(as_bytes(self.words_), self.minn, self.maxn, self.bucket)
            count = self.bucket
        else:
            begin, ids = self._dictionary_rows()
            count = len(self.ngrams_)
        return RowTable(*_with_own_rows(begin, ids, words), words + count)

    def _dictionary_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        grams = [self._grams(word) for word in self.words_]
        if not hasattr(self, "ngrams_"):
            counts: Counter[str] = Counter()
            for own, count in zip(grams, self.counts_.tolist(), strict=True):
                for gram in own:
                    counts[gram] += count
            common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            self.ngrams_ = [g for g, n in common[: self.bucket] if n >= self.min_count]
        index = self._gram_index()
        found = [[index[g] for g in own if g in index] for own in grams]
        begin = np.concatenate([_NONE[:0], [0], np.cumsum([len(f) for f in found])])
        return begin.astype(np.int64), np.array([i for f in found for i in f], np.int32)

    def _grams(self, word: str) -> list[str]:
        return _core.subwords(word, self.minn, self.maxn) if self.maxn > 0 else []

    def _gram_index(self) -> dict[str, int]:
        made_of, index = _INDEXES.get(self, (None, None))
        if index is None or made_of is not self.ngrams_:
            index = {gram: i for i, gram in enumerate(self.ngrams_)}
            _INDEXES[self] = self.ngrams_, index
        return index

    def fit(self, source: Any, **options: Any) -> Self:
        """As `Word2Vec.fit`."""
        if hasattr(self, "ngrams_"):
            del self.ngrams_
        return super().fit(source, **options)

    # ---- vectors and files

    def _make_vectors(self) -> Vectors:
        if not isinstance(self._input, QuantizedMatrix) and _is_padded(self._input):
            rows = self._rows()
            matrix = np.empty((len(self.words_), self.vector_size), np.float32)
            begin = np.arange(len(matrix) + 1) if rows.begin is None else rows.begin
            ids = np.arange(len(matrix), dtype=np.int32) if rows.row is None else rows.row
            _core.row_means(self._input, begin, ids, matrix, resolve_jobs(self.n_jobs))
        elif self.ngrams == "hashed":
            matrix = self._subwords().vectors(as_bytes(self.words_))
        else:
            matrix = np.stack([self.input_[ids].mean(axis=0) for ids in _split(self._rows())])
        return Vectors(self.words_, matrix, unseen=self.vector, n_jobs=self.n_jobs)

    @property
    def input_(self) -> Table:
        """V: rows of words, then of n-grams; a quantised file's is decoded at each call."""
        self._fitted()
        if isinstance(self._input, QuantizedMatrix):
            return self._input.rows(np.arange(self._input.shape[0]))
        return super().input_

    def _subwords(self) -> SubwordRows:
        made_of, rows = _LOOKUPS.get(self, (None, None))
        if rows is None or made_of is not self._input:
            rows = SubwordRows(self._file())
            _LOOKUPS[self] = self._input, rows
        return rows

    def _file(self) -> files.FastTextFile:
        if self.ngrams != "hashed":
            raise InputError("fastText's files cannot hold ngrams='dictionary'")
        quantized = isinstance(self._input, QuantizedMatrix)
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
            _NONE,
            self.n_tokens_,
            self._input if quantized else self.input_,
            self._output[:, : self.vector_size] if not quantized else self._output,
        )

    def _parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta, tensors = super()._parts()
        if self.ngrams == "dictionary" and self.maxn > 0:
            tensors["ngrams.bytes"], tensors["ngrams.ends"] = native.pack_strings(self.ngrams_)
        return meta, tensors


def as_bytes(words: Sequence[str]) -> list[bytes]:
    """Words as a file has them; bytes that were not UTF-8 come back as they were."""
    return [word.encode("utf-8", "surrogateescape") for word in words]


def _with_own_rows(
    begin: NDArray[np.int64], ids: NDArray[np.int32], words: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """A word's own row, then those of its n-grams, which come after all words'."""
    starts = begin + np.arange(words + 1)
    row = np.empty(starts[-1], np.int32)
    is_gram = np.ones(len(row), np.bool_)
    is_gram[starts[:-1]] = False
    row[starts[:-1]] = np.arange(words)
    row[is_gram] = ids + words
    return starts, row


def _is_padded(rows: Table) -> bool:
    return rows.shape[1] % 16 == 0 and rows.flags.c_contiguous and rows.flags.aligned


def _split(rows: RowTable) -> list[NDArray[Any]]:
    assert rows.begin is not None
    assert rows.row is not None
    return np.split(rows.row, rows.begin[1:-1])
