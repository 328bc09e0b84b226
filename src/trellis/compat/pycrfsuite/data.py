"""What a trainer has been given, and the features that CRFsuite makes of it."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.compat.pycrfsuite.items import ItemSequence
from trellis.features.rows import SparseRows
from trellis.models.chain.weights import WeightLayout

__all__ = ["Dataset", "Part", "features_of"]


class Part(NamedTuple):
    """Some of the sequences: rows of attributes, and a label for each row."""

    lengths: NDArray[np.int64]
    rows: SparseRows
    label: NDArray[np.int32]

    @property
    def row_begin(self) -> NDArray[np.int64]:
        """The first row of each sequence, and the number of rows."""
        return np.concatenate([[0], np.cumsum(self.lengths)])


class Dataset:
    """Sequences in the order they came; names are numbered in that order, too."""

    def __init__(self) -> None:
        self.attributes = _core.Vocabulary()
        self.labels: dict[str, int] = {}
        self._rows: list[tuple[Any, Any, Any]] = []
        self._label: list[list[int]] = []
        self._group: list[int] = []

    def append(self, xseq: Any, yseq: Iterable[Any], group: int) -> None:
        """One more; one without positions is not kept."""
        items = xseq if isinstance(xseq, ItemSequence) else ItemSequence(xseq)
        names = [_text(label) for label in yseq]
        if len(items) != len(names):
            raise ValueError(
                f"The numbers of items and labels differ: |x| = {len(items)}, |y| = {len(names)}"
            )
        rows = self.attributes.learn_items(items)
        labels = [self.labels.setdefault(name, len(self.labels)) for name in names]
        if names:
            self._rows.append(rows)
            self._label.append(labels)
            self._group.append(group)

    def part(self, holdout: int, *, inside: bool) -> Part:
        """The sequences of the holdout group, or all others."""
        own = [i for i, g in enumerate(self._group) if (g == holdout) == inside]
        rows = [self._rows[i] for i in own]
        counts = [np.diff(begin) for begin, _, _ in rows]
        value = None
        if any(v is not None for _, _, v in rows):
            value = _joined([np.ones(len(i)) if v is None else v for _, i, v in rows], np.float64)
        return Part(
            np.array([len(self._label[i]) for i in own], np.int64),
            SparseRows(
                np.concatenate([[0], np.cumsum(_joined(counts, np.int64))]),
                _joined([ids for _, ids, _ in rows], np.int32),
                value,
            ),
            _joined([np.array(self._label[i], np.int32) for i in own], np.int32),
        )


def _text(label: Any) -> str:
    if isinstance(label, bytes):
        return label.decode("utf-8")
    if not isinstance(label, str):
        raise TypeError(f"a label must be a str, not {label!r}")
    return str(label)


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def features_of(
    part: Part, attributes: int, labels: int, minfreq: float, all_states: bool, all_bigrams: bool
) -> WeightLayout:
    """The weights that CRFsuite has: of what was seen, where Σ value ≥ minfreq.

    Pairs that were not seen have a sum of 0. So a minfreq above 0 leaves none of them, and one of 0
    drops a pair whose values sum to less.
    """
    rows = part.rows.native()

    def seen(least: float) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return _core.seen(rows, attributes, labels, part.label, None, None, least)

    begin, cell = seen(minfreq)
    if all_states and minfreq <= 0:
        begin, cell = _all_states(seen(-np.inf), (begin, cell), labels)
    inner = np.ones(len(part.label), np.bool_)
    inner[part.row_begin[:-1]] = False
    pairs = part.label[np.flatnonzero(inner) - 1].astype(np.int64) * labels + part.label[inner]
    counts = np.bincount(pairs, minlength=labels * labels)
    bigram = (counts >= minfreq) & ((counts > 0) | all_bigrams)
    return WeightLayout(
        labels, begin, cell.astype(np.uint16), np.flatnonzero(bigram).astype(np.int32)
    )


def _all_states(
    all_seen: tuple[Any, Any], kept: tuple[Any, Any], labels: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Every label for each attribute that occurs, but for the pairs that were dropped."""

    def keys(begin: NDArray[np.int64], cell: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(begin) - 1), np.diff(begin)) * labels + cell

    occurs = np.flatnonzero(np.diff(all_seen[0]))
    wanted = (occurs[:, None] * labels + np.arange(labels)).reshape(-1)
    wanted = np.setdiff1d(wanted, np.setdiff1d(keys(*all_seen), keys(*kept)), assume_unique=True)
    counts = np.bincount(wanted // max(labels, 1), minlength=len(all_seen[0]) - 1)
    return np.concatenate([[0], np.cumsum(counts)]), (wanted % max(labels, 1)).astype(np.int32)
