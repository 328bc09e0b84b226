"""Feature descriptions and their parts in files at their exact limits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import trellis
from trellis.errors import FormatError, InputError
from trellis.features import templates, wapiti
from trellis.features.arrays import ArrayFeatures
from trellis.features.edges import EdgeFeatures
from trellis.features.joint import _possible_pairs
from trellis.features.kinds import KINDS
from trellis.features.linear_regex import MAX_INSTRUCTIONS, LinearRegex
from trellis.features.lists import Clusters, read_clusters
from trellis.features.names import cut
from trellis.features.ready import ReadyFeatures
from trellis.features.rows import core_error
from trellis.features.spec import _MAX_COLUMN, _MAX_INT32, Draft, Field, Part, Spec, Template
from trellis.features.window import Window, default_spec, named

INT32 = 2**31 - 1


def test_numbers_of_fields_and_parts() -> None:
    assert _MAX_INT32 == INT32
    assert Field(column=_MAX_COLUMN).column == _MAX_COLUMN
    assert Field(kind="prefix", size=1).size == 1
    assert Field(kind="prefix", size=INT32).size == INT32
    assert Part(INT32, 0).offset == INT32
    assert Part(-INT32, 0).offset == -INT32
    for make, message in (
        (lambda: Field(column=-1), f"column must be 0 to {_MAX_COLUMN}, got -1"),
        (lambda: Field(column=_MAX_COLUMN + 1), "column must be 0 to"),
        (lambda: Field(kind="prefix", size=0), f"size must be 1 to {INT32}, got 0"),
        (lambda: Field(kind="prefix", size=INT32 + 1), "size must be 1 to"),
        (lambda: Field(size=1), "has no size, got 1"),
        (lambda: Field(pattern="x"), "has no pattern, got 'x'"),
        (lambda: Part(INT32 + 1, 0), "offset must be within"),
        (lambda: Part(-INT32 - 1, 0), "offset must be within"),
        (lambda: Part(True, 0), "Part: offset must be int, got True"),
    ):
        with pytest.raises(InputError, match=message):
            make()
    positional = next(name for name, kind in KINDS.items() if kind.positional)
    assert Field(kind=positional).column == 0
    with pytest.raises(InputError, match="reads no column, got column=1"):
        Field(column=1, kind=positional)


def test_references_of_a_spec() -> None:
    template = Template("t", (Part(0, 1),), ("t=", ""))
    spec = Spec((Field(), Field(column=2)), (template,))
    assert spec.columns == 3
    for field in (-1, 2):
        wrong = Template("t", (Part(0, field),), ("t=", ""))
        with pytest.raises(InputError, match=f"refers to field {field}, but there are 2 fields"):
            Spec((Field(), Field(column=2)), (wrong,))
    for outside in ((("a",),), (("a",), ()), ([], ("a",)), "ab", (("a",), (3,))):
        with pytest.raises(InputError, match="outside"):
            Spec((Field(),), (), outside=outside)  # type: ignore[arg-type]
    assert Spec((Field(),), (), outside=(("a",), ("b", "c"))).outside == (("a",), ("b", "c"))


def test_clusters(tmp_path: Path) -> None:
    clusters = Clusters("c", ("Rome", "ann"), ("0110", "01"))
    assert [clusters.find("Rome", size) for size in (0, 1, 3, 9)] == ["0110", "0", "011", "0110"]
    assert [clusters.find(word) for word in ("Ann", "rome", "x")] == ["01", None, None]
    assert clusters.find("x", 2) is None
    assert clusters.is_binary
    assert not Clusters("c", ("a",), ("12",)).is_binary
    path = tmp_path / "clusters.tsv"
    for text, expected in (
        ("a\t1\n\nb\t1\n", {"a": "1", "b": "1"}),
        ("01\ta\t5\n10\tb\t 7\n", {"a": "01", "b": "10"}),
        ("a\t1\na\t1\n", {"a": "1"}),
    ):
        path.write_text(text)
        assert read_clusters(path) == expected
    for text, message in (
        ("a\t1\na\t2\n", "line 2: 'a' already has another cluster"),
        ("02\ta\t5\n", "line 1: must be word<TAB>cluster"),
        ("01\ta\tx\n", "line 1: must be word<TAB>cluster"),
        ("a\n", "line 1: must be word<TAB>cluster"),
        ("\n", "the file contains no cluster"),
    ):
        path.write_text(text)
        with pytest.raises(FormatError, match=message):
            read_clusters(path)


def test_templates_of_crfpp() -> None:
    maximum = templates._MAX_ROW
    spec = templates.parse(f"U0:%x[-2,0]/%x[{maximum},1]\nB\n")
    assert [part.offset for part in spec.templates[0].parts] == [-2, maximum]
    outside = spec.outside
    assert outside is not None
    assert outside[0] == ("_B-1", "_B-2")
    assert outside[1][:2] == ("_B+1", "_B+2")
    assert len(outside[1]) == maximum
    for row in (maximum + 1, -maximum - 1):
        with pytest.raises(FormatError, match=f"line 2: row {row} is out of range"):
            templates.parse(f"# a comment\nU0:%x[{row},0]\n")
    assert templates.parse("U0:%x[0,0]\n").outside == (("_B-1",), ("_B+1",))


def test_positions_from_the_ends_in_wapiti() -> None:
    fields = {
        "%x[@1,0]": (0, "first"),
        "%x[@2,0]": (1, "first"),
        "%x[@-1,0]": (0, "last"),
        "%x[@-2,0]": (-1, "last"),
        "%x[@0,0]": (-1, "first"),
        "%x[2,0]": (2, "here"),
    }
    for text, (offset, origin) in fields.items():
        (part,) = wapiti.parse(f"u:{text}\n").templates[0].parts
        assert (part.offset, part.origin) == (offset, origin)


def test_radii_of_a_window() -> None:
    assert [*Window(words=0).names()] != [*Window(words=None).names()]
    for value in (-1, True, 1.0, "1"):
        with pytest.raises(InputError, match="words must be None or an integer of at least 0"):
            Window(words=value)  # type: ignore[arg-type]
    for token in ((), ("a", 3), 3, ["a", None]):
        with pytest.raises(InputError, match="a token must be a str or a tuple"):
            default_spec(token)  # type: ignore[arg-type]
    assert default_spec(["a", "b"]).columns == 2


def test_names_of_columns() -> None:
    assert named(["pos[0]"], columns=["pos"]).columns == 2
    for columns in (["w"], ["pos", "pos"], ["lower"], ["suffix3"]):
        with pytest.raises(InputError, match="must have distinct names, other than 'w'"):
            named(["w[0]"], columns=columns)
    with pytest.raises(
        InputError, match=r"template 'w\[0\]\|x': expected field\[offset\], got 'x'"
    ):
        named(["w[0]|x"])
    for name in ("nosuch[0]", "pos.nosuch[0]", "nosuch.lower[0]"):
        with pytest.raises(InputError, match="is unknown: must be one of"):
            named([name], columns=["pos"])
    for columns in ("pos", 3):
        with pytest.raises(InputError, match="columns must be a list of names"):
            named(["w[0]"], columns=columns)  # type: ignore[arg-type]


def test_ways_to_split_a_name() -> None:
    assert cut("a=b", ("a=", "")) == [("b",)]
    assert cut("a=", ("a=", "")) == [("",)]
    assert cut("b=", ("a=", "")) == []
    assert cut("ab", ("a", "b")) == [("",)]
    assert cut("a", ("a", "a")) == []  # the literals may not overlap
    assert cut("x", ("x",)) == [()]
    assert cut("xy", ("x",)) == []
    assert cut("|a|b", ("", "|", "")) == [("", "a|b"), ("|a", "b")]
    assert sorted(cut("a||b", ("a", "|", "|", "b"))) == [("", "", "")]


def test_sizes_of_regular_expressions() -> None:
    maximum = MAX_INSTRUCTIONS
    assert LinearRegex("a" * (maximum - 1)).search("a" * maximum) is not None
    with pytest.raises(InputError, match=f"needs more than {maximum} instructions"):
        LinearRegex("a" * (maximum + 1))


def test_columns_that_an_array_model_keeps() -> None:
    def restore(kept: Any, columns: Any = 3, dtype: Any = np.int32) -> Any:
        return ArrayFeatures.from_parts({"columns": columns}, {"kept": np.array(kept, dtype)}, None)

    for kept in ([], [0, 2], [2], [0]):
        assert restore(kept).kept.tolist() == kept
    for kept, columns, dtype in (
        ([-1], 3, np.int32),
        ([3], 3, np.int32),
        ([0], 0, np.int32),
        ([1, 1], 3, np.int32),
        ([1], 3, np.int64),
        ([[1]], 3, np.int32),
        ([], -1, np.int32),
        ([], 1.5, np.int32),
    ):
        with pytest.raises(InputError, match="array features"):
            restore(kept, columns, dtype)


def test_attributes_of_transitions_in_a_file() -> None:
    states, edges = ReadyFeatures(), ReadyFeatures()
    states.learn([[{"a": 1.0, "b": 1.0}, {"a": 1.0}]])
    edges.learn([[{"e": 1.0}, {"f": 1.0}]])
    assert (len(states), len(edges)) == (2, 2)

    def restore(source: Any, edge_source: Any, made: Any = True, dtype: Any = np.int32) -> Any:
        tensors = {"source": np.array(source, dtype), "edge_source": np.array(edge_source, dtype)}
        return EdgeFeatures.from_maps(states, edges, {"made": made}, tensors)

    complete = restore([0, 1, -1, -2], [0, 1])
    assert complete.names() == ["a", "b", "start:e", "start:f"]
    assert complete.names(edge=True) == ["e", "f"]
    assert restore([], []).names() == []
    for source, edge_source in (
        ([2], []), ([-3], []), ([], [2]), ([], [-1]), ([0, 0], []), ([[0]], [])
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"edge features: (edge_)?source"):
            restore(source, edge_source)
    with pytest.raises(InputError, match="must be a vector of int32"):
        restore([0], [0], dtype=np.int64)
    with pytest.raises(InputError, match="edge features: made must be True or False"):
        restore([0], [0], made=2)


def test_pairs_of_possible_labels() -> None:
    mask = np.array([[1, 0], [1, 1], [0, 0], [0, 1]], dtype=np.bool_)
    assert [*_possible_pairs(mask)] == [
        (0, None, 0, 1.0),
        (1, 0, 0, 1.0),
        (1, 0, 1, 1.0),
        (3, 0, 1, 0.5),
        (3, 1, 1, 0.5),
    ]


@pytest.mark.parametrize(
    ("message", "sequence", "text"),
    [
        ("sequence 3, position 0: x", 3, "sequence 3, position 0: x"),
        ("sequence 12", 12, "sequence 12"),
        ("sequence of 3", None, "sequence of 3"),
        ("token 3: x", None, "token 3: x"),
        ("x", None, "x"),
    ],
)
def test_errors_of_the_core(message: str, sequence: int | None, text: str) -> None:
    error = core_error(ValueError(message))
    assert (error.sequence, str(error)) == (sequence, text)


def test_types_that_are_mistaken_for_sequences() -> None:
    model = trellis.CRF(max_iter=1)
    for X, message in (
        ("text", "X must be a list of sequences, not str"),
        (SimpleNamespace(), "X must be a list of sequences"),
        ([{"a": 1}], "X is one sequence, not a list of sequences: for a single sequence, write"),
        ([[b"a"]], "not bytes: decode it to str"),
        ([[3]], r"not int: write np.array\(x\) for each sequence x of vectors"),
        ([[[0.5]]], "not list of numbers"),
    ):
        with pytest.raises(InputError, match=message):
            model.fit(X, [["A"]])


def test_templates_that_differ_are_kept() -> None:
    draft = Draft()
    for name, offset in (("a", 0), ("b", 0), ("a", 1)):
        draft.add(name, [(offset, Field())], ["a=", ""], False)
    assert [template.name for template in draft.spec().templates] == ["a", "a"]
