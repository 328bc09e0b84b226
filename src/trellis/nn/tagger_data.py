"""Sentences as integers: made once, moved to the device once, cut into batches of like length.

A batch is packed: the first tokens of all its sequences, then all second ones, and so on, longest
sequence first, so that no step of a recurrent network is spent on padding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trellis.errors import InputError
from trellis.features.rows import Rows, lengths_of
from trellis.nn.words_base import WordEncoder

__all__ = ["Batch", "Corpus", "Epoch", "bucketed", "make_corpus", "words_of"]

Integers = NDArray[np.int64]


def words_of(X: Any, column: int | str = 0) -> tuple[list[str], Integers]:
    """The words of all tokens, and how many each sequence has.

    >>> words_of([[("El", "DA"), ("perro", "NC")], ["ladra"]])
    (['El', 'perro', 'ladra'], array([2, 1]))
    """
    lengths = lengths_of(X)
    flat = list(chain.from_iterable(X))
    if not {*map(type, flat)} <= {str}:
        flat = [_word(token, column) for token in flat]
    if {*map(type, flat)} <= {str}:
        return flat, lengths
    for i, x in enumerate(X):
        for t, token in enumerate(x):
            if not isinstance(_word(token, column), str):
                raise InputError(
                    f"sequence {i}, position {t}: {token!r:.60} has no word at column {column!r}"
                )
    return [str(word) for word in flat], lengths


def _word(token: Any, column: int | str) -> Any:
    if isinstance(token, str):
        return token
    try:
        return token[column]
    except (TypeError, KeyError, IndexError):
        return None


@dataclass(eq=False)
class Corpus:
    """All that a network reads of some sequences; integers of words are on the device."""

    lengths: Integers
    begin: Integers
    """The first token of each sequence."""
    form: Integers
    """Which of the unique words each token is."""
    rows: tuple[Tensor, ...]
    """(unique words, k) of each encoder."""
    used: list[Integers]
    """How many columns of its rows each word uses."""
    tags: Integers | None = None
    features: Rows | None = None
    device: torch.device = torch.device("cpu")

    @property
    def tokens(self) -> int:
        """Of all sequences."""
        return len(self.form)


def make_corpus(
    words: Sequence[str],
    lengths: Integers,
    encoder: WordEncoder,
    device: torch.device,
    tags: Integers | None = None,
    features: Rows | None = None,
) -> Corpus:
    """Number the unique words, and let the encoder read each of them once."""
    number: dict[str, int] = {}
    form = np.fromiter((number.setdefault(w, len(number)) for w in words), np.int64, len(words))
    rows = encoder.rows(list(number))
    used = [_used(row.numpy()) for row in rows]
    begin = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    there = tuple(row.to(device) for row in rows)
    return Corpus(lengths, begin, form, there, used, tags, features, device)


def _used(table: Integers) -> Integers:
    """Columns up to the last that is not 0, of each row."""
    backwards = (table != 0)[:, ::-1]
    last = table.shape[1] - backwards.argmax(axis=1)
    return np.where(backwards.any(axis=1), last, 1)


def bucketed(
    lengths: Integers, size: int, generator: np.random.Generator | None
) -> list[Integers]:
    """Sequences of like length together, `size` at a time, in an order that is drawn."""
    noise = np.zeros(len(lengths)) if generator is None else generator.random(len(lengths))
    # sequences whose lengths differ by an eighth may change places
    order = np.argsort(lengths * (1.0 + 0.125 * noise) + noise, kind="stable")
    parts = np.split(order, np.arange(size, len(order), size))
    if generator is not None:
        parts = [parts[i] for i in generator.permutation(len(parts))]
    return parts


class Batch(NamedTuple):
    """Some sequences, packed: N tokens of B sequences, the longest of which has T."""

    rows: tuple[Tensor, ...]
    """Integers of the unique words, for each encoder."""
    word: Tensor
    """(N,) which of the unique words a token is."""
    place: Tensor
    """(N,) where the token is in (B · T)."""
    sizes: Tensor
    """(T,) how many sequences go as far as each step; always on the CPU."""
    lengths: Tensor
    """(B,)."""
    tags: Tensor | None
    """(B, T)."""
    features: tuple[Tensor, Tensor, Tensor | None] | None
    """Attributes of all tokens, where those of each token begin, and their values."""
    sequences: Integers
    """Which sequences they are, longest first."""


class Epoch:
    """Batches of a corpus, whose integers are moved to the device all at once."""

    def __init__(self, corpus: Corpus, parts: Sequence[Integers]) -> None:
        self.corpus = corpus
        self._marks = np.zeros(len(corpus.used[0]) if corpus.used else 0, np.int64)
        self._parts = [self._part(part) for part in parts]
        flat = [array for part in self._parts for array in part.arrays]
        joined = torch.from_numpy(np.concatenate(flat)) if flat else torch.zeros(0)
        if corpus.device.type == "cuda":
            joined = joined.pin_memory().to(corpus.device, non_blocking=True)
        self._there = joined

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Batch]:
        begin = 0
        for part in self._parts:
            sizes = [len(array) for array in part.arrays]
            own = self._there[begin : begin + sum(sizes)].split(sizes)
            begin += sum(sizes)
            yield self._batch(part, own)

    def _part(self, sequences: Integers) -> "_Part":
        corpus = self.corpus
        lengths = corpus.lengths[sequences]
        order = np.argsort(-lengths, kind="stable")
        sequences, lengths = sequences[order], lengths[order]
        steps = np.arange(int(lengths[0]))[:, None]
        inside = steps < lengths
        token = (corpus.begin[sequences] + steps)[inside]
        place = (np.arange(len(lengths)) * len(steps) + steps)[inside]
        form = corpus.form[token]
        # each unique word once: of equal ones, that which was written last stays
        self._marks[form] = np.arange(len(form))
        unique = form[self._marks[form] == np.arange(len(form))]
        self._marks[unique] = np.arange(len(unique))
        arrays = [self._marks[form], place, unique, lengths]
        if corpus.tags is not None:
            tags = np.zeros(inside.size, np.int64)
            tags[place] = corpus.tags[token]
            arrays.append(tags)
        columns = [int(used[unique].max()) for used in corpus.used]
        return _Part(sequences, arrays, inside.sum(axis=1), columns)

    def _batch(self, part: "_Part", own: Sequence[Tensor]) -> Batch:
        word, place, unique, lengths = own[:4]
        rows = tuple(
            row.index_select(0, unique)[:, :columns]
            for row, columns in zip(self.corpus.rows, part.columns, strict=True)
        )
        tags = own[4].view(len(lengths), -1) if len(own) > 4 else None
        sizes = torch.from_numpy(part.sizes)
        return Batch(rows, word, place, sizes, lengths, tags, None, part.sequences)


class _Part(NamedTuple):
    """A batch that is not yet on the device."""

    sequences: Integers
    arrays: list[Integers]
    sizes: Integers
    columns: list[int]
