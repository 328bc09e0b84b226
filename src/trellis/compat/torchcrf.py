"""pytorch-crf's `CRF`, implemented by `trellis.nn.CRF`. State dicts are compatible.

>>> import torch
>>> crf = CRF(3, batch_first=True)
>>> crf
CRF(num_tags=3)
>>> best = crf.decode(torch.randn(2, 5, 3))
>>> len(best), len(best[0])
(2, 5)
"""

from typing import Any

from trellis.errors import InputError
from trellis.nn import CRF as _CRF

__all__ = ["CRF"]

_REDUCTIONS = ("none", "sum", "mean", "token_mean")


class CRF(_CRF):
    """A linear-chain CRF. Emissions are (steps, batch, tags), or (batch, steps, tags).

    Parameters are named ``start_transitions``, ``end_transitions`` and ``transitions``.
    """

    def __init__(self, num_tags: int, batch_first: bool = False) -> None:
        if num_tags <= 0:
            raise InputError(f"invalid number of tags: {num_tags}")
        super().__init__(num_tags, batch_first)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_tags={self.num_tags})"

    def forward(
        self, emissions: Any, tags: Any, mask: Any = None, reduction: str = "sum", **more: Any
    ) -> Any:
        """Return log p(tags | emissions), reduced; ``more`` are options of `trellis.nn.CRF`."""
        self._validate(emissions, tags, mask)
        if reduction not in _REDUCTIONS:
            raise InputError(f"invalid reduction: {reduction}")
        return super().forward(emissions, tags, _as_bool(mask), reduction, **more)

    def decode(self, emissions: Any, mask: Any = None, **more: Any) -> Any:
        """Return the best tags of each sequence."""
        self._validate(emissions, None, mask)
        return super().decode(emissions, _as_bool(mask), **more)

    def _validate(self, emissions: Any, tags: Any, mask: Any) -> None:
        """Raise InputError, with the messages of pytorch-crf, if an argument is invalid."""
        if emissions.dim() != 3:
            raise InputError(f"emissions must have dimension of 3, got {emissions.dim()}")
        size = emissions.size(2)
        if size != self.num_tags:
            raise InputError(f"expected last dimension of emissions is {self.num_tags}, got {size}")
        shape = tuple(emissions.shape[:2])
        for name, tensor in (("tags", tags), ("mask", mask)):
            if tensor is not None and tuple(tensor.shape[:2]) != shape:
                raise InputError(
                    f"the first two dimensions of emissions and {name} must match, "
                    f"got {shape} and {tuple(tensor.shape)}"
                )
        if mask is not None and self.validate:
            first_step = mask[:, 0] if self.batch_first else mask[0]
            if not first_step.all():
                raise InputError("mask of the first timestep must all be on")


def _as_bool(mask: Any) -> Any:
    """Return the mask as booleans; pytorch-crf also accepts byte masks."""
    return None if mask is None else mask.bool()
