"""Batches of the CRF layer: their validation, and their unmasked steps.

A masked step is removed from the chain: its neighbours become adjacent. The GPU kernels skip masked
steps themselves. For the CPU, the unmasked steps of each row are moved to the front, so that the
engine needs only their number.
"""

from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trellis.errors import InputError
from trellis.inference.chain import layer
from trellis.inference.gpu.status import RowStatus

__all__ = [
    "Batch",
    "Steps",
    "as_integers",
    "as_tags",
    "check_batch",
    "check_emissions",
    "check_status",
    "check_tensor",
    "find_steps",
]


class Batch(NamedTuple):
    """The tensors of a batch, rows first, in the order of `inference.chain.triton.ChainBatch`."""

    emissions: Tensor  # (B, T, L)
    transitions: Tensor  # (L, L), or (B, T-1, L, L) if they depend on the step
    start: Tensor  # (L,)
    end: Tensor  # (L,)
    lengths: Any = None  # (B,) int64 after `check_batch`; before it, any type
    tags: Any = None  # (B, T) int64 after `check_batch`
    mask: Any = None  # (B, T), nonzero at the steps that are part of the chain

    @property
    def scores(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Emissions, transitions, start and end: the tensors that have a gradient."""
        return self[:4]


class Steps(NamedTuple):
    """The unmasked steps of each row."""

    lengths: Tensor  # (B,) int64
    order: Tensor | None
    """(B, T) positions, unmasked steps first; None if they are at the front of each row already."""

    def to_front(self, x: Tensor) -> Tensor:
        """Return x (B, T, …) with its unmasked steps moved to the front."""
        if self.order is None:
            return x
        index = self.order.reshape(*self.order.shape, *[1] * (x.dim() - 2))
        return x.gather(1, index.expand(x.shape))

    def pairs_to_front(self, x: Tensor) -> Tensor:
        """Like `to_front`, for transitions (B, T-1, L, L): x[:, t - 1] is that into step t."""
        if self.order is None or x.shape[1] == 0:
            return x
        index = (self.order[:, 1:] - 1).clamp(min=0)
        return x.gather(1, index[:, :, None, None].expand(x.shape))

    def to_positions(self, x: Tensor, fill: Any = 0) -> Tensor:
        """Invert `to_front`: return x (B, T, …) at its positions, with `fill` at masked steps."""
        is_inside = torch.arange(x.shape[1], device=x.device) < self.lengths[:, None]
        x = x.masked_fill(~is_inside.reshape(*is_inside.shape, *[1] * (x.dim() - 2)), fill)
        if self.order is None:
            return x
        index = self.order.reshape(*self.order.shape, *[1] * (x.dim() - 2))
        return torch.full_like(x, fill).scatter(1, index.expand(x.shape), x)


# ---- shapes and types


def check_tensor(value: Any, name: str) -> None:
    """Raise if the value is not a tensor, or if it is sparse or nested."""
    if not isinstance(value, Tensor):
        raise InputError(f"{name} must be a tensor, not {type(value).__name__}")
    if value.is_nested or value.layout is not torch.strided:
        kind = "nested" if value.is_nested else str(value.layout).removeprefix("torch.")
        raise InputError(f"{name} must be a dense tensor, not {kind}")


def as_integers(value: Any, name: str, device: torch.device | None = None) -> Tensor:
    """Return an integer or a list of integers as a tensor.

    >>> as_integers([3, 1], "lengths")
    tensor([3, 1])
    """
    if isinstance(value, Tensor) and value.dtype is torch.int64 and device in (None, value.device):
        return value
    try:
        tensor = torch.as_tensor(value, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be integers, not {value!r:.60}") from None
    if not tensor.numel() and not isinstance(value, Tensor):
        tensor = tensor.to(torch.int64)  # PyTorch converts an empty list to a float tensor
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise InputError(f"{name} have type {tensor.dtype}: must be integers")
    return tensor


def check_emissions(emissions: Tensor, num_tags: int, device: torch.device) -> None:
    """Raise unless emissions are floating point of shape (B, T, num_tags) on the device."""
    if emissions.dim() != 3:
        raise InputError(f"emissions must have 3 dimensions, not {emissions.dim()}")
    if emissions.shape[2] != num_tags:
        raise InputError(f"emissions have {emissions.shape[2]} tags, but the layer has {num_tags}")
    if not emissions.is_floating_point():
        raise InputError(f"emissions must be floating point, not {emissions.dtype}")
    if 0 in emissions.shape[:2]:
        raise InputError(f"the batch is empty: emissions have shape {tuple(emissions.shape)}")
    # Kernels do not check the device.
    if emissions.device != device:
        raise InputError(f"emissions are on {emissions.device}, but the layer is on {device}")


def check_batch(batch: Batch) -> Batch:
    """Validate shapes, types and devices of mask, lengths and tags.

    Return the batch with lengths and tags converted to int64.
    """
    emissions, lengths, mask = batch.emissions, batch.lengths, batch.mask
    if mask is not None:
        if lengths is not None:
            raise InputError("mask and lengths have the same meaning: pass only one")
        check_tensor(mask, "mask")
        _check_grid(mask, "mask", emissions)
        if mask.is_floating_point() or mask.is_complex():
            # An additive mask, 0 to keep and -inf to drop, would mean the opposite.
            raise InputError(
                f"mask must be boolean or integers, not {mask.dtype}: write mask.bool() if 1 means "
                "that a step is part of the sequence, mask == 0 if 0 does"
            )
    if lengths is not None:
        lengths = as_integers(lengths, "lengths", emissions.device)
        if lengths.shape != emissions.shape[:1]:
            shape = tuple(lengths.shape)
            raise InputError(
                f"lengths have shape {shape}: must be ({len(emissions)},), one per row"
            )
        lengths = lengths.to(torch.int64)
    tags = None if batch.tags is None else as_tags(batch.tags, emissions)
    if lengths is batch.lengths and tags is batch.tags:
        return batch
    return batch._replace(lengths=lengths, tags=tags)


def as_tags(tags: Tensor, emissions: Tensor) -> Tensor:
    """Return tags (B, T) as int64. Their values are validated later, together with the mask."""
    _check_grid(tags, "tags", emissions)
    if tags.is_floating_point() or tags.is_complex():
        raise InputError(f"tags must be integers, not {tags.dtype}")
    return tags.to(torch.int64)


def _check_grid(grid: Tensor, name: str, emissions: Tensor) -> None:
    shape = emissions.shape[:2]
    if grid.shape != shape:
        hint = (
            "; pass the lengths of rows as lengths=" if name == "mask" and grid.dim() == 1 else ""
        )
        raise InputError(
            f"{name} of shape {tuple(grid.shape)}: must be {tuple(shape)}, as the emissions have"
            f"{hint}"
        )
    if grid.device != emissions.device:
        raise InputError(
            f"{name} on {grid.device}: must be on {emissions.device}, as the emissions are"
        )


# ---- which steps count


def find_steps(batch: Batch, validate: bool) -> Steps:
    """Return the unmasked steps of a batch that `check_batch` has returned.

    With ``validate``, raise for rows without a step, and for lengths and tags out of range.
    """
    emissions, mask, lengths, tags = batch.emissions, batch.mask, batch.lengths, batch.tags
    n_rows, n_steps, _ = emissions.shape
    if mask is None and lengths is None:
        lengths = torch.full((n_rows,), n_steps, dtype=torch.int64, device=emissions.device)
        validate = validate and tags is not None
        batch = batch._replace(lengths=lengths)
    if validate and emissions.is_cuda:
        engine = import_module("trellis.inference.chain.triton")
        plan, _ = engine.find_plan(engine.ChainPlan, batch, ("status",))
        status = RowStatus(n_rows, emissions.device)
        lengths, _ = plan.run(batch, status)
        flags = status.wait()
        check_status(flags, batch._replace(lengths=lengths))
        return Steps(lengths, _order_steps(mask) if any(flags) else None)
    if validate:
        steps = _find_on_cpu(batch)
        if steps is not None:
            return steps
    if mask is None:
        steps = Steps(lengths, None)
    else:
        mask = mask.bool()
        is_prefix = validate and bool((mask[:, :-1] >= mask[:, 1:]).all())
        steps = Steps(mask.sum(dim=1), None if is_prefix else _order_steps(mask))
    if validate:
        _check_values(batch._replace(lengths=steps.lengths))
    return steps


def _find_on_cpu(batch: Batch) -> Steps | None:
    """Return the steps of CPU tensors, by one native call; None if a value is invalid."""
    mask = None if batch.mask is None else batch.mask.bool()
    mask_array, lengths, tags = (
        None if tensor is None else tensor.numpy() for tensor in (mask, batch.lengths, batch.tags)
    )
    n_rows, n_steps, n_tags = batch.emissions.shape
    valid_steps = layer.find_steps(mask_array, lengths, tags, (n_rows, n_steps, n_tags))
    if valid_steps is None:
        return None
    order = None if valid_steps.prefix or mask is None else _order_steps(mask)
    return Steps(torch.from_numpy(valid_steps.lengths), order)


def check_status(status: list[int], batch: Batch) -> None:
    """Raise if a row is invalid; ``status`` has the flags of `validate_row` in `kernels_shared`."""
    if max(status) > 1:
        n_rows, width, _ = batch.emissions.shape
        if batch.mask is not None:
            batch = batch._replace(lengths=(batch.mask != 0).sum(1))
        elif batch.lengths is None:
            batch = batch._replace(lengths=batch.tags.new_full((n_rows,), width))
        _check_values(batch)


def _order_steps(mask: Tensor) -> Tensor:
    """Return the positions (B, T) of each row, unmasked steps first."""
    return (mask == 0).to(torch.uint8).argsort(dim=1, stable=True)


def _check_values(batch: Batch) -> None:
    """Raise for the first row whose length or tags are out of range."""
    lengths, tags, (_, n_steps, n_tags) = batch.lengths, batch.tags, batch.emissions.shape
    is_invalid = (lengths < 1) | (lengths > n_steps)
    if bool(is_invalid.any()):
        row = int(is_invalid.nonzero()[0, 0])
        length = int(lengths[row])
        problem = (
            "has no steps" if length < 1 else f"has length {length}, but there are {n_steps} steps"
        )
        raise InputError(f"row {{sequence}} of the batch {problem}", sequence=row)
    if tags is None:
        return
    is_unmasked = batch.mask
    if is_unmasked is None:
        is_unmasked = torch.arange(n_steps, device=lengths.device) < lengths[:, None]
    is_invalid = ((tags < 0) | (tags >= n_tags)) & is_unmasked.bool()
    if bool(is_invalid.any()):
        row, step = is_invalid.nonzero()[0].tolist()
        problem = f"tag {int(tags[row, step])} is not in the range 0 to {n_tags - 1}"
        raise InputError(f"row {{sequence}} of the batch, step {step}: {problem}", sequence=row)
