"""Readers and writers of corpora at their exact limits: the last value on each side of a rule."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from trellis.data import conll, conllu, corpus, detection, files, jsonl, markup, tags, weights
from trellis.data import layout as layouts
from trellis.data import spans as characters
from trellis.data.corpus import Columns
from trellis.data.layout import Layout, layout_of
from trellis.errors import FormatError, InputError

# ---- spans of characters


@pytest.mark.parametrize("span", [(0, 9, "X"), [0, 1, "X"], {"start": 8, "end": 9, "label": "X"}])
def test_spans_that_touch_the_ends_of_a_text(span: Any) -> None:
    values = tuple(span.values()) if isinstance(span, dict) else tuple(span)
    assert characters.validate_span(span, "Ann sings") == values


@pytest.mark.parametrize("span", [(0, 10, "X"), (-1, 2, "X"), (3, 3, "X"), (4, 3, "X")])
def test_spans_outside_of_a_text(span: Any) -> None:
    with pytest.raises(InputError, match="is not inside the 9 characters in 'Ann sings'"):
        characters.validate_span(span, "Ann sings")


@pytest.mark.parametrize(
    "span", [(0, 1.0, "X"), (True, 1, "X"), (0, "1", "X"), (0, 1, ""), (0, 1, None), {"start": 0}]
)
def test_spans_of_other_types(span: Any) -> None:
    with pytest.raises(InputError, match="must have integers start and end, and a label"):
        characters.validate_span(span, "Ann")
    for other in ((0, 1), (0, 1, "X", 2), "0,1"):
        with pytest.raises(InputError, match="is neither"):
            characters.validate_span(other, "Ann")


def token_spans(*spans: tuple[int, int, str]) -> list[tuple[str, int, int]]:
    offsets = [(0, 2), (3, 6), (7, 11), (11, 12)]
    texts = [f"({start}, {end})" for start, end, _ in spans]
    token_spans = characters.find_token_spans("In New York!", offsets, spans, texts)
    return [tuple(span) for span in token_spans]  # type: ignore[misc]


def test_spans_of_tokens() -> None:
    assert token_spans((3, 11, "X"), (11, 12, "Y")) == [("X", 1, 3), ("Y", 3, 4)]  # they touch
    assert token_spans((11, 12, "Y"), (0, 3, "X")) == [("X", 0, 1), ("Y", 3, 4)]
    assert token_spans((2, 7, "X")) == [("X", 1, 2)]  # white space on both sides
    for span, problem in (
        ((4, 6, "X"), r"span \(4, 6\) cuts through 'New'"),
        ((3, 5, "X"), "cuts through 'New'"),
        ((7, 10, "X"), "cuts through 'York'"),
        ((8, 12, "X"), "cuts through 'York'"),
        ((2, 3, "X"), r"span \(2, 3\) covers no token"),
    ):
        with pytest.raises(InputError, match=problem):
            token_spans(span)
    with pytest.raises(InputError, match=r"span \(3, 11\) overlaps \(7, 12\)|\(7, 12\) overlaps"):
        token_spans((3, 11, "X"), (7, 12, "Y"))


def test_spans_of_tags() -> None:
    assert tags.from_spans([("X", 0, 2), ("X", 2, 3)], 3) == ["B-X", "I-X", "B-X"]
    assert tags.from_spans([], 0) == []
    assert tags.spans(["B-X"]) == [("X", 0, 1)]
    for span in (("X", 0, 4), ("X", -1, 1), ("X", 1, 1), ("X", 2, 1)):
        with pytest.raises(InputError, match="is empty, or outside of the 3 positions"):
            tags.from_spans([span], 3)
    with pytest.raises(InputError, match="overlap"):
        tags.from_spans([("X", 0, 2), ("Y", 1, 3)], 3)
    with pytest.raises(InputError, match="length must be an integer of at least 0, not -1"):
        tags.from_spans([], -1)
    # Different labels need no mark between them in IOB1 and IOE1; equal labels do.
    touching = [("X", 0, 2), ("X", 2, 3), ("Y", 3, 4)]
    assert tags.from_spans(touching, 4, "IOB1") == ["I-X", "I-X", "B-X", "I-Y"]
    assert tags.from_spans(touching, 4, "IOE1") == ["I-X", "E-X", "I-X", "I-Y"]


def test_spans_of_markup() -> None:
    assert markup.mark("ab", [(1, 2, "Y"), (0, 1, "X")]) == "[a](X)[b](Y)"
    with pytest.raises(InputError, match="overlaps"):
        markup.mark("abc", [(0, 2, "X"), (1, 3, "Y")])


# ---- layouts


def test_columns_of_a_stored_layout() -> None:
    data = {"format": "conll", "token": [0], "label": 1, "width": 2}
    maximum = layouts._MAX_COLUMNS
    for width in (0, 2, maximum):
        assert Layout.from_json(data | {"width": width}) == Layout("conll", (0,), 1, width)
    wrong = [
        ("width", -1),
        ("width", 1.0),
        ("width", maximum + 1),
        ("token", [-1]),
        ("token", [True]),
    ]
    for name, value in [*wrong, ("token", [maximum + 1])]:
        with pytest.raises(InputError, match="the columns must be a list of numbers"):
            Layout.from_json(data | {name: value})


def test_columns_of_a_token_in_rows_with_and_without_a_label() -> None:
    first = Layout("conll", (1, 2), 0, 3)  # the label is the first column
    assert first.token_columns(2, 3) == (1, 2)
    assert first.token_columns(2, 2) == (0, 1)  # there is no label
    assert first.token_columns(1, 2) == (0,)
    middle = Layout("conll", (0, 2), 1, 3)
    assert middle.token_columns(2, 3) == (0, 2)
    assert middle.token_columns(1, 2) == (0,)
    assert Layout("conll", (0, 2, 3), 1, 4).token_columns(2, 3) == (0, 1)
    assert Layout("conll", (0, 2, 3), 1, 4).token_columns(2, 4) == (0, 2)
    assert Layout("text").token_columns(2, 3) == (0, 1)


def test_the_label_column_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a b c\n")
    for label, expected in (("-1", 2), ("-3", 0), ("0", 0), ("2", 2)):
        token = tuple(n for n in range(3) if n != expected)
        assert layout_of(path, None, Columns(label=label)) == Layout("conll", token, expected, 3)
        X, y = conll.read(path, label_column=int(label))
        assert y == [["abc"[expected]]]
        assert [[tuple("abc"[n] for n in token)]] == X
    for label in ("3", "-4"):
        assert layout_of(path, None, Columns(label=label)) == Layout("conll")
        with pytest.raises(FormatError, match=f"label_column: column {label} does not exist"):
            conll.read(path, label_column=int(label))


# ---- weights of sequences


def test_weights_in_comments(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("# weight = 2.5\na X\n\nb X\n\n# weight = 0\nc X\n")
    X, _, values = weights.read_weighted(path, "weight")
    assert ([x[0] for x in X], list(values)) == (["a", "b", "c"], [2.5, 1.0, 0.0])
    for value in ("-1e-9", "inf", "nan", "x"):
        path.write_text(f"a X\n\n# weight = {value}\nb X\n")
        with pytest.raises(
            FormatError, match=r"line 3: weight is .*: must be a number of at least"
        ):
            weights.read_weighted(path, "weight")


def test_weights_in_objects(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"tokens": ["a"], "tags": ["X"]}, {"tokens": ["b"], "tags": ["X"], "weight": 3}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, _, values = weights.read_weighted(path, "weight")
    assert list(values) == [1.0, 3.0]
    path.write_text(json.dumps(rows[1] | {"weight": True}) + "\n")
    with pytest.raises(FormatError, match="line 1: weight is True: must be a number"):
        weights.read_weighted(path, "weight")
    path.write_text(json.dumps(rows[0]) + "\n")
    with pytest.raises(FormatError, match="no sequence has a weight: no key 'weight' occurs"):
        weights.read_weighted(path, "weight")


# ---- lines and formats


def test_quotes() -> None:
    assert files.quote("x" * 80) == repr("x" * 80)
    assert files.quote("x" * 81) == repr("x" * 80 + "…")
    assert files.quote("abc", 3) == "'abc'"
    assert files.quote("abcd", 3) == "'abc…'"


def test_hints_for_rows_of_another_width() -> None:
    def problem(text: str, **options: Any) -> str:
        with pytest.raises(FormatError) as info:
            conll.read(io.StringIO(text), **options)
        return str(info.value)

    assert problem("a X\nb c X\n").endswith("separate the columns by tabs in all lines")
    assert problem("a b X\nc X\n").endswith("; the label may be missing")
    assert problem("a b X\nc\n").endswith("'c'")
    assert problem("a\tX\nb\tc\tX\n").endswith("'b\\tc\\tX'")  # no spaces
    assert problem("a\tX\nb X\n", separator="\t").endswith(
        "; a tab must separate the columns, as in line 1"
    )
    assert problem("a,X\nb X\n", separator=",").endswith(
        "; ',' must separate the columns, as in line 1"
    )


def test_rows_that_cannot_be_written() -> None:
    def problem(x: list[Any], y: list[str]) -> str:
        with pytest.raises(InputError) as info:
            conll.write(io.StringIO(), [x], [y])
        return str(info.value)

    assert "is always a separate sequence" in problem(["-DOCSTART-", "a"], ["O", "O"])
    assert "but earlier rows have 2" in problem(["a", ("b", "c")], ["O", "O"])
    assert "contains a tab, a line break" in problem(["a\tb"], ["O"])
    assert "is empty or ends with white space" in problem(["a"], ["O "])
    assert "is empty or ends with white space" in problem(["a"], [""])
    target = io.StringIO()
    conll.write(target, [["-DOCSTART-"], ["a b"]], [["O"], ["X"]])  # a space before the last column
    assert target.getvalue() == "-DOCSTART-\tO\n\na b\tX\n\n"
    with pytest.raises(InputError, match="contains a space, but is the only column"):
        conll.write(io.StringIO(), [["a b"]], None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann\tNNP", "conll"),
        ("Ann sings.\tBob", "text"),
        ("Ann\t", "text"),
        ("", "text"),
        ('{"tokens": ["a"]}', "jsonl"),
        ('{"text": "a"}', "jsonl"),
        ('{"words": ["a"]}', "text"),
        ("{x", "text"),
        ("# newpar\n1\tAnn" + "\t_" * 8, "conllu"),
        ("1-2\tAnn" + "\t_" * 8, "conllu"),
        ("2\tAnn" + "\t_" * 8, "conll"),
        ("1\tAnn" + "\t_" * 7, "conll"),
        ("# a\tb", "text"),
        ("#\tb", "conll"),
    ],
)
def test_formats_of_data_to_label(text: str, expected: str) -> None:
    assert detection.detect_unlabelled(text.splitlines()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann B-X", "conll"),
        ("[Ann](X)", "markup"),
        ("Ann sings\n[Bob](X)", "markup"),
        ("# [Ann](X)\nAnn X", "conll"),
        (' {"tokens"', "jsonl"),
        ("# c\n1\tAnn" + "\t_" * 8, "conllu"),
        ("", "conll"),
    ],
)
def test_formats_of_data_with_labels(text: str, expected: str) -> None:
    assert detection.detect_labelled(text.splitlines()) == expected


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["["], "the file is a JSON array"),
        (['[{"a": 1}]'], "the file is a JSON array"),
        (['[["a"]]'], "the file is a JSON array"),
        (["{"], "JSON with objects of several lines"),
        (['{"a": ['], "JSON with objects of several lines"),
        (['{"a":'], "JSON with objects of several lines"),
        (["a,b", "c,d"], "the file is CSV: separate the columns by tabs instead of ','"),
        (["a;b", "c;d"], "the file is CSV: separate the columns by tabs instead of ';'"),
        (["a,b", "c,d,e"], None),
        (["a,b c", "c,d"], None),
        (["a,b\tc"], None),
        (["a", "b"], None),
        ([], None),
        (['{"a": 1}'], None),
    ],
)
def test_other_formats(lines: list[str], problem: str | None) -> None:
    if problem is None:
        detection.refuse_other_formats("a", lines)
        return
    with pytest.raises(FormatError, match=re.escape(problem)):
        detection.refuse_other_formats("a", lines)


def test_first_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n  \ntwo\n" + b"x\n" * 30)
    with files.open_once(path) as file:
        first = detection.first_lines(file)
        assert first == ["one", "two", *["x"] * 18]
        assert file.read().startswith(b"\xef\xbb\xbfone")  # they can be read again
    path.write_text("one line without its end")
    with files.open_once(path) as file:
        assert detection.first_lines(file) == ["one line without its end"]


def test_labels_in_a_line() -> None:
    def labels(format: str, line: str, **columns: Any) -> list[str]:
        find = corpus.BY_NAME[format].labels_of
        assert find is not None
        return find(line, Columns(**columns))

    assert labels("conll", "a b X") == ["X"]
    assert labels("conll", "a b X", label="0") == ["a"]
    assert labels("conll", "") == []
    row = "\t".join(["1", "Ann", "ann", "PROPN", *"_" * 6])
    assert labels("conllu", row) == ["PROPN"]
    assert labels("conllu", row, label="lemma") == ["ann"]
    assert labels("conllu", "# text = Ann") == []
    assert labels("conllu", "") == []


def test_tokens_of_several_columns_and_formats_with_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Call Ann\n")
    with pytest.raises(InputError, match="the model needs tokens with 2 columns, but text has one"):
        next(corpus.iterate(path, "text", width=2))
    assert next(corpus.iterate(path, "text", width=1)).tokens == ["Call", "Ann"]
    with pytest.raises(InputError, match=r"token \[\] and label 'O' must be strings"):
        jsonl.write(io.StringIO(), [[[]]], [["O"]])
    with pytest.raises(InputError, match="an object needs tags"):
        jsonl.write(io.StringIO(), [["a"]], None)
    assert conllu.COLUMNS["upos"] == 3
