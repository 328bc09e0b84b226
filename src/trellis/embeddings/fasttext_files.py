"""Models in fastText's binary files (``.bin``, ``.ftz``): word vectors or a text classifier."""

import os

from trellis.embeddings.classifier import TextClassifier
from trellis.embeddings.fasttext import FastText
from trellis.formats import fasttext

__all__ = ["read_model"]


def read_model(path: str | os.PathLike[str]) -> FastText | TextClassifier:
    """Load a fastText file; its training arguments decide the class of the model."""
    file = fasttext.read(path)
    if file.args.model == "supervised":
        return TextClassifier.from_file(file)
    return FastText.from_file(file)
