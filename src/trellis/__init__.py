"""Label sequences: models that score paths through a trellis, and exact, fast inference over them.

Modules are imported at their first use, so ``import trellis`` takes little time.

>>> import numpy as np
>>> from trellis.inference import chain
>>> unary = np.log([[0.9, 0.1], [0.4, 0.6], [0.9, 0.1]])
>>> sticky = np.log([[0.8, 0.2], [0.2, 0.8]])
>>> chain.viterbi(unary, sticky).labels
array([0, 0, 0])
"""

from importlib import import_module
from typing import Any

from trellis import _renamed

__version__ = "0.1.0"

_renamed.install()

_MODULES = (
    "compat",
    "data",
    "embeddings",
    "engines",
    "errors",
    "features",
    "formats",
    "inference",
    "metrics",
    "models",
    "native",
    "nn",
    "optim",
    "plots",
)
_NAMES = {
    "CRF": "models.chain.crf",
    "CTCDecoder": "models.ctc.decoder",
    "GraphCRF": "models.graph.graph_crf",
    "GridCRF": "models.graph.grid_crf",
    "FastText": "embeddings.fasttext",
    "HMM": "models.chain.hmm",
    "LogisticRegression": "models.regression.logistic",
    "MEMM": "models.chain.memm",
    "NGramModel": "formats.arpa",
    "NGramTrainer": "models.ngrams",
    "NeuralTagger": "nn.tagger.tagger",
    "SoftmaxRegression": "models.regression.softmax",
    "TextClassifier": "embeddings.classifier",
    "Vectors": "embeddings.vectors",
    "Word2Vec": "embeddings.word2vec",
    "load": "models.files",
}

__all__ = ["__version__", *_MODULES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_suggest(name)}")


def _suggest(name: str) -> str:
    from difflib import get_close_matches  # only here: its import takes milliseconds

    names = {known.lower(): known for known in __all__}
    similar = get_close_matches(name.lower(), names, 1) if name[0] != "_" else []
    return f": did you mean {names[similar[0]]}?" if similar else ""


def __dir__() -> list[str]:
    return sorted(__all__)
