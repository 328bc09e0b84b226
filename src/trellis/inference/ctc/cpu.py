"""The fast path: CTC of batches in the native core, with the frames first, as networks output them.

Both functions take these arguments:

``input``
    ``(T, B, V)`` float32 or float64: log-probabilities. With ``logits`` they are unnormalised
    scores, and the kernel computes their softmax too. The array may have any strides; it is copied
    if its last axis is not contiguous.
``targets``
    ``(B, S)`` labels without blanks; entries after ``target_lengths`` are ignored.
``input_lengths``, ``target_lengths``
    ``(B,)`` integers.
``blank``
    The index of the blank in the vocabulary.
``n_jobs``
    The number of threads; None means all cores. Results are the same bits for any number.

Invalid labels and lengths raise an InputError that names the batch row. Scores are not validated:
NaN and +inf make the loss and the gradient of their row NaN. -inf is probability zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.native import resolve_jobs

Array: TypeAlias = NDArray[Any]


def forward(
    input: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int,
    logits: bool,
    *,
    n_jobs: int | None = None,
) -> tuple[Array, Array, Array]:
    """-log p(target | input) of each row, shape (B,), and two arrays for the backward pass.

    The loss is +inf if the target has no path. The arrays are log_norm (T, B), the log-sum-exp of
    each frame (empty unless `logits`), and (B, T, 2S+1) numbers that only `backward` reads. They
    are not alpha: running the recursion again is faster than storing all its rows.

    >>> x = np.log([[[0.4, 0.6]], [[0.5, 0.5]]])  # "1" as (1, 1), (blank, 1) or (1, blank)
    >>> one = np.array([1])
    >>> loss, log_norm, saved = forward(x, np.array([[1]]), np.array([2]), one, 0, False)
    >>> np.exp(-loss).round(3).tolist()
    [0.8]
    """
    x = _validate_input(input)
    core = _make_core(x, targets, input_lengths, target_lengths, blank, logits, n_jobs)
    n_frames, n_sequences = x.shape[:2]
    loss = np.empty(n_sequences, dtype=x.dtype)
    log_norm = np.zeros((n_frames, n_sequences) if logits else (0, 0), dtype=x.dtype)
    saved = np.zeros((n_sequences, n_frames, 2 * np.shape(targets)[1] + 1), dtype=x.dtype)
    _raise_input_errors(core.forward, loss, log_norm, saved)
    return loss, log_norm, saved


def backward(
    input: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int,
    logits: bool,
    log_norm: Array,
    saved: Array,
    loss: Array,
    weight: Array,
    *,
    out: Array | None = None,
    n_jobs: int | None = None,
) -> Array:
    """weight[b] · ∂loss[b]/∂input, shape (T, B, V). The result is written to `out` if it is given.

    For log-probabilities, ∂loss/∂input is -p(label at the frame | target). For logits, it is
    softmax - p(label at the frame | target). The gradient is 0 in the padding, and where the loss
    is infinite. `log_norm` and `saved` are the two arrays that `forward` returned.

    >>> x = np.log([[[0.4, 0.6]], [[0.5, 0.5]]])
    >>> row = (np.array([[1]]), np.array([2]), np.array([1]), 0, False)
    >>> loss, log_norm, saved = forward(x, *row)
    >>> backward(x, *row, log_norm, saved, loss, np.ones(1)).round(3).tolist()
    [[[-0.25, -0.75]], [[-0.375, -0.625]]]
    """
    x = _validate_input(input)
    core = _make_core(x, targets, input_lengths, target_lengths, blank, logits, n_jobs)
    gradient = np.empty(x.shape, dtype=x.dtype) if out is None else out
    if gradient.shape != x.shape or gradient.dtype != x.dtype:
        raise InputError(
            f"out is {gradient.dtype} {gradient.shape}: must be {x.dtype} {x.shape}, like input"
        )
    arrays = (np.require(array, x.dtype, ["C", "A"]) for array in (log_norm, saved, loss, weight))
    _raise_input_errors(core.backward, *arrays, gradient)
    return gradient


def _validate_input(input: Array) -> Array:
    """Validate the input (T, B, V), and make its last axis contiguous, as the core requires."""
    if input.dtype not in (np.float32, np.float64):
        raise InputError(f"input has dtype {input.dtype}: must be float32 or float64")
    if input.ndim != 3:
        raise InputError(f"input has shape {input.shape}: must be (T, B, V)")
    # Networks output (B, T, V) or (T, B, V). The core reads swapped axes by their strides, so no
    # copy is needed.
    is_usable = input.strides[2] == input.itemsize and input.flags.aligned
    return input if is_usable else np.require(input, requirements=["C", "A"])


def _make_core(
    x: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int,
    logits: bool,
    n_jobs: int | None,
) -> _core.CtcFloat64:
    """Return the batch as an object of the native core, which validates labels and lengths."""
    make = _core.CtcFloat32 if x.dtype == np.float32 else _core.CtcFloat64
    arrays = {"targets": targets, "input_lengths": input_lengths, "target_lengths": target_lengths}
    for name, array in arrays.items():
        if array.dtype.kind not in "iu":
            raise InputError(f"{name} has dtype {array.dtype}: must be integers")
    integers = (np.require(array, np.int64, ["C", "A"]) for array in arrays.values())
    core = _raise_input_errors(make, x, *integers, blank, logits, resolve_jobs(n_jobs))
    return cast(_core.CtcFloat64, core)


def _raise_input_errors(call: Callable[..., Any], *args: Any) -> Any:
    """Call the core; raise its ValueErrors, which name the batch row, as InputErrors."""
    try:
        return call(*args)
    except ValueError as error:
        raise InputError(str(error)) from None
