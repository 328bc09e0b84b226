"""The chain as operators of PyTorch: the native core on CPU tensors, Triton kernels on CUDA ones.

``value`` is log Z(x), or log p(y | x) = score(x, y) - log Z(x) where tags are given. The gradient
of log Z is the expected counts; that of log p is those of the tags less these. Registered with
`torch.library`, so that autograd, `torch.compile` and `torch.export` know them.
"""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.errors import InfeasibleError
from trellis.inference import chain
from trellis.inference.chain import layer
from trellis.inference.gpu.status import Marks

__all__ = [
    "best_path",
    "chain_gradient",
    "chain_value",
    "chain_viterbi",
    "log_partition",
    "marginals",
    "on_card",
]


@cache
def kernels() -> Any:
    """The engine of the card."""
    return import_module("trellis.inference.chain.triton")  # needs a card, or the interpreter


@cache
def layer_kernels() -> Any:
    """That of values with their gradients."""
    return import_module("trellis.inference.chain.triton_layer")


def _arrays(*tensors: Tensor) -> list[Any]:
    """NumPy views of CPU tensors; half precision has none, and is computed in float32 anyway."""
    wide = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in tensors)
    return [t.detach().numpy() for t in wide]


def _accurate(emissions: Tensor) -> torch.dtype:
    return torch.float64 if emissions.dtype == torch.float64 else torch.float32


# ---- log Z and its gradient


def _value(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Log Z of each row, or log p of its tags if given; and what the gradient needs.

    That is α on a card. On the CPU it is the gradient of log Z or of -log p itself, if ``gradient``
    says that it is wanted: of the emissions, and of the transitions summed over the batch.
    """
    unary, pairs = emissions.new_empty(0), emissions.new_empty(0)
    if emissions.is_cuda:
        found = kernels().forward(emissions, transitions, start, end, lengths, tags)
        return found.value, found.alpha, pairs
    scores, own = _arrays(emissions, transitions, start, end), lengths.numpy()
    labels = None if tags is None else tags.numpy()
    sign = 1.0 if labels is None else -1.0
    if gradient and transitions.dim() == 2:
        e, a, s, f = scores
        fast = layer.counts(e, a, s, f, own, labels)
        if fast is not None:
            numbers = _number(emissions, sign * fast.value)
            return numbers, torch.from_numpy(fast.unary), torch.from_numpy(fast.pairs)
    if gradient:
        try:
            counts = chain.expected_counts(*scores, lengths=own, labels=labels)
        except InfeasibleError:  # some row has no path: the gradient is left for later
            pass
        else:
            unary, pairs = (torch.from_numpy(np.asarray(part)) for part in counts[:2])
            return _number(emissions, sign * np.asarray(counts.log_partition)), unary, pairs
    value = np.asarray(chain.log_partition(*scores, lengths=own))
    if labels is not None:
        used = np.asarray(chain.score(*scores, labels=labels, lengths=own))
        dead = np.isneginf(used)
        value = np.where(dead, -np.inf, np.where(dead, 0.0, used) - value)
    return _number(emissions, value), unary, pairs


def _number(emissions: Tensor, value: Any) -> Tensor:
    return torch.from_numpy(value if emissions.dtype == torch.float64 else value.astype(np.float32))


chain_value = torch.library.custom_op("trellis::chain_value", _value, mutates_args=())


@chain_value.register_fake
def _(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    dtype = _accurate(emissions)
    value = emissions.new_empty((emissions.shape[0],), dtype=dtype)
    if emissions.is_cuda:
        return value, emissions.new_empty(emissions.shape, dtype=dtype), emissions.new_empty(0)
    if not gradient:
        return value, emissions.new_empty(0), emissions.new_empty(0)
    pairs = torch.float64 if transitions.dim() == 2 else dtype
    return (
        value,
        emissions.new_empty(emissions.shape, dtype=dtype),
        emissions.new_empty(transitions.shape, dtype=pairs),
    )


def _gradient(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None,
    alpha: Tensor,
    pairs: Tensor,
    weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Σ_b weight_b ∂ value_b / ∂ each of the scores, in memory of its own as of all operators."""
    given = (emissions, transitions, start, end, lengths, tags, alpha, pairs, weight)
    own = {x.untyped_storage().data_ptr() for x in (alpha, pairs)}
    found = _gradients(*given)
    e, *small = (x.clone() if x.untyped_storage().data_ptr() in own else x for x in found)
    a, s, f = (x.clone() for x in small)  # they may be parts of one tensor
    return e, a, s, f


def _gradients(*given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`_gradient`; the emissions' may be in the memory that was given."""
    emissions, transitions, start, end, lengths, tags, alpha, pairs, weight = given
    if emissions.is_cuda:
        there: tuple[Tensor, Tensor, Tensor, Tensor] = kernels().backward(
            emissions, transitions, start, end, lengths, tags, alpha, weight
        )
        return there
    own, each = lengths.numpy(), weight.numpy().astype(float)
    labels = None if tags is None else tags.numpy()
    each = each if labels is None else -each
    scores = _arrays(emissions, transitions, start, end)
    found = _expected(scores, own, labels, alpha.numpy(), pairs.numpy(), each)
    likes = zip(found, scores, (emissions, transitions, start, end), strict=True)
    e, a, s, f = (
        torch.from_numpy(g.astype(array.dtype, copy=False)).to(like.dtype)
        for g, array, like in likes
    )
    return e, a, s, f


chain_gradient = torch.library.custom_op("trellis::chain_gradient", _gradient, mutates_args=())


@chain_gradient.register_fake
def _(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        emissions.new_empty(emissions.shape),
        transitions.new_empty(transitions.shape),
        start.new_empty(start.shape),
        end.new_empty(end.shape),
    )


def _expected(
    scores: list[Any], lengths: Any, labels: Any, unary: Any, pairs: Any, weight: Any
) -> tuple[Any, Any, Any, Any]:
    """The gradients that `_value` has made on the CPU, or makes now, each row times its weight.

    In NumPy, on one thread: PyTorch's and those of the native core would be in each other's way.
    """
    alike = bool((weight == weight[0]).all())
    if not unary.size or not (alike or scores[1].ndim > 2):
        unary, pairs = _counts(scores, lengths, labels, weight)
    elif not alike or weight[0] != 1.0:  # 1, as in a loss that is summed, needs no copy
        unary = unary * weight[:, None, None].astype(unary.dtype)
        pairs = pairs * (weight[0] if alike else weight[:, None, None, None])
    last = unary[np.arange(len(unary)), lengths - 1]
    return unary, pairs, unary[:, 0].sum(axis=0, dtype=float), last.sum(axis=0, dtype=float)


def _counts(scores: list[Any], lengths: Any, labels: Any, weight: Any) -> tuple[Any, Any]:
    """Of weights that differ, of any sign; rows without a path have no gradient."""
    possible = ~np.isneginf(chain.log_partition(*scores, lengths=lengths))
    unary, pairs = np.zeros(scores[0].shape, scores[0].dtype), np.zeros(scores[1].shape)
    for sign in (1.0, -1.0):
        rows = possible & (sign * weight > 0)
        if not rows.any():
            continue
        found = chain.expected_counts(
            *(a[rows] if a.ndim > 2 else a for a in scores),
            lengths=lengths[rows],
            labels=None if labels is None else labels[rows],
            weights=sign * weight[rows],
        )
        unary[rows] = sign * np.asarray(found.unary)
        if pairs.ndim > 2:
            pairs[rows] = sign * np.asarray(found.transition)
        else:
            pairs += sign * np.asarray(found.transition)
    return unary, pairs


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:6], *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, weight: Tensor | None, *_: Any) -> tuple[Any, ...]:
    if weight is None:
        return (None,) * 7
    return (*chain_gradient(*ctx.saved_tensors, weight), None, None, None)


def _keep_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    pass


def _refuse(ctx: Any, *gradients: Any) -> Any:
    raise RuntimeError("the gradient of a trellis CRF cannot be differentiated once more")


chain_value.register_autograd(_backward, setup_context=_keep)
chain_gradient.register_autograd(_refuse, setup_context=_keep_nothing)


class _Eager(torch.autograd.Function):
    """The same without the dispatcher, which takes longer than a small batch does."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        value, alpha, pairs = _value(*inputs)
        ctx.save_for_backward(*inputs[:6], alpha, pairs)
        return value

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Any, ...]:
        # only a function of its own knows how to refuse a second derivative
        gradient: Any = _EagerGradient.apply if torch.is_grad_enabled() else _gradients
        return (*gradient(*ctx.saved_tensors, weight), None, None, None)


class _EagerGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        return _gradients(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _refuse(ctx)


def log_partition(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None = None,
) -> Tensor:
    """Log Z of each row, or log p of its tags if given, differentiable."""
    scores = (emissions, transitions, start, end)
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in scores)
    if torch.compiler.is_compiling():
        traced: Tensor = chain_value(*scores, lengths, tags, wanted)[0]
        return traced
    value: Tensor = _Eager.apply(  # type: ignore[no-untyped-call]
        *scores, lengths, tags, wanted
    )
    return value


class _OnCard(torch.autograd.Function):
    """The values of all rows, or their sum; and the gradient of each of them.

    The gradient is made at once: PyTorch calls `backward` on a thread of its own, where Python is
    several times as slow, so that little may be left to do there. Of a sum it is one product.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *scores, rest, marks, step = inputs
        value: Tensor
        value, kept = step((*scores, *rest), marks)
        ctx.save_for_backward(*kept)
        ctx.step = step
        return value

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            _refuse(ctx)
        return (*ctx.step.weigh(ctx.saved_tensors, weight), None, None, None)


def on_card(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor | None,
    tags: Tensor,
    mask: Tensor | None,
    summed: bool,
    marks: Marks | None = None,
    prepared: dict[Any, Any] | None = None,
) -> Tensor:
    """Log p of tags that nobody has looked at yet: of all rows, or their sum.

    The marks say what is wrong with each row. What is `prepared` for their kind may be known.
    """
    scores, rest = (emissions, transitions, start, end), (lengths, tags, mask)
    wanted = emissions.requires_grad or any(x.requires_grad for x in scores[1:])
    if wanted and torch.is_grad_enabled():
        step = layer_kernels().step_of((*scores, *rest), summed, prepared)
        found: Tensor = _OnCard.apply(  # type: ignore[no-untyped-call]
            *scores, rest, marks, step
        )
        return found
    value: Tensor = kernels().forward(*scores, *rest, marks).value
    return value.sum() if summed else value


def marginals(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> Tensor:
    """p(yₜ | x): the gradient of log Z."""
    with torch.no_grad():
        scores = (emissions.to(_accurate(emissions)), transitions, start, end)
        _, alpha, pairs = chain_value(*scores, lengths, None, True)
        ones = scores[0].new_ones(len(emissions))
        found: Tensor = chain_gradient(*scores, lengths, None, alpha, pairs, ones)[0]
    return found


# ---- the best path


def _viterbi(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """The best labels of each row, 0 behind its length, and their score."""
    if emissions.is_cuda:
        labels, best = kernels().viterbi(emissions, transitions, start, end, lengths)
        return labels, best
    scores = _arrays(emissions, transitions, start, end)
    own = lengths.numpy()
    e, a, s, f = scores
    fast = layer.best(e, a, s, f, own) if transitions.dim() == 2 else None
    if fast is not None:
        return torch.from_numpy(fast[0]), _number(emissions, fast[1])
    path = chain.viterbi(*scores, lengths=own)
    labels = torch.from_numpy(np.asarray(path.labels)).clamp_(min=0)
    return labels, _number(emissions, np.asarray(path.score))


chain_viterbi = torch.library.custom_op("trellis::chain_viterbi", _viterbi, mutates_args=())


@chain_viterbi.register_fake
def _(emissions: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    rows, steps = emissions.shape[:2]
    labels = emissions.new_empty((rows, steps), dtype=torch.int64)
    return labels, emissions.new_empty((rows,), dtype=_accurate(emissions))


def best_path(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """The same without the dispatcher, where nothing traces it."""
    scores = (emissions.detach(), transitions.detach(), start.detach(), end.detach(), lengths)
    plain = type(emissions) is Tensor and not torch.compiler.is_compiling()
    found: tuple[Tensor, Tensor] = (_viterbi if plain else chain_viterbi)(*scores)
    return found
