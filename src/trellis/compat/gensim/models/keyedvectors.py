"""gensim's `KeyedVectors`: word vectors to which words can be added."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.compat.gensim.keyed import Key, Keyed
from trellis.data import files as text_files
from trellis.data.atomic import writing
from trellis.embeddings.vectors import Vectors
from trellis.errors import FormatError, InputError, UnknownWordError
from trellis.formats import word2vec

__all__ = ["KeyedVectors"]

Floats: TypeAlias = NDArray[np.float32]
Path: TypeAlias = str | os.PathLike[str]

_log = logging.getLogger("trellis")


class KeyedVectors(Keyed, Vectors):
    """gensim's class of word vectors, with attributes of words such as their counts.

    >>> wv = KeyedVectors(2)
    >>> wv["king"] = np.array([3, 1])
    >>> wv.add_vector("man", [3, 0])
    1
    >>> wv.set_vecattr("man", "count", 7)
    >>> len(wv), int(wv.get_vecattr("man", "count")), round(wv.similarity("king", "man"), 4)
    (2, 7, 0.9487)
    """

    def __init__(
        self, vector_size: int, count: int = 0, dtype: Any = np.float32, mapfile_path: Any = None
    ) -> None:
        if isinstance(vector_size, bool) or not isinstance(vector_size, int | np.integer):
            raise InputError(f"vector_size must be an integer, not {vector_size!r}")
        if vector_size < 1:
            raise InputError(f"vector_size must be at least 1, not {vector_size}")
        if np.dtype(dtype) != np.float32:
            raise InputError(f"dtype must be float32, not {dtype}")
        self._set_rows([], np.empty((0, int(vector_size)), np.float32), None)

    @classmethod
    def _from_rows(
        cls, words: list[str], matrix: Floats, unseen: Callable[[str], Floats] | None = None
    ) -> Self:
        vectors = cls.__new__(cls)
        # If a word occurs twice, the first row is used, as in gensim.
        first_row = dict(zip(reversed(words), range(len(words) - 1, -1, -1), strict=True))
        kept_rows = sorted(first_row.values())
        if len(kept_rows) < len(words):
            words, matrix = [words[i] for i in kept_rows], matrix[kept_rows]
        vectors._set_rows(words, np.require(matrix, np.float32, ["C", "A"]), unseen)
        # gensim sets the same counts: they descend, because frequent words come first.
        vectors.expandos["count"] = np.arange(len(words), 0, -1)
        return vectors

    def _set_rows(self, words: list[str], matrix: Floats, unseen: Any) -> None:
        """Replace all words and vectors, and delete the attributes of words."""
        self.words, self.index = list(words), {word: row for row, word in enumerate(words)}
        self.matrix = matrix
        self._buffer = matrix  # (capacity, dimensions); the matrix is a view of its first rows
        self.unseen, self.n_jobs = unseen, None
        self._reset_search()
        self.expandos: dict[str, NDArray[Any]] = {}  # attribute -> value of each word

    def __str__(self) -> str:
        return f"{type(self).__name__}<vector_size={self.vector_size}, {len(self)} keys>"

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):  # gensim's fastText vectors contain every string
            return key in self.index or self.unseen is not None
        return isinstance(key, int | np.integer) and 0 <= int(key) < len(self)

    def __getitem__(self, key: Any) -> Floats:
        """The vector of a word or row number, (dimensions,); a matrix for a list of keys."""
        if isinstance(key, int | np.integer):
            return self.get_vector(key)
        return super().__getitem__(key)

    # ---- new vectors

    def add_vector(self, key: str, vector: ArrayLike) -> int:
        """Add or replace the vector of a word; return its row."""
        self.add_vectors([key], np.asarray(vector)[None], replace=True)
        return self.index[key]

    def add_vectors(
        self, keys: Any, weights: ArrayLike, extras: Any = None, replace: bool = False
    ) -> None:
        """Add words with their vectors (words, dimensions) and attributes ``extras``.

        The vectors of known words are replaced only if ``replace``.
        """
        names = [keys] if isinstance(keys, str) else list(keys)
        try:
            rows = np.asarray(weights, np.float32).reshape(len(names), -1)
        except (TypeError, ValueError):
            raise InputError(f"weights must be a matrix of {len(names)} rows of numbers") from None
        if len(names) and rows.shape[1] != self.vector_size:
            raise InputError(f"weights has {rows.shape[1]} columns: must have {self.vector_size}")
        if not all(isinstance(name, str) for name in names):
            raise InputError("keys must be a list of str")
        # If a new word occurs twice in keys, its first position is used, as in gensim.
        first_position = {
            name: i for i, name in reversed(list(enumerate(names))) if name not in self.index
        }
        new_positions = sorted(first_position.values())
        known_positions = [i for i, name in enumerate(names) if name in self.index]
        self._append([names[i] for i in new_positions], rows[new_positions])
        if replace and known_positions:
            self._writable_matrix()[[self.index[names[i]] for i in known_positions]] = rows[
                known_positions
            ]
        for attr, values in (extras or {}).items():
            for i in new_positions + (known_positions if replace else []):
                self.set_vecattr(names[i], attr, np.asarray(values)[i].item())

    def __setitem__(self, keys: str | list[str], weights: ArrayLike) -> None:
        self.add_vectors(keys, weights, replace=True)

    def _append(self, names: list[str], rows: Floats) -> None:
        """Append new words and their vectors."""
        count = len(self.words)
        if count + len(rows) > len(self._buffer) or not self._buffer.flags.writeable:
            # The capacity grows by half, so adding n words one by one takes time O(n).
            capacity = max(count + len(rows), 3 * count // 2)
            self._buffer = np.empty((capacity, self.vector_size), np.float32)
            self._buffer[:count] = self.matrix
        self._buffer[count : count + len(rows)] = rows
        self.matrix = self._buffer[: count + len(rows)]
        self._reset_search()
        self.words.extend(names)
        self.index.update(zip(names, range(count, count + len(names)), strict=True))

    def _writable_matrix(self) -> Floats:
        """Return the matrix as a writable array. A mapped file is copied."""
        if not self.matrix.flags.writeable:
            self._buffer = self.matrix = np.array(self.matrix)
        self._reset_search()
        return self.matrix

    def unit_normalize_all(self) -> None:
        """Scale all vectors to length one."""
        self._writable_matrix()[:] = self.get_normed_vectors()

    def intersect_word2vec_format(
        self,
        fname: Path,
        lockf: float = 0.0,
        binary: bool = False,
        encoding: str = "utf8",
        unicode_errors: str = "strict",
    ) -> None:
        """Replace the vectors of known words by the vectors in a word2vec file."""
        words, matrix = word2vec.read(fname, errors=unicode_errors)
        if matrix.shape[1] != self.vector_size:
            raise InputError(
                f"{fname}: vectors have {matrix.shape[1]} dimensions, expected {self.vector_size}"
            )
        common_positions = [i for i, word in enumerate(words) if word in self.index]
        self._writable_matrix()[[self.index[words[i]] for i in common_positions]] = matrix[
            common_positions
        ]

    # ---- attributes of words

    @property
    def norms(self) -> Floats:
        """The length of each vector, (words,)."""
        lengths: Floats = np.linalg.norm(self.matrix, axis=1)
        return lengths

    def fill_norms(self, force: bool = False) -> None:
        """With ``force``, delete the norms that searches store, so that they are computed again.

        Call it with ``force=True`` after you have changed the array ``vectors``.
        """
        if force:
            self._reset_search()

    def get_vecattr(self, key: Key, attr: str) -> Any:
        """Return the value of an attribute of a word."""
        if attr not in self.expandos:
            raise UnknownWordError(f"attr is {attr!r}: no word has this attribute")
        row, values = self.get_index(key), self.expandos[attr]
        return values[row] if row < len(values) else values.dtype.type()

    def set_vecattr(self, key: Key, attr: str, val: Any) -> None:
        """Set an attribute of a word; the first value decides the type of all values."""
        row, old_values = self.get_index(key), self.expandos.get(attr)
        if old_values is None:
            values = np.zeros(len(self), object if isinstance(val, str) else type(val))
        else:
            values = np.zeros(len(self), old_values.dtype)
            values[: len(old_values)] = old_values
        try:
            values[row] = val
        except (TypeError, ValueError):
            raise InputError(
                f"val is {val!r}: must have type {values.dtype}, as the other values of {attr!r}"
            ) from None
        self.expandos[attr] = values

    # ---- methods that ignore unknown words, as in gensim; trellis.Vectors raises an error

    def rank_by_centrality(self, words: Sequence[str], use_norm: bool = True) -> list[Any]:
        """Return (score, word) of each known word, highest score first.

        The score is the dot product of the word's vector and the normalised mean.
        """
        known_words = [word for word in words if word in self]
        if len(known_words) < len(words):
            _log.warning(
                "words without vectors are ignored: %s", sorted(set(words) - set(known_words))
            )
        return super().rank_by_centrality(known_words, use_norm)

    def doesnt_match(self, words: Sequence[str]) -> str:
        """Return the known word that is furthest from the mean of the unit vectors."""
        return str(self.rank_by_centrality(words)[-1][1])

    def evaluate_word_analogies(
        self,
        analogies: Path,
        restrict_vocab: int | None = 300_000,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
        similarity_function: str = "most_similar",
    ) -> tuple[float, list[dict[str, Any]]]:
        """Return the accuracy, and the correct and incorrect questions of each section."""
        if similarity_function != "most_similar":
            raise InputError(
                f"similarity_function must be 'most_similar', not {similarity_function!r}"
            )
        return super().evaluate_word_analogies(
            analogies, restrict_vocab, case_insensitive, dummy4unknown
        )

    # ---- files

    @classmethod
    def load_word2vec_format(
        cls, fname: Path, fvocab: Path | None = None, *a: Any, **k: Any
    ) -> Self:
        """Load a word2vec or GloVe file, and counts from a file of "word count" lines."""
        vectors = super().load_word2vec_format(fname, None, *a, **k)
        if fvocab is not None:
            counts = _read_counts(fvocab)
            vectors.expandos["count"] = np.array([counts.get(word, 0) for word in vectors.words])
        return vectors

    def save_word2vec_format(
        self, fname: Path, fvocab: Path | None = None, *a: Any, **k: Any
    ) -> None:
        """Write a word2vec file, and to ``fvocab`` a file of "word count" lines."""
        super().save_word2vec_format(fname, None, *a, **k)
        if fvocab is not None:
            with writing(fvocab) as file:
                file.writelines(
                    f"{word} {self.get_vecattr(word, 'count')}\n".encode() for word in self.words
                )

    def save(self, fname_or_handle: Path, *args: Any, **options: Any) -> None:  # type: ignore[override]
        """Write words and vectors in the ``.trellis`` format. Attributes are not saved."""
        super().save(fname_or_handle, "trellis")

    @classmethod
    def load(cls, fname_or_handle: Path, mmap: str | None = None, **options: Any) -> Self:  # type: ignore[override]
        """Load a file of `save` or of gensim's ``save``. It does not use Python's pickle."""
        return super().load(fname_or_handle, **options)


def _read_counts(path: Path) -> dict[str, int]:
    """Return the count of each word in a file of "word count" lines."""
    counts = {}
    for number, line in enumerate(text_files.lines(path), 1):
        try:
            word, count = line.split()
            counts[word] = int(count)
        except ValueError:
            raise FormatError(f"{path}: line {number} must be a word and its count") from None
    return counts
