"""Prepared launches as on a GPU, by addresses, but run by Triton's interpreter."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from trellis.inference.gpu import launch as module


def prepare_launches(monkeypatch: Any) -> list[Any]:
    """Let plans launch kernels again by address, with an empty cache.

    Returns the list of kernels that were launched for the first time; it grows with each.
    """
    launched: list[Any] = []

    def launch_first(kernel: Any, programs: int, arguments: Any, constants: Any) -> Any:
        kernel[(programs,)](*arguments, **constants)
        types = [a if type(a) is int else a.dtype for a in arguments]
        launched.append((kernel, types, constants))
        return launched[-1]

    def launch_compiled(compiled: Any, calls: Any) -> None:
        for (kernel, types, constants), (programs, values) in zip(compiled, calls, strict=True):
            arguments = [tensor_at(kind, value) for kind, value in zip(types, values, strict=True)]
            kernel[(programs,)](*arguments, **constants)

    def tensor_at(kind: Any, value: int) -> Any:
        if not isinstance(kind, torch.dtype):
            assert kind == value  # a compiled kernel is for the same integers
            return value
        if not value:  # a tensor without elements
            return torch.empty(0, dtype=kind)
        size = torch.empty(0, dtype=kind).element_size()
        memory = (ctypes.c_char * size).from_address(value)
        return torch.frombuffer(memory, dtype=kind)

    monkeypatch.setattr(module, "_launch_first", launch_first)
    monkeypatch.setattr(module, "_launch_compiled", launch_compiled)
    monkeypatch.setattr(module, "_prepared", {})
    return launched
