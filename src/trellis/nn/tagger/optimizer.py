"""AdamW and SGD for networks with large tables, of which a batch touches a few rows.

A table on the CPU has sparse gradients, and only the rows in them are updated, each as AdamW would
if there were no other steps: an epoch then costs no more for a larger vocabulary. On a card all
parameters take dense steps in one fused kernel, which is cheaper there than finding the rows.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from trellis import _core

__all__ = ["LazyRows", "clip"]


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
                    self._rows(p, p.grad, group)

    def _rows(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[p]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        state["step"] += 1
        step = int(state["step"])
        w, m, v = (x.detach().numpy() for x in (p, state["exp_avg"], state["exp_avg_sq"]))
        beta1, beta2 = group["betas"]
        # as they are: the core adds up the gradients of a row that is there twice
        rows, g = grad._indices()[0].numpy(), grad._values().contiguous().numpy()
        decay = 1 - group["lr"] * group["weight_decay"]
        size, scale = group["lr"] / (1 - beta1**step), (1 - beta2**step) ** -0.5
        _core.adam_rows(w, m, v, rows, g, beta1, beta2, decay, size, scale, group["eps"])


@torch.no_grad()
def clip(parameters: Iterable[Tensor], most: float) -> None:
    """Scale all gradients so that their norm is at most `most`, without waiting for the device."""
    grads = [p.grad for p in parameters if p.grad is not None]
    values = [g._values() if g.is_sparse else g for g in grads]
    norm = torch.stack(torch._foreach_norm(values)).norm()
    if norm.is_cuda or float(norm) + 1e-6 > most:
        torch._foreach_mul_(values, (most / (norm + 1e-6)).clamp(max=1.0))
