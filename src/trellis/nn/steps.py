"""Which steps of a padded batch count: masks and lengths, and what is wrong with a batch.

A masked step is taken out of the chain: its neighbours become neighbours. What is left of each row
is moved to the front, so that all that follows knows lengths alone.
"""

from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trellis.errors import InputError
from trellis.inference.chain import layer

__all__ = [
    "Steps",
    "check_emissions",
    "check_tags",
    "check_tensor",
    "integers",
    "lengths_of",
    "seen_steps",
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
    """Raise if it is not a tensor, or one that is sparse or nested."""
    if not isinstance(value, Tensor):
        raise InputError(f"{name} must be a tensor, not {type(value).__name__}")
    if value.is_nested or value.layout is not torch.strided:
        kind = "nested" if value.is_nested else str(value.layout).removeprefix("torch.")
        raise InputError(f"{name} must be a dense tensor, not {kind}")


def integers(value: Any, name: str, device: torch.device | None = None) -> Tensor:
    """Integers as a tensor, from one or from a list.

    >>> integers([3, 1], "lengths")
    tensor([3, 1])
    """
    if isinstance(value, Tensor) and value.dtype is torch.int64 and device in (None, value.device):
        return value
    try:
        found = torch.as_tensor(value, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be integers, not {value!r:.60}") from None
    if not found.numel() and not isinstance(value, Tensor):
        found = found.to(torch.int64)  # an empty list, of which PyTorch does not know the type
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise InputError(f"{name} have type {found.dtype}: must be integers")
    return found


def steps_of(
    emissions: Tensor, mask: Tensor | None, lengths: Any, tags: Tensor | None, validate: bool
) -> Steps:
    """From a mask or lengths, either of which may be None, for emissions (B, T, L).

    With ``validate``, lengths and tags (B, T) that are impossible are errors.
    """
    _, width, labels = emissions.shape
    found = lengths_of(emissions, mask, lengths)
    if validate and emissions.is_cuda and not (mask is None and lengths is None and tags is None):
        engine = import_module("trellis.inference.chain.triton")
        own, marks = engine.look(emissions, mask, found, tags)
        return seen_steps(own, marks.tolist(), mask, tags, width, labels)
    if validate and not emissions.is_cuda:
        seen = _look(mask, found, tags, emissions)
        if seen is not None:
            return seen
    if mask is None:
        steps = Steps(_known(found), None)
    else:
        mask = mask.bool()
        in_front = validate and bool((mask[:, :-1] >= mask[:, 1:]).all())
        steps = Steps(mask.sum(dim=1), None if in_front else _order(mask))
    if validate:
        _check_lengths(steps.lengths, width)
        if tags is not None:
            t = torch.arange(width, device=tags.device)
            inside = t < steps.lengths[:, None] if mask is None else mask
            _check_tags(tags, inside, labels)
    return steps


def _look(
    mask: Tensor | None, lengths: Tensor | None, tags: Tensor | None, emissions: Tensor
) -> Steps | None:
    """Of CPU tensors, in one go; None if something is wrong."""
    bits = None if mask is None else mask.bool()
    grid, own, labels = (None if x is None else x.numpy() for x in (bits, lengths, tags))
    rows, width, count = emissions.shape
    seen = layer.look(grid, own, labels, (rows, width, count))
    if seen is None:
        return None
    return Steps(torch.from_numpy(seen.lengths), None if seen.in_front else _order(_known(bits)))


def lengths_of(emissions: Tensor, mask: Tensor | None, lengths: Any) -> Tensor | None:
    """How many steps of each row count, or None if a mask says it."""
    if mask is None:
        return _lengths(lengths, emissions.shape[0], emissions.shape[1], emissions.device)
    if lengths is not None:
        raise InputError("mask and lengths are two ways to say the same: give one of them")
    _check_grid(mask, "mask", emissions)
    return None


def _known(lengths: Tensor | None) -> Tensor:
    assert lengths is not None
    return lengths


def seen_steps(
    lengths: Tensor,
    marks: list[int],
    mask: Tensor | None,
    tags: Tensor | None,
    width: int,
    labels: int,
) -> Steps:
    """From lengths, and what a kernel has found wrong with each row."""
    most = max(marks)
    if most > 1:
        _check_lengths(lengths, width)
        t = torch.arange(width, device=lengths.device)
        _check_tags(_known(tags), t < lengths[:, None] if mask is None else mask, labels)
    return Steps(lengths, _order(mask) if mask is not None and most else None)


def _order(mask: Tensor) -> Tensor:
    return (mask == 0).to(torch.uint8).argsort(dim=1, stable=True)


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
    emissions = emissions.resolve_neg()  # engines read what lies in memory
    found = emissions if batch_first else emissions.transpose(0, 1)
    if found.shape[0] == 0 or found.shape[1] == 0:
        raise InputError(f"the batch is empty: emissions have shape {tuple(emissions.shape)}")
    return found


def check_tags(tags: Tensor, emissions: Tensor) -> Tensor:
    """Tags (B, T) as integers of 64 bits; what they are is looked at with the steps."""
    _check_grid(tags, "tags", emissions)
    if tags.dtype is torch.int64:
        return tags
    if tags.is_floating_point() or tags.is_complex():
        raise InputError(f"tags must be integers, not {tags.dtype}")
    return tags.to(torch.int64)


def _check_grid(grid: Tensor, name: str, emissions: Tensor) -> None:
    """Something of each step."""
    due = emissions.shape[:2]
    if grid.shape != due:
        raise InputError(f"{name} of shape {tuple(grid.shape)} for emissions of {tuple(due)} steps")
    if grid.device != emissions.device:
        raise InputError(f"{name} on {grid.device} for emissions on {emissions.device}")


def _check_tags(tags: Tensor, inside: Tensor, labels: int) -> None:
    bad = ((tags < 0) | (tags >= labels)) & inside.bool()
    if bool(bad.any()):
        row, step = bad.nonzero()[0].tolist()
        raise InputError(
            f"row {row} of the batch, step {step}: tag {int(tags[row, step])} is not one of "
            f"{labels}"
        )
