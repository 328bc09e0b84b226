"""Item 12: ``trellis check`` lists the mistakes of labelled data, and sets the exit code."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_files import find_corpus, needs_corpus

from trellis.app.cli.main import run_command
from trellis.data import corpus, samples

Check = Callable[..., tuple[int, Any]]

GOOD = "".join(f"Ann{n} B-PER\nLee I-PER\nsings O\nin O\nRome{n} B-LOC\n\n" for n in range(20))


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Check:
    """Return ``check({"a.conll": text}, …)`` → (exit code, the record that --json prints)."""
    monkeypatch.chdir(tmp_path)

    def call(files: dict[str, str | bytes], *options: str) -> tuple[int, Any]:
        for name, content in files.items():
            (tmp_path / name).write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
        code = run_command(["check", *files, *options, "--json"])
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if captured.out else captured.err

    return call


def findings(record: Any, name: str) -> list[Any]:
    return [finding for finding in record["findings"] if finding["check"] == name]


def lines_of(record: Any, name: str) -> list[int]:
    return [example["line"] for f in findings(record, name) for example in f["examples"]]


def test_a_clean_corpus(check: Check) -> None:
    code, record = check({"train.conll": GOOD})
    assert code == 0
    assert (record["findings"], record["problems"], record["notes"]) == ([], 0, 0)
    assert record["scheme"] == "BIO"
    assert record["files"] == [
        {
            "file": "train.conll",
            "format": "conll",
            "sequences": 20,
            "tokens": 100,
            "labels": 4,
            "longest": 5,
        }
    ]


def test_notes_change_the_exit_code_only_with_strict(check: Check) -> None:
    files = {"train.conll": GOOD + "Ann0 B-PER\nLee I-PER\nsings O\nin O\nRome0 B-LOC\n"}
    code, record = check(files)
    assert (code, record["problems"], record["notes"]) == (0, 0, 1)
    assert lines_of(record, "duplicates") == [121]
    assert findings(record, "duplicates")[0]["examples"][0]["text"] == "as in line 1"
    assert check(files, "--strict")[0] == 1
    assert check(files, "--strict", "--skip", "duplicates")[0] == 0


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("B-PRE", "PER"),
        ("b-PER", "B-PER"),
        ("B-PER\u00a0", "B-PER"),
        ("B_PER", "B-PER"),
        ("0", "O"),
    ],
)
def test_misspelt_labels(check: Check, wrong: str, meant: str) -> None:
    code, record = check({"a.conll": f"{GOOD}\nBob\t{wrong}\n".replace(" ", "\t")})
    assert code == 1
    (finding,) = findings(record, "spelling")
    assert finding["message"].startswith(f"label {wrong!r} may be misspelt")
    assert repr(meant) in finding["message"]
    assert finding["examples"] == [{"file": "a.conll", "line": 122, "text": repr(wrong)}]


def test_scheme_errors_have_line_numbers(check: Check) -> None:
    code, record = check({"a.conll": GOOD + "now O\nRome I-LOC\n\nLee I-PER\n\nx Z-LOC\n"})
    assert code == 1
    (finding,) = findings(record, "scheme")
    assert finding["count"] == 3
    assert [(e["line"], e["text"]) for e in finding["examples"]] == [
        (122, "'I-LOC' cannot follow 'O'"),
        (124, "'I-PER' cannot be the first tag of a sequence"),
        (126, "'Z-LOC' is not a tag of scheme BIO"),
    ]


def test_the_end_of_a_sequence_may_break_a_scheme(check: Check) -> None:
    good = "a B-X\nb E-X\nc S-X\nd O\n\n" * 20
    code, record = check({"a.conll": good + "e B-X\n"}, "--skip", "duplicates")
    assert (code, record["scheme"]) == (1, "BIOES")
    assert findings(record, "scheme")[0]["examples"] == [
        {"file": "a.conll", "line": 101, "text": "'B-X' cannot be the last tag of a sequence"}
    ]


def test_rows_that_cannot_be_read_do_not_end_the_check(check: Check) -> None:
    """The first row is the wrong one: the width is the most frequent one."""
    code, record = check({"a.conll": "alone\n\n" + GOOD + "x O y\n\nLee I-PER\n"})
    assert code == 1
    assert lines_of(record, "rows") == [1, 123]
    assert "the row has 3 columns, but line 3 has 2" in str(findings(record, "rows"))
    assert lines_of(record, "scheme") == [125]


def test_a_wrong_row_causes_no_scheme_error(check: Check) -> None:
    _, record = check({"a.conll": GOOD + "Ann B-PER\nvan I-PER x\nLee I-PER\n"})
    assert lines_of(record, "rows") == [122]
    assert findings(record, "scheme") == []


def test_overlap_of_train_and_test(check: Check) -> None:
    test = "a O\n\nAnn3 X\nLee X\nsings X\nin X\nRome3 X\n\nb O\n"
    code, record = check({"train.conll": GOOD, "test.conll": test})
    assert code == 1
    (finding,) = findings(record, "overlap")
    assert finding["count"] == 1
    assert "33.3 % of the sequences" in finding["message"]
    (example,) = finding["examples"]
    assert (example["line"], example["text"]) == (3, "also in train.conll:19")
    (unseen,) = findings(record, "unseen")
    assert unseen["examples"] == [{"file": "test.conll", "line": 3, "text": "'X'"}]


def test_overlap_of_short_sequences_is_a_note(check: Check) -> None:
    code, record = check({"a.conll": "yes O\n. O\n\n" + GOOD, "b.conll": "yes O\n. O\n"})
    assert code == 0
    assert findings(record, "overlap")[0]["level"] == "note"


def test_contradictory_labels(check: Check) -> None:
    _, record = check({"a.conll": GOOD + "Ann0 O\nLee O\nsings O\nin O\nRome0 O\n"})
    assert lines_of(record, "contradictions") == [121]
    assert lines_of(record, "duplicates") == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a\u200bb", "ZERO WIDTH SPACE"),
        ("10\u00a0000", "NO-BREAK SPACE"),
        ("\ufeffRome", "ZERO WIDTH NO-BREAK SPACE"),
        ("co\u00adop", "SOFT HYPHEN"),
        ("\u202eabc", "RIGHT-TO-LEFT OVERRIDE"),
        ("a\u200db", "ZERO WIDTH JOINER"),
    ],
)
def test_invisible_characters(check: Check, text: str, name: str) -> None:
    code, record = check({"a.conll": f"{GOOD}{text} O\n"})
    assert code == 1
    (example,) = findings(record, "characters")[0]["examples"]
    assert example["line"] == 121
    assert name in example["text"]
    assert text not in example["text"]


@pytest.mark.parametrize("text", ["می\u200cخواهم", "क्\u200dष", "👩\u200d🚀", "❤\ufe0f", "中文"])
def test_characters_that_spelling_needs(check: Check, text: str) -> None:
    code, record = check({"a.conll": f"{GOOD}{text} O\n"})
    assert (code, record["findings"]) == (0, [])


def test_mixture_of_normal_forms(check: Check) -> None:
    composed, decomposed = "caf\u00e9 O\n\n" * 3, "cafe\u0301 O\n"
    code, record = check({"a.conll": GOOD + composed, "b.conll": decomposed}, "--skip", "overlap")
    assert code == 1
    (finding,) = findings(record, "normalization")
    assert finding["message"] == "b.conll: tokens are not NFC, but 3 tokens are NFC"
    assert [e["line"] for e in finding["examples"]] == [1]
    for text in (composed, decomposed):
        assert check({"a.conll": GOOD + text})[0] == 0


def test_bytes_that_are_not_utf_8(check: Check) -> None:
    code, record = check({"a.conll": GOOD.encode() + b"caf\xe9 O\n\nLee I-PER\n"})
    assert code == 1
    assert lines_of(record, "characters") == [121]
    assert "\\xe9" in findings(record, "characters")[0]["examples"][0]["text"]
    assert lines_of(record, "scheme") == [123]


def test_empty_and_long_sequences(check: Check) -> None:
    rows = [{"tokens": [f"w{n}"], "tags": ["O"]} for n in range(9)]
    rows += [{"tokens": [], "tags": []}, {"tokens": ["x"] * 300, "tags": ["O"] * 300}]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    code, record = check({"a.jsonl": content})
    assert code == 1
    assert [(f["level"], f["examples"][0]["line"]) for f in findings(record, "length")] == [
        ("problem", 10),
        ("note", 11),
    ]
    assert lines_of(check({"a.jsonl": content}, "--max-tokens", "300")[1], "length") == [10]


def test_rare_labels(check: Check) -> None:
    _, record = check({"a.conll": GOOD + "x B-MISC\ny I-MISC\n"})
    (finding,) = findings(record, "rare")
    assert finding["level"] == "note"
    assert finding["examples"] == [
        {"file": "a.conll", "line": 121, "text": "'MISC' occurs 2 times"}
    ]
    assert not findings(check({"a.conll": GOOD + "x B-MISC\n"}, "--min-count", "1")[1], "rare")


def test_a_wrong_label_column(check: Check) -> None:
    rows = "".join(f"word{n} O\n" for n in range(3000))
    code, record = check({"a.conll": rows}, "--label", "0", "--columns", "1")
    assert code == 1
    assert "--label" in findings(record, "labels")[0]["message"]


def test_files_with_another_number_of_columns(check: Check) -> None:
    code, record = check({"a.conll": GOOD, "b.conll": "x NN O\n"})
    assert code == 1
    assert "tokens have 2 columns, expected 1" in findings(record, "rows")[0]["message"]


CONLLU = "1\tAnn\tAnn\tPROPN\tNNP\t_\t0\troot\t_\t_\n"


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.conllu", f"# text\n{CONLLU}\n{CONLLU}2\tx\n\n{CONLLU}", 5),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"]}\n{"tokens": ["a"]}\n[]\n', 2),
        ("a.md", "call [Ann](person)\ncall [Ann\n", 2),
        ("a.data", "call [Ann](person)\ncall [Ann\n", 2),
        ("a.conll", "# c\tO\na\tO\nb\n", 3),
    ],
)
def test_every_format(check: Check, name: str, content: str, line: int) -> None:
    code, record = check({name: content})
    assert code == 1
    assert lines_of(record, "rows")[0] == line


def test_columns_of_conllu(check: Check) -> None:
    _, record = check({"a.conllu": CONLLU}, "--label", "xpos")
    assert findings(record, "rare")[0]["examples"][0]["text"] == "'NNP' occurs 1 times"


def test_compressed_files(check: Check) -> None:
    code, record = check({"a.conll.gz": gzip.compress((GOOD + "Lee I-PER\n").encode())})
    assert code == 1
    assert lines_of(record, "scheme") == [121]


def test_pipes_and_standard_input(tmp_path: Path) -> None:
    """The format of a pipe is detected from its first lines, and every line is checked."""
    for file in ("/dev/stdin", "-"):
        done = subprocess.run(
            [sys.executable, "-m", "trellis", "check", file, "--json"],
            input=(GOOD + "Lee I-PER\n").encode(),
            capture_output=True,
            timeout=300,
        )
        assert done.returncode == 1, done
        assert lines_of(json.loads(done.stdout), "scheme") == [121]


def test_a_file_that_cannot_be_read(check: Check) -> None:
    code, message = check({"a.conll": b"\0\1\2"})
    assert (code, "a.conll, line 1" in message) == (1, True)
    code, record = check({"a.conll": ""})
    assert (code, findings(record, "rows")[0]["message"]) == (
        1,
        "a.conll: the file contains no sequence",
    )


def test_wrong_options(check: Check) -> None:
    assert check({"a.conll": GOOD}, "--skip", "rows,nosuch")[0] == 2
    code, message = check({"a.conll": GOOD}, "--scheme", "nosuch")
    assert (code, "nosuch" in message) == (1, True)


def test_a_table_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.conll").write_text(GOOD + "Lee I-PER\n")
    assert run_command(["check", "a.conll"]) == 1
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["file", "format", "sequences", "tokens", "labels", "longest"]
    assert table[1].split() == ["a.conll", "conll", "21", "101", "4", "5"]
    assert "scheme: BIO" in table
    assert any(line.startswith("problem  scheme") for line in table)
    assert "a.conll:121: 'I-PER' cannot be the first tag of a sequence" in table[-3]
    assert table[-1] == "1 problem, 0 notes"


@needs_corpus("addresses/usaddress.test.conll.gz")
def test_overlap_of_a_real_corpus(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    """The number of test addresses in the training data, counted with sets of words."""
    paths = [
        str(find_corpus(f"addresses/usaddress.{split}.conll.gz")) for split in ("train", "test")
    ]
    run_command(["check", *paths, "--json"])
    (finding,) = findings(json.loads(capsys.readouterr().out), "overlap")
    train, test = (corpus.read(path)[0] for path in paths)
    known = {tuple(x) for x in train}
    assert finding["count"] == sum(tuple(x) in known for x in test) > 200


def test_the_included_samples_are_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "test"):
        corpus.write(tmp_path / f"{split}.md", *samples.load(split), "markup")
    monkeypatch.chdir(tmp_path)
    code = run_command(["check", "train.md", "test.md"])
    assert code == 0, capsys.readouterr().out
