"""Words as vectors: cos(u, v) = u·v / (‖u‖ ‖v‖) says how near they are.

>>> v = Vectors(["king", "queen", "man", "woman"], [[3, 1], [1, 3.1], [3, 0], [1, 2]])
>>> v.nearest("king", k=1)
[Neighbor(word='man', score=0.948683)]
>>> v.analogy("man", "king", "woman", k=1)[0].word
'queen'
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis import _core
from trellis.checks import as_integer
from trellis.embeddings import evaluation, files
from trellis.embeddings.geometry import plane, unit_rows
from trellis.errors import InputError, UnknownWordError
from trellis.native import resolve_jobs

if TYPE_CHECKING:
    from trellis.plots import Drawing

__all__ = ["Neighbor", "Vectors"]

Floats: TypeAlias = NDArray[np.float32]
Query: TypeAlias = str | Sequence[str] | NDArray[Any]

_CHUNK = 1 << 14  # rows
_EXTREME = 1e30  # lengths beyond this, or below its inverse
_FEW = 6  # queries: more of them keep the processor busy, not the memory
_LARGE = 1 << 22  # bytes of a matrix that does not stay in caches


class Neighbor(NamedTuple):
    """A word, and the cosine between it and what was asked for."""

    word: str
    score: float

    def __repr__(self) -> str:
        return f"Neighbor(word={self.word!r}, score={self.score:.6g})"


class Vectors:
    """A vector for each word; searches are exact, on all cores.

    ``matrix`` is (words, dimensions). It is used where it lies, a mapped file for instance, if it
    is float32 in C order. ``unseen`` gives vectors to words that are not in the list, as fastText
    does from their characters.

    >>> v = Vectors(["a", "b"], [[1, 0], [3, 4]])
    >>> v["b"], "c" in v, len(v)
    (array([3., 4.], dtype=float32), False, 2)
    >>> v["c"]
    Traceback (most recent call last):
        ...
    trellis.errors.UnknownWordError: 'c' has no vector
    """

    def __init__(
        self,
        words: Sequence[str],
        matrix: ArrayLike,
        *,
        unseen: Callable[[str], Floats] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        if isinstance(words, str) or not isinstance(words, Iterable):
            raise InputError(f"words is {type(words).__name__}: must be a list of words")
        self.words = list(words)
        try:
            self.matrix: Floats = np.require(matrix, np.float32, ["C", "A"])
        except (TypeError, ValueError) as error:
            raise InputError(f"matrix cannot be numbers: {error}") from None
        if self.matrix.ndim != 2 or len(self.matrix) != len(self.words) or not self.matrix.size:
            raise InputError(
                f"{len(self.words)} words cannot have a matrix of shape {self.matrix.shape}"
            )
        self.index = {word: row for row, word in enumerate(self.words)}
        if len(self.index) < len(self.words):
            again = next(w for row, w in enumerate(self.words) if self.index[w] != row)
            raise InputError(f"the word {again!r} is given twice")
        self.unseen = unseen
        self.n_jobs = n_jobs
        self._forget()

    def _forget(self) -> None:
        """What is made of the matrix for searches is made again."""
        self._rows: tuple[Floats, Floats] | None = None
        self._coarse: tuple[NDArray[np.int8], Floats, Floats] | None = None
        self._asked = 0

    def __repr__(self) -> str:
        return f"Vectors({len(self)} words, {self.dim} dimensions)"

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str | Sequence[str]) -> Floats:
        """The vector of a word, or the matrix of a list of them."""
        if not isinstance(word, str):
            if not isinstance(word, Iterable):
                raise InputError(f"{word!r:.60} is not a word, nor a list of words")
            return np.array([self[each] for each in word], np.float32).reshape(-1, self.dim)
        row = self.index.get(word)
        if row is None:
            if self.unseen is None:
                raise UnknownWordError(f"{word!r} has no vector")
            return self.unseen(word)
        vector: Floats = self.matrix[row]
        return vector

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return int(self.matrix.shape[1])

    def similarity(self, a: str, b: str) -> float:
        """The cosine of the angle between two words.

        >>> Vectors(["a", "b"], [[1, 0], [3, 4]]).similarity("a", "b")
        0.6
        """
        u, v = self[a].astype(np.float64), self[b].astype(np.float64)
        norms = float(np.linalg.norm(u) * np.linalg.norm(v))
        return float(u @ v) / norms if norms else 0.0

    def nearest(self, query: Query, k: int = 10) -> list[Neighbor]:
        """The k words nearest to a word, to a vector, or to the mean direction of some words.

        Words that were asked for are not among the answers. Of equal scores the first word wins.
        """
        if isinstance(query, np.ndarray):
            return self._answers(_as_rows(query[None], self.dim), k, [[]])[0]
        if not isinstance(query, Iterable):
            raise InputError(f"{query!r:.60} is not a word, a vector or a list of words")
        words = [query] if isinstance(query, str) else list(query)
        if not words:
            raise InputError("there are no words to be near to")
        mean = self._units(words).mean(axis=0, keepdims=True)
        return self._answers(mean, k, [words])[0]

    def nearest_each(self, queries: Sequence[str] | Floats, k: int = 10) -> list[list[Neighbor]]:
        """The same for many words, or rows of a matrix, at once: far quicker than one by one.

        >>> v = Vectors(["a", "b", "c"], [[1, 0], [3, 4], [0, 1]])
        >>> [found[0].word for found in v.nearest_each(["a", "c"], k=1)]
        ['b', 'b']
        """
        if isinstance(queries, str):
            raise InputError(f"queries is one word, {queries!r}: use nearest, or a list")
        if isinstance(queries, np.ndarray):
            return self._answers(_as_rows(queries, self.dim), k, [[]] * len(queries))
        words = list(queries)
        return self._answers(self._units(words), k, [[word] for word in words]) if words else []

    def analogy(self, a: str, b: str, c: str, k: int = 10) -> list[Neighbor]:
        """The k words d such that a is to b as c is to d: nearest to b − a + c, all of length one.

        The three words are not among the answers.
        """
        units = self._units([a, b, c])
        return self._answers((units[1] - units[0] + units[2])[None], k, [[a, b, c]])[0]

    def doesnt_match(self, words: Sequence[str]) -> str:
        """The word that is furthest from the mean direction of all.

        >>> v = Vectors(["red", "blue", "seven"], [[1, 0.1], [1, 0.2], [0.1, 1]])
        >>> v.doesnt_match(["red", "seven", "blue"])
        'seven'
        """
        if isinstance(words, str) or not len(words):
            raise InputError(f"words is {words!r}: must be a list of some")
        units = self._units(words)
        return words[int(np.argmin(units @ units.mean(axis=0)))]

    def evaluate_similarity(
        self,
        path: str | os.PathLike[str],
        *,
        restrict: int | None = None,
        ignore_case: bool = True,
        with_unseen: bool = False,
    ) -> "evaluation.SimilarityScores":
        """How well cosines agree with people, on a file of "word word score" lines.

        ``restrict`` looks at the first so many words alone, which in most files are the commonest.
        Pairs with a word that is not among them are skipped, unless ``with_unseen``.
        """
        return evaluation.similarity(self, path, restrict, ignore_case, with_unseen)

    def evaluate_analogies(
        self, path: str | os.PathLike[str], *, restrict: int | None = None, ignore_case: bool = True
    ) -> "evaluation.AnalogyScores":
        """How many "a b c d" lines have d as the nearest word to b − a + c."""
        return evaluation.analogies(self, path, restrict, ignore_case)

    def project(self, words: Sequence[str] | None = None) -> NDArray[np.float64]:
        """Places in the plane, (words, 2): the two directions in which the words differ most."""
        return plane(self.matrix if words is None else self[words])

    def plot(self, words: Sequence[str], title: str | None = None) -> "Drawing":
        """A picture of `project`, each word at its place."""
        from trellis.plots import scatter

        return scatter(self.project(words), words, title=title)

    def search(
        self, queries: Floats, k: int, restrict: int | None = None
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Scores and rows of the best k for each query vector: (queries, k) each.

        Queries are taken as they are: scores are cosines if they have length one. ``restrict``
        searches the first rows alone.
        """
        count = len(self) if restrict is None else min(as_integer(restrict, "restrict"), len(self))
        if count < 1:
            raise InputError(f"restrict is {restrict}: there must be words left")
        return self._best(queries, k, 0, count)

    def _best(
        self, queries: Floats, k: int, first: int, last: int
    ) -> tuple[Floats, NDArray[np.int64]]:
        """The same among the rows from first to last."""
        k = min(_checked_k(k), last - first)
        rows = _as_rows(queries, self.dim)
        scores = np.empty((len(rows), k), np.float32)
        ids = np.empty((len(rows), k), np.int64)
        table, inverse = (part[first:last] for part in self._searched())
        threads = resolve_jobs(self.n_jobs)
        coarse = self._bytes(threads) if len(rows) < _FEW else None
        part = coarse and (coarse[0][first:last], coarse[1][first:last], coarse[2][first:last])
        _core.nearest(table, inverse, rows, threads, scores, ids, part)
        return scores, np.where(ids < 0, ids, ids + first)

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write to ``.trellis``, ``.vec``, ``.txt`` or ``.bin`` (word2vec's), by the name.

        Or by ``format``: "trellis", "text", "binary" or "glove". A name that ends in ``.gz`` or
        ``.xz`` packs the text.
        """
        files.save(path, self.words, self.matrix, format)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, errors: str = "strict", limit: int | None = None
    ) -> Self:
        """From any of these files, known by what is in them.

        word2vec text and binary, GloVe, fastText's ``.vec``, ``.bin`` and ``.ftz`` (whose n-grams
        then give vectors to unseen words), gensim's saved KeyedVectors, and ``.trellis``.
        ``errors`` is for words that are not UTF-8: "strict" refuses them, "replace" reads them.
        ``limit`` takes the first words alone.
        """
        return cls._of(*files.load(path, errors, limit))

    @classmethod
    def _of(
        cls, words: list[str], matrix: Floats, unseen: Callable[[str], Floats] | None = None
    ) -> Self:
        return cls(words, matrix, unseen=unseen)

    def _units(self, words: Sequence[str]) -> Floats:
        return unit_rows(self[words])

    def _searched(self) -> tuple[Floats, Floats]:
        """Rows and 1 / ‖row‖ (0 for rows of zeros), so that the matrix can stay where it is."""
        if self._rows is None:
            norms = np.empty(len(self))
            for begin in range(0, len(self), _CHUNK):
                part = self.matrix[begin : begin + _CHUNK]
                np.einsum(
                    "ij,ij->i", part, part, dtype=np.float64, out=norms[begin : begin + len(part)]
                )
            if not np.isfinite(norms).all():
                word = self.words[int(np.argmin(np.isfinite(norms)))]
                raise InputError(f"the vector of {word!r} has NaN or infinities")
            np.sqrt(norms, out=norms)
            inverse = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
            if max(norms.max(), inverse.max()) < _EXTREME:
                self._rows = self.matrix, inverse.astype(np.float32)
            else:  # products would leave the range of float32
                self._rows = unit_rows(self.matrix), np.ones(len(self), np.float32)
        return self._rows

    def _bytes(self, threads: int) -> tuple[NDArray[np.int8], Floats, Floats] | None:
        """Rows in bytes, which rule most rows out before they are read.

        They take a quarter of the matrix's memory; they are made for who asks a second time.
        """
        self._asked += 1
        if self._coarse is None and self._asked > 1 and self.matrix.nbytes >= _LARGE:
            rows, scale = self._searched()
            code = np.empty((len(self), (self.dim + 15) // 16 * 16), np.int8)
            step, off = np.empty_like(scale), np.empty_like(scale)
            _core.coarse_rows(rows, scale, threads, code, step, off)
            self._coarse = code, step, off
        return self._coarse

    def _answers(
        self, queries: Floats, k: int, without: Sequence[Sequence[str]]
    ) -> list[list[Neighbor]]:
        k = _checked_k(k)
        banned = [{self.index[w] for w in own if w in self.index} for own in without]
        most = max(map(len, banned), default=0)
        scores, ids = self.search(unit_rows(queries), k + most)
        words = self.words
        return [
            [
                Neighbor(words[i], score)
                for i, score in zip(own_ids, own_scores, strict=True)
                if i >= 0 and i not in out
            ][:k]
            for own_ids, own_scores, out in zip(ids.tolist(), scores.tolist(), banned, strict=True)
        ]


def _as_rows(queries: NDArray[Any], dim: int) -> Floats:
    try:
        rows = np.require(queries, np.float32, ["C", "A"])
    except (TypeError, ValueError) as error:
        raise InputError(f"queries cannot be numbers: {error}") from None
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise InputError(f"queries of shape {rows.shape} do not have {dim} columns")
    if not np.isfinite(rows).all():
        raise InputError("queries have NaN or infinities")
    return rows


def _checked_k(k: int) -> int:
    if as_integer(k, "k") < 1:
        raise InputError(f"k is {k}: must be positive")
    return k
