"""Reads text from files, token lists or table columns into a native corpus, in one pass.

In a text file white space separates words, and each line is a sentence. The corpus contains the
text as word numbers: in memory if the text is small, otherwise in a temporary file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from trellis import _core
from trellis.data import files
from trellis.data.shards.corpus import Corpus
from trellis.errors import InputError

__all__ = ["Source", "read"]

Source: TypeAlias = Any
"""A path, a list of paths, a `trellis.data.Corpus`, token lists, or a column of an Arrow table."""

_BLOCK = 1 << 22  # bytes per call of the core: large enough to keep all its threads busy
_IN_MEMORY = 1 << 20  # words; a longer text is stored in a temporary file
_SENTENCES = 1 << 12  # sentences per call of the core
_TABLES = (".parquet", ".arrow", ".feather")


def read(
    source: Source, threads: int, *, column: str | None = None, end_words: bool = False
) -> _core.Corpus:
    """Read a source and return its corpus.

    ``column`` is the column of Parquet and Arrow files or tables; it contains texts or lists of
    words. ``end_words`` appends the word ``</s>`` to each line, as fastText does.

    >>> corpus = read([["a", "rose"], ["is", "a", "rose"]], 1)
    >>> corpus.words, corpus.lines, corpus.types
    (5, 2, 3)
    """
    corpus = _core.Corpus(threads, end_words, _IN_MEMORY)
    if _is_path(source):
        source = [source]
    if _is_arrow(source):
        _add_arrow(corpus, source, column)
    elif isinstance(source, Corpus):
        _add_sentences(corpus, (words for words, _ in source))
    elif isinstance(source, list | tuple) and source and all(map(_is_path, source)):
        for path in source:
            _add_file(corpus, path, column)
    elif isinstance(source, Iterable) and not isinstance(source, bytes):
        _add_sentences(corpus, source)
    else:
        raise InputError(f"source is {type(source).__name__}: must be a path or token lists")
    corpus.finish()
    if corpus.words == 0:
        raise InputError("source contains no words: at least one word is needed")
    return corpus


def _is_path(source: Any) -> bool:
    return isinstance(source, str | os.PathLike)


def _is_arrow(source: Any) -> bool:
    return type(source).__module__.partition(".")[0] == "pyarrow"


def _add_file(corpus: _core.Corpus, path: Any, column: str | None) -> None:
    """Add a text file, or a column of a Parquet or Arrow file, to the corpus."""
    if Path(path).suffix.lower() in _TABLES:
        _add_arrow(corpus, _open_arrow_file(path), column)
        return
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file (a sentence must be a list of words, not a str)")
    # Decompressors return small blocks. They are joined, because small blocks leave threads of the
    # core without work.
    pending_blocks: list[bytes] = []
    size = 0
    for block in files.blocks(path):
        pending_blocks.append(block)
        size += len(block)
        if size >= _BLOCK:
            corpus.add_text(b"".join(pending_blocks))
            pending_blocks, size = [], 0
    corpus.add_text(b"".join(pending_blocks))
    corpus.end_text()  # ends the last line of the file, which may have no line feed


def _add_sentences(corpus: _core.Corpus, sentences: Iterable[Any]) -> None:
    """Add token lists to the corpus. Error messages name the sequence."""
    iterator, first = iter(sentences), 0
    while batch := list(islice(iterator, _SENTENCES)):
        try:
            corpus.add_sentences(batch, first)
        except InputError:  # the message already names the sequence
            raise
        except ValueError as error:
            raise InputError(str(error)) from None
        first += len(batch)


def _open_arrow_file(path: Any) -> Any:
    """Return a Parquet or Arrow file, opened by pyarrow."""
    try:
        if Path(path).suffix.lower() == ".parquet":
            from pyarrow import parquet

            return parquet.ParquetFile(path)
        from pyarrow import dataset
    except ImportError:
        raise InputError(f"{path}: reading needs pyarrow: pip install 'trellis[arrow]'") from None
    return dataset.dataset(path, format="feather")


def _add_arrow(corpus: _core.Corpus, table: Any, column: str | None) -> None:
    """Add to the corpus a column of a table or file, or an Arrow array."""
    for values in _column_chunks(table, column):
        texts = values.to_pylist()
        if any(isinstance(text, str) for text in texts):
            corpus.add_text("\n".join(map(_as_line, texts)).encode() + b"\n")
        else:
            _add_sentences(corpus, (text for text in texts if text is not None))
    corpus.end_text()


def _column_chunks(table: Any, column: str | None) -> Iterator[Any]:
    """Yield the Arrow arrays of a column."""
    # Types are recognised by their methods: pyarrow is optional, so its classes are not imported.
    if hasattr(table, "chunks"):
        yield from table.chunks
        return
    if hasattr(table, "to_pylist") and not hasattr(table, "column_names"):
        yield table
        return
    if hasattr(table, "iter_batches"):  # a Parquet file
        names, batches = table.schema_arrow.names, table.iter_batches
    else:
        names, batches = table.schema.names, table.to_batches
    if column not in names:
        raise InputError(f"column is {column!r}: must be one of {', '.join(names)}")
    for batch in batches(columns=[column]) if hasattr(table, "iter_batches") else batches():
        yield batch.column(column)


def _as_line(text: str | None) -> str:
    """Return a text as one line; a missing value is an empty line."""
    return "" if text is None else text.replace("\n", " ")
