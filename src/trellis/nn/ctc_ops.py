"""CTC as operators of PyTorch: the native core on CPU tensors, Triton kernels on CUDA ones.

The value is -log p(target | input), its gradient softmax - p(label at the frame | target). Both are
registered with `torch.library`, so that autograd and `torch.compile` know them. Eager programs go
past the operators: their way through Python takes longer than a batch of short sequences.
"""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trellis.errors import InputError
from trellis.inference.ctc import cpu
from trellis.inference.gpu.status import Marks

__all__ = [
    "ctc_gradient",
    "ctc_value",
    "differentiable_value",
    "kernels",
    "number",
    "plain",
    "reduced",
    "small_on_card",
    "value_at_once",
]


@cache
def kernels() -> Any:
    """The GPU engine, which cannot be imported without Triton."""
    return import_module("trellis.inference.ctc.triton")


def number(input: Tensor) -> torch.dtype:
    """The type that is computed in."""
    return torch.float64 if input.dtype == torch.float64 else torch.float32


def _views(input: Tensor, *tensors: Tensor) -> Any:
    """NumPy views of CPU tensors; of half precision, which NumPy does not have, wider copies."""
    return (tensor.detach().numpy() for tensor in (input.to(number(input)), *tensors))


def _memory(like: Any) -> Tensor:
    """Not PyTorch's: of much memory NumPy asks for large pages, which are sooner touched."""
    return torch.from_numpy(np.empty(like.shape, like.dtype))


def _value(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    logits: bool,
    gradient: bool,
    entropy: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss of each row, log-sum-exp of each frame, and what the gradient needs if it is wanted.

    `entropy` weighs the entropy of the alignments, which is subtracted; on the CPU it must be 0.
    """
    if input.is_cuda:
        rows = (targets, input_lengths, target_lengths, blank, logits, gradient, entropy)
        loss, log_norm, kept = kernels().forward(input, *rows)
        return loss, log_norm, kept
    if entropy:
        raise InputError("on the CPU ctc_loss adds the entropy itself: entropy must be 0 here")
    x, labels, ends, sizes = _views(input, targets, input_lengths, target_lengths)
    found = cpu.forward(x, labels, ends, sizes, blank, logits)
    loss, log_norm, kept = (torch.from_numpy(array) for array in found)
    return loss, log_norm, kept


ctc_value = torch.library.custom_op("trellis::ctc_value", _value, mutates_args=())


@ctc_value.register_fake
def _(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    logits: bool,
    gradient: bool,
    entropy: float,
) -> tuple[Tensor, Tensor, Tensor]:
    frames, rows, _ = input.shape
    labels = targets.shape[1]
    norms = (frames, rows) if logits else (0, 0)
    kept: tuple[int, ...] = (rows, frames, 2 * labels + 1)
    if input.is_cuda:
        kept = (rows, frames + 2, 2, labels + 1) if gradient else (0,)
    dtype = number(input)
    return (
        input.new_empty((rows,), dtype=dtype),
        input.new_empty(norms, dtype=torch.float64 if input.is_cuda else dtype),
        input.new_empty(kept, dtype=dtype),
    )


def _gradient(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    log_norm: Tensor,
    kept: Tensor,
    loss: Tensor,
    weight: Tensor,
    blank: int,
    logits: bool,
) -> Tensor:
    """weight[b] · ∂ loss[b] / ∂ input."""
    if input.is_cuda:
        given = (targets, input_lengths, target_lengths, blank, logits)
        there: Tensor = kernels().backward(input, *given, log_norm, kept, loss, weight)
        return there
    x, labels, ends, sizes = _views(input, targets, input_lengths, target_lengths)
    norm, states, value, factor = (part.numpy() for part in (log_norm, kept, loss, weight))
    same = input.dtype == number(input)
    found = _memory(x) if same and input.is_contiguous() else torch.empty_like(input)
    whole = same and found.stride(2) == 1
    out = found if whole else _memory(x)
    rows = (labels, ends, sizes, blank, logits)
    cpu.backward(x, *rows, norm, states, value, factor, out=out.numpy())
    return found if whole else found.copy_(out)


ctc_gradient = torch.library.custom_op("trellis::ctc_gradient", _gradient, mutates_args=())


@ctc_gradient.register_fake
def _(input: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(input)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    loss, log_norm, kept = output
    ctx.save_for_backward(*inputs[:4], log_norm, kept, loss)
    ctx.blank, ctx.logits = inputs[4:6]
    ctx.mark_non_differentiable(log_norm, kept)
    ctx.set_materialize_grads(False)  # else autograd makes zeros as large as what is kept


def _backward(ctx: Any, weight: Tensor | None, *_: Any) -> tuple[Any, ...]:
    if weight is None:
        return (None,) * 8
    # only the operator knows how to refuse a second derivative
    gradient: Any = ctc_gradient if ctx.operator or torch.is_grad_enabled() else _gradient
    found = gradient(*ctx.saved_tensors, weight, ctx.blank, ctx.logits)
    return (found, *(None,) * 7)


def _keep_of_operator(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _keep(ctx, inputs, output)
    ctx.operator = True


ctc_value.register_autograd(_backward, setup_context=_keep_of_operator)


def _keep_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    pass


def _refuse(ctx: Any, *gradients: Any) -> Any:
    raise RuntimeError("the gradient of a trellis CTC loss cannot be differentiated once more")


ctc_gradient.register_autograd(_refuse, setup_context=_keep_nothing)


class _Eager(torch.autograd.Function):
    """ctc_value without the operator."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        found = _value(*inputs)
        _keep(ctx, inputs, found)
        ctx.operator = False
        return found

    @staticmethod
    def backward(ctx: Any, *weights: Any) -> tuple[Any, ...]:
        return _backward(ctx, *weights)


class _AtOnce(torch.autograd.Function):
    """The loss of a small input on a card with its gradient.

    PyTorch calls `backward` on a thread of its own, where Python is several times as slow: for a
    small batch that takes longer than the kernels do. So a product is all that is left for it.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor, rest: tuple[Any, ...]) -> Tensor:
        loss: Tensor
        loss, unit = layer_kernels().loss_and_gradient(input, *rest)
        ctx.save_for_backward(unit)
        return loss

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            _refuse(ctx)
        (unit,) = ctx.saved_tensors
        found = unit * (weight.unsqueeze(1) if weight.dim() else weight)
        return found, None


@cache
def layer_kernels() -> Any:
    """The GPU engine of losses with their gradient."""
    return import_module("trellis.inference.ctc.triton_layer")


def plain(input: Any) -> bool:
    """Whether it is a tensor with numbers, and nothing traces what is done with it."""
    return type(input) in (Tensor, torch.nn.Parameter) and not torch.compiler.is_compiling()


def small_on_card(input: Tensor, targets: Tensor) -> bool:
    """Whether the gradient is best made at once; half precision waits for what scales it."""
    return (
        input.is_cuda
        and input.requires_grad
        and torch.is_grad_enabled()
        and plain(input)
        and input.dtype == number(input)
        and input.numel() <= 2**22
        and input.stride(2) == 1
        and targets.is_contiguous()
    )


def value_at_once(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    logits: bool,
    entropy: float,
    reduction: str,
    marks: Marks | None = None,
    prepared: dict[Any, Any] | None = None,
) -> Tensor:
    """What the reduction makes of the losses; rows that have a mistake are marked.

    The gradient of such a row is of no use, and neither is its loss. What is `prepared` for their
    kind may be known.
    """
    rows = (targets, input_lengths, target_lengths)
    found: Tensor = _AtOnce.apply(  # type: ignore[no-untyped-call]
        input, (*rows, blank, logits, entropy, reduction, marks, prepared)
    )
    return found


def differentiable_value(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    logits: bool,
    entropy: float,
) -> Tensor:
    """The loss of each row."""
    gradient = torch.is_grad_enabled() and input.requires_grad
    args = (input, targets, input_lengths, target_lengths, blank, logits, gradient, entropy)
    eager: Any = _Eager.apply if plain(input) else ctc_value
    found: Any = eager(*args)
    loss: Tensor = found[0]
    return loss


def reduced(loss: Tensor, reduction: str, target_lengths: Tensor) -> Tensor:
    """Of the losses of all rows: as they are, their sum, or the mean of each a label."""
    if reduction == "mean":
        return (loss / target_lengths.clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss
