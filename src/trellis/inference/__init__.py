"""Compute log Z, marginals, best paths and samples from scores, without any model or file."""

from importlib import import_module
from types import ModuleType

__all__ = ["chain", "ctc", "graph"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
