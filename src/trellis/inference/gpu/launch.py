"""Launches of Triton kernels: what Triton looks up at each launch is looked up once.

Triton works out from all arguments which compiled form of a kernel they need. In Python that takes
longer than a small batch takes on the card; here the form is remembered by whatever can change it.
"""

# mypy: allow-untyped-calls

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

__all__ = ["launch", "launch_again", "on_device", "power_of_two"]

_MOST = 4096  # compiled forms are few, but sizes that differ are remembered one by one
_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
_KNOWN = _VERSION >= (3, 6)
_forms: dict[Any, tuple[Any, ...]] = {}


def launch(kernel: Any, programs: int, args: tuple[Any, ...], plan: dict[str, Any]) -> Any:
    """``kernel[(programs,)](*args, **plan)``, with the look-up done once.

    `args` are tensors and integers, all arguments in front of the kernel's constants. The constants
    and Triton's options are the `plan`, which must be kept: it is known again by its identity.
    Returns one of the forms that `launch_again` takes, or None where Triton must look again.
    """
    if not (_KNOWN and isinstance(kernel, triton.JITFunction)):  # another Triton, its interpreter
        kernel[(programs,)](*args, **plan)
        return None
    device = torch.cuda.current_device()
    # Triton asks the driver about a tensor, but trusts an address
    values = [a if type(a) is int else a.data_ptr() for a in args]
    kinds = [a if type(a) is int else a.dtype for a in args]
    places = [v % 16 for v, a in zip(values, args, strict=True) if type(a) is not int]
    key = (id(kernel), id(plan), device, *kinds, *places)
    found = _forms.get(key)
    if found is None:
        if len(_forms) >= _MOST:
            _forms.clear()
        compiled = kernel[(programs,)](*args, **plan)
        constants = [plan[name] for name in kernel.arg_names[len(args) :]]
        _forms[key] = found = (*_entry(compiled), constants)
    else:
        launch_again([found], [(programs, values)])
    return found


def launch_again(forms: Sequence[Any], calls: Sequence[tuple[int, Sequence[int]]]) -> None:
    """Launch what `launch` has compiled: programs and arguments of each, one after the other.

    Arguments are of the same kinds as then, tensors given by their addresses. Integers must be the
    same, and addresses aligned alike, if the kernel minds either.
    """
    stream = triton.runtime.driver.active.get_current_stream(torch.cuda.current_device())
    for (run, given, constants), (programs, values) in zip(forms, calls, strict=True):
        run(programs, 1, 1, stream, *given, *values, *constants)


def _entry(compiled: Any) -> tuple[Any, tuple[Any, ...]]:
    """What launches a compiled kernel, and what it takes between the stream and the arguments."""
    run = compiled.run
    hooks = (compiled.packed_metadata, None, None, None)
    scratch = ("global_scratch_size", "profile_scratch_size")
    if _VERSION != (3, 6) or any(getattr(run, name, 1) for name in scratch):
        return run, (compiled.function, *hooks)
    # past a function in Python that sees to scratch memory, of which this kernel has none
    options = (run.launch_cooperative_grid, run.launch_pdl, None, None)
    return run.launch, (compiled.function, *options, *hooks)


def power_of_two(size: int) -> int:
    """The smallest one that is not less; Triton's own takes its time.

    >>> power_of_two(1), power_of_two(33)
    (1, 64)
    """
    return 1 << max(size - 1, 0).bit_length()


def on_device(tensor: Tensor) -> AbstractContextManager[Any]:
    """Kernels are launched on the current card, which need not be that of the tensors."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)
