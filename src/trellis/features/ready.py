"""Features that the caller computes: dicts, lists of names, or a function that returns them.

>>> features = ReadyFeatures()
>>> batch = features.learn([[{"bias": 1.0, "word": "Paris", "upper": True}, {"bias": 0.5}]])
>>> features.names(), batch.rows.value.tolist()
(['bias', 'word:Paris', 'upper'], [1.0, 1.0, 1.0, 0.5])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import flag
from trellis.errors import InputError
from trellis.features.rows import FeatureBatch, SparseRows, core_error, lengths_of

__all__ = ["FeatureFunction", "MissingFunction", "ReadyFeatures", "call_on_each"]

FeatureFunction = Callable[[Any], Any]


class ReadyFeatures:
    """Attributes that the caller, or a function of the caller, computes.

    A token is a dict (``{"word": "Paris"}`` is the attribute ``word:Paris``, ``{"length": 5}`` the
    attribute ``length`` with value 5) or a list or set of names. ``make(sequence)``, if not None,
    returns such tokens for a sequence of any objects.
    """

    kind = "ready"
    has_edges = False
    edges = 0

    def __init__(self, make: FeatureFunction | None = None) -> None:
        self.make = make
        self._names = _core.Vocabulary()

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

    def names(self, edge: bool = False) -> list[str]:
        """Return the name of each attribute."""
        if edge:
            return []
        data, ends = self._names.strings()
        text = data.tobytes()
        return [text[begin:end].decode() for begin, end in pairwise(ends)]

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Keep only the attributes with the numbers ``ids``, and number them from 0."""
        names, self._names = self.names(), _core.Vocabulary()
        self._names.restore([names[i] for i in ids])

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return (meta, tensors) for `from_parts`.

        The function of the user is not stored; meta says whether the map had one.
        """
        data, ends = self._names.strings()
        tensors: dict[str, NDArray[Any]] = {"names.bytes": data.view(np.uint8), "names.ends": ends}
        # Version 0.1.0 expects names of edge features in these parts, so they are an empty list.
        data, ends = _core.Vocabulary().strings()
        tensors |= {"edge_names.bytes": data.view(np.uint8), "edge_names.ends": ends}
        return {"made": self.make is not None, "made_edges": False}, tensors

    @classmethod
    def from_parts(
        cls,
        meta: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        strings: Any,
    ) -> ReadyFeatures:
        """Build the map from its parts; `strings(name)` returns validated strings."""
        uses_function = flag(meta.get("made", False), "made")
        features = cls(MissingFunction("features") if uses_function else None)
        try:
            features._names.restore(strings("names"))
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
        return {"make": self.make, "strings": {"names": self.names()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = self.from_parts({}, {}, state["strings"].__getitem__).__dict__
        self.make = state["make"]

    def _batch(self, X: Any, read: Any) -> FeatureBatch:
        lengths = lengths_of(X, allow_str_or_dict=self.make is not None)
        try:
            rows = SparseRows(*read(self._names, call_on_each(self.make, X, lengths)))
            return FeatureBatch(lengths, rows)
        except InputError:
            raise
        except ValueError as error:
            raise core_error(error) from None


def call_on_each(
    make: FeatureFunction | None, X: Any, lengths: NDArray[np.int64], arrays: bool = False
) -> Any:
    """Return validated make(x) for each sequence, or X itself if ``make`` is None.

    The results are lists; with ``arrays``, they may also be arrays or sparse matrices.
    """
    if make is None:
        return X
    features = [make(x) for x in X]
    for i, (tokens, length) in enumerate(zip(features, lengths, strict=True)):
        is_array = arrays and len(getattr(tokens, "shape", ())) > 0
        if not (is_array or isinstance(tokens, list | tuple)):
            raise InputError(
                f"features of sequence {{sequence}} must be a list, not {type(tokens).__name__}",
                sequence=i,
            )
        count = tokens.shape[0] if is_array else len(tokens)  # sparse matrices have no len()
        if count != length:
            raise InputError(
                f"the function returned features of {count} positions for sequence "
                f"{{sequence}}, which has {length}",
                sequence=i,
            )
    return features


class MissingFunction:
    """Placeholder for a function of the user, which a model file cannot store."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        """Raise InputError, which says how to pass the function."""
        raise InputError(
            f"this model was trained with a function as {self.name}, which a file cannot store: "
            f"pass the function again with trellis.load(path, {self.name}=function)"
        )
