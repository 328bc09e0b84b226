"""Features that the caller computes: dicts, lists of names, arrays, sparse matrices or functions.

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
from trellis.features.window import Window, default_spec

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


FeatureFunction = Callable[[Any], Any]


class ReadyFeatures:
    """Attributes that the caller, or a function of the caller, computes.

    A token is a dict (``{"word": "Paris"}`` is the attribute ``word:Paris``, ``{"length": 5}`` the
    attribute ``length`` with value 5) or a list or set of names. ``make(sequence)`` and
    ``make_edges(sequence)``, if not None, return such tokens for a sequence of any objects.
    """

    kind = "ready"

    def __init__(
        self, make: FeatureFunction | None = None, make_edges: FeatureFunction | None = None
    ) -> None:
        self.make, self.make_edges = make, make_edges
        self._names, self._edge_names = _core.Vocabulary(), _core.Vocabulary()

    def learn(self, X: Any) -> FeatureBatch:
        """Learn the attributes of X, and return the attributes of each position.

        New attributes get the next free numbers.
        """
        return self._batch(X, _core.Vocabulary.learn)

    def find(self, X: Any, threads: int = 1) -> FeatureBatch:
        """Return the known attributes of each position."""
        return self._batch(X, lambda names, tokens: names.find(tokens, threads))

    def __len__(self) -> int:
        return len(self._names)

    @property
    def edges(self) -> int:
        """The number of attributes of transitions."""
        return len(self._edge_names)

    @property
    def has_edges(self) -> bool:
        """True if ``make_edges`` computes attributes of transitions."""
        return self.make_edges is not None

    def names(self, edge: bool = False) -> list[str]:
        """Return the name of each attribute."""
        data, ends = (self._edge_names if edge else self._names).strings()
        text = data.tobytes()
        return [text[begin:end].decode() for begin, end in pairwise(ends)]

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Remove all attributes except these, and renumber these from 0."""
        names, edge_names = self.names(), self.names(edge=True)
        self._names, self._edge_names = _core.Vocabulary(), _core.Vocabulary()
        self._names.restore([names[i] for i in ids])
        self._edge_names.restore([edge_names[i] for i in edge_ids])

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return (meta, tensors), from which `from_parts` builds an equal map without functions."""
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
        """Build the map from its parts; `strings(name)` returns validated strings."""
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
        """Return a map; attribute i has the name ``data[begin[i] : begin[i] + size[i]]``, in UTF-8.

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
        lengths = lengths_of(X, allow_str_or_dict=self.make is not None)
        try:
            rows = SparseRows(*read(self._names, _call_on_each(self.make, X, lengths)))
            if self.make_edges is None:
                return FeatureBatch(lengths, rows)
            # There is no transition into position 0, so its attributes are not used.
            tokens = _call_on_each(self.make_edges, X, lengths)
            edges = [[[], *x[1:]] if len(x) else [] for x in tokens]
            return FeatureBatch(lengths, rows, SparseRows(*read(self._edge_names, edges)))
        except InputError:
            raise
        except ValueError as error:
            raise core_error(error) from None


class ArrayFeatures:
    """Features of sequences that are arrays or SciPy sparse matrices of shape (length, d)."""

    kind = "array"
    has_edges = False
    edges = 0

    def __init__(self, columns: int | None = None) -> None:
        self.columns = columns
        self.kept: NDArray[np.int32] | None = None

    def learn(self, X: Any) -> FeatureBatch:
        """Learn the number of columns, and return the nonzero entries; columns are attributes."""
        n_sequences = len(lengths_of_arrays(X))
        if self.kept is None or self.columns is None:
            self.columns = _count_columns(X[0], 0) if n_sequences else 0
            self.kept = np.zeros(0, dtype=np.int32)
        new_columns = np.setdiff1d(np.arange(self.columns, dtype=np.int32), self.kept)
        self.kept = np.concatenate([self.kept, new_columns])
        return self.find(X)

    def find(self, X: Any, threads: int = 1) -> FeatureBatch:
        """Return the nonzero entries of the columns that were not removed by `keep`."""
        from scipy import sparse  # imported here, so that commands that tag text start faster

        if self.kept is None or self.columns is None:
            raise InputError("find() was called before learn()")
        lengths = lengths_of_arrays(X)
        matrices = []
        for i, x in enumerate(X):
            if _count_columns(x, i) != self.columns:
                raise InputError(
                    f"sequence {{sequence}} has {_count_columns(x, i)} columns, "
                    f"expected {self.columns}",
                    sequence=i,
                )
            matrices.append(_to_csr(x, i))
        matrix = sparse.vstack(matrices, format="csr") if matrices else sparse.csr_array((0, 0))
        invalid = ~np.isfinite(matrix.data)
        if invalid.any():
            row = int(np.searchsorted(matrix.indptr, np.argmax(invalid), side="right")) - 1
            ends = np.cumsum(lengths)
            i = int(np.searchsorted(ends, row, side="right"))
            position = row - (int(ends[i - 1]) if i else 0)
            raise InputError(
                f"sequence {{sequence}}, position {position}: a value is not finite",
                sequence=i,
            )
        rows = SparseRows(
            matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data
        )
        new_ids = np.full(self.columns, -1, dtype=np.int32)
        new_ids[self.kept] = np.arange(len(self.kept), dtype=np.int32)
        return FeatureBatch(lengths, rows.renumbered(new_ids))

    def __len__(self) -> int:
        return 0 if self.kept is None else len(self.kept)

    def names(self, edge: bool = False) -> list[str]:
        """Return the column indices as text."""
        return [] if edge or self.kept is None else [str(c) for c in self.kept]

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Remove all columns except these."""
        self.kept = np.asarray(self.kept)[ids]

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return (meta, tensors), from which `from_parts` builds an equal map."""
        return {"columns": self.columns}, {"kept": np.asarray(self.kept, dtype=np.int32)}

    @classmethod
    def from_parts(
        cls,
        meta: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        strings: Any,
    ) -> ArrayFeatures:
        """Build the map from its parts."""
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
    """Return the number of rows of each matrix, (sequences,); sparse matrices have no ``len``."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of sequences, not {type(X).__name__}")
    for i, x in enumerate(X):
        _count_columns(x, i)
    return np.fromiter((x.shape[0] for x in X), dtype=np.int64, count=len(X))


def choose(features: Any, edge_features: Any, X: Any) -> FeatureMap:
    """Return the map for a spec, a window or a function; for None, choose by the type of X."""
    if isinstance(features, Window):
        features = features.spec()
    if isinstance(features, Spec):
        if edge_features is not None:
            raise InputError(
                "edge_features cannot be used with a Spec or a Window: add edge templates to it"
            )
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
    first = next((x for x in X if _count_positions(x)), None)
    if hasattr(first, "shape") or (first is None and any(hasattr(x, "shape") for x in X)):
        if edge_features is not None:
            raise InputError("edge_features need dicts or lists of features, not arrays")
        return ArrayFeatures()
    token = first[0] if first is not None else ""
    if isinstance(token, str | tuple) and edge_features is None:
        return TemplateFeatures(default_spec(token))
    return ReadyFeatures(None, edge_features)


def from_parts(
    kind: Any, meta: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], strings: Any
) -> FeatureMap:
    """Build the map of a kind from its parts."""
    maps: dict[Any, Any] = {m.kind: m for m in (TemplateFeatures, ReadyFeatures, ArrayFeatures)}
    if kind not in maps:
        raise InputError(f"unknown kind of features: {kind!r}")
    features: FeatureMap = maps[kind].from_parts(meta, tensors, strings)
    return features


def _count_positions(x: Any) -> int:
    if isinstance(x, str | bytes | dict) or not (hasattr(x, "__len__") or hasattr(x, "shape")):
        raise InputError(f"a sequence must be a list of tokens, not {type(x).__name__}")
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def _to_csr(x: Any, i: int) -> Any:
    from scipy import sparse

    if x.dtype.kind not in "biuf":
        raise InputError(
            f"sequence {{sequence}} has dtype {x.dtype}: must be a type of real numbers", sequence=i
        )
    # A copy, because eliminate_zeros would change the caller's matrix.
    matrix = sparse.csr_array(x, dtype=np.float64, copy=True)
    matrix.eliminate_zeros()
    return matrix


def _count_columns(x: Any, i: int) -> int:
    if getattr(x, "ndim", 0) != 2:
        raise InputError(
            "sequence {sequence} must be an array of shape (length, d), like the first sequence",
            sequence=i,
        )
    return int(x.shape[1])


def _call_on_each(make: FeatureFunction | None, X: Any, lengths: NDArray[np.int64]) -> Any:
    """Return validated make(x) for each sequence, or X itself if ``make`` is None."""
    if make is None:
        return X
    features = [make(x) for x in X]
    for i, (tokens, length) in enumerate(zip(features, lengths, strict=True)):
        if not isinstance(tokens, list | tuple):
            raise InputError(
                f"features of sequence {{sequence}} must be a list, not {type(tokens).__name__}",
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
    """Stands for a function, which a model file cannot store. A call raises InputError."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, sequence: Any) -> Any:
        raise InputError(
            f"this model was trained with a function as {self.name}, which a file cannot store: "
            f"pass the function again with trellis.load(path, {self.name}=function)"
        )
