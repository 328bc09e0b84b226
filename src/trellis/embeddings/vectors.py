"""Word vectors: cos(u, v) = u·v / (‖u‖ ‖v‖) measures how similar two words are.

>>> v = Vectors(["king", "queen", "man", "woman"], [[3, 1], [1, 3.1], [3, 0], [1, 2]])
>>> v.nearest("king", k=1)
[Neighbor(word='man', score=0.948683)]
>>> v.analogy("man", "king", "woman", k=1)[0].word
'queen'
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.checks import as_integer, check_random_state, integer_at_least
from trellis.embeddings import evaluation, vector_files
from trellis.embeddings.search import RowSearch, check_k, query_rows, unit_rows
from trellis.errors import InputError, UnknownWordError
from trellis.formats.native import Tensors
from trellis.formats.parts import Parts, Saved
from trellis.native import resolve_jobs

__all__ = ["N_CLUSTERS", "Neighbor", "Vectors", "cluster_words"]

Floats: TypeAlias = NDArray[np.float32]
Query: TypeAlias = str | Sequence[str] | NDArray[Any]


N_CLUSTERS = 500
_BATCH = 4096  # words per step of k-means; batches make it some ten times faster than full passes


class Neighbor(NamedTuple):
    """A word and its cosine with the query."""

    word: str
    score: float

    def __repr__(self) -> str:
        return f"Neighbor(word={self.word!r}, score={self.score:.6g})"


class Vectors(Saved):
    """One vector for each word. Searches are exact and use all cores.

    Parameters
    ----------
    words
        Distinct words.
    matrix
        One row for each word, (words, dimensions). An array that is float32 in C order is not
        copied; it can be a mapped file.
    unseen
        Function that returns the vector of a word that is not in ``words``. In fastText models it
        uses the n-grams of the word.
    n_jobs
        Number of threads; None for all cores.

    >>> v = Vectors(["a", "b"], [[1, 0], [3, 4]])
    >>> v["b"], "c" in v, len(v)
    (array([3., 4.], dtype=float32), False, 2)
    >>> v["c"]
    Traceback (most recent call last):
        ...
    trellis.errors.UnknownWordError: 'c' has no vector

    """

    kind: ClassVar[str] = vector_files.KIND

    words: list[str]
    index: dict[str, int]
    """The row of each word."""
    matrix: Floats
    """(words, dimensions)"""

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
            self.matrix = np.require(matrix, np.float32, ["C", "A"])
        except (TypeError, ValueError) as error:
            raise InputError(f"matrix is not an array of numbers: {error}") from None
        if self.matrix.ndim != 2 or len(self.matrix) != len(self.words) or not self.matrix.size:
            raise InputError(
                f"matrix has shape {self.matrix.shape} for {len(self.words)} words: "
                "must be (words, dimensions) and not empty"
            )
        self.index = {word: row for row, word in enumerate(self.words)}
        if len(self.index) < len(self.words):
            repeated = next(w for row, w in enumerate(self.words) if self.index[w] != row)
            raise InputError(f"words contains {repeated!r} twice: words must be distinct")
        self.unseen = unseen
        self.n_jobs = n_jobs
        self._reset_search()

    def _reset_search(self) -> None:
        """Delete cached search data. Call this after every change of the matrix."""
        self._search = RowSearch(self.matrix, self.words)

    def __repr__(self) -> str:
        return f"Vectors({len(self)} words, {self.dim} dimensions)"

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str | Sequence[str]) -> Floats:
        """Return the vector of a word, (dimensions,), or of several, (words, dimensions)."""
        if not isinstance(word, str):
            if not isinstance(word, Iterable):
                raise InputError(f"{word!r:.60} is not a word or a list of words")
            return np.array([self[w] for w in word], np.float32).reshape(-1, self.dim)
        row = self.index.get(word)
        if row is None:
            if self.unseen is None:
                raise UnknownWordError(f"{word!r} has no vector")
            return self.unseen(word)
        vector: Floats = self.matrix[row]
        return vector

    def __getattr__(self, name: str) -> Any:
        """Return the attribute with this name in gensim, with a DeprecationWarning.

        This class had gensim's methods in 0.1.0. They are now in `trellis.compat.gensim`, and their
        names work here for one more release. ``embeddings`` is below ``compat`` in the layers
        (tests/test_layering.py), so it has no import statement for it: the module is loaded by name
        when such an attribute is used.
        """
        if name.startswith("_"):  # NumPy, pickle and IPython test for many private attributes
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return import_module("trellis.compat.gensim.deprecated").attribute(self, name)

    @classmethod
    def load_word2vec_format(cls, *args: Any, **options: Any) -> Vectors:
        """Deprecated: use `Vectors.load` (`__getattr__` does not work for class methods)."""
        deprecated = import_module("trellis.compat.gensim.deprecated")
        vectors: Vectors = deprecated.load_word2vec_format(*args, **options)
        return vectors

    @property
    def dim(self) -> int:
        """Number of dimensions of a vector."""
        return int(self.matrix.shape[1])

    # ---- neighbours

    def similarity(self, a: str, b: str) -> float:
        """Return the cosine of two words; 0 if one of the vectors is zero.

        >>> Vectors(["a", "b"], [[1, 0], [3, 4]]).similarity("a", "b")
        0.6
        """
        # The norm of a float32 vector with large entries would overflow.
        u, v = self[a].astype(np.float64), self[b].astype(np.float64)
        norm_product = float(np.linalg.norm(u) * np.linalg.norm(v))
        return float(u @ v) / norm_product if norm_product else 0.0

    def nearest(self, query: Query, k: int = 10) -> list[Neighbor]:
        """Return the k words nearest to a word, to a vector, or to the mean of several words.

        The unit vectors of the words are averaged. Words of the query are excluded. Words of equal
        score are in the order of their rows.
        """
        if isinstance(query, np.ndarray):
            return self._find_neighbors(query_rows(query[None], self.dim), k, [[]])[0]
        if not isinstance(query, Iterable):
            raise InputError(f"{query!r:.60} is not a word, a vector or a list of words")
        words = [query] if isinstance(query, str) else list(query)
        if not words:
            raise InputError("query is an empty list: must contain at least one word")
        mean = self._unit_vectors(words).mean(axis=0, keepdims=True)
        return self._find_neighbors(mean, k, [words])[0]

    def nearest_each(self, queries: Sequence[str] | Floats, k: int = 10) -> list[list[Neighbor]]:
        """Return the k nearest words of each word in a list, or of each row of a matrix.

        This is much faster than one call of `nearest` for each query.

        >>> v = Vectors(["a", "b", "c"], [[1, 0], [3, 4], [0, 1]])
        >>> [neighbors[0].word for neighbors in v.nearest_each(["a", "c"], k=1)]
        ['b', 'b']
        """
        if isinstance(queries, str):
            raise InputError(
                f"queries is the str {queries!r}: must be a list; use nearest for one word"
            )
        if isinstance(queries, np.ndarray):
            return self._find_neighbors(query_rows(queries, self.dim), k, [[]] * len(queries))
        words = list(queries)
        return (
            self._find_neighbors(self._unit_vectors(words), k, [[word] for word in words])
            if words
            else []
        )

    def analogy(self, a: str, b: str, c: str, k: int = 10) -> list[Neighbor]:
        """Return the k words d for "a is to b as c is to d": the words nearest to b − a + c.

        The vectors of a, b and c are scaled to length one. The three words are excluded.
        """
        units = self._unit_vectors([a, b, c])
        return self._find_neighbors((units[1] - units[0] + units[2])[None], k, [[a, b, c]])[0]

    def doesnt_match(self, words: Sequence[str]) -> str:
        """Return the word that is furthest from the mean of the unit vectors of all words.

        >>> v = Vectors(["red", "blue", "seven"], [[1, 0.1], [1, 0.2], [0.1, 1]])
        >>> v.doesnt_match(["red", "seven", "blue"])
        'seven'
        """
        if isinstance(words, str) or not len(words):
            raise InputError(f"words is {words!r}: must be a list of at least one word")
        units = self._unit_vectors(words)
        return words[int(np.argmin(units @ units.mean(axis=0)))]

    def search(
        self, queries: Floats, k: int, restrict: int | None = None
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Return scores and row numbers of the best k rows for each query, (queries, k) each.

        ``queries`` has shape (queries, dimensions) and is not normalised: scores are cosines only
        if its rows have length one. ``restrict=n`` searches the first n rows.
        """
        n_rows = len(self) if restrict is None else min(as_integer(restrict, "restrict"), len(self))
        if n_rows < 1:
            raise InputError(f"restrict is {restrict}: must be at least 1")
        return self._search.best(queries, k, range(n_rows), resolve_jobs(self.n_jobs))

    def _unit_vectors(self, words: Sequence[str]) -> Floats:
        """Return the vectors of words, scaled to length one.

        An unseen word whose n-grams have no rows is an error: its vector is 0, and all words would
        be equally near to it.
        """
        rows = self[words]
        for word, row in zip(words, rows, strict=True):
            if word not in self.index and not row.any():
                raise UnknownWordError(f"{word!r} has no vector: the model knows no part of it")
        return unit_rows(rows)

    def _find_neighbors(
        self, queries: Floats, k: int, excluded: Sequence[Sequence[str]]
    ) -> list[list[Neighbor]]:
        """Return the k nearest words of each query, without the words excluded for it."""
        k = check_k(k)
        banned_rows = [
            {self.index[word] for word in query if word in self.index} for query in excluded
        ]
        # Banned rows can be among the best rows, so the search returns more than k rows.
        max_banned = max(map(len, banned_rows), default=0)
        scores, ids = self.search(unit_rows(queries), k + max_banned)
        words, results = self.words, zip(ids.tolist(), scores.tolist(), banned_rows, strict=True)
        return [
            [
                Neighbor(words[row], score)
                for row, score in zip(query_ids, query_scores, strict=True)
                if row >= 0 and row not in query_banned_rows
            ][:k]
            for query_ids, query_scores, query_banned_rows in results
        ]

    # ---- evaluation and pictures

    def evaluate_similarity(
        self,
        path: str | os.PathLike[str],
        *,
        restrict: int | None = None,
        ignore_case: bool = True,
        with_unseen: bool = False,
    ) -> evaluation.SimilarityScores:
        """Return the correlation of cosines with human scores, from a file of "word word score".

        ``restrict=n`` uses only the first n words; in most files these are the most frequent. Pairs
        with an unknown word are skipped or, with ``with_unseen``, `unseen` computes its vector.
        """
        return evaluation.similarity(self, path, restrict, ignore_case, with_unseen)

    def evaluate_analogies(
        self, path: str | os.PathLike[str], *, restrict: int | None = None, ignore_case: bool = True
    ) -> evaluation.AnalogyScores:
        """Return the accuracy on lines "a b c d" of a file; d must be nearest to b − a + c."""
        return evaluation.analogies(self, path, restrict, ignore_case)

    def project(self, words: Sequence[str] | None = None) -> NDArray[np.float64]:
        """Return the two principal components of words (by default all words), (words, 2)."""
        return _principal_components(self.matrix if words is None else self[words])

    def plot(
        self,
        words: Sequence[str] = (),
        title: str | None = None,
        *,
        pairs: Sequence[tuple[str, str]] = (),
    ) -> Any:
        """Return a `trellis.plots.Drawing` with each word at its point of `project`.

        An arrow leads from the first to the second word of each of the ``pairs``; their words need
        not be listed. Arrows of analogous pairs are nearly parallel.

        >>> v = Vectors(["king", "queen", "man", "woman"], [[3, 1], [3, 3], [1, 1], [1, 3]])
        >>> drawing = v.plot(pairs=[("man", "king"), ("woman", "queen")])
        >>> sorted({shape.tip for shape in drawing.shapes if shape.kind == "arrow"})
        ['man → king', 'woman → queen']
        """
        for name, value in (("words", words), ("pairs", pairs)):
            if isinstance(value, str):
                raise InputError(f"{name} is the str {value!r}: must be a list")
        for n, pair in enumerate(pairs):
            if isinstance(pair, str) or len(pair) != 2:
                raise InputError(f"pairs[{n}] is {pair!r:.60}: must be two words")
        names = list(dict.fromkeys([*words, *(word for pair in pairs for word in pair)]))
        # embeddings is below plots in the layers (tests/test_layering.py), so it has no import
        # statement for plots: plots is loaded by name when a picture is drawn.
        scatter = import_module("trellis.plots").scatter
        return scatter(self.project(names), names, arrows=pairs, title=title)

    # ---- files

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the words and vectors to a file.

        The name decides the format: ``.trellis``, ``.vec`` and ``.txt`` (word2vec text), ``.bin``
        (word2vec binary). ``format`` overrides it: "trellis", "text", "binary" or "glove". A text
        file whose name ends in ``.gz`` or ``.xz`` is compressed.
        """
        vector_files.write(path, self.words, self.matrix, format)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, errors: str = "strict", limit: int | None = None
    ) -> Self:
        """Load vectors from a file; its content decides the format.

        Formats are word2vec text and binary, GloVe, fastText's ``.vec``, ``.bin`` and ``.ftz``
        (with vectors for unseen words), gensim's saved KeyedVectors, and ``.trellis``. ``errors``
        is used for words that are not UTF-8: "strict" raises FormatError, "replace" replaces their
        invalid bytes. ``limit=n`` reads the first n words.
        """
        return cls._from_rows(*vector_files.read(path, errors, limit))

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of a ``.trellis`` file."""
        return vector_files.to_parts(self.words, self.matrix)

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the vectors that `to_parts` stored; raise InputError if a part is invalid."""
        return cls._from_rows(*vector_files.from_parts(tensors))

    @classmethod
    def _from_rows(
        cls, words: list[str], matrix: Floats, unseen: Callable[[str], Floats] | None = None
    ) -> Self:
        """Return new vectors. A subclass with another constructor overrides this method."""
        return cls(words, matrix, unseen=unseen)


def _principal_components(rows: Floats) -> NDArray[np.float64]:
    """Return the projection of rows (N, D) to their two principal components, (N, 2).

    >>> rows = np.array([[0, 0, 1], [4, 0, 1], [2, 1, 1]], np.float32)
    >>> _principal_components(rows).round(6).tolist()
    [[-2.0, -0.333333], [2.0, -0.333333], [0.0, 0.666667]]
    """
    float_rows = np.asarray(rows, dtype=np.float64)
    if float_rows.ndim != 2 or len(float_rows) < 1:
        raise InputError(f"rows have shape {float_rows.shape}: must be (N, D) with N at least 1")
    centred_rows = float_rows - float_rows.mean(axis=0)
    _, directions = np.linalg.eigh(centred_rows.T @ centred_rows)  # columns, by ascending variance
    components = directions[:, :-3:-1]  # (D, 2), or (1, 1) if D is 1
    # The sign of an eigenvector is arbitrary. The entry of largest absolute value is made positive,
    # so that the same rows always give the same picture.
    largest_entries = components[np.abs(components).argmax(axis=0), np.arange(components.shape[1])]
    points = centred_rows @ (components * np.sign(largest_entries))
    return points if points.shape[1] == 2 else np.hstack([points, np.zeros_like(points)])


def cluster_words(
    vectors: Vectors, n_clusters: int = N_CLUSTERS, random_state: Any = 0
) -> dict[str, str]:
    """Return the cluster of each word: k-means of the vectors, scaled to length 1.

    Clusters are numbers as text, so that `trellis.features.Window` can use them as features. With
    fewer words than ``n_clusters``, each word is its own cluster.

    >>> vectors = Vectors(["Rome", "Paris", "eats", "sees"], [[5, 1], [4, 1], [0, 1], [-1, 3]])
    >>> clusters = cluster_words(vectors, n_clusters=2)
    >>> clusters["Rome"] == clusters["Paris"] != clusters["eats"] == clusters["sees"]
    True
    """
    # Imported here, because commands that do not cluster start without scikit-learn.
    from sklearn.cluster import MiniBatchKMeans

    if not isinstance(vectors, Vectors):
        raise InputError(f"vectors must be word vectors, not {type(vectors).__name__}")
    n_clusters = min(integer_at_least(n_clusters, 1, "n_clusters"), len(vectors.words))
    check_random_state(random_state)
    rows = unit_rows(vectors.matrix)
    if not np.isfinite(rows).all():
        raise InputError("a vector is not finite: such vectors have no clusters")
    means = MiniBatchKMeans(n_clusters, batch_size=_BATCH, n_init=1, random_state=random_state)
    return dict(zip(vectors.words, map(str, means.fit_predict(rows).tolist()), strict=True))
