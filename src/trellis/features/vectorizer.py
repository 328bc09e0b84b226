"""Ready features: dicts and lists of names, arrays, sparse matrices, and whatever a function makes.

>>> features = ReadyFeatures()
>>> batch = features.learn([[{"bias": 1.0, "word": "Paris", "upper": True}, {"bias": 0.5}]])
>>> features.names(), batch.rows.value.tolist()
(['bias', 'word:Paris', 'upper'], [1.0, 1.0, 1.0, 0.5])
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.features.extractor import TemplateFeatures
from trellis.features.rows import Batch, SparseRows, lengths_of
from trellis.features.spec import Spec
from trellis.features.window import Window, spec_for

__all__ = ["ArrayFeatures", "FeatureMap", "ReadyFeatures", "choose", "from_parts"]


class FeatureMap(Protocol):
    """From sequences to sparse rows."""

    kind: str

    @property
    def has_edges(self) -> bool: ...  # noqa: D102
    @property
    def edges(self) -> int: ...  # noqa: D102
    def learn(self, X: Any) -> Batch: ...  # noqa: D102
    def find(self, X: Any, threads: int = 1) -> Batch: ...  # noqa: D102
    def names(self, edge: bool = False) -> list[str]: ...  # noqa: D102
    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None: ...  # noqa: D102
    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]: ...  # noqa: D102
    def __len__(self) -> int: ...


Maker = Callable[[Any], Any]


class ReadyFeatures:
    """Names and numbers that the caller made, or functions of a sequence that make them.

    A token is a dict (``{"word": "Paris"}`` is the attribute ``word:Paris``, ``{"length": 5}`` the
    attribute ``length`` with value 5) or a list or set of names. ``make(sequence)`` and
    ``make_edges(sequence)``, where given, return such tokens for a sequence of anything.
    """

    kind = "ready"

    def __init__(self, make: Maker | None = None, make_edges: Maker | None = None) -> None:
        self.make, self.make_edges = make, make_edges
        self._names, self._edge_names = _core.Vocabulary(), _core.Vocabulary()

    def learn(self, X: Any) -> Batch:
        """The attributes of all positions; new ones get the next numbers."""
        return self._batch(X, _core.Vocabulary.learn)

    def find(self, X: Any, threads: int = 1) -> Batch:
        """The known attributes of all positions."""
        return self._batch(X, lambda names, own: names.find(own, threads))

    def __len__(self) -> int:
        return len(self._names)

    @property
    def edges(self) -> int:
        """How many attributes of transitions there are."""
        return len(self._edge_names)

    @property
    def has_edges(self) -> bool:
        """Whether there is a function that makes attributes of transitions."""
        return self.make_edges is not None

    def names(self, edge: bool = False) -> list[str]:
        """What each attribute is called."""
        data, ends = (self._edge_names if edge else self._names).strings()
        text = data.tobytes()
        return [text[a:b].decode() for a, b in pairwise(ends)]

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Forget all attributes but these, which are numbered anew from 0."""
        kept = [
            [names[i] for i in some]
            for names, some in ((self.names(), ids), (self.names(edge=True), edge_ids))
        ]
        self._names, self._edge_names = _core.Vocabulary(), _core.Vocabulary()
        self._names.restore(kept[0])
        self._edge_names.restore(kept[1])

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays that `from_parts` makes an equal map of, but for its functions."""
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
    ) -> "ReadyFeatures":
        """`strings(name)` gives the checked list of strings that is stored under a name."""
        features = cls(
            _missing("features") if meta.get("made") else None,
            _missing("edge_features") if meta.get("made_edges") else None,
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
    ) -> "ReadyFeatures":
        """Attribute i is called ``data[begin[i] : begin[i] + size[i]]``, in UTF-8 and without NUL.

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
        """The names, as the core knows them."""
        return self._names

    def __getstate__(self) -> dict[str, Any]:
        names = {"names": self.names(), "edge_names": self.names(edge=True)}
        return {"make": self.make, "make_edges": self.make_edges, "strings": names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = self.from_parts({}, {}, state["strings"].__getitem__).__dict__
        self.make, self.make_edges = state["make"], state["make_edges"]

    def _batch(self, X: Any, read: Any) -> Batch:
        lengths = lengths_of(X, anything=self.make is not None)
        try:
            rows = SparseRows(*read(self._names, _made(self.make, X, lengths)))
            if self.make_edges is None:
                return Batch(lengths, rows)
            made = _made(self.make_edges, X, lengths)
            edges = [[[], *own[1:]] if len(own) else [] for own in made]
            return Batch(lengths, rows, SparseRows(*read(self._edge_names, edges)))
        except InputError:
            raise
        except ValueError as error:
            raise InputError(str(error)) from None


class ArrayFeatures:
    """Sequences that are arrays or SciPy sparse matrices of shape (length, d)."""

    kind = "array"
    has_edges = False
    edges = 0

    def __init__(self, columns: int | None = None) -> None:
        self.columns = columns
        self.kept: NDArray[np.int32] | None = None

    def learn(self, X: Any) -> Batch:
        """All entries other than 0, with their columns as attributes."""
        count = len(lengths_of_arrays(X))
        if self.kept is None or self.columns is None:
            self.columns = _columns_of(X[0], 0) if count else 0
            self.kept = np.zeros(0, dtype=np.int32)
        new = np.setdiff1d(np.arange(self.columns, dtype=np.int32), self.kept)
        self.kept = np.concatenate([self.kept, new])
        return self.find(X)

    def find(self, X: Any, threads: int = 1) -> Batch:
        """All entries other than 0 of the columns that are known."""
        from scipy import sparse

        if self.kept is None or self.columns is None:
            raise InputError("nothing has been learned yet")
        lengths = lengths_of_arrays(X)
        parts = []
        for i, x in enumerate(X):
            if _columns_of(x, i) != self.columns:
                raise InputError(
                    f"sequence {i} has {_columns_of(x, i)} columns, expected {self.columns}"
                )
            parts.append(_csr(x, i))
        matrix = sparse.vstack(parts, format="csr") if parts else sparse.csr_array((0, 0))
        bad = ~np.isfinite(matrix.data)
        if bad.any():
            row = int(np.searchsorted(matrix.indptr, np.argmax(bad), side="right")) - 1
            ends = np.cumsum(lengths)
            i = int(np.searchsorted(ends, row, side="right"))
            at = row - (int(ends[i - 1]) if i else 0)
            raise InputError(f"sequence {i}, position {at}: a value is not finite")
        rows = SparseRows(
            matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data
        )
        new = np.full(self.columns, -1, dtype=np.int32)
        new[self.kept] = np.arange(len(self.kept), dtype=np.int32)
        return Batch(lengths, rows.renumbered(new))

    def __len__(self) -> int:
        return 0 if self.kept is None else len(self.kept)

    def names(self, edge: bool = False) -> list[str]:
        """The numbers of the columns."""
        return [] if edge or self.kept is None else [str(c) for c in self.kept]

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Forget all columns but these."""
        self.kept = np.asarray(self.kept)[ids]

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays that `from_parts` makes an equal map of."""
        return {"columns": self.columns}, {"kept": np.asarray(self.kept, dtype=np.int32)}

    @classmethod
    def from_parts(
        cls,
        meta: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        strings: Any,
    ) -> "ArrayFeatures":
        """What `to_parts` gave."""
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
    """How many rows each matrix has; ``len`` of a sparse matrix is an error."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of sequences, not {type(X).__name__}")
    for i, x in enumerate(X):
        _columns_of(x, i)
    return np.fromiter((x.shape[0] for x in X), dtype=np.int64, count=len(X))


def choose(features: Any, edge_features: Any, X: Any) -> FeatureMap:
    """The map for what the caller gave: a spec, a window, a function, or None for the kind of X."""
    if isinstance(features, Window):
        features = features.spec()
    if isinstance(features, Spec):
        if edge_features is not None:
            raise InputError("edge_features go with ready features; a spec has edge templates")
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
            raise InputError("edge_features go with dicts and lists of features, not with arrays")
        return ArrayFeatures()
    token = first[0] if first is not None else ""
    if isinstance(token, str | tuple) and edge_features is None:
        return TemplateFeatures(spec_for(token))
    return ReadyFeatures(None, edge_features)


def from_parts(
    kind: Any, meta: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], strings: Any
) -> FeatureMap:
    """The map of that kind that `to_parts` was called on."""
    makers: dict[Any, Any] = {m.kind: m for m in (TemplateFeatures, ReadyFeatures, ArrayFeatures)}
    if kind not in makers:
        raise InputError(f"unknown kind of features: {kind!r}")
    made: FeatureMap = makers[kind].from_parts(meta, tensors, strings)
    return made


def _size(x: Any) -> int:
    if isinstance(x, str | bytes | dict) or not (hasattr(x, "__len__") or hasattr(x, "shape")):
        raise InputError(f"a sequence must be a list of tokens, not {type(x).__name__}")
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def _csr(x: Any, i: int) -> Any:
    from scipy import sparse

    if x.dtype.kind not in "biuf":
        raise InputError(f"sequence {i} has dtype {x.dtype}: must be real numbers")
    matrix = sparse.csr_array(x, dtype=np.float64, copy=True)
    matrix.eliminate_zeros()
    return matrix


def _columns_of(x: Any, i: int) -> int:
    if getattr(x, "ndim", 0) != 2:
        raise InputError(f"sequence {i} must be an array of shape (length, d), like sequence 0")
    return int(x.shape[1])


def _made(make: Maker | None, X: Any, lengths: NDArray[np.int64]) -> Any:
    if make is None:
        return X
    made = [make(x) for x in X]
    for i, (tokens, length) in enumerate(zip(made, lengths, strict=True)):
        if not isinstance(tokens, list | tuple):
            raise InputError(f"the features of sequence {i} must be a list, not {type(tokens)}")
        if len(tokens) != length:
            raise InputError(
                f"the function returned features of {len(tokens)} positions for sequence {i}, "
                f"which has {length}"
            )
    return made


class _missing:  # noqa: N801
    """Stands for a function that a model file cannot hold."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, sequence: Any) -> Any:
        raise InputError(
            f"this model was trained with a function as {self.name}, which its file cannot hold: "
            f"pass it again, as trellis.load(path, {self.name}=function)"
        )
