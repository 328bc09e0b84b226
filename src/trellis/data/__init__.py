"""Readers of annotated corpora, and the tags in them.

A corpus is ``X``, a list of sequences, and ``y``, a list of label lists. A sequence is a list of
tokens. A token is a ``str``, or a tuple of ``str`` if the file has several token columns. `Corpus`
is a corpus that need not fit in memory.
"""

from importlib import import_module
from typing import Any

__all__ = ["Corpus", "conll", "conllu", "corpus", "jsonl", "markup", "samples", "tags", "text"]


def __getattr__(name: str) -> Any:
    if name == "Corpus":
        return import_module(f"{__name__}.shards.corpus").Corpus
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
