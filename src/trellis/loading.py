"""One `load` for all models: sequence models, embeddings, and the files of fastText."""

import os
from collections.abc import Callable
from typing import Any

from trellis.embeddings.classifier import TextClassifier
from trellis.embeddings.fasttext import FastText
from trellis.embeddings.vector_files import is_fasttext
from trellis.embeddings.vectors import Vectors
from trellis.embeddings.word2vec import Word2Vec
from trellis.formats import fasttext, native
from trellis.formats.parts import errors_name_file
from trellis.models import files as sequence_files

__all__ = ["load"]

_EMBEDDINGS: dict[str, Any] = {
    cls.kind: cls for cls in (Vectors, Word2Vec, FastText, TextClassifier)
}


def load(
    path: str | os.PathLike[str],
    *,
    features: Callable[[Any], Any] | None = None,
    edge_features: Callable[[Any], Any] | None = None,
    encoding: str = "utf-8",
) -> Any:
    """The model that a file holds; FormatError if the file is damaged or of another kind.

    ``.trellis`` files give models and `Vectors` (a `NeuralTagger` is put on the CPU), fastText's
    ``.bin`` and ``.ftz`` give a `FastText` or a `TextClassifier`, models of CRFsuite, CRF++ (as
    text) and Wapiti give a `CRF`. ``features``
    and ``edge_features`` are the functions that a sequence model was trained with, if it was: a
    file cannot hold them. ``encoding`` is that of names in the models of other programs.
    """
    if not os.path.isfile(path):
        native.read(path)  # says what is wrong
    if is_fasttext(path):
        file = fasttext.read(path)
        cls: Any = TextClassifier if file.args.model == "supervised" else FastText
        return cls.from_file(file)
    foreign = sequence_files.foreign(path, encoding)
    if foreign is not None:
        return foreign
    contents = native.read(path)
    if contents.kind in _EMBEDDINGS:
        with errors_name_file(contents.tensors.path):
            return _EMBEDDINGS[contents.kind].from_parts(contents.meta, contents.tensors)
    if contents.kind == "neural-tagger":
        from trellis.nn.tagger import files as tagger_files

        return tagger_files.from_contents(contents, features=features)
    return sequence_files.from_contents(contents, features, edge_features)
