"""Joint features φ(x, i, y', y): any function of a position and a pair of labels.

A joint feature has one weight, whatever the labels. If two labels have a feature in common, they
share its weight. The previous label y' is None at the first position: the start symbol y₀.

>>> def phi(x, i, previous, label):
...     return [f"{x[i]}/{label}", f"{previous}->{label}"]
>>> features = JointFeatures(NoFeatures(), joint_functions(phi))
>>> features.classes = ["A", "B"]
>>> joint = features.learn_joint([["a", "b"]], np.array([[True, False], [False, True]]))
>>> features.joint_names()
['a/A', 'None->A', 'b/B', 'A->B']

Scores need φ at every position and every pair of labels. `JointCells` stores it as three parts,
because the scores of a chain have these parts:

    state      features of (position, label), equal for all previous labels
    pairs      features of (position, previous label, label)
    constant   features of (previous label, label), equal at all positions after the first
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.checks import integer_in_range
from trellis.errors import InputError
from trellis.features.cells.collector import CellCollector, ReadNames, read_cells, unpack
from trellis.features.cells.entries import JointCells
from trellis.features.ready import MissingFunction, ReadyFeatures
from trellis.features.rows import FeatureBatch, FeatureMap, SparseRows, lengths_of

__all__ = ["JointFeatures", "JointFunction", "NoFeatures", "joint_functions"]

_FORMS = {4: "(x, i, previous, label)", 3: "(x, i, label)", 2: "(previous, label)"}
_MAX_FUNCTIONS = 1000  # in a file; each function costs memory
# Pairs of labels whose features are in memory at a time. The number was chosen by hand: the Python
# objects of a block take about 100 MB with ten features for each pair.
_BLOCK_CELLS = 1 << 16


@dataclass(frozen=True)
class JointFunction:
    """A function of joint features, stored together with its number of arguments.

    The number of arguments says on what the features depend: (x, i, previous, label),
    (x, i, label) or (previous, label). Functions of fewer arguments are called less often.
    """

    function: Callable[..., Any]
    arguments: int

    def __call__(self, x: Any, i: int, previous: Any, label: Any) -> Any:
        """Return the features at position i of x."""
        if self.arguments == 4:
            return self.function(x, i, previous, label)
        return self.function(x, i, label) if self.arguments == 3 else self.function(previous, label)


def joint_functions(joint: Any) -> list[JointFunction]:
    """Return a function, or a list of functions, with the number of arguments of each.

    >>> [f.arguments for f in joint_functions([lambda x, i, label: [], lambda a, b: []])]
    [3, 2]
    """
    functions = list(joint) if isinstance(joint, list | tuple) else [joint]
    if not functions:
        raise InputError("joint is an empty list: it must contain a function")
    for function in functions:
        if not callable(function):
            raise InputError(
                "joint must be a function of (x, i, previous, label), or a list of functions, "
                f"not {function!r:.60}"
            )
    return [JointFunction(function, _count_arguments(function)) for function in functions]


def _count_arguments(function: Callable[..., Any]) -> int:
    """Return the number of positional arguments without a default; 4 for ``*arguments``."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function of an extension module has no signature
        return 4
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 4
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(p.kind in positional and p.default is p.empty for p in parameters)
    if count not in _FORMS:
        raise InputError(
            f"a function of joint must take the arguments {', '.join(_FORMS.values())}; "
            f"{function!r:.60} takes {count}"
        )
    return count


class NoFeatures:
    """A feature map without features: all weights of the model are those of joint features."""

    kind = "none"
    has_edges = False
    edges = 0

    def learn(self, X: Any) -> FeatureBatch:
        """Return empty rows."""
        return self.find(X)

    def find(self, X: Any, threads: int = 1) -> FeatureBatch:
        """Return empty rows."""
        lengths = _count_positions(X)
        rows = SparseRows(np.zeros(int(lengths.sum()) + 1, np.int64), np.zeros(0, np.int32))
        return FeatureBatch(lengths, rows)

    def __len__(self) -> int:
        return 0

    def names(self, edge: bool = False) -> list[str]:
        """Return no names."""
        return []

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Do nothing."""

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return empty parts."""
        return {}, {}

    @classmethod
    def from_parts(
        cls, meta: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], strings: Any
    ) -> NoFeatures:
        """Return the map."""
        return cls()


class JointFeatures:
    """The features of ``base``, and joint features of all pairs of labels.

    ``classes`` must be set before the joint features are computed.
    """

    kind = "joint"
    has_edges = True

    def __init__(self, base: FeatureMap, functions: Sequence[JointFunction]) -> None:
        self.base, self.functions = base, list(functions)
        self.classes: list[Any] = []
        self._table = ReadyFeatures()

    # ---- the features of `base`

    @property
    def edges(self) -> int:
        """The number of attributes of transitions."""
        return self.base.edges

    def __len__(self) -> int:
        return len(self.base)

    def learn(self, X: Any) -> FeatureBatch:
        """Learn the attributes of ``base``. `learn_joint` learns the joint features."""
        return self.base.learn(X)

    def names(self, edge: bool = False) -> list[str]:
        """Return the name of each attribute."""
        return self.base.names(edge)

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Keep only the attributes ``ids`` and the edge attributes ``edge_ids`` of ``base``."""
        self.base.keep(ids, edge_ids)

    # ---- the features of `base` and joint features

    def find(self, X: Any, threads: int = 1) -> FeatureBatch:
        """Return the known attributes, and the known joint features of all pairs of labels."""
        batch = self.base.find(X, threads)
        joint = self._compute_cells(X, batch.lengths, self._find)
        return FeatureBatch(batch.lengths, batch.rows, batch.edges, joint)

    # ---- joint features

    @property
    def is_alone(self) -> bool:
        """True if there are no features except the joint ones."""
        return isinstance(self.base, NoFeatures)

    @property
    def joint_count(self) -> int:
        """The number of joint features."""
        return len(self._table)

    def joint_names(self) -> list[str]:
        """Return the name of each joint feature."""
        return self._table.names()

    def keep_joint(self, ids: NDArray[np.int32]) -> None:
        """Keep only the joint features with the numbers ``ids``, and number them from 0."""
        self._table.keep(ids, np.zeros(0, np.int32))

    def learn_joint(
        self,
        X: Any,
        possible: NDArray[np.bool_] | None,
        row_weight: NDArray[np.float64] | None = None,
        min_count: float = 0.0,
    ) -> JointCells:
        """Learn the joint features of X, and return those of all pairs of labels.

        ``possible`` (positions, labels) is True at the labels that agree with y. Only features of
        possible labels are learned. With None, features of all labels are learned.
        """
        lengths = _count_positions(X)
        if possible is None:
            return self._compute_cells(X, lengths, self._learn)
        self._learn_possible(X, lengths, possible, row_weight, min_count)
        return self._compute_cells(X, lengths, self._find)

    def features_at(self, x: Any, i: int, previous: int | None, label: int) -> dict[int, float]:
        """Return {joint feature: value} of the known features at one position."""
        before, values = self._label(previous), dict[int, float]()
        for function in self.functions:
            tokens = function(x, i, before, self.classes[label])
            _, ids, amounts = unpack(self._find([[tokens]]))
            for id, value in zip(ids.tolist(), amounts.tolist(), strict=True):
                values[id] = values.get(id, 0.0) + value
        return values

    def _learn_possible(
        self,
        X: Any,
        lengths: NDArray[np.int64],
        possible: NDArray[np.bool_],
        row_weight: NDArray[np.float64] | None,
        min_count: float,
    ) -> None:
        """Learn the features of possible labels that occur at least ``min_count`` times."""
        earlier = len(self._table)
        counts = np.zeros(earlier)
        for block, rows in self._blocks(lengths, 1):
            ends = np.cumsum(lengths[block])[:-1]
            pairs = [list(_possible_pairs(mask)) for mask in np.split(possible[rows], ends)]
            cells = [
                [
                    f(x, i, self._label(a), self.classes[b])
                    for i, a, b, _ in p
                    for f in self.functions
                ]
                for x, p in zip(X[block], pairs, strict=True)
            ]
            learned = read_cells(self._learn, cells, block.start, self._describe_possible(pairs))
            if min_count <= 0:
                continue
            share = np.array([pair[3] for p in pairs for pair in p for _ in self.functions])
            if row_weight is not None:
                weights = np.split(row_weight[rows], ends)
                share *= [
                    w[pair[0]]
                    for w, p in zip(weights, pairs, strict=True)
                    for pair in p
                    for _ in self.functions
                ]
            cell, id, value = unpack(learned)
            counts = np.pad(counts, (0, len(self._table) - len(counts)))
            counts += np.bincount(id, weights=value * share[cell], minlength=len(counts))
        if min_count > 0:
            is_kept = counts >= min_count
            is_kept[:earlier] = True  # features of an earlier fit keep their weights
            self.keep_joint(np.flatnonzero(is_kept).astype(np.int32))

    def _compute_cells(self, X: Any, lengths: NDArray[np.int64], read: ReadNames) -> JointCells:
        """Return the joint features of all pairs of labels."""
        labels = len(self.classes)
        collector = CellCollector(labels, lengths)
        functions = {
            n: [f.function for f in self.functions if f.arguments == n] for n in sorted(_FORMS)
        }
        for f in functions[2] if len(lengths) else ():
            cells = [[f(a, b) for a in (None, *self.classes) for b in self.classes]]
            collector.add_label_pairs(read_cells(read, cells, None, self._describe_label_pair))
        for block, rows in self._blocks(lengths, labels**2 if functions[4] else labels):
            sequences = list(zip(X[block], lengths[block].tolist(), strict=True))
            for f in functions[3]:
                cells = [[f(x, i, b) for i in range(n) for b in self.classes] for x, n in sequences]
                collector.add_labels(
                    rows, read_cells(read, cells, block.start, self._describe_label)
                )
            for f in functions[4]:
                cells = [self._call_on_pairs(f, x, n) for x, n in sequences]
                collector.add_pairs(rows, read_cells(read, cells, block.start, self._describe_pair))
            collector.finish_block(rows, self.joint_count)
        return collector.cells()

    def _call_on_pairs(self, function: Callable[..., Any], x: Any, length: int) -> list[Any]:
        """Return the features of all pairs of labels at all positions of a sequence."""
        return [
            function(x, i, a, b)
            for i in range(length)
            for a in (self.classes if i else (None,))
            for b in self.classes
        ]

    def _learn(self, cells: list[list[Any]]) -> SparseRows:
        return self._table.learn(cells).rows

    def _find(self, cells: list[list[Any]]) -> SparseRows:
        return self._table.find(cells).rows

    def _label(self, index: int | None) -> Any:
        """Return the label with an index; None for the start symbol."""
        return None if index is None else self.classes[index]

    # ---- where a cell is, for errors

    def _describe_label(self, sequence: int, cell: int) -> str:
        i, label = divmod(cell, len(self.classes))
        return f"position {i}, label {self.classes[label]!r}"

    def _describe_label_pair(self, sequence: int, cell: int) -> str:
        before, label = divmod(cell, len(self.classes))
        previous = [None, *self.classes][before]
        return f"previous label {previous!r}, label {self.classes[label]!r}"

    def _describe_pair(self, sequence: int, cell: int) -> str:
        labels = len(self.classes)
        if cell < labels:
            return f"position 0, {self._describe_label_pair(sequence, cell)}"
        i, pair = divmod(cell - labels, labels**2)
        return f"position {i + 1}, {self._describe_label_pair(sequence, labels + pair)}"

    def _describe_possible(self, pairs: list[list[Any]]) -> Callable[[int, int], str]:
        def describe(sequence: int, cell: int) -> str:
            i, before, label, _ = pairs[sequence][cell // len(self.functions)]
            labels = f"previous label {self._label(before)!r}, label {self.classes[label]!r}"
            return f"position {i}, {labels}"

        return describe

    @staticmethod
    def _blocks(lengths: NDArray[np.int64], cells_of_row: int) -> Iterator[tuple[slice, slice]]:
        """Yield slices of sequences, and of their rows, with about `_BLOCK_CELLS` cells each."""
        ends = np.cumsum(lengths)
        begin = first_row = 0
        while begin < len(lengths):
            limit = first_row + max(1, _BLOCK_CELLS // cells_of_row)
            end = min(int(np.searchsorted(ends, limit)) + 1, len(lengths))
            yield slice(begin, end), slice(first_row, int(ends[end - 1]))
            begin, first_row = end, int(ends[end - 1])

    # ---- files

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return (meta, tensors), from which `from_parts` builds an equal map without functions."""
        base_meta, base_tensors = self.base.to_parts()
        _, tensors = self._table.to_parts()
        meta = {"base": {"kind": self.base.kind, **base_meta}, "functions": len(self.functions)}
        names = {f"joint_{name}": tensors[name] for name in ("names.bytes", "names.ends")}
        return meta, {**{f"base.{name}": array for name, array in base_tensors.items()}, **names}

    @classmethod
    def from_base(cls, base: FeatureMap, meta: Mapping[str, Any], strings: Any) -> JointFeatures:
        """Build the map from its parts; ``strings(name)`` returns validated strings."""
        count = integer_in_range(meta.get("functions"), 1, _MAX_FUNCTIONS, "joint: functions")
        features = cls(base, [JointFunction(MissingFunction("joint"), 4)] * count)
        features._table = ReadyFeatures.from_parts({}, {}, lambda name: strings(f"joint_{name}"))
        return features


def _count_positions(X: Any) -> NDArray[np.int64]:
    """Return the length of each sequence; sparse matrices have a shape, but no ``len``."""
    if any(hasattr(x, "shape") for x in X):
        X = [range(x.shape[0]) if len(getattr(x, "shape", ())) else x for x in X]
    return lengths_of(X, allow_str_or_dict=True)


def _possible_pairs(mask: NDArray[np.bool_]) -> Iterator[tuple[int, int | None, int, float]]:
    """Yield (i, previous, label, 1 / number of previous labels) for possible labels of a sequence.

    A position where ``mask`` has no label is unknown: it has no pairs, and for the next position,
    all labels are possible previous labels.
    """
    everything = list(range(mask.shape[1]))
    possible = [np.flatnonzero(row).tolist() for row in mask]
    for i, labels in enumerate(possible):
        befores: list[Any] = [None] if i == 0 else possible[i - 1] or everything
        for b in labels:
            for a in befores:
                yield i, a, b, 1.0 / len(befores)
