"""Φ(x, y) = Σₜ φ(x, t, yₜ₋₁, yₜ), the features of a labelling, as a sparse vector with names."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.checks import integer_at_least
from trellis.errors import InputError
from trellis.features.joint import JointFeatures
from trellis.features.rows import FeatureBatch, SparseRows
from trellis.features.vectorizer import FeatureMap
from trellis.inference import chain
from trellis.models.chain.labels import encode
from trellis.models.chain.weights import WeightLayout

__all__ = ["EdgeFeatureWeight", "FeatureVector", "FeatureVectors", "WeightNames", "one_sequence"]

_MAX_ROWS = 20  # entries that print shows


class EdgeFeatureWeight(NamedTuple):
    """The weight of a feature of transitions for a label bigram."""

    before: Any
    after: Any
    feature: str
    weight: float


@dataclass(frozen=True, eq=False)
class WeightNames:
    """The names of the weights of a model."""

    layout: WeightLayout
    features: FeatureMap
    classes: list[Any]

    def of(self, index: NDArray[np.int64]) -> list[str]:
        """Return the names of weights: "feature → label", or "feature: label → next label".

        Label bigrams and trigrams have "transition" in place of a feature; joint features have
        their own names.
        """
        return [*self._iterate(index)]

    def _iterate(self, index: NDArray[np.int64]) -> Iterator[str]:
        layout, n_states = self.layout, self.layout.states
        n_bigrams = len(layout.bigram)
        names = self.features.names()
        edge_names = self.features.names(edge=True) if layout.edge_begin is not None else []
        edge_attribute = layout.edge_attribute
        joint_names = []
        if isinstance(self.features, JointFeatures):
            joint_names = self.features.joint_names()
        for i in index.tolist():
            if i < n_states:
                label = self.classes[layout.state_label[i]]
                yield f"{names[layout.state_attribute[i]]} → {label}"
            elif i < n_states + n_bigrams:
                yield f"transition: {self._pair(layout.bigram[i - n_states])}"
            elif i >= layout.linear:
                yield joint_names[i - layout.linear]
            elif layout.trigram is not None:
                pair, third = divmod(layout.trigram[i - n_states - n_bigrams], layout.n_labels)
                yield f"transition: {self._pair(pair)} → {self.classes[third]}"
            else:
                edge = i - n_states - n_bigrams
                assert layout.edge_bigram is not None
                yield f"{edge_names[edge_attribute[edge]]}: {self._pair(layout.edge_bigram[edge])}"

    def _pair(self, bigram: Any) -> str:
        before, after = divmod(int(bigram), len(self.classes))
        return f"{self.classes[before]} → {self.classes[after]}"


@dataclass(frozen=True, eq=False)
class FeatureVector:
    """A sparse vector with one coordinate for each weight of a model. ``print`` shows a table."""

    index: NDArray[np.int64]
    """(entries,) The coordinates that are not 0, ascending: positions in ``coef_``."""
    values: NDArray[np.float64]
    """(entries,)"""
    size: int
    """The number of coordinates, which is the number of weights."""
    _names: WeightNames = field(repr=False)

    @cached_property
    def names(self) -> list[str]:
        """The name of each entry: "feature → label", or "feature: label → next label".

        Label bigrams and trigrams have "transition" in place of a feature.
        """
        return self._names.of(self.index)

    def dot(self, w: Any) -> float:
        """w · Φ; with ``coef_``, the score of the labelling."""
        weights = np.asarray(w)
        if weights.shape != (self.size,) or weights.dtype.kind not in "iuf":
            raise InputError(
                f"w is {weights.dtype} {weights.shape}: must be numbers ({self.size},), like coef_"
            )
        return float(self.values @ weights[self.index])

    def to_array(self) -> NDArray[np.float64]:
        """Return all coordinates, shape (weights,)."""
        array = np.zeros(self.size)
        array[self.index] = self.values
        return array

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.index)

    def __str__(self) -> str:
        shown = np.sort(np.argsort(-np.abs(self.values), kind="stable")[:_MAX_ROWS])
        rows = [f"{self.values[i]:10.4g}  {self.names[i]}" for i in shown.tolist()]
        hidden = len(self) - len(shown)
        if hidden:
            rows.append(f"{hidden} smaller entries")
        return "\n".join([f"{len(self)} of {self.size} coordinates are not 0", *rows])


class FeatureVectors:
    """Mixin of `Inspection`: the features of labellings, and the weights of edge features."""

    def joint_features(self, x: Any, y: Any) -> FeatureVector:
        """Φ(x, y) = Σₜ φ(x, t, yₜ₋₁, yₜ), the features of one labelled sequence.

        ``joint_features(x, y).dot(coef_)`` is the score of y before the model normalises it.
        Constraints are not part of this score. Features without a weight have no coordinate.

        >>> from trellis import CRF
        >>> from trellis.features import named
        >>> crf = CRF(named(["w[0]"])).fit([["a", "b"]], [["A", "B"]])
        >>> print(crf.joint_features(["a", "b"], ["A", "B"]))
        3 of 6 coordinates are not 0
                 1  w[0]=a → A
                 1  w[0]=b → B
                 1  transition: A → B
        """
        model: Any = self
        x = one_sequence(model, x, "joint_features")
        batch = model.features_.find([x])
        labels = encode([y], batch.lengths, model.classes_.tolist())
        if (labels.label < 0).any():
            t = int(np.argmax(labels.label < 0))
            raise InputError(
                f"the label of position {t} is not known: expected_features(x, known=y) returns "
                "the expectation over the labels that are possible"
            )
        states = model._label_states
        path = labels.label if states is None else states.path(labels.label)
        p = np.zeros((len(path), len(model._column_labels)))
        p[np.arange(len(p)), path] = 1.0
        return _build_vector(model, batch, p, p[:-1, :, None] * p[1:, None, :])

    def expected_features(self, x: Any, known: Any = None) -> FeatureVector:
        """E[Φ(x, Y)] = Σ_y p(y | x) Φ(x, y), for one sequence.

        With ``known``, as in ``predict``, the expectation is over the labellings that agree with
        it. A CRF's gradient of log p(y | x) is Φ(x, y) - E[Φ(x, Y)].

        >>> from trellis import CRF
        >>> from trellis.features import named
        >>> X, y = [["a", "b"]], [["A", "B"]]
        >>> crf = CRF(named(["w[0]"]), l2=0.5, solver_options={"epsilon": 1e-9}).fit(X, y)
        >>> observed, expected = crf.joint_features(X[0], y[0]), crf.expected_features(X[0])
        >>> gradient = observed.to_array() - expected.to_array() - 0.5 * crf.coef_
        >>> bool(np.abs(gradient).max() < 1e-6)  # at the optimum
        True
        """
        model: Any = self
        x = one_sequence(model, x, "expected_features")
        batch = model.features_.find([x])
        if not len(batch.rows):
            n = len(model._column_labels)
            return _build_vector(model, batch, np.zeros((0, n)), np.zeros((0, n, n)))
        scores = model.scores([x], None if known is None else [known])
        p: Any = chain.marginals(scores, n_jobs=model.n_jobs)
        return _build_vector(model, batch, p.unary[0], p.pairwise[0])

    def top_edge_features(
        self, n: int | None = 20, before: Any = None, after: Any = None
    ) -> list[EdgeFeatureWeight]:
        """Return the n largest absolute weights of features of transitions, largest first.

        With ``before``, ``after`` or both, only bigrams that start with the label ``before`` and
        end with ``after`` are used. With n=None, all features are returned. The list is empty if
        the model has no features of transitions.

        >>> from trellis import CRF
        >>> X, y = [["a", "b"], ["b", "b"]], [["A", "B"], ["B", "B"]]
        >>> def pair(x):
        ...     return [[]] + [[f"{u}{v}"] for u, v in zip(x, x[1:])]
        >>> crf = CRF(lambda x: [[w] for w in x], edge_features=pair).fit(X, y)
        >>> [(f.before, f.after, f.feature) for f in crf.top_edge_features(1, before="A")]
        [('A', 'B', 'ab')]
        """
        model: Any = self
        model._check_fitted()
        n = None if n is None else integer_at_least(n, 0, "n")
        classes, layout = model.classes_.tolist(), model.layout_
        for name, label in (("before", before), ("after", after)):
            if label is not None and label not in classes:
                raise InputError(f"{name} is {label!r}: must be one of {classes}")
        if layout.edge_bigram is None:
            return []
        w = layout.split(model.coef_)[2]
        first, second = np.divmod(layout.edge_bigram, len(classes))
        is_chosen = np.ones(len(w), dtype=np.bool_)
        if before is not None:
            is_chosen &= first == classes.index(before)
        if after is not None:
            is_chosen &= second == classes.index(after)
        chosen = np.flatnonzero(is_chosen)
        best = chosen[np.argsort(-np.abs(w[chosen]), kind="stable")[:n]]
        names, attribute = model.features_.names(edge=True), layout.edge_attribute
        return [
            EdgeFeatureWeight(
                classes[first[i]], classes[second[i]], names[attribute[i]], float(w[i])
            )
            for i in best.tolist()
        ]


def one_sequence(model: Any, x: Any, function: str) -> Any:
    """Return x as a sequence of a fitted model; raise InputError for a list of sequences."""
    model._check_fitted()
    x = model._sequences([x])[0]
    if model.describe().columns is not None and len(x) and isinstance(x[0], list):
        raise InputError(f"x is a list of sequences: {function} needs one of them, such as X[0]")
    return x


def _build_vector(
    model: Any, batch: FeatureBatch, p: NDArray[np.float64], pairs: NDArray[np.float64]
) -> FeatureVector:
    """Return Σₜ Σ p(yₜ₋₁, yₜ) φ(x, t, yₜ₋₁, yₜ) of one sequence.

    ``p`` is p(yₜ), (length, labels), and ``pairs`` p(yₜ₋₁, yₜ), (length - 1, labels, labels). For
    order 2, both are probabilities of states, not of labels.
    """
    layout: WeightLayout = model.layout_
    parts = []
    if layout.label_states is not None:
        trigrams = np.arange(layout.size)[layout.size - len(layout.label_states.trigram_cells[0]) :]
        parts.append((trigrams, pairs.sum(axis=0)[layout.label_states.trigram_cells]))
        p, pairs = layout.label_states.sum_labels(p), layout.label_states.sum_pairs(pairs)
    parts.append(_expand(batch.rows, layout.state_begin, layout.state_label, p))
    counts = pairs.sum(axis=0).ravel()
    if len(pairs):
        bigrams = np.arange(len(layout.bigram)) + layout.states
        parts.append((bigrams, counts[layout.bigram]))
    # Position 0 has no previous label, so its pairs of labels have the probability 0.
    p_into = np.concatenate([np.zeros((1, len(counts))), pairs.reshape(len(pairs), len(counts))])
    if batch.edges is not None and layout.edge_begin is not None and len(pairs):
        edges, values = _expand(batch.edges, layout.edge_begin, layout.edge_bigram, p_into)
        parts.append((edges + layout.states + len(layout.bigram), values))
    if batch.joint is not None and len(p):
        sums_of_joint = batch.joint.sum_features(p, p_into, layout.joint)
        parts.append((np.arange(layout.joint) + layout.linear, sums_of_joint))
    entries, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    is_used = values != 0
    index, place = np.unique(entries[is_used], return_inverse=True)
    sums: NDArray[Any] = np.bincount(place, weights=values[is_used], minlength=len(index))
    names = WeightNames(layout, model.features_, model.classes_.tolist())
    return FeatureVector(index, sums, layout.size, names)


def _expand(
    rows: SparseRows, begin: NDArray[np.int64], cells: Any, p: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the indices of the weights of all attributes in the rows, and value · p of each.

    p has shape (rows, cells). A weight belongs to an attribute and a cell: a label or a bigram.
    """
    row = np.repeat(np.arange(len(rows)), np.diff(rows.begin))
    value = np.ones(len(rows.id)) if rows.value is None else rows.value
    counts = begin[rows.id + 1] - begin[rows.id]
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    index = np.arange(total) + np.repeat(begin[rows.id] - (ends - counts), counts)
    return index, np.repeat(value, counts) * p[np.repeat(row, counts), cells[index]]
