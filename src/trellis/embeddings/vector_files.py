"""Reads and writes word vectors in several formats. The first bytes of a file show its format."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.data import files
from trellis.embeddings.subword_rows import SubwordRows
from trellis.errors import FormatError, InputError
from trellis.formats import fasttext, gensim, native, word2vec
from trellis.formats.mapped import check_finite
from trellis.formats.parts import Parts, errors_name_file, read_strings, store_strings

__all__ = ["KIND", "from_parts", "is_fasttext", "read", "to_parts", "write"]

KIND = "vectors"

FilePath: TypeAlias = str | os.PathLike[str]
Floats: TypeAlias = NDArray[np.float32]
Loaded: TypeAlias = tuple[list[str], Floats, Callable[[str], Floats] | None]
"""Words, matrix (words, dimensions), and the function that computes vectors of unseen words."""

_FORMATS = {".trellis": "trellis", ".vec": "text", ".txt": "text", ".bin": "binary"}
# The vectors of these models can be loaded from their files. The classes are imported by name,
# because their modules import `Vectors`, which imports this module.
_MODELS = {
    "word2vec": ("trellis.embeddings.word2vec", "Word2Vec"),
    "fasttext": ("trellis.embeddings.fasttext", "FastText"),
}


def write(path: FilePath, words: Sequence[str], matrix: Floats, format: str | None = None) -> None:
    """Write a file. If ``format`` is None, the suffix of the name decides the format."""
    if format is None:
        name = Path(path)
        suffix = Path(name.stem).suffix if name.suffix in files.PACKED_SUFFIXES else name.suffix
        format = _FORMATS.get(suffix)
        if format is None:
            raise InputError(
                f"{path}: the suffix is not {', '.join(_FORMATS)}: pass format='text', for example"
            )
    if format == "trellis":
        native.write(path, KIND, *to_parts(words, matrix))
    elif format == "binary":
        word2vec.write_binary(path, words, matrix)
    elif format in ("text", "glove"):
        word2vec.write_text(path, words, matrix, header=format == "text")
    else:
        raise InputError(f"format must be one of trellis, text, binary, glove, not {format!r}")


def read(path: FilePath, errors: str = "strict", limit: int | None = None) -> Loaded:
    """Read the first ``limit`` words and their vectors from a file of any format."""
    files.check_regular(path)
    with open(path, "rb") as file:
        head = file.read(16)  # enough for the first bytes of every format
    if head.startswith(fasttext.MAGIC):
        return _read_fasttext(path, errors, limit)
    if head[8:9] == b"{":  # the JSON header after its length in 8 bytes
        words, matrix, unseen = _read_native(path)
        return words[:limit], matrix[:limit], unseen
    if gensim.is_pickle(head):
        words, matrix = gensim.read(path)
        return words[:limit], matrix[:limit], None
    words, matrix = word2vec.read(path, errors=errors, limit=limit)
    return words, matrix, None


def is_fasttext(path: FilePath) -> bool:
    """Return whether a file is a binary file of fastText."""
    files.check_regular(path)
    with open(path, "rb") as file:
        return file.read(len(fasttext.MAGIC)) == fasttext.MAGIC


# ---- .trellis files


def to_parts(words: Sequence[str], matrix: Floats) -> Parts:
    """Return the metadata and the tensors of a ``.trellis`` file of vectors."""
    tensors: dict[str, NDArray[Any]] = {"matrix": matrix}
    store_strings(tensors, "words", words)
    return {}, tensors


def from_parts(tensors: native.Tensors) -> tuple[list[str], Floats]:
    """Return the words and the matrix that `to_parts` stored; raise if a part is invalid."""
    words = read_strings(tensors, "words")
    native.expect(tensors, "matrix", np.float32, (len(words), None))
    return words, native.finite(tensors, "matrix")


def _read_native(path: FilePath) -> Loaded:
    """Read the vectors in a ``.trellis`` file of vectors or of a model."""
    contents = native.read(path)
    if contents.kind not in (KIND, *_MODELS):
        raise FormatError(f"{path}: a model of kind {contents.kind!r} has no word vectors")
    with errors_name_file(contents.tensors.path):
        if contents.kind == KIND:
            return *from_parts(contents.tensors), None
        module, name = _MODELS[contents.kind]
        model = getattr(import_module(module), name).from_parts(contents.meta, contents.tensors)
    return model.vectors_.words, model.vectors_.matrix, model.vectors_.unseen


# ---- fastText's files


def _read_fasttext(path: FilePath, errors: str, limit: int | None) -> Loaded:
    """Read the vectors in a binary file of fastText."""
    file = fasttext.read(path)
    rows = SubwordRows(file)
    words: list[str] = []
    for word in file.words[:limit]:
        try:
            words.append(word.decode("utf-8", errors))
        except UnicodeDecodeError:
            raise FormatError(
                f"{path}: word {len(words)} is {word[:80]!r}, which is not UTF-8: "
                "pass errors='replace' to read it"
            ) from None
    # errors="replace" can map two words to the same string. The first of them is used.
    first_row = dict(zip(reversed(words), range(len(words) - 1, -1, -1), strict=True))
    kept_rows = sorted(first_row.values())
    matrix = rows.vectors([file.words[i] for i in kept_rows])
    try:
        check_finite(matrix, "the mean of a word's rows")
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    return [words[i] for i in kept_rows], matrix, lambda word: rows.vectors([_encode(word)])[0]


def _encode(word: str) -> bytes:
    """Return a word as UTF-8. Raise InputError if that is impossible."""
    try:
        return word.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{word!r} cannot be encoded as UTF-8: {error}") from None
