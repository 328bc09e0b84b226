"""gensim's `KeyedVectors`: `Vectors` that begin empty and can be added to."""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.compat.gensim.keyed import Key, Keyed
from trellis.data import files as text_files
from trellis.embeddings.vectors import Vectors
from trellis.errors import FormatError, InputError, UnknownWordError
from trellis.formats import word2vec

__all__ = ["KeyedVectors"]

Floats: TypeAlias = NDArray[np.float32]
Path: TypeAlias = str | os.PathLike[str]

_log = logging.getLogger("trellis")


class KeyedVectors(Keyed, Vectors):
    """Words and vectors, and attributes of words such as their counts.

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
            raise InputError(f"vector_size is {vector_size!r}: must be a whole number")
        if vector_size < 1 or np.dtype(dtype) != np.float32:
            raise InputError(f"vectors of {vector_size} numbers of {dtype}: at least 1, of float32")
        self._start([], np.empty((0, int(vector_size)), np.float32), None)

    @classmethod
    def _of(
        cls, words: list[str], matrix: Floats, unseen: Callable[[str], Floats] | None = None
    ) -> Self:
        made = cls.__new__(cls)
        first = dict(zip(reversed(words), range(len(words) - 1, -1, -1), strict=True))
        kept = sorted(first.values())  # of equal words the first
        if len(kept) < len(words):
            words, matrix = [words[i] for i in kept], matrix[kept]
        made._start(words, np.require(matrix, np.float32, ["C", "A"]), unseen)
        made.expandos["count"] = np.arange(len(words), 0, -1)  # as gensim makes them up
        return made

    def _start(self, words: list[str], matrix: Floats, unseen: Any) -> None:
        self.words, self.index = list(words), {word: row for row, word in enumerate(words)}
        self.matrix, self._store = matrix, matrix
        self.unseen, self.n_jobs = unseen, None
        self._forget()
        self.expandos: dict[str, NDArray[Any]] = {}

    def __str__(self) -> str:
        return f"{type(self).__name__}<vector_size={self.vector_size}, {len(self)} keys>"

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            return key in self.index or self.unseen is not None
        return isinstance(key, int | np.integer) and 0 <= int(key) < len(self)

    def __getitem__(self, key: Any) -> Floats:
        """The vector of a word, or of a row's number; the matrix of a list of them."""
        return (
            self.get_vector(key) if isinstance(key, int | np.integer) else super().__getitem__(key)
        )

    # ---- new vectors

    def add_vector(self, key: str, vector: ArrayLike) -> int:
        """One more; its row."""
        self.add_vectors([key], np.asarray(vector)[None], replace=True)
        return self.index[key]

    def add_vectors(
        self, keys: Any, weights: ArrayLike, extras: Any = None, replace: bool = False
    ) -> None:
        """Some more; of words that have one already the vectors change only with ``replace``."""
        names = [keys] if isinstance(keys, str) else list(keys)
        try:
            rows = np.asarray(weights, np.float32).reshape(len(names), -1)
        except (TypeError, ValueError):
            raise InputError(f"{len(names)} words cannot have these weights") from None
        if len(names) and rows.shape[1] != self.vector_size:
            raise InputError(f"vectors of {rows.shape[1]} numbers, of {self.vector_size}")
        if not all(isinstance(name, str) for name in names):
            raise InputError("keys must be words")
        new = {name: i for i, name in reversed(list(enumerate(names))) if name not in self.index}
        places = sorted(new.values())
        old = [i for i, name in enumerate(names) if name in self.index]
        self._append([names[i] for i in places], rows[places])
        if replace and old:
            self._writable()[[self.index[names[i]] for i in old]] = rows[old]
        for attr, values in (extras or {}).items():
            for i in places + (old if replace else []):
                self.set_vecattr(names[i], attr, np.asarray(values)[i].item())

    def __setitem__(self, keys: str | list[str], weights: ArrayLike) -> None:
        self.add_vectors(keys, weights, replace=True)

    def _append(self, names: list[str], rows: Floats) -> None:
        count = len(self.words)
        if count + len(rows) > len(self._store) or not self._store.flags.writeable:
            room = max(count + len(rows), 3 * count // 2)
            self._store = np.empty((room, self.vector_size), np.float32)
            self._store[:count] = self.matrix
        self._store[count : count + len(rows)] = rows
        self.matrix = self._store[: count + len(rows)]
        self._forget()
        self.words.extend(names)
        self.index.update(zip(names, range(count, count + len(names)), strict=True))

    def _writable(self) -> Floats:
        if not self.matrix.flags.writeable:
            self._store = self.matrix = np.array(self.matrix)
        self._forget()
        return self.matrix

    def unit_normalize_all(self) -> None:
        """Let all vectors have length one."""
        self._writable()[:] = self.get_normed_vectors()

    def intersect_word2vec_format(
        self,
        fname: Path,
        lockf: float = 0.0,
        binary: bool = False,
        encoding: str = "utf8",
        unicode_errors: str = "strict",
    ) -> None:
        """Take the vectors of a word2vec file for those words that are here already."""
        words, matrix = word2vec.read(fname, errors=unicode_errors)
        if matrix.shape[1] != self.vector_size:
            raise InputError(
                f"{fname}: vectors of {matrix.shape[1]} numbers, of {self.vector_size}"
            )
        common = [i for i, word in enumerate(words) if word in self.index]
        self._writable()[[self.index[words[i]] for i in common]] = matrix[common]

    # ---- attributes of words

    @property
    def norms(self) -> Floats:
        """The length of each vector."""
        lengths: Floats = np.linalg.norm(self.matrix, axis=1)
        return lengths

    def fill_norms(self, force: bool = False) -> None:
        """Make lengths anew; needed where ``vectors`` was written to."""
        if force:
            self._forget()

    def get_vecattr(self, key: Key, attr: str) -> Any:
        """An attribute of a word."""
        if attr not in self.expandos:
            raise UnknownWordError(f"no word has the attribute {attr!r}")
        row, values = self.get_index(key), self.expandos[attr]
        return values[row] if row < len(values) else values.dtype.type()

    def set_vecattr(self, key: Key, attr: str, val: Any) -> None:
        """Give a word an attribute; the first value says of which type all are."""
        row, old = self.get_index(key), self.expandos.get(attr)
        dtype = (
            np.dtype(object if isinstance(val, str) else type(val)) if old is None else old.dtype
        )
        values = np.zeros(len(self), dtype)
        if old is not None:
            values[: len(old)] = old
        try:
            values[row] = val
        except (TypeError, ValueError):
            raise InputError(f"{attr} is {val!r}: the others are of type {dtype}") from None
        self.expandos[attr] = values

    # ---- answers that gensim gives where trellis has an error

    def rank_by_centrality(self, words: Sequence[str], use_norm: bool = True) -> list[Any]:
        """(product with the mean direction, word), the most central first; unknown words aside."""
        known = [word for word in words if word in self]
        if len(known) < len(words):
            _log.warning("words without vectors are left out: %s", sorted(set(words) - set(known)))
        return super().rank_by_centrality(known, use_norm)

    def doesnt_match(self, words: Sequence[str]) -> str:
        """The word that is furthest from the mean direction of all; unknown words aside."""
        return str(self.rank_by_centrality(words)[-1][1])

    def evaluate_word_analogies(
        self,
        analogies: Path,
        restrict_vocab: int | None = 300_000,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
        similarity_function: str = "most_similar",
    ) -> tuple[float, list[dict[str, Any]]]:
        """As `Vectors` has it."""
        if similarity_function != "most_similar":
            raise InputError(f"similarity_function={similarity_function!r}: only 'most_similar'")
        return super().evaluate_word_analogies(
            analogies, restrict_vocab, case_insensitive, dummy4unknown
        )

    # ---- files

    @classmethod
    def load_word2vec_format(
        cls, fname: Path, fvocab: Path | None = None, *a: Any, **k: Any
    ) -> Self:
        """Vectors of a word2vec or GloVe file, and counts from a file of "word count" lines."""
        made = super().load_word2vec_format(fname, None, *a, **k)
        if fvocab is not None:
            counts = _counts(fvocab)
            made.expandos["count"] = np.array([counts.get(word, 0) for word in made.words])
        return made

    def save_word2vec_format(
        self, fname: Path, fvocab: Path | None = None, *a: Any, **k: Any
    ) -> None:
        """Write a word2vec file, and with ``fvocab`` one of "word count" lines."""
        super().save_word2vec_format(fname, None, *a, **k)
        if fvocab is not None:
            with open(fvocab, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(
                    f"{word} {self.get_vecattr(word, 'count')}\n" for word in self.words
                )

    def save(self, fname_or_handle: Path, *args: Any, **options: Any) -> None:  # type: ignore[override]
        """Write words and vectors as a ``.trellis`` file, by any name; attributes are lost."""
        super().save(fname_or_handle, "trellis")

    @classmethod
    def load(cls, fname_or_handle: Path, mmap: str | None = None, **options: Any) -> Self:  # type: ignore[override]
        """From what `save` wrote, and what gensim did; nothing is unpickled."""
        return super().load(fname_or_handle, **options)


def _counts(path: Path) -> dict[str, int]:
    counts = {}
    for number, line in enumerate(text_files.lines(path), 1):
        try:
            word, count = line.split()
            counts[word] = int(count)
        except ValueError:
            raise FormatError(f"{path}: line {number} is not a word and its count") from None
    return counts
