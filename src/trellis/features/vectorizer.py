"""Ready features: dicts, lists of names, arrays, sparse matrices, and functions that return them.

>>> features = ReadyFeatures()
>>> batch = features.learn([[{"bias": 1.0, "word": "Paris", "upper": True}, {"bias": 0.5}]])
>>> features.names(), batch.rows.value.tolist()
(['bias', 'word:Paris', 'upper'], [1.0, 1.0, 1.0, 0.5])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.features.extractor import TemplateFeatures
from trellis.features.rows import FeatureBatch, SparseRows, core_error, lengths_of
from trellis.features.spec import Spec
from trellis.features.window import Window, spec_for

__all__ = ["ArrayFeatures", "FeatureMap", "ReadyFeatures", "choose", "from_parts"]


class FeatureMap(Protocol):
    """Maps sequences to sparse rows; learns the attributes from the training data."""

    kind: str

    @property
    def has_edges(self) -> bool: ...  # noqa: D102
    @property
    def edges(self) -> int: ...  # noqa: D102
    def learn(self, X: Any) -> FeatureBatch: ...  # noqa: D102
    def find(self, X: Any, threads: int = 1) -> FeatureBatch: ...  # noqa: D102
    def names(self, edge: bool = False) -> list[str]: ...  # noqa: D102
    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None: ...  # noqa: D102
    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]: ...  # noqa: D102
    def __len__(self) -> int: ...


Maker = Callable[[Any], Any]


class ReadyFeatures:
    """Names and numbers from the caller, or from functions of a sequence.

    A token is a dict (``{"word": "Paris"}`` is the attribute ``word:Paris``, ``{"length": 5}`` the
    attribute ``length`` with value 5) or a list or set of names. ``make(sequence)`` and
    ``make_edges(sequence)``, if not None, return such tokens for a sequence of any objects.
    """

    kind = "ready"

    def __init__(self, make: Maker | None = None, make_edges: Maker | None = None) -> None:
        self.make, self.make_edges = make, make_edges
        self._names, self._edge_names = _core.Vocabulary(), _core.Vocabulary()

    def learn(self, X: Any) -> FeatureBatch:
        """The attributes of all positions; new attributes are numbered consecutively."""
        return self._batch(X, _core.Vocabulary.learn)

    def find(self, X: Any, threads: int = 1) -> FeatureBatch:
        """The known attributes of all positions."""
        return self._batch(X, lambda names, tokens: names.find(tokens, threads))

    def __len__(self) -> int:
        return len(self._names)

    @property
    def edges(self) -> int:
        """The number of attributes of transitions."""
        return len(self._edge_names)

    @property
    def has_edges(self) -> bool:
        """True if there is a function for the attributes of transitions."""
        return self.make_edges is not None

    def names(self, edge: bool = False) -> list[str]:
        """The name of each attribute."""
        data, ends = (self._edge_names if edge else self._names).strings()
        text = data.tobytes()
        return [text[a:b].decode() for a, b in pairwise(ends)]

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Keep only these attributes; they are renumbered from 0."""
        names, edge_names = self.names(), self.names(edge=True)
        self._names, self._edge_names = _core.Vocabulary(), _core.Vocabulary()
        self._names.restore([names[i] for i in ids])
        self._edge_names.restore([edge_names[i] for i in edge_ids])

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """(meta, tensors), from which `from_parts` builds an equal map, without its functions."""
        tensors: dict[str, NDArray[Any]] = {}
        for name, table in (("names", self._names), ("edge_names", self._edge_names)):
            data, ends = table.strings()
            tensors |= {f"{name}.bytes": data.view(np.uint8), f"{name}.ends": ends}
        return {"made": self.make is not None, "made_edges": self.make_edges is not None}, tensors

    @classmethod
    def from_parts(
        cls,
        meta: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        strings: Any,
    ) -> ReadyFeatures:
        """The map from its parts; `strings(name)` returns a validated list of strings."""
        features = cls(
            _MissingFunction("features") if meta.get("made") else None,
            _MissingFunction("edge_features") if meta.get("made_edges") else None,
        )
        try:
            features._names.restore(strings("names"))
            features._edge_names.restore(strings("edge_names"))
        except ValueError as error:
            raise InputError(str(error)) from None
        return features

    @classmethod
    def from_bytes(
        cls, data: NDArray[np.uint8], begin: NDArray[np.int64], size: NDArray[np.int64]
    ) -> ReadyFeatures:
        """A map whose attribute i has the name ``data[begin[i] : begin[i] + size[i]]``, in UTF-8.

        >>> text = np.frombuffer(b"..bias.w=Rome", np.uint8)
        >>> ReadyFeatures.from_bytes(text, np.array([2, 7]), np.array([4, 6])).names()
        ['bias', 'w=Rome']
        """
        features = cls()
        try:
            features._names.restore_from(data, begin, size)
        except ValueError as error:
            raise InputError(str(error)) from None
        return features

    @property
    def vocabulary(self) -> _core.Vocabulary:
        """The names, as an object of the core."""
        return self._names

    def __getstate__(self) -> dict[str, Any]:
        names = {"names": self.names(), "edge_names": self.names(edge=True)}
        return {"make": self.make, "make_edges": self.make_edges, "strings": names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = self.from_parts({}, {}, state["strings"].__getitem__).__dict__
        self.make, self.make_edges = state["make"], state["make_edges"]

    def _batch(self, X: Any, read: Any) -> FeatureBatch:
        lengths = lengths_of(X, anything=self.make is not None)
        try:
            rows = SparseRows(*read(self._names, _call_on_each(self.make, X, lengths)))
            if self.make_edges is None:
                return FeatureBatch(lengths, rows)
            # No transition leads into position 0: its attributes are replaced by an empty list.
            tokens = _call_on_each(self.make_edges, X, lengths)
            edges = [[[], *x[1:]] if len(x) else [] for x in tokens]
            return FeatureBatch(lengths, rows, SparseRows(*read(self._edge_names, edges)))
        except InputError:
            raise
        except ValueError as error:
            raise core_error(error) from None


class ArrayFeatures:
    """Sequences that are NumPy arrays or SciPy sparse matrices of shape (length, d)."""

    kind = "array"
    has_edges = False
    edges = 0

    def __init__(self, columns: int | None = None) -> None:
        self.columns = columns
        self.kept: NDArray[np.int32] | None = None

    def learn(self, X: Any) -> FeatureBatch:
        """All nonzero entries; the columns are the attributes."""
        count = len(lengths_of_arrays(X))
        if self.kept is None or self.columns is None:
            self.columns = _columns_of(X[0], 0) if count else 0
            self.kept = np.zeros(0, dtype=np.int32)
        new = np.setdiff1d(np.arange(self.columns, dtype=np.int32), self.kept)
        self.kept = np.concatenate([self.kept, new])
        return self.find(X)

    def find(self, X: Any, threads: int = 1) -> FeatureBatch:
        """All nonzero entries of the known columns."""
        from scipy import sparse  # here: commands that tag text start faster without SciPy

        if self.kept is None or self.columns is None:
            raise InputError("find() was called before learn()")
        lengths = lengths_of_arrays(X)
        matrices = []
        for i, x in enumerate(X):
            if _columns_of(x, i) != self.columns:
                raise InputError(
                    f"sequence {{sequence}} has {_columns_of(x, i)} columns, "
                    f"expected {self.columns}",
                    sequence=i,
                )
            matrices.append(_csr(x, i))
        matrix = sparse.vstack(matrices, format="csr") if matrices else sparse.csr_array((0, 0))
        bad = ~np.isfinite(matrix.data)
        if bad.any():
            row = int(np.searchsorted(matrix.indptr, np.argmax(bad), side="right")) - 1
            ends = np.cumsum(lengths)
            i = int(np.searchsorted(ends, row, side="right"))
            position = row - (int(ends[i - 1]) if i else 0)
            raise InputError(
                f"sequence {{sequence}}, position {position}: a value is not finite", sequence=i
            )
        rows = SparseRows(
            matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data
        )
        new = np.full(self.columns, -1, dtype=np.int32)
        new[self.kept] = np.arange(len(self.kept), dtype=np.int32)
        return FeatureBatch(lengths, rows.renumbered(new))

    def __len__(self) -> int:
        return 0 if self.kept is None else len(self.kept)

    def names(self, edge: bool = False) -> list[str]:
        """The column indices, as text."""
        return [] if edge or self.kept is None else [str(c) for c in self.kept]

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Keep only these columns."""
        self.kept = np.asarray(self.kept)[ids]

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """(meta, tensors), from which `from_parts` builds an equal map."""
        return {"columns": self.columns}, {"kept": np.asarray(self.kept, dtype=np.int32)}

    @classmethod
    def from_parts(
        cls,
        meta: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        strings: Any,
    ) -> ArrayFeatures:
        """The map from its parts."""
        columns = meta.get("columns")
        kept = tensors["kept"]
        if not isinstance(columns, int) or kept.ndim != 1 or kept.dtype != np.int32:
            raise InputError("array features: columns must be an integer, kept a vector of int32")
        if len(np.unique(kept)) != len(kept):
            raise InputError("array features: a column is kept twice")
        if kept.size and not (kept.min() >= 0 and kept.max() < columns):
            raise InputError("array features: a kept column is out of range")
        features = cls(columns)
        features.kept = kept
        return features


def lengths_of_arrays(X: Any) -> NDArray[np.int64]:
    """(sequences,): the number of rows of each matrix; ``len`` of a sparse matrix would raise."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of sequences, not {type(X).__name__}")
    for i, x in enumerate(X):
        _columns_of(x, i)
    return np.fromiter((x.shape[0] for x in X), dtype=np.int64, count=len(X))


def choose(features: Any, edge_features: Any, X: Any) -> FeatureMap:
    """The map for a spec, a window or a function; with None, the map for the type of X."""
    if isinstance(features, Window):
        features = features.spec()
    if isinstance(features, Spec):
        if edge_features is not None:
            raise InputError("edge_features need ready features; a spec has edge templates instead")
        return TemplateFeatures(features)
    if edge_features is not None and not callable(edge_features):
        raise InputError(f"edge_features must be a function, not {type(edge_features).__name__}")
    if callable(features):
        return ReadyFeatures(features, edge_features)
    if features is not None:
        raise InputError(
            "features must be None, a Spec, a Window or a function of a sequence, "
            f"not {type(features).__name__}"
        )
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of sequences, not {type(X).__name__}")
    first = next((x for x in X if _size(x)), None)
    if hasattr(first, "shape") or (first is None and any(hasattr(x, "shape") for x in X)):
        if edge_features is not None:
            raise InputError("edge_features need dicts or lists of features, not arrays")
        return ArrayFeatures()
    token = first[0] if first is not None else ""
    if isinstance(token, str | tuple) and edge_features is None:
        return TemplateFeatures(spec_for(token))
    return ReadyFeatures(None, edge_features)


def from_parts(
    kind: Any, meta: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], strings: Any
) -> FeatureMap:
    """The map of a kind from its parts."""
    maps: dict[Any, Any] = {m.kind: m for m in (TemplateFeatures, ReadyFeatures, ArrayFeatures)}
    if kind not in maps:
        raise InputError(f"unknown kind of features: {kind!r}")
    features: FeatureMap = maps[kind].from_parts(meta, tensors, strings)
    return features


def _size(x: Any) -> int:
    if isinstance(x, str | bytes | dict) or not (hasattr(x, "__len__") or hasattr(x, "shape")):
        raise InputError(f"a sequence must be a list of tokens, not {type(x).__name__}")
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def _csr(x: Any, i: int) -> Any:
    from scipy import sparse

    if x.dtype.kind not in "biuf":
        raise InputError(
            f"sequence {{sequence}} has dtype {x.dtype}: must be real numbers", sequence=i
        )
    # A copy, because eliminate_zeros would change the caller's matrix.
    matrix = sparse.csr_array(x, dtype=np.float64, copy=True)
    matrix.eliminate_zeros()
    return matrix


def _columns_of(x: Any, i: int) -> int:
    if getattr(x, "ndim", 0) != 2:
        raise InputError(
            "sequence {sequence} must be an array of shape (length, d), like the first sequence",
            sequence=i,
        )
    return int(x.shape[1])


def _call_on_each(make: Maker | None, X: Any, lengths: NDArray[np.int64]) -> Any:
    """make(x) for each sequence, validated; X itself without a function."""
    if make is None:
        return X
    features = [make(x) for x in X]
    for i, (tokens, length) in enumerate(zip(features, lengths, strict=True)):
        if not isinstance(tokens, list | tuple):
            raise InputError(
                f"the features of sequence {{sequence}} must be a list, not {type(tokens)}",
                sequence=i,
            )
        if len(tokens) != length:
            raise InputError(
                f"the function returned features of {len(tokens)} positions for sequence "
                f"{{sequence}}, which has {length}",
                sequence=i,
            )
    return features


class _MissingFunction:
    """Placeholder for a function that a model file cannot store; it raises when it is called."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, sequence: Any) -> Any:
        raise InputError(
            f"this model was trained with a function as {self.name}, which a file cannot store: "
            f"pass it again: trellis.load(path, {self.name}=function)"
        )
