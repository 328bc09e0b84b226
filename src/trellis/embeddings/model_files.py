"""Trained embeddings as files: ``.trellis`` files of all of a model, and fastText's own."""

import os
from typing import Any

import numpy as np

from trellis.embeddings.classifier import TextClassifier
from trellis.embeddings.fasttext import FastText
from trellis.embeddings.word2vec import Word2Vec
from trellis.errors import FormatError, InputError
from trellis.formats import fasttext, native
from trellis.formats.native import Contents, expect, finite

__all__ = ["KINDS", "from_contents", "is_fasttext", "load_model"]

KINDS: dict[str, type[Any]] = {
    "word2vec": Word2Vec,
    "fasttext": FastText,
    "classifier": TextClassifier,
}


def is_fasttext(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as fastText's do."""
    with open(path, "rb") as file:
        return file.read(len(fasttext.MAGIC)) == fasttext.MAGIC


def load_model(path: str | os.PathLike[str]) -> Any:
    """The model that a file holds, of whichever class."""
    if is_fasttext(path):
        file = fasttext.read(path)
        cls = TextClassifier if file.args.model == "supervised" else FastText
        return cls.from_file(file)
    contents = native.read(path)
    if contents.kind not in KINDS:
        raise FormatError(f"{path}: holds a model of kind {contents.kind!r}, not of embeddings")
    return from_contents(contents)


def from_contents(contents: Contents) -> Any:
    """The model, once all of its parts are known to fit."""
    path = contents.tensors.path
    try:
        return _build(contents)
    except FormatError as error:
        text = str(error)
        raise error if text.startswith(str(path)) else FormatError(f"{path}: {text}") from None
    except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{path}: {error}") from None


def _build(contents: Contents) -> Any:
    meta, tensors = contents.meta, contents.tensors
    model = KINDS[contents.kind]()
    parameters = meta["parameters"]
    if not isinstance(parameters, dict) or not parameters.keys() <= model.get_params().keys():
        raise InputError("parameters: unknown names")
    model.set_params(**parameters)
    model._check()
    model.words_ = _strings(contents, "words")
    model.counts_ = expect(tensors, "counts", np.int64, (len(model.words_),))
    if (model.counts_ < 0).any() or (np.diff(model.counts_) > 0).any():
        raise InputError("counts must descend")
    model.n_tokens_ = int(meta["tokens"])
    model.losses_ = [np.nan if loss is None else float(loss) for loss in meta["losses"]]
    model.words_per_second_ = float(meta["words_per_second"])
    if "ngrams.bytes" in tensors:
        model.ngrams_ = _strings(contents, "ngrams")
    outputs = model.words_
    if contents.kind == "classifier":
        outputs = model.labels_ = _strings(contents, "labels")
        model.label_counts_ = expect(tensors, "label_counts", np.int64, (len(outputs),))
    else:
        model._vectors = None
    expect(tensors, "input", np.float32, (model._rows().total, model.vector_size))
    expect(tensors, "output", np.float32, (len(outputs), model.vector_size))
    model._input, model._output = finite(tensors, "input"), finite(tensors, "output")
    return model


def _strings(contents: Contents, name: str) -> list[str]:
    tensors = contents.tensors
    data = expect(tensors, f"{name}.bytes", np.uint8, (None,))
    ends = expect(tensors, f"{name}.ends", np.int64, (None,))
    strings = native.unpack_strings(data, ends, f"{tensors.path}: {name}")
    if len(set(strings)) < len(strings):
        raise FormatError(f"{tensors.path}: {name}: one occurs twice")
    return strings
