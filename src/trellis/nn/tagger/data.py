"""Sentences as integers, which are computed once, and batches of sentences of similar length.

A batch is packed: it has the first tokens of all its sequences, then all second tokens, and so on,
longest sequence first. So a recurrent network spends no step on padding.
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

__all__ = [
    "Batch",
    "Corpus",
    "Epoch",
    "PaddedBatch",
    "PaddedShape",
    "bucket_by_length",
    "build_corpus",
    "read_words",
]

Integers = NDArray[np.int64]
# batches copied to the device together: starting a copy takes longer than copying one batch
_BATCHES_PER_COPY = 64
# the number of steps of a padded batch is rounded up to a multiple of 16, so that few shapes occur
_STEP_MULTIPLE = 16
# The largest batch that is padded for a CUDA graph, in tokens. A larger one keeps a GPU busy
# without a graph, and its padding would cost more time than the graph saves.
_MAX_PADDED_TOKENS = 8192


def read_words(X: Any, column: int | str = 0) -> tuple[list[str], Integers]:
    """Return the words of all tokens, and the length of each sequence.

    >>> read_words([[("El", "DA"), ("perro", "NC")], ["ladra"]])
    (['El', 'perro', 'ladra'], array([2, 1]))
    """
    lengths = lengths_of(X)
    token_words = list(chain.from_iterable(X))
    if not {*map(type, token_words)} <= {str}:
        token_words = [_get_word(token, column) for token in token_words]
    if {*map(type, token_words)} <= {str}:
        return token_words, lengths
    for i, sequence in enumerate(X):
        for t, token in enumerate(sequence):
            if not isinstance(_get_word(token, column), str):
                problem = f"{token!r:.60} has no word in column {column!r}"
                raise InputError(f"sequence {{sequence}}, position {t}: {problem}", sequence=i)
    return [str(word) for word in token_words], lengths


def _get_word(token: Any, column: int | str) -> Any:
    """Return the word of a token, or None if the token has no such column."""
    if isinstance(token, str):
        return token
    try:
        return token[column]
    except (TypeError, KeyError, IndexError):
        return None


@dataclass(eq=False)
class Corpus:
    """Sequences as the network reads them; the integers of words are on the device."""

    lengths: Integers
    """(sequences,)"""
    first_token: Integers
    """(sequences,) index of the first token of each sequence."""
    word_id: Integers
    """(tokens,) index of each token's word among the unique words."""
    rows: tuple[Tensor, ...]
    """One tensor (unique words, k) per word encoder."""
    used_columns: list[Integers]
    """One array (unique words,) per word encoder: number of columns before the padding."""
    device: torch.device
    tags: Integers | None = None
    """(tokens,) label index of each token."""
    allowed: Tensor | None = None
    """(tokens, labels) bool: the labels a token may have, if some labels are unknown."""
    weights: Tensor | None = None
    """(sequences,) the weight of each sequence in the loss, on the device; None if all are 1."""

    @property
    def tokens(self) -> int:
        """Number of tokens of all sequences."""
        return len(self.word_id)

    def rows_of(self, unique: Tensor, columns: list[int]) -> tuple[Tensor, ...]:
        """Return the rows of some words for each encoder, cut to ``columns[n]`` for encoder n."""
        return tuple(
            table.index_select(0, unique)[:, :count]
            for table, count in zip(self.rows, columns, strict=True)
        )


def build_corpus(
    words: Sequence[str], lengths: Integers, encoder: WordEncoder, device: torch.device
) -> Corpus:
    """Number the unique words, and convert each of them to integers once."""
    ids: dict[str, int] = {}
    word_id = np.fromiter((ids.setdefault(word, len(ids)) for word in words), np.int64, len(words))
    rows = encoder.rows(list(ids))
    used_columns = [_count_columns(row.numpy()) for row in rows]
    first_token = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    device_rows = tuple(row.to(device) for row in rows)
    return Corpus(lengths, first_token, word_id, device_rows, used_columns, device)


def _count_columns(table: Integers) -> Integers:
    """Return the number of columns of each row up to its last nonzero value, at least 1."""
    reversed_nonzero = (table != 0)[:, ::-1]
    last_column = table.shape[1] - reversed_nonzero.argmax(axis=1)
    return np.where(reversed_nonzero.any(axis=1), last_column, 1)


def bucket_by_length(
    lengths: Integers, size: int, generator: np.random.Generator | None
) -> list[Integers]:
    """Group sequences of similar length, ``size`` per group, in random order.

    Without a generator, the groups are in order of length.
    """
    noise = np.zeros(len(lengths)) if generator is None else generator.random(len(lengths))
    # The noise is at most an eighth of the length, plus 1. It differs between epochs, so that a
    # sequence is not always grouped with the same sequences of similar length.
    order = np.argsort(lengths * (1.0 + 0.125 * noise) + noise, kind="stable")
    groups = np.split(order, np.arange(size, len(order), size))
    if generator is not None:
        groups = [groups[i] for i in generator.permutation(len(groups))]
    return groups


class Batch(NamedTuple):
    """B packed sequences with N tokens; the longest sequence has T tokens."""

    rows: tuple[Tensor, ...]
    """One tensor (unique words, k) per word encoder."""
    word: Tensor
    """(N,) index of the token's word among the unique words of the batch."""
    cell: Tensor
    """(N,) position of the token in the flattened (B, T) grid."""
    row: Tensor
    """(N,) sequence of the token, 0 ≤ row < B."""
    sizes: Tensor
    """(T,) number of sequences at each step; always on the CPU."""
    lengths: Tensor
    """(B,)"""
    packing: Tensor
    """(T + B,) index of the first token of each step, then the lengths."""
    tags: Tensor | None
    """(B, T) label indices, or (B, T, labels) bool: the labels each token may have."""
    tokens: int | Tensor
    """Number of tokens without padding: N, or less in a padded batch."""
    sequences: Integers
    """(B,) indices of the sequences in the corpus, longest first."""


class Epoch:
    """The batches of a corpus; many batches are copied to the device together."""

    def __init__(self, corpus: Corpus, groups: Sequence[Integers]) -> None:
        self.corpus, self.groups = corpus, groups
        self._find_unique = _UniqueFinder(len(corpus.used_columns[0]) if corpus.used_columns else 0)

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[Batch]:
        for host, tensors in self._copy_batches(None):
            yield self._build_batch(host, tensors)

    def padded(self, n_rows: int) -> "Iterator[Batch | PaddedBatch]":
        """Yield the batches; batches of ``n_rows`` sequences are padded to one of a few shapes."""
        for host, tensors in self._copy_batches(n_rows):
            if host.shape is None:
                yield self._build_batch(host, tensors)
            else:
                yield PaddedBatch(tensors[0], host.shape)

    def _copy_batches(self, n_rows: int | None) -> "Iterator[tuple[_HostBatch, list[Tensor]]]":
        for begin in range(0, len(self.groups), _BATCHES_PER_COPY):
            groups = self.groups[begin : begin + _BATCHES_PER_COPY]
            batches = [self._build_host_batch(group, n_rows) for group in groups]
            tensors = iter(self._to_device([array for host in batches for array in host.arrays]))
            for host in batches:
                yield host, [next(tensors) for _ in host.arrays]

    def _to_device(self, arrays: list[Integers]) -> list[Tensor]:
        """Copy integer arrays to the device in a single transfer."""
        joined_array, sizes = _join(arrays)
        tensor = torch.from_numpy(joined_array)
        if self.corpus.device.type == "cuda":
            tensor = tensor.pin_memory().to(self.corpus.device, non_blocking=True)
        return _split(tensor, sizes)

    def _build_host_batch(self, sequences: Integers, n_padded_rows: int | None) -> "_HostBatch":
        corpus = self.corpus
        order = np.argsort(-corpus.lengths[sequences], kind="stable")
        sequences = sequences[order]
        lengths = corpus.lengths[sequences]
        shape = self._choose_shape(lengths, n_padded_rows)
        n_steps = int(lengths[0]) if shape is None else shape.n_steps
        step_index = np.arange(int(lengths[0]))[:, None]
        # (T, B); read row by row, it is the packed order of tokens
        is_inside = step_index < lengths
        token = (corpus.first_token[sequences] + step_index)[is_inside]
        row_of_token = np.broadcast_to(np.arange(len(lengths)), is_inside.shape)[is_inside]
        cell = row_of_token * n_steps + np.broadcast_to(step_index, is_inside.shape)[is_inside]
        unique, word = self._find_unique(corpus.word_id[token])
        sizes = is_inside.sum(axis=1)
        packing = np.concatenate([np.cumsum(sizes) - sizes, lengths])
        arrays = [word, cell, row_of_token, unique, lengths, packing]
        if corpus.allowed is not None:
            arrays.append(token)
        elif corpus.tags is not None:
            tags = np.zeros(len(lengths) * n_steps, np.int64)
            tags[cell] = corpus.tags[token]
            arrays.append(tags)
        if shape is not None:
            arrays = [shape.pad_and_join(arrays)]
        columns = [int(column_counts[unique].max()) for column_counts in corpus.used_columns]
        return _HostBatch(sequences, arrays, sizes, columns, shape)

    def _choose_shape(self, lengths: Integers, n_rows: int | None) -> "PaddedShape | None":
        """Return the shape that a batch is padded to, or None if it stays packed."""
        n_steps = -(-int(lengths[0]) // _STEP_MULTIPLE) * _STEP_MULTIPLE
        is_labelled = self.corpus.tags is not None and self.corpus.allowed is None
        if len(lengths) == n_rows and is_labelled and n_rows * n_steps <= _MAX_PADDED_TOKENS:
            return PaddedShape(n_rows, n_steps)
        return None

    def _build_batch(self, host: "_HostBatch", tensors: list[Tensor]) -> Batch:
        corpus = self.corpus
        word, cell, row, unique, lengths, packing, *label_tensors = tensors
        rows = corpus.rows_of(unique, host.columns)
        tags = None
        if corpus.allowed is not None:
            shape = (len(lengths), len(host.sizes), corpus.allowed.shape[1])
            tags = torch.ones(shape, dtype=torch.bool, device=corpus.device).view(-1, shape[2])
            tags = tags.index_copy_(0, cell, corpus.allowed.index_select(0, label_tensors[0])).view(
                shape
            )
        elif corpus.tags is not None:
            tags = label_tensors[0].view(len(lengths), -1)
        sizes = torch.from_numpy(host.sizes)
        return Batch(
            rows, word, cell, row, sizes, lengths, packing, tags, len(word), host.sequences
        )


class PaddedShape(NamedTuple):
    """The shape of a padded batch, which determines all sizes computed from it."""

    n_rows: int
    n_steps: int
    """Steps of each sequence, padding included."""

    def pad_and_join(self, arrays: list[Integers]) -> Integers:
        """Join the arrays of a batch into one array.

        Its layout depends only on this `PaddedShape`. Padding tokens get the unused cells of the
        grid, so that each cell has one token. The result of ``index_copy_`` would be undefined if a
        cell had two tokens.
        """
        word, cell, row, unique, lengths, packing, tags = arrays
        is_unused = np.ones(self.n_rows * self.n_steps, np.bool_)
        is_unused[cell] = False
        cells = np.concatenate([cell, np.flatnonzero(is_unused)])
        n_steps = len(packing) - len(lengths)
        padding = np.zeros(self.n_steps - n_steps, np.int64)
        packing = np.concatenate([packing[:n_steps], padding, lengths])
        contents = [word, cells, row, unique, lengths, packing, tags, np.array([len(word)])]
        padded_arrays = [np.zeros(size, np.int64) for size in self.sizes]
        for target, array in zip(padded_arrays, contents, strict=True):
            target[: len(array)] = array
        return _join(padded_arrays)[0]

    @property
    def sizes(self) -> list[int]:
        """Sizes of word, cell, row, unique, lengths, packing, tags, and the number of tokens."""
        area = self.n_rows * self.n_steps
        return [area, area, area, area, self.n_rows, self.n_steps + self.n_rows, area, 1]


class PaddedBatch(NamedTuple):
    """A batch in one tensor; all batches of the same shape have the same size."""

    integers: Tensor
    shape: PaddedShape

    def batch(self, corpus: Corpus) -> Batch:
        """Return the batch as views of ``integers``, with the rows of its words."""
        word, cell, row, unique, lengths, packing, tags, token_count = _split(
            self.integers, self.shape.sizes
        )
        rows = corpus.rows_of(unique, [table.shape[1] for table in corpus.rows])
        # The host does not know the values of sizes: the Triton engine reads packing instead.
        sizes = torch.zeros(self.shape.n_steps, dtype=torch.int64)
        sequences = np.empty(0, np.int64)
        grid = tags.view(self.shape)
        return Batch(
            rows, word, cell, row, sizes, lengths, packing, grid, token_count[0], sequences
        )


def _join(arrays: list[Integers]) -> tuple[Integers, list[int]]:
    """Return the joined arrays, and their sizes. Each array starts at a multiple of 16 bytes."""
    sizes = [len(array) for array in arrays]
    joined_array = np.zeros(sum(size + size % 2 for size in sizes), np.int64)
    begin = 0
    for array, size in zip(arrays, sizes, strict=True):
        joined_array[begin : begin + size] = array
        begin += size + size % 2
    return joined_array, sizes


def _split(joined_tensor: Tensor, sizes: list[int]) -> list[Tensor]:
    """Return views of the arrays that `_join` joined."""
    padded_arrays = torch.split(joined_tensor, [size + size % 2 for size in sizes])
    return [
        padded_array[:size] if size % 2 else padded_array
        for padded_array, size in zip(padded_arrays, sizes, strict=True)
    ]


class _HostBatch(NamedTuple):
    """A batch before it is copied to the device."""

    sequences: Integers  # (B,)
    arrays: list[Integers]  # word, cell, row, unique, lengths, packing, and token or tags
    sizes: Integers  # (T,)
    columns: list[int]  # used columns of the rows, per word encoder
    shape: PaddedShape | None


class _UniqueFinder:
    """``unique, index = finder(ids)`` for ids below ``count``: np.unique without sorting."""

    def __init__(self, count: int) -> None:
        self._slot = np.zeros(count, np.int64)

    def __call__(self, ids: Integers) -> tuple[Integers, Integers]:
        slot, order = self._slot, np.arange(len(ids))
        slot[ids] = order
        unique = ids[slot[ids] == order]  # of equal ids, only the last is kept
        slot[unique] = order[: len(unique)]
        return unique, slot[ids]
