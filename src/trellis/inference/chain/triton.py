"""The chain on the GPU: log Z or log p(tags), their gradients, and the best path.

`trellis.nn` calls this module after it has validated shapes and types. Each row of the batch has
one program, and a kernel takes all steps of the row. If the transitions fit into the registers of a
program (`held`), it works with scaled probabilities, and only rows that would underflow are
computed again in log space. -inf forbids a label or transition. The same input gives the same bits.

README.md in this folder explains the recursions, and docs/kernels.md the cost of a step. The head
of kernels_shared.py explains the arguments of all kernels.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trellis.inference.chain import kernels_shared as kernels
from trellis.inference.gpu.launch import (
    LaunchPlan,
    compute_dtype,
    find_plan,
    options_of_walk,
    power_of_two,
)
from trellis.inference.gpu.status import RowStatus

__all__ = ["ChainBatch", "ChainPlan", "find_plan", "sum_gradients"]

# Tensors of a padded batch, which may have any strides:
#   emissions    (B, T, L) float16, bfloat16, float32 or float64
#   transitions  (L, L), or (B, T-1, L, L) if they depend on the position
#   start, end   (L,)
#   lengths      (B,) int64, or None
#   tags         (B, T) int64, or None for log Z
#   mask         (B, T), nonzero where a step is used; or None. A batch has lengths or a mask.
ChainBatch: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor, Any, Any, Any]

_NAMES = ("emissions", "transitions", "start", "end", "lengths", "tags", "mask")
_SUM_COLUMNS = 64  # columns that a program of sum_kernel adds up
_TILE = 1024  # transitions per warp that log space keeps in registers: 32 per lane


class ChainPlan(LaunchPlan):
    """The prepared computation of batches of one signature.

    result
        "value": log Z of each row, or log p of its tags. "rows": its gradients, too. "sum": the sum
        of the values, and its gradients. "path": the best path and its score; of equally good
        labels at a position, the first is taken. "status": only the lengths of the rows.

    With "rows" and "sum", `run` already computes the gradients. PyTorch calls `backward` on another
    thread, where Python is several times slower: there they are only multiplied by a weight.

    >>> zero, tags = torch.zeros(2), torch.tensor([[0, 1]])
    >>> batch = (torch.zeros(1, 2, 2), torch.zeros(2, 2), zero, zero, None, tags, None)
    >>> plan = ChainPlan(batch, "sum")
    >>> value, saved = plan.run(batch)
    >>> value.exp()  # four paths of equal probability
    tensor(0.2500)
    >>> plan.gradients(saved, torch.tensor(2.0))[0]  # 2 · (one-hot tags - marginals)
    tensor([[[ 1., -1.],
             [-1.,  1.]]])
    """

    max_held_bytes = 128 * 128 * 4
    """Transitions of at most `max_held_bytes` are kept in the registers of a program."""

    def __init__(self, batch: ChainBatch, result: str = "rows") -> None:
        emissions, transitions, _, _, lengths, tags, mask = _make_contiguous(batch)
        self.result = result
        self.rows, self.steps, self.labels = rows, steps, labels = emissions.shape
        self.shared = transitions.dim() == 2
        dtype = compute_dtype(emissions)
        dtypes = [x.dtype for x in batch[:4]]
        self.dtypes = None if all(x is dtype for x in dtypes) else dtypes
        self.width = (2 + (labels if self.shared else 0)) * labels + 1
        launches, constants = self._choose_kernels(dtype.itemsize)
        masked = mask is not None
        constants |= {"masked": masked, "counted": lengths is not None, "tagged": tags is not None}
        integers = {"rows": rows, "steps": steps, "labels": labels}
        for name, x in (("e", emissions), ("m", mask), ("t", tags)):
            strides = (0, 0) if x is None else x.stride()
            integers |= {f"{name}_row": strides[0], f"{name}_step": strides[1]}
        workspace = {
            "alpha": (rows * steps * labels, dtype),
            "transposed": (labels**2 if self.shared else 1, transitions.dtype),
            "row_lengths": (rows, torch.int64),
            "order": (rows * steps if masked else 1, torch.int32),
            "packed": (rows * steps * labels if masked else 1, emissions.dtype),
            "row_values": (rows, dtype),
            "row_sums": (rows * self.width, dtype),
            "status": (rows, torch.int32),
        }
        super().__init__(launches, _NAMES, self._outputs(dtype), workspace, integers, constants)

    def _outputs(self, dtype: torch.dtype) -> dict[str, Any]:
        """Return shape and type of the value and of the saved tensors, by kernel parameter."""
        rows, steps, labels, square = self.rows, self.steps, self.labels, (self.labels, self.labels)
        pairs = square if self.shared else (rows, steps - 1, *square)
        unary = {"d_emissions": (rows, steps, labels)}
        row_pairs = {"d_transitions": 0 if self.shared else pairs, "row_sums": (rows, self.width)}
        shapes: dict[str, Any] = {
            "value": {"row_values": rows},
            "rows": {"row_values": rows, **unary, **row_pairs},
            "sum": {
                "value": (),
                **unary,
                "d_transitions": pairs,
                "d_start": labels,
                "d_end": labels,
            },
            "path": {"row_values": rows, "path": (rows, steps)},
            "status": {"row_lengths": rows},
        }[self.result]
        integers = ("path", "row_lengths")
        return {name: (x, torch.int64 if name in integers else dtype) for name, x in shapes.items()}

    def _choose_kernels(self, itemsize: int) -> tuple[list[Any], dict[str, int]]:
        """Return kernels with programs and options, and their constants.

        The 32 lanes of a warp share the labels of a row. So a second warp helps only if the
        registers of one warp are not enough for the transitions, and in the backward kernel also
        for their counts.
        """
        block = max(16, power_of_two(self.labels))
        held = self.shared and block * block * itemsize <= self.max_held_bytes
        width = block * itemsize // 4  # float64 takes twice the registers
        if held:
            warps, backward_warps = (8, 8) if width >= 128 else (1, 2 if width == 64 else 1)
        else:
            warps = backward_warps = 1 if block <= 32 else min(max(block // 64, 4), 8)
        tile = min(max(_TILE * warps // block, 1), block, 32)  # 32 labels are a line of the cache
        constants: dict[str, int] = {"block": block, "tile": tile, "columns": _SUM_COLUMNS}
        constants |= {"held": held, "shared": self.shared, "best": self.result == "path"}
        if self.result == "status":
            return [(kernels.validate_kernel, self.rows, {"num_warps": 1})], constants
        # The limit of registers per thread. With 255 instead of 168, a step for 16 labels takes a
        # third more cycles (counted in the machine code).
        forward = options_of_walk(warps, 168 if held and width <= 32 else 255)
        calls = [(kernels.forward_kernel, self.rows, forward)]
        if self.result == "path":
            calls.append((kernels.trace_kernel, self.rows, {"num_warps": 1}))
        if self.result in ("rows", "sum"):
            calls.append((kernels.backward_kernel, self.rows, options_of_walk(backward_warps)))
        if self.result == "sum":
            calls.append((kernels.sum_kernel, -(-self.width // _SUM_COLUMNS), {"num_warps": 4}))
        return calls, constants

    def run(
        self, batch: ChainBatch, status: RowStatus | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the value, (B,) or (), and the tensors for `gradients`.

        For "path", the value is the score, and the saved tensor has the labels (B, T), 0 after the
        length. For "status", the value is the lengths. If the status of a row is above 1 (see
        `validate_row`), all other results are invalid.
        """
        (value, *saved), _ = self.launch(_make_contiguous(batch), status)
        return value, tuple(saved)

    def gradients(self, saved: Sequence[Tensor], weight: Tensor) -> Sequence[Tensor]:
        """Return the gradients of Σ weight · value for emissions, transitions, start and end.

        They do not share memory, so the caller may change one of them in place.
        """
        if self.result == "sum":
            gradients: Sequence[Tensor] = torch._foreach_mul(saved, weight)
        else:
            unary, pairs, sums = saved
            gradients = sum_gradients(unary, pairs, sums, weight)
        if self.dtypes is None:
            return gradients
        return [x.to(dtype) for x, dtype in zip(gradients, self.dtypes, strict=True)]


def sum_gradients(
    unary: Tensor, pairs: Tensor, sums: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the gradients of Σ_b weight_b · value_b from the gradients of each row.

    unary (B, T, L); pairs (B, T-1, L, L), or empty if the transitions are shared; sums (B, W + 1)
    are the row_sums of the kernels; weight (B,).
    """
    labels = unary.shape[2]
    total = (sums * weight[:, None]).sum(0)
    if sums.shape[1] > 2 * labels + 1:
        square = total[2 * labels : -1].view(labels, labels).t()  # stored later label first
        pairs = square.clone(memory_format=torch.contiguous_format)
    else:
        pairs = pairs * weight.view(-1, 1, 1, 1)
    start, end = total[:labels].clone(), total[labels : 2 * labels].clone()
    return unary * weight.view(-1, 1, 1), pairs, start, end


def _make_contiguous(batch: ChainBatch) -> list[Any]:
    """Return the tensors for the kernels: all are contiguous except emissions, tags and mask."""
    emissions, *tensors, tags, mask = batch
    if emissions.stride(2) != 1:
        emissions = emissions.contiguous()
    return [emissions, *(None if x is None else x.contiguous() for x in tensors), tags, mask]
