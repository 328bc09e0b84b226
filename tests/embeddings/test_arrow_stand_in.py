"""Arrow tables as text, without pyarrow: stand-ins with the methods that the reader calls."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from trellis import Word2Vec
from trellis.embeddings import sources
from trellis.errors import InputError

LINES = ["a b\nc", None, "", "d a"]
TOKENS = [["a", "b"], None, ["d"]]


class Array:
    """pyarrow.Array."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def to_pylist(self) -> list[Any]:
        return self.values


class Batch:
    """pyarrow.RecordBatch."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = columns
        self.column_names = [*columns]

    def column(self, name: str) -> Array:
        return Array(self.columns[name])


class Table:
    """pyarrow.Table, or a dataset: ``schema`` and ``to_batches``."""

    column_names = ("x", "text")

    def __init__(self) -> None:
        self.schema = types.SimpleNamespace(names=["x", "text"])

    def to_batches(self) -> list[Batch]:
        return [Batch({"x": [1], "text": LINES[:2]}), Batch({"x": [2], "text": LINES[2:]})]

    def to_pylist(self) -> list[Any]:
        raise AssertionError("a table is read by columns")


class ParquetFile:
    """pyarrow.parquet.ParquetFile: only the column is read."""

    def __init__(self, path: Any = None) -> None:
        self.path = path
        self.schema_arrow = types.SimpleNamespace(names=["x", "text"])

    def iter_batches(self, columns: list[str]) -> list[Batch]:
        assert columns == ["text"]
        return [Batch({"text": LINES})]


for stand_in in (Array, Table, ParquetFile):
    stand_in.__module__ = "pyarrow.lib"  # the reader recognises the package by the module


def count(source: Any, column: str | None = None) -> tuple[dict[str, int], int]:
    """Return the number of each word, and the number of lines."""
    corpus = sources.read(source, 1, column=column)
    model = Word2Vec(2, min_count=1, sample=0, epochs=1, n_jobs=1).fit(source, column=column)
    return dict(zip(model.words_, model.counts_.tolist(), strict=True)), corpus.lines


EXPECTED = {"a": 2, "b": 1, "c": 1, "d": 1}


def test_texts_and_lists_of_words() -> None:
    # a line feed in a text is a space; lines without words are not counted
    assert count(Array(LINES)) == (EXPECTED, 2)
    assert count(Array(TOKENS)) == ({"a": 1, "b": 1, "d": 1}, 2)
    chunked = type("ChunkedArray", (), {"__module__": "pyarrow.lib"})
    source = chunked()
    source.chunks = [Array(["a b"]), Array(["c"])]
    assert count(source) == ({"a": 1, "b": 1, "c": 1}, 2)


def test_a_column_of_a_table() -> None:
    assert count(Table(), "text") == (EXPECTED, 2)
    assert count(ParquetFile(), "text") == (EXPECTED, 2)
    for table in (Table(), ParquetFile()):
        for column in (None, "y"):
            with pytest.raises(InputError, match=f"column is {column!r}: must be one of x, text"):
                sources.read(table, 1, column=column)


def test_files_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []

    def open_dataset(path: str, format: str) -> Table:
        opened.append((path, format))
        return Table()

    package = types.ModuleType("pyarrow")
    package.parquet = types.SimpleNamespace(ParquetFile=ParquetFile)  # type: ignore[attr-defined]
    package.dataset = types.SimpleNamespace(dataset=open_dataset)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow", package)
    assert count("some.parquet", "text") == (EXPECTED, 2)
    assert count(["some.PARQUET", "some.parquet"], "text")[0]["a"] == 4
    assert opened == []
    for suffix in ("arrow", "feather"):
        assert count(f"some.{suffix}", "text") == (EXPECTED, 2)
        assert opened[-1] == (f"some.{suffix}", "feather")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"some\.arrow: reading needs pyarrow: pip install"):
        sources.read("some.arrow", 1, column="text")


def test_blocks_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_BLOCK", 10)
    path = tmp_path / "text.txt"
    path.write_text("a b\n" * 40_000 + "a c")
    assert count(path) == ({"a": 40_001, "b": 40_000, "c": 1}, 40_001)
    assert count([path, path])[0]["a"] == 80_002
    with pytest.raises(InputError, match="no such file"):
        sources.read("nosuch.txt", 1)
    for wrong in (3, b"a b", None):
        with pytest.raises(InputError, match=r"source is .*: must be a path or token lists"):
            sources.read(wrong, 1)
    for empty in ([], [[]]):
        with pytest.raises(InputError, match="source contains no words"):
            sources.read(empty, 1)
