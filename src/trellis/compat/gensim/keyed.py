"""The names that gensim's ``KeyedVectors`` has, on `Vectors`: the same questions, the same answers.

Answers are pairs (word, cosine); a key is a word, or the number of a row.

>>> from trellis import Vectors
>>> v = Vectors(["king", "queen", "man", "woman"], [[3, 1], [1, 3.1], [3, 0], [1, 2]])
>>> v.most_similar(positive=["king", "woman"], negative=["man"], topn=1)[0][0]
'queen'
>>> v.rank("king", "queen"), v.closer_than("king", "queen")
(3, ['man', 'woman'])
"""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer
from trellis.compat.gensim import evaluation as keyed_evaluation
from trellis.embeddings.geometry import unit_rows
from trellis.errors import InputError, UnknownWordError
from trellis.formats import word2vec

__all__ = ["Keyed"]

Floats: TypeAlias = NDArray[np.float32]
Key: TypeAlias = str | int | np.integer[Any]
Answers: TypeAlias = list[tuple[str, float]]
_KEYS = (str, int, np.integer)
_UTF8 = ("utf8", "utf-8", "UTF-8", "UTF8")


class Keyed:
    """What `Vectors` takes from gensim."""

    words: list[str]
    index: dict[str, int]
    matrix: Floats

    if TYPE_CHECKING:

        @classmethod
        def _of(cls, words: list[str], matrix: Floats, unseen: Any = None) -> Self: ...
        def __getitem__(self, word: Any) -> Floats: ...
        def similarity(self, a: str, b: str) -> float: ...  # noqa: D102
        def _searched(self) -> tuple[Floats, Floats]: ...
        def _best(self, queries: Any, k: int, first: int, last: int) -> tuple[Any, Any]: ...

    # ---- words and rows

    @property
    def index_to_key(self) -> list[str]:
        """The words, by row."""
        return self.words

    @property
    def key_to_index(self) -> dict[str, int]:
        """The row of each word."""
        return self.index

    @property
    def vectors(self) -> Floats:
        """The matrix."""
        return self.matrix

    @property
    def vector_size(self) -> int:
        """Numbers in a vector."""
        return int(self.matrix.shape[1])

    def get_index(self, key: Key, default: int | None = None) -> int:
        """The row of a word, or of a row's number; the default if there is none."""
        row = self.index.get(key) if isinstance(key, str) else None
        if (
            row is None
            and not isinstance(key, str)
            and 0 <= as_integer(key, "key") < len(self.words)
        ):
            row = int(key)
        if row is None:
            row = default
        if row is None:
            raise UnknownWordError(f"{key!r} has no vector")
        return row

    def has_index_for(self, key: Key) -> bool:
        """Whether there is a row for it."""
        return self.get_index(key, -1) >= 0

    def get_vector(self, key: Key, norm: bool = False) -> Floats:
        """The vector of a word, of length one with ``norm``."""
        is_row = not isinstance(key, str)
        vector: Floats = self.matrix[self.get_index(key)] if is_row else self[key]
        return unit_rows(vector) if norm else vector

    def get_normed_vectors(self) -> Floats:
        """All rows, each of length one."""
        return unit_rows(self.matrix)

    def get_mean_vector(
        self,
        keys: Sequence[Key | NDArray[Any]] | NDArray[Any],
        weights: Any = None,
        pre_normalize: bool = True,
        post_normalize: bool = False,
        ignore_missing: bool = True,
    ) -> Floats:
        """Σ wᵢ vᵢ / Σ |wᵢ|, of words of length one unless ``pre_normalize=False``.

        Vectors among the keys are taken as they are. Unknown words are left out, or an error.
        """
        if not len(keys):
            raise InputError("there are no keys to have a mean")
        shares = np.ones(len(keys)) if weights is None else np.asarray(weights, np.float64)
        if shares.shape != (len(keys),):
            raise InputError(f"{len(keys)} keys have weights of shape {shares.shape}")
        total, mean = 0.0, np.zeros(self.vector_size)
        for key, weight in zip(keys, shares.tolist(), strict=True):
            try:
                vector = key if isinstance(key, np.ndarray) else self.get_vector(key, pre_normalize)
            except UnknownWordError:
                if ignore_missing:
                    continue
                raise
            if vector.shape != mean.shape:
                raise InputError(f"a vector of shape {vector.shape}, of {self.vector_size} numbers")
            mean += weight * vector
            total += abs(weight)
        mean = mean / total if total else mean
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
        """(word, cosine) of the words nearest to the mean of some, less others, of length one.

        A key is a word, a vector, or a pair of one and its weight; words that were asked for are no
        answers. ``clip_start`` and ``clip_end``, or ``restrict_vocab``, search these rows alone;
        ``topn=None`` gives the cosine of each of them. `nearest_each` asks for many words at once.

        >>> from trellis import Vectors
        >>> v = Vectors(["a", "b", "c"], [[1, 0], [3, 4], [0, 1]])
        >>> v.most_similar("a", topn=1)
        [('b', 0.6000000238418579)]
        """
        if topn is not None and as_integer(topn, "topn") < 1:
            return []
        keys, weights = _weighted(positive, negative)
        mean = self.get_mean_vector(keys, weights, True, True, False)
        clip = slice(0, restrict_vocab) if restrict_vocab else slice(clip_start, clip_end or None)
        rows = range(len(self.words))[clip]
        if indexer is not None and topn is not None:
            return indexer.most_similar(mean, topn)
        if topn is None:
            return self._cosines(mean)[clip]
        asked = {self.get_index(key, -1) for key in keys if not isinstance(key, np.ndarray)}
        if not len(rows):
            raise InputError(f"rows {clip.start} to {clip.stop}: there must be words left")
        scores, ids = self._best(mean[None], topn + len(asked), rows[0], rows[-1] + 1)
        pairs = zip(ids[0].tolist(), scores[0].tolist(), strict=True)
        return [(self.words[i], score) for i, score in pairs if i not in asked][:topn]

    def similar_by_key(self, key: Key, topn: int | None = 10, restrict_vocab: Any = None) -> Any:
        """`most_similar` for one word."""
        return self.most_similar([key], topn=topn, restrict_vocab=restrict_vocab)

    def similar_by_word(self, word: Key, topn: int | None = 10, restrict_vocab: Any = None) -> Any:
        """`most_similar` for one word."""
        return self.similar_by_key(word, topn, restrict_vocab)

    def similar_by_vector(
        self, vector: NDArray[Any], topn: int | None = 10, restrict_vocab: Any = None
    ) -> Any:
        """`most_similar` for a vector."""
        return self.most_similar([np.asarray(vector)], topn=topn, restrict_vocab=restrict_vocab)

    def most_similar_to_given(self, key1: str, keys_list: Sequence[str]) -> str:
        """The one of these words that is nearest to a word."""
        if not len(keys_list):
            raise InputError("keys_list is empty")
        return keys_list[int(np.argmax([self.similarity(key1, key) for key in keys_list]))]

    def most_similar_cosmul(
        self,
        positive: Any = None,
        negative: Any = None,
        topn: int | None = 10,
        restrict_vocab: int | None = None,
    ) -> Any:
        """Π cos⁺(w, p) / (Π cos⁺(w, n) + 10⁻⁶), cos⁺ = (1 + cos) / 2: 3CosMul."""
        if topn is not None and as_integer(topn, "topn") < 1:
            return []
        liked, disliked = _listed(positive), _listed(negative)
        if not liked:
            raise InputError("there is nothing to be similar to")
        above, below = (
            np.prod([(1 + self._cosines(self._as_vector(key))) / 2 for key in keys], axis=0)
            for keys in (liked, disliked)
        )
        scores = (above / (below + 1e-6))[:restrict_vocab]
        if topn is None:
            return scores
        named = [key for key in (*liked, *disliked) if not isinstance(key, np.ndarray)]
        asked = {self.get_index(key, -1) for key in named}
        order = np.argsort(-scores, kind="stable").tolist()
        return [(self.words[i], float(scores[i])) for i in order if i not in asked][:topn]

    # ---- cosines and distances

    def distance(self, w1: str, w2: str) -> float:
        """1 − the cosine of two words."""
        return 1.0 - self.similarity(w1, w2)

    def distances(self, word_or_vector: Any, other_words: Sequence[Key] = ()) -> Floats:
        """1 − the cosine of a word, or a vector, and each word, or each of some words."""
        found: Floats = 1 - self._cosines(self._as_vector(word_or_vector))
        return found[[self.get_index(key) for key in other_words]] if len(other_words) else found

    def n_similarity(self, ws1: Sequence[str], ws2: Sequence[str]) -> float:
        """The cosine of the means of two lists of words."""
        a, b = (unit_rows(self.get_mean_vector(ws, None, False)) for ws in (ws1, ws2))
        return float(a.astype(np.float64) @ b)

    def closer_than(self, key1: Key, key2: Key) -> list[str]:
        """The words that are nearer to the first than the second is, by row."""
        far, own = self.distances(key1), self.get_index(key1, -1)
        near = np.flatnonzero(far < far[self.get_index(key2)]).tolist()
        return [self.words[i] for i in near if i != own]

    def rank(self, key1: Key, key2: Key) -> int:
        """The place of the second among the neighbours of the first, from 1."""
        return len(self.closer_than(key1, key2)) + 1

    def rank_by_centrality(self, words: Sequence[str], use_norm: bool = True) -> list[Any]:
        """(product with the mean direction, word) of each word, the most central first."""
        if isinstance(words, str) or not len(words):
            raise InputError(f"words is {words!r}: must be a list of some")
        rows = np.array([self.get_vector(word, use_norm) for word in words])
        scores = rows @ unit_rows(rows.mean(axis=0))
        return sorted(zip(scores.tolist(), words, strict=True), reverse=True)

    def _as_vector(self, key: Any) -> Floats:
        if isinstance(key, _KEYS):
            return self.get_vector(key)
        vector: Floats = np.asarray(key, np.float32)
        if vector.shape != (self.vector_size,):
            raise InputError(f"a vector of shape {vector.shape}, of {self.vector_size} numbers")
        return vector

    def _cosines(self, vector: Floats) -> Floats:
        table, inverse = self._searched()
        scores: Floats = (table @ unit_rows(vector)) * inverse
        return scores

    # ---- files

    def evaluate_word_pairs(
        self,
        pairs: str | os.PathLike[str],
        delimiter: str = "\t",
        encoding: str = "utf8",
        restrict_vocab: int | None = 300_000,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
    ) -> tuple[Any, Any, float]:
        """Pearson and Spearman with their p-values, as scipy has them, and per cent unknown.

        `evaluate_similarity` is the same in other words.
        """
        _check_encoding(encoding)
        return keyed_evaluation.word_pairs(
            self, pairs, delimiter, restrict_vocab, case_insensitive, dummy4unknown
        )

    def evaluate_word_analogies(
        self,
        analogies: str | os.PathLike[str],
        restrict_vocab: int | None = 300_000,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
    ) -> tuple[float, list[dict[str, Any]]]:
        """The share of right answers, and the questions of each section by whether they were."""
        return keyed_evaluation.word_analogies(
            self, analogies, restrict_vocab, case_insensitive, dummy4unknown
        )

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
        """Vectors of a word2vec or GloVe file; what kind it is, the file says itself."""
        if fvocab is not None:
            raise InputError("fvocab: vectors have no counts here; compat.gensim's have")
        if np.dtype(datatype) != np.float32:
            raise InputError(f"datatype is {datatype}: vectors are float32")
        try:
            "".encode(encoding)
        except LookupError:
            raise InputError(f"encoding={encoding!r} is unknown") from None
        if encoding in _UTF8:
            return cls._of(*word2vec.read(fname, errors=unicode_errors, limit=limit))
        words, matrix = word2vec.read(fname, errors="surrogateescape", limit=limit)
        raw = [word.encode("utf-8", "surrogateescape") for word in words]
        return cls._of([word.decode(encoding, unicode_errors) for word in raw], matrix)

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
        """Write a word2vec file, text or binary, by row; it appears whole or not at all."""
        if fvocab is not None or append or total_vec not in (None, len(self.words)):
            raise InputError("fvocab, append and total_vec are not there: a file is written whole")
        words = [prefix + word for word in self.words]
        if not binary:
            return word2vec.write_text(fname, words, self.matrix, header=write_header)
        if not write_header:
            raise InputError("a binary file has a header: nothing could read it without")
        return word2vec.write_binary(fname, words, self.matrix)

    def vectors_for_all(self, keys: Iterable[str], allow_inference: bool = True) -> Self:
        """The vectors of these words alone; also of unseen ones, where those can have one."""
        unseen = getattr(self, "unseen", None) is not None and allow_inference
        words = [word for word in dict.fromkeys(keys) if unseen or word in self.index]
        if not words:
            raise InputError("none of the words has a vector")
        return self._of(words, np.array([self[word] for word in words], np.float32))


def _listed(keys: Any) -> list[Any]:
    """One key or many, as a list."""
    if keys is None:
        return []
    one = isinstance(keys, _KEYS) or (isinstance(keys, np.ndarray) and keys.ndim == 1)
    return [keys] if one else list(keys)


def _weighted(positive: Any, negative: Any) -> tuple[list[Any], list[float]]:
    """Keys and their weights: 1 and −1 where none is given."""
    keys, weights = [], []
    for sign, items in ((1.0, _listed(positive)), (-1.0, _listed(negative))):
        for item in items:
            plain = isinstance(item, (*_KEYS, np.ndarray))
            if not plain and not (isinstance(item, tuple | list) and len(item) == 2):
                raise InputError(f"{item!r:.60} is not a word, a vector, or one with a weight")
            keys.append(item if plain else item[0])
            weights.append(sign if plain else float(item[1]))
    return keys, weights


def _check_encoding(encoding: str) -> None:
    if encoding not in _UTF8:
        raise InputError(f"encoding={encoding!r}: files of pairs must be UTF-8")
