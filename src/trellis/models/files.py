"""Load a model from a file: ``.trellis`` files, and the files of other programs.

There are two tables. `MODELS` maps the kind in a ``.trellis`` file to the class of the model.
`READERS` lists the other programs whose files can be read. A new model or reader needs one new
entry.

The tables contain dotted paths, and a module is imported when a file needs it. So this module
imports no model, and a command that tags with a CRF does not import networks or embeddings.
"""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from trellis.errors import FormatError
from trellis.formats import native
from trellis.formats.crfpp import is_binary
from trellis.formats.parts import FilePath, errors_name_file, restore

__all__ = ["MODELS", "READERS", "Reader", "is_model", "load", "model_class"]

MODELS: dict[str, str] = {
    "crf": "trellis.models.chain.crf.CRF",
    "memm": "trellis.models.chain.memm.MEMM",
    "hmm": "trellis.models.chain.hmm.HMM",
    "logistic": "trellis.models.regression.logistic.LogisticRegression",
    "softmax": "trellis.models.regression.softmax.SoftmaxRegression",
    "graph-crf": "trellis.models.graph.graph_crf.GraphCRF",
    "grid-crf": "trellis.models.graph.grid_crf.GridCRF",
    "word2vec": "trellis.embeddings.word2vec.Word2Vec",
    "fasttext": "trellis.embeddings.fasttext.FastText",
    "classifier": "trellis.embeddings.classifier.TextClassifier",
    "vectors": "trellis.embeddings.vectors.Vectors",
    "neural-tagger": "trellis.nn.tagger.tagger.NeuralTagger",
}
"""Kind in a ``.trellis`` file -> class with a ``from_parts`` (see `trellis.formats.parts`)."""


class Reader(NamedTuple):
    """The functions that recognise and read the model files of another program."""

    program: str
    recognises: Callable[[bytes], bool]
    """Returns True if a file with these first 16 bytes was written by the program."""
    function: str
    """Dotted path of a function ``(path, encoding) -> model``."""


def _starts_with(magic: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magic)


READERS = (
    Reader("CRFsuite", _starts_with(b"lCRF"), "trellis.models.foreign.read_crfsuite"),
    Reader("CRF++, text", _starts_with(b"version: "), "trellis.models.foreign.read_crfpp"),
    Reader("CRF++, binary", is_binary, "trellis.models.foreign.refuse_binary_crfpp"),
    Reader("Wapiti", _starts_with(b"#mdl#"), "trellis.models.foreign.read_wapiti"),
    Reader("fastText", _starts_with(b"\xba\x16\x4f\x2f"), "trellis.models.files.read_fasttext"),
)


def load(
    path: FilePath,
    *,
    features: Callable[[Any], Any] | None = None,
    edge_features: Callable[[Any], Any] | None = None,
    joint: Any = None,
    encoding: str = "utf-8",
) -> Any:
    """Load a model from a file. Raise FormatError if the file is damaged or its format unknown.

    For a ``.trellis`` file, the result is the saved model or the saved `Vectors`; a `NeuralTagger`
    is placed on the CPU. For a ``.bin`` or ``.ftz`` file of fastText, it is a `FastText` or a
    `TextClassifier`. For a model file of CRFsuite, CRF++ (as text) or Wapiti, it is a `CRF`.

    A file cannot contain Python functions. If a sequence model was trained with functions, pass
    them as ``features``, ``edge_features`` and ``joint``. ``encoding`` is the text encoding of the
    names in model files of other programs.
    """
    head = _read_first_bytes(path)
    for reader in READERS:
        if reader.recognises(head):
            read = _import(reader.function)
            with errors_name_file(path):
                return read(path, encoding)
    contents = native.read(path)
    model = restore(model_class(contents), contents)
    model.set_feature_functions(features, edge_features, joint)
    return model


def is_model(path: FilePath) -> bool:
    """Return whether the first bytes of a file are those of a model that `load` reads."""
    head = _read_first_bytes(path)
    return head[8:10] == b'{"' or any(reader.recognises(head) for reader in READERS)


def model_class(contents: native.Contents) -> Any:
    """Return the class of the model in a ``.trellis`` file."""
    if contents.kind not in MODELS:
        path = contents.tensors.path
        raise FormatError(f"{path}: the model has the unknown kind {contents.kind!r}")
    return _import(MODELS[contents.kind])


def read_fasttext(path: FilePath, encoding: str) -> Any:
    """Read a ``.bin`` or ``.ftz`` file: return a `TextClassifier` if supervised, else a `FastText`.

    The format is UTF-8 by definition, so ``encoding`` is not used.
    """
    del encoding
    file = _import("trellis.formats.fasttext.read")(path)
    kind = "classifier" if file.args.model == "supervised" else "fasttext"
    return _import(MODELS[kind]).from_file(file)


def _read_first_bytes(path: FilePath) -> bytes:
    """Return the first 16 bytes of a file; b"" if it is not a regular file.

    No reader recognises b"", so `load` calls `native.read`, which raises the error.
    """
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read(16)


def _import(dotted: str) -> Any:
    """Import the object with a dotted path."""
    module, _, name = dotted.rpartition(".")
    return getattr(import_module(module), name)
