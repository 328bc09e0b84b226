"""JSON lines: tokens with tags, and texts whose character spans become tags."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.data import jsonl, tags, text
from trellis.errors import FormatError, InputError


def with_spans(raw: str, *spans: Any) -> str:
    return json.dumps({"text": raw, "spans": spans})


# --- reading ------------------------------------------------------------------------------------


def test_tokens_and_tags() -> None:
    lines = ['{"tokens": ["a", "b"], "tags": ["O", "X"], "id": 7}', "", " \t", "\r\n"]
    assert jsonl.read(lines) == ([["a", "b"]], [["O", "X"]])
    assert list(jsonl.iterate(lines)) == [(["a", "b"], ["O", "X"])]


def test_tokens_of_several_columns() -> None:
    assert jsonl.read(['{"tokens": [["a", "N"]], "tags": ["O"]}']) == ([[("a", "N")]], [["O"]])


def test_tokens_take_precedence_over_text() -> None:
    line = '{"tokens": ["a"], "tags": ["O"], "text": "b", "spans": [[0, 1, "X"]]}'
    assert jsonl.read([line]) == ([["a"]], [["O"]])


def test_empty_input() -> None:
    assert jsonl.read([]) == ([], [])
    assert jsonl.read([with_spans("")]) == ([[]], [[]])
    assert jsonl.read([with_spans("a b")]) == ([["a", "b"]], [["O", "O"]])


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("BIO", ["B-LOC", "I-LOC", "B-LOC", "O", "B-PER"]),
        ("IOB1", ["I-LOC", "I-LOC", "B-LOC", "O", "I-PER"]),
        ("BILOU", ["B-LOC", "L-LOC", "U-LOC", "O", "U-PER"]),
        ("BIOES", ["B-LOC", "E-LOC", "S-LOC", "O", "S-PER"]),
    ],
)
def test_spans_become_tags_of_a_scheme(scheme: str, expected: list[str]) -> None:
    spans = [
        {"start": 18, "end": 21, "label": "PER", "score": 0.5},  # in any order
        [0, 8, "LOC"],
        {"start": 9, "end": 14, "label": "LOC"},
    ]
    tokens, labels = jsonl.read([with_spans("New York Paris to Ann", *spans)], scheme=scheme)
    assert tokens == [["New", "York", "Paris", "to", "Ann"]]
    assert labels == [expected]


def test_offsets_count_characters_and_ignore_white_space_at_the_ends() -> None:
    raw = "\N{EARTH GLOBE EUROPE-AFRICA}  Zürich,"
    place = raw.index("Z")
    for start, end in [(place, place + 6), (place - 1, place + 6)]:
        assert jsonl.read([with_spans(raw, [start, end, "LOC"])])[1] == [["O", "B-LOC", "O"]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"not JSON: .*: '{'"),
        ("[" * 200_000, r"not JSON: .*recursion"),
        ('{"a": ' + "9" * 5000 + "}", r"not JSON: .*digits"),
        ("[1]", r"not a JSON object: '\[1\]'"),
        ('"text"', "not a JSON object"),
        ("{}", 'neither "tokens" with "tags" nor a string "text"'),
        ('{"text": ["a"]}', 'nor a string "text" with "spans"'),
        ('{"tokens": ["a"]}', '"tags" is missing'),
        ('{"tokens": "a", "tags": ["O"]}', '"tokens" is not a list'),
        ('{"text": "a"}', '"spans" is missing'),
        ('{"text": "a", "spans": {}}', '"spans" is not a list'),
        ('{"tokens": ["a", "b"], "tags": ["O"]}', "2 tokens but 1 tags"),
        ('{"tokens": ["a", 1], "tags": ["O", "O"]}', "position 1: token 1 and label 'O'"),
        ('{"tokens": ["a", []], "tags": ["O", "O"]}', r"position 1: token \[\] and label 'O'"),
        ('{"tokens": [["a", 1]], "tags": ["O"]}', r"position 0: token \['a', 1\] and label 'O'"),
        ('{"tokens": ["a"], "tags": [null]}', "position 0: token 'a' and label None"),
        (r'{"tokens": ["\ud800"], "tags": ["O"]}', "escape is not a character: surrogates"),
        (with_spans("Newark", [0, 3, "LOC"]), r"span \[0, 3, 'LOC'\] cuts through 'Newark' in 'Ne"),
        (with_spans("in Newark", [4, 9, "LOC"]), r"span \[4, 9, 'LOC'\] cuts through 'Newark'"),
        (with_spans("New York", [0, 5, "LOC"]), r"span \[0, 5, 'LOC'\] cuts through 'York'"),
        (
            with_spans("New York City", [0, 8, "LOC"], [4, 13, "LOC"]),
            r"span \[4, 13, 'LOC'\] overlaps \[0, 8, 'LOC'\] in 'New York City'",
        ),
        (with_spans("a", [0, 1, "X"], [0, 1, "X"]), "overlaps"),
        (
            with_spans("a b", {"start": 0, "end": 4, "label": "X"}),
            r"span {'start': 0, 'end': 4, 'label': 'X'} is not inside the 3 characters in 'a b'",
        ),
        (with_spans("a b", [-1, 1, "X"]), "is not inside the 3 characters"),
        (with_spans("a b", [1, 1, "X"]), "is not inside"),
        (with_spans("a b", [1, 2, "X"]), r"span \[1, 2, 'X'\] covers no token in 'a b'"),
        (with_spans("a", [0, 1]), "is neither {start, end, label} nor"),
        (with_spans("a", "0-1"), "span 0-1 is neither"),
        (with_spans("a", [0, True, "X"]), "must have integers start and end"),
        (with_spans("a", [0.0, 1, "X"]), "must have integers start and end"),
        (with_spans("a", {"start": 0, "end": 1}), "must have integers start and end"),
        (with_spans("a", [0, 1, ""]), "must have integers start and end"),
    ],
)
def test_a_bad_line_is_named_with_span_and_text(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"tokens": ["a"], "tags": ["O"]}}\n\n{line}\n', encoding="utf-8")
    with pytest.raises(FormatError, match=message) as caught:
        jsonl.read(path)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert len(str(caught.value)) < 400


def test_spans_that_a_scheme_cannot_express() -> None:
    line = with_spans("a b", [0, 1, "X"], [2, 3, "X"])
    with pytest.raises(FormatError, match=r"^<list>, line 1: .*touch"):
        jsonl.read([line], scheme="plain")


def test_an_unknown_scheme_is_named_before_anything_is_read() -> None:
    with pytest.raises(InputError, match="BOI"):
        jsonl.iterate([], scheme="BOI")


@settings(max_examples=examples(150), deadline=None)
@given(st.text("ab'’.\n \u3000é", max_size=20), st.data())
def test_spans_of_complete_tokens_become_tags(raw: str, data: st.DataObject) -> None:
    """Random spans between token borders of any text: the tags mark exactly those spans."""
    places = text.offsets(raw)
    borders = data.draw(st.lists(st.integers(0, len(places)), unique=True).map(sorted))
    chosen = [tags.Span("X", a, b) for a, b in zip(borders[::2], borders[1::2], strict=False)]
    spans = [[places[s.start][0], places[s.end - 1][1], "X"] for s in chosen]
    tokens, labels = jsonl.read([with_spans(raw, *data.draw(st.permutations(spans)))])
    assert tokens == [text.tokenize(raw)]
    assert tags.spans(labels[0]) == chosen


# --- writing ------------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=5)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(ANY_TEXT | st.tuples(ANY_TEXT, ANY_TEXT), ANY_TEXT), max_size=4),
        max_size=4,
    )
)
def test_written_lines_are_read_back(corpus: list[list[tuple[Any, str]]]) -> None:
    sequences = [[token for token, _ in sequence] for sequence in corpus]
    labels = [[label for _, label in sequence] for sequence in corpus]
    file = io.BytesIO()
    jsonl.write(file, sequences, labels)
    file.seek(0)
    assert jsonl.read(file) == (sequences, labels)


def test_written_text(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl.xz"
    jsonl.write(path, [["é"]], [["O"]])
    assert jsonl.read(path) == ([["é"]], [["O"]])
    file = io.StringIO()
    jsonl.write(file, [["é"]], [["O"]])
    assert file.getvalue() == '{"tokens": ["é"], "tags": ["O"]}\n'


@pytest.mark.parametrize(
    ("sequences", "labels", "message"),
    [
        ([["a"]], [], "X has 1 sequences but y has 0"),
        ([["a"]], [["O", "O"]], "sequence 0 has 1 tokens but 2 labels"),
        ([["a"]], None, "y is None"),
        ([["a"], ["b", {"w": 1}]], [["O"], ["O", "O"]], "sequence 1, position 1: token {'w': 1}"),
        ([["a"]], [[0]], "sequence 0, position 0: token 'a' and label 0"),
        ([["\udc80"]], [["O"]], "sequence 0 cannot be written"),
    ],
)
def test_unreadable_data_are_not_written(sequences: Any, labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        jsonl.write(io.BytesIO(), sequences, labels)
