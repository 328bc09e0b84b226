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
from trellis.nn.words.base import WordEncoder

__all__ = ["Batch", "Corpus", "Epoch", "Padded", "bucketed", "make_corpus", "words_of"]

Integers = NDArray[np.int64]
_MOVED = 64  # batches that go to the device at a time
_ROUND = 16  # what the steps of a padded batch are a multiple of
_ROOM = 8192  # tokens; a larger batch keeps a card busy, and its padding would be large too


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

    def rows_of(self, unique: Tensor, columns: list[int]) -> tuple[Tensor, ...]:
        """Those of some words, for each encoder, up to a column."""
        each = zip(self.rows, columns, strict=True)
        return tuple(table.index_select(0, unique)[:, :most] for table, most in each)


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
    walk: Tensor
    """(T + B,) where the tokens of each step begin, then the lengths."""
    tags: Tensor | None
    """(B, T), or (B, T, labels) of those that each token may have."""
    tokens: int | Tensor
    """N; of a padded batch only so many of the tokens are real."""
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
        for part, own in self._parts(None):
            yield self._batch(part, own)

    def padded(self, rows: int) -> "Iterator[Batch | Padded]":
        """The same, those of so many sequences padded to sizes that others have as well."""
        for part, own in self._parts(rows):
            yield self._batch(part, own) if part.room is None else Padded(own[0], part.room)

    def _parts(self, rows: int | None) -> "Iterator[tuple[_Part, list[Tensor]]]":
        for begin in range(0, len(self.parts), _MOVED):
            made = [self._part(part, rows) for part in self.parts[begin : begin + _MOVED]]
            arrays = iter(self._moved([array for part in made for array in part.arrays]))
            for part in made:
                yield part, [next(arrays) for _ in part.arrays]

    def _moved(self, arrays: list[Integers]) -> list[Tensor]:
        """The same integers on the device, in one copy."""
        joined, sizes = _joined(arrays)
        there = torch.from_numpy(joined)
        if self.corpus.device.type == "cuda":
            there = there.pin_memory().to(self.corpus.device, non_blocking=True)
        return _split(there, sizes)

    def _part(self, sequences: Integers, padded: int | None) -> "_Part":
        corpus = self.corpus
        lengths = corpus.lengths[sequences]
        order = np.argsort(-lengths, kind="stable")
        sequences, lengths = sequences[order], lengths[order]
        longest = int(lengths[0])
        room = None
        width = -(-longest // _ROUND) * _ROUND
        labelled = corpus.tags is not None and corpus.allowed is None
        if len(lengths) == padded and labelled and padded * width <= _ROOM:
            room = Room(padded, width)
        steps = np.arange(longest)[:, None]
        inside = steps < lengths
        token = (corpus.begin[sequences] + steps)[inside]
        row = np.broadcast_to(np.arange(len(lengths)), inside.shape)[inside]
        width = longest if room is None else room.width
        place = row * width + np.broadcast_to(steps, inside.shape)[inside]
        unique, word = self._forms(corpus.form[token])
        sizes = inside.sum(axis=1)
        walk = np.concatenate([np.cumsum(sizes) - sizes, lengths])
        arrays = [word, place, row, unique, lengths, walk]
        if corpus.allowed is not None:
            arrays.append(token)
        elif corpus.tags is not None:
            tags = np.zeros(len(lengths) * width, np.int64)
            tags[place] = corpus.tags[token]
            arrays.append(tags)
        if room is not None:
            arrays = [room.filled(arrays)]
        columns = [int(used[unique].max()) for used in corpus.used]
        return _Part(sequences, arrays, sizes, columns, room)

    def _batch(self, part: "_Part", own: list[Tensor]) -> Batch:
        corpus = self.corpus
        word, place, row, unique, lengths, walk, *others = own
        rows = corpus.rows_of(unique, part.columns)
        tags = None
        if corpus.allowed is not None:
            shape = (len(lengths), len(part.sizes), corpus.allowed.shape[1])
            tags = torch.ones(shape, dtype=torch.bool, device=corpus.device).view(-1, shape[2])
            tags = tags.index_copy_(0, place, corpus.allowed.index_select(0, others[0])).view(shape)
        elif corpus.tags is not None:
            tags = others[0].view(len(lengths), -1)
        sizes = torch.from_numpy(part.sizes)
        given = (rows, word, place, row, sizes, lengths, walk, tags)
        return Batch(*given, len(word), part.sequences)


class Room(NamedTuple):
    """The sizes of a padded batch, which are those of all that is computed from it."""

    rows: int
    width: int
    """The steps of each sequence, with its padding."""

    def filled(self, arrays: list[Integers]) -> Integers:
        """All of a batch in one array, whose places depend on the room alone.

        Padding takes the places that are left over, so that each place has one token.
        """
        word, place, row, unique, lengths, walk, tags = arrays
        free = np.ones(self.rows * self.width, np.bool_)
        free[place] = False
        whole = np.concatenate([place, np.flatnonzero(free)])
        steps = len(walk) - len(lengths)
        begins = np.concatenate([walk[:steps], np.zeros(self.width - steps, np.int64), lengths])
        given = [word, whole, row, unique, lengths, begins, tags, np.array([len(word)])]
        wide = [np.zeros(size, np.int64) for size in self.sizes]
        for array, own in zip(wide, given, strict=True):
            array[: len(own)] = own
        return _joined(wide)[0]

    @property
    def sizes(self) -> list[int]:
        """Of words, places, rows, unique words, lengths, walk, tags, and the number of tokens."""
        area = self.rows * self.width
        return [area, area, area, area, self.rows, self.width + self.rows, area, 1]


class Padded(NamedTuple):
    """A batch in one tensor, of a size that others have as well."""

    integers: Tensor
    room: Room

    def batch(self, corpus: Corpus) -> Batch:
        """As the network reads it: parts of the integers, and rows of words."""
        word, place, row, unique, lengths, walk, tags, count = _split(
            self.integers, self.room.sizes
        )
        rows = corpus.rows_of(unique, [table.shape[1] for table in corpus.rows])
        sizes = torch.zeros(self.room.width, dtype=torch.int64)  # only their number is known
        given = (rows, word, place, row, sizes, lengths, walk, tags.view(self.room))
        return Batch(*given, count[0], np.empty(0, np.int64))


def _joined(arrays: list[Integers]) -> tuple[Integers, list[int]]:
    """One after the other, and their sizes; each begins at a multiple of 16 bytes."""
    sizes = [len(array) for array in arrays]
    joined = np.zeros(sum(size + size % 2 for size in sizes), np.int64)
    begin = 0
    for array, size in zip(arrays, sizes, strict=True):
        joined[begin : begin + size] = array
        begin += size + size % 2
    return joined, sizes


def _split(joined: Tensor, sizes: list[int]) -> list[Tensor]:
    """What `_joined` has put together."""
    parts = torch.split(joined, [size + size % 2 for size in sizes])
    return [part[:size] if size % 2 else part for part, size in zip(parts, sizes, strict=True)]


class _Part(NamedTuple):
    """A batch that is not yet on the device."""

    sequences: Integers
    arrays: list[Integers]
    sizes: Integers
    columns: list[int]
    room: Room | None


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
