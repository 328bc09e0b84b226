"""The chain as operators of PyTorch: the native core on CPU tensors, Triton kernels on CUDA ones.

``value`` is log Z(x), or -log p(y | x) = log Z(x) - score(x, y) where tags are given. Its gradient
is the expected counts, less those of the tags. Registered with `torch.library`, so that autograd,
`torch.compile` and `torch.export` know them.
"""

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.errors import InfeasibleError
from trellis.inference import chain

__all__ = ["chain_gradient", "chain_value", "chain_viterbi", "log_partition", "marginals"]


def _kernels() -> Any:
    return import_module("trellis.inference.chain.triton")  # needs a card, or the interpreter


def _arrays(*tensors: Tensor) -> list[Any]:
    """NumPy views of CPU tensors; half precision has none, and is computed in float32 anyway."""
    wide = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in tensors)
    return [t.detach().numpy() for t in wide]


def _accurate(emissions: Tensor) -> torch.dtype:
    return torch.float64 if emissions.dtype == torch.float64 else torch.float32


# ---- log Z and its gradient


@torch.library.custom_op("trellis::chain_value", mutates_args=())
def chain_value(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None,
    gradient: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Log Z of each row, less the score of its tags if given; and what the gradient needs.

    That is α on a card. On the CPU it is the gradient itself, if ``gradient`` says that it is
    wanted: the expected counts of the emissions, and of the transitions summed over the batch.
    """
    unary, pairs = emissions.new_empty(0), emissions.new_empty(0)
    if emissions.is_cuda:
        value, alpha = _kernels().forward(emissions, transitions, start, end, lengths, tags)
        return value, alpha, pairs
    scores, own = _arrays(emissions, transitions, start, end), lengths.numpy()
    value = None
    if gradient:
        try:
            found = chain.expected_counts(*scores, lengths=own)
        except InfeasibleError:  # some row has no path: the gradient is left for later
            pass
        else:
            value = np.asarray(found.log_partition)
            unary, pairs = (torch.from_numpy(np.asarray(part)) for part in found[:2])
    if value is None:
        value = np.asarray(chain.log_partition(*scores, lengths=own))
    if tags is not None:
        used = np.asarray(chain.score(*scores, labels=tags.numpy(), lengths=own))
        dead = np.isneginf(used)
        value = np.where(dead, np.inf, value - np.where(dead, 0.0, used))
    return torch.from_numpy(value).to(_accurate(emissions)), unary, pairs


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


@torch.library.custom_op("trellis::chain_gradient", mutates_args=())
def chain_gradient(
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
    """Σ_b weight_b ∂ value_b / ∂ each of the scores."""
    if emissions.is_cuda:
        found = _kernels().backward(
            emissions, transitions, start, end, lengths, tags, alpha, weight
        )
    else:
        found = _expected(emissions, transitions, start, end, lengths, alpha, pairs, weight)
        if tags is not None:
            _subtract_used(found, tags, lengths, weight)
    own = zip(found, (emissions, transitions, start, end), strict=True)
    e, a, s, f = (g.to(like.dtype) for g, like in own)
    return e, a, s, f


@chain_gradient.register_fake
def _(
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
    return (
        emissions.new_empty(emissions.shape),
        transitions.new_empty(transitions.shape),
        start.new_empty(start.shape),
        end.new_empty(end.shape),
    )


def _expected(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    unary: Tensor,
    pairs: Tensor,
    weight: Tensor,
) -> list[Tensor]:
    """Expected counts on the CPU, each row times its weight."""
    alike = bool((weight == weight[0]).all())
    if not unary.numel() or not (alike or transitions.dim() > 2):
        scores = _arrays(emissions, transitions, start, end)
        unary, pairs = _counts(scores, lengths.numpy(), weight.double().numpy())
    else:
        unary = unary * weight[:, None, None].to(unary.dtype)
        pairs = pairs * (weight[0] if alike else weight[:, None, None, None]).to(pairs.dtype)
    last = unary[torch.arange(len(unary)), lengths - 1]
    return [unary, pairs, unary[:, 0].double().sum(0), last.double().sum(0)]


def _counts(scores: list[Any], lengths: Any, weight: Any) -> tuple[Tensor, Tensor]:
    """Of weights that differ, or where some rows have no path, which then have no counts."""
    feasible = ~np.isneginf(np.asarray(chain.log_partition(*scores, lengths=lengths)))
    unary, pairs = np.zeros(scores[0].shape, scores[0].dtype), np.zeros(scores[1].shape)
    for sign in (1.0, -1.0):
        rows = feasible & (sign * weight > 0)
        if not rows.any():
            continue
        own = [a[rows] if a.ndim > 2 else a for a in scores]
        found = chain.expected_counts(*own, lengths=lengths[rows], weights=sign * weight[rows])
        unary[rows] = sign * np.asarray(found.unary)
        if pairs.ndim > 2:
            pairs[rows] = sign * np.asarray(found.transition)
        else:
            pairs += sign * np.asarray(found.transition)
    return torch.from_numpy(unary), torch.from_numpy(pairs)


def _subtract_used(found: list[Tensor], tags: Tensor, lengths: Tensor, weight: Tensor) -> None:
    """Take off what the tags use themselves."""
    e, a, s, f = found
    inside = torch.arange(tags.shape[1]) < lengths[:, None]
    each = weight[:, None].double() * inside
    e.scatter_add_(2, tags[:, :, None], -each[:, :, None].to(e.dtype))
    before, after, moved = tags[:, :-1], tags[:, 1:], -each[:, 1:].to(a.dtype)
    cells = before * len(s) + after
    if a.dim() > 2:
        a.flatten(2).scatter_add_(2, cells[:, :, None], moved[:, :, None])
    else:
        a.view(-1).scatter_add_(0, cells.reshape(-1), moved.reshape(-1))
    s.scatter_add_(0, tags[:, 0], -weight.to(s.dtype))
    f.scatter_add_(0, tags[torch.arange(len(tags)), lengths - 1], -weight.to(f.dtype))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:6], *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, weight: Tensor | None, *_: Any) -> tuple[Any, ...]:
    if weight is None:
        return (None,) * 7
    return (*chain_gradient(*ctx.saved_tensors, weight), None, None, None)


chain_value.register_autograd(_backward, setup_context=_keep)


def _keep_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    pass


def _refuse(ctx: Any, *gradients: Any) -> Any:
    raise RuntimeError("the gradient of a trellis CRF cannot be differentiated once more")


chain_gradient.register_autograd(_refuse, setup_context=_keep_nothing)


def log_partition(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor | None = None,
) -> Tensor:
    """Log Z of each row, less the score of its tags if given, differentiable."""
    scores = (emissions, transitions, start, end)
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in scores)
    value: Tensor = chain_value(*scores, lengths, tags, wanted)[0]
    return value


def marginals(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> Tensor:
    """p(yₜ | x): the gradient of log Z."""
    with torch.no_grad():
        scores = (emissions.to(_accurate(emissions)), transitions, start, end)
        _, alpha, pairs = chain_value(*scores, lengths, None, True)
        ones = torch.ones(len(emissions), dtype=scores[0].dtype, device=emissions.device)
        found: Tensor = chain_gradient(*scores, lengths, None, alpha, pairs, ones)[0]
    return found


# ---- the best path


@torch.library.custom_op("trellis::chain_viterbi", mutates_args=())
def chain_viterbi(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """The best labels of each row, 0 behind its length, and their score."""
    if emissions.is_cuda:
        labels, best = _kernels().viterbi(emissions, transitions, start, end, lengths)
        return labels, best
    scores = _arrays(emissions, transitions, start, end)
    path = chain.viterbi(*scores, lengths=lengths.numpy())
    labels = torch.from_numpy(np.asarray(path.labels)).clamp_(min=0)
    return labels, torch.from_numpy(np.asarray(path.score)).to(_accurate(emissions))


@chain_viterbi.register_fake
def _(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    rows, steps, _ = emissions.shape
    labels = emissions.new_empty((rows, steps), dtype=torch.int64)
    return labels, emissions.new_empty((rows,), dtype=_accurate(emissions))
