"""Modules that have moved: the paths of 0.1.0 still import, with a DeprecationWarning.

`RENAMED` is the table of these paths. A finder at the end of ``sys.meta_path`` reads it. Python
calls this finder only for modules that no other finder knows, so ordinary imports are not slower.
Remove an entry one release after the module has moved.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # importing importlib.abc takes 2 MB, and nothing of Loader is needed

__all__ = ["RENAMED", "install"]

RENAMED: dict[str, str] = {
    "trellis.formats.atomic": "trellis.data.atomic",
    "trellis.loading": "trellis.models.files",
    "trellis.models.checkpoint": "trellis.models.chain.checkpoint",
    "trellis.models.crf": "trellis.models.chain.crf",
    "trellis.models.ctc_decoder": "trellis.models.ctc.decoder",
    "trellis.models.ctc_labels": "trellis.models.ctc.labels",
    "trellis.models.ctc_language": "trellis.models.ctc.language_model",
    "trellis.models.decoding": "trellis.models.chain.decoding",
    "trellis.models.field_losses": "trellis.models.graph.losses",
    "trellis.models.field_model": "trellis.models.graph.base",
    "trellis.models.field_training": "trellis.models.graph.training",
    "trellis.models.fields": "trellis.models.graph.samples",
    "trellis.models.graph_crf": "trellis.models.graph.graph_crf",
    "trellis.models.grid_crf": "trellis.models.graph.grid_crf",
    "trellis.models.hmm": "trellis.models.chain.hmm",
    "trellis.models.inspection": "trellis.models.chain.inspection",
    "trellis.models.labels": "trellis.models.chain.labels",
    "trellis.models.layout": "trellis.models.chain.weights",
    "trellis.models.linear": "trellis.models.chain.crf",
    "trellis.models.logistic": "trellis.models.regression.logistic",
    "trellis.models.memm": "trellis.models.chain.memm",
    "trellis.models.parameters": "trellis.models.chain.parameters",
    "trellis.models.softmax": "trellis.models.regression.softmax",
    "trellis.models.training": "trellis.models.chain.training",
    "trellis.embeddings.compression": "trellis.embeddings.texts.compression",
    "trellis.embeddings.prediction": "trellis.embeddings.texts.prediction",
    "trellis.embeddings.text_training": "trellis.embeddings.texts.training",
    "trellis.embeddings.keyed": "trellis.compat.gensim.keyed",
    "trellis.embeddings.keyed_evaluation": "trellis.compat.gensim.evaluation",
    "trellis.nn.heads": "trellis.nn.tagger.heads",
    "trellis.nn.lstm_native": "trellis.nn.lstm.cpu",
    "trellis.nn.lstm_triton": "trellis.nn.lstm.triton",
    "trellis.nn.tagger_data": "trellis.nn.tagger.data",
    "trellis.nn.tagger_network": "trellis.nn.tagger.network",
    "trellis.nn.tagger_optim": "trellis.nn.tagger.optimizer",
    "trellis.nn.tagger_training": "trellis.nn.tagger.training",
    "trellis.nn.words_base": "trellis.nn.words.base",
    "trellis.nn.words_chars": "trellis.nn.words.chars",
    "trellis.nn.words_tables": "trellis.nn.words.tables",
}
"""Old path -> new path. Paths that still exist, now as packages, are not in the table."""


class _Finder:
    """Finds a moved module under its old path."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for an old path, or None for any other name."""
        if name not in RENAMED:
            return None
        message = f"{name} is now {RENAMED[name]}: the old path will be removed in the next release"
        # Level 2 is the line of the import, because Python does not count the frames of importlib.
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return ModuleSpec(name, _Loader(RENAMED[name]))


class _Loader(Loader):
    """Puts the moved module itself into ``sys.modules``, so that its classes exist only once."""

    def __init__(self, path: str) -> None:
        self._path = path

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module under its new path."""
        module = import_module(self._path)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec, because importlib has replaced it with the spec of the old path."""
        module.__spec__ = self._spec


def install() -> None:
    """Let Python find moved modules under their old paths."""
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
