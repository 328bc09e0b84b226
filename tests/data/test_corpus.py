"""Files of all formats, detected by name or by content."""

from __future__ import annotations

import gzip
import io
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.data import corpus, samples
from trellis.data.corpus import Columns
from trellis.errors import FormatError, InputError

CONLL = "play O\nRome B-place\n\nstop O\n"
JSONL = (
    '{"tokens": ["play", "Rome"], "tags": ["O", "B-place"]}\n{"tokens": ["stop"], "tags": ["O"]}\n'
)
MARKUP = "play [Rome](place)\nstop\n"
CONLLU = (
    "# text = play Rome\n"
    "1\tplay\t_\tO\tVB\t_\t0\t_\t_\t_\n2\tRome\t_\tB-place\tNNP\t_\t1\t_\t_\t_\n"
    "\n1\tstop\t_\tO\tVB\t_\t0\t_\t_\t_\n\n"
)
EXPECTED = [["play", "Rome"], ["stop"]], [["O", "B-place"], ["O"]]
TEXTS = {"conll": CONLL, "jsonl": JSONL, "markup": MARKUP, "conllu": CONLLU}


# ---- which format


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.conll", "conll"),
        ("a.bio", "conll"),
        ("a.iob", "conll"),
        ("a.iob2", "conll"),
        ("a.tsv", "conll"),
        ("a.conllu", "conllu"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.md", "markup"),
        ("a.markup", "markup"),
        ("a.b.conll", "conll"),
        ("dir.md/a.conll", "conll"),
        ("A.CONLL", "conll"),
        ("a.Jsonl.GZ", "jsonl"),
        ("a.md.xz", "markup"),
    ],
)
def test_names(name: str, format: str) -> None:
    for labelled in (True, False):
        assert corpus.format_of(name, labelled) == format
    assert corpus.format_of(Path(name)) == format


@pytest.mark.parametrize(
    "name", ["a.txt", "a", "a.gz", "a.txt.gz", ".conll", "conll", "a.conll.bak"]
)
def test_other_names_are_text_if_there_are_no_labels(name: str) -> None:
    assert corpus.format_of(name, labelled=False) == "text"


@pytest.mark.parametrize(
    ("text", "format"),
    [
        (CONLL, "conll"),
        (JSONL, "jsonl"),
        (MARKUP, "markup"),
        ("\n \n\t{}", "jsonl"),
        ("\ufeff{}", "jsonl"),
        ("\ufeff\n[a](b)", "markup"),
        ("", "conll"),
        ("\n\n", "conll"),
        ("a ] ( O\n", "conll"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_first_lines(tmp_path: Path, text: str, format: str, pack: Any) -> None:
    (tmp_path / "odd").write_bytes(pack(text.encode()))
    assert corpus.format_of(tmp_path / "odd") == format


# ---- labelled files


@pytest.mark.parametrize("format", TEXTS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_read_every_format(tmp_path: Path, format: str, pack: Any) -> None:
    path = tmp_path / "odd"
    path.write_bytes(pack(TEXTS[format].encode()))
    assert corpus.read(path, format) == EXPECTED
    assert corpus.read(str(path), format) == EXPECTED


def test_columns_and_labels_are_chosen(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("O play VB\nB-place Rome NNP\n")
    expected = [["O", "B-place"]]
    assert corpus.read(path, columns=Columns((1,), "0")) == ([["play", "Rome"]], expected)
    assert corpus.read(path, columns=Columns((1, 2), "0")) == (
        [[("play", "VB"), ("Rome", "NNP")]],
        expected,
    )
    assert corpus.read(path, columns=Columns((2, 1), "-3")) == (
        [[("VB", "play"), ("NNP", "Rome")]],
        expected,
    )
    assert corpus.read(path, columns=Columns(None, "0"))[0] == [[("play", "VB"), ("Rome", "NNP")]]
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU)
    assert corpus.read(path, columns=Columns(None, "xpos"))[1] == [["VB", "NNP"], ["VB"]]


@pytest.mark.parametrize(
    ("format", "columns", "what"),
    [
        ("text", Columns(), "format must be one of conll, conllu, jsonl, markup here, not 'text'"),
        ("tokens", Columns(), "'tokens'"),
        ("csv", Columns(), "'csv'"),
        ("conll", Columns(None, "upos"), "--label is 'upos': must be the number of a column"),
        ("conllu", Columns(None, "3"), "3"),
        ("jsonl", Columns((0,)), "jsonl"),
        ("markup", Columns(None, "0"), "markup"),
        ("conll", Columns((5,)), "column 5"),
        ("conll", Columns((-1,)), "column"),
        ("conll", Columns(()), "column"),
    ],
)
def test_wrong_columns_for_a_format(
    tmp_path: Path, format: str, columns: Columns, what: str
) -> None:
    path = tmp_path / "odd"
    path.write_text(TEXTS.get(format, CONLL))
    with pytest.raises((InputError, FormatError), match=what):
        corpus.read(path, format, columns)


@pytest.mark.parametrize("format", TEXTS)
def test_a_file_without_a_sequence(tmp_path: Path, format: str) -> None:
    for text in ("", "\n", " \n\n"):
        (tmp_path / "odd").write_text(text)
        with pytest.raises(FormatError, match="odd: the file contains no sequence"):
            corpus.read(tmp_path / "odd", format)


@pytest.mark.parametrize("format", TEXTS)
@pytest.mark.parametrize("before", [0, 1 << 17])
def test_zero_bytes_are_an_error(tmp_path: Path, format: str, before: int) -> None:
    lines = TEXTS[format] * (1 + before // len(TEXTS[format]))
    (tmp_path / "odd").write_text(lines + TEXTS[format].replace("play", "pl\0ay"))
    number = lines.count("\n") + 1
    with pytest.raises(FormatError, match=rf"odd, line {number}: "):
        corpus.read(tmp_path / "odd", format)


# ---- what is to be labelled


def test_iterate_every_format() -> None:
    for format, data in [*TEXTS.items(), ("tokens", "play Rome\n\nstop\n")]:
        for source in (data.splitlines(), io.BytesIO(data.encode()), io.StringIO(data)):
            sequences = [*corpus.iterate(source, format, width=1)]
            assert [sequence.tokens for sequence in sequences] == EXPECTED[0]


def test_raw_text_keeps_its_blank_lines() -> None:
    sequences = [*corpus.iterate(["play Rome!", "", "  ", "stop"], "text", width=1)]
    assert [s.tokens for s in sequences] == [["play", "Rome", "!"], [], [], ["stop"]]
    assert [s.text for s in sequences] == ["play Rome!", "", "  ", "stop"]


def test_a_file_may_have_more_columns_than_the_model() -> None:
    lines = ["play\tVB\tx y", "Rome\tNNP\tz"]
    for width, tokens in ((1, ["play", "Rome"]), (2, [("play", "VB"), ("Rome", "NNP")])):
        (sequence,) = corpus.iterate(lines, "conll", width)
        assert sequence.tokens == tokens
        assert sequence.rows == lines
    (sequence,) = corpus.iterate(lines, "conll", 2, Columns((2, 0)))
    assert sequence.tokens == [("x y", "play"), ("z", "Rome")]
    (sequence,) = corpus.iterate(lines, "conll", 1, Columns((-2,)))
    assert sequence.tokens == ["VB", "NNP"]


@pytest.mark.parametrize(
    ("format", "lines", "width", "columns", "what"),
    [
        ("conll", ["play"], 2, None, "columns"),
        ("conll", ["play VB", "Rome"], 1, None, "line 2"),
        ("conll", ["play VB"], 1, Columns((0, 1)), "the model needs 1, but 2"),
        ("conll", ["play VB"], 1, Columns((2,)), "2"),
        ("conll", ["play VB"], 1, Columns((-3,)), "-3"),
        ("jsonl", ['{"tokens": ["a"]}', '{"tokens": [["a", "b"]]}'], 1, None, "sequence 2"),
        ("jsonl", ['{"tokens": ["a"]}'], 2, None, "2 columns"),
        ("jsonl", ['{"tokens": ["a"]}', "{"], 1, None, "line 2"),
        ("text", ["play"], 2, None, "2 columns"),
        ("tokens", ["play"], 2, None, "2 columns"),
        ("markup", ["play"], 2, None, "2 columns"),
        ("markup", ["play", "[a"], 1, None, "line 2"),
        ("csv", ["play"], 1, None, "'csv'"),
        ("text", ["pl\0ay"], 1, None, "line 1"),
    ],
)
def test_sequences_that_do_not_fit_the_model(
    format: str, lines: list[str], width: int, columns: Any, what: str
) -> None:
    data = io.BytesIO("\n".join(lines).encode())
    with pytest.raises((FormatError, InputError), match=what):
        list(corpus.iterate(data, format, width, columns))


def test_iterate_reads_lazily() -> None:
    """Later lines of a source are not read before they are needed."""

    def lines() -> Any:
        yield "play"
        yield ""
        yield "stop"
        yield ""
        raise AssertionError("read too far")

    for format in ("text", "tokens"):
        assert next(corpus.iterate(lines(), format, 1)).tokens == ["play"]
    sequences = corpus.iterate(lines(), "conll", 1)
    assert next(sequences).tokens == ["play"]


# ---- out and in again


@pytest.mark.parametrize("format", ["conll", "jsonl", "markup"])
def test_samples_are_read_back(tmp_path: Path, format: str) -> None:
    X, y = samples.load("all")
    for suffix in ("", ".gz", ".xz"):
        path = tmp_path / f"all{suffix}"
        corpus.write(path, X, y, format)
        again = corpus.read(path, format)
        assert again[1] == y or format == "markup"
        if format != "markup":
            assert again == (X, y)


@pytest.mark.parametrize("format", ["text", "tokens", "conllu", "csv"])
def test_formats_that_are_not_written(tmp_path: Path, format: str) -> None:
    with pytest.raises(InputError, match=f"'{format}'"):
        corpus.write(tmp_path / "a", *EXPECTED, format)
    assert not (tmp_path / "a").exists()


word = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=5)
label = st.sampled_from(["O", "B-x", "B-y z", "NOUN"])
columns = st.integers(1, 3)


@given(data=st.data(), width=columns)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
def test_any_corpus_is_read_back(tmp_path: Path, data: Any, width: int) -> None:
    token = word if width == 1 else st.tuples(*[word] * width)
    pairs = st.lists(st.tuples(token, label), min_size=1, max_size=4)
    sequences = data.draw(st.lists(pairs, min_size=1, max_size=4))
    X, y = ([[pair[k] for pair in row] for row in sequences] for k in (0, 1))
    corpus.write(tmp_path / "a", X, y, "jsonl")
    assert corpus.read(tmp_path / "a", "jsonl") == (X, y)
    if any(token == "-DOCSTART-" or token[0] == "-DOCSTART-" for x in X for token in x):
        return
    corpus.write(tmp_path / "a", X, y, "conll")
    assert corpus.read(tmp_path / "a", "conll") == (X, y)
    again = [*corpus.iterate(tmp_path / "a", "conll", width)]
    assert [sequence.tokens for sequence in again] == X


# ---- where a label is


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.conll", "B-x O\n\nb B-x\n", 3),
        ("a.conll", "B-x\tO\n\nb\tB-x\n", 3),
        ("a.conll", "a O\n", None),
        (
            "a.jsonl",
            '{"tokens": ["B-x"], "tags": ["O"]}\n\n{"tokens": ["b"], "tags": ["B-x"]}\n',
            3,
        ),
        ("a.jsonl", '{"text": "x", "spans": []}\n{"text": "x", "spans": [[0, 1, "x"]]}\n', 2),
        ("a.md", "# [a](x)\nx\nx [a](x)\n", 3),
        ("a.md", "a\\](x)\n[a](x)\n", 2),
        ("a.conllu", CONLLU.replace("B-place", "B-x"), 3),
        ("a.conllu", CONLLU.replace("VB", "B-x"), None),
    ],
)
def test_the_first_line_with_a_label(
    tmp_path: Path, name: str, text: str, line: int | None
) -> None:
    (tmp_path / name).write_text(text)
    assert corpus.line_with(tmp_path / name, "B-x") == line
    with gzip.open(tmp_path / f"{name}.gz", "wt") as file:
        file.write(text)
    assert corpus.line_with(tmp_path / f"{name}.gz", "B-x") == line


def test_the_line_of_a_label_in_a_chosen_column(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("a O B-x\nb B-x O\n")
    assert corpus.line_with(tmp_path / "a.conll", "B-x") == 1
    assert corpus.line_with(tmp_path / "a.conll", "B-x", columns=Columns((0,), "1")) == 2
    (tmp_path / "a.conllu").write_text(CONLLU)
    assert corpus.line_with(tmp_path / "a.conllu", "NNP", columns=Columns(None, "xpos")) == 3


@pytest.mark.parametrize("name", ["a.conll", "a.jsonl", "a.md"])
def test_numbered_sequences_are_those_of_read(tmp_path: Path, name: str) -> None:
    X, y = samples.load("test")
    corpus.write(tmp_path / name, X, y, corpus.format_by_name(name) or "")
    wrong: list[Any] = []
    numbered = [
        *corpus.iterate_numbered(
            tmp_path / name,
            lambda *problem: wrong.append(problem),
            corpus.format_by_name(name) or "",
        )
    ]
    assert wrong == []
    assert ([n.tokens for n in numbered], [n.labels for n in numbered]) == corpus.read(
        tmp_path / name
    )
    lines = (tmp_path / name).read_text(encoding="utf-8").split("\n")
    for sequence in numbered:
        assert sequence.line == sequence.lines[0]
        for token, label, line in zip(
            sequence.tokens, sequence.labels, sequence.lines, strict=True
        ):
            assert token in lines[line - 1]
            assert label[2:] in lines[line - 1]


def test_numbered_sequences_without_errors_in_the_rest() -> None:
    """A wrong line costs one line, in every format."""
    ids = "\t_\t_\t_\t_\t0\troot\t_\t_"
    for format, lines, expected in (
        ("conll", ["a O", "", "b", "c O"], [(3, ["", "O"])]),
        ("conllu", [f"1\ta{ids}", "", f"3\tb{ids}", f"2\tc{ids}"], [(3, ["", "_"])]),
        ("jsonl", ['{"tokens": ["a"], "tags": ["O"]}', "", "{", ""], []),
        ("markup", ["a", "", "[b"], []),
    ):
        wrong: list[int] = []
        first, *rest = corpus.iterate_numbered(
            lines, lambda line, _, to=wrong: to.append(line), format
        )
        assert (first.tokens, first.lines) == (["a"], [1])
        assert [(r.line, r.labels) for r in rest] == expected
        assert wrong == [3]
