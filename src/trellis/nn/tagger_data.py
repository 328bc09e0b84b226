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
from trellis.features.rows import lengths_of
from trellis.nn.words_base import WordEncoder

__all__ = ["Batch", "Corpus", "Epoch", "bucketed", "make_corpus", "words_of"]

Integers = NDArray[np.int64]
_MOVED = 64  # batches that go to the device at a time


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
    device: torch.device
    tags: Integers | None = None
    allowed: Tensor | None = None
    """(tokens, labels) which labels a token may have, if some are not known."""

    @property
    def tokens(self) -> int:
        """Of all sequences."""
        return len(self.form)


def make_corpus(
    words: Sequence[str], lengths: Integers, encoder: WordEncoder, device: torch.device
) -> Corpus:
    """Number the unique words, and let the encoder read each of them once."""
    number: dict[str, int] = {}
    form = np.fromiter((number.setdefault(w, len(number)) for w in words), np.int64, len(words))
    rows = encoder.rows(list(number))
    used = [_used(row.numpy()) for row in rows]
    begin = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    return Corpus(lengths, begin, form, tuple(row.to(device) for row in rows), used, device)


def _used(table: Integers) -> Integers:
    """Columns up to the last that is not 0, of each row."""
    backwards = (table != 0)[:, ::-1]
    last = table.shape[1] - backwards.argmax(axis=1)
    return np.where(backwards.any(axis=1), last, 1)


def bucketed(lengths: Integers, size: int, generator: np.random.Generator | None) -> list[Integers]:
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
    row: Tensor
    """(N,) which of the B sequences it is in."""
    sizes: Tensor
    """(T,) how many sequences go as far as each step; always on the CPU."""
    lengths: Tensor
    """(B,)."""
    tags: Tensor | None
    """(B, T), or (B, T, labels) of those that each token may have."""
    sequences: Integers
    """Which sequences they are, longest first."""


class Epoch:
    """Batches of a corpus, whose integers are moved to the device many batches at a time."""

    def __init__(self, corpus: Corpus, parts: Sequence[Integers]) -> None:
        self.corpus, self.parts = corpus, parts
        self._forms = _Unique(len(corpus.used[0]) if corpus.used else 0)

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Batch]:
        for begin in range(0, len(self.parts), _MOVED):
            made = [self._part(part) for part in self.parts[begin : begin + _MOVED]]
            arrays = iter(self._moved([array for part in made for array in part.arrays]))
            for part in made:
                yield self._batch(part, [next(arrays) for _ in part.arrays])

    def _moved(self, arrays: list[Integers]) -> list[Tensor]:
        """The same integers on the device, in one copy; each begins at a multiple of 16 bytes."""
        sizes = [len(array) + len(array) % 2 for array in arrays]
        joined = np.zeros(sum(sizes), np.int64)
        begin = 0
        for array, size in zip(arrays, sizes, strict=True):
            joined[begin : begin + len(array)] = array
            begin += size
        there = torch.from_numpy(joined)
        if self.corpus.device.type == "cuda":
            there = there.pin_memory().to(self.corpus.device, non_blocking=True)
        parts = torch.split(there, sizes)
        return [
            part[: len(array)] if len(array) % 2 else part
            for part, array in zip(parts, arrays, strict=True)
        ]

    def _part(self, sequences: Integers) -> "_Part":
        corpus = self.corpus
        lengths = corpus.lengths[sequences]
        order = np.argsort(-lengths, kind="stable")
        sequences, lengths = sequences[order], lengths[order]
        steps = np.arange(int(lengths[0]))[:, None]
        inside = steps < lengths
        token = (corpus.begin[sequences] + steps)[inside]
        row = np.broadcast_to(np.arange(len(lengths)), inside.shape)[inside]
        place = row * len(steps) + np.broadcast_to(steps, inside.shape)[inside]
        unique, word = self._forms(corpus.form[token])
        arrays = [word, place, row, unique, lengths]
        if corpus.allowed is not None:
            arrays.append(token)
        elif corpus.tags is not None:
            tags = np.zeros(inside.size, np.int64)
            tags[place] = corpus.tags[token]
            arrays.append(tags)
        columns = [int(used[unique].max()) for used in corpus.used]
        return _Part(sequences, arrays, inside.sum(axis=1), columns)

    def _batch(self, part: "_Part", own: list[Tensor]) -> Batch:
        corpus = self.corpus
        word, place, row, unique, lengths, *others = own
        rows = tuple(
            table.index_select(0, unique)[:, :columns]
            for table, columns in zip(corpus.rows, part.columns, strict=True)
        )
        tags = None
        if corpus.allowed is not None:
            shape = (len(lengths), len(part.sizes), corpus.allowed.shape[1])
            tags = torch.ones(shape, dtype=torch.bool, device=corpus.device).view(-1, shape[2])
            tags = tags.index_copy_(0, place, corpus.allowed.index_select(0, others[0])).view(shape)
        elif corpus.tags is not None:
            tags = others[0].view(len(lengths), -1)
        sizes = torch.from_numpy(part.sizes)
        return Batch(rows, word, place, row, sizes, lengths, tags, part.sequences)


class _Part(NamedTuple):
    """A batch that is not yet on the device."""

    sequences: Integers
    arrays: list[Integers]
    sizes: Integers
    columns: list[int]


class _Unique:
    """``unique, place = self(ids)``, ids below `count`: as np.unique, but without sorting."""

    def __init__(self, count: int) -> None:
        self._mark = np.zeros(count, np.int64)

    def __call__(self, ids: Integers) -> tuple[Integers, Integers]:
        mark, order = self._mark, np.arange(len(ids))
        mark[ids] = order
        unique = ids[mark[ids] == order]  # of equal ones, that which was written last
        mark[unique] = order[: len(unique)]
        return unique, mark[ids]
