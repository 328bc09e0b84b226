"""Chains for PyTorch: values and gradients, marginals and best paths on CPU and CUDA tensors.

``value`` is log Z(x), or log p(y | x) = score(x, y) - log Z(x) if tags are given. The gradient of
log Z is the expected counts. The gradient of log p is the counts of the tags minus the expected
counts.

In eager programs one autograd function runs an engine: the native core, or a `ChainPlan` of Triton
kernels. Compiled programs (`torch.compile`, `torch.export`) use the operators
``trellis::chain_*``, which call the same engines: PyTorch cannot trace an engine.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trellis.errors import InfeasibleError
from trellis.inference import chain
from trellis.inference.chain import layer
from trellis.inference.gpu.status import RowStatus
from trellis.nn.once import refuse_second_derivative
from trellis.nn.steps import Batch, check_status, find_steps

__all__ = [
    "best_path",
    "chain_gradient",
    "chain_value",
    "chain_viterbi",
    "log_likelihood",
    "log_partition",
    "marginals",
]

Gradients: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]
"""Gradients of emissions, transitions, start and end."""


def _gpu_engine() -> Any:
    """Return the module of the GPU kernels, which can be imported only if Triton is installed."""
    return import_module("trellis.inference.chain.triton")


def _runs_on_gpu(emissions: Tensor) -> bool:
    """Return True if an eager program runs a `ChainPlan`."""
    return emissions.is_cuda and not torch.compiler.is_compiling()


def _as_arrays(*tensors: Tensor) -> Any:
    """Return NumPy views of CPU tensors, or float32 copies of tensors in half precision."""
    float_tensors = (
        tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
        for tensor in tensors
    )
    return tuple(tensor.detach().numpy() for tensor in float_tensors)


def _compute_dtype(emissions: Tensor) -> torch.dtype:
    return torch.float64 if emissions.dtype == torch.float64 else torch.float32


# ---- the engines of eager programs


class _Chain(torch.autograd.Function):
    """The value that an engine computes, and its gradients.

    An engine is a `_NativeEngine` or a `ChainPlan`. Its method ``run(batch, status)`` returns the
    value and the tensors to save; ``gradients(saved, weight)`` returns the gradients of
    Σ weight · value.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *_, batch, status, engine = inputs  # before them: the scores, which only autograd reads
        value: Tensor
        value, saved = engine.run(batch, status)
        ctx.save_for_backward(*saved)
        ctx.engine = engine
        return value

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Any, ...]:
        # Calls are avoided here: this code runs on PyTorch's backward thread, where Python is slow.
        saved = ctx.saved_tensors
        gradients = ctx.engine.gradients(saved, weight.detach())
        if torch.is_grad_enabled():
            gradients = refuse_second_derivative(gradients, saved, "CRF")
        return (*gradients, None, None, None)


def _needs_gradient(batch: Batch) -> bool:
    return torch.is_grad_enabled() and any(score.requires_grad for score in batch.scores)


def _run_engine(batch: Batch, status: RowStatus | None, engine: Any) -> Tensor:
    """Return the value of an engine. Autograd is skipped if no score requires a gradient."""
    value: Tensor
    if _needs_gradient(batch):
        value = _Chain.apply(*batch.scores, batch, status, engine)  # type: ignore[no-untyped-call]
    else:
        value, _ = engine.run(batch, status)
    return value


def log_likelihood(
    batch: Batch, summed: bool, validate: bool, check: Callable[[Batch], Batch]
) -> tuple[Tensor, Batch]:
    """Return log p of the tags of each row (B,), or their sum, and the batch that `check` returns.

    `check` validates shapes and types. On a GPU it is skipped if a batch of the same signature has
    passed it before. With ``validate``, the values of mask, lengths and tags are validated too.
    """
    if _runs_on_gpu(batch.emissions):
        engine = _gpu_engine()
        result = ("sum" if summed else "rows") if _needs_gradient(batch) else "value"
        plan, batch = engine.find_plan(engine.ChainPlan, batch, (result,), check)
        emissions = batch.emissions
        status = RowStatus(len(emissions), emissions.device) if validate else None
        value = _run_engine(batch, status, plan)
        if status is not None:
            check_status(status.wait(), batch)
        return value, batch
    batch = check(batch)
    steps = find_steps(batch, validate)
    pairs = batch.transitions
    pairs = pairs if pairs.dim() == 2 else steps.pairs_to_front(pairs)
    scores = (steps.to_front(batch.emissions), pairs, batch.start, batch.end)
    value = log_partition(*scores, steps.lengths, steps.to_front(batch.tags))
    return value, batch._replace(lengths=steps.lengths, mask=None)


def log_partition(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None = None,
) -> Tensor:
    """Return log Z of each row (B,), or log p of its tags; differentiable."""
    batch = Batch(emissions, transitions, start, end, lengths, tags)
    if torch.compiler.is_compiling():
        traced_value: Tensor = chain_value(*batch[:6], _needs_gradient(batch))[0]
        return traced_value
    if not _runs_on_gpu(emissions):
        return _run_engine(batch, None, _NativeEngine(_needs_gradient(batch)))
    engine = _gpu_engine()
    result = "rows" if _needs_gradient(batch) else "value"
    plan, batch = engine.find_plan(engine.ChainPlan, batch, (result,))
    return _run_engine(batch, None, plan)


class _NativeEngine:
    """The native core on CPU tensors. With ``differentiate``, `run` also computes the gradients.

    `run` saves the batch and the gradients of log Z or -log p: unary (B, T, L), and pairs. The
    pairs are (L, L), summed over the batch, or (B, T-1, L, L). If a row has no path, unary and
    pairs are empty, and `gradients` computes them.
    """

    def __init__(self, differentiate: bool) -> None:
        self.differentiate = differentiate

    def run(self, batch: Batch, status: None = None) -> tuple[Tensor, Any]:
        """Return the value (B,), and the tensors that `gradients` needs."""
        emissions, transitions, start, end, lengths, tags, _ = batch
        scores = _as_arrays(emissions, transitions, start, end)
        labels = None if tags is None else tags.numpy()
        value, unary, pairs = _compute_native_value(
            scores, lengths.numpy(), labels, self.differentiate
        )
        value_array = value if emissions.dtype == torch.float64 else value.astype(np.float32)
        saved_counts = (torch.from_numpy(np.asarray(x)) for x in (unary, pairs))
        return torch.from_numpy(value_array), (*batch[:6], *saved_counts)

    def gradients(self, saved: Sequence[Any], weight: Tensor) -> Gradients:
        """Return the gradients of Σ_b weight_b · value_b.

        The gradient of the emissions may share memory with a saved tensor.
        """
        *scores, lengths, tags, unary, pairs = saved
        arrays, row_weights = _as_arrays(*scores), weight.numpy().astype(float)
        labels = None if tags is None else tags.numpy()
        counts = (unary.numpy(), pairs.numpy())
        row_weights = row_weights if labels is None else -row_weights
        weighted_counts = _weight_counts(arrays, lengths.numpy(), labels, counts, row_weights)
        d_emissions, d_transitions, d_start, d_end = (
            torch.from_numpy(count_array.astype(array.dtype, copy=False)).to(like.dtype)
            for count_array, array, like in zip(weighted_counts, arrays, scores, strict=True)
        )
        return d_emissions, d_transitions, d_start, d_end


def _compute_native_value(
    scores: Any, lengths: Any, labels: Any, gradient: bool
) -> tuple[Any, Any, Any]:
    """Return value (B,), unary and pairs, by the fastest call that supports these scores.

    If a row has no path, unary and pairs are empty.
    """
    sign = 1.0 if labels is None else -1.0
    if gradient and scores[1].ndim == 2:
        native_counts = layer.expected_counts(scores, lengths, labels)
        if native_counts is not None:
            return sign * native_counts.value, native_counts.unary, native_counts.pairs
    if gradient:
        try:
            counts = chain.expected_counts(*scores, lengths=lengths, labels=labels)
        except InfeasibleError:
            pass  # a row has no path: `gradients` computes the counts of the other rows
        else:
            return sign * np.asarray(counts.log_partition), counts.unary, counts.transition
    value = np.asarray(chain.log_partition(*scores, lengths=lengths))
    if labels is not None:
        score = np.asarray(chain.score(*scores, labels=labels, lengths=lengths))
        is_impossible = np.isneginf(score)
        value = np.where(is_impossible, -np.inf, np.where(is_impossible, 0.0, score) - value)
    empty = np.empty(0, scores[0].dtype)
    return value, empty, empty


def _weight_counts(
    scores: Any, lengths: Any, labels: Any, counts: tuple[Any, Any], weight: Any
) -> tuple[Any, Any, Any, Any]:
    """Return the counts of emissions, transitions, start and end, times the weights of their rows.

    Counts of start, end and shared transitions are summed over the rows. NumPy computes them on one
    thread: PyTorch's threads would compete with those of the native core.
    """
    unary, pairs = counts
    all_equal = bool((weight == weight[0]).all())
    if not unary.size or not (all_equal or scores[1].ndim > 2):
        unary, pairs = _count_again(scores, lengths, labels, weight)
    elif not all_equal or weight[0] != 1.0:  # a summed loss has weights of 1: no copy is needed
        unary = unary * weight[:, None, None].astype(unary.dtype)
        pairs = pairs * (weight[0] if all_equal else weight[:, None, None, None])
    last_unary = unary[np.arange(len(unary)), lengths - 1]
    return unary, pairs, unary[:, 0].sum(axis=0, dtype=float), last_unary.sum(axis=0, dtype=float)


def _count_again(scores: Any, lengths: Any, labels: Any, weight: Any) -> tuple[Any, Any]:
    """Compute weighted counts for weights of any sign. Rows without a path have counts of 0."""
    has_path = ~np.isneginf(chain.log_partition(*scores, lengths=lengths))
    unary, pairs = np.zeros(scores[0].shape, scores[0].dtype), np.zeros(scores[1].shape)
    for sign in (1.0, -1.0):  # the core takes positive weights only
        row_mask = has_path & (sign * weight > 0)
        if not row_mask.any():
            continue
        counts = chain.expected_counts(
            *(array[row_mask] if array.ndim > 2 else array for array in scores),
            lengths=lengths[row_mask],
            labels=None if labels is None else labels[row_mask],
            weights=sign * weight[row_mask],
        )
        unary[row_mask] = sign * np.asarray(counts.unary)
        if pairs.ndim > 2:
            pairs[row_mask] = sign * np.asarray(counts.transition)
        else:
            pairs += sign * np.asarray(counts.transition)
    return unary, pairs


# ---- operators for compiled programs


def _compute_value(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the value (B,), unary, pairs and sums; the last three are empty without ``gradient``.

    On the CPU, unary and pairs are those of `_NativeEngine`. On a GPU, all three are the arguments
    of `inference.chain.triton.sum_gradients`.
    """
    batch = Batch(emissions, transitions, start, end, lengths, tags)
    empty = emissions.new_empty(0)
    if not emissions.is_cuda:
        value, saved = _NativeEngine(gradient).run(batch)
        return value, saved[6], saved[7], empty
    engine = _gpu_engine()
    result = "rows" if gradient else "value"
    plan, batch = engine.find_plan(engine.ChainPlan, batch, (result,))
    value, saved = plan.run(batch)
    unary, pairs, sums = saved if gradient else (empty, emissions.new_empty(0), empty.clone())
    return value, unary, pairs, sums


chain_value = torch.library.custom_op("trellis::chain_value", _compute_value, mutates_args=())


@chain_value.register_fake
def _(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dtype = _compute_dtype(emissions)
    n_rows, _, n_labels = emissions.shape
    is_shared = transitions.dim() == 2
    unary_shape: Any = emissions.shape if gradient else 0
    pairs_shape: Any = transitions.shape if gradient else 0
    sums_shape: Any = 0
    pairs_dtype = torch.float64 if is_shared and gradient and not emissions.is_cuda else dtype
    if emissions.is_cuda and gradient:
        pairs_shape = 0 if is_shared else pairs_shape
        sums_shape = (n_rows, (2 + (n_labels if is_shared else 0)) * n_labels + 1)
    new_empty = emissions.new_empty
    return (
        new_empty((n_rows,), dtype=dtype),
        new_empty(unary_shape, dtype=dtype),
        new_empty(pairs_shape, dtype=pairs_dtype),
        new_empty(sums_shape, dtype=dtype if emissions.is_cuda and gradient else emissions.dtype),
    )


def _compute_gradient(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None,
    unary: Tensor,
    pairs: Tensor,
    sums: Tensor,
    weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of Σ_b weight_b · value_b; none shares memory with an argument."""
    scores = (emissions, transitions, start, end)
    if emissions.is_cuda:
        gradients = _gpu_engine().sum_gradients(unary, pairs, sums, weight)
        d_emissions, d_transitions, d_start, d_end = (
            gradient.to(like.dtype) for gradient, like in zip(gradients, scores, strict=True)
        )
        return d_emissions, d_transitions, d_start, d_end
    gradients = _NativeEngine(True).gradients((*scores, lengths, tags, unary, pairs), weight)
    input_addresses = {gradient.untyped_storage().data_ptr() for gradient in (unary, pairs)}
    d_emissions, d_transitions, d_start, d_end = (
        gradient.clone() if gradient.untyped_storage().data_ptr() in input_addresses else gradient
        for gradient in gradients
    )
    return d_emissions, d_transitions, d_start, d_end


chain_gradient = torch.library.custom_op(
    "trellis::chain_gradient", _compute_gradient, mutates_args=()
)


@chain_gradient.register_fake
def _(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    e, a, s, f = (x.new_empty(x.shape) for x in (emissions, transitions, start, end))
    return e, a, s, f


def _save_value(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:6], *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, weight: Tensor | None, *_: Any) -> tuple[Any, ...]:
    if weight is None:
        return (None,) * 7
    return (*chain_gradient(*ctx.saved_tensors, weight), None, None, None)


def _save_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    pass


def _raise_second_derivative(ctx: Any, *gradients: Any) -> Any:
    raise RuntimeError("the gradient of a trellis CRF cannot be differentiated again")


chain_value.register_autograd(_backward, setup_context=_save_value)
chain_gradient.register_autograd(_raise_second_derivative, setup_context=_save_nothing)


def marginals(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> Tensor:
    """Return p(yₜ | x), (B, T, L): the gradient of log Z with respect to the emissions."""
    with torch.no_grad():
        scores = (emissions.to(_compute_dtype(emissions)), transitions, start, end)
        _, *saved = chain_value(*scores, lengths, None, True)
        ones = scores[0].new_ones(len(emissions))
        unary: Tensor = chain_gradient(*scores, lengths, None, *saved, ones)[0]
    return unary


# ---- the best path


def _viterbi(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the best labels (B, T), 0 after the length of a row, and their scores (B,)."""
    if emissions.is_cuda:
        engine, batch = _gpu_engine(), Batch(emissions, transitions, start, end, lengths)
        score, (labels,) = engine.find_plan(engine.ChainPlan, batch, ("path",))[0].run(batch)
        return labels, score
    scores = _as_arrays(emissions, transitions, start, end)
    native_path = layer.best_paths(scores, lengths.numpy()) if transitions.dim() == 2 else None
    if native_path is not None:
        labels, score = torch.from_numpy(native_path[0]), native_path[1]
    else:
        path = chain.viterbi(*scores, lengths=lengths.numpy())
        labels = torch.from_numpy(np.asarray(path.labels)).clamp_(min=0)
        score = np.asarray(path.score)
    # NumPy converts a short array several times faster than Tensor.to.
    dtype = np.float64 if emissions.dtype == torch.float64 else np.float32
    return labels, torch.from_numpy(score.astype(dtype, copy=False))


chain_viterbi = torch.library.custom_op("trellis::chain_viterbi", _viterbi, mutates_args=())


@chain_viterbi.register_fake
def _(emissions: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    rows, steps = emissions.shape[:2]
    labels = emissions.new_empty((rows, steps), dtype=torch.int64)
    return labels, emissions.new_empty((rows,), dtype=_compute_dtype(emissions))


def best_path(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the result of `chain_viterbi`.

    Eager programs call `_viterbi` directly: for a small batch, calling the operator would take
    longer than the function.
    """
    scores = (emissions.detach(), transitions.detach(), start.detach(), end.detach(), lengths)
    is_eager = type(emissions) is Tensor and not torch.compiler.is_compiling()
    path: tuple[Tensor, Tensor] = (_viterbi if is_eager else chain_viterbi)(*scores)
    return path
