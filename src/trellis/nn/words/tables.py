"""Words from tables: a vector for each word, or the mean of those of its character n-grams."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from trellis import _core
from trellis.checks import as_integer
from trellis.embeddings.fasttext import FastText, as_bytes
from trellis.embeddings.vectors import Vectors
from trellis.errors import InputError
from trellis.nn.words.base import WordEncoder

__all__ = ["Charagram", "NGramEmbedding", "WordEmbedding", "as_vectors"]

_PAD, _UNKNOWN, _FIRST = range(3)
_WORD, _GRAM = " ", "#"  # what the entries of a table of n-grams begin with


class WordEmbedding(WordEncoder):
    """v(word) = row of the word in a table; of a word that is not in it, that of the unknown word.

    >>> table = WordEmbedding(vectors=Vectors(["red", "blue"], [[1.0, 0.0], [0.0, 1.0]]))
    >>> table.learn({"red": 3})
    >>> table.eval().encode(["blue", "red", "Red"]).tolist()  # of Red it knows the lower case
    [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]

    A word is looked up as it is and, failing that, in lower case; with ``lowercase`` always so. In
    training a word that occurs n times is taken for unknown with probability a / (a + n), where a
    is ``unknown_dropout``: that is how the vector of the unknown word is learned. ``vectors`` begin
    with those of a `Vectors`; other words of the training data get random ones.
    """

    table: nn.Embedding
    chance: Tensor
    """By which the word of each row is taken for unknown."""

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
        self.dim = _width(dim, None if vectors is None else vectors.dim, "vectors")
        if not 0 <= unknown_dropout < np.inf:
            raise InputError(f"unknown_dropout must be at least 0, not {unknown_dropout!r}")
        self.vectors, self.unknown_dropout = vectors, float(unknown_dropout)
        self.lowercase, self.trainable, self.sparse = lowercase, trainable, sparse
        self.restore([[]])

    def learn(self, counts: Mapping[str, int]) -> None:
        """A row for each word of the vectors, then of the training data."""
        own: dict[str, int] = {}
        for word, count in counts.items():
            key = word.lower() if self.lowercase else word
            own[key] = own.get(key, 0) + count
        given = [] if self.vectors is None else self.vectors.words
        known = set(given)
        self.restore([[*given, *(word for word in own if word not in known)]])
        with torch.no_grad():
            if self.vectors is not None:
                self._begin_with(np.array(self.vectors.matrix, dtype=np.float32), len(given))
            n = torch.tensor([0.0] * _FIRST + [own.get(word, 0) for word in self.words])
            a = self.unknown_dropout
            self.chance.copy_(torch.where(n > 0, a / (a + n), 0.0))
        self.vectors = None  # they are in the table now

    def _begin_with(self, rows: NDArray[np.float32], given: int) -> None:
        """Vectors for the first words; others begin with that of their lower case, if there is."""
        weight = self.table.weight
        weight[_FIRST : _FIRST + given] = torch.from_numpy(rows)
        for n, word in enumerate(self.words[given:], _FIRST + given):
            lower = self.index.get(word.lower(), n)
            if lower < _FIRST + given:
                weight[n] = weight[lower]

    def vocabularies(self) -> list[list[str]]:
        """The words of the rows."""
        return [self.words]

    def restore(self, vocabularies: Sequence[list[str]]) -> None:
        """A table for these words."""
        (self.words,) = vocabularies
        self.index = {word: _FIRST + n for n, word in enumerate(self.words)}
        if len(self.index) < len(self.words):
            raise InputError("a word occurs twice in the vocabulary")
        count = _FIRST + len(self.words)
        self.table = nn.Embedding(count, self.dim, padding_idx=_PAD, sparse=self.sparse)
        self.table.weight.requires_grad_(self.trainable)
        self.unknown = nn.Parameter(torch.zeros(self.dim))
        self.register_buffer("chance", torch.zeros(count), persistent=False)
        with torch.no_grad():
            bound = (3.0 / self.dim) ** 0.5
            self.table.weight[_FIRST:].uniform_(-bound, bound)
            self.table.weight[_UNKNOWN] = 0.0

    def rows(self, words: Sequence[str]) -> tuple[Tensor]:
        """The row of each word (words, 1)."""
        find = self.index.get
        ids = [
            (None if self.lowercase else find(word)) or find(word.lower(), _UNKNOWN)
            for word in words
        ]
        return (torch.tensor(ids, dtype=torch.int64).reshape(-1, 1),)

    def forward(self, rows: Tensor) -> Tensor:
        """(words, dim) of rows (words, 1)."""
        ids = rows[:, 0]
        unknown = ids == _UNKNOWN
        if self.training and self.unknown_dropout > 0:
            unknown = unknown | (torch.rand(len(ids), device=ids.device) < self.chance[ids])
        found = functional.embedding(ids, self.table.weight, sparse=self.sparse)
        return torch.where(unknown[:, None], self.unknown, found)


class NGramEmbedding(WordEncoder):
    """v(word) = mean of the rows of its character n-grams, minn to maxn long, as in fastText.

    >>> grams = NGramEmbedding(4, minn=2, maxn=3, bucket=50)
    >>> grams.learn({"walk": 2, "walked": 1})
    >>> grams.encode(["walking", "walk"]).shape  # any word has n-grams
    torch.Size([2, 4])

    With ``ngrams="hashed"`` an n-gram has one of ``bucket`` rows by its hash. With "dictionary" the
    n-grams of the training data have rows of their own, at most ``bucket`` of them, the commonest
    first. ``from_fasttext`` takes up sizes and rows of a `trellis.FastText`, where the words have
    rows too, which then are part of their means.
    """

    def __init__(
        self,
        dim: int | None = None,
        *,
        minn: int = 3,
        maxn: int = 6,
        bucket: int = 50_000,
        ngrams: str = "hashed",
        from_fasttext: FastText | None = None,
        trainable: bool = True,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        if ngrams not in ("hashed", "dictionary"):
            raise InputError(f"ngrams must be hashed or dictionary, not {ngrams!r}")
        self.given = from_fasttext
        if from_fasttext is not None:
            if not isinstance(from_fasttext, FastText):
                raise InputError(f"from_fasttext must be a FastText, not {from_fasttext!r:.60}")
            minn, maxn = from_fasttext.minn, from_fasttext.maxn
            bucket, ngrams = from_fasttext.bucket, from_fasttext.ngrams
        self.dim = _width(dim, getattr(from_fasttext, "vector_size", None), "from_fasttext")
        self.minn, self.maxn, self.bucket = (
            as_integer(value, name)
            for name, value in (("minn", minn), ("maxn", maxn), ("bucket", bucket))
        )
        if not 1 <= self.minn <= self.maxn <= 64 or not 1 <= self.bucket < 2**31:
            raise InputError(
                f"minn={minn}, maxn={maxn}, bucket={bucket}: must be 1 ≤ minn ≤ maxn ≤ 64, and "
                "rows for some n-grams"
            )
        self.ngrams, self.trainable, self.sparse = ngrams, trainable, sparse
        self.restore([[]])

    def learn(self, counts: Mapping[str, int]) -> None:
        """The n-grams of the training data, or those of the fastText model, with their rows."""
        if self.given is not None:
            self._take(self.given)
        elif self.ngrams == "hashed":
            self.restore([[]])
        else:
            found: Counter[str] = Counter()
            for word, count in counts.items():
                for gram in self._grams(word):
                    found[gram] += count
            common = sorted(found.items(), key=lambda item: (-item[1], item[0]))
            self.restore([[_GRAM + gram for gram, _ in common[: self.bucket]]])

    def _take(self, model: FastText) -> None:
        rows = np.asarray(model.input_, dtype=np.float32)
        own = [_WORD + word for word in model.words_]
        grams = [_GRAM + gram for gram in model.ngrams_] if self.ngrams == "dictionary" else []
        self.restore([own + grams])
        with torch.no_grad():
            self.table.weight[1:] = torch.from_numpy(rows[: self.table.num_embeddings - 1])
        self.given = None  # its rows are in the table now

    def vocabularies(self) -> list[list[str]]:
        """What has a row of its own: words, marked by a space, and n-grams, marked by a #."""
        return [self.entries]

    def restore(self, vocabularies: Sequence[list[str]]) -> None:
        """A table for these words and n-grams, and for the buckets of others."""
        (self.entries,) = vocabularies
        if any(entry[:1] not in (_WORD, _GRAM) for entry in self.entries):
            raise InputError("an entry of the n-grams is neither a word nor an n-gram")
        self.index = {entry: 1 + n for n, entry in enumerate(self.entries)}
        if len(self.index) < len(self.entries):
            raise InputError("an n-gram occurs twice in the vocabulary")
        count = 1 + len(self.entries) + (self.bucket if self.ngrams == "hashed" else 0)
        self.table = nn.EmbeddingBag(
            count, self.dim, padding_idx=_PAD, mode="mean", sparse=self.sparse
        )
        self.table.weight.requires_grad_(self.trainable)
        with torch.no_grad():
            bound = (3.0 / self.dim) ** 0.5
            self.table.weight[1:].uniform_(-bound, bound)

    def _grams(self, word: str) -> list[str]:
        return _core.subwords(word, self.minn, self.maxn)

    def rows(self, words: Sequence[str]) -> tuple[Tensor]:
        """The rows of each word and its n-grams (words, most)."""
        own = [self.index.get(_WORD + word) for word in words]
        if self.ngrams == "hashed":
            begin, ids = _core.subword_ids(as_bytes(words), self.minn, self.maxn, self.bucket)
            first = 1 + len(self.entries)
            found = [first + part for part in np.split(ids.astype(np.int64), begin[1:-1])]
        else:
            get = self.index.get
            found = [
                np.array([i for g in self._grams(w) if (i := get(_GRAM + g))], np.int64)
                for w in words
            ]
        most = max((len(f) + (o is not None) for f, o in zip(found, own, strict=True)), default=1)
        table = np.zeros((len(words), max(most, 1)), np.int64)
        for line, grams, mine in zip(table, found, own, strict=True):
            line[: len(grams)] = grams
            if mine is not None:
                line[len(grams)] = mine
        return (torch.from_numpy(table),)

    def forward(self, rows: Tensor) -> Tensor:
        """(words, dim) of rows (words, most)."""
        found: Tensor = self.table(rows)
        return found


Charagram = NGramEmbedding
"""As Wieting and others (2016) call sums of character n-grams."""


def _width(dim: int | None, given: int | None, name: str) -> int:
    """The width that is asked for, or that of what is given."""
    if dim is None and given is None:
        raise InputError(f"a table needs dim or {name}")
    if dim is not None and given is not None and dim != given:
        raise InputError(f"dim is {dim}, but that of {name} is {given}")
    width = as_integer(given if dim is None else dim, "dim")
    if width < 1:
        raise InputError(f"dim must be at least 1, not {dim}")
    return width


def as_vectors(given: Any) -> Vectors | None:
    """Vectors, from a file if it is a path."""
    if given is None or isinstance(given, Vectors):
        return given
    return Vectors.load(given)
