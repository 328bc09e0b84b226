"""Vectors as files: which kind a file is, and what is in it."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.embeddings.subword_rows import SubwordRows
from trellis.errors import FormatError, InputError
from trellis.formats import fasttext, gensim, native, word2vec
from trellis.formats.mapped import check_finite

__all__ = ["KIND", "load", "save"]

KIND = "vectors"

Floats: TypeAlias = NDArray[np.float32]
Loaded: TypeAlias = tuple[list[str], Floats, Callable[[str], Floats] | None]

_FORMATS = {".trellis": "trellis", ".vec": "text", ".txt": "text", ".bin": "binary"}


def save(
    path: str | os.PathLike[str], words: Sequence[str], matrix: Floats, format: str | None = None
) -> None:
    """Write by the format's name, or by what the path ends in."""
    if format is None:
        name = Path(path)
        suffix = Path(name.stem).suffix if name.suffix in (".gz", ".xz") else name.suffix
        format = _FORMATS.get(suffix)
        if format is None:
            raise InputError(f"{path}: its name says no format: add format='text', for instance")
    if format == "trellis":
        data, ends = native.pack_strings(words)
        tensors: dict[str, NDArray[Any]] = {
            "matrix": matrix,
            "words.bytes": data,
            "words.ends": ends,
        }
        native.write(path, KIND, {}, tensors)
    elif format == "binary":
        word2vec.write_binary(path, words, matrix)
    elif format in ("text", "glove"):
        word2vec.write_text(path, words, matrix, header=format == "text")
    else:
        raise InputError(f"format={format!r} is none of trellis, text, binary, glove")


def load(path: str | os.PathLike[str], errors: str = "strict", limit: int | None = None) -> Loaded:
    """Words, matrix, and what gives vectors to other words, if the file has that."""
    with open(path, "rb") as file:
        head = file.read(16)
    if head.startswith(fasttext.MAGIC):
        return _from_fasttext(path, errors, limit)
    if head[8:9] == b"{":
        return _from_native(path, limit)
    if gensim.is_pickle(head):
        words, matrix = gensim.read(path)
        return words[:limit], matrix[:limit], None
    words, matrix = word2vec.read(path, errors=errors, limit=limit)
    return words, matrix, None


def _from_native(path: str | os.PathLike[str], limit: int | None) -> Loaded:
    return from_contents(native.read(path), limit)


def from_contents(contents: native.Contents, limit: int | None = None) -> Loaded:
    """The same of a ``.trellis`` file that was read."""
    path = contents.tensors.path
    if contents.kind != KIND:
        return _from_model(contents, limit)
    tensors = contents.tensors
    native.expect(tensors, "words.bytes", np.uint8, (None,))
    native.expect(tensors, "words.ends", np.int64, (None,))
    words = native.unpack_strings(tensors["words.bytes"], tensors["words.ends"], f"{path}: words")
    native.expect(tensors, "matrix", np.float32, (len(words), None))
    matrix = native.finite(tensors, "matrix")
    if len(set(words)) < len(words):
        raise FormatError(f"{path}: a word occurs twice")
    return words[:limit], matrix[:limit], None


def _from_model(contents: native.Contents, limit: int | None) -> Loaded:
    """The vectors of a whole model."""
    from trellis.embeddings import model_files  # which needs Vectors, and they this file

    known = contents.kind in model_files.KINDS
    found = getattr(model_files.from_contents(contents), "vectors_", None) if known else None
    if found is None:
        where, kind = contents.tensors.path, contents.kind
        raise FormatError(f"{where}: holds a model of kind {kind!r}, which has no vectors")
    return found.words[:limit], found.matrix[:limit], found.unseen


def _from_fasttext(path: str | os.PathLike[str], errors: str, limit: int | None) -> Loaded:
    file = fasttext.read(path)
    rows = SubwordRows(file)
    words: list[str] = []
    for word in file.words[:limit]:
        try:
            words.append(word.decode("utf-8", errors))
        except UnicodeDecodeError:
            raise FormatError(
                f"{path}: word {len(words)} is {word[:80]!r}, which is not UTF-8; "
                "errors='replace' reads it"
            ) from None
    first = dict(zip(reversed(words), range(len(words) - 1, -1, -1), strict=True))
    kept = sorted(first.values())  # replaced bytes can make two words one
    matrix = rows.vectors([file.words[i] for i in kept])
    try:
        check_finite(matrix, "the mean of a word's rows")
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    return [words[i] for i in kept], matrix, lambda word: rows.vectors([_encoded(word)])[0]


def _encoded(word: str) -> bytes:
    try:
        return word.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{word!r} cannot be UTF-8: {error}") from None
