"""Validate the caller's scores and labels, and convert them to the flat arrays of the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis import _core, native
from trellis.errors import InfeasibleError, InputError
from trellis.inference.chain.layout import Array, BatchLayout, Floats, Integers
from trellis.inference.chain.scores import Scores

_NATIVE_FLOATS = (np.dtype(np.float32).str, np.dtype(np.float64).str)
# The same values are in cpp/core/chain/types.hpp. An index into an (L, L) matrix must fit into an
# int. The status numbers are those of the enum Status.
_MAX_LABELS = 2**15
_INFEASIBLE, _BAD_LABEL = 1, 4


@dataclass(eq=False, slots=True)  # not frozen: that would add 5 % to the time of a short sequence
class ValidatedScores:
    """Validated scores of B sequences and L labels, as the kernels take them."""

    layout: BatchLayout
    unary: Array | list[Array]  # (rows, L), or one (T, L) array per sequence
    labels: int  # L
    dtype: Any  # the dtype of unary and of array results: float32 or float64
    transition: Floats | None  # (L, L), or None if it depends on the position
    transitions: list[Array] | None  # otherwise: at least T-1 matrices (L, L) per sequence
    transitions_shared: bool  # True if the caller passed one (T-1, L, L) array for a padded batch
    start: Floats | None  # (L,)
    end: Floats | None  # (L,)
    threads: int

    def core(self) -> _core.ChainFloat64:
        """Return the batch of the native core. It has one method per function of the chain."""
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
        """Return a buffer with one row per position, (rows, *columns). Padding is `padding`."""
        flat = np.empty((self.layout.rows, *columns), dtype=dtype)
        return self._pad(flat, self.layout.lengths, padding)

    def new_pairs(self) -> Array:
        """Return a buffer with one (L, L) matrix per pair of neighbours; padded matrices hold 0."""
        matrices = self.layout.rows - len(self.layout.starts)
        flat = np.empty((matrices, self.labels, self.labels), dtype=self.dtype)
        return self._pad(flat, self.layout.lengths - 1, 0.0)

    def _pad(self, flat: Array, lengths: Integers, value: float) -> Array:
        if self.layout.padded and flat.size:
            slot = len(flat) // len(lengths)
            _core.fill_padding(flat.reshape(len(flat), -1), lengths, slot, value, self.threads)
        return flat

    def new_outcomes(self) -> Integers:
        """Return a buffer (B, 2) for the status of each sequence and its position."""
        return np.zeros((len(self.layout.starts), 2), dtype=np.int64)

    def raise_for(self, outcomes: Integers, values: Floats, *, infeasible: bool = True) -> None:
        """Raise an error for the first sequence with a bad status or a value that overflowed.

        With ``infeasible=False``, a sequence without an allowed path is not an error.
        """
        if not outcomes[:, 0].any() and values.max() < np.inf:
            return
        wrong = (outcomes[:, 0] != 0) | ~(values < np.inf)  # ~(x < inf) is also true for NaN
        for i in np.flatnonzero(wrong).tolist():
            status, position = outcomes[i]
            if status != _INFEASIBLE:
                self.check_finite(i)
                raise InputError(
                    "scores of sequence {sequence} overflow: their sum is not a number", sequence=i
                )
            if infeasible:
                raise InfeasibleError(
                    f"sequence {{sequence}} has no allowed path: every label at position "
                    f"{position} is forbidden or out of reach",
                    sequence=i,
                )

    def raise_for_labels(self, outcomes: Integers, labels: Integers) -> None:
        """Raise InputError for the first label of a path that is not between 0 and L - 1."""
        for i in np.flatnonzero(outcomes[:, 0] == _BAD_LABEL).tolist():
            position = outcomes[i, 1]
            value = labels[self.layout.starts[i] + position]
            raise InputError(
                f"label of sequence {{sequence}}, position {position} is {value}: "
                f"must be 0 to {self.labels - 1}",
                sequence=i,
            )

    def check_finite(self, i: int) -> None:
        """Raise InputError for the first NaN or +inf among the scores of sequence i."""
        start, length = self.layout.starts[i], self.layout.lengths[i]
        listed = isinstance(self.unary, list)
        unary = self.unary[i] if listed else cast(Array, self.unary)[start : start + length]
        bad = ~(unary < np.inf)
        if bad.any():
            t, y = np.argwhere(bad)[0]
            raise InputError(
                f"unary of sequence {{sequence}}, position {t}, label {y} is {unary[t, y]}: "
                "must be finite or -inf",
                sequence=i,
            )
        if self.transitions is None:
            return
        matrices = self.transitions[i][: length - 1]
        bad = ~(matrices < np.inf)
        if bad.any():
            t, a, b = np.argwhere(bad)[0]
            raise InputError(
                f"transition of sequence {{sequence}} into position {t + 1}, label {a} to {b}, "
                f"is {matrices[t, a, b]}: must be finite or -inf",
                sequence=i,
            )


def validate(scores: Scores, n_jobs: int | None) -> ValidatedScores:
    """Validate shapes, dtypes and small arrays, and convert the scores for the kernels.

    The kernels detect NaN and +inf among the unary scores while they read them. A check here would
    read all scores twice.
    """
    threads = native.resolve_jobs(n_jobs)
    unary, layout, labels = _prepare_unary(scores)
    dtype = unary[0].dtype if isinstance(unary, list) else unary.dtype
    if labels > _MAX_LABELS:
        raise InputError(f"unary has {labels} labels: at most {_MAX_LABELS} are supported")
    shared, per_step = _prepare_transitions(scores.transition, layout, labels)
    if per_step is not None:
        dtype = np.result_type(dtype, *{array.dtype for array in per_step})
        per_step = [array.astype(dtype, copy=False) for array in per_step]
        unary = _as_type(unary, dtype)
    return ValidatedScores(
        layout=layout,
        unary=unary,
        labels=labels,
        dtype=dtype,
        transition=shared,
        transitions=per_step,
        transitions_shared=layout.padded and np.ndim(scores.transition) == 3,
        start=_validate_vector(scores.start, "start", labels),
        end=_validate_vector(scores.end, "end", labels),
        threads=threads,
    )


def _prepare_unary(scores: Scores) -> tuple[Array | list[Array], BatchLayout, int]:
    """Return masked unary scores, (rows, L) or one array per sequence; their layout; and L."""
    if isinstance(scores.unary, list | tuple):
        if scores.lengths is not None:
            raise InputError(
                "lengths must be None if unary is a list: each array of the list has a length"
            )
        arrays, layout, labels = _lay_out_list(list(scores.unary))
        return arrays if scores.mask is None else _apply_masks(scores.mask, arrays), layout, labels
    flat, layout = _lay_out(scores.unary, scores.lengths)
    if scores.mask is not None:
        allowed = _validate_mask(scores.mask, np.shape(scores.unary), "mask").reshape(flat.shape)
        flat = np.where(allowed, flat, flat.dtype.type(-np.inf))
    return flat, layout, flat.shape[1]


def _as_type(unary: Array | list[Array], dtype: Any) -> Array | list[Array]:
    if isinstance(unary, list):
        return [array.astype(dtype, copy=False) for array in unary]
    return unary.astype(dtype, copy=False)


def flat_labels(labels: ArrayLike, scores: ValidatedScores) -> Integers:
    """Return the labels of one path per sequence as flat rows. The kernels validate the values."""
    layout = scores.layout
    if layout.shape is None:
        paths = _validate_list(labels, len(layout.starts), "labels")
        arrays = [_as_integers(path, "labels of sequence {sequence}", i) for i, path in paths]
        for i, (array, length) in enumerate(zip(arrays, layout.lengths, strict=True)):
            if array.shape != (length,):
                raise InputError(
                    f"labels of sequence {{sequence}} have shape {array.shape}; "
                    f"it has {length} positions",
                    sequence=i,
                )
        flat = np.concatenate(arrays)
    else:
        array = _as_integers(labels, "labels")
        if array.shape != layout.shape:
            raise InputError(f"labels have shape {array.shape}; unary has {layout.shape} positions")
        flat = array.reshape(-1)
    return np.ascontiguousarray(flat)


def _lay_out(unary: ArrayLike, lengths: ArrayLike | None) -> tuple[Array, BatchLayout]:
    """Return flat rows (rows, L) of one sequence or of a padded batch, and their layout."""
    array = _as_floats(unary, "unary")
    if array.ndim not in (2, 3):
        raise InputError(f"unary has shape {array.shape}: must be (T, L) or (B, T, L)")
    if array.ndim == 3 and array.shape[0] == 0:
        raise InputError(f"the batch is empty: unary has shape {array.shape}")
    if 0 in array.shape:
        raise InputError(
            f"sequence {{sequence}} is empty: unary has shape {array.shape}", sequence=0
        )
    labels = array.shape[-1]
    if array.ndim == 2:
        if lengths is not None:
            raise InputError(
                f"lengths must be None if unary is (T, L); unary has shape {array.shape}"
            )
        length = np.array([len(array)], dtype=np.int64)
        return array, BatchLayout(np.zeros(1, dtype=np.int64), length, array.shape[:1])
    batch, longest = array.shape[:2]
    starts = np.arange(batch, dtype=np.int64) * longest
    layout = BatchLayout(starts, _validate_lengths(lengths, batch, longest), (batch, longest))
    return array.reshape(-1, labels), layout


def _lay_out_list(unary: list[Any]) -> tuple[list[Array], BatchLayout, int]:
    if not unary:
        raise InputError("unary is an empty list: at least one sequence is needed")
    lengths = np.empty(len(unary), dtype=np.int64)
    # A Python loop over many short sequences takes longer than decoding them, so one native call
    # reads the shapes of all arrays. It returns 0 if an array must be converted or is invalid.
    labels = _core.scan_arrays(unary, lengths)
    if not labels:
        unary = _unify_arrays(unary)
        labels = _core.scan_arrays(unary, lengths)
    return unary, BatchLayout(np.cumsum(lengths) - lengths, lengths, None), labels


def _unify_arrays(unary: list[Any]) -> list[Array]:
    """Return the list as contiguous arrays of one dtype and one number of labels."""
    arrays = [_as_floats(u, "unary of sequence {sequence}", i) for i, u in enumerate(unary)]
    for i, array in enumerate(arrays):
        if array.ndim != 2:
            raise InputError(
                f"unary of sequence {{sequence}} has shape {array.shape}: must be (T, L)",
                sequence=i,
            )
        if 0 in array.shape:
            raise InputError(
                f"sequence {{sequence}} is empty: its unary scores have shape {array.shape}",
                sequence=i,
            )
        if array.shape[1] != arrays[0].shape[1]:
            raise InputError(
                f"sequence {{sequence}} has {array.shape[1]} labels, but the first sequence "
                f"has {arrays[0].shape[1]}",
                sequence=i,
            )
    dtype = np.result_type(*{array.dtype for array in arrays})
    return [np.asarray(array, dtype=dtype) for array in arrays]


def _validate_lengths(lengths: ArrayLike | None, batch: int, longest: int) -> Integers:
    if lengths is None:
        return np.full(batch, longest, dtype=np.int64)
    array = _as_integers(lengths, "lengths")
    if array.shape != (batch,):
        raise InputError(f"lengths have shape {array.shape}; unary has {batch} sequences")
    bad = (array < 1) | (array > longest)
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(
            f"length of sequence {{sequence}} is {array[i]}: must be 1 to {longest}", sequence=i
        )
    # Pairwise marginals are computed later. The caller may change the array before that.
    return array.copy()


def _validate_mask(
    mask: Any, shape: tuple[int, ...], name: str, sequence: int | None = None
) -> NDArray[np.bool_]:
    allowed = _as_array(mask, name, sequence)
    if allowed.dtype != np.bool_:
        raise InputError(
            f"{name} has dtype {allowed.dtype}: must be bool, True where allowed", sequence=sequence
        )
    if allowed.shape != shape:
        raise InputError(f"{name} has shape {allowed.shape}, unary has {shape}", sequence=sequence)
    return allowed


def _apply_masks(mask: ArrayLike, arrays: list[Array]) -> list[Array]:
    masks = _validate_list(mask, len(arrays), "mask")
    return [
        np.where(
            _validate_mask(m, arrays[i].shape, "mask of sequence {sequence}", i),
            arrays[i],
            arrays[i].dtype.type(-np.inf),
        )
        for i, m in masks
    ]


def _prepare_transitions(
    transition: ArrayLike, layout: BatchLayout, labels: int
) -> tuple[Floats | None, list[Array] | None]:
    """Return one matrix for all steps, or None and a (T-1, L, L) array for each sequence."""
    square = (labels, labels)
    if isinstance(transition, list | tuple):
        return None, _validate_matrices(transition, layout, square)
    array = _as_floats(transition, "transition")
    if array.shape == square:
        if not array.max() < np.inf:  # also true for NaN
            a, b = np.argwhere(~(array < np.inf))[0]
            raise InputError(
                f"transition from label {a} to {b} is {array[a, b]}: must be finite or -inf"
            )
        return array.astype(np.float64, copy=False), None
    if layout.shape is None:
        raise InputError(
            f"transition has shape {array.shape}: must be {square}, or a list of (T-1, L, L) arrays"
        )
    shared_by_batch = (layout.shape[-1] - 1, *square)
    per_sequence = (*layout.shape[:-1], *shared_by_batch)
    if array.shape not in (shared_by_batch, per_sequence):
        shapes = dict.fromkeys((square, shared_by_batch, per_sequence))
        expected = " or ".join(str(shape) for shape in shapes)
        raise InputError(f"transition has shape {array.shape}: must be {expected}")
    count = len(layout.starts)
    return None, [array] * count if array.shape == shared_by_batch else list(array)


def _validate_matrices(
    transition: list[Any] | tuple[Any, ...], layout: BatchLayout, square: tuple[int, int]
) -> list[Array]:
    if layout.shape is not None or len(transition) != len(layout.starts):
        raise InputError(
            f"transition is a list of {len(transition)}: unary must then be a list of the same "
            f"length, but it has {len(layout.starts)} sequences"
        )
    name = "transition of sequence {sequence}"
    matrices = [_as_floats(m, name, i) for i, m in enumerate(transition)]
    for i, (array, length) in enumerate(zip(matrices, layout.lengths, strict=True)):
        if array.shape != (length - 1, *square):
            expected = (int(length) - 1, *square)
            raise InputError(f"{name} has shape {array.shape}: must be {expected}", sequence=i)
    return matrices


def _validate_vector(value: ArrayLike | None, name: str, labels: int) -> Floats | None:
    if value is None:
        return None
    array = _as_floats(value, name)
    if array.shape != (labels,):
        raise InputError(f"{name} has shape {array.shape}, unary has {labels} labels")
    if not array.max() < np.inf:  # also true for NaN
        y = int(np.argmax(~(array < np.inf)))
        raise InputError(f"{name} of label {y} is {array[y]}: must be finite or -inf")
    return array.astype(np.float64, copy=False)


def _validate_list(value: Any, count: int, name: str) -> list[tuple[int, Any]]:
    """Return (index, array) for each array in a list with one array per sequence."""
    size = len(value) if isinstance(value, list | tuple) else type(value).__name__
    if size != count:
        raise InputError(f"{name} must be a list of {count} arrays, like unary, not {size}")
    return list(enumerate(value))


def _as_array(value: Any, name: str, sequence: int | None = None) -> Array:
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged, or another library's tensor
        raise InputError(f"{name} is not an array: {error}", sequence=sequence) from None


def _as_floats(value: Any, name: str, sequence: int | None = None) -> Array:
    if type(value) is np.ndarray and value.dtype.str in _NATIVE_FLOATS and value.flags.carray:
        return value
    array = _as_array(value, name, sequence)
    if array.dtype not in (np.float32, np.float64):
        raise InputError(
            f"{name} has dtype {array.dtype}: must be float32 or float64", sequence=sequence
        )
    return np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"])


def _as_integers(value: Any, name: str, sequence: int | None = None) -> Integers:
    array = _as_array(value, name, sequence)
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {array.dtype}: must be integers", sequence=sequence)
    return np.require(array, dtype=np.int64, requirements=["C_CONTIGUOUS", "ALIGNED"])
