"""The columns that a model remembers, and the detection of formats from the first lines."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from trellis.data import detection, files
from trellis.data.corpus import Columns, Layout, format_of, layout_of
from trellis.errors import FormatError, InputError

# ---- layouts


@pytest.mark.parametrize(
    ("layout", "count", "width", "expected"),
    [
        (Layout("conll", (0, 2), 1, 3), 2, 3, (0, 2)),
        (Layout("conll", (0, 2), 1, 3), 2, 2, (0, 1)),  # exactly the tokens
        (Layout("conll", (0, 2), 1, 3), 1, 2, (0,)),  # without the label
        (Layout("conll", (2, 0), 1, 4), 2, 3, (1, 0)),
        (Layout("conll", (2, 3), 1, 5), 2, 4, (1, 2)),
        (Layout("conll", (0, 1), 2, 5), 2, 4, (0, 1)),
        (Layout("conll", (2, 3), 1, 5), 2, 5, (2, 3)),
        (Layout("conll", (2, 3), 1, 5), 2, 3, (2, 3)),
        (Layout("conll", (2, 3), None, 5), 2, 4, (2, 3)),
        (Layout("conll", (2, 3), "upos", 5), 2, 4, (2, 3)),
        (Layout("conll", (2, 3), 1, None), 2, 4, (2, 3)),
        (Layout("conll", None, 1, 5), 2, 4, (0, 1)),
        (Layout("conll"), 3, 7, (0, 1, 2)),
    ],
)
def test_columns_of_a_token(
    layout: Layout, count: int, width: int, expected: tuple[int, ...]
) -> None:
    assert layout.token_columns(count, width) == expected


@pytest.mark.parametrize(
    ("layout", "json"),
    [
        (Layout("text"), {"format": "text"}),
        (Layout("conllu", label="upos"), {"format": "conllu", "label": "upos"}),
        (
            Layout("conll", (0, 2), 1, 3),
            {"format": "conll", "token": [0, 2], "label": 1, "width": 3},
        ),
        (Layout("conll", (), 0, 0), {"format": "conll", "token": [], "label": 0, "width": 0}),
    ],
)
def test_layouts_in_files(layout: Layout, json: dict[str, Any]) -> None:
    assert layout.to_json() == json
    assert Layout.from_json(json) == layout


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"format": "csv"}, "corpus: the format is 'csv'"),
        ({"label": 1.5}, r"corpus: label is 1\.5, not a column"),
        ({"label": [1]}, r"corpus: label is \[1\], not a column"),
        ({"width": 65537}, "the columns must be a list of numbers"),
        ({"width": -1}, "the columns must be a list of numbers"),
        ({"width": True}, "the columns must be a list of numbers"),
        ({"width": 2.0}, "the columns must be a list of numbers"),
        ({"token": [0, 65537]}, "the columns must be a list of numbers"),
        ({"token": [-1]}, "the columns must be a list of numbers"),
        ({"token": ["0"]}, "the columns must be a list of numbers"),
        ({"token": "0"}, "the columns must be a list of numbers"),
        ({"width": 65536, "token": [65536, 0], "label": None}, None),
        ({"width": None, "token": None}, None),
    ],
)
def test_invalid_layouts(changed: dict[str, Any], match: str | None) -> None:
    values = {"format": "conll", "token": [0], "label": 1, "width": 2} | changed
    if match is None:
        assert Layout.from_json(values).width == values["width"]
        return
    with pytest.raises(InputError, match=match):
        Layout.from_json(values)


@pytest.mark.parametrize(
    ("name", "text", "columns", "expected"),
    [
        ("a.conll", "Ann NNP B-X\n", Columns(), Layout("conll", (0, 1), 2, 3)),
        ("a.conll", "Ann NNP B-X\n", Columns(None, "0"), Layout("conll", (1, 2), 0, 3)),
        ("a.conll", "Ann NNP B-X\n", Columns(None, "-3"), Layout("conll", (1, 2), 0, 3)),
        ("a.conll", "Ann NNP B-X\n", Columns(None, "-4"), Layout("conll")),
        ("a.conll", "Ann NNP B-X\n", Columns(None, "2"), Layout("conll", (0, 1), 2, 3)),
        ("a.conll", "Ann NNP B-X\n", Columns(None, "3"), Layout("conll")),
        ("a.conll", "Ann NNP B-X\n", Columns((-2,)), Layout("conll", (1,), 2, 3)),
        ("a.conll", "# x\nAnn\tB-X\n", Columns(), Layout("conll", (0,), 1, 2)),
        ("a.conll", "-DOCSTART- O O\n\nAnn B-X\n", Columns(), Layout("conll", (0,), 1, 2)),
        ("a.conll", "", Columns(), Layout("conll")),
        ("a.conllu", "1\ta\n", Columns(), Layout("conllu", label="upos")),
        ("a.conllu", "1\ta\n", Columns(None, "xpos"), Layout("conllu", label="xpos")),
        ("a.md", "[a](b)\n", Columns(), Layout("markup")),
        ("odd", "[a](b)\n", Columns(), Layout("markup")),
        ("odd", "a b c d\n", Columns(), Layout("conll", (0, 1, 2), 3, 4)),
    ],
)
def test_layout_of_a_file(
    tmp_path: Path, name: str, text: str, columns: Columns, expected: Layout
) -> None:
    (tmp_path / name).write_text(text)
    assert layout_of(tmp_path / name, None, columns) == expected
    if expected.format == "conll":
        (tmp_path / "other.md").write_text(text)
        assert layout_of(tmp_path / "other.md", "conll", columns) == expected


def test_layout_of_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Ann B-X\n", encoding="utf-16")
    expected = Layout("conll", (0,), 1, 2)
    assert layout_of(tmp_path / "a.conll", None, Columns(None, None, "utf-16")) == expected


# ---- first lines


class Pipe(io.BytesIO):
    """A file that returns at most a few bytes at a time, as a pipe does."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self.pieces = [*pieces]
        self.reads = 0

    def read1(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return self.pieces.pop(0) if self.pieces else b""


def test_the_first_lines_of_a_pipe() -> None:
    pieces = [b"a" * 40, b" b\n", b"\n \n", b"c\r\n", b"d"]
    file = files.OpenFile(Pipe(*pieces), "pipe")
    assert detection.first_lines(file) == ["a" * 40 + " b", "c", "d"]
    assert b"".join(iter(lambda: file.read(), b"")) == b"".join(pieces)


def test_lines_that_are_available_at_once() -> None:
    pipe = Pipe(b"  \n", b"x" * 40, b"y\n", b"later\n")
    assert detection.first_lines(files.OpenFile(pipe, "pipe"), at_once=True) == ["x" * 40 + "y"]
    assert pipe.pieces == [b"later\n"]
    # a comment that is cut after the 32 bytes from which compression is detected
    comment = b"# " + b"x" * 28 + b"\n#"
    assert len(comment) == 32
    pipe = Pipe(comment, b" more\nlast", b"never")
    assert detection.first_lines(files.OpenFile(pipe, "pipe"), at_once=True) == [
        "# " + "x" * 28,
        "# more",
    ]
    pipe = Pipe(comment[:-1], b"never")
    detection.first_lines(files.OpenFile(pipe, "pipe"), at_once=True)
    assert pipe.pieces == [b"never"]


def test_twenty_lines_of_at_most_32_kilobytes() -> None:
    lines = [f"line {n}" for n in range(30)]
    file = files.OpenFile(io.BytesIO("\n".join(lines).encode()), "a")
    assert detection.first_lines(file) == lines[:20]
    file = files.OpenFile(io.BytesIO("\n".join(lines[:3]).encode()), "a")
    assert detection.first_lines(file) == lines[:3]
    pipe = Pipe(b"a\n" + b"b" * 32764, b"c\nd", b"e\n")
    # 32,766 bytes are too few; the last line may be incomplete
    assert detection.first_lines(files.OpenFile(pipe, "a")) == ["a", "b" * 32764 + "c"]
    assert pipe.pieces == [b"e\n"]
    pipe = Pipe(b"a\n" + b"b" * 32766, b"c\nd")
    assert detection.first_lines(files.OpenFile(pipe, "a")) == ["a"]
    pipe = Pipe(b"b" * 40_000, b"c\n")
    assert detection.first_lines(files.OpenFile(pipe, "a")) == ["b" * 40_000]
    file = files.OpenFile(io.BytesIO("\ufeffä\n".encode("utf-16-le")), "a")
    file.encoding = "utf-16-le"
    assert detection.first_lines(file) == ["ä"]


ROW = "\t".join(["1", "Ann", *"_" * 8])


@pytest.mark.parametrize(
    ("lines", "labelled", "unlabelled"),
    [
        ([], "conll", "text"),
        (["# x", ROW], "conllu", "conllu"),
        (["1-2" + ROW[1:]], "conllu", "conllu"),
        (["2" + ROW[1:]], "conll", "conll"),
        ([ROW + "\t_"], "conll", "conll"),
        ([ROW[:-2]], "conll", "conll"),
        (["a\tb", ROW], "conll", "conll"),
        (["# a\tb"], "conll", "text"),
        (["#a\tb"], "conll", "conll"),
        (["# a", "b\tc"], "conll", "conll"),
        (["# [a](b)"], "conll", "text"),
        (["a", "[b](c)"], "markup", "text"),
        (["a] (b"], "conll", "text"),
        (['{"tokens": []}'], "jsonl", "jsonl"),
        ([' {"text": ""}'], "jsonl", "jsonl"),
        (["# c", '{"text": ""}'], "jsonl", "jsonl"),
        (['{"other": 1}'], "jsonl", "text"),
        (['{"text": 1'], "jsonl", "text"),
        (["[" * 100_000], "conll", "text"),
        (['{"a":' * 100_000], "jsonl", "text"),
        (["a", '{"text": ""}'], "conll", "text"),
        (["a b\tc"], "conll", "text"),
        (["\ta\t"], "conll", "text"),
        (["a\t"], "conll", "text"),
    ],
)
def test_formats_of_lines(lines: list[str], labelled: str, unlabelled: str) -> None:
    assert detection.detect_labelled(lines) == labelled
    assert detection.detect_unlabelled(lines) == unlabelled


CSV = "the file is CSV: separate the columns by tabs instead of '{}', and the sequences"
ARRAY = "the file is a JSON array: write JSON lines instead"
OBJECTS = "the file is JSON with objects of several lines: write JSON lines instead"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["a,b", "c,d"], CSV.format(",")),
        (["a;b", "c;d"], CSV.format(";")),
        (["a,b,c", "d,e,f"], CSV.format(",")),
        (["a,b", "c"], None),
        (["a", "b"], None),
        (["a,b", "c d"], None),
        (["a,b", "c\td"], None),
        ([], None),
        (["["], ARRAY),
        ([" [{"], ARRAY),
        (['[["a"]'], ARRAY),
        (["[a"], None),
        (["{"], OBJECTS),
        (['{"tokens": ['], OBJECTS),
        (['{"a": 1,'], OBJECTS),
        (['{"a":'], OBJECTS),
        (['{"a": 1}'], None),
        (["a {"], None),
    ],
)
def test_other_formats_are_refused(lines: list[str], problem: str | None) -> None:
    if problem is None:
        detection.refuse_other_formats("a.conll", lines)
        return
    with pytest.raises(FormatError, match=r"a\.conll: ") as error:
        detection.refuse_other_formats("a.conll", lines)
    assert problem in str(error.value)


def test_formats_of_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a regular file: its format must be specified"):
        format_of(tmp_path)
    with pytest.raises(FileNotFoundError):
        format_of(tmp_path / "none")
    assert format_of(tmp_path, labelled=False) == "text"
