"""Errors for second derivatives, which the engines do not compute."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["refuse_second_derivative"]


class _DifferentiableOnce(torch.autograd.Function):
    """Returns copies of the gradients; a backward pass through them raises."""

    @staticmethod
    def forward(ctx: Any, layer: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.layer = layer
        return tuple(x.clone() for x in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise _build_error(ctx.layer)


def _build_error(layer: str) -> RuntimeError:
    return RuntimeError(f"the gradient of a trellis {layer} cannot be differentiated again")


def refuse_second_derivative(
    gradients: Sequence[Tensor], saved: Sequence[Any], layer: str
) -> Sequence[Tensor]:
    """Return the gradients, connected to the inputs so that a second derivative raises.

    It is called in a backward pass with ``create_graph=True``. The inputs are those of the
    ``saved`` tensors that require a gradient. If no input is saved, nothing
    can be connected, and this function raises at once. PyTorch's `once_differentiable` would treat
    the gradient as a constant: a loss that contains it would be wrong without an error.
    """
    inputs = [x for x in saved if x is not None and x.requires_grad]
    if not inputs:
        raise _build_error(layer)
    outputs: Sequence[Tensor] = _DifferentiableOnce.apply(  # type: ignore[no-untyped-call]
        layer, len(gradients), *gradients, *inputs
    )
    return outputs
