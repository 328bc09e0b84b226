"""Joint features in the core: u = M w.

The core has weights u of (attribute, label), of label bigrams and of (edge attribute, bigram). A
joint feature has one weight w, and occurs in cells (position, label) or (position, pair of labels).
So each pair of a joint feature and a cell becomes a weight of the core, and the matrix M copies the
weight of the feature to the weights of all its cells. The loss of w is the loss of M w, and its
gradient is Mᵀ ∂loss / ∂u.

Features that always occur together, such as the features of one word with each of the labels,
become one attribute of the core. So a row has about as many attributes as in a model without joint
features, and an iteration takes about as long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.features.cells.entries import Entries, mark_changes
from trellis.features.joint import JointFeatures
from trellis.features.rows import FeatureBatch, SparseRows
from trellis.features.vectorizer import FeatureMap
from trellis.models.chain.labels import EncodedLabels
from trellis.models.chain.weights import WeightLayout, WeightRules, to_offsets

__all__ = ["TiedData", "learn_joint", "tie"]


def learn_joint(
    features: FeatureMap,
    batch: FeatureBatch,
    X: list[Any],
    labels: EncodedLabels,
    rules: WeightRules,
    sample_weight: NDArray[np.float64] | None,
) -> FeatureBatch:
    """Return the batch with the joint features of X added; ``batch`` itself if there are none."""
    if not isinstance(features, JointFeatures):
        return batch
    features.classes = list(labels.classes)
    row_weight = None if sample_weight is None else np.repeat(sample_weight, batch.lengths)
    all_features = rules.states == "all" and rules.min_count <= 0
    possible = None if all_features else _mark_possible(labels)
    joint = features.learn_joint(X, possible, row_weight, rules.min_count)
    return replace(batch, joint=joint)


def _mark_possible(labels: EncodedLabels) -> NDArray[np.bool_]:
    """Return True at the labels that agree with y, (positions, labels).

    A position where every label is possible counts as no occurrence, as in `choose_weights`.
    """
    n_labels = len(labels.classes)
    is_known = labels.label >= 0
    if labels.allowed is None:
        possible = np.zeros((len(labels.label), n_labels), dtype=np.bool_)
    else:
        possible = labels.allowed & ~is_known[:, None]
        if n_labels > 1:
            possible &= ~labels.allowed.all(axis=1, keepdims=True)
    possible[np.flatnonzero(is_known), labels.label[is_known]] = True
    return possible


class TiedData(NamedTuple):
    """Training data of the core, and the matrix M of its weights: u = M w."""

    layout: WeightLayout
    """The layout of u."""
    rows: SparseRows
    edges: SparseRows | None
    matrix: Any
    """(weights of the core, weights of the model) A sparse matrix."""


def tie(layout: WeightLayout, batch: FeatureBatch) -> TiedData:
    """Return the data of the core for a batch with joint features."""
    from scipy import sparse  # imported here, so that commands without joint features start faster

    joint, n_labels, square = batch.joint, layout.n_labels, layout.n_labels**2
    assert joint is not None
    states = _Weights(layout.state_attribute, layout.state_label, 0)
    bigrams = _Weights(np.zeros(len(layout.bigram), np.int64), layout.bigram, layout.states)
    bigrams.add(joint.constant, np.zeros(len(joint.constant), np.int64), layout.linear)
    rows = states.add_groups(batch.rows, joint.state, layout, len(layout.state_begin) - 1)
    begin, label = states.arrange(n_labels)
    _, bigram = bigrams.arrange(square)
    tied = WeightLayout(n_labels, begin, label.astype(np.uint16), bigram)
    parts, edges = [states, bigrams], batch.edges
    if edges is not None or len(joint.pairs):
        known = np.zeros(0, np.int32) if layout.edge_bigram is None else layout.edge_bigram
        transitions = _Weights(layout.edge_attribute, known, layout.states + len(layout.bigram))
        count = 0 if layout.edge_begin is None else len(layout.edge_begin) - 1
        if edges is None:
            edges = SparseRows(np.zeros_like(rows.begin), np.zeros(0, np.int32))
        edges = transitions.add_groups(edges, joint.pairs, layout, count)
        begin, cell = transitions.arrange(square)
        tied = replace(tied, edge_begin=begin, edge_bigram=cell)
        parts.append(transitions)
    first = np.cumsum([0, *(part.size for part in parts)])
    core_index = np.concatenate([part.index + n for part, n in zip(parts, first, strict=False)])
    weight, value = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("weight", "value")
    )
    shape = (tied.size, layout.size)
    matrix = sparse.csr_matrix((value, (core_index, weight)), shape=shape)
    return TiedData(tied, rows, edges, matrix)


class _Weights:
    """Entries of M: each joins a weight of the core, of (attribute, cell), and one of the model."""

    def __init__(self, attribute: NDArray[Any], cell: NDArray[Any], first: int) -> None:
        self.attribute, self.cell = attribute.astype(np.int64), cell.astype(np.int64)
        self.weight = np.arange(len(cell)) + first
        self.value = np.ones(len(cell))
        self.index = np.zeros(0, np.int64)
        """(entries,) The index of the weight of the core, counted from the first of this part."""
        self.size = 0
        """The number of weights of the core."""

    def add(self, entries: Entries, attribute: NDArray[np.int64], first: int) -> None:
        """Add an entry for each cell of a joint feature.

        ``attribute`` is its attribute in the core, ``first`` the index of the first joint weight.
        """
        self.attribute = np.concatenate([self.attribute, attribute])
        self.cell = np.concatenate([self.cell, entries.cell])
        self.weight = np.concatenate([self.weight, entries.id + np.int64(first)])
        self.value = np.concatenate([self.value, entries.value])

    def add_groups(
        self, rows: SparseRows, entries: Entries, layout: WeightLayout, attributes: int
    ) -> SparseRows:
        """Add joint features as attributes with the numbers ``attributes``, ``attributes`` + 1, ….

        Each group of `group_columns` is one attribute. Return ``rows`` with these attributes added.
        """
        columns, group, members = group_columns(entries, layout.joint)
        columns = replace(columns, value=np.ones(len(columns)))  # the values are in the rows
        self.add(columns, group + attributes, layout.linear)
        return rows.joined(members.row, members.id + np.int32(attributes), members.value)

    def arrange(self, cells: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Sort the weights of the core; return the first weight of each attribute, and the cells.

        ``cells`` is the number of different cells.
        """
        keys, self.index = np.unique(self.attribute * cells + self.cell, return_inverse=True)
        self.size = len(keys)
        attribute, cell = np.divmod(keys, cells)
        return to_offsets(np.bincount(attribute)), cell.astype(np.int32)


def group_columns(entries: Entries, features: int) -> tuple[Entries, NDArray[np.int64], Entries]:
    """Group the columns, which are pairs of a cell and a joint feature, that are equal in all rows.

    Return one entry for each column, the group of each column, and for each group its entries in
    all rows: the ids of these entries are groups. Groups are numbered in the order of their first
    rows.
    """
    if not len(entries):
        return entries, np.zeros(0, np.int64), entries
    key = entries.key(features)
    order = np.argsort(key, kind="stable")  # the rows of each pair stay in ascending order
    begin = np.flatnonzero(mark_changes(key[order]))
    ends = np.append(begin[1:], len(order))
    signature = _hash_columns(entries.reorder(order), begin)
    by_signature = np.lexsort(signature)
    is_new = mark_changes(*(part[by_signature] for part in signature))
    member = by_signature[is_new]  # one pair of each group
    rank = np.argsort(entries.row[order[begin[member]]], kind="stable")
    number = np.empty_like(rank)
    number[rank] = np.arange(len(rank))
    group = np.empty(len(begin), np.int64)
    group[by_signature] = number[np.cumsum(is_new) - 1]
    counts = (ends - begin)[member]
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    members = entries.reorder(order[np.repeat(begin[member], counts) + offset])
    members = replace(members, id=np.repeat(number, counts))
    return entries.reorder(order[begin]), group, members


def _hash_columns(entries: Entries, begin: NDArray[np.int64]) -> list[NDArray[np.uint64]]:
    """Return two 64-bit hashes of the rows and values of each slice that starts at ``begin``."""
    odd = np.uint64(0x9E3779B97F4A7C15)
    hashes = []
    for salt in np.random.default_rng(0).integers(1 << 63, size=2, dtype=np.uint64):
        mixed = (entries.row.astype(np.uint64) + salt) * odd
        mixed ^= mixed >> np.uint64(29)
        mixed = (mixed ^ entries.value.view(np.uint64)) * odd
        mixed ^= mixed >> np.uint64(32)
        hashes.append(np.add.reduceat(mixed * (odd ^ salt | np.uint64(1)), begin))
    return hashes
