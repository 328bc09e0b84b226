"""Validate the caller's scores and labels, and convert them to the flat arrays of the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis import _core, native
from trellis.checks import MAX_SCORE, is_not_a_score
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
    n_labels: int  # L
    dtype: Any  # the dtype of unary and of array results: float32 or float64
    transition: Floats | None  # (L, L), or None if it depends on the position
    transitions: list[Array] | None  # otherwise: at least T-1 matrices (L, L) per sequence
    transitions_shared: bool  # True if the caller passed one (T-1, L, L) array for a padded batch
    start: Floats | None  # (L,)
    end: Floats | None  # (L,)
    threads: int

    def core(self) -> _core.ChainFloat64:
        """Return the batch as an object of the native core, with a method for each recursion."""
        core_class = _core.ChainFloat32 if self.dtype == np.float32 else _core.ChainFloat64
        return core_class(
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
        rows = np.empty((self.layout.rows, *columns), dtype=dtype)
        return self._pad(rows, self.layout.lengths, padding)

    def new_pairs(self) -> Array:
        """Return a buffer with one (L, L) matrix per pair of neighbours; padded matrices hold 0."""
        n_matrices = self.layout.rows - len(self.layout.starts)
        matrices = np.empty((n_matrices, self.n_labels, self.n_labels), dtype=self.dtype)
        return self._pad(matrices, self.layout.lengths - 1, 0.0)

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
        is_wrong = (outcomes[:, 0] != 0) | ~(values < np.inf)  # ~(x < inf) is also true for NaN
        for i in np.flatnonzero(is_wrong).tolist():
            status, position = outcomes[i]
            if status != _INFEASIBLE:
                self.check_finite(i)
                raise InputError(
                    "scores of sequence {sequence} overflow: finite scores must be within "
                    f"±{MAX_SCORE:g}, and -inf forbids",
                    sequence=i,
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
            label = labels[self.layout.starts[i] + position]
            raise InputError(
                f"label of sequence {{sequence}}, position {position} is {label}: "
                f"must be 0 to {self.n_labels - 1}",
                sequence=i,
            )

    def check_finite(self, i: int) -> None:
        """Raise InputError for the first NaN or +inf among the scores of sequence i."""
        start, length = self.layout.starts[i], self.layout.lengths[i]
        is_list = isinstance(self.unary, list)
        unary = self.unary[i] if is_list else cast(Array, self.unary)[start : start + length]
        invalid = ~(unary < np.inf)
        if invalid.any():
            t, y = np.argwhere(invalid)[0]
            raise InputError(
                f"unary of sequence {{sequence}}, position {t}, label {y} is {unary[t, y]}: "
                "must be finite or -inf",
                sequence=i,
            )
        self._check_overflow(i, unary)
        if self.transitions is None:
            return
        matrices = self.transitions[i][: length - 1]
        invalid = ~(matrices < np.inf)
        if invalid.any():
            t, a, b = np.argwhere(invalid)[0]
            raise InputError(
                f"transition of sequence {{sequence}} into position {t + 1}, label {a} to {b}, "
                f"is {matrices[t, a, b]}: must be finite or -inf",
                sequence=i,
            )

    def _check_overflow(self, i: int, unary: Array) -> None:
        """Raise InputError for the first finite unary score of sequence i beyond MAX_SCORE."""
        invalid = is_not_a_score(unary)
        if invalid.any():
            t, y = np.argwhere(invalid)[0]
            raise InputError(
                "scores of sequence {sequence} overflow: unary of "
                f"position {t}, label {y} is {unary[t, y]}; finite scores must be within "
                f"±{MAX_SCORE:g}, and -inf forbids",
                sequence=i,
            )


def validate(scores: Scores, n_jobs: int | None, *, may_be_labels: bool = False) -> ValidatedScores:
    """Validate shapes, dtypes and small arrays, and convert the scores for the kernels.

    The kernels detect NaN and +inf among the unary scores while they read them. A check here would
    read all scores twice. With ``may_be_labels``, integers as start or end scores are an error: the
    caller may have meant them as labels, but has not written ``labels=``.
    """
    threads = native.resolve_jobs(n_jobs)
    unary, layout, n_labels = _prepare_unary(scores)
    dtype = unary[0].dtype if isinstance(unary, list) else unary.dtype
    if n_labels > _MAX_LABELS:
        raise InputError(f"unary has {n_labels} labels: at most {_MAX_LABELS} are supported")
    shared_matrix, step_matrices = _prepare_transitions(scores.transition, layout, n_labels)
    if step_matrices is not None:
        dtype = np.result_type(dtype, *{array.dtype for array in step_matrices})
        step_matrices = [array.astype(dtype, copy=False) for array in step_matrices]
        unary = _as_type(unary, dtype)
    return ValidatedScores(
        layout=layout,
        unary=unary,
        n_labels=n_labels,
        dtype=dtype,
        transition=shared_matrix,
        transitions=step_matrices,
        transitions_shared=layout.padded and np.ndim(scores.transition) == 3,
        start=_validate_vector(scores.start, "start", n_labels, may_be_labels),
        end=_validate_vector(scores.end, "end", n_labels, may_be_labels),
        threads=threads,
    )


def _prepare_unary(scores: Scores) -> tuple[Array | list[Array], BatchLayout, int]:
    """Return masked unary scores, (rows, L) or one array per sequence; their layout; and L."""
    if isinstance(scores.unary, list | tuple) and not _is_matrix(scores.unary):
        if scores.lengths is not None:
            raise InputError(
                "lengths must be None if unary is a list: each array of the list has a length"
            )
        arrays, layout, n_labels = _lay_out_list(list(scores.unary))
        return (
            arrays if scores.mask is None else _apply_masks(scores.mask, arrays),
            layout,
            n_labels,
        )
    rows, layout = _lay_out(scores.unary, scores.lengths)
    if scores.mask is not None:
        allowed = _validate_mask(scores.mask, np.shape(scores.unary), "mask").reshape(rows.shape)
        rows = np.where(allowed, rows, rows.dtype.type(-np.inf))
    return rows, layout, rows.shape[1]


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
            raise InputError(f"labels has shape {array.shape}: must be {layout.shape}")
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
    n_labels = array.shape[-1]
    if array.ndim == 2:
        if lengths is not None:
            raise InputError(
                f"lengths must be None if unary is (T, L); unary has shape {array.shape}"
            )
        length = np.array([len(array)], dtype=np.int64)
        return array, BatchLayout(np.zeros(1, dtype=np.int64), length, array.shape[:1])
    n_sequences, max_length = array.shape[:2]
    starts = np.arange(n_sequences, dtype=np.int64) * max_length
    layout = BatchLayout(
        starts, _validate_lengths(lengths, n_sequences, max_length), (n_sequences, max_length)
    )
    return array.reshape(-1, n_labels), layout


def _lay_out_list(unary: list[Any]) -> tuple[list[Array], BatchLayout, int]:
    if not unary:
        raise InputError("unary is an empty list: at least one sequence is needed")
    lengths = np.empty(len(unary), dtype=np.int64)
    # A Python loop over many short sequences takes longer than decoding them, so one native call
    # reads the shapes of all arrays. It returns 0 if an array must be converted or is invalid.
    n_labels = _core.scan_arrays(unary, lengths)
    if not n_labels:
        unary = _unify_arrays(unary)
        n_labels = _core.scan_arrays(unary, lengths)
    return unary, BatchLayout(np.cumsum(lengths) - lengths, lengths, None), n_labels


def _unify_arrays(unary: list[Any]) -> list[Array]:
    """Return the list as contiguous arrays of one dtype and one number of labels."""
    arrays = [_as_floats(item, "unary of sequence {sequence}", i) for i, item in enumerate(unary)]
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


def _validate_lengths(lengths: ArrayLike | None, n_sequences: int, max_length: int) -> Integers:
    if lengths is None:
        return np.full(n_sequences, max_length, dtype=np.int64)
    array = _as_integers(lengths, "lengths")
    if array.shape != (n_sequences,):
        raise InputError(f"lengths has shape {array.shape}: must be ({n_sequences},)")
    invalid = (array < 1) | (array > max_length)
    if invalid.any():
        i = int(np.argmax(invalid))
        raise InputError(
            f"length of sequence {{sequence}} is {array[i]}: must be 1 to {max_length}", sequence=i
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
        raise InputError(
            f"{name} has shape {allowed.shape}: must be {shape}, as unary", sequence=sequence
        )
    return allowed


def _apply_masks(mask: ArrayLike, arrays: list[Array]) -> list[Array]:
    masks = _validate_list(mask, len(arrays), "mask")
    return [
        np.where(
            _validate_mask(sequence_mask, arrays[i].shape, "mask of sequence {sequence}", i),
            arrays[i],
            arrays[i].dtype.type(-np.inf),
        )
        for i, sequence_mask in masks
    ]


def _prepare_transitions(
    transition: ArrayLike, layout: BatchLayout, n_labels: int
) -> tuple[Floats | None, list[Array] | None]:
    """Return one matrix for all steps, or None and a (T-1, L, L) array for each sequence."""
    square = (n_labels, n_labels)
    if isinstance(transition, list | tuple) and layout.shape is None and not _is_matrix(transition):
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
    shared_shape = (layout.shape[-1] - 1, *square)
    batch_shape = (*layout.shape[:-1], *shared_shape)
    if array.shape not in (shared_shape, batch_shape):
        shapes = dict.fromkeys((square, shared_shape, batch_shape))
        expected = " or ".join(str(shape) for shape in shapes)
        raise InputError(
            f"transition has shape {array.shape}: must be {expected}, because unary has "
            f"{n_labels} labels"
        )
    count = len(layout.starts)
    return None, [array] * count if array.shape == shared_shape else list(array)


def _validate_matrices(
    transition: list[Any] | tuple[Any, ...], layout: BatchLayout, square: tuple[int, int]
) -> list[Array]:
    if len(transition) != len(layout.starts):
        raise InputError(
            f"transition is a list of {len(transition)}: unary must then be a list of the same "
            f"length, but it has {len(layout.starts)} sequences"
        )
    name = "transition of sequence {sequence}"
    matrices = [_as_floats(matrix, name, i) for i, matrix in enumerate(transition)]
    for i, (array, length) in enumerate(zip(matrices, layout.lengths, strict=True)):
        if array.shape != (length - 1, *square):
            expected = (int(length) - 1, *square)
            raise InputError(f"{name} has shape {array.shape}: must be {expected}", sequence=i)
    return matrices


def _validate_vector(
    value: ArrayLike | None, name: str, n_labels: int, may_be_labels: bool
) -> Floats | None:
    if value is None:
        return None
    if np.ndim(value) == 0:
        raise InputError(
            f"{name} is {value!r:.60}: must be an array of {n_labels} scores; write the names of "
            "other arguments, such as k="
        )
    array = _as_array(value, name)
    if may_be_labels and array.dtype.kind in "iu":
        raise InputError(
            f"{name} has dtype {array.dtype}: must be float32 or float64 if labels= is not passed; "
            "write the names of other arguments, such as labels="
        )
    array = _as_floats(array, name)
    if array.shape != (n_labels,):
        raise InputError(f"{name} has shape {array.shape}: must be ({n_labels},)")
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


def _is_matrix(value: list[Any] | tuple[Any, ...]) -> bool:
    """Return True for a list of lists of numbers: one array, not one array per sequence."""
    first = value[0] if value else None
    if not isinstance(first, list | tuple) or not first:
        return False
    return isinstance(first[0], int | float | np.number)


def _check_rows(value: list[Any] | tuple[Any, ...], name: str, sequence: int | None) -> None:
    """Raise InputError if the rows of a list of lists have different lengths."""
    sizes = [len(row) if isinstance(row, list | tuple) else 1 for row in value]
    for t, size in enumerate(sizes):
        if size != sizes[0]:
            raise InputError(
                f"row {t} of {name} has length {size}, but row 0 has length {sizes[0]}",
                sequence=sequence,
            )


def _as_floats(value: Any, name: str, sequence: int | None = None) -> Array:
    """Return a contiguous array of float32 or float64. Integers become float64."""
    if type(value) is np.ndarray and value.dtype.str in _NATIVE_FLOATS and value.flags.carray:
        return value
    if isinstance(value, list | tuple) and _is_matrix(value):
        _check_rows(value, name, sequence)
    array = _as_array(value, name, sequence)
    if array.dtype.kind in "iu":
        array = array.astype(np.float64)
    if array.dtype not in (np.float32, np.float64):
        raise InputError(
            f"{name} has dtype {array.dtype}: must be float32, float64 or integers",
            sequence=sequence,
        )
    return np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"])


def _as_integers(value: Any, name: str, sequence: int | None = None) -> Integers:
    array = _as_array(value, name, sequence)
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {array.dtype}: must be integers", sequence=sequence)
    return np.require(array, dtype=np.int64, requirements=["C_CONTIGUOUS", "ALIGNED"])
