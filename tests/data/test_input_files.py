"""Sources and targets of text: names, codecs, damaged bytes, pipes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from trellis.data import conll, files
from trellis.errors import FormatError, InputError


class Blocks(io.BytesIO):
    """A file that returns the given blocks."""

    def __init__(self, *blocks: bytes) -> None:
        super().__init__()
        self.blocks = [*blocks]
        self.name = "blocks"

    def read1(self, size: int | None = -1, /) -> bytes:
        if not self.blocks:
            return b""
        block = self.blocks.pop(0)
        size = len(block) if size is None or size < 0 else size
        if block[size:]:
            self.blocks.insert(0, block[size:])
        return block[:size]

    def read(self, size: int | None = -1, /) -> bytes:
        return b"" if size == 0 else self.read1(size)


def read_blocks(*blocks: bytes, encoding: str = "utf-8") -> list[str]:
    return [*files.lines(Blocks(*blocks), encoding)]


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ((), []),
        ((b"\n",), [""]),
        ((b"\r\n",), [""]),
        ((b"\n\n",), ["", ""]),
        ((b"a",), ["a"]),
        ((b"a\n",), ["a"]),
        ((b"a\r\n",), ["a"]),
        ((b"a\r", b"\n", b"b"), ["a", "b"]),
        ((b"a\r\r\n",), ["a\r"]),
        ((b"a\n", b"b\n", b"c"), ["a", "b", "c"]),
        ((b"a", b"b", b"c\nd", b"e"), ["abc", "de"]),
        ((b"x" * 40 + b"\xc3", b"\xa9\n"), ["x" * 40 + "é"]),
        ((b"a\x0bb\x0cc\xe2\x80\xa8d\n",), ["a\x0bb\x0cc\u2028d"]),
        ((b"\xef\xbb", b"\xbfa\n\xef\xbb\xbfb"), ["a", "\ufeffb"]),
        ((b"\xef\xbb\xbf",), [""]),
    ],
)
def test_lines_of_blocks(blocks: tuple[bytes, ...], expected: list[str]) -> None:
    assert read_blocks(*blocks) == expected
    assert [*files.lines(io.BytesIO(b"".join(blocks)))] == expected


HINT = "if the file has another encoding, pass it: encoding='{0}', or --encoding {0} in commands"


@pytest.mark.parametrize(
    ("blocks", "encoding", "message"),
    [
        (
            (b"\xe9",),
            "utf-8",
            "line 1: not utf-8: unexpected end of data; " + HINT.format("cp1252"),
        ),
        ((b"a\nb\n\xe9 \n",), "utf-8", "line 3: not utf-8: invalid continuation byte"),
        ((b"a\n", b"b\n", b"c\n\xe9 \n"), "utf-8", "line 4: not utf-8"),
        (
            (b"\xff\xfea\0",),
            "utf-8",
            "line 1: not utf-8: invalid start byte; " + HINT.format("utf-16"),
        ),
        ((b"\xfe\xff\0a",), "utf-8", HINT.format("utf-16")),
        ((b"a\xff\xfe",), "utf-8", HINT.format("cp1252")),
        ((b"\xe9",), "ascii", "line 1: not ascii: ordinal not in range(128)"),
        ((b"a\nb\0\n",), "utf-8", "line 2: the line contains a zero byte: not a text file"),
        ((b"\0\n",), "utf-8", "line 1: the line contains a zero byte"),
        ((b"x" * 32 + b"\na\n", b"b\n\0"), "utf-8", "line 4: the line contains a zero byte"),
        ((b"PK\3\4\n\0",), "utf-8", "; export a spreadsheet as tab-separated text"),
    ],
)
def test_bytes_that_are_not_text(blocks: tuple[bytes, ...], encoding: str, message: str) -> None:
    with pytest.raises(FormatError) as error:
        read_blocks(*blocks, encoding=encoding)
    assert str(error.value).startswith("blocks, line ")
    assert message in str(error.value)
    assert ("spreadsheet" in str(error.value)) == ("spreadsheet" in message)


def test_only_the_start_of_a_file_is_a_zip_archive() -> None:
    with pytest.raises(FormatError, match=r"not a text file$"):
        read_blocks(b"x" * 40 + b"\n", b"PK\3\4\0")
    with pytest.raises(FormatError, match=r"not a text file$"):
        read_blocks(b" PK\3\4\0")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"encoding": "klingon"}, "encoding='klingon', errors='strict': unknown encoding"),
        ({"encoding": "hex"}, "'hex' is not a text encoding"),
        ({"encoding": None}, "encoding=None"),
        ({"errors": "never"}, "errors='never': unknown error handler"),
        ({"errors": 1}, "errors=1"),
    ],
)
def test_codecs_are_checked_first(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        files.lines("a file that does not exist", **options)
    assert [*files.lines(io.BytesIO(b"\xe9\n"), errors="replace")] == ["\ufffd"]


@pytest.mark.parametrize(
    ("source", "error", "match"),
    [
        (7, InputError, "source must be a path, an open file or lines, not int"),
        ("a O\nb O", InputError, "'a O.nb O' is not a path: to read a text, pass io.StringIO"),
        (["a\nb"], InputError, "<list>, line 1 contains a line break: 'a.nb'"),
        (["a", "b\n\n"], InputError, "<list>, line 2 contains a line break"),
        (["a", b"b"], InputError, "<list>, line 2 is bytes, not str"),
    ],
)
def test_invalid_sources(source: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        [*files.lines(source)]
    assert [*files.lines(["a\r\n", "b\n", "c"])] == ["a", "b", "c"]


def test_undecodable_bytes_of_open_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\n" * 9000 + b"\xe9\n")
    message = r"a, after line \d+: 'utf-8' codec"
    with (
        open(tmp_path / "a", encoding="utf-8") as file,
        pytest.raises(FormatError, match=message),
    ):
        [*files.lines(file)]


def test_names_and_quotes(tmp_path: Path) -> None:
    assert files.name_of(tmp_path / "a") == str(tmp_path / "a")
    file = io.BytesIO()
    file.name = 3  # type: ignore[misc]  # a file that was opened by its descriptor
    assert files.name_of(file) == "<BytesIO>"
    assert files.quote("a" * 80) == repr("a" * 80)
    assert files.quote("a" * 81) == repr("a" * 80 + "…")


def test_blocks_are_read_again_after_a_replay() -> None:
    file = files.OpenFile(Blocks(b"x" * 40, b"b", b"c"), "a")
    assert file.read(0) == b""
    with file.replay():
        assert file.read() == b"x" * 32
        assert file.read(3) == b"xxx"
    with file.replay():
        assert [file.read() for _ in range(5)] == [b"x" * 32, b"xxx", b"xxxxx", b"b", b"c"]
        assert file.read() == b""
    assert [file.read() for _ in range(6)] == [b"x" * 32, b"xxx", b"xxxxx", b"b", b"c", b""]
    assert not file.is_packed


def test_paths_and_files_are_opened_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with files.open_once(tmp_path / "a") as file:
        assert file.name == str(tmp_path / "a")
        with files.open_once(file) as same:
            assert same is file
    assert [*files.blocks(tmp_path / "a")] == [b"abc"]
    with pytest.raises(FormatError, match=r"not a regular file \(a pipe, a device or a folder\)"):
        files.check_regular(tmp_path)
    files.check_regular(tmp_path / "a")


def test_targets(tmp_path: Path) -> None:
    file = io.BytesIO()
    files.write(file, ["\ufeffa", "\ufeffb"])  # a mark at the start would be lost
    assert file.getvalue().decode() == "\ufeff\ufeffa\ufeffb"
    with pytest.raises(InputError, match="sequence 1 cannot be written: 'utf-8' codec"):
        files.write(io.BytesIO(), ["a", "\ud800"])
    with pytest.raises(InputError, match="target must be a path or an open file, not int"):
        files.write(7, [])  # type: ignore[arg-type]
    for name in ("a.GZ", "a.xz", "a.bz2", "a"):
        files.write(tmp_path / name, ["a\n"])
        assert [*files.lines(tmp_path / name)] == ["a"]
        with files.open_once(tmp_path / name) as opened:
            assert opened.is_packed == (name != "a")


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        (["ab"], None, r"X must be a list of lists: for a single sequence, write \[X\]"),
        ([["a"]], ["O"], r"y must be a list of lists: for a single sequence, write \[y\]"),
        ([["a"]], [], "X has 1 sequences but y has 0"),
        ([["a"], ["a", "b"]], [["O"], ["O"]], "sequence 1 has 2 tokens but 1 labels"),
    ],
)
def test_pairs(X: Any, y: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        [*files.pairs(X, y)]
    assert [*files.pairs([["a"], []], None)] == [(0, ["a"], None), (1, [], None)]


# ---- hints of column files


@pytest.mark.parametrize(
    ("lines", "options", "end"),
    [
        (["a b O", "a O"], {}, "'a O'; the label may be missing"),
        (["a b O", "a O"], {"label_column": None}, "'a O'"),
        (["a b O", "O"], {}, "'O'"),
        (
            ["a O", "a b O"],
            {},
            "'a b O'; if tokens contain spaces, separate the columns by tabs in all lines",
        ),
        (["a O", "a b O"], {"label_column": None}, "'a b O'"),
        (["a\tO", "a O"], {}, "'a O'; a tab must separate the columns, as in line 1"),
        (["a\tb\tO", "a b"], {}, "'a b'"),
        (["a\tb\tO", "a\tO"], {}, r"'a\tO'; the label may be missing"),
        (["a\tO", "a\tb\tO"], {}, r"'a\tb\tO'"),
        (
            ["", "a;O", "a O"],
            {"separator": ";"},
            "'a O'; ';' must separate the columns, as in line 2",
        ),
    ],
)
def test_hints_for_rows_of_another_width(
    lines: list[str], options: dict[str, Any], end: str
) -> None:
    with pytest.raises(FormatError) as error:
        conll.read(lines, **options)
    assert str(error.value).endswith(end)


@pytest.mark.parametrize(
    ("lines", "options", "match"),
    [
        (
            ["a O"],
            {"label_column": 2},
            "line 1: label_column: column 2 does not exist; the row",
        ),
        (["a O"], {"label_column": -3}, "line 1: label_column: column -3 does not exist"),
        (["", "a O"], {"columns": [2]}, "line 2: columns: column 2 does not exist"),
        (["a O"], {"columns": [1]}, "column 1 is used as token and as label"),
        (["a O"], {"columns": [-1]}, "column 1 is used as token and as label"),
        (["O"], {}, "the label leaves no column for the token; the row has 1 columns"),
        (["b\tO", "\t\t"], {"separator": "\t"}, "line 2"),
        (["O\ta", "\tb"], {"label_column": 0}, r"line 2: the label is empty \(label_column=0\)"),
    ],
)
def test_columns_that_do_not_exist(lines: list[str], options: dict[str, Any], match: str) -> None:
    if match == "line 2":
        assert conll.read(lines, **options) == ([["b"]], [["O"]])
        return
    with pytest.raises(FormatError, match=match):
        conll.read(lines, **options)
    assert conll.read(["a O"], label_column=-2) == ([["O"]], [["a"]])
    assert conll.read(["a O"], label_column=1, columns=[-2]) == ([["a"]], [["O"]])


def test_the_most_frequent_width_of_two_hundred_lines() -> None:
    reported: list[int] = []

    def read(lines: list[str]) -> list[list[str]]:
        reported.clear()
        sequences = conll.iterate_numbered(lines, lambda line, _: reported.append(line))
        return [sequence.labels for sequence in sequences]

    assert read(["a O", "a b O", "b c O"]) == [["", "O", "O"]]
    assert reported == [1]
    assert read(["a O", "a b O"]) == [["O", ""]]
    assert read(["# c", "a\tb\tO", "a\tO", "# d"]) == [["O", ""]]
    narrow, wide = ["a O"] * 100, ["a b O"] * 101
    read([*narrow, *wide])
    assert reported == [*range(101, 202)]  # of the first 200 lines, as many are narrow as wide
    read([*narrow[1:], *wide])
    assert reported == [*range(1, 100)]
    assert read([]) == []


def test_rows_with_fewer_columns_than_needed() -> None:
    with pytest.raises(FormatError, match="line 1: the row has 1 columns, but 3 are needed"):
        next(conll.iterate_rows(["a"], columns=[0, 2]))
    assert next(conll.iterate_rows(["a b c"], columns=[0, 2])) == ([("a", "c")], ["a\tb\tc"])
    assert next(conll.iterate_rows(["a b c"], columns=lambda width: [width - 1])) == (
        ["c"],
        ["a\tb\tc"],
    )
    rows = [*conll.iterate_rows(["a", "-DOCSTART-", "b"], columns=[0])]
    assert [tokens for tokens, _ in rows] == [["a"], ["-DOCSTART-"], ["b"]]
