"""The chain on the GPU: log Z or log p(tags), their gradients, and the best path.

`trellis.nn` calls this module after it has validated shapes and types. Each row of the batch has
one program, and a kernel takes all steps of the row. If the transitions fit into the registers of a
program (`held`), it works with scaled probabilities, and only rows that would underflow are
computed again in log space. -inf forbids a label or transition. The same input gives the same bits.

README.md in this folder explains the recursions, and docs/kernels.md the cost of a step. The head
of kernels_shared.py explains the arguments of all kernels.
"""

# mypy: allow-untyped-decorators, allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
import triton.language as tl
from torch import Tensor

from trellis.inference.chain import kernels_shared as kernels
from trellis.inference.gpu.launch import (
    Call,
    LaunchPlan,
    find_plan,
    launch,
    on_device,
    power_of_two,
)
from trellis.inference.gpu.status import RowStatus

__all__ = [
    "ChainBatch",
    "ChainPlan",
    "find_plan",
    "sum_gradients",
    "validate",
    "viterbi",
]

# ---- values and gradients


# Tensors of a padded batch, which may have any strides:
#   emissions    (B, T, L) float16, bfloat16, float32 or float64
#   transitions  (L, L), or (B, T-1, L, L) if they depend on the position
#   start, end   (L,)
#   lengths      (B,) int64, or None
#   tags         (B, T) int64, or None for log Z
#   mask         (B, T), nonzero where a step is used; or None. A batch has lengths or a mask.
ChainBatch: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor, Any, Any, Any]

_TAGS, _MASK = 5, 6


class ChainPlan(LaunchPlan):
    """log Z of each row, or log p of its tags; or their sum. Gradients are optional.

    `run` launches both recursions. PyTorch calls `backward` on another thread, where Python is
    several times slower, so the backward pass only multiplies.

    >>> zero, tags = torch.zeros(2), torch.tensor([[0, 1]])
    >>> batch = (torch.zeros(1, 2, 2), torch.zeros(2, 2), zero, zero, None, tags, None)
    >>> plan = ChainPlan(batch, summed=True)
    >>> value, saved = plan.run(batch)
    >>> value.exp()  # four paths of equal probability
    tensor(0.2500)
    >>> plan.gradients(saved, torch.tensor(2.0))[0]  # 2 · (one-hot tags - marginals)
    tensor([[[ 1., -1.],
             [-1.,  1.]]])
    """

    max_held_bytes = 128 * 128 * 4
    """Transitions of at most `max_held_bytes` are kept in the registers of a program."""

    def __init__(self, batch: ChainBatch, summed: bool = False, differentiate: bool = True) -> None:
        emissions, transitions, _, _, lengths, tags, mask = batch
        self.rows, self.steps, self.labels = rows, steps, labels = emissions.shape
        self.summed, self.differentiate = summed and differentiate, differentiate
        self.shared = transitions.dim() == 2
        self.dtype = dtype = compute_dtype(emissions)
        dtypes = [x.dtype for x in batch[:4]]
        self.dtypes = None if all(x is dtype for x in dtypes) else dtypes
        # A row of the sums holds start, end and shared transitions, then the value of the row.
        self.width = (2 + (labels if self.shared else 0)) * labels + 1
        self.copied = [i for i, x in enumerate(batch) if x is not None and self._copy(i, batch)]
        dense = self._dense(batch)
        self.e_strides, self.a_strides = dense[0].stride(), _pair_strides(dense[1])
        self.t_strides = (0, 0) if tags is None else dense[5].stride()
        self.m_strides = (0, 0) if mask is None else mask.stride()
        cells, masked = rows * steps * labels, mask is not None
        workspace = [
            (cells, dtype),  # alpha (B, T, L)
            (rows * 3 * labels, dtype),  # scratch of the backward kernel
            (labels**2 if self.shared else 1, transitions.dtype),  # transposed (L, L)
            (rows, torch.int64),  # lengths
            (rows * steps if masked else 1, torch.int32),  # order (B, T)
            (cells if masked else 1, emissions.dtype),  # packed emissions (B, T, L)
            (rows * steps if masked else 1, torch.int64),  # packed tags (B, T)
            (cells if masked else 1, dtype),  # packed gradient (B, T, L)
            (rows, dtype),  # value of each row
            (rows * self.width, dtype),  # sums of each row
            (rows, torch.int32),  # status
        ]
        super().__init__(self._choose_kernels(lengths, tags, mask), workspace)

    def _choose_kernels(self, lengths: Any, tags: Any, mask: Any) -> list[Any]:
        flags = {"masked": mask is not None, "tagged": tags is not None, "shared": self.shared}
        settings = (self.dtype, self.labels, self.shared)
        forward = _constants("forward", self.max_held_bytes, *settings)
        launches: list[Any] = [
            (kernels.forward_kernel, {**forward, **flags, "counted": lengths is not None})
        ]
        if self.differentiate:
            backward = _constants("backward", self.max_held_bytes, *settings)
            launches.append((kernels.backward_kernel, {**backward, **flags}))
        if self.summed:
            sizes = {"block": _SUM_COLUMNS, "shared": self.shared, "num_warps": 4}
            launches.append((kernels.sum_kernel, sizes))
        return launches

    @staticmethod
    def _copy(index: int, batch: ChainBatch) -> bool:
        """Return True if the kernels need a contiguous copy of a tensor of the batch."""
        x = batch[index]
        if index == _MASK or x.dim() == 4:  # the kernels read these by their strides
            return False
        if index in (0, _TAGS):
            # Packed steps are stored with the same strides, so elements must not overlap.
            return batch[_MASK] is not None and not _is_dense(x)
        return not x.is_contiguous()

    def _dense(self, batch: ChainBatch) -> list[Any]:
        tensors: list[Any] = list(batch)
        for i in self.copied:
            tensors[i] = tensors[i].contiguous()
        return tensors

    def run(
        self, batch: ChainBatch, status: RowStatus | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the value, (B,) or (), and the tensors for `gradients`.

        If the status of a row is above 1, all results are invalid; see `validate`.
        """
        tensors = self._dense(batch) if self.copied else batch
        emissions = tensors[0]
        value, saved, outputs = self._allocate(emissions)
        # Kernels do not read absent tensors, so any tensor can be passed instead.
        inputs = [emissions if x is None else x for x in tensors]
        self.launch([*inputs, *outputs], status)
        return value, saved

    def _allocate(self, like: Tensor) -> tuple[Tensor, tuple[Tensor, ...], list[Tensor]]:
        """Return new tensors: the value, the saved tensors, and the outputs of the kernels.

        The outputs are, in this order: value, d_emissions, d_transitions, and the sums of each row
        or their total.
        """
        rows, steps, labels = self.rows, self.steps, self.labels
        new, dtype = like.new_empty, self.dtype
        if not self.differentiate:
            value = new(rows, dtype=dtype)
            return value, (), [value, value, value, value]
        square = (labels, labels) if self.shared else (rows, steps - 1, labels, labels)
        if not self.summed:
            value, unary = new(rows, dtype=dtype), new((rows, steps, labels), dtype=dtype)
            sums = new((rows, self.width), dtype=dtype)
            pairs = new(0 if self.shared else square, dtype=dtype)
            return value, (unary, pairs, sums), [value, unary, pairs, sums]
        # One allocation for all gradients. The order is that of `total` in sum_kernel.
        cells = rows * steps * labels
        area = 1 if self.shared else rows * (steps - 1)
        view = new(cells + (2 + area * labels) * labels, dtype=dtype).as_strided
        unary = view((rows, steps, labels), (steps * labels, labels, 1), 0)
        start, end = view((labels,), (1,), cells), view((labels,), (1,), cells + labels)
        strides = (labels, 1) if self.shared else ((steps - 1) * labels**2, labels**2, labels, 1)
        pairs = view(square, strides, cells + 2 * labels)
        value = new((), dtype=dtype)
        return value, (unary, pairs, start, end), [value, unary, pairs, start]

    def arguments(self, tensors: Sequence[Any], workspace: Sequence[Any]) -> list[Call]:
        """Return programs and arguments of each kernel; see LaunchPlan."""
        emissions, transitions, start, end, lengths, tags, mask, *outputs = tensors
        value, unary, pairs, columns = outputs
        (
            alpha, scratch, transposed, row_lengths, order, packed, packed_tags, packed_gradient,
            row_values, row_sums, status,
        ) = workspace  # fmt: skip
        rows, steps, labels = self.rows, self.steps, self.labels
        values = row_values if self.summed else value
        forward = (
            emissions, *self.e_strides, transitions, *self.a_strides, start, end, lengths, mask,
            *self.m_strides, tags, *self.t_strides, order, packed, packed_tags, row_lengths,
            status, values, alpha, transposed, rows, steps, labels,
        )  # fmt: skip
        if not self.differentiate:
            return [(rows, forward)]
        # The matrix is stored with the later label first, because this load decides the register
        # layout of the backward loop. With the earlier label first, the loop was 20 times slower at
        # 128 labels.
        held = (transposed, 0, 0, 1, labels) if self.shared else (transitions, *self.a_strides)
        backward = (
            emissions, *self.e_strides, *held, end, row_lengths, tags, *self.t_strides, order,
            packed, packed_tags, packed_gradient, alpha, values, unary, pairs,
            row_sums if self.summed else columns, scratch, steps, labels,
        )  # fmt: skip
        if not self.summed:
            return [(rows, forward), (rows, backward)]
        total = (row_sums, columns, value, rows, labels)
        return [(rows, forward), (rows, backward), (-(-self.width // _SUM_COLUMNS), total)]

    def gradients(self, saved: Sequence[Tensor], weight: Tensor) -> Sequence[Tensor]:
        """Return the gradients of Σ weight · value for emissions, transitions, start and end.

        They do not share memory, so the caller may change one of them in place.
        """
        if self.summed:
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
    as in `backward_kernel`; weight (B,).
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


# ---- best paths, validation


def viterbi(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the best labels (B, T), 0 after the length of a row, and their scores (B,).

    The path is traced from its end. Of equally good labels at a position, the first is taken.

    >>> scores = torch.tensor([[[0.0, 1.0], [0.9, 0.0]]])
    >>> stay, zero = torch.tensor([[0.0, 0.0], [0.0, 1.0]]), torch.zeros(2)
    >>> viterbi(scores, stay, zero, zero, torch.tensor([2]))
    (tensor([[1, 1]]), tensor([2.]))
    """
    rows, steps, labels = emissions.shape
    dtype = compute_dtype(emissions)
    score = emissions.new_empty(rows, dtype=dtype)
    best = emissions.new_empty((rows, steps, labels), dtype=dtype)
    path = torch.empty((rows, steps), dtype=torch.int64, device=emissions.device)
    end, lengths, columns = end.contiguous(), lengths.contiguous(), transitions
    if transitions.dim() == 2:
        transitions, columns = transitions.contiguous(), transitions.t().contiguous().t()
    with on_device(emissions):
        arguments = (
            emissions, *emissions.stride(), transitions, *_pair_strides(transitions),
            start.contiguous(), end, lengths, score, best, steps, labels,
        )  # fmt: skip
        settings = (ChainPlan.max_held_bytes, dtype, labels, transitions.dim() == 2)
        launch(kernels.viterbi_kernel, rows, arguments, _constants, "best", *settings)
        arguments = (best, columns, *_pair_strides(columns), end, lengths, path, steps, labels)
        launch(kernels.trace_kernel, rows, arguments, _one_warp, ("block", _block(labels)))
    return path, score


def validate(
    emissions: Tensor, mask: Tensor | None, lengths: Tensor | None, tags: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the lengths (B,) and the status (B,) of all rows.

    Status flags: 1, the mask has a hole; 2, the length is not in 1 … T; 4, a tag is not in 0 … L-1.

    >>> mask = torch.tensor([[True, False, True], [True, True, False]])
    >>> validate(torch.zeros(2, 3, 5), mask, None)
    (tensor([2, 2]), tensor([1, 0], dtype=torch.int32))
    """
    rows, steps, labels = emissions.shape
    lengths_out = torch.empty(rows, dtype=torch.int64, device=emissions.device)
    status = torch.empty(rows, dtype=torch.int32, device=emissions.device)
    order = torch.empty((rows, steps), dtype=torch.int32, device=emissions.device)
    mask_arguments = (lengths_out, 0, 0) if mask is None else (mask, *mask.stride())
    tag_arguments = (lengths_out, 0, 0) if tags is None else (tags, *tags.stride())
    counts = lengths_out if lengths is None else lengths.contiguous()
    options = (("masked", mask), ("counted", lengths), ("tagged", tags))
    flags = [(name, x is not None) for name, x in options]
    with on_device(emissions):
        arguments = (
            counts, *mask_arguments, *tag_arguments, order, lengths_out, status, steps, labels,
        )  # fmt: skip
        launch(kernels.validate_kernel, rows, arguments, _one_warp, *flags)
    return lengths_out, status


# ---- sizes of kernels

# Warps of a program for each block of labels. The 32 lanes of a warp share the labels of a row. So
# a second warp helps only if the registers of one warp are not enough for the transitions.
_WARPS = {
    "forward": {16: 1, 32: 1, 64: 1, 128: 8},
    "backward": {16: 1, 32: 1, 64: 2, 128: 8},
    "best": {16: 1, 32: 1, 64: 1, 128: 8},
}
_SUM_COLUMNS = 64  # columns that a program of sum_kernel adds up


def compute_dtype(emissions: Tensor) -> torch.dtype:
    """Return float64 for float64 emissions, otherwise float32."""
    return torch.float64 if emissions.dtype == torch.float64 else torch.float32


def _is_dense(x: Tensor) -> bool:
    """Return True if the elements fill their memory without gaps or overlaps."""
    expected = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _pair_strides(transitions: Tensor) -> tuple[int, ...]:
    """Return strides of row, step, earlier and later label. A shared matrix has 0 for two."""
    return (0,) * (4 - transitions.dim()) + transitions.stride()


def _block(labels: int) -> int:
    return max(16, power_of_two(labels))


def _one_warp(*constants: tuple[str, int]) -> dict[str, Any]:
    return {**dict(constants), "num_warps": 1}


def _constants(
    way: str, max_held_bytes: int, dtype: torch.dtype, labels: int, shared: bool
) -> dict[str, Any]:
    """Return a kernel's constants: dtype, tile sizes, and whether it holds the transitions."""
    block = _block(labels)
    held = shared and block * block * dtype.itemsize <= max_held_bytes
    width = block * dtype.itemsize // 4  # float64 takes twice the registers
    warps = _WARPS[way][min(width, 128)] if held else 1 if block <= 32 else 4
    return {
        "dtype": tl.float64 if dtype == torch.float64 else tl.float32,
        "block": block if held else 16,
        "tile": min(block, 32 if warps <= 2 else 64),
        "held": held,
        "num_warps": warps,
        "enable_fp_fusion": True,
    }
