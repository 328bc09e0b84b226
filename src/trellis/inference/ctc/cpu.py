"""The fast path: CTC of whole batches in the native core, with frames first as networks give them.

Both functions take

``input``
    ``(T, B, V)`` float32 or float64: log-probabilities, or with ``logits`` any scores, whose
    softmax over the vocabulary is then part of the work. Any strides, but V must be contiguous to
    be used without a copy.
``targets``
    ``(B, S)`` labels without blanks; what lies behind ``target_lengths`` is ignored.
``input_lengths``, ``target_lengths``
    ``(B,)``.
``blank``
    the vocabulary's entry for "no label".
``n_jobs``
    threads; None is all cores. Results are the same bits for any number.

Wrong labels and lengths raise an InputError that names the batch row. Values are not checked: NaN
and +inf make the loss of their row NaN, and its gradient too. -inf is probability zero.
"""

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
    """-log p(target | input) of each row, +inf if infeasible, and two arrays for backward.

    These are log_norm (T, B), the log-sum-exp of each frame (empty unless `logits`), and
    (B, T, 2S+1) numbers that only backward reads. They are not alpha: to run the recursion once
    more is faster than to write its rows to memory and read them back.

    >>> x = np.log([[[0.4, 0.6]], [[0.5, 0.5]]])  # "1" as (1, 1), (blank, 1) or (1, blank)
    >>> one = np.array([1])
    >>> loss, log_norm, kept = forward(x, np.array([[1]]), np.array([2]), one, 0, False)
    >>> np.exp(-loss).round(3).tolist()
    [0.8]
    """
    x = _frames(input)
    core = _core_of(x, targets, input_lengths, target_lengths, blank, logits, n_jobs)
    frames, count = x.shape[:2]
    loss = np.empty(count, dtype=x.dtype)
    log_norm = np.zeros((frames, count) if logits else (0, 0), dtype=x.dtype)
    kept = np.zeros((count, frames, 2 * np.shape(targets)[1] + 1), dtype=x.dtype)
    _checked(core.forward, loss, log_norm, kept)
    return loss, log_norm, kept


def backward(
    input: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int,
    logits: bool,
    log_norm: Array,
    alpha: Array,
    loss: Array,
    weight: Array,
    *,
    out: Array | None = None,
    n_jobs: int | None = None,
) -> Array:
    """weight[b] · ∂loss[b]/∂input, (T, B, V), in `out` if given; 0 where the loss is infinite.

    For log-probabilities -p(label at the frame | target), for logits softmax less that; 0 behind
    input_lengths.

    >>> x = np.log([[[0.4, 0.6]], [[0.5, 0.5]]])
    >>> row = (np.array([[1]]), np.array([2]), np.array([1]), 0, False)
    >>> loss, log_norm, kept = forward(x, *row)
    >>> backward(x, *row, log_norm, kept, loss, np.ones(1)).round(3).tolist()
    [[[-0.25, -0.75]], [[-0.375, -0.625]]]
    """
    x = _frames(input)
    core = _core_of(x, targets, input_lengths, target_lengths, blank, logits, n_jobs)
    gradient = np.empty(x.shape, dtype=x.dtype) if out is None else out
    if gradient.shape != x.shape or gradient.dtype != x.dtype:
        raise InputError(
            f"out is {gradient.dtype} {gradient.shape}, input is {x.dtype} {x.shape}: must be equal"
        )
    parts = (np.require(part, x.dtype, ["C", "A"]) for part in (log_norm, alpha, loss, weight))
    _checked(core.backward, *parts, gradient)
    return gradient


def _frames(input: Array) -> Array:
    """The input as the core can read it."""
    if input.dtype not in (np.float32, np.float64):
        raise InputError(f"input has dtype {input.dtype}: must be float32 or float64")
    if input.ndim != 3:
        raise InputError(f"input has shape {input.shape}: must be (T, B, V)")
    usable = input.strides[2] == input.itemsize and input.flags.aligned
    return input if usable else np.require(input, requirements=["C", "A"])


def _core_of(
    x: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int,
    logits: bool,
    n_jobs: int | None,
) -> _core.CtcFloat64:
    make = _core.CtcFloat32 if x.dtype == np.float32 else _core.CtcFloat64
    rows = {"targets": targets, "input_lengths": input_lengths, "target_lengths": target_lengths}
    for name, array in rows.items():
        if array.dtype.kind not in "iu":
            raise InputError(f"{name} has dtype {array.dtype}: must be integers")
    integers = (np.require(array, np.int64, ["C", "A"]) for array in rows.values())
    return cast(_core.CtcFloat64, _checked(make, x, *integers, blank, logits, resolve_jobs(n_jobs)))


def _checked(call: Callable[..., Any], *args: Any) -> Any:
    """The core checks labels, lengths and shapes, and says which batch row is wrong."""
    try:
        return call(*args)
    except ValueError as error:
        raise InputError(str(error)) from None
