"""The read-only methods of gensim's ``KeyedVectors``, with the same results.

Neighbours are (word, cosine) pairs. A key is a word or a row number.

>>> from trellis.compat.gensim.models import KeyedVectors
>>> v = KeyedVectors(2)
>>> v.add_vectors(["king", "queen", "man", "woman"], [[3, 1], [1, 3.1], [3, 0], [1, 2]])
>>> v.most_similar(positive=["king", "woman"], negative=["man"], topn=1)[0][0]
'queen'
>>> v.rank("king", "queen"), v.closer_than("king", "queen")
(3, ['man', 'woman'])
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer
from trellis.compat.gensim import evaluation
from trellis.embeddings.search import RowSearch, unit_rows
from trellis.errors import InputError, UnknownWordError
from trellis.formats import word2vec
from trellis.native import resolve_jobs

__all__ = ["Keyed"]

Floats: TypeAlias = NDArray[np.float32]
Key: TypeAlias = str | int | np.integer[Any]
_KEYS = (str, int, np.integer)
_UTF8 = ("utf8", "utf-8", "UTF-8", "UTF8")


class Keyed:
    """gensim's read-only methods. A subclass also inherits from `trellis.Vectors`."""

    words: list[str]
    index: dict[str, int]
    matrix: Floats

    n_jobs: int | None
    _search: RowSearch

    if TYPE_CHECKING:  # the methods that `trellis.Vectors` defines

        @classmethod
        def _from_rows(cls, words: list[str], matrix: Floats, unseen: Any = None) -> Self: ...
        def __getitem__(self, word: Any) -> Floats: ...
        def similarity(self, a: str, b: str) -> float: ...  # noqa: D102

    # ---- words and rows

    @property
    def index_to_key(self) -> list[str]:
        """The words, in the order of their rows."""
        return self.words

    @property
    def key_to_index(self) -> dict[str, int]:
        """The row of each word."""
        return self.index

    @property
    def vectors(self) -> Floats:
        """The matrix, (words, dimensions)."""
        return self.matrix

    @property
    def vector_size(self) -> int:
        """Number of dimensions of a vector."""
        return int(self.matrix.shape[1])

    def get_index(self, key: Key, default: int | None = None) -> int:
        """Return the row of a word or a row number; ``default`` if there is no such row."""
        row = default
        if isinstance(key, str):
            row = self.index.get(key, default)
        elif 0 <= as_integer(key, "key") < len(self.words):
            row = int(key)
        if row is None:
            raise UnknownWordError(f"{key!r} has no vector")
        return row

    def has_index_for(self, key: Key) -> bool:
        """Return whether a key has a row."""
        return self.get_index(key, -1) >= 0

    def get_vector(self, key: Key, norm: bool = False) -> Floats:
        """Return the vector of a key, (dimensions,); scaled to length one with ``norm``."""
        vector: Floats = self[key] if isinstance(key, str) else self.matrix[self.get_index(key)]
        return unit_rows(vector) if norm else vector

    def get_normed_vectors(self) -> Floats:
        """Return all vectors scaled to length one, (words, dimensions)."""
        return unit_rows(self.matrix)

    def get_mean_vector(
        self,
        keys: Sequence[Key | NDArray[Any]] | NDArray[Any],
        weights: Any = None,
        pre_normalize: bool = True,
        post_normalize: bool = False,
        ignore_missing: bool = True,
    ) -> Floats:
        """Return Σ wᵢ vᵢ / Σ |wᵢ|. ``pre_normalize`` scales the vectors vᵢ of words to length one.

        Keys that are vectors are not scaled. Unknown words are ignored if ``ignore_missing``, and
        otherwise raise an UnknownWordError.
        """
        if not len(keys):
            raise InputError("keys is empty: must contain at least one key")
        key_weights = np.ones(len(keys)) if weights is None else np.asarray(weights, np.float64)
        if key_weights.shape != (len(keys),):
            raise InputError(
                f"weights have shape {key_weights.shape}: must be ({len(keys)},), as keys"
            )
        total_weight, mean = 0.0, np.zeros(self.vector_size)
        for key, weight in zip(keys, key_weights.tolist(), strict=True):
            try:
                vector = key if isinstance(key, np.ndarray) else self.get_vector(key, pre_normalize)
            except UnknownWordError:
                if ignore_missing:
                    continue
                raise
            if vector.shape != mean.shape:
                raise InputError(
                    f"a vector in keys has shape {vector.shape}: must be ({self.vector_size},)"
                )
            mean += weight * vector
            total_weight += abs(weight)
        mean = mean / total_weight if total_weight else mean
        return unit_rows(mean) if post_normalize else mean.astype(np.float32)

    # ---- neighbours

    def most_similar(
        self,
        positive: Any = None,
        negative: Any = None,
        topn: int | None = 10,
        clip_start: int = 0,
        clip_end: int | None = None,
        restrict_vocab: int | None = None,
        indexer: Any = None,
    ) -> Any:
        """Return (word, cosine) of the words nearest to a mean of keys.

        Positive keys have weight 1 in the mean, negative keys −1. A key is a word, a vector, or a
        (key, weight) pair. Words of the query are excluded. ``clip_start`` and ``clip_end``, or
        ``restrict_vocab``, limit the search to a range of rows. ``topn=None`` returns the cosines
        of all rows in the range. `trellis.Vectors.nearest_each` searches for many words at once.

        >>> from trellis.compat.gensim.models import KeyedVectors
        >>> v = KeyedVectors(2)
        >>> v.add_vectors(["a", "b", "c"], [[1, 0], [3, 4], [0, 1]])
        >>> v.most_similar("a", topn=1)
        [('b', 0.6000000238418579)]
        """
        if topn is not None and as_integer(topn, "topn") < 1:
            return []  # gensim also returns an empty list
        keys, weights = _split_weights(positive, negative)
        mean = self.get_mean_vector(keys, weights, True, True, False)
        # As in gensim, restrict_vocab overrides clip_start and clip_end, and clip_end=0 means that
        # the last row is included.
        clip = slice(0, restrict_vocab) if restrict_vocab else slice(clip_start, clip_end or None)
        rows = range(len(self.words))[clip]
        if indexer is not None and topn is not None:
            return indexer.most_similar(mean, topn)
        if topn is None:
            return self._cosines(mean)[clip]
        excluded_rows = self._rows_of(keys)
        if not len(rows):
            raise InputError(f"the rows {clip.start}..{clip.stop} contain no words")
        threads = resolve_jobs(self.n_jobs)
        scores, ids = self._search.best(mean[None], topn + len(excluded_rows), rows, threads)
        pairs = zip(ids[0].tolist(), scores[0].tolist(), strict=True)
        return [(self.words[i], score) for i, score in pairs if i not in excluded_rows][:topn]

    def _rows_of(self, keys: Iterable[Any]) -> set[int]:
        """Return the rows of all keys except vectors; -1 for unknown words."""
        return {self.get_index(key, -1) for key in keys if not isinstance(key, np.ndarray)}

    def similar_by_key(self, key: Key, topn: int | None = 10, restrict_vocab: Any = None) -> Any:
        """Return the words nearest to one key."""
        return self.most_similar([key], topn=topn, restrict_vocab=restrict_vocab)

    def similar_by_word(self, word: Key, topn: int | None = 10, restrict_vocab: Any = None) -> Any:
        """Return the words nearest to one word."""
        return self.similar_by_key(word, topn, restrict_vocab)

    def similar_by_vector(
        self, vector: NDArray[Any], topn: int | None = 10, restrict_vocab: Any = None
    ) -> Any:
        """Return the words nearest to a vector, (dimensions,)."""
        return self.most_similar([np.asarray(vector)], topn=topn, restrict_vocab=restrict_vocab)

    def most_similar_to_given(self, key1: str, keys_list: Sequence[str]) -> str:
        """Return the word of ``keys_list`` that is nearest to ``key1``."""
        if not len(keys_list):
            raise InputError("keys_list is empty: must contain at least one word")
        return keys_list[int(np.argmax([self.similarity(key1, key) for key in keys_list]))]

    def most_similar_cosmul(
        self,
        positive: Any = None,
        negative: Any = None,
        topn: int | None = 10,
        restrict_vocab: int | None = None,
    ) -> Any:
        """Return the words w with the largest Π cos⁺(w, p) / (Π cos⁺(w, n) + 10⁻⁶), "3CosMul".

        cos⁺ = (1 + cos) / 2; p are the positive keys and n the negative keys.
        """
        if topn is not None and as_integer(topn, "topn") < 1:
            return []
        positive_keys, negative_keys = _as_list(positive), _as_list(negative)
        if not positive_keys:
            raise InputError("positive is empty: must contain at least one key")
        numerator, denominator = (
            np.prod([(1 + self._cosines(self._as_vector(key))) / 2 for key in keys], axis=0)
            for keys in (positive_keys, negative_keys)
        )
        scores = (numerator / (denominator + 1e-6))[:restrict_vocab]  # 1e-6 avoids division by 0
        if topn is None:
            return scores
        excluded_rows = self._rows_of((*positive_keys, *negative_keys))
        order = np.argsort(-scores, kind="stable").tolist()
        return [(self.words[i], float(scores[i])) for i in order if i not in excluded_rows][:topn]

    # ---- cosines and distances

    def distance(self, w1: str, w2: str) -> float:
        """Return 1 − cosine of two words."""
        return 1.0 - self.similarity(w1, w2)

    def distances(self, word_or_vector: Any, other_words: Sequence[Key] = ()) -> Floats:
        """Return 1 − cosine of a key or vector with each of ``other_words``, or with all words."""
        distances: Floats = 1 - self._cosines(self._as_vector(word_or_vector))
        rows = [self.get_index(key) for key in other_words]
        return distances[rows] if rows else distances

    def n_similarity(self, ws1: Sequence[str], ws2: Sequence[str]) -> float:
        """Return the cosine of the means of two lists of words."""
        # As in gensim, the vectors are not normalised before the mean is computed.
        unit1, unit2 = (unit_rows(self.get_mean_vector(ws, None, False)) for ws in (ws1, ws2))
        return float(unit1.astype(np.float64) @ unit2)

    def closer_than(self, key1: Key, key2: Key) -> list[str]:
        """Return the words that are nearer to ``key1`` than ``key2`` is, in the order of rows."""
        distances, first_row = self.distances(key1), self.get_index(key1, -1)
        nearer_rows = np.flatnonzero(distances < distances[self.get_index(key2)]).tolist()
        return [self.words[i] for i in nearer_rows if i != first_row]

    def rank(self, key1: Key, key2: Key) -> int:
        """Return the rank of ``key2`` among the neighbours of ``key1``, from 1."""
        return len(self.closer_than(key1, key2)) + 1

    def rank_by_centrality(self, words: Sequence[str], use_norm: bool = True) -> list[Any]:
        """Return pairs (score, word), highest score first.

        The score is the dot product of the word's vector and the normalised mean.
        """
        if isinstance(words, str) or not len(words):
            raise InputError(f"words is {words!r}: must be a list of at least one word")
        rows = np.array([self.get_vector(word, use_norm) for word in words])
        scores = rows @ unit_rows(rows.mean(axis=0))
        return sorted(zip(scores.tolist(), words, strict=True), reverse=True)

    def _as_vector(self, key: Any) -> Floats:
        """Return the vector of a key, or a vector itself after validation, (dimensions,)."""
        if isinstance(key, _KEYS):
            return self.get_vector(key)
        vector: Floats = np.asarray(key, np.float32)
        if vector.shape != (self.vector_size,):
            raise InputError(f"the vector has shape {vector.shape}: must be ({self.vector_size},)")
        return vector

    def _cosines(self, vector: Floats) -> Floats:
        """Return the cosine of a vector with each word, (words,)."""
        rows, factors = self._search.scaled_rows()
        cosines: Floats = (rows @ unit_rows(vector)) * factors
        return cosines

    # ---- evaluation

    def evaluate_word_pairs(
        self,
        pairs: str | os.PathLike[str],
        delimiter: str = "\t",
        encoding: str = "utf8",
        restrict_vocab: int | None = 300_000,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
    ) -> tuple[Any, Any, float]:
        """Return SciPy's Pearson and Spearman results, and the percentage of unknown pairs.

        `trellis.Vectors.evaluate_similarity` computes the same correlations.
        """
        if encoding not in _UTF8:
            raise InputError(f"encoding is {encoding!r}: must be utf8")
        options = evaluation.Options(restrict_vocab, case_insensitive, dummy4unknown)
        return evaluation.word_pairs(self._as_vectors(), pairs, delimiter, options)

    def evaluate_word_analogies(
        self,
        analogies: str | os.PathLike[str],
        restrict_vocab: int | None = 300_000,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
    ) -> tuple[float, list[dict[str, Any]]]:
        """Return the accuracy, and the correct and incorrect questions of each section."""
        options = evaluation.Options(restrict_vocab, case_insensitive, dummy4unknown)
        return evaluation.word_analogies(self._as_vectors(), analogies, options)

    def _as_vectors(self) -> Any:
        """Return self, for the type checker: it does not know that self is also a `Vectors`."""
        return self

    # ---- files

    @classmethod
    def load_word2vec_format(
        cls,
        fname: str | os.PathLike[str],
        fvocab: Any = None,
        binary: bool = False,
        encoding: str = "utf8",
        unicode_errors: str = "strict",
        limit: int | None = None,
        datatype: Any = np.float32,
        no_header: bool = False,
    ) -> Self:
        """Load a word2vec or GloVe file; its content decides the format, not the arguments."""
        if fvocab is not None:
            raise InputError(
                "fvocab is not supported here: use KeyedVectors of trellis.compat.gensim.models"
            )
        if np.dtype(datatype) != np.float32:
            raise InputError(f"datatype is {datatype}: must be float32")
        try:
            "".encode(encoding)
        except LookupError:
            raise InputError(f"encoding is {encoding!r}: Python has no such encoding") from None
        if encoding in _UTF8:
            return cls._from_rows(*word2vec.read(fname, errors=unicode_errors, limit=limit))
        # The reader decodes UTF-8 only, so the bytes are restored and decoded with ``encoding``.
        words, matrix = word2vec.read(fname, errors="surrogateescape", limit=limit)
        word_bytes = [word.encode("utf-8", "surrogateescape") for word in words]
        return cls._from_rows(
            [word.decode(encoding, unicode_errors) for word in word_bytes], matrix
        )

    def save_word2vec_format(
        self,
        fname: str | os.PathLike[str],
        fvocab: Any = None,
        binary: bool = False,
        total_vec: int | None = None,
        write_header: bool = True,
        prefix: str = "",
        append: bool = False,
        sort_attr: str = "count",
    ) -> None:
        """Write a word2vec file, text or binary; a failure leaves an earlier file unchanged."""
        if fvocab is not None or append or total_vec not in (None, len(self.words)):
            raise InputError(
                "fvocab and append are not supported, and total_vec must be None or the number of "
                "words: a file is always written as a whole"
            )
        words = [prefix + word for word in self.words]
        if not binary:
            return word2vec.write_text(fname, words, self.matrix, header=write_header)
        if not write_header:
            raise InputError("write_header is False: must be True for a binary file")
        return word2vec.write_binary(fname, words, self.matrix)

    def vectors_for_all(self, keys: Iterable[str], allow_inference: bool = True) -> Self:
        """Return new vectors for these words; ``allow_inference`` includes unseen words."""
        infers = getattr(self, "unseen", None) is not None and allow_inference
        words = [word for word in dict.fromkeys(keys) if infers or word in self.index]
        if not words:
            raise InputError("no word in keys has a vector: at least one must have one")
        return self._from_rows(words, np.array([self[word] for word in words], np.float32))


def _as_list(keys: Any) -> list[Any]:
    """Return a single key, or several keys, as a list."""
    if keys is None:
        return []
    is_single = isinstance(keys, _KEYS) or (isinstance(keys, np.ndarray) and keys.ndim == 1)
    return [keys] if is_single else list(keys)


def _split_weights(positive: Any, negative: Any) -> tuple[list[Any], list[float]]:
    """Return the keys and their weights; the default weights are 1 and −1."""
    keys, weights = [], []
    for sign, items in ((1.0, _as_list(positive)), (-1.0, _as_list(negative))):
        for item in items:
            is_key = isinstance(item, (*_KEYS, np.ndarray))
            if not is_key and not (isinstance(item, tuple | list) and len(item) == 2):
                raise InputError(f"{item!r:.60} is not a word, a vector, or a (key, weight) pair")
            keys.append(item if is_key else item[0])
            weights.append(sign if is_key else float(item[1]))
    return keys, weights
