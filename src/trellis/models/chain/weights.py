"""Which weights a linear chain model has: (attribute, label) pairs, label bigrams, edge triples."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.features.rows import FeatureBatch, SparseRows
from trellis.models.chain.labels import Encoded

__all__ = ["WeightLayout", "design"]

STATES = ("seen", "all")
TRANSITIONS = ("seen", "all", "none")


@dataclass(frozen=True, eq=False)
class WeightLayout:
    """State weights (of a: ``[state_begin[a], state_begin[a + 1])``), then bigrams, then edges."""

    labels: int
    state_begin: NDArray[np.int64]
    state_label: NDArray[np.uint16]
    bigram: NDArray[np.int32]
    """from · labels + to, ascending."""
    edge_begin: NDArray[np.int64] | None = None
    edge_bigram: NDArray[np.int32] | None = None

    @property
    def states(self) -> int:
        """How many (attribute, label) weights there are."""
        return len(self.state_label)

    @property
    def size(self) -> int:
        """How many weights there are."""
        edges = 0 if self.edge_bigram is None else len(self.edge_bigram)
        return self.states + len(self.bigram) + edges

    @cached_property
    def native(self) -> _core.WeightLayout:
        """The same arrays, as the core takes them."""
        return _core.WeightLayout(
            self.labels,
            self.state_begin,
            self.state_label,
            self.bigram,
            self.edge_begin,
            self.edge_bigram,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "native"}

    @cached_property
    def state_attribute(self) -> NDArray[np.int64]:
        """The attribute of each state weight."""
        counts = np.diff(self.state_begin)
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def edge_attribute(self) -> NDArray[np.int64]:
        """The edge attribute of each edge weight."""
        counts = np.diff(self.edge_begin) if self.edge_begin is not None else np.zeros(0, np.int64)
        return np.repeat(np.arange(len(counts)), counts)

    def split(self, w: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """State, bigram and edge weights."""
        ends = (self.states, self.states + len(self.bigram))
        return tuple(np.split(w, ends))

    def transition_matrix(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """(labels, labels) weights of the bigrams, 0 where there is none."""
        out = np.zeros(self.labels * self.labels)
        out[self.bigram] = self.split(w)[1]
        return out.reshape(self.labels, self.labels)

    def only(self, kept: NDArray[np.bool_]) -> tuple["WeightLayout", NDArray[Any], NDArray[Any]]:
        """Without the other weights; and the attributes and edge attributes that still have any."""
        states, bigrams, edges = self.split(kept)
        counts = np.bincount(self.state_attribute[states], minlength=len(self.state_begin) - 1)
        alive = np.flatnonzero(counts).astype(np.int32)
        smaller = WeightLayout(
            self.labels, _begins(counts[alive]), self.state_label[states], self.bigram[bigrams]
        )
        if self.edge_begin is None or self.edge_bigram is None:
            return smaller, alive, np.zeros(0, np.int32)
        counts = np.bincount(self.edge_attribute[edges], minlength=len(self.edge_begin) - 1)
        edge_alive = np.flatnonzero(counts).astype(np.int32)
        smaller = replace(
            smaller, edge_begin=_begins(counts[edge_alive]), edge_bigram=self.edge_bigram[edges]
        )
        return smaller, alive, edge_alive

    def keys(self, labels: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
        """One number for each state, bigram and edge weight, with labels renamed to those."""
        bigram = self._renamed(self.bigram, labels, count)
        keys = [self.state_attribute * count + labels[self.state_label], bigram]
        if self.edge_bigram is not None:
            edge = self._renamed(self.edge_bigram, labels, count)
            keys.append(self.edge_attribute * count * count + edge)
        return keys

    def _renamed(self, cells: NDArray[Any], labels: NDArray[np.int64], count: int) -> NDArray[Any]:
        before, after = np.divmod(cells, self.labels)
        renamed: NDArray[Any] = labels[before] * count + labels[after]
        return renamed


def _begins(counts: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _from_keys(count: int, attributes: int, edges: int | None, keys: list[Any]) -> WeightLayout:
    """The inverse of `WeightLayout.keys`, for keys that are sorted."""
    states, bigrams, *rest = keys
    begin = _begins(np.bincount(states // count, minlength=attributes))
    layout = WeightLayout(
        count, begin, (states % count).astype(np.uint16), bigrams.astype(np.int32)
    )
    if edges is None:
        return layout
    square = count * count
    begin = _begins(np.bincount(rest[0] // square, minlength=edges))
    return replace(layout, edge_begin=begin, edge_bigram=(rest[0] % square).astype(np.int32))


def design(
    batch: FeatureBatch,
    attributes: tuple[int, int],
    known: Encoded,
    *,
    states: str,
    transitions: str,
    min_count: float,
    weights: NDArray[np.float64] | None,
) -> WeightLayout:
    """The weights for what was seen in training, or for all combinations.

    ``attributes`` are the numbers of attributes and of edge attributes.
    """
    count = len(known.classes)
    per_row = None if weights is None else np.repeat(weights, batch.lengths)
    begin, cell = _seen(batch.rows, attributes[0], known, count, per_row, min_count)
    if states == "all":
        kept = np.diff(begin) > 0
        begin = _begins(np.where(kept, count, 0))
        cell = np.tile(np.arange(count), int(kept.sum()))
    bigram, cells = _bigrams(batch, known, count, transitions, per_row, min_count)
    layout = WeightLayout(count, begin, cell.astype(np.uint16), bigram)
    if batch.edges is None:
        return layout
    edge_begin, edge_bigram = _core.seen(
        batch.edges.native(), attributes[1], count * count, cells, None, per_row, _least(min_count)
    )
    if transitions == "all":
        kept = np.diff(edge_begin) > 0
        edge_begin = _begins(np.where(kept, count * count, 0))
        edge_bigram = np.tile(np.arange(count * count, dtype=np.int32), int(kept.sum()))
    return replace(layout, edge_begin=edge_begin, edge_bigram=edge_bigram)


def _seen(
    rows: SparseRows,
    attributes: int,
    known: Encoded,
    count: int,
    per_row: NDArray[np.float64] | None,
    min_count: float,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    allowed = known.allowed
    if allowed is not None:
        # where nothing at all is known, nothing was seen
        allowed = allowed & ~allowed.all(axis=1, keepdims=True) if count > 1 else allowed
    least = _least(min_count)
    return _core.seen(rows.native(), attributes, count, known.label, allowed, per_row, least)


def _least(min_count: float) -> float:
    """With 0, all that was seen is kept: negative values too."""
    return min_count if min_count > 0 else -np.inf


def _bigrams(
    batch: FeatureBatch,
    known: Encoded,
    count: int,
    transitions: str,
    per_row: NDArray[np.float64] | None,
    min_count: float,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Label bigrams with a weight, and the bigram into each row (-1: none, or not known)."""
    before = np.concatenate([[-1], known.label[:-1]]).astype(np.int32)
    before[batch.row_begin[:-1]] = -1
    cells = np.where((before >= 0) & (known.label >= 0), before * count + known.label, -1)
    cells = cells.astype(np.int32)
    if transitions == "all":
        return np.arange(count * count, dtype=np.int32), cells
    if transitions == "none":
        return np.zeros(0, dtype=np.int32), cells
    inner = cells >= 0
    row_weights = None if per_row is None else per_row[inner]
    sums = np.bincount(cells[inner], weights=row_weights, minlength=count * count)
    seen = np.bincount(cells[inner], minlength=count * count) > 0
    if min_count > 0:
        seen &= sums >= min_count
    return np.flatnonzero(seen).astype(np.int32), cells


def merge(
    old: WeightLayout, old_w: NDArray[np.float64], labels: NDArray[np.int64], new: WeightLayout
) -> tuple[WeightLayout, NDArray[np.float64]]:
    """All weights of an earlier model and of a new layout; the earlier ones keep their values.

    ``labels[n]`` is the number that label n of the earlier model has now.
    """
    own = np.arange(new.labels)
    edges = None if new.edge_begin is None else len(new.edge_begin) - 1
    before, now = old.keys(labels, new.labels), new.keys(own, new.labels)
    if len(before) != len(now):
        raise InputError(
            "an earlier model and its continuation must both have edge features or not"
        )
    keys = [np.union1d(a, b) for a, b in zip(before, now, strict=True)]
    layout = _from_keys(new.labels, len(new.state_begin) - 1, edges, keys)
    parts = [np.zeros(len(k)) for k in keys]
    for part, key, was, value in zip(parts, keys, before, old.split(old_w), strict=False):
        part[np.searchsorted(key, was)] = value
    return layout, np.concatenate(parts)
