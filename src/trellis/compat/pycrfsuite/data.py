"""The sequences of a trainer, and the features that CRFsuite selects from them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.compat.pycrfsuite.items import ItemSequence
from trellis.features.rows import SparseRows
from trellis.models.chain.weights import WeightLayout

__all__ = ["Dataset", "FeatureOptions", "Part", "select_features"]


class Part(NamedTuple):
    """A subset of the sequences."""

    lengths: NDArray[np.int64]
    """(sequences,): number of positions of each sequence."""
    rows: SparseRows
    """Attributes of each position of all sequences."""
    label: NDArray[np.int32]
    """(rows,): the label of each position."""

    @property
    def row_begin(self) -> NDArray[np.int64]:
        """The first row of each sequence, then the number of rows, (sequences + 1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)])


class Dataset:
    """Sequences in the order of `append`; attributes and labels are numbered in that order."""

    def __init__(self) -> None:
        self.attributes = _core.Vocabulary()
        self.labels: dict[str, int] = {}
        self._rows: list[tuple[Any, Any, Any]] = []
        self._label: list[list[int]] = []
        self._group: list[int] = []

    def append(self, xseq: Any, yseq: Iterable[Any], group: int) -> None:
        """Add a sequence. A sequence without positions is ignored."""
        items = xseq if isinstance(xseq, ItemSequence) else ItemSequence(xseq)
        names = [_label_name(label) for label in yseq]
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
        """Return the sequences inside the holdout group, or those outside if not ``inside``."""
        selected = [i for i, group in enumerate(self._group) if (group == holdout) == inside]
        rows = [self._rows[i] for i in selected]
        counts = [np.diff(begin) for begin, _, _ in rows]
        value = None  # None means that all values are 1, and the core reads no array
        if any(v is not None for _, _, v in rows):
            value = _concatenate(
                [np.ones(len(i)) if v is None else v for _, i, v in rows], np.float64
            )
        return Part(
            np.array([len(self._label[i]) for i in selected], np.int64),
            SparseRows(
                np.concatenate([[0], np.cumsum(_concatenate(counts, np.int64))]),
                _concatenate([ids for _, ids, _ in rows], np.int32),
                value,
            ),
            _concatenate([np.array(self._label[i], np.int32) for i in selected], np.int32),
        )


def _label_name(label: Any) -> str:
    """Return a label as str. Raise TypeError if it is neither str nor bytes."""
    if isinstance(label, bytes):
        return label.decode("utf-8")
    if not isinstance(label, str):
        raise TypeError(f"a label must be a str, not {label!r}")
    return str(label)


def _concatenate(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


class FeatureOptions(NamedTuple):
    """CRFsuite's parameters ``feature.*``."""

    minfreq: float
    possible_states: bool
    possible_transitions: bool


def select_features(
    part: Part, attributes: int, labels: int, options: FeatureOptions
) -> WeightLayout:
    """Return the weights of CRFsuite's model: one for each seen pair with Σ value ≥ minfreq.

    The sum of an unseen pair is 0. So a minfreq above 0 removes all unseen pairs, and a minfreq of
    0 removes seen pairs with a negative sum.
    """
    minfreq = options.minfreq
    rows = part.rows.native()

    def seen_pairs(minimum: float) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return _core.seen(rows, attributes, labels, part.label, None, None, minimum)

    begin, cell = seen_pairs(minfreq)
    if options.possible_states and minfreq <= 0:
        begin, cell = _select_all_states(seen_pairs(-np.inf), (begin, cell), labels)
    # Every position except the first one of a sequence has a transition from the position before.
    has_previous = np.ones(len(part.label), np.bool_)
    has_previous[part.row_begin[:-1]] = False
    previous = part.label[np.flatnonzero(has_previous) - 1].astype(np.int64)
    pairs = previous * labels + part.label[has_previous]
    counts = np.bincount(pairs, minlength=labels * labels)
    bigram = (counts >= minfreq) & ((counts > 0) | options.possible_transitions)
    return WeightLayout(
        labels, begin, cell.astype(np.uint16), np.flatnonzero(bigram).astype(np.int32)
    )


def _select_all_states(
    all_seen: tuple[Any, Any], frequent: tuple[Any, Any], labels: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the pairs of each occurring attribute with all labels, without rare seen pairs."""

    def pair_numbers(begin: NDArray[np.int64], cell: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(begin) - 1), np.diff(begin)) * labels + cell

    occurring_attributes = np.flatnonzero(np.diff(all_seen[0]))
    selected = (occurring_attributes[:, None] * labels + np.arange(labels)).reshape(-1)
    selected = np.setdiff1d(
        selected,
        np.setdiff1d(pair_numbers(*all_seen), pair_numbers(*frequent)),
        assume_unique=True,
    )
    counts = np.bincount(selected // max(labels, 1), minlength=len(all_seen[0]) - 1)
    return np.concatenate([[0], np.cumsum(counts)]), (selected % max(labels, 1)).astype(np.int32)
