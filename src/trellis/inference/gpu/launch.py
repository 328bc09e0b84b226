"""Launching Triton kernels, and the one cache of everything that was prepared for a launch.

Triton chooses the compiled version of a kernel from all arguments of each launch. In Python this
takes about 55 µs, longer than a small batch takes on the GPU. So everything that depends only on
the signature of a batch (shapes, strides and types, not values) is prepared once:

- a `LaunchPlan` holds all kernels of a layer for one signature. A later batch of that signature
  needs one buffer, the addresses of its tensors, and the launches.
- `launch` does the same for a single kernel.

`find_plan` looks a plan up by the signature of a batch. If there is one, the shapes and types of
the batch were validated when the plan was made, and are not validated again.
"""

# mypy: allow-untyped-calls

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
import triton
from torch import Tensor

from trellis.inference.gpu.status import RowStatus

__all__ = ["LaunchPlan", "find_plan", "launch", "on_device", "power_of_two", "signature"]

Call = tuple[int, tuple[Any, ...]]  # programs, arguments before the constants
B = TypeVar("B", bound=tuple[Any, ...])  # a batch: tensors, or None for absent ones
P = TypeVar("P")  # a plan

# The cache is cleared when it has this number of entries. Batches padded to a few sizes have few
# signatures, so this is rare.
_MAX_PREPARED = 4096
_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
_ALIGNMENT = 64  # arrays of a workspace start at multiples of 64 bytes, like PyTorch's tensors

_prepared: dict[Any, Any] = {}  # plans by signature, and compiled kernels by their arguments


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
    build: Callable[..., P], batch: B, settings: tuple[Any, ...], validate: Callable[[B], B]
) -> tuple[P, B]:
    """Return the plan for a batch of tensors, and the batch as the plan takes it.

    For a new signature, `validate` is called first: it raises an error or returns the batch with
    its tensors converted. Then ``build(batch, *settings)`` creates the plan.
    """
    plan = _prepared.get(signature((build, settings), *batch))
    if plan is None:
        batch = validate(batch)
        key = signature((build, settings), *batch)
        plan = _prepared.get(key)
        if plan is None:
            plan = build(batch, *settings)
            _store(key, plan)
    return plan, batch


def _store(key: Any, entry: Any) -> None:
    if len(_prepared) >= _MAX_PREPARED:
        _prepared.clear()
    _prepared[key] = entry


class LaunchPlan:
    """Kernels that are launched one after the other, prepared for batches of one signature.

    ``kernels`` are pairs of a kernel and its constants and options. ``workspace`` gives size and
    type of the arrays that the kernels share; the last one is the row status, (B,) int32.
    Subclasses implement `arguments`, which returns the arguments of each kernel.
    """

    specialized_on_alignment = False
    """True if Triton compiles the kernels for addresses that are multiples of 16."""

    def __init__(
        self,
        kernels: Sequence[tuple[Any, dict[str, Any]]],
        workspace: Sequence[tuple[int, torch.dtype]],
    ) -> None:
        self.kernels = kernels
        self.arrays: list[tuple[int, int, torch.dtype]] = []  # begin and end in bytes
        begin = 0
        for size, dtype in workspace:
            end = begin + size * dtype.itemsize
            self.arrays.append((begin, end, dtype))
            begin = -(-end // _ALIGNMENT) * _ALIGNMENT
        self.bytes = begin
        self._compiled: list[Any] = []

    def arguments(self, tensors: Sequence[Any], workspace: Sequence[Any]) -> list[Call]:
        """Return programs and arguments of each kernel. Tensors and workspace may be addresses."""
        raise NotImplementedError

    def launch(self, tensors: Sequence[Tensor], status: RowStatus | None = None) -> Tensor:
        """Launch all kernels on the tensors of a batch; return the workspace.

        The kernels write the row status to `status`. If that is None, they write it to the
        workspace, and it is not read.
        """
        memory = tensors[0].new_empty(self.bytes, dtype=torch.uint8)
        with on_device(memory):
            addresses = [x.data_ptr() for x in tensors]
            is_compiled = self._compiled and not (
                self.specialized_on_alignment and any(a % 16 for a in addresses)
            )
            if is_compiled:
                base = memory.data_ptr()
                places = [base + begin for begin, _, _ in self.arrays]
                if status is not None:
                    places[-1] = status.address
                _launch_compiled(self._compiled, self.arguments(addresses, places))
                return memory
            views = self.views(memory)
            if status is not None:
                views[-1] = status.tensor
            calls = self.arguments(tensors, views)
            compiled = [
                _launch_first(kernel, *call, constants)
                for (kernel, constants), call in zip(self.kernels, calls, strict=True)
            ]
            aligned = not any(a % 16 for a in addresses)
            if all(compiled) and (aligned or not self.specialized_on_alignment):
                self._compiled = compiled
        return memory

    def views(self, memory: Tensor) -> list[Tensor]:
        """Return the arrays of a workspace as views of its memory."""
        return [memory[begin:end].view(dtype) for begin, end, dtype in self.arrays]


def launch(
    kernel: Any,
    programs: int,
    arguments: tuple[Any, ...],
    choose_constants: Callable[..., dict[str, Any]],
    *settings: Any,
) -> None:
    """Run ``kernel[(programs,)](*arguments, **choose_constants(*settings))`` from a cache.

    `arguments` are tensors and integers. The cache key of the compiled kernel is everything that
    can change it: types and alignment of the tensors, the integers, and the settings.
    """
    device = torch.cuda.current_device() if isinstance(kernel, triton.JITFunction) else None
    values = [a if type(a) is int else a.data_ptr() for a in arguments]
    types = [
        a if type(a) is int else (a.dtype, value % 16)
        for a, value in zip(arguments, values, strict=True)
    ]
    key = (id(kernel), device, settings, *types)
    compiled = _prepared.get(key)
    if compiled is not None:
        _launch_compiled([compiled], [(programs, tuple(values))])
        return
    compiled = _launch_first(kernel, programs, arguments, choose_constants(*settings))
    if compiled is not None:
        _store(key, compiled)


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
    trailing = [constants[name] for name in kernel.arg_names[len(arguments) :]]
    return (*_entry_point(compiled), trailing)


def _launch_compiled(compiled: Sequence[Any], calls: Sequence[Call]) -> None:
    """Launch kernels that `_launch_first` has returned, each with its programs and arguments.

    Tensors are passed as addresses: Triton calls the driver for a tensor, but not for an integer.
    Integers must be the same as in the first launch. Alignments must be the same too if the kernel
    is specialised on them.
    """
    stream = triton.runtime.driver.active.get_current_stream(torch.cuda.current_device())
    for (run, hidden, constants), (programs, arguments) in zip(compiled, calls, strict=True):
        run(programs, 1, 1, stream, *hidden, *arguments, *constants)


def _entry_point(compiled: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the function that launches a compiled kernel, and its arguments after the stream."""
    run = compiled.run
    hooks = (compiled.packed_metadata, None, None, None)
    scratch = ("global_scratch_size", "profile_scratch_size")
    if _VERSION != (3, 6) or any(getattr(run, name, 1) for name in scratch):
        return run, (compiled.function, *hooks)
    # In Triton 3.6 `run` is a Python function that allocates scratch memory and then calls
    # run.launch. Kernels without scratch memory can skip it.
    options = (run.launch_cooperative_grid, run.launch_pdl, None, None)
    return run.launch, (compiled.function, *options, *hooks)


def power_of_two(size: int) -> int:
    """Return the smallest power of two ≥ size. Triton's function for it is slow.

    >>> power_of_two(1), power_of_two(33)
    (1, 64)
    """
    return 1 << max(size - 1, 0).bit_length()


def on_device(tensor: Tensor) -> AbstractContextManager[Any]:
    """Return a context in which the GPU of a tensor is current: kernels run on the current GPU."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)
