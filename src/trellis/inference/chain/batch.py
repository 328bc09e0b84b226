"""From what callers pass to what the kernels take: layouts, checks, and results in the caller's layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from trellis import _core, native
from trellis.errors import InfeasibleError, InputError
from trellis.inference.chain.results import Numbers, Rows

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Array | Sequence[Array]
Integers: TypeAlias = NDArray[np.int64]

_OK, _INFEASIBLE, _BAD_UNARY, _BAD_TRANSITION = range(4)  # Status in cpp/core/chain_types.hpp


@dataclass(frozen=True)
class Layout:
    """Where the positions of each sequence lie in a flat array of rows, and how to give them back."""

    starts: Integers
    lengths: Integers
    shape: tuple[int, ...] | None  # of the positions: (T,), (B, T), or None for a list of sequences

    @property
    def rows(self) -> int:
        """All rows of the flat array, padding included."""
        return int(np.prod(self.shape)) if self.shape else int(self.lengths.sum())

    @property
    def padded(self) -> bool:
        """Whether some rows may be padding."""
        return self.shape is not None and len(self.shape) == 2

    @property
    def rows_before(self) -> Integers:
        """How many positions the sequences before each one have."""
        return np.cumsum(self.lengths) - self.lengths

    def new_rows(self, columns: tuple[int, ...], dtype: Any, padding: float) -> Array:
        """A flat array of results; what the kernels leave alone holds the padding value."""
        if self.padded:
            return np.full((self.rows, *columns), padding, dtype=dtype)
        return np.empty((self.rows, *columns), dtype=dtype)

    def per_position(self, flat: Array) -> Rows:
        """Flat rows in the caller's layout."""
        if self.shape is None:
            return [flat[s : s + n] for s, n in zip(self.starts, self.lengths, strict=True)]
        return flat.reshape(*self.shape, *flat.shape[1:])

    def per_sequence(self, values: NDArray[np.float64]) -> Numbers:
        """One number a sequence in the caller's layout."""
        return float(values[0]) if self.shape is not None and len(self.shape) == 1 else values

    def paths(self, flat: Integers, n: int) -> Rows:
        """N paths a sequence, packed one sequence after the other, in the caller's layout."""
        split = [
            flat[n * before : n * (before + length)].reshape(n, length)
            for before, length in zip(self.rows_before, self.lengths, strict=True)
        ]
        if self.shape is None:
            return cast(Rows, split)
        if not self.padded:
            return split[0]
        out = np.full((self.shape[0], n, self.shape[1]), -1, dtype=np.int64)
        for row, paths in zip(out, split, strict=True):
            row[:, : paths.shape[1]] = paths
        return out

    def pair_starts(self) -> Integers:
        """The first transition matrix of each sequence among all of them."""
        if self.shape is None:
            return self.starts - np.arange(len(self.starts))
        return np.arange(len(self.starts)) * (self.shape[-1] - 1)

    def new_pairs(self, labels: int, dtype: Any) -> Array:
        """A flat array of one matrix for each pair of neighbours."""
        sequences = len(self.starts)
        matrices = self.rows - sequences if self.rows else 0
        make = np.zeros if self.padded else np.empty
        return make((matrices, labels, labels), dtype=dtype)

    def per_pair(self, flat: Array) -> Rows:
        """Flat matrices in the caller's layout."""
        if self.shape is None:
            first = self.pair_starts()
            return [flat[s : s + n - 1] for s, n in zip(first, self.lengths, strict=True)]
        return flat.reshape(*self.shape[:-1], self.shape[-1] - 1, *flat.shape[1:])


@dataclass(frozen=True)
class Scores:
    """Checked scores of a batch, as the kernels take them."""

    layout: Layout
    unary: Array  # (rows, L)
    transition: NDArray[np.float64] | None  # (L, L), or None if it depends on the position
    transitions: Array | None  # (matrices, L, L)
    transition_starts: Integers | None
    start: NDArray[np.float64] | None
    end: NDArray[np.float64] | None
    threads: int

    @property
    def labels(self) -> int:
        """L."""
        return int(self.unary.shape[1])

    def core(self) -> _core.ChainFloat64:
        """The native batch."""
        make = _core.ChainFloat32 if self.unary.dtype == np.float32 else _core.ChainFloat64
        return make(
            self.unary,
            self.layout.starts,
            self.layout.lengths,
            self.transition,
            self.transitions,
            self.transition_starts,
            self.start,
            self.end,
            self.threads,
        )

    def new_outcomes(self) -> Integers:
        """Room for the status and position of each sequence."""
        return np.zeros((len(self.layout.starts), 2), dtype=np.int64)

    def raise_for(self, outcomes: Integers, *, infeasible: bool = True) -> None:
        """Turn the first bad outcome into an error that says where."""
        status = outcomes[:, 0]
        if not status.any():
            return
        for i in np.flatnonzero(status):
            if status[i] == _BAD_UNARY or status[i] == _BAD_TRANSITION:
                self.check_finite(int(i))
            elif infeasible:
                raise InfeasibleError(
                    f"sequence {i} has no allowed path: every label at position {outcomes[i, 1]} "
                    "is forbidden or out of reach"
                )

    def check_finite(self, i: int) -> None:
        """Raise for the first NaN or +inf among the scores of sequence i."""
        start, length = self.layout.starts[i], self.layout.lengths[i]
        bad = ~(self.unary[start : start + length] < np.inf)
        if bad.any():
            t, y = np.argwhere(bad)[0]
            value = self.unary[start + t, y]
            raise InputError(f"unary of sequence {i}, position {t}, label {y} is {value}")
        if self.transitions is None or self.transition_starts is None:
            return
        first = self.transition_starts[i]
        bad = ~(self.transitions[first : first + length - 1] < np.inf)
        if bad.any():
            t, a, b = np.argwhere(bad)[0]
            value = self.transitions[first + t, a, b]
            raise InputError(
                f"transition of sequence {i} into position {t + 1}, from label {a} to {b} is {value}"
            )


def prepare(
    unary: Arrays,
    transition: Arrays,
    start: Array | None,
    end: Array | None,
    mask: Arrays | None,
    lengths: Array | Sequence[int] | None,
    n_jobs: int | None,
) -> Scores:
    """Check everything that can be checked without reading all scores, and lay it out."""
    threads = native.resolve_jobs(n_jobs)
    flat, layout = _lay_out(unary, lengths)
    labels = flat.shape[1]
    if mask is not None:
        flat = np.where(_flat_mask(mask, unary, flat), flat, flat.dtype.type(-np.inf))
    shared, several, first = _transitions(transition, layout, labels, flat.dtype)
    return Scores(
        layout,
        flat,
        shared,
        several,
        first,
        _vector(start, "start", labels),
        _vector(end, "end", labels),
        threads,
    )


def flat_labels(labels: Arrays, scores: Scores) -> Integers:
    """Check the labels of given paths, and lay them out as the rows of the unary scores."""
    layout = scores.layout
    if layout.shape is None:
        if not isinstance(labels, list | tuple) or len(labels) != len(layout.starts):
            raise InputError(f"labels must be a list of {len(layout.starts)} arrays, as unary is")
        parts = [_integers(y, f"labels of sequence {i}") for i, y in enumerate(labels)]
        for i, (part, length) in enumerate(zip(parts, layout.lengths, strict=True)):
            if part.shape != (length,):
                raise InputError(
                    f"labels of sequence {i} have shape {part.shape}; it has {length} positions"
                )
        flat = np.concatenate(parts)
    else:
        array = _integers(labels, "labels")
        if array.shape != layout.shape:
            raise InputError(f"labels have shape {array.shape}; unary has {layout.shape} positions")
        flat = array.reshape(-1)
    for i, (first, length) in enumerate(zip(layout.starts, layout.lengths, strict=True)):
        own = flat[first : first + length]
        bad = (own < 0) | (own >= scores.labels)
        if bad.any():
            t = int(np.argmax(bad))
            raise InputError(
                f"label of sequence {i}, position {t} is {own[t]}: must be 0 to {scores.labels - 1}"
            )
    return np.ascontiguousarray(flat)


def _lay_out(unary: Arrays, lengths: Any) -> tuple[Array, Layout]:
    if isinstance(unary, list | tuple):
        if lengths is not None:
            raise InputError("lengths go with a (B, T, L) array; a list of sequences has its own")
        return _lay_out_list(unary)
    array = _floats(unary, "unary")
    if array.ndim not in (2, 3):
        raise InputError(f"unary has shape {array.shape}: must be (T, L) or (B, T, L)")
    if 0 in array.shape:
        names = "(T, L)" if array.ndim == 2 else "(B, T, L)"
        raise InputError(f"unary is empty: its shape {names} is {array.shape}; sequence 0 has no scores")
    labels = array.shape[-1]
    if array.ndim == 2:
        if lengths is not None:
            raise InputError(f"lengths go with a (B, T, L) array; unary has shape {array.shape}")
        whole = np.array([len(array)], dtype=np.int64)
        return array, Layout(np.zeros(1, dtype=np.int64), whole, array.shape[:1])
    batch, longest = array.shape[:2]
    layout = Layout(
        np.arange(batch, dtype=np.int64) * longest, _lengths(lengths, batch, longest), (batch, longest)
    )
    return array.reshape(-1, labels), layout


def _lay_out_list(unary: Sequence[Array]) -> tuple[Array, Layout]:
    if not unary:
        raise InputError("unary is an empty list: at least one sequence is needed")
    arrays = [_floats(u, f"unary of sequence {i}") for i, u in enumerate(unary)]
    for i, array in enumerate(arrays):
        if array.ndim != 2:
            raise InputError(f"unary of sequence {i} has shape {array.shape}: must be (T, L)")
        if 0 in array.shape:
            raise InputError(f"sequence {i} is empty: its unary scores have shape {array.shape}")
        if array.shape[1] != arrays[0].shape[1]:
            raise InputError(
                f"sequence {i} has {array.shape[1]} labels, sequence 0 has {arrays[0].shape[1]}"
            )
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    flat = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return flat, Layout(np.cumsum(lengths) - lengths, lengths, None)


def _lengths(lengths: Any, batch: int, longest: int) -> Integers:
    if lengths is None:
        return np.full(batch, longest, dtype=np.int64)
    array = _integers(lengths, "lengths")
    if array.shape != (batch,):
        raise InputError(f"lengths have shape {array.shape}; unary has {batch} sequences")
    bad = (array < 1) | (array > longest)
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(f"length of sequence {i} is {array[i]}: must be 1 to {longest}")
    return array


def _flat_mask(mask: Arrays, unary: Arrays, flat: Array) -> NDArray[np.bool_]:
    if isinstance(unary, list | tuple):
        if not isinstance(mask, list | tuple) or len(mask) != len(unary):
            raise InputError(f"mask must be a list of {len(unary)} arrays, as unary is")
        pairs = [(f"mask of sequence {i}", m, u) for i, (m, u) in enumerate(zip(mask, unary, strict=True))]
    else:
        pairs = [("mask", cast(Array, mask), unary)]
    parts = []
    for name, part, scores in pairs:
        allowed = np.asarray(part)
        if allowed.dtype != np.bool_:
            raise InputError(f"{name} has dtype {allowed.dtype}: must be bool, True where allowed")
        if allowed.shape != np.shape(scores):
            raise InputError(f"{name} has shape {allowed.shape}, unary has {np.shape(scores)}")
        parts.append(allowed.reshape(-1, flat.shape[1]))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _transitions(
    transition: Arrays, layout: Layout, labels: int, dtype: Any
) -> tuple[NDArray[np.float64] | None, Array | None, Integers | None]:
    """Either one matrix, or many with the first one of each sequence."""
    square = (labels, labels)
    if isinstance(transition, list | tuple):
        return None, _list_of_matrices(transition, layout, square, dtype), layout.pair_starts()
    array = _floats(transition, "transition")
    if array.shape == square:
        bad = ~(array < np.inf)
        if bad.any():
            a, b = np.argwhere(bad)[0]
            raise InputError(f"transition from label {a} to {b} is {array[a, b]}")
        return array.astype(np.float64, copy=False), None, None
    if layout.shape is None:
        raise InputError(
            f"transition has shape {array.shape}: must be {square}, or a list of (T-1, L, L) arrays"
        )
    shared_by_batch = (layout.shape[-1] - 1, *square)
    own = (*layout.shape[:-1], *shared_by_batch)
    if array.shape not in (shared_by_batch, own):
        expected = " or ".join(str(s) for s in dict.fromkeys((square, shared_by_batch, own)))
        raise InputError(f"transition has shape {array.shape}: must be {expected}")
    first = layout.pair_starts() if array.shape == own else np.zeros_like(layout.starts)
    return None, array.reshape(-1, *square).astype(dtype, copy=False), first


def _list_of_matrices(
    transition: Sequence[Array], layout: Layout, square: tuple[int, int], dtype: Any
) -> Array:
    if layout.shape is not None or len(transition) != len(layout.starts):
        raise InputError(
            f"transition is a list of {len(transition)}: it goes with a list of as many sequences, "
            f"and there are {len(layout.starts)}"
        )
    matrices = [_floats(m, f"transition of sequence {i}") for i, m in enumerate(transition)]
    for i, (array, length) in enumerate(zip(matrices, layout.lengths, strict=True)):
        if array.shape != (length - 1, *square):
            raise InputError(
                f"transition of sequence {i} has shape {array.shape}: must be {(int(length) - 1, *square)}"
            )
    return np.concatenate(matrices).astype(dtype, copy=False)


def _vector(value: Array | None, name: str, labels: int) -> NDArray[np.float64] | None:
    if value is None:
        return None
    array = _floats(value, name)
    if array.shape != (labels,):
        raise InputError(f"{name} has shape {array.shape}, unary has {labels} labels")
    bad = ~(array < np.inf)
    if bad.any():
        y = int(np.argmax(bad))
        raise InputError(f"{name} of label {y} is {array[y]}")
    return array.astype(np.float64, copy=False)


def _floats(value: Any, name: str) -> Array:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name} is not an array: {error}") from None
    if array.dtype not in (np.float32, np.float64):
        raise InputError(f"{name} has dtype {array.dtype}: must be float32 or float64")
    return np.ascontiguousarray(array)


def _integers(value: Any, name: str) -> Integers:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name} is not an array: {error}") from None
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {array.dtype}: must be integers")
    return np.ascontiguousarray(array, dtype=np.int64)
