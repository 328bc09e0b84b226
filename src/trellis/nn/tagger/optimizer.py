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
_STATE_KEYS = ("step", "exp_avg", "exp_avg_sq", "momentum_buffer")


class LazyRows(torch.optim.Optimizer):
    """Adam with decoupled weight decay on the rows that have a gradient.

    m ← β₁m + (1-β₁)g,  v ← β₂v + (1-β₂)g²,  w ← (1 - ηλ)w - η m̂ / (√v̂ + ε), row by row.
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
            for p in group["params"]:
                if p.grad is not None:
                    self._update_rows(p, p.grad, group)

    def _update_rows(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[p]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        state["step"] += 1
        count = int(state["step"])
        w, m, v = (x.detach().numpy() for x in (p, state["exp_avg"], state["exp_avg_sq"]))
        beta1, beta2 = group["betas"]
        # The gradient may have a row twice: the core adds such rows, so coalescing is not needed.
        rows, g = grad._indices()[0].numpy(), grad._values().contiguous().numpy()
        decay = 1 - group["lr"] * group["weight_decay"]
        step_size, scale = group["lr"] / (1 - beta1**count), (1 - beta2**count) ** -0.5
        _core.adam_rows(w, m, v, rows, g, beta1, beta2, decay, step_size, scale, group["eps"])


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> None:
    """Scale all gradients so that their norm is at most ``max_norm``.

    On a GPU the factor is computed and applied on the device, so the host never waits for the norm.
    """
    grads = [p.grad for p in parameters if p.grad is not None]
    values = [g._values() if g.is_sparse else g for g in grads]
    norm = torch.stack(torch._foreach_norm(values)).norm()
    # 1e-6 is the constant of torch.nn.utils.clip_grad_norm_
    if norm.is_cuda or float(norm) + 1e-6 > max_norm:
        torch._foreach_mul_(values, (max_norm / (norm + 1e-6)).clamp(max=1.0))


def build_optimizers(network: nn.Module, parameters: list[Tensor], settings: Any) -> list[Any]:
    """Return an optimiser of the dense parameters, and another one if there are sparse tables."""
    sparse = {
        id(m.weight)
        for m in network.modules()
        if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.sparse
    }
    dense = [p for p in parameters if id(p) not in sparse]
    tables = [p for p in parameters if id(p) in sparse]
    options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimizer == "sgd":
        optimizers: list[Any] = []
        optimizers.append(torch.optim.SGD(dense, momentum=_MOMENTUM, foreach=True, **options))
        if tables:
            # Tables have no momentum: it would change rows long after their last gradient.
            optimizers.append(torch.optim.SGD(tables, lr=settings.learning_rate))
        return optimizers
    optimizers = [
        torch.optim.AdamW(dense, fused=True, **_add_graph_options(dense[0].device, options))
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
    warmup = min(1.0, 0.1 * total)
    if epochs < warmup:
        return epochs / warmup
    fraction_done = min(1.0, (epochs - warmup) / (total - warmup))
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
    for name, p in parameters.items():
        for optimizer in optimizers:
            for key, value in optimizer.state.get(p, {}).items():
                if value is not None:
                    arrays[f"{key}.{name}"] = np.array(torch.as_tensor(value).cpu().numpy())
    return arrays


def restore_state(
    optimizers: list[Any],
    parameters: Mapping[str, Tensor],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Set the state that `state_arrays` returned."""
    names = {id(p): name for name, p in parameters.items()}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for p in group["params"]:
                is_fused = bool(group.get("fused"))
                optimizer.state[p] = _read_state(arrays, names[id(p)], p, is_fused)


def _read_state(
    arrays: Mapping[str, NDArray[Any]], name: str, p: Tensor, is_fused: bool
) -> dict[str, Any]:
    state = {}
    for key in _STATE_KEYS:
        array = arrays.get(f"{key}.{name}")
        if array is None:
            continue
        if array.shape not in ((), tuple(p.shape)) or not np.isfinite(array).all():
            raise InputError(
                f"tensor '{key}.{name}' must be finite numbers of shape () or {tuple(p.shape)}"
            )
        # PyTorch keeps the step count on the CPU, except for its fused kernels
        device = p.device if key != "step" or is_fused else "cpu"
        state[key] = torch.from_numpy(np.array(array)).to(device)
    return state
