"""Inline markup: spans, labels, escapes, and the message of every mistake."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.data import markup, tags, text
from trellis.errors import FormatError, InputError

# --- reading ------------------------------------------------------------------------------------


def test_spans_become_tags() -> None:
    line = "Book a table at [Chez Ana](restaurant) for [four](party_size), [8:30 pm](time)."
    tokens = "Book a table at Chez Ana for four , 8 : 30 pm ."
    labels = "O O O O B-restaurant I-restaurant O B-party_size O B-time I-time I-time I-time O"
    assert markup.read([line]) == ([tokens.split()], [labels.split()])
    assert list(markup.iterate([line])) == [(tokens.split(), labels.split())]


def test_blank_lines_and_comments_are_skipped() -> None:
    lines = ["# a [comment", "", " \t", "\r\n", "# ", "a", "#", "#b", " # c", r"\# d"]
    assert markup.read(lines) == (
        [["a"], ["#"], ["#", "b"], ["#", "c"], ["#", "d"]],
        [["O"], ["O"], ["O", "O"], ["O", "O"], ["O", "O"]],
    )
    assert markup.read([]) == ([], [])


def test_escapes_are_plain_characters() -> None:
    line = r"\[a\] \(b\) \\ \# (c) [\[d\]](x\)\[\\ y) [\[e](z)"
    assert markup.read([line], split=True) == (
        [["[a]", "(b)", "\\", "#", "(c)", "[d]", "[e"]],
        [["O", "O", "O", "O", "O", "B-x)[\\ y", "B-z"]],
    )


def test_split_at_white_space() -> None:
    line = "It's  [New\u3000York](place)\t- [U.S.](place)"
    assert markup.read([line]) == (
        [["It's", "New", "York", "-", "U", ".", "S", "."]],
        [["O", "B-place", "I-place", "O", "B-place", "I-place", "I-place", "I-place"]],
    )
    assert markup.read([line], split=True) == (
        [["It's", "New", "York", "-", "U.S."]],
        [["O", "B-place", "I-place", "O", "B-place"]],
    )


def test_white_space_inside_brackets_and_none_around_them() -> None:
    assert markup.read(["in[ Oslo ](place),"]) == ([["in", "Oslo", ","]], [["O", "B-place", "O"]])
    assert markup.read(["[9](hour)[:](sign)[30](minute)"]) == (
        [["9", ":", "30"]],
        [["B-hour", "B-sign", "B-minute"]],
    )


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("BIO", ["B-LOC", "I-LOC", "B-LOC", "O", "B-PER"]),
        ("IOB1", ["I-LOC", "I-LOC", "B-LOC", "O", "I-PER"]),
        ("BILOU", ["B-LOC", "L-LOC", "U-LOC", "O", "U-PER"]),
        ("BIOES", ["B-LOC", "E-LOC", "S-LOC", "O", "S-PER"]),
        ("plain", ["LOC", "LOC", "LOC", "O", "PER"]),
    ],
)
def test_spans_become_tags_of_a_scheme(scheme: str, expected: list[str]) -> None:
    lines = ["[New York](LOC) [Paris](LOC) to [Ann](PER)"]
    for split in (False, True):
        X, y = markup.read(lines, scheme=scheme, split=split)
        assert X == [["New", "York", "Paris", "to", "Ann"]]
        assert y == [expected]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("at [Nobu for four", r"unclosed bracket: '\[Nobu for four'"),
        ("at [", r"unclosed bracket: '\['"),
        ("at [Nobu](restaurant", r"unclosed parenthesis: '\[Nobu\]\(restaurant'"),
        ("at [Nobu](", r"unclosed parenthesis: '\[Nobu\]\('"),
        ("at [Nobu] for", r"a \(label\) must follow the brackets: '\[Nobu\] for'"),
        ("at [Nobu]", r"a \(label\) must follow the brackets"),
        ("at [Nobu] (restaurant)", r"a \(label\) must follow the brackets"),
        (r"at [Nobu]\(restaurant)", r"a \(label\) must follow the brackets"),
        ("at [Nobu]()", r"the label is empty: '\[Nobu\]\(\)'"),
        ("at [Nobu]( )", r"label ' ' contains .* ends with white space: '\[Nobu\]\( \)'"),
        ("at [Nobu](name )", "label 'name ' contains"),
        ("at [[Nobu](x)](y)", r"nested brackets: '\[\[Nobu\]\(x\)\]\(y\)'"),
        ("at [No [bu](x)", "nested brackets"),
        ("at Nobu](x)", r"'\]' without '\[': '\]\(x\)'"),
        ("at [Nobu](x)](y)", r"'\]' without '\[': '\]\(y\)'"),
        ("at [Nobu](f(x))", r"a label contains '\(': '\[Nobu\]\(f\(x\)\)'"),
        ("at [Nobu](x] b", r"a label contains '\]'"),
        ("at [Nobu]([x) b", r"a label contains '\['"),
        (
            r"C:\new",
            r"a backslash must precede one of \[ \] \( \) \\ #, not 'n': '\\\\new'",
        ),
        (r"at [No\bu](x)", "not 'b': "),
        (r"at [Nobu](x\y)", "not 'y': "),
        ("at \\", "not ''"),
        ("at [ ](x)", r"span '\[ \]\(x\)' covers no token in 'at  '"),
        ("at [](x) b", r"span '\[\]\(x\)' covers no token in 'at  b'"),
        ("[New](x)ark", r"span '\[New\]\(x\)' cuts through 'Newark' in 'Newark'"),
        ("New[ark](x)", r"span '\[ark\]\(x\)' cuts through 'Newark'"),
        ("a[](x)b", r"span '\[\]\(x\)' cuts through 'ab'"),
        ("[O](x)'Neil", 'cuts through "O\'Neil"'),
        ("[a" * 9999, "nested brackets"),
        ("[" + "a" * 9999 + "](x)b", "cuts through"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(f"# a comment\n\n{line}\n", encoding="utf-8")
    with pytest.raises(FormatError, match=message) as caught:
        markup.read(path)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert len(str(caught.value)) < 400


def test_split_changes_the_tokens() -> None:
    assert markup.read(["[Oslo](place), then"])[1] == [["B-place", "O", "O"]]
    with pytest.raises(FormatError, match=r"^<list>, line 1: span .* cuts through 'Oslo,' in"):
        markup.read(["[Oslo](place), then"], split=True)


def test_a_label_that_a_scheme_cannot_express() -> None:
    assert markup.read(["[a](O)"]) == ([["a"]], [["B-O"]])
    with pytest.raises(FormatError, match=r"^<list>, line 1: .*'O' cannot be a label"):
        markup.read(["[a](O)"], scheme="plain")


def test_an_unknown_scheme_is_named_before_anything_is_read() -> None:
    with pytest.raises(InputError, match="BOI"):
        markup.iterate([], scheme="BOI")
    with pytest.raises(InputError, match="BOI"):
        markup.write(io.StringIO(), [], [], scheme="BOI")


def test_other_encodings() -> None:
    file = io.BytesIO("[Zoë](person)".encode("latin-1"))
    assert markup.read(file, encoding="latin-1") == ([["Zoë"]], [["B-person"]])
    file.seek(0)
    with pytest.raises(FormatError, match="line 1: not utf-8"):
        markup.read(file)
    file.seek(0)
    assert markup.read(file, errors="ignore") == ([["Zo"]], [["B-person"]])


# --- marking ------------------------------------------------------------------------------------


def test_mark() -> None:
    assert markup.mark("", []) == ""
    assert markup.mark("# 1 (a) [b] c\\d", [(12, 15, "x)y")]) == (r"\# 1 \(a\) \[b\] [c\\d](x\)y)")
    assert markup.mark("# 1", [(0, 1, "x")]) == "[#](x) 1"
    assert markup.mark("# 1", [(2, 3, "x")]) == r"\# [1](x)"
    assert markup.mark("abc", [(2, 3, "z"), (0, 2, "y")]) == "[ab](y)[c](z)"


@pytest.mark.parametrize(
    ("raw", "spans", "message"),
    [
        ("a\nb", [], r"which markup cannot store: 'a\\nb'"),
        ("ab", [(0, 3, "x")], r"span \(0, 3, 'x'\) is not inside the 2 characters in 'ab'"),
        ("ab", [(1, 1, "x")], "is not inside"),
        ("ab", [(0, 1, "")], "must have integers start and end"),
        ("ab", [(0, 1, " x")], "label ' x' contains"),
        ("ab", [(0, 1, "x\ny")], r"label 'x\\ny' contains a line break"),
        ("ab", [(0, 1)], "is neither"),
        ("abc", [(1, 3, "y"), (0, 2, "x")], r"span \(1, 3, 'y'\) overlaps \(0, 2, 'x'\) in 'abc'"),
    ],
)
def test_what_cannot_be_marked(raw: str, spans: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        markup.mark(raw, spans)


@settings(max_examples=examples(300), deadline=None)
@given(st.text("ab'’.[]()\\# \u3000é", max_size=20), st.data())
def test_marked_text_is_read_back(raw: str, data: st.DataObject) -> None:
    """Random spans between token borders of any text: the same tokens and spans are read."""
    assume(raw.strip())
    places = text.offsets(raw)
    borders = data.draw(st.lists(st.integers(0, len(places)), unique=True).map(sorted))
    label = data.draw(st.sampled_from(["x", "a b", "()", "[\\#]"]))
    chosen = [tags.Span(label, a, b) for a, b in zip(borders[::2], borders[1::2], strict=False)]
    spans = [(places[s.start][0], places[s.end - 1][1], label) for s in chosen]
    marked = markup.mark(raw, data.draw(st.permutations(spans)))
    tokens, labels = markup.read([marked])
    assert tokens == [text.tokenize(raw)]
    assert tags.spans(labels[0]) == chosen


# --- writing ------------------------------------------------------------------------------------

TOKEN = st.text(
    st.characters(codec="utf-8", exclude_characters="\0") | st.sampled_from("[]()\\#"),
    min_size=1,
    max_size=4,
)
TOKENS = TOKEN.filter(lambda token: len(token.split()) == 1 and token.strip() == token)
LABELS = TOKEN.filter(lambda label: label.strip() == label and "\n" not in label and label != "O")


@st.composite
def corpora(draw: st.DrawFn) -> tuple[str, list[list[str]], list[list[str]]]:
    """A scheme, sequences, and tags that mark random spans of them."""
    scheme = draw(st.sampled_from(tags.SCHEMES))
    X = draw(st.lists(st.lists(TOKENS, min_size=1, max_size=5), max_size=4))
    y = []
    for tokens in X:
        size = len(tokens)
        if scheme == "plain":
            y.append(draw(st.lists(LABELS | st.just("O"), min_size=size, max_size=size)))
            continue
        borders = draw(st.lists(st.integers(0, size), unique=True).map(sorted))
        spans = [(draw(LABELS), a, b) for a, b in pairwise(borders) if draw(st.booleans())]
        y.append(tags.from_spans(spans, size, scheme))
    return scheme, X, y


@settings(max_examples=examples(300), deadline=None)
@given(corpora())
def test_written_lines_are_read_back(corpus: tuple[str, list[list[str]], list[list[str]]]) -> None:
    scheme, X, y = corpus
    file = io.BytesIO()
    markup.write(file, X, y, scheme)
    file.seek(0)
    assert markup.read(file, scheme=scheme, split=True) == (X, y)


def test_written_text(tmp_path: Path) -> None:
    X = [["At", "Chez", "Ana", "(", "8", "pm", ")"], ["#", "1"], ["#"]]
    y = [["O", "B-name", "I-name", "O", "B-time", "I-time", "O"], ["O", "O"], ["O"]]
    file = io.StringIO()
    markup.write(file, X, y)
    assert file.getvalue() == "At [Chez Ana](name) \\( [8 pm](time) \\)\n\\# 1\n#\n"
    path = tmp_path / "corpus.txt.gz"
    markup.write(path, X, y)
    assert markup.read(path) == (X, y)


def test_plain_labels_are_marked_one_by_one() -> None:
    file = io.StringIO()
    markup.write(file, [["a", "b", "c"]], [["X", "X", "O"]], scheme="plain")
    assert file.getvalue() == "[a](X) [b](X) c\n"
    markup.write(file := io.StringIO(), [["a", "b", "c"]], [["B-X", "I-X", "B-X"]])
    assert file.getvalue() == "[a b](X) [c](X)\n"


@pytest.mark.parametrize(
    ("sequences", "labels", "message"),
    [
        ([["a"]], [], "X has 1 sequences but y has 0"),
        ([["a"]], [["O", "O"]], "sequence 0 has 1 tokens but 2 labels"),
        ([["a"]], None, "y is None"),
        ([["a"], []], [["O"], []], "sequence 1 is empty: it would be a blank line"),
        (
            [["a"], ["b", "c d"]],
            [["O"], ["O", "O"]],
            "sequence 1, position 1: 'c d' is empty",
        ),
        (
            [["a", "b\u2028"]],
            [["O", "O"]],
            r"sequence 0, position 1: 'b\\u2028' is empty",
        ),
        ([["a", ""]], [["O", "O"]], "sequence 0, position 1: '' is empty, or contains white space"),
        (
            [[("a", "N")]],
            [["O"]],
            r"position 0: \('a', 'N'\) has several columns",
        ),
        ([[5]], [["O"]], "sequence 0, position 0: 5 is int, not str"),
        (
            [["a", "b"]],
            [["O", "I-X"]],
            "sequence 0, position 1: label 'I-X' would be read as 'B-",
        ),
        ([["a", "b"]], [["O", "X"]], "sequence 0, position 1: 'X' is not a tag of scheme BIO"),
        ([["a", "b"]], [["O", 3]], "sequence 0, position 1: 3 is not a tag"),
        ([["a", "b"]], [["O", "B"]], "sequence 0, position 1: the label is empty"),
        ([["a", "b"]], [["O", "B-X "]], "sequence 0, position 1: label 'X ' contains"),
        (
            [["a", "b"]],
            [["O", "B-X\nY"]],
            r"sequence 0, position 1: label 'X\\nY' contains a line",
        ),
        ([["\udc80"]], [["O"]], "sequence 0 cannot be written"),
    ],
)
def test_unreadable_data_are_not_written(sequences: Any, labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        markup.write(io.BytesIO(), sequences, labels)
