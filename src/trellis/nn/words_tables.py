"""Words from tables: a vector for each word of a vocabulary."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from trellis.embeddings.vectors import Vectors
from trellis.errors import InputError
from trellis.native import as_integer
from trellis.nn.words_base import WordEncoder

__all__ = ["WordEmbedding"]

_PAD, _UNKNOWN, _FIRST = range(3)


class WordEmbedding(WordEncoder):
    """v(word) = row of the word in a table; of a word that is not in it, that of the unknown word.

    >>> table = WordEmbedding(vectors=Vectors(["red", "blue"], [[1.0, 0.0], [0.0, 1.0]]))
    >>> table.learn({"red": 3})
    >>> table.encode(["blue", "red", "Red"]).tolist()  # of Red it knows only the lower case
    [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]

    A word is looked up as it is and, failing that, in lower case; with ``lowercase`` always so. In
    training a word that occurs n times is taken for unknown with probability a / (a + n), where a
    is ``unknown_dropout``: that is how the vector of the unknown word is learned. ``vectors`` begin
    with those of a `Vectors`; other words of the training data get random ones.
    """

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
        if vectors is None and dim is None:
            raise InputError("a table of words needs dim or vectors")
        if vectors is not None and dim not in (None, vectors.dim):
            raise InputError(f"dim is {dim}, but the vectors have {vectors.dim}")
        self.dim = as_integer(dim if vectors is None else vectors.dim, "dim")
        if self.dim < 1:
            raise InputError(f"dim must be at least 1, not {dim}")
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
        if not self.lowercase:
            own = {w: n for w, n in own.items() if w in known or w.lower() not in known}
        self.restore([[*given, *(word for word in own if word not in known)]])
        with torch.no_grad():
            if self.vectors is not None:
                rows = np.array(self.vectors.matrix, dtype=np.float32)
                self.table.weight[_FIRST : _FIRST + len(given)] = torch.from_numpy(rows)
            for n, word in enumerate(self.words):
                self.chance[_FIRST + n] = own.get(word, 0)
            a = self.unknown_dropout
            self.chance.copy_(torch.where(self.chance > 0, a / (a + self.chance), 0.0))
        self.vectors = None  # they are in the table now

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
            unknown = unknown | (torch.rand_like(self.chance[: len(ids)]) < self.chance[ids])
        found = functional.embedding(ids, self.table.weight, sparse=self.sparse)
        return torch.where(unknown[:, None], self.unknown, found)


def as_vectors(given: Any) -> Vectors | None:
    """Vectors, from a file if it is a path."""
    if given is None or isinstance(given, Vectors):
        return given
    return Vectors.load(given)
