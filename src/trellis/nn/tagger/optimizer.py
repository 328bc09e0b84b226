"""Optimisers of a tagger, their learning rates, and their state as arrays.

A table of words is large, and a batch touches few of its rows. On the CPU such tables have sparse
gradients, and `LazyRows` updates only the rows with a gradient, so that the cost of an epoch does
not depend on the size of the vocabulary. On a GPU one fused kernel updates all parameters densely,
which is faster there than collecting the rows.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trellis import _core
from trellis.errors import InputError

__all__ = [
    "OPTIMIZERS",
    "SCHEDULES",
    "LazyRows",
    "build_optimizers",
    "clip_gradients",
    "rate_factor",
    "restore_state",
    "set_rate",
    "state_arrays",
]

OPTIMIZERS = ("adamw", "sgd")
SCHEDULES = ("constant", "linear", "cosine")

_MOMENTUM = 0.9
_ADAM_KEYS = ("step", "exp_avg", "exp_avg_sq")
_SGD_KEYS = ("momentum_buffer",)


class LazyRows(torch.optim.Optimizer):
    """Adam with decoupled weight decay on the rows that have a gradient.

    m ← β₁m + (1-β₁)g,  v ← β₂v + (1-β₂)g²,  w ← (1 - ηλ)w - η m̂ / (√v̂ + ε), row by row.

    g is the gradient, η the learning rate, and λ the weight decay. After t steps,
    m̂ = m / (1 - β₁ᵗ) and v̂ = v / (1 - β₂ᵗ).
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        options = {"lr": lr, "weight_decay": weight_decay, "betas": betas, "eps": eps}
        super().__init__(params, options)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update the rows of each table."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update_rows(parameter, parameter.grad, group)

    def _update_rows(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = (
                torch.zeros_like(parameter),
                torch.zeros_like(parameter),
            )
        state["step"] += 1
        step_count = int(state["step"])
        w, m, v = (
            tensor.detach().numpy() for tensor in (parameter, state["exp_avg"], state["exp_avg_sq"])
        )
        beta1, beta2 = group["betas"]
        # The gradient may have a row twice: the core adds such rows, so coalescing is not needed.
        rows, row_gradients = (
            gradient._indices()[0].numpy(),
            gradient._values().contiguous().numpy(),
        )
        decay = 1 - group["lr"] * group["weight_decay"]
        step_size, moment_scale = (
            group["lr"] / (1 - beta1**step_count),
            (1 - beta2**step_count) ** -0.5,
        )
        _core.adam_rows(
            w, m, v, rows, row_gradients, beta1, beta2, decay, step_size, moment_scale, group["eps"]
        )


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> None:
    """Scale all gradients so that their norm is at most ``max_norm``.

    On a GPU the factor is computed and applied on the device, so the host never waits for the norm.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    values = [gradient._values() if gradient.is_sparse else gradient for gradient in gradients]
    norm = torch.stack(torch._foreach_norm(values)).norm()
    # 1e-6 is the constant of torch.nn.utils.clip_grad_norm_
    if norm.is_cuda or float(norm) + 1e-6 > max_norm:
        torch._foreach_mul_(values, (max_norm / (norm + 1e-6)).clamp(max=1.0))


def build_optimizers(network: nn.Module, parameters: list[Tensor], settings: Any) -> list[Any]:
    """Return an optimiser of the dense parameters, and another one if there are sparse tables."""
    sparse_ids = {
        id(module.weight)
        for module in network.modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse
    }
    dense_parameters = [parameter for parameter in parameters if id(parameter) not in sparse_ids]
    tables = [parameter for parameter in parameters if id(parameter) in sparse_ids]
    options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimizer == "sgd":
        optimizers: list[Any] = []
        optimizers.append(
            torch.optim.SGD(dense_parameters, momentum=_MOMENTUM, foreach=True, **options)
        )
        if tables:
            # Tables have no momentum: it would change rows long after their last gradient.
            optimizers.append(torch.optim.SGD(tables, lr=settings.learning_rate))
        return optimizers
    optimizers = [
        torch.optim.AdamW(
            dense_parameters, fused=True, **_add_graph_options(dense_parameters[0].device, options)
        )
    ]
    return optimizers + ([LazyRows(tables, **options)] if tables else [])


def _add_graph_options(device: torch.device, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options. On a GPU, the learning rate is a tensor, which CUDA graphs can read."""
    if device.type != "cuda":
        return options
    return {**options, "lr": torch.tensor(options["lr"], device=device), "capturable": True}


def set_rate(optimizers: list[Any], rate: float) -> None:
    """Set the learning rate of all optimisers, in place where it is a tensor."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate


def rate_factor(schedule: str, epochs: float, total: int) -> float:
    """Return the factor of the learning rate after some of ``total`` epochs.

    It rises from 0 to 1 in the first epoch, or in the first tenth of a training of less than 10
    epochs. Then it falls to 0. The factor of a constant schedule is always 1.

    >>> [round(rate_factor("linear", e, 11), 2) for e in (0.5, 1.0, 6.0, 11.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if schedule == "constant":
        return 1.0
    warmup_epochs = min(1.0, 0.1 * total)
    if epochs < warmup_epochs:
        return epochs / warmup_epochs
    fraction_done = min(1.0, (epochs - warmup_epochs) / (total - warmup_epochs))
    return (
        1.0 - fraction_done
        if schedule == "linear"
        else 0.5 * (1.0 + math.cos(math.pi * fraction_done))
    )


def state_arrays(
    optimizers: list[Any], parameters: Mapping[str, Tensor]
) -> dict[str, NDArray[Any]]:
    """Return copies of the state of all optimisers, by "key.parameter"."""
    arrays = {}
    for name, parameter in parameters.items():
        for optimizer in optimizers:
            for key, value in optimizer.state.get(parameter, {}).items():
                if value is not None:
                    arrays[f"{key}.{name}"] = np.array(torch.as_tensor(value).cpu().numpy())
    return arrays


def restore_state(
    optimizers: list[Any],
    parameters: Mapping[str, Tensor],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Set the state that `state_arrays` returned."""
    names = {id(parameter): name for name, parameter in parameters.items()}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                state = _read_state(arrays, names[id(parameter)], parameter, group)
                optimizer.state[parameter] = state


def _read_state(
    arrays: Mapping[str, NDArray[Any]], name: str, parameter: Tensor, group: dict[str, Any]
) -> dict[str, Any]:
    """Return the state of one parameter; {} if it has not been updated yet."""
    keys = _ADAM_KEYS if "betas" in group else _SGD_KEYS
    state: dict[str, Any] = {}
    for key in keys:
        array = arrays.get(f"{key}.{name}")
        if array is None:
            continue
        # The kernels of PyTorch and of the core do not check sizes: they would write beyond the end
        # of a smaller array.
        shape = () if key == "step" else tuple(parameter.shape)
        if array.shape != shape or array.dtype != np.float32 or not np.isfinite(array).all():
            raise InputError(f"tensor '{key}.{name}' must be finite float32 of shape {shape}")
        if key in ("step", "exp_avg_sq") and not (array >= 0).all():
            raise InputError(f"tensor '{key}.{name}' must be at least 0")
        # PyTorch keeps the step count on the CPU, except for its fused kernels
        device = parameter.device if key != "step" or group.get("fused") else "cpu"
        state[key] = torch.from_numpy(np.array(array)).to(device)
    if state and len(state) < len(keys):
        raise InputError(f"the state of {name!r} needs the tensors {', '.join(keys)}")
    return state
