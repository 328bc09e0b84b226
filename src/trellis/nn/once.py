"""Gradients that cannot be differentiated again."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["refuse_second_derivative"]


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layer: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.layer = layer
        return tuple(x.clone() for x in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise _error(ctx.layer)


def _error(layer: str) -> RuntimeError:
    return RuntimeError(f"the gradient of a trellis {layer} cannot be differentiated again")


def refuse_second_derivative(
    gradients: Sequence[Tensor], saved: Sequence[Any], layer: str
) -> Sequence[Tensor]:
    """The gradients of a backward pass with ``create_graph=True``; differentiating them raises.

    Without the inputs among the saved tensors there is no graph to raise from: then this function
    raises. PyTorch's `once_differentiable` would treat the gradient as
    a constant, so that a loss which contains it would be wrong without an error.
    """
    inputs = [x for x in saved if x is not None and x.requires_grad]
    if not inputs:
        raise _error(layer)
    outputs: Sequence[Tensor] = _Once.apply(  # type: ignore[no-untyped-call]
        layer, len(gradients), *gradients, *inputs
    )
    return outputs
