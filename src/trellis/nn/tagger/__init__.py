"""The neural tagger: words → vectors → BiLSTM → CRF.

>>> from trellis.nn.tagger import NeuralTagger
>>> NeuralTagger(hidden=100).hidden
100
"""

from importlib import import_module
from typing import Any

__all__ = ["NeuralTagger"]


def __getattr__(name: str) -> Any:
    # The import is delayed: scripts that need only `data` or `network` do not load the models.
    if name == "NeuralTagger":
        return import_module(f"{__name__}.tagger").NeuralTagger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
