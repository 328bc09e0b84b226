"""Readers of annotated corpora, and the tags in them.

A corpus is ``X``, a list of sequences, and ``y``, a list of label lists. A sequence is a list of
tokens. A token is a ``str``, or a tuple of ``str`` if the file has several token columns.
"""

from importlib import import_module
from types import ModuleType

__all__ = ["conll", "conllu", "corpus", "jsonl", "markup", "samples", "tags", "text"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
