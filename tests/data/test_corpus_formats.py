"""What each format yields: tokens, rows, columns, text and object of each sequence."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from trellis.data import conllu, corpus, jsonl, markup
from trellis.data.corpus import Columns, Layout, Sequence
from trellis.data.corpus_formats import split_row
from trellis.errors import FormatError, InputError

IDS = "\t_" * 8


@pytest.mark.parametrize(
    ("format", "lines", "width", "expected"),
    [
        (
            "conll",
            ["a b O", "c d O"],
            2,
            Sequence([("a", "b"), ("c", "d")], ["a\tb\tO", "c\td\tO"], 3),
        ),
        ("conllu", [f"1\ta{IDS}"], 1, Sequence(["a"], ["a"], 1)),
        ("markup", ["[a b](c)"], 1, Sequence(["a", "b"], ["a", "b"], 1)),
        ("tokens", ["a.  b"], 1, Sequence(["a.", "b"], ["a.", "b"], 1)),
        ("text", ["a. b"], 1, Sequence(["a", ".", "b"], ["a", ".", "b"], 1, "a. b")),
        ("jsonl", ['{"text": "a."}'], 1, Sequence(["a", "."], ["a", "."], 1, "a.", {"text": "a."})),
        (
            "jsonl",
            ['{"tokens": ["a"], "text": "b"}'],
            1,
            Sequence(["a"], ["a"], 1, None, {"tokens": ["a"], "text": "b"}),
        ),
        (
            "jsonl",
            ['{"tokens": [["a", "b"]]}'],
            2,
            Sequence([("a", "b")], ["a\tb"], 2, None, {"tokens": [["a", "b"]]}),
        ),
    ],
)
def test_sequences_to_label(format: str, lines: list[str], width: int, expected: Sequence) -> None:
    (sequence,) = corpus.iterate(lines, format, width)
    assert sequence == expected
    assert sequence.tokens is not sequence.rows


def test_tokens_of_a_trained_layout() -> None:
    trained = Layout("conll", (0, 2), 1, 3)
    for row, tokens in (("a O b", ("a", "b")), ("a b", ("a", "b")), ("a O b x", ("a", "b"))):
        (sequence,) = corpus.iterate([row], "conll", 2, None, trained)
        assert sequence.tokens == [tokens]
    (sequence,) = corpus.iterate(["a b c"], "conll", 2, Columns((2, 1)), trained)
    assert sequence.tokens == [("c", "b")]
    with pytest.raises(InputError, match="<list>: the model needs tokens with 2 columns, but text"):
        corpus.iterate(["a"], "text", 2)
    with pytest.raises(FormatError, match="<list>, sequence 2: the model needs tokens with 1 colu"):
        [*corpus.iterate(['{"tokens": ["a"]}', '{"tokens": [["a", "b"]]}'], "jsonl", 1)]


def test_a_guessed_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd").write_text("a O\nb\n")
    guess = "line 2: the row has 1 columns.*; the file is read as rows of a token and its label"
    with pytest.raises(FormatError, match=guess):
        corpus.read(tmp_path / "odd")
    for name, format, text in (
        ("odd", "conll", "a O\nb\n"),
        ("a.conll", None, "a O\nb\n"),
        ("tabs", None, "a\tO\nb\n"),
        ("bytes", None, "a O\n\xe9 O\n"),
    ):
        (tmp_path / name).write_text(text, encoding="latin-1")
        with pytest.raises(FormatError) as error:
            corpus.read(tmp_path / name, format)
        assert "is read as rows" not in str(error.value)
    (tmp_path / "odd.conll").write_text("a,O\nb,O\n")
    with pytest.raises(FormatError, match="the file is CSV"):
        corpus.read(tmp_path / "odd.conll")
    (tmp_path / "a.md").write_text("a,O\nb,O\n")
    assert corpus.read(tmp_path / "a.md")[1] == [["O", "O", "O"]] * 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# B-x\nb\tB-x\n", 2),  # a comment
        ("# B-x\nb B-x\n", 1),  # a row
        ("# b\tB-x\nb\tB-x\n", 1),
        ("\n", None),
    ],
)
def test_comments_have_no_label(tmp_path: Path, text: str, line: int | None) -> None:
    (tmp_path / "a.conll").write_text(text)
    assert corpus.line_with(tmp_path / "a.conll", "B-x") == line
    assert corpus.line_with(tmp_path, "B-x", "conll") is None


def test_encodings_of_lines_with_a_label(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("é B-x\n", encoding="latin-1")
    assert (
        corpus.line_with(tmp_path / "a.conll", "B-x", columns=Columns(None, None, "latin-1")) == 1
    )
    with pytest.raises(FormatError):
        corpus.line_with(tmp_path / "a.conll", "B-x")


def test_cells() -> None:
    assert split_row("a b\tc") == ["a b", "c"]
    assert split_row(" a  b ") == ["a", "b"]


# ---- JSON lines


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[]", "the line is not a JSON object: "),
        ('{"tokens": ["a"]}', '"tags" is missing in the object: it has "tokens"'),
        ('{"tokens": [""], "tags": []}', "1 tokens"),
        ('{"tokens": [1], "tags": ["O"]}', "position 0: token 1 and label 'O' must be strings"),
        (
            '{"tokens": ["a", []], "tags": ["O", "O"]}',
            r"position 1: token \[\] and label 'O'",
        ),
        ('{"tokens": [["a", 1]], "tags": ["O"]}', r"position 0: token \['a', 1\] and label"),
        ('{"tokens": "ab", "tags": ["O", "O"]}', ""),
        ('{"text": 1, "spans": []}', 'nor a string "text" with "spans": it has "text", "spans"'),
        ("{}", 'has neither "tokens" with "tags" nor a string "text" with "spans"$'),
        ('{"tokens": ["\\ud800"], "tags": ["O"]}', r"a \\u escape is not a character"),
    ],
)
def test_invalid_objects(line: str, problem: str) -> None:
    with pytest.raises(FormatError, match=f"line 2: .*({problem})"):
        jsonl.read(["", line])
    reported: list[tuple[int, str]] = []
    assert [*jsonl.iterate_numbered(["", line], lambda *entry: reported.append(entry))] == []
    assert [number for number, _ in reported] == [2]
    assert "line 2" not in reported[0][1]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"tokens": [1]}', "position 0: 1 is not a string or a list of strings"),
        ('{"tokens": ["a", []]}', r"position 1: \[\] is not a string or a list of strings"),
        ('{"tokens": [["a"], ["b", 1]]}', r"position 1: \['b', 1\] is not a string or a list"),
        ('{"text": 1}', 'the object has neither "tokens" nor a string "text"'),
        ("{}", 'the object has neither "tokens" nor a string "text"'),
    ],
)
def test_objects_to_label(line: str, problem: str) -> None:
    with pytest.raises(FormatError, match=f"line 1: .*({problem})"):
        next(jsonl.iterate_objects([line]))


def test_objects_of_two_lines() -> None:
    lines = ['{"tokens": ["a", "b"], "tags": ["O", "X"]}', "", '{"text": "c!", "spans": []}']
    assert [
        (numbered.lines, numbered.line) for numbered in jsonl.iterate_numbered(lines, print)
    ] == [([1, 1], 1), ([3, 3], 3)]
    with pytest.raises(InputError, match="scheme"):
        jsonl.iterate(lines, scheme="none")


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        ([["a"], ["b", 1]], [["O"], ["O", "O"]], "sequence 1, position 1: token 1 and label 'O'"),
        ([["a"]], [[None]], "sequence 0, position 0: token 'a' and label None must be strings"),
        ([[()]], [["O"]], r"sequence 0, position 0: token \(\) and label"),
        ([[("a", 1)]], [["O"]], "must be strings"),
        ([["a"]], None, "y is None: an object needs tags"),
    ],
)
def test_objects_that_are_not_written(X: Any, y: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        jsonl.write(io.StringIO(), X, y)


# ---- markup


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[a", "unclosed bracket: '[a'"),
        ("[a](b", "unclosed parenthesis: '[a](b'"),
        ("x [a] (b)", "a (label) must follow the brackets: '[a] (b)'"),
        ("[a]", "a (label) must follow the brackets: '[a]'"),
        ("[a [b](c)", "nested brackets: '[a [b](c)'"),
        ("a] b", "']' without '[': '] b'"),
        ("a\\b", "a backslash must precede one of [ ] ( ) \\ #, not 'b'"),
        ("a\\", "a backslash must precede one of [ ] ( ) \\ #, not ''"),
        ("[a](b(c)", "a label contains '(': '[a](b(c)'"),
        ("[a]( b)", "label ' b' contains a line break, or starts or ends with white space"),
        ("[a]()", "the label is empty: '[a]()'"),
        ("[ a](b)", "cuts|white space|starts"),
    ],
)
def test_errors_of_markup(line: str, problem: str) -> None:
    reported: list[tuple[int, str]] = []
    sequences = [*markup.iterate_numbered(["# x", line], lambda *entry: reported.append(entry))]
    if line == "[ a](b)":
        assert len(reported) + len(sequences) == 1
        return
    assert sequences == []
    assert [number for number, _ in reported] == [2]
    assert problem in reported[0][1]
    with pytest.raises(FormatError, match="<list>, line 2: "):
        markup.read(["# x", line])


@pytest.mark.parametrize(
    ("text", "spans", "line"),
    [
        ("Ann sings", [(0, 3, "P")], "[Ann](P) sings"),
        ("Ann sings", [(4, 9, "V"), (0, 3, "P")], "[Ann](P) [sings](V)"),
        ("AnnBob", [(0, 3, "P"), (3, 6, "P")], "[Ann](P)[Bob](P)"),
        ("# a", [], "\\# a"),
        ("#a", [], "#a"),
        ("a (b) \\ c", [(3, 4, "x]")], "a \\([b](x\\])\\) \\\\ c"),
        ("", [], ""),
    ],
)
def test_marked_texts(text: str, spans: list[tuple[int, int, str]], line: str) -> None:
    assert markup.mark(text, spans) == line


@pytest.mark.parametrize(
    ("text", "spans", "match"),
    [
        (1, [], "text must be str, not int"),
        ("a\nb", [], "text contains a line break, which markup cannot store: 'a.nb'"),
        ("abcd", [(0, 2, "x"), (1, 3, "y")], r"overlaps \(0, 2, 'x'\)"),
        ("abcd", [(0, 2, "")], "and a label that is not empty in 'abcd'"),
        ("abcd", [(0, 2, "x\ny")], "contains a line break"),
        ("abcd", [(0, 2, "x ")], "starts or ends with white space"),
    ],
)
def test_texts_that_are_not_marked(text: Any, spans: Any, match: str) -> None:
    with pytest.raises((InputError, FormatError), match=match):
        markup.mark(text, spans)


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        ([[]], [[]], "sequence 0 is empty: it would be a blank line"),
        (
            [["a"], ["b", ""]],
            [["O"], ["O", "O"]],
            "sequence 1, position 1: '' is empty, or contains",
        ),
        ([["a b"]], [["O"]], "sequence 0, position 0: 'a b' is empty, or contains white space"),
        ([["a\0"]], [["O"]], "white space or a zero byte"),
        ([[("a", "b")]], [["O"]], r"\('a', 'b'\) has several columns, but markup has one"),
        ([[1]], [["O"]], "1 is int, not str"),
        ([["a"]], [["I-x"]], "sequence 0, position 0: label 'I-x' would be read as 'B-x'"),
        ([["a", "b"]], [["O", "B-x "]], "sequence 0, position 1: label 'x ' contains a line break"),
        ([["a"]], None, "y is None: markup needs labels"),
    ],
)
def test_sequences_that_are_not_written(X: Any, y: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        markup.write(io.StringIO(), X, y)


def test_touching_spans_of_plain_tags() -> None:
    assert markup.read(["[a](x) [b](x) [c](y)"], scheme="plain")[1] == [["x", "x", "y"]]
    assert markup.read(["[a](x) [b](x) c [d](x)"], scheme="plain")[1] == [["x", "x", "O", "x"]]
    assert markup.read(["[a](x) [b](x)"], scheme="BIO")[1] == [["B-x", "B-x"]]
    assert markup.read(["it's [me](x) ."], split=True) == (
        [["it's", "me", "."]],
        [["O", "B-x", "O"]],
    )


# ---- CoNLL-U


def test_columns_of_conllu() -> None:
    values = [f"v{n}" for n in range(10)]
    row = "\t".join(["1", *values[1:]])
    for column, value in (("upos", "v3"), ("xpos", "v4"), ("lemma", "v2"), ("feats", "v5")):
        assert conllu.read([row], column=column) == ([["v1"]], [[value]])
    assert conllu.read([row], column="form") == ([["v1"]], [["v1"]])
    with pytest.raises(InputError, match="column"):
        conllu.read([row], column="deps")
