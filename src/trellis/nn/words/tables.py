"""Vectors of words from tables: one row per word, or the mean or sum of the rows of its n-grams."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from trellis import _core
from trellis.checks import as_integer, as_positive, one_of
from trellis.embeddings.fasttext import FastText, as_bytes
from trellis.embeddings.vectors import Vectors
from trellis.errors import InputError
from trellis.nn.words.base import WordEncoder

__all__ = ["NGramEmbedding", "WordEmbedding", "as_vectors"]

_PAD, _UNKNOWN, _FIRST = range(3)  # reserved rows of a table of words
_WORD, _GRAM = " ", "#"  # prefixes of words and of n-grams among the entries of an n-gram table
_MAX_GRAM = 64  # characters
_MAX_BUCKETS = 2**31  # row numbers of the native core are 32-bit


class WordEmbedding(WordEncoder):
    """v(word) is the row of the word in a table, or the vector of the unknown word.

    >>> table = WordEmbedding(vectors=Vectors(["red", "blue"], [[1.0, 0.0], [0.0, 1.0]]))
    >>> table.learn({"red": 3})
    >>> table.eval().encode(["blue", "red", "Red"]).tolist()  # Red is looked up as red
    [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]

    A word is looked up unchanged, and if it is not in the table, in lower case; ``lowercase=True``
    always uses lower case. In training, a word that occurs n times is replaced by the unknown word
    with probability a / (a + n), where a is ``unknown_dropout``. This trains the vector of the
    unknown word. ``vectors`` initialises the rows from a `Vectors`; other words of the training
    data start with random vectors.
    """

    table: nn.Embedding
    chance: Tensor
    """Probability that the word of a row is replaced by the unknown word, shape (rows,)."""

    def __init__(
        self,
        dim: int | None = None,
        *,
        vectors: Vectors | None = None,
        unknown_dropout: float = 0.25,
        lowercase: bool = False,
        trainable: bool = True,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        if vectors is not None and not isinstance(vectors, Vectors):
            raise InputError(f"vectors must be Vectors, not {type(vectors).__name__}")
        self.dim = _choose_dim(dim, None if vectors is None else vectors.dim, "vectors")
        if not 0 <= unknown_dropout < np.inf:
            raise InputError(f"unknown_dropout must be at least 0, not {unknown_dropout!r}")
        self.vectors, self.unknown_dropout = vectors, float(unknown_dropout)
        self.lowercase, self.trainable, self.sparse = lowercase, trainable, sparse
        self.restore([[]])

    def learn(self, counts: Mapping[str, int]) -> None:
        """Create a row for each word of the vectors, then of the training data."""
        totals: dict[str, int] = {}
        for word, count in counts.items():
            key = word.lower() if self.lowercase else word
            totals[key] = totals.get(key, 0) + count
        pretrained = [] if self.vectors is None else self.vectors.words
        pretrained_words = set(pretrained)
        self.restore([[*pretrained, *(word for word in totals if word not in pretrained_words)]])
        with torch.no_grad():
            if self.vectors is not None:
                self._copy_vectors(np.array(self.vectors.matrix, dtype=np.float32))
            n = torch.tensor([0.0] * _FIRST + [totals.get(word, 0) for word in self.words])
            a = self.unknown_dropout
            self.chance.copy_(torch.where(n > 0, a / (a + n), 0.0))
        self.vectors = None  # the table has a copy, so the vectors can be freed

    def _copy_vectors(self, rows: NDArray[np.float32]) -> None:
        """Copy vectors (n, dim) to the rows of the first n words.

        Another word gets a copy of the vector of its lower-case form, if there is one.
        """
        weight, end = self.table.weight, _FIRST + len(rows)
        weight[_FIRST:end] = torch.from_numpy(rows)
        for n, word in enumerate(self.words[len(rows) :], end):
            lower_row = self.index.get(word.lower(), n)
            if lower_row < end:
                weight[n] = weight[lower_row]

    def vocabularies(self) -> list[list[str]]:
        """Return the words of the rows."""
        return [self.words]

    def restore(self, vocabularies: Sequence[list[str]]) -> None:
        """Create a table for these words, with random rows."""
        (self.words,) = vocabularies
        self.index = {word: _FIRST + n for n, word in enumerate(self.words)}
        if len(self.index) < len(self.words):
            repeated = next(w for n, w in enumerate(self.words) if self.index[w] != _FIRST + n)
            raise InputError(f"the vocabulary has {repeated!r} twice: words must be distinct")
        n_rows = _FIRST + len(self.words)
        self.table = nn.Embedding(n_rows, self.dim, padding_idx=_PAD, sparse=self.sparse)
        self.table.weight.requires_grad_(self.trainable)
        self.unknown = nn.Parameter(torch.zeros(self.dim))
        self.register_buffer("chance", torch.zeros(n_rows), persistent=False)
        with torch.no_grad():
            bound = (3.0 / self.dim) ** 0.5
            self.table.weight[_FIRST:].uniform_(-bound, bound)
            self.table.weight[_UNKNOWN] = 0.0

    def rows(self, words: Sequence[str]) -> tuple[Tensor]:
        """Return the row number of each word, shape (words, 1)."""
        get_row = self.index.get
        ids = [
            (None if self.lowercase else get_row(word)) or get_row(word.lower(), _UNKNOWN)
            for word in words
        ]
        return (torch.tensor(ids, dtype=torch.int64).reshape(-1, 1),)

    def forward(self, rows: Tensor) -> Tensor:
        """Return vectors (words, dim) of row numbers (words, 1)."""
        ids = rows[:, 0]
        is_unknown = ids == _UNKNOWN
        if self.training and self.unknown_dropout > 0:
            is_unknown = is_unknown | (torch.rand(len(ids), device=ids.device) < self.chance[ids])
        vectors = functional.embedding(ids, self.table.weight, sparse=self.sparse)
        return torch.where(is_unknown[:, None], self.unknown, vectors)


class NGramEmbedding(WordEncoder):
    """v(word) = mean or sum of the rows of its character n-grams, minn ≤ n ≤ maxn, as in fastText.

    >>> grams = NGramEmbedding(4, minn=2, maxn=3, bucket=50)
    >>> grams.learn({"walk": 2, "walked": 1})
    >>> grams.encode(["walking", "walk"]).shape  # any word has n-grams
    torch.Size([2, 4])

    With ``ngrams="hashed"``, the hash of an n-gram selects one of ``bucket`` rows. With
    "dictionary", the ``bucket`` most frequent n-grams of the training data have one row each.
    ``combine`` is "mean" or "sum". ``from_fasttext`` copies the settings and rows of a
    `trellis.FastText`. Such a model also has a row for each of its words, which is part of the mean
    or sum.
    """

    def __init__(
        self,
        dim: int | None = None,
        *,
        minn: int = 3,
        maxn: int = 6,
        bucket: int = 50_000,
        ngrams: str = "hashed",
        combine: str = "mean",
        from_fasttext: FastText | None = None,
        trainable: bool = True,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        if ngrams not in ("hashed", "dictionary"):
            raise InputError(f"ngrams must be hashed or dictionary, not {ngrams!r}")
        one_of(combine, ("mean", "sum"), "combine")
        self.source = from_fasttext
        if from_fasttext is not None:
            if not isinstance(from_fasttext, FastText):
                raise InputError(f"from_fasttext must be a FastText, not {from_fasttext!r:.60}")
            minn, maxn = from_fasttext.minn, from_fasttext.maxn
            bucket, ngrams = from_fasttext.bucket, from_fasttext.ngrams
            combine = from_fasttext.combine
        self.dim = _choose_dim(dim, getattr(from_fasttext, "vector_size", None), "from_fasttext")
        self.minn, self.maxn, self.bucket = (
            as_integer(value, name)
            for name, value in (("minn", minn), ("maxn", maxn), ("bucket", bucket))
        )
        in_range = 1 <= self.minn <= self.maxn <= _MAX_GRAM
        if not in_range or not 1 <= self.bucket < _MAX_BUCKETS:
            raise InputError(
                f"minn={minn}, maxn={maxn}, bucket={bucket}: "
                f"must be 1 ≤ minn ≤ maxn ≤ {_MAX_GRAM} and 1 ≤ bucket < {_MAX_BUCKETS}"
            )
        self.ngrams, self.combine = ngrams, combine
        self.trainable, self.sparse = trainable, sparse
        self.restore([[]])

    def learn(self, counts: Mapping[str, int]) -> None:
        """Create rows for the n-grams of the training data, or copy the rows of a FastText."""
        if self.source is not None:
            self._copy_rows(self.source)
        elif self.ngrams == "hashed":
            self.restore([[]])
        else:
            totals: Counter[str] = Counter()
            for word, count in counts.items():
                for gram in self._split(word):
                    totals[gram] += count
            by_count = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
            self.restore([[_GRAM + gram for gram, _ in by_count[: self.bucket]]])

    def _copy_rows(self, model: FastText) -> None:
        rows = np.asarray(model.input_, dtype=np.float32)
        words = [_WORD + word for word in model.words_]
        grams = [_GRAM + gram for gram in model.ngrams_] if self.ngrams == "dictionary" else []
        self.restore([words + grams])
        with torch.no_grad():
            self.table.weight[1:] = torch.from_numpy(rows[: self.table.num_embeddings - 1])
        self.source = None  # the table has a copy, so the model can be freed

    def vocabularies(self) -> list[list[str]]:
        """Return the words (prefix: a space) and n-grams (prefix: #) that have their own row."""
        return [self.entries]

    def restore(self, vocabularies: Sequence[list[str]]) -> None:
        """Create a table for these words and n-grams, and for the hash buckets of all others."""
        (self.entries,) = vocabularies
        if any(entry[:1] not in (_WORD, _GRAM) for entry in self.entries):
            raise InputError("each entry of the n-gram vocabulary must start with a space or #")
        self.index = {entry: 1 + n for n, entry in enumerate(self.entries)}
        if len(self.index) < len(self.entries):
            raise InputError("the n-gram vocabulary has an entry twice: entries must be distinct")
        n_rows = 1 + len(self.entries) + (self.bucket if self.ngrams == "hashed" else 0)
        self.table = nn.EmbeddingBag(
            n_rows, self.dim, padding_idx=_PAD, mode=self.combine, sparse=self.sparse
        )
        self.table.weight.requires_grad_(self.trainable)
        with torch.no_grad():
            bound = (3.0 / self.dim) ** 0.5
            self.table.weight[1:].uniform_(-bound, bound)

    def ngram_vectors(self, ngrams: Sequence[str] | None = None) -> Vectors:
        """Return the rows of n-grams as `Vectors`, to find n-grams with similar rows.

        By default these are all n-grams of the dictionary. Hashed n-grams must be listed, and those
        that share a bucket have the same row; n-grams without a row are left out.

        >>> grams = NGramEmbedding(4, minn=2, maxn=3, ngrams="dictionary")
        >>> grams.learn({"walk": 2, "walked": 1})
        >>> grams.ngram_vectors().words[:3], len(grams.ngram_vectors(["<w", "no"]))
        (['<w', '<wa', 'al'], 1)
        """
        if isinstance(ngrams, str):
            raise InputError(f"ngrams is the str {ngrams!r}: must be a list of n-grams")
        if ngrams is None:
            ngrams = [entry[1:] for entry in self.entries if entry[0] == _GRAM]
        names = list(dict.fromkeys(ngrams))
        if self.ngrams == "hashed":
            hashes = _core.word_hashes(as_bytes(names)).astype(np.int64)
            rows = 1 + len(self.entries) + hashes % self.bucket
        else:
            names = [name for name in names if _GRAM + name in self.index]
            rows = np.array([self.index[_GRAM + name] for name in names], np.int64)
        if not names:
            raise InputError("no n-gram has a row: call learn, or list the n-grams")
        return Vectors(names, self.table.weight.detach().cpu().numpy()[rows])

    def _split(self, word: str) -> list[str]:
        """Return the n-grams of a word."""
        return _core.subwords(word, self.minn, self.maxn)

    def rows(self, words: Sequence[str]) -> tuple[Tensor]:
        """Return the row numbers of each word and its n-grams, shape (words, most n-grams)."""
        word_rows = [self.index.get(_WORD + word) for word in words]
        if self.ngrams == "hashed":
            begin, ids = _core.subword_ids(as_bytes(words), self.minn, self.maxn, self.bucket)
            first_bucket = 1 + len(self.entries)
            gram_rows = [
                first_bucket + ngram_ids
                for ngram_ids in np.split(ids.astype(np.int64), begin[1:-1])
            ]
        else:
            get_row = self.index.get
            gram_rows = [
                np.array(
                    [row_id for gram in self._split(w) if (row_id := get_row(_GRAM + gram))],
                    np.int64,
                )
                for w in words
            ]
        sizes = [
            len(grams) + (row is not None) for grams, row in zip(gram_rows, word_rows, strict=True)
        ]
        table = np.zeros((len(words), max(sizes, default=1) or 1), np.int64)
        for table_row, grams, word_row in zip(table, gram_rows, word_rows, strict=True):
            table_row[: len(grams)] = grams
            if word_row is not None:
                table_row[len(grams)] = word_row
        return (torch.from_numpy(table),)

    def forward(self, rows: Tensor) -> Tensor:
        """Return vectors (words, dim) of row numbers (words, most n-grams)."""
        vectors: Tensor = self.table(rows)
        return vectors


def _choose_dim(dim: int | None, source_dim: int | None, source: str) -> int:
    """Return ``dim``, or the dimension of the source. If both are set, they must be equal."""
    if dim is None and source_dim is None:
        raise InputError(f"dim and {source} are both None: set one of them")
    if dim is not None and source_dim is not None and dim != source_dim:
        raise InputError(f"dim is {dim}, but {source} has dimension {source_dim}")
    return as_positive(source_dim if dim is None else dim, "dim")


def as_vectors(vectors: Any) -> Vectors | None:
    """Return the `Vectors`, read from a file if the argument is a path."""
    if vectors is None or isinstance(vectors, Vectors):
        return vectors
    return Vectors.load(vectors)
