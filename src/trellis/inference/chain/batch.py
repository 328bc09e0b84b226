"""From what callers pass to what the kernels take, with every check on the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from trellis import _core, native
from trellis.errors import InfeasibleError, InputError
from trellis.inference.chain.layout import Array, Integers, Layout

Arrays: TypeAlias = Array | Sequence[Array]

_NATIVE_FLOATS = (np.dtype(np.float32).str, np.dtype(np.float64).str)
_MOST_LABELS = 2**15  # kMaxLabels in cpp/core/chain/types.hpp
_INFEASIBLE, _BAD_LABEL = 1, 4  # Status in the same file


@dataclass(frozen=True)
class Scores:
    """Checked scores of a batch, as the kernels take them."""

    layout: Layout
    unary: Array | list[Array]  # (rows, L), or one (T, L) array a sequence
    labels: int
    dtype: Any
    transition: NDArray[np.float64] | None  # (L, L), or None if it depends on the position
    transitions: list[Array] | None  # at least T-1 matrices a sequence
    start: NDArray[np.float64] | None
    end: NDArray[np.float64] | None
    threads: int

    def core(self) -> _core.ChainFloat64:
        """The native batch."""
        make = _core.ChainFloat32 if self.dtype == np.float32 else _core.ChainFloat64
        return make(
            self.unary,
            self.layout.starts,
            self.layout.lengths,
            self.transition,
            self.transitions,
            self.start,
            self.end,
            self.threads,
        )

    def new_rows(self, columns: tuple[int, ...], dtype: Any, padding: float) -> Array:
        """Room for results, one row a position; beyond the end of a sequence it holds `padding`."""
        flat = np.empty((self.layout.rows, *columns), dtype=dtype)
        return self._pad(flat, self.layout.lengths, padding)

    def new_pairs(self) -> Array:
        """Room for one matrix for each pair of neighbours, 0 beyond the end of a sequence."""
        matrices = self.layout.rows - len(self.layout.starts)
        flat = np.empty((matrices, self.labels, self.labels), dtype=self.dtype)
        return self._pad(flat, self.layout.lengths - 1, 0.0)

    def _pad(self, flat: Array, lengths: Integers, value: float) -> Array:
        if self.layout.padded and flat.size:
            slot = len(flat) // len(lengths)
            _core.fill_padding(flat.reshape(len(flat), -1), lengths, slot, value, self.threads)
        return flat

    def new_outcomes(self) -> Integers:
        """Room for the status and position of each sequence."""
        return np.zeros((len(self.layout.starts), 2), dtype=np.int64)

    def raise_for(
        self, outcomes: Integers, values: NDArray[np.float64], *, infeasible: bool = True
    ) -> None:
        """Turn the first bad outcome, or a value that overflowed, into an error that says where."""
        if not outcomes[:, 0].any() and values.max() < np.inf:
            return
        wrong = (outcomes[:, 0] != 0) | ~(values < np.inf)
        for i in np.flatnonzero(wrong):
            status, position = outcomes[i]
            if status != _INFEASIBLE:
                self.check_finite(int(i))
                raise InputError(f"scores of sequence {i} overflow: their sum is not a number")
            if infeasible:
                raise InfeasibleError(
                    f"sequence {i} has no allowed path: every label at position {position} "
                    "is forbidden or out of reach"
                )

    def raise_for_labels(self, outcomes: Integers, labels: Integers) -> None:
        """Raise for the first label of a given path that is not one of the labels."""
        for i in np.flatnonzero(outcomes[:, 0] == _BAD_LABEL):
            position = outcomes[i, 1]
            value = labels[self.layout.starts[i] + position]
            raise InputError(
                f"label of sequence {i}, position {position} is {value}: "
                f"must be 0 to {self.labels - 1}"
            )

    def check_finite(self, i: int) -> None:
        """Raise for the first NaN or +inf among the scores of sequence i."""
        start, length = self.layout.starts[i], self.layout.lengths[i]
        listed = isinstance(self.unary, list)
        own = self.unary[i] if listed else cast(Array, self.unary)[start : start + length]
        bad = ~(own < np.inf)
        if bad.any():
            t, y = np.argwhere(bad)[0]
            raise InputError(f"unary of sequence {i}, position {t}, label {y} is {own[t, y]}")
        if self.transitions is None:
            return
        matrices = self.transitions[i][: length - 1]
        bad = ~(matrices < np.inf)
        if bad.any():
            t, a, b = np.argwhere(bad)[0]
            value = matrices[t, a, b]
            raise InputError(
                f"transition of sequence {i} into position {t + 1}, label {a} to {b}, is {value}"
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
    if isinstance(unary, list | tuple):
        if lengths is not None:
            raise InputError("lengths go with a (B, T, L) array; a list of sequences has its own")
        arrays, layout, labels = _lay_out_list(list(unary))
        dtype = arrays[0].dtype
        if mask is not None:
            arrays = _mask_list(mask, arrays)
        scores: Array | list[Array] = arrays
    else:
        flat, layout = _lay_out(unary, lengths)
        labels, dtype = flat.shape[1], flat.dtype
        if mask is not None:
            allowed = _mask(mask, np.shape(unary), "mask").reshape(flat.shape)
            flat = np.where(allowed, flat, dtype.type(-np.inf))
        scores = flat
    if labels > _MOST_LABELS:
        raise InputError(f"unary has {labels} labels: at most {_MOST_LABELS} are supported")
    shared, several = _transitions(transition, layout, labels)
    if several is not None:
        dtype = np.result_type(dtype, *{array.dtype for array in several})
        several = [array.astype(dtype, copy=False) for array in several]
        scores = _as_type(scores, dtype)
    return Scores(
        layout,
        scores,
        labels,
        dtype,
        shared,
        several,
        _vector(start, "start", labels),
        _vector(end, "end", labels),
        threads,
    )


def _as_type(scores: Array | list[Array], dtype: Any) -> Array | list[Array]:
    if isinstance(scores, list):
        return [array.astype(dtype, copy=False) for array in scores]
    return scores.astype(dtype, copy=False)


def flat_labels(labels: Arrays, scores: Scores) -> Integers:
    """The labels of given paths, laid out as the unary scores are; values are not checked."""
    layout = scores.layout
    if layout.shape is None:
        _check_list(labels, len(layout.starts), "labels")
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
    return np.ascontiguousarray(flat)


def _lay_out(unary: Any, lengths: Any) -> tuple[Array, Layout]:
    array = _floats(unary, "unary")
    if array.ndim not in (2, 3):
        raise InputError(f"unary has shape {array.shape}: must be (T, L) or (B, T, L)")
    if 0 in array.shape:
        what = "the batch" if array.shape[0] == 0 and array.ndim == 3 else "sequence 0"
        raise InputError(f"{what} is empty: unary has shape {array.shape}")
    labels = array.shape[-1]
    if array.ndim == 2:
        if lengths is not None:
            raise InputError(f"lengths go with a (B, T, L) array; unary has shape {array.shape}")
        whole = np.array([len(array)], dtype=np.int64)
        return array, Layout(np.zeros(1, dtype=np.int64), whole, array.shape[:1])
    batch, longest = array.shape[:2]
    starts = np.arange(batch, dtype=np.int64) * longest
    layout = Layout(starts, _lengths(lengths, batch, longest), (batch, longest))
    return array.reshape(-1, labels), layout


def _lay_out_list(unary: list[Any]) -> tuple[list[Array], Layout, int]:
    if not unary:
        raise InputError("unary is an empty list: at least one sequence is needed")
    lengths = np.empty(len(unary), dtype=np.int64)
    labels = _core.scan_arrays(unary, lengths)
    if not labels:
        unary = _uniform(unary)
        labels = _core.scan_arrays(unary, lengths)
    return unary, Layout(np.cumsum(lengths) - lengths, lengths, None), labels


def _uniform(unary: list[Any]) -> list[Array]:
    """Contiguous arrays of one dtype and one number of labels, or an error that names one."""
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
    dtype = np.result_type(*{array.dtype for array in arrays})
    return [np.asarray(array, dtype=dtype) for array in arrays]


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
    return array.copy()  # the caller may change its own, and pairwise marginals are made later


def _mask(mask: Any, shape: tuple[int, ...], name: str) -> NDArray[np.bool_]:
    allowed = _array(mask, name)
    if allowed.dtype != np.bool_:
        raise InputError(f"{name} has dtype {allowed.dtype}: must be bool, True where allowed")
    if allowed.shape != shape:
        raise InputError(f"{name} has shape {allowed.shape}, unary has {shape}")
    return allowed


def _mask_list(mask: Any, arrays: list[Array]) -> list[Array]:
    _check_list(mask, len(arrays), "mask")
    return [
        np.where(_mask(m, u.shape, f"mask of sequence {i}"), u, u.dtype.type(-np.inf))
        for i, (m, u) in enumerate(zip(mask, arrays, strict=True))
    ]


def _transitions(
    transition: Arrays, layout: Layout, labels: int
) -> tuple[NDArray[np.float64] | None, list[Array] | None]:
    """Either one matrix, or several for each sequence."""
    square = (labels, labels)
    if isinstance(transition, list | tuple):
        return None, _list_of_matrices(transition, layout, square)
    array = _floats(transition, "transition")
    if array.shape == square:
        if not array.max() < np.inf:  # true also for NaN
            a, b = np.argwhere(~(array < np.inf))[0]
            raise InputError(f"transition from label {a} to {b} is {array[a, b]}")
        return array.astype(np.float64, copy=False), None
    if layout.shape is None:
        raise InputError(
            f"transition has shape {array.shape}: must be {square}, or a list of (T-1, L, L) arrays"
        )
    shared_by_batch = (layout.shape[-1] - 1, *square)
    own = (*layout.shape[:-1], *shared_by_batch)
    if array.shape not in (shared_by_batch, own):
        expected = " or ".join(str(s) for s in dict.fromkeys((square, shared_by_batch, own)))
        raise InputError(f"transition has shape {array.shape}: must be {expected}")
    count = len(layout.starts)
    return None, [array] * count if array.shape == shared_by_batch else list(array)


def _list_of_matrices(
    transition: Sequence[Array], layout: Layout, square: tuple[int, int]
) -> list[Array]:
    if layout.shape is not None or len(transition) != len(layout.starts):
        raise InputError(
            f"transition is a list of {len(transition)}: it goes with a list of as many sequences, "
            f"and there are {len(layout.starts)}"
        )
    matrices = [_floats(m, f"transition of sequence {i}") for i, m in enumerate(transition)]
    for i, (array, length) in enumerate(zip(matrices, layout.lengths, strict=True)):
        if array.shape != (length - 1, *square):
            expected = (int(length) - 1, *square)
            raise InputError(
                f"transition of sequence {i} has shape {array.shape}: must be {expected}"
            )
    return matrices


def _vector(value: Array | None, name: str, labels: int) -> NDArray[np.float64] | None:
    if value is None:
        return None
    array = _floats(value, name)
    if array.shape != (labels,):
        raise InputError(f"{name} has shape {array.shape}, unary has {labels} labels")
    if not array.max() < np.inf:
        y = int(np.argmax(~(array < np.inf)))
        raise InputError(f"{name} of label {y} is {array[y]}")
    return array.astype(np.float64, copy=False)


def _check_list(value: Any, count: int, name: str) -> None:
    given = len(value) if isinstance(value, list | tuple) else type(value).__name__
    if given != count:
        raise InputError(f"{name} must be a list of {count} arrays, as unary is, not {given}")


def _array(value: Any, name: str) -> Array:
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged, or another library's tensor
        raise InputError(f"{name} is not an array: {error}") from None


def _floats(value: Any, name: str) -> Array:
    if type(value) is np.ndarray and value.dtype.str in _NATIVE_FLOATS and value.flags.carray:
        return value
    array = _array(value, name)
    if array.dtype not in (np.float32, np.float64):
        raise InputError(f"{name} has dtype {array.dtype}: must be float32 or float64")
    return np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"])


def _integers(value: Any, name: str) -> Integers:
    array = _array(value, name)
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {array.dtype}: must be integers")
    return np.require(array, dtype=np.int64, requirements=["C_CONTIGUOUS", "ALIGNED"])
