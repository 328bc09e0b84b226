"""Weights of sequences in comments and keys of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trellis.data.corpus import Columns
from trellis.data.weights import read_weighted
from trellis.errors import FormatError

COLUMNS = """# weight = 2.5
Ann\tB-X
sings\tO

Hush\tO
# weight=0
Bob\tB-X

# weights = 7
# note = 3
#weight =  1e2\x20
Eve\tO
"""


@pytest.mark.parametrize(
    ("name", "text", "weights"),
    [
        ("a.conll", COLUMNS, [2.5, 1.0, 0.0, 100.0]),
        ("a.conll", COLUMNS + "\nEve\tO\n", [2.5, 1.0, 0.0, 100.0, 1.0]),
        ("a.conll", "# weight = 3\n# weight = 4\nAnn\tO\n", [4.0]),
        ("a.conll", "Ann\tO\n\nBob\tO\n# weight = 4\nEve\tO\n", [1.0, 1.0, 4.0]),
        ("a.conll", "a # weight = 4\n\nb O O O O\n\n# weight = 3\nc O O O O\n", [1.0, 1.0, 3.0]),
        (
            "a.jsonl",
            '{"tokens": ["a"], "tags": ["O"], "weight": 2}\n\n{"tokens": ["b"], "tags": ["O"]}\n'
            '{"tokens": ["c"], "tags": ["O"], "weight": "0.5"}\n',
            [2.0, 1.0, 0.5],
        ),
        ("a.md", "# weight = 2\n[a](b)\nc\n# weight = 3\nd\n", [2.0, 1.0, 3.0]),
    ],
)
def test_weights_of_sequences(tmp_path: Path, name: str, text: str, weights: list[float]) -> None:
    (tmp_path / name).write_text(text)
    X, y, values = read_weighted(tmp_path / name, "weight")
    assert values == weights
    assert len(X) == len(y) == len(values)
    assert [*map(len, X)] == [*map(len, y)]


def test_format_columns_and_encoding(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("# importance = 3\nB-X é N\n", encoding="latin-1")
    columns = Columns((1,), "0", "latin-1")
    assert read_weighted(tmp_path / "a", "importance", "conll", columns) == (
        [["é"]],
        [["B-X"]],
        [3.0],
    )
    with pytest.raises(FormatError, match="not utf-8"):
        read_weighted(tmp_path / "a", "importance", "conll")


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("a.conll", "\n", "a.conll: the file contains no sequence"),
        ("a.conll", "a O\n", "a.conll: no sequence has a weight: no comment such as '# w.t = 2.5'"),
        ("a.jsonl", '{"tokens": [], "tags": [], "wit": 2}\n', "no key 'w.t' occurs"),
        (
            "a.jsonl",
            '{"tokens": ["a"], "tags": ["O"]}\n',
            "a.jsonl: no sequence has a weight: no key 'w.t' occurs",
        ),
        ("a.conll", "a O\n\n# w.t = -1\nb O\n", "line 3: w.t is '-1': must be a number of at leas"),
        ("a.conll", "# w.t = inf\nb O\n", "line 1: w.t is 'inf': must be a number"),
        ("a.conll", "# w.t = nan\nb O\n", "line 1: w.t is 'nan': must be a number"),
        ("a.conll", "# w.t = \nb O\n", "line 1: w.t is '': must be a number"),
        ("a.jsonl", '\n{"tokens": ["a"], "tags": ["O"], "w.t": true}\n', "line 2: w.t is True"),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"], "w.t": null}\n', "line 1: w.t is None"),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"], "w.t": []}\n', r"line 1: w.t is \[\]"),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"], "w.t": 1}\n["w.t"]\n', "line 2: "),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"], "w.t": 1}\n{\n', "line 2: "),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"], "w.t": 1}\n' + "[" * 99_999, "line 2: "),
        ("a.conll", "# w.t = 1\na O\nb\n", "line 3: the row has 1 columns"),
    ],
)
def test_invalid_weights(tmp_path: Path, name: str, text: str, match: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FormatError, match=match):
        read_weighted(tmp_path / name, "w.t")


def test_weights_of_lines_without_a_sequence(tmp_path: Path) -> None:
    text = "# weight = 5\n\n# weight = 6\n\nAnn\tO\n"
    (tmp_path / "a.conll").write_text(text)
    read: Any = read_weighted(tmp_path / "a.conll", "weight")
    assert read[2] == [6.0]
