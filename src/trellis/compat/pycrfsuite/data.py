"""The sequences of a trainer, and the features that CRFsuite selects from them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.compat.pycrfsuite.items import ItemSequence
from trellis.features.rows import SparseRows
from trellis.models.chain.weights import WeightLayout

__all__ = ["Dataset", "FeatureOptions", "Part", "select_features"]


# Number of sequences that are joined to one `Part`. Arrays for each sequence would need too much
# memory: even a short NumPy array takes about 300 bytes.
_CHUNK = 512


class Part(NamedTuple):
    """A subset of the sequences."""

    lengths: NDArray[np.int64]
    """(sequences,): number of positions of each sequence."""
    entries: NDArray[np.int32]
    """(rows,): number of attributes of each position."""
    attribute: NDArray[np.int32]
    """(entries,): the attributes of each position, of all sequences."""
    value: NDArray[Any] | None
    """(entries,): the values of the attributes, in the smallest exact type; None: all are 1."""
    label: NDArray[np.int32]
    """(rows,): the label of each position."""

    @property
    def row_begin(self) -> NDArray[np.int64]:
        """The first row of each sequence, then the number of rows, (sequences + 1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def native_rows(self) -> _core.SparseRows:
        """Return the attributes of each position as an object of the core."""
        begin = np.concatenate([[0], np.cumsum(self.entries, dtype=np.int64)])
        value = None if self.value is None else self.value.astype(np.float64)
        return SparseRows(begin, self.attribute, value).native()

    @classmethod
    def join(cls, parts: "list[Part]") -> "Part":
        """Return the sequences of all parts as one part."""
        if len(parts) == 1:
            return parts[0]
        lengths, entries, attribute, value, label = zip(*parts, strict=True) if parts else [()] * 5
        joined = None  # None means that all values are 1, and the core reads no array
        if any(v is not None for v in value):
            joined = np.concatenate(
                [np.ones(len(p.attribute), np.int8) if p.value is None else p.value for p in parts]
            )
        return cls(
            _concatenate(lengths, np.int64),
            _concatenate(entries, np.int32),
            _concatenate(attribute, np.int32),
            joined,
            _concatenate(label, np.int32),
        )


class Dataset:
    """Sequences in the order of `append`; attributes and labels are numbered in that order."""

    def __init__(self) -> None:
        self.attributes = _core.Vocabulary()
        self.labels: dict[str, int] = {}
        self._chunks: list[Part] = []
        """All sequences in order."""
        self._pending: list[Part] = []
        """The last sequences, one in each part."""
        self._group: list[int] = []

    def append(self, xseq: Any, yseq: Iterable[Any], group: int) -> None:
        """Add a sequence. A sequence without positions is ignored."""
        items = xseq if isinstance(xseq, ItemSequence) else ItemSequence(xseq)
        label_names = [_label_name(label) for label in yseq]
        if len(items) != len(label_names):
            raise ValueError(
                "The numbers of items and labels differ: "
                f"|x| = {len(items)}, |y| = {len(label_names)}"
            )
        begin, attribute, value = self.attributes.learn_items(items)
        label_indices = [self.labels.setdefault(name, len(self.labels)) for name in label_names]
        if label_names:
            self._pending.append(
                Part(
                    np.array([len(label_indices)], np.int64),
                    np.diff(begin).astype(np.int32),
                    attribute,
                    value,
                    np.array(label_indices, np.int32),
                )
            )
            self._group.append(group)
        if len(self._pending) == _CHUNK:
            self._join_pending()

    def part(self, holdout: int, *, inside: bool) -> Part:
        """Return the sequences of the holdout group if ``inside``, else all other sequences."""
        self._join_pending()
        # The joined arrays replace the chunks, so that no second copy stays in memory.
        self._chunks = [all_data] = [Part.join(self._chunks)]
        is_selected = (np.array(self._group, np.int64) == holdout) == inside
        if is_selected.all():
            return all_data
        rows = np.repeat(is_selected, all_data.lengths)
        entries = np.repeat(rows, all_data.entries)
        value = all_data.value
        return Part(
            all_data.lengths[is_selected],
            all_data.entries[rows],
            all_data.attribute[entries],
            None if value is None else value[entries],
            all_data.label[rows],
        )

    def _join_pending(self) -> None:
        """Join the last sequences to a chunk, with the values in the smallest exact type."""
        if self._pending:
            chunk = Part.join(self._pending)
            self._pending = []
            self._chunks.append(chunk._replace(value=_shrink(chunk.value)))


def _shrink(value: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the values in the smallest type that holds all of them exactly."""
    if value is None:
        return None
    for dtype in (np.int8, np.float32):
        with np.errstate(invalid="ignore", over="ignore"):
            shrunk = value.astype(dtype)
        # The bytes are compared, not the numbers, because -0.0 == 0.0.
        if shrunk.astype(np.float64).tobytes() == value.tobytes():
            return shrunk
    return value


def _label_name(label: Any) -> str:
    """Return a label as str. Raise TypeError if it is neither str nor bytes."""
    if isinstance(label, bytes):
        return label.decode("utf-8")
    if not isinstance(label, str):
        raise TypeError(f"a label must be a str, not {label!r}")
    return str(label)


def _concatenate(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


class FeatureOptions(NamedTuple):
    """CRFsuite's parameters ``feature.*``."""

    minfreq: float
    possible_states: bool
    possible_transitions: bool


def select_features(
    part: Part, n_attributes: int, n_labels: int, options: FeatureOptions
) -> WeightLayout:
    """Return the layout of CRFsuite's weights: one for each seen pair with Σ value ≥ minfreq.

    A pair is an attribute and a label, or two successive labels. The sum of an unseen pair is 0. So
    a minfreq above 0 removes all unseen pairs, and a minfreq of 0 removes seen pairs with a
    negative sum.
    """
    minfreq = options.minfreq
    rows = part.native_rows()

    def seen_pairs(minimum: float) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return _core.seen(rows, n_attributes, n_labels, part.label, None, None, minimum)

    begin, cell = seen_pairs(minfreq)
    if options.possible_states and minfreq <= 0:
        begin, cell = _select_all_states(seen_pairs(-np.inf), (begin, cell), n_labels)
    # Every position except the first one of a sequence has a transition from the position before.
    has_previous = np.ones(len(part.label), np.bool_)
    has_previous[part.row_begin[:-1]] = False
    previous = part.label[np.flatnonzero(has_previous) - 1].astype(np.int64)
    pairs = previous * n_labels + part.label[has_previous]
    counts = np.bincount(pairs, minlength=n_labels * n_labels)
    bigram = (counts >= minfreq) & ((counts > 0) | options.possible_transitions)
    return WeightLayout(
        n_labels, begin, cell.astype(np.uint16), np.flatnonzero(bigram).astype(np.int32)
    )


def _select_all_states(
    seen_pairs: tuple[Any, Any], frequent_pairs: tuple[Any, Any], n_labels: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return all pairs of a seen attribute and a label, except pairs that are seen but rare."""

    def pair_numbers(begin: NDArray[np.int64], cell: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(begin) - 1), np.diff(begin)) * n_labels + cell

    occurring_attributes = np.flatnonzero(np.diff(seen_pairs[0]))
    pairs_to_keep = (occurring_attributes[:, None] * n_labels + np.arange(n_labels)).reshape(-1)
    pairs_to_keep = np.setdiff1d(
        pairs_to_keep,
        np.setdiff1d(pair_numbers(*seen_pairs), pair_numbers(*frequent_pairs)),
        assume_unique=True,
    )
    counts = np.bincount(pairs_to_keep // max(n_labels, 1), minlength=len(seen_pairs[0]) - 1)
    return np.concatenate([[0], np.cumsum(counts)]), (pairs_to_keep % max(n_labels, 1)).astype(
        np.int32
    )
