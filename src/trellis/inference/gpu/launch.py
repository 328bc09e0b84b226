"""Launching Triton kernels, and the one cache of everything that was prepared for a launch.

Triton chooses the compiled version of a kernel from all arguments of each launch. In Python this
takes about 55 µs, longer than a small batch takes on the GPU. So everything that depends only on
the signature of a batch (shapes, strides and types, not values) is prepared once, in a
`LaunchPlan`. README.md in this folder lists the steps of a call.
"""

# mypy: allow-untyped-calls

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import torch
import triton
from torch import Tensor

from trellis.inference.gpu.status import RowStatus

__all__ = [
    "LaunchPlan",
    "compute_dtype",
    "find_plan",
    "launch",
    "options_of_walk",
    "power_of_two",
    "signature",
]

B = TypeVar("B", bound=tuple[Any, ...])  # a batch: tensors, or None for absent ones
P = TypeVar("P")  # a plan

# The cache is cleared when it has this number of entries. Batches padded to a few sizes have few
# signatures, so this is rare.
_MAX_PREPARED = 4096
_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
_ALIGNMENT = 64  # arrays of a workspace start at multiples of 64 bytes, like PyTorch's tensors

_prepared: dict[Any, Any] = {}  # plans by signature


def signature(settings: Any, *tensors: Any) -> Any:
    """Return the cache key of a call: its settings, and its tensors except their values.

    A tensor may be None. The result is None if an argument is not a tensor, or has no strides.

    >>> signature("sum", [1, 2]) is None
    True
    """
    try:
        return (
            settings,
            *[
                None if x is None else (type(x), x.shape, x.stride(), x.dtype, x.layout, x.device)
                for x in tensors
            ],
        )
    except (AttributeError, RuntimeError):
        return None


def find_plan(
    build: Callable[..., P],
    batch: B,
    settings: tuple[Any, ...],
    validate: Callable[[B], B] | None = None,
) -> tuple[P, B]:
    """Return the plan for a batch of tensors, and the batch as the plan takes it.

    For a new signature, `validate` is called first: it raises an error or returns the batch with
    its tensors converted. Then ``build(batch, *settings)`` creates the plan. So the shapes and
    types of a batch whose plan exists are not validated again.
    """
    key = signature((build, settings), *batch)
    plan = _prepared.get(key)
    if plan is None and validate is not None:
        return find_plan(build, validate(batch), settings)
    if plan is None:
        plan = build(batch, *settings)
        if len(_prepared) >= _MAX_PREPARED:
            _prepared.clear()
        _prepared[key] = plan
    return plan, batch


class LaunchPlan:
    """Kernels that are launched one after the other, prepared for batches of one signature.

    A kernel gets its arguments by the names of its parameters: these are names of inputs, outputs,
    arrays of the workspace, integers, or constants. If a name is used twice, the last one counts.

    kernels
        Each kernel with its number of programs and its options for Triton.
    inputs
        The names of the tensors that `launch` takes.
    outputs
        Shape and type of the tensors that `launch` returns.
    workspace
        Size and type of the arrays that the kernels share. Arrays that are also inputs or outputs,
        or that no kernel uses, are not allocated. The last array is the row status, (B,) int32.
    """

    def __init__(
        self,
        kernels: Sequence[tuple[Any, int, Mapping[str, int]]],
        inputs: Sequence[str],
        outputs: Mapping[str, tuple[Any, torch.dtype]],
        workspace: Mapping[str, tuple[int, torch.dtype]],
        integers: Mapping[str, int],
        constants: Mapping[str, Any],
    ) -> None:
        self._results = list(outputs.values())
        tensors = (*inputs, *outputs)
        names = {name for kernel, _, _ in kernels for name in kernel.arg_names} - {*tensors}
        self._arrays: dict[str, tuple[int, int, torch.dtype]] = {}  # begin and end in bytes
        self._bytes = 0
        for name, (size, dtype) in workspace.items():
            if name in names:
                end = self._bytes + size * dtype.itemsize
                self._arrays[name] = (self._bytes, end, dtype)
                self._bytes = -(-end // _ALIGNMENT) * _ALIGNMENT
        self._begins = [begin for begin, _, _ in self._arrays.values()]
        self._integers = tuple(integers.values())
        index = {name: i for i, name in enumerate((*tensors, *self._arrays, *integers))}
        self._kernels: list[tuple[Any, dict[str, Any]]] = []
        self._calls: list[tuple[int, Callable[[Any], tuple[Any, ...]]]] = []
        for kernel, programs, options in kernels:
            used = {name: x for name, x in constants.items() if name in kernel.arg_names}
            self._kernels.append((kernel, {**used, **options, "enable_fp_fusion": True}))
            places = [index[name] for name in kernel.arg_names if name not in used]
            self._calls.append((programs, itemgetter(*places)))
        self._compiled: dict[tuple[bool, ...], Any] = {}  # by the alignment of the tensors

    def launch(
        self, inputs: Sequence[Any], status: RowStatus | None = None
    ) -> tuple[list[Tensor], Tensor]:
        """Launch all kernels on tensors, in the order of their names; return outputs and workspace.

        The kernels write the row status to `status`. If that is None, they write it to the
        workspace, and it is not read.
        """
        new = inputs[0].new_empty
        outputs: list[Tensor] = [new(shape, dtype=dtype) for shape, dtype in self._results]
        memory: Tensor = new(self._bytes, dtype=torch.uint8)
        # Kernels do not read absent tensors, so any tensor can be passed instead.
        tensors = [inputs[0] if x is None else x for x in inputs] + outputs
        addresses = [x.data_ptr() for x in tensors]
        # Triton compiles some kernels for addresses that are multiples of 16.
        alignment = tuple([address % 16 == 0 for address in addresses])
        compiled_kernels = self._compiled.get(alignment)
        arguments: list[Any]
        if compiled_kernels is None:
            views = self.views(memory)
            if status is not None:
                views["status"] = status.tensor
            arguments = [*tensors, *views.values(), *self._integers]
        else:
            base = memory.data_ptr()
            places = [base + begin for begin in self._begins]
            if status is not None:
                places[-1] = status.address
            arguments = [*addresses, *places, *self._integers]
        calls = [(programs, choose(arguments)) for programs, choose in self._calls]
        with torch.cuda.device_of(memory):  # kernels run on the current GPU
            if compiled_kernels is not None:
                _launch_compiled(compiled_kernels, calls)
                return outputs, memory
            compiled_kernels = [
                _launch_first(kernel, *call, constants)
                for (kernel, constants), call in zip(self._kernels, calls, strict=True)
            ]
        if all(compiled_kernels):
            self._compiled[alignment] = compiled_kernels
        return outputs, memory

    def views(self, memory: Tensor) -> dict[str, Tensor]:
        """Return the arrays of a workspace, by name, as views of its memory."""
        return {
            name: memory[begin:end].view(dtype)
            for name, (begin, end, dtype) in self._arrays.items()
        }


def launch(
    kernel: Any,
    programs: int,
    warps: int,
    tensors: Mapping[str, Tensor],
    integers: Mapping[str, int],
    constants: Mapping[str, Any],
) -> None:
    """Launch one kernel by a plan from the cache; see `LaunchPlan`."""
    names = tuple(tensors)
    settings = (kernel, programs, warps, names, (*integers.items(),), (*constants.items(),))
    plan, values = find_plan(_plan_launch, tuple(tensors.values()), settings)
    plan.launch(values)


def _plan_launch(
    _: Any, kernel: Any, programs: int, warps: int, names: Any, integers: Any, constants: Any
) -> LaunchPlan:
    call = (kernel, programs, {"num_warps": warps})
    return LaunchPlan([call], names, {}, {}, dict(integers), dict(constants))


def options_of_walk(warps: int, registers: int = 255) -> dict[str, int]:
    """Return Triton's options for a kernel whose steps depend on each other.

    Only a few warps run on a multiprocessor, so each may use many registers. If no number of
    registers is given, the assembler assumes that many warps hide latencies. It then saves
    registers, and the loads and shuffles of a step wait for each other. In the machine code, a step
    has up to two thirds more cycles.
    """
    return {"num_warps": warps, "maxnreg": min(registers, 2**16 // (32 * warps))}


def _launch_first(
    kernel: Any, programs: int, arguments: tuple[Any, ...], constants: dict[str, Any]
) -> tuple[Any, ...] | None:
    """Launch a kernel by Triton, and return the values with which `_launch_compiled` repeats it.

    The result is None in Triton's interpreter, and in Triton before 3.6, which launches kernels in
    another way.
    """
    compiled = kernel[(programs,)](*arguments, **constants)
    if _VERSION < (3, 6) or not isinstance(kernel, triton.JITFunction):
        return None
    hooks = (None, None, None)  # no launch metadata, and no functions before and after a launch
    trailing_constants = [constants[name] for name in kernel.arg_names[len(arguments) :]]
    return compiled.run, (compiled.function, compiled.packed_metadata, *hooks), trailing_constants


def _launch_compiled(compiled_kernels: Sequence[Any], calls: Sequence[tuple[int, Any]]) -> None:
    """Launch kernels that `_launch_first` has returned, each with its programs and arguments.

    Pass the address of a tensor, not the tensor: for a tensor, Triton calls the driver, which takes
    time. All other integers must be the same as in the first launch. Alignments must be the same
    too if the kernel is specialised on them.
    """
    stream = triton.runtime.driver.active.get_current_stream(torch.cuda.current_device())
    for (run, hidden, constants), (programs, arguments) in zip(
        compiled_kernels, calls, strict=True
    ):
        run(programs, 1, 1, stream, *hidden, *arguments, *constants)


def power_of_two(size: int) -> int:
    """Return the smallest power of two ≥ size. Triton's function for it is slow.

    >>> power_of_two(1), power_of_two(33)
    (1, 64)
    """
    return 1 << max(size - 1, 0).bit_length()


def compute_dtype(scores: Tensor) -> torch.dtype:
    """Return the type that kernels compute with: float64 for float64 scores, else float32."""
    return torch.float64 if scores.dtype == torch.float64 else torch.float32
