"""Which steps of a padded batch count: masks and lengths, and what is wrong with a batch.

A masked step is taken out of the chain: its neighbours become neighbours. What is left of each row
is moved to the front, so that all that follows knows lengths alone.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from trellis.errors import InputError

__all__ = [
    "Steps",
    "check_emissions",
    "check_tags",
    "check_tensor",
    "integers",
    "steps_of",
]


class Steps(NamedTuple):
    """The steps of each row that count."""

    lengths: Tensor
    """How many."""
    order: Tensor | None
    """(B, T) where each comes from, those that count first; None if they are in front already."""

    def front(self, x: Tensor) -> Tensor:
        """What (B, T, …) says of the steps that count, in front."""
        if self.order is None:
            return x
        index = self.order.reshape(*self.order.shape, *[1] * (x.dim() - 2))
        return x.gather(1, index.expand(x.shape))

    def front_pairs(self, x: Tensor) -> Tensor:
        """The same of (B, T-1, L, L), which speak of the transition into a step."""
        if self.order is None or x.shape[1] == 0:
            return x
        into = (self.order[:, 1:] - 1).clamp(min=0)
        return x.gather(1, into[:, :, None, None].expand(x.shape))

    def back(self, x: Tensor, fill: Any = 0) -> Tensor:
        """(B, T, …) of steps in front where they came from, `fill` for those that do not count."""
        inside = torch.arange(x.shape[1], device=x.device) < self.lengths[:, None]
        x = x.masked_fill(~inside.reshape(*inside.shape, *[1] * (x.dim() - 2)), fill)
        if self.order is None:
            return x
        index = self.order.reshape(*self.order.shape, *[1] * (x.dim() - 2))
        return torch.zeros_like(x).scatter(1, index.expand(x.shape), x)


def check_tensor(value: Any, name: str) -> None:
    """Raise if it is not a tensor."""
    if not isinstance(value, Tensor):
        raise InputError(f"{name} must be a tensor, not {type(value).__name__}")


def integers(value: Any, name: str, device: torch.device | None = None) -> Tensor:
    """Integers as a tensor, from one or from a list.

    >>> integers([3, 1], "lengths")
    tensor([3, 1])
    """
    try:
        found = torch.as_tensor(value, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be integers, not {value!r:.60}") from None
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise InputError(f"{name} have type {found.dtype}: must be integers")
    return found


def steps_of(emissions: Tensor, mask: Tensor | None, lengths: Any, validate: bool) -> Steps:
    """From a mask or lengths, either of which may be None, for emissions (B, T, L)."""
    rows, width = emissions.shape[:2]
    if mask is not None and lengths is not None:
        raise InputError("mask and lengths are two ways to say the same: give one of them")
    if mask is None:
        found = _lengths(lengths, rows, width, emissions.device)
        if validate and lengths is not None:
            _check_lengths(found, width)
        return Steps(found, None)
    if mask.shape != (rows, width):
        raise InputError(f"mask has shape {tuple(mask.shape)}, but emissions {(rows, width)}")
    if mask.device != emissions.device:
        raise InputError(f"mask is on {mask.device}, but emissions on {emissions.device}")
    mask = mask.bool()
    found = mask.sum(dim=1)
    if validate:
        _check_lengths(found, width)
    if not emissions.is_cuda and validate and bool((mask[:, :-1] >= mask[:, 1:]).all()):
        return Steps(found, None)
    return Steps(found, (~mask).to(torch.uint8).argsort(dim=1, stable=True))


def _lengths(lengths: Any, rows: int, width: int, device: torch.device) -> Tensor:
    if lengths is None:
        return torch.full((rows,), width, dtype=torch.int64, device=device)
    found = integers(lengths, "lengths", device)
    if found.shape != (rows,):
        raise InputError(f"lengths must be {rows} integers, not of shape {tuple(found.shape)}")
    return found.to(torch.int64)


def _check_lengths(lengths: Tensor, width: int) -> None:
    bad = (lengths < 1) | (lengths > width)
    if bool(bad.any()):
        row = int(bad.nonzero()[0, 0])
        found = int(lengths[row])
        what = (
            "has no step left" if found < 1 else f"has length {found}, but there are {width} steps"
        )
        raise InputError(f"row {row} of the batch {what}")


def check_emissions(emissions: Tensor, num_tags: int, batch_first: bool) -> Tensor:
    """Emissions as (B, T, L)."""
    check_tensor(emissions, "emissions")
    if emissions.dim() != 3:
        raise InputError(f"emissions must have 3 dimensions, not {emissions.dim()}")
    if emissions.shape[2] != num_tags:
        raise InputError(f"emissions have {emissions.shape[2]} tags, but the layer {num_tags}")
    if not emissions.is_floating_point():
        raise InputError(f"emissions must be floating point, not {emissions.dtype}")
    found = emissions if batch_first else emissions.transpose(0, 1)
    if found.shape[0] == 0 or found.shape[1] == 0:
        raise InputError(f"the batch is empty: emissions have shape {tuple(emissions.shape)}")
    return found


def check_tags(tags: Tensor, steps: Steps, emissions: Tensor, validate: bool) -> Tensor:
    """Tags of the steps that count, in front; whatever stands elsewhere becomes 0."""
    if tags.shape != emissions.shape[:2]:
        raise InputError(
            f"tags have shape {tuple(tags.shape)}, but emissions {tuple(emissions.shape[:2])}"
        )
    if tags.device != emissions.device:
        raise InputError(f"tags are on {tags.device}, but emissions on {emissions.device}")
    if tags.is_floating_point():
        raise InputError(f"tags must be integers, not {tags.dtype}")
    tags = steps.front(tags.to(torch.int64))
    if emissions.is_cuda and not validate:
        return tags  # the kernels do not look behind the lengths
    inside = torch.arange(tags.shape[1], device=tags.device) < steps.lengths[:, None]
    tags = tags.masked_fill(~inside, 0)
    if validate:
        bad = (tags < 0) | (tags >= emissions.shape[2])
        if bool(bad.any()):
            row, step = bad.nonzero()[0].tolist()
            at = step if steps.order is None else int(steps.order[row, step])
            raise InputError(
                f"row {row} of the batch, step {at}: tag {int(tags[row, step])} is not one of "
                f"{emissions.shape[2]}"
            )
    return tags
