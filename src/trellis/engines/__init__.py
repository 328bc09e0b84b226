"""Engines: where sums over the shards of a corpus are computed.

`Local` uses this process or processes of this machine, `Dask` a cluster. Both add in the same
order, so the results have the same bits.
"""

from importlib import import_module
from typing import Any

__all__ = ["Dask", "Engine", "Local"]

_MODULES = {"Dask": "cluster", "Engine": "base", "Local": "local"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
