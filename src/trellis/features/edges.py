"""Features of transitions: templates, or a function that returns dicts, lists or arrays.

An attribute of the transition into position t > 0 has a weight for each pair of labels. At position
0, the previous label is always the start symbol y₀, so one weight for each label is enough. The
attribute becomes a state attribute with the name ``start:…`` there.

>>> features = EdgeFeatures(ReadyFeatures(), make=lambda x: [["e"] for _ in x])
>>> batch = features.learn([[["a"], ["b"]]])
>>> features.names(), features.names(edge=True)
(['a', 'b', 'start:e'], ['e'])
>>> batch.rows.id.tolist(), batch.edges.begin.tolist()
([0, 2, 1], [0, 0, 1])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.checks import flag
from trellis.errors import InputError
from trellis.features.arrays import ArrayFeatures
from trellis.features.ready import FeatureFunction, MissingFunction, ReadyFeatures, call_on_each
from trellis.features.rows import FeatureBatch, FeatureMap, SparseRows

__all__ = ["EdgeFeatures", "append_new"]


class EdgeFeatures:
    """The attributes of ``states``, and attributes of transitions.

    ``edge_map`` computes the attributes of transitions. With ``make``, it reads ``make(sequence)``
    in place of each sequence. If ``edge_map`` is None, `learn` chooses the map by the type of what
    ``make`` returns.
    """

    kind = "edges"
    has_edges = True

    def __init__(
        self,
        states: FeatureMap,
        edge_map: FeatureMap | None = None,
        make: FeatureFunction | None = None,
    ) -> None:
        self.states, self.edge_map, self.make = states, edge_map, make
        # Attribute n is attribute _source[n] of `states` or, if that is negative, attribute
        # -1 - _source[n] of `edge_map` at position 0.
        self._source = np.zeros(0, np.int32)
        # Edge attribute n is attribute _edge_source[n] of `edge_map`.
        self._edge_source = np.zeros(0, np.int32)

    def learn(self, X: Any) -> FeatureBatch:
        """Learn the attributes of X, and return the attributes of each position.

        New attributes get the next free numbers.
        """
        states = self.states.learn(X)
        made = self._make(X, states.lengths)
        if self.edge_map is None:
            first = next((x for x in made if hasattr(x, "shape") or len(x)), None)
            self.edge_map = ArrayFeatures() if hasattr(first, "shape") else ReadyFeatures()
        edges = self._name_errors(self.edge_map.learn, made)
        is_start = _find_start(edges)[1]
        self._source = append_new(self._source, np.arange(len(self.states)))
        self._source = append_new(self._source, -1 - edges.rows.id[is_start])
        self._edge_source = append_new(self._edge_source, edges.rows.id[~is_start])
        return self._join(states, edges)

    def find(self, X: Any, threads: int = 1) -> FeatureBatch:
        """Return the known attributes of each position."""
        edge_map = self.edge_map
        if edge_map is None:
            raise InputError("find() was called before learn()")
        states = self.states.find(X, threads)
        made = self._make(X, states.lengths)
        edges = self._name_errors(lambda made: edge_map.find(made, threads), made)
        return self._join(states, edges)

    def __len__(self) -> int:
        return len(self._source)

    @property
    def edges(self) -> int:
        """The number of attributes of transitions."""
        return len(self._edge_source)

    @property
    def sources(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Where each attribute, and each edge attribute, comes from; see the constructor."""
        return self._source, self._edge_source

    @sources.setter
    def sources(self, sources: tuple[NDArray[np.int32], NDArray[np.int32]]) -> None:
        self._source, self._edge_source = sources

    def names(self, edge: bool = False) -> list[str]:
        """Return the name of each attribute."""
        edge_names = [] if self.edge_map is None else self.edge_map.names()
        if edge:
            return [edge_names[n] for n in self._edge_source]
        names = self.states.names()
        return [names[n] if n >= 0 else f"start:{edge_names[-1 - n]}" for n in self._source]

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Keep only the attributes ``ids`` and edge attributes ``edge_ids``, numbered from 0."""
        source, edge_source = self._source[ids], self._edge_source[edge_ids]
        is_state, none = source >= 0, np.zeros(0, np.int32)
        states = np.unique(source[is_state])
        edges = np.unique(np.concatenate([-1 - source[~is_state], edge_source]))
        self.states.keep(states, none)
        if self.edge_map is not None:
            self.edge_map.keep(edges, none)
        self._source = np.where(
            is_state, np.searchsorted(states, source), -1 - np.searchsorted(edges, -1 - source)
        ).astype(np.int32)
        self._edge_source = np.searchsorted(edges, edge_source).astype(np.int32)

    def _make(self, X: Any, lengths: NDArray[np.int64]) -> Any:
        """Return what ``edge_map`` reads: make(x) for each sequence x; X itself without make."""
        return self._name_errors(lambda X: call_on_each(self.make, X, lengths, True), X)

    def _name_errors(self, function: Any, X: Any) -> Any:
        """Return function(X); if ``make`` is a function of the user, errors name edge_features."""
        try:
            return function(X)
        except InputError as error:
            if self.make is None or isinstance(self.make, MissingFunction):
                raise
            message = f"edge_features: {error.template}"
            raise InputError(message, sequence=error.sequence) from None

    def _join(self, states: FeatureBatch, edges: FeatureBatch) -> FeatureBatch:
        """Return the attributes of states and of transitions as one batch.

        Attributes of ``edges`` at position 0 become attributes of states.
        """
        assert self.edge_map is not None
        is_state = self._source >= 0
        numbers = np.arange(len(self._source), dtype=np.int32)
        state_number = np.full(len(self.states), -1, np.int32)
        state_number[self._source[is_state]] = numbers[is_state]
        start_number = np.full(len(self.edge_map), -1, np.int32)
        start_number[-1 - self._source[~is_state]] = numbers[~is_state]
        edge_number = np.full(len(self.edge_map), -1, np.int32)
        edge_number[self._edge_source] = np.arange(len(self._edge_source), dtype=np.int32)
        row, is_start = _find_start(edges)
        ids, values = edges.rows.id, edges.rows.value
        is_known = is_start & (start_number[ids] >= 0)
        rows = states.rows.renumbered(state_number).joined(
            row[is_known],
            start_number[ids[is_known]],
            np.ones(int(is_known.sum())) if values is None else values[is_known],
        )
        is_edge = ~is_start & (edge_number[ids] >= 0)
        begin = np.concatenate([[0], np.cumsum(np.bincount(row[is_edge], minlength=len(rows)))])
        edge_rows = SparseRows(
            begin, edge_number[ids[is_edge]], None if values is None else values[is_edge]
        )
        return FeatureBatch(states.lengths, rows, edge_rows)

    # ---- files

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return (meta, tensors), from which an equal map without functions can be built."""
        assert self.edge_map is not None
        meta: dict[str, Any] = {"made": self.make is not None}
        tensors = {"source": self._source, "edge_source": self._edge_source}
        for name, features in (("states", self.states), ("edges", self.edge_map)):
            part_meta, part_tensors = features.to_parts()
            meta[name] = {"kind": features.kind, **part_meta}
            tensors |= {f"{name}.{key}": array for key, array in part_tensors.items()}
        return meta, tensors

    @classmethod
    def from_maps(
        cls, states: FeatureMap, edges: FeatureMap, meta: dict[str, Any], tensors: Any
    ) -> EdgeFeatures:
        """Build the map from the maps of states and of edges, and from its own meta and tensors."""
        made = flag(meta.get("made"), "edge features: made")
        features = cls(states, edges, MissingFunction("edge_features") if made else None)
        limits = {"source": (-len(edges), len(states)), "edge_source": (0, len(edges))}
        for name, (first, end) in limits.items():
            source = tensors[name]
            if source.ndim != 1 or source.dtype != np.int32:
                raise InputError(f"edge features: {name} must be a vector of int32")
            if source.size and not (source.min() >= first and source.max() < end):
                raise InputError(f"edge features: {name} has an attribute out of range")
            if len(np.unique(source)) != len(source):
                raise InputError(f"edge features: {name} has an attribute twice")
        features._source, features._edge_source = tensors["source"], tensors["edge_source"]
        return features

    @classmethod
    def without_start(cls, states: FeatureMap, edges: FeatureMap) -> EdgeFeatures:
        """Return the map of a file of version 0.1.0, which has no attributes of position 0."""
        features = cls(states, edges, MissingFunction("edge_features"))
        features._source = np.arange(len(states), dtype=np.int32)
        features._edge_source = np.arange(len(edges), dtype=np.int32)
        return features


def append_new(numbers: NDArray[np.int32], candidates: NDArray[Any]) -> NDArray[np.int32]:
    """Return the numbers, then each candidate that is not among them, once and in this order."""
    new, first = np.unique(candidates, return_index=True)
    is_new = ~np.isin(new, numbers)
    in_order = candidates[np.sort(first[is_new])]
    return np.concatenate([numbers, in_order]).astype(np.int32)


def _find_start(edges: FeatureBatch) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the row of each entry, and whether this row is the first one of its sequence."""
    row = np.repeat(np.arange(len(edges.rows)), np.diff(edges.rows.begin))
    is_first = np.zeros(len(edges.rows) + 1, dtype=np.bool_)
    is_first[edges.row_begin[:-1]] = True
    return row, is_first[row]
