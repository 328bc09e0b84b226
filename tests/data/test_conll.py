"""Column files: rows, comments, columns, and the message of every mistake."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus_files import find_corpus, missing_corpus
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.data import conll
from trellis.errors import FormatError, InputError

# --- rows and columns ---------------------------------------------------------------------------


def test_one_observation_column_gives_strings_several_give_tuples() -> None:
    assert conll.read(["a O", "b B-X"]) == ([["a", "b"]], [["O", "B-X"]])
    assert conll.read(["a N O"]) == ([[("a", "N")]], [["O"]])
    assert conll.read(["a N O"], columns=[0]) == ([["a"]], [["O"]])
    assert conll.read(["a N O"], columns=(1, 0)) == ([[("N", "a")]], [["O"]])


def test_columns_are_chosen_from_either_end() -> None:
    row = ["word pos chunk label"]
    assert conll.read(row, label_column=1, columns=[-1, 0]) == ([[("label", "word")]], [["pos"]])
    assert conll.read(row, label_column=-2) == ([[("word", "pos", "label")]], [["chunk"]])
    assert conll.read(row, label_column=0, columns=[-1]) == ([["label"]], [["word"]])


def test_unlabelled() -> None:
    assert conll.read(["a", "b", "", "c"], label_column=None) == ([["a", "b"], ["c"]], None)
    assert list(conll.iterate(["a N"], label_column=None)) == [([("a", "N")], None)]


def test_empty_and_blank_files() -> None:
    for lines in ([], [""], ["", " \t", "\r\n", "\n"]):
        assert conll.read(lines) == ([], [])
    assert conll.read([], label_column=None) == ([], None)


def test_sequences_end_at_blank_lines_and_at_the_end() -> None:
    lines = ["", "", "a O", " \t ", "", "", "b O", "c O"]
    assert conll.read(lines)[0] == [["a"], ["b", "c"]]
    assert conll.read([*lines, "", ""])[0] == [["a"], ["b", "c"]]


def test_byte_order_mark_crlf_and_trailing_white_space() -> None:
    file = io.BytesIO("\ufeffa N O  \r\nb\xa0b N O\t\r\n\r\n".encode())
    assert conll.read(file) == ([[("a", "N"), ("b\xa0b", "N")]], [["O", "O"]])


def test_spaces_separate_in_runs_and_nothing_else_does() -> None:
    assert conll.read(["  a   N  O"]) == ([[("a", "N")]], [["O"]])
    odd = "x\xa0y\u2028z\x0bw\u3000v\x85u"
    assert conll.read([f"{odd} O"]) == ([[odd]], [["O"]])
    assert conll.read(io.BytesIO(f"{odd} O\n".encode())) == ([[odd]], [["O"]])


def test_tabs_keep_spaces_and_empty_values() -> None:
    assert conll.read(["New York\t\tB-LOC", " \tN\tO"]) == (
        [[("New York", ""), (" ", "N")]],
        [["B-LOC", "O"]],
    )


def test_a_row_with_tabs_in_a_file_without() -> None:
    assert conll.read(["a O", "New York\tB-LOC"])[0] == [["a", "New York"]]


def test_a_row_without_tabs_in_a_file_with_tabs_has_one_column() -> None:
    """Splitting it at the space would turn a missing label into a wrong one."""
    with pytest.raises(
        FormatError, match=r"^<list>, line 2: the row has 1 columns, but line 1 has 2: 'New Yo"
    ):
        conll.read(["a\tO", "New York"])


def test_explicit_separator() -> None:
    assert conll.read(["a,b,O", "c d,,O"], separator=",")[0] == [[("a", "b"), ("c d", "")]]
    assert conll.read(["a :: O"], separator=" :: ")[0] == [["a"]]
    with pytest.raises(FormatError, match=r"line 2: the row has 3 columns, but line 1 has 2"):
        conll.read(["a O", "b  O"], separator=" ")


def test_repeated_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["a O", "b I", "a O", "", "c O", "a O", "b I"]
    expected = ([["a", "b", "a"], ["c", "a", "b"]], [["O", "I", "O"], ["O", "O", "I"]])
    assert conll.read(lines) == expected
    monkeypatch.setattr(conll, "_MAX_CACHED_ROWS", 1)
    assert conll.read(lines) == expected


# --- comments and documents ---------------------------------------------------------------------


def test_comments_of_a_tab_separated_file() -> None:
    lines = ["# newdoc", "", "# id = 1", "a\tO", "# in between", "#\tO", "# b\tO", "#c\tO"]
    assert conll.read(lines) == ([["a", "#", "# b", "#c"]], [["O"] * 4])


def test_a_file_with_spaces_has_no_comments() -> None:
    lines = ["# # B-NP", "5 CD I-NP"]
    assert conll.read(lines) == ([[("#", "#"), ("5", "CD")]], [["B-NP", "I-NP"]])
    assert conll.read(["# O"]) == ([["#"]], [["O"]])
    with pytest.raises(FormatError, match="line 2: the row has 2 columns, but line 1 has 3"):
        conll.read(["a N O", "# comment"])


def test_comments_of_a_single_column() -> None:
    lines = ["# newdoc", "#", "#tag"]
    with pytest.raises(FormatError, match="line 2: the row has 1 columns, but line 1 has 2"):
        conll.read(lines, label_column=None)
    assert conll.read(lines, label_column=None, separator="\t") == ([["#", "#tag"]], None)


def test_nothing_but_comments() -> None:
    assert conll.read(["# newdoc"], separator="\t") == ([], [])
    assert conll.read(["# newdoc"]) == ([["#"]], [["newdoc"]])


@pytest.mark.parametrize("tab", [" ", "\t"])
def test_docstart_ends_a_sequence_and_is_skipped_by_default(tab: str) -> None:
    rows = ["-DOCSTART- -X- O", "", "a N O", "-DOCSTART- -X- O", "b N O"]
    lines = [row.replace(" ", tab) for row in rows]
    assert conll.read(lines) == ([[("a", "N")], [("b", "N")]], [["O"], ["O"]])
    sequences, y = conll.read(lines, columns=[0], docstart=True)
    assert sequences == [["-DOCSTART-"], ["a"], ["-DOCSTART-"], ["b"]]
    assert y == [["O"]] * 4


def test_skipped_docstart_may_have_any_columns() -> None:
    lines = ["-DOCSTART-", "", "a N O"]
    assert conll.read(lines)[0] == [[("a", "N")]]
    with pytest.raises(FormatError, match="line 1: the label leaves no column"):
        conll.read(lines, docstart=True)


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (
            ["a N O", "b O"],
            {},
            r"line 2: the row has 2 columns, but line 1 has 3: 'b O'; the label",
        ),
        (
            ["", "a O", "", "b N O"],
            {},
            r"line 4: the row has 3 columns, but line 2 has 2",
        ),
        (
            ["a O"],
            {"label_column": 2},
            r"line 1: label_column: column 2 does not exist; the row has 2 columns",
        ),
        (["a O"], {"label_column": -3}, r"line 1: label_column: column -3 does not exist"),
        (
            ["a O"],
            {"columns": [0, 2]},
            r"line 1: columns: column 2 does not exist; the row has 2 columns",
        ),
        (["a O"], {"columns": [0, 1]}, r"column 1 is used as token and as label"),
        (["a O"], {"columns": [-2], "label_column": 0}, r"column 0 is used as token and"),
        (["", "a"], {}, r"line 2: the label leaves no column for the token; the row has 1 columns"),
        (
            ["a\tO\tx", "a\t\tx"],
            {"label_column": 1},
            r"line 2: the label is empty \(label_column=1\): 'a\\t\\t",
        ),
    ],
)
def test_a_bad_file_is_named_with_line_and_columns(
    lines: list[str], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.conll"
    path.write_text("\n".join(lines), encoding="utf-8")
    for read in (conll.read, lambda *a, **k: list(conll.iterate(*a, **k))):
        with pytest.raises(FormatError, match=message) as caught:
            read(path, **options)
        assert str(caught.value).startswith(f"{path}, line ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_column": "pos"}, "label_column must be the index of a column, not 'pos'"),
        ({"label_column": True}, "label_column must be the index of a column, not True"),
        ({"label_column": 1.0}, "label_column must be the index of a column, not 1.0"),
        ({"columns": []}, "columns is empty"),
        ({"columns": "01"}, "columns must be a list of column indices, not '01'"),
        ({"columns": 1}, "columns must be a list of column indices, not 1"),
        ({"columns": [0, None]}, r"columns\[1\] must be the index of a column, not None"),
        ({"separator": ""}, "separator must be .* not ''"),
        ({"separator": "\n"}, r"separator must be .* not '\\n'"),
        ({"separator": 9}, "separator must be .* not 9"),
        ({"encoding": "utf-9"}, "utf-9"),
        ({"encoding": "hex"}, "hex"),
        ({"errors": "forgive"}, "forgive"),
    ],
)
def test_bad_options_are_named_before_anything_is_read(
    options: dict[str, Any], message: str
) -> None:
    def fail_if_read() -> Iterator[str]:
        pytest.fail("was read")
        yield ""

    with pytest.raises(InputError, match=message):
        conll.iterate(fail_if_read(), **options)
    with pytest.raises(InputError, match=message):
        conll.read(fail_if_read(), **options)


def test_long_lines_are_shortened_in_errors() -> None:
    with pytest.raises(FormatError) as caught:
        conll.read(["a O", "b" * 10_000])
    assert len(str(caught.value)) < 200


# --- streaming ----------------------------------------------------------------------------------


def test_iterate_reads_lazily() -> None:
    yielded = []

    def lines() -> Iterator[str]:
        for i in range(100):
            yielded.append(i)
            yield from ("a O", "")

    next(conll.iterate(lines()))
    assert len(yielded) <= 3


def test_iterate_takes_constant_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conll, "_MAX_CACHED_ROWS", 1000)

    def peak(n: int) -> int:
        lines = (f"word{i} O" if i % 9 else "" for i in range(n))
        tracemalloc.start()
        for _ in conll.iterate(lines):
            pass
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(40_000) < 1.5 * peak(4_000)


# --- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_written_files_are_read_back(tmp_path: Path, suffix: str) -> None:
    sequences = [[("New York", "N"), ("#", "é")], [("\u2028", " ")]]
    y = [["B-LOC", "O"], ["O"]]
    path = tmp_path / f"corpus.conll{suffix}"
    conll.write(path, sequences, y)
    assert conll.read(path) == (sequences, y)
    assert conll.read(str(path)) == (sequences, y)
    packed = path.read_bytes()
    assert packed.startswith({".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ", "": b"New York\tN"}[suffix])


def test_a_first_token_that_looks_like_a_byte_order_mark_is_kept() -> None:
    file = io.BytesIO()
    conll.write(file, [["\ufeff", "\ufeff"]], [["O", "O"]])
    file.seek(0)
    assert conll.read(file)[0] == [["\ufeff", "\ufeff"]]


def test_written_to_open_files() -> None:
    text, binary = io.StringIO(), io.BytesIO()
    for file in (text, binary):
        conll.write(file, [["é", "b"]], [["O", "I"]])
        assert not file.closed
    assert text.getvalue() == binary.getvalue().decode() == "é\tO\nb\tI\n\n"


@pytest.mark.parametrize(
    ("sequences", "y", "message"),
    [
        ([["a"]], [], "X has 1 sequences but y has 0"),
        ([["a"], ["b", "c"]], [["O"], ["O"]], "sequence 1 has 2 tokens but 1 labels"),
        ([["a"], []], [["O"], []], "sequence 1 is empty"),
        (
            [["a", ("b", "N")]],
            [["O", "O"]],
            "sequence 0, position 1: the row has 3 columns, but earlier rows have 2",
        ),
        ([["a\tb"]], [["O"]], r"sequence 0, position 0: 'a\\tb' contains a tab"),
        ([["a\rb"]], [["O"]], r"'a\\rb' contains a tab, a line break or a zero byte"),
        ([["a"]], [["O\n"]], r"'O\\n' contains a tab, a line break or a zero byte"),
        ([["a"]], [[""]], "'' is empty or ends with white space"),
        ([["a"]], [["O "]], "'O ' is empty or ends with white space"),
        ([["a"]], [[None]], "None is NoneType, not str"),
        ([[{"w": 1.0}]], [["O"]], "{'w': 1.0} is dict, not str"),
        ([[1]], None, "1 is int, not str"),
        ([["New York"]], None, "'New York' contains a space, but is the only column"),
        ([[""]], None, "'' is empty"),
        (
            [["a", "-DOCSTART-"]],
            [["O", "O"]],
            "'-DOCSTART-' is always a separate sequence",
        ),
        ([["a"], ["\ud800"]], [["O"], ["O"]], "sequence 1 cannot be written: .*surrogate"),
    ],
)
def test_unreadable_data_are_not_written(sequences: Any, y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        conll.write(io.BytesIO(), sequences, y)


def test_a_target_is_a_path_or_a_file() -> None:
    with pytest.raises(InputError, match="target must be a path or an open file, not list"):
        conll.write([], [["a"]], [["O"]])  # type: ignore[arg-type]


VALUES = st.text(
    st.characters(codec="utf-8", exclude_characters="\t\r\n")
    | st.sampled_from(" #-\ufeff\xa0\u2028\x85\x0b"),
    max_size=6,
)


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[list[conll.Token]], list[list[str]] | None]:
    width = draw(st.integers(1, 3))
    token: st.SearchStrategy[Any] = st.tuples(*[VALUES] * width) if width > 1 else VALUES
    sequences = draw(st.lists(st.lists(token, min_size=1, max_size=4), max_size=4))
    if not draw(st.booleans()):
        return sequences, None
    labels = [draw(st.lists(VALUES, min_size=len(x), max_size=len(x))) for x in sequences]
    return sequences, labels


@settings(max_examples=examples(200), deadline=None)
@given(corpora())
def test_everything_written_is_read_back_unchanged(corpus: Any) -> None:
    sequences, y = corpus
    file = io.BytesIO()
    try:
        conll.write(file, sequences, y)
    except InputError:
        assume(False)
    file.seek(0)
    label_column = None if y is None else -1
    assert conll.read(file, label_column=label_column, docstart=True) == (sequences, y)


@settings(max_examples=examples(150), deadline=None)
@given(st.text("ab#- \t\r\n\ufeffO", max_size=40), st.sampled_from([None, -1, 0]))
def test_any_text_is_read_or_a_format_error(text: str, label_column: int | None) -> None:
    """The only error is a FormatError that names a line; sequences are never empty."""
    try:
        sequences, y = conll.read(io.StringIO(text), label_column=label_column)
    except FormatError as error:
        assert "line " in str(error)  # noqa: PT017
    else:
        assert all(sequences)
        assert y is None or list(map(len, sequences)) == list(map(len, y))


# --- real corpora -------------------------------------------------------------------------------

COUNTS = {
    "chunking/conll2000.train": (8_936, 211_727, 22),
    "chunking/conll2000.test": (2_012, 47_377, 19),
    "ner/conll2002-es.testb": (1_517, 51_533, 9),
    "ner/conll2002-nl.testa": (2_895, 37_687, 9),
    "ner/wnut17.test": (1_287, 23_394, 13),
    "slots/snips.test": (700, 6_802, 69),
    "addresses/usaddress.test": (4_968, 26_834, 25),
    "pos/brown.test": (5_734, 115_685, 277),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_real_corpora(name: str) -> None:
    path = find_corpus(f"{name}.conll.gz")
    if not path.exists():
        pytest.skip(missing_corpus(f"{name}.conll.gz"))
    sequences, y = conll.read(path)
    labels = {label for sequence in y for label in sequence}
    assert (len(sequences), sum(map(len, sequences)), len(labels)) == COUNTS[name]
    assert list(conll.iterate(path)) == list(zip(sequences, y, strict=True))
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if "\t" in line]
    flat = [t if isinstance(t, tuple) else (t,) for x in sequences for t in x]
    assert flat == [tuple(row[:-1]) for row in rows]
    assert [label for sequence in y for label in sequence] == [row[-1] for row in rows]
