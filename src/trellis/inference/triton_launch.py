"""Launches of Triton kernels: what Triton looks up at each launch is looked up once.

Triton works out from all arguments which compiled form of a kernel they need. In Python that takes
longer than a small batch takes on the card; here the form is remembered by whatever can change it.
"""

# mypy: allow-untyped-calls

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

__all__ = ["launch", "on_device"]

_MOST = 4096  # compiled forms are few, but sizes that differ are remembered one by one
_KNOWN = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 6)
_forms: dict[Any, tuple[Any, tuple[Any, ...]]] = {}


def launch(kernel: Any, programs: int, *args: Any, **meta: Any) -> None:
    """``kernel[(programs,)](*args, **meta)``, with the look-up done once.

    `args` are all arguments in front of the kernel's constants; the constants and Triton's options
    are in `meta`, always in the same order.
    """
    if not (_KNOWN and isinstance(kernel, triton.JITFunction)):  # another Triton, its interpreter
        kernel[(programs,)](*args, **meta)
        return
    key = (
        kernel,
        torch.cuda.current_device(),
        *[(a.dtype, a.data_ptr() % 16) if isinstance(a, Tensor) else a for a in args],
        *meta.values(),
    )
    found = _forms.get(key)
    if found is None:
        if len(_forms) >= _MOST:
            _forms.clear()
        compiled = kernel[(programs,)](*args, **meta)
        constants = tuple(meta[name] for name in kernel.arg_names[len(args) :])
        _forms[key] = compiled, constants
    else:
        compiled, constants = found
        compiled[(programs, 1, 1)](*args, *constants)


def on_device(tensor: Tensor) -> AbstractContextManager[Any]:
    """Kernels are launched on the current card, which need not be that of the tensors."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)
