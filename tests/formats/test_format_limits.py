"""Limits of the readers on both sides, and the exact problem that each error names."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_files import crfpp_model, crfsuite_model, wapiti_model

import trellis
from trellis.data.corpus import Layout
from trellis.errors import FormatError, InputError
from trellis.formats import arpa, crfpp, crfsuite, native, parts, text_models, wapiti
from trellis.formats.native_header import MAX_DEPTH
from trellis.formats.strings import Names, pack_strings, unpack_strings

# ---- CRF++

HEADER = "version: 100\ncost-factor: {factor}\nmaxid: {maxid}\nxsize: 1\n\n"


def write_crfpp(
    path: Path, maxid: Any = 6, factor: Any = 1, features: str = "0 U00:a\n2 B\n", **more: Any
) -> Path:
    """Write a model of two labels; the weights are 1, 2, 3, …"""
    labels, count = more.get("labels", "x\ny\n"), more.get("count", 6)
    weights = "".join(f"{n + 1}\n" for n in range(count))
    head = HEADER.format(maxid=maxid, factor=factor)
    path.write_text(f"{head}{labels}\nU00:%x[0,0]\nB\n\n{features}\n{weights}")
    return path


def test_a_model_of_crfpp(tmp_path: Path) -> None:
    model = crfpp.read(write_crfpp(tmp_path / "m", factor=0.5))
    assert model.labels == ["x", "y"]
    assert model.templates == "U00:%x[0,0]\nB"
    assert model.begin.tolist() == [0, 2, 6]
    assert model.states.tolist() == [True, False]
    assert model.weight.tolist() == [0.5, 1, 1.5, 2, 2.5, 3]
    assert model.number.tolist() == [*range(6)]
    names = [("U00:a", 0), ("U00:a", 1), ("B", 2), ("B", 3), ("B", 4), ("B", 5)]
    assert model.cells() == dict(zip(names, model.weight, strict=True))
    model = crfpp.read(write_crfpp(tmp_path / "m", features="4 U00:a\n0 B\n"))
    assert model.begin.tolist() == [0, 4, 6]
    assert model.states.tolist() == [False, True]
    assert [model.names.string(i) for i in range(2)] == [b"B", b"U00:a"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"maxid": 2**31}, f"maxid is {2**31}: must be an integer from 0 to 2^31 - 1"),
        ({"maxid": 2**31 - 1}, "the ids of the features overlap, have gaps, or contradict maxid"),
        ({"maxid": -1}, "maxid is -1: must be an integer from 0"),
        ({"maxid": 6.5}, "maxid is 6.5: must be an integer from 0"),
        ({"maxid": 7}, "contradict maxid"),
        ({"maxid": "six"}, "the header has no number for maxid"),
        ({"factor": "inf"}, "cost-factor is inf: must be finite"),
        ({"factor": "1e308"}, "a weight multiplied by the cost-factor 1e+308 is infinite"),
        ({"labels": ""}, "the model has 0 labels: must be 1 to 16384 distinct labels"),
        ({"labels": "x\nx\n"}, "the model has 2 labels: must be 1 to 16384 distinct labels"),
        (
            {"labels": "".join(f"{n}\n" for n in range(16385))},
            "the model has 16385 labels: must be 1 to 16384",
        ),
        ({"features": "0 U00:a\n3 B\n"}, "the ids of the features overlap, have gaps"),
        ({"features": "0 U00:a\n1 B\n"}, "the ids of the features overlap, have gaps"),
        ({"features": "x U00:a\n"}, "b'x U00:a' is not the id and the name of a feature"),
        ({"features": "0 X00:a\n"}, "b'0 X00:a' is not the id and the name of a feature"),
        ({"features": f"{'0' * 16} U00:a\n"}, "is not the id and the name of a feature"),
        ({"features": f"{'0' * 15} U00:a\n2 B\n"}, None),
        (
            {"features": "0 U00:a\n2 U00:a\n", "maxid": 4, "count": 4},
            "two features have the same name",
        ),
        ({"count": 5}, "the number of weights in the header is 6, but the file has 5"),
        ({"count": 7}, "the number of weights in the header is 6, but the file has more"),
        ({"count": 20}, "the number of weights in the header is 6, but the file has more"),
    ],
)
def test_invalid_models_of_crfpp(
    tmp_path: Path, options: dict[str, Any], problem: str | None
) -> None:
    path = write_crfpp(tmp_path / "m", **options)
    if problem is None:
        assert len(crfpp.read(path).weight) == 6
        return
    with pytest.raises(FormatError) as error:
        crfpp.read(path)
    assert problem in str(error.value)


def test_most_labels_of_crfpp(tmp_path: Path) -> None:
    labels = "".join(f"{n}\n" for n in range(16384))
    path = write_crfpp(
        tmp_path / "m", maxid=16384, features="0 U00:a\n", labels=labels, count=16384
    )
    assert len(crfpp.read(path).labels) == 16384


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is empty"),
        ("a", "the last line has no line break: the file was cut off"),
        ("\n", "the header has no number for version"),
        ("version 100\n\n", "not a CRF++ model: 'version 100' is not a line of a header"),
        ("version: 100\n", "there is no blank line after the header"),
        (HEADER.format(maxid=0, factor=1) + "x\n", "there is no blank line after the labels"),
        (HEADER.format(maxid=0, factor=1) + "x\n\nU\n", "no blank line after the templates"),
        (HEADER.format(maxid=0, factor=1) + "x\n\nU\n\n0 U\n", "no blank line after the features"),
    ],
)
def test_files_that_are_cut_off(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "m").write_text(text)
    with pytest.raises(FormatError) as error:
        crfpp.read(tmp_path / "m")
    assert str(error.value).startswith(f"{tmp_path / 'm'}: ")
    assert problem in str(error.value)
    with pytest.raises(FormatError, match="not a regular file"):
        crfpp.read(tmp_path)


def test_encodings_of_text_models(tmp_path: Path) -> None:
    for make, module in ((crfpp_model, crfpp), (wapiti_model, wapiti)):
        path = write_bytes(tmp_path / "m", make())
        assert len(module.read(path).cells()) == len(module.read(path).weight)
        with pytest.raises(FormatError, match="not ascii: "):
            module.read(path, "ascii")
        with pytest.raises(FormatError, match="not klingon: unknown encoding"):
            module.read(path, "klingon")
    expected = crfpp.read(write_bytes(tmp_path / "m", crfpp_model())).cells()
    path = write_bytes(tmp_path / "m", crfpp_model().replace("é".encode(), b"\xe9"))
    assert crfpp.read(path, "latin-1").cells() == expected


def write_bytes(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_weights_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{n}={n / 4 + 1}\n" for n in range(100)]
    for block in (1, 7, 64, 1 << 20):
        monkeypatch.setattr(text_models, "_BLOCK", block)
        for indexed in (True, False):
            text = "".join(line if indexed else line.partition("=")[2] for line in lines)
            (tmp_path / "w").write_text("skipped\n" + text)
            with open(tmp_path / "w", "rb") as file:
                file.readline()
                numbers, weights = text_models.read_weights(file, 100, indexed)
            assert weights.tolist() == [n / 4 + 1 for n in range(100)]
            assert numbers.tolist() == [*range(100)]
    (tmp_path / "w").write_text("0\n2\n0\n")  # weights of 0 are not kept
    for header, problem in ((2, "is 2, but the file has more"), (4, "is 4, but the file has 3")):
        with open(tmp_path / "w", "rb") as file, pytest.raises(FormatError, match=problem):
            text_models.read_weights(file, header, False)
    with open(tmp_path / "w", "rb") as file:
        numbers, weights = text_models.read_weights(file, 3, False)
    assert (numbers.tolist(), weights.tolist()) == ([1], [2.0])
    (tmp_path / "w").write_text("1=0\n1=0\n")
    with open(tmp_path / "w", "rb") as file, pytest.raises(FormatError, match="do not ascend"):
        text_models.read_weights(file, 2, True)


# ---- Wapiti

WAPITI = (
    "#mdl#2#{count}\n#rdr#1/1/0\n4:u:%x,\n#qrk#2\n1:x,\n1:y,\n#qrk#3\n3:u:a,\n1:b,\n3:*:c,\n{end}"
)


@pytest.mark.parametrize(
    ("end", "count", "problem"),
    [
        ("0=0x1p0\n11=0x1p1\n", 2, None),
        ("0=0x1p0\n12=0x1p1\n", 2, "weight 12 belongs to no observation"),
        ("0=0x1p0\n", 2, "the number of weights in the header is 2, but the file has 1"),
        ("0=0x1p0\n1=1\n2=1\n", 2, "but the file has more"),
        ("x\n", 1, "b'x' is not the number of a weight and its value"),
        ("3=1\n2=1\n", 2, "the numbers of the weights do not ascend: b'2=1'"),
    ],
)
def test_weights_of_wapiti(tmp_path: Path, end: str, count: int, problem: str | None) -> None:
    path = tmp_path / "m"
    path.write_text(WAPITI.format(count=count, end=end))
    if problem is None:
        model = wapiti.read(path)
        # u has 2 weights, b 4, * both
        assert model.begin.tolist() == [0, 2, 6, 12]
        assert model.states.tolist() == [True, False, True]
        assert (model.number.tolist(), model.weight.tolist()) == ([0, 11], [1.0, 2.0])
        assert model.templates == "u:%x"
        return
    with pytest.raises(FormatError) as error:
        wapiti.read(path)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("#mdl#2", "#mdl#1", "the model has kind 1: only CRFs (kind 2) can be read"),
        ("#mdl#2#0", "#mdl#2", "expected #mdl#kind#weights, found b'#mdl#2'"),
        ("#rdr#1/1/0", "#rdr#1/1/2", "expected #rdr#, found b'#rdr#1/1/2'"),
        ("#qrk#2", "#qrk#3", "label 2 does not start with its length"),
        (
            "#qrk#2\n1:x,\n1:y,",
            "#qrk#0",
            "the model has 0 labels: must be 1 to 16384 distinct labels",
        ),
        ("1:y,", "1:x,", "the model has 2 labels: must be 1 to 16384 distinct labels"),
        ("1:y,", "1:y;", "the length of label 1 differs from the length in its line"),
        ("1:y,", "0:y,", "the length of label 1 differs from the length in its line"),
        ("1:y,", "2:y,", "the length of label 1 differs from the length in its line"),
        ("1:y,", "y,", "label 1 does not start with its length"),
        ("1:y,", ":y,", "label 1 does not start with its length"),
        ("1:y,", "-1:y,", "label 1 does not start with its length"),
        ("1:b,", "1:x,", "b'x' must start with u, b or *"),
        ("4:u:%x,", "4:x:%x,", "b'x:%x' must start with u, b or *"),
        ("3:*:c,", "3:u:a,", "two observations have the same name 'u:a'"),
        ("#qrk#3\n3:u:a,\n1:b,\n3:*:c,\n", "", "the file ends too early"),
        ("3:*:c,\n", "", "the file ends too early"),
    ],
)
def test_invalid_models_of_wapiti(tmp_path: Path, old: str, new: str, problem: str) -> None:
    text = WAPITI.format(count=0, end="")
    assert old in text
    (tmp_path / "m").write_text(text)
    assert len(wapiti.read(tmp_path / "m").weight) == 0
    (tmp_path / "m").write_text(text.replace(old, new))
    with pytest.raises(FormatError) as error:
        wapiti.read(tmp_path / "m")
    assert problem in str(error.value)


# ---- CRFsuite


def change(data: bytes, at: int, value: int) -> bytes:
    """Return the data with another 32-bit integer."""
    return data[:at] + value.to_bytes(4, "little") + data[at + 4 :]


def number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


SUITE = crfsuite_model()
OFFSETS = dict(
    zip(
        ("features", "labels", "attrs", "labelrefs", "attrrefs"),
        (number(SUITE, 28 + 4 * n) for n in range(5)),
        strict=True,
    )
)
LABELS, ATTRS = OFFSETS["labels"], OFFSETS["attrs"]
RECORD = LABELS + number(SUITE, LABELS + 20)  # the list of the offsets of the records
FIRST = LABELS + number(SUITE, RECORD)  # the first record


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (SUITE[:48], "48 bytes are too few for a CRFsuite model"),
        (
            change(SUITE, 4, len(SUITE) + 1),
            f"the header has size {len(SUITE) + 1}, but the file has",
        ),
        (change(SUITE, 12, 101), "version 101 is unknown: only 100 can be read"),
        (change(SUITE, 20, 16385), "the model has 16385 labels: at most 16384 can be read"),
        (change(SUITE, 20, 16384), "has a|labels: the dictionary has 3 entries"),
        (change(SUITE, OFFSETS["features"] + 12, 2), "feature 0 is of an unknown type"),
        (
            change(SUITE, OFFSETS["features"] + 16, 12),
            "feature 0 has an attribute or label that does",
        ),
        (
            change(SUITE, OFFSETS["features"] + 20, 3),
            "feature 0 has a target label that does not exi",
        ),
        (change(SUITE, OFFSETS["features"] + 4, 11), "FEAT: its 11 bytes extend beyond the end"),
        (
            change(SUITE, OFFSETS["features"] + 4, len(SUITE)),
            "FEAT: its .* bytes extend beyond the",
        ),
        (
            change(SUITE, OFFSETS["features"] + 8, 9999),
            "9999 features at byte 48 extend beyond the",
        ),
        (change(SUITE, LABELS, 0), "labels: there is no dictionary at byte"),
        (change(SUITE, LABELS + 8, 1), "labels: there is no dictionary at byte"),
        (change(SUITE, LABELS + 12, 0), "labels: there is no dictionary at byte"),
        (change(SUITE, LABELS + 4, 2071), "labels: the 2071 bytes of the dictionary extend beyond"),
        (
            change(SUITE, LABELS + 4, len(SUITE) - LABELS + 1),
            "bytes of the dictionary extend beyond",
        ),
        (
            change(SUITE, LABELS + 16, 4),
            "labels: the dictionary has 4 entries, but the header has 3",
        ),
        (change(SUITE, LABELS + 20, 2071), "labels: the list of offsets is outside the dictionary"),
        (
            change(SUITE, LABELS + 20, number(SUITE, LABELS + 4) - 11),
            "labels: the list of offsets is outside the dictionary",
        ),
        (change(SUITE, RECORD, 2071), "label 0 is outside the dictionary"),
        (change(SUITE, RECORD, number(SUITE, LABELS + 4) - 7), "label 0 is outside the dictionary"),
        (change(SUITE, FIRST, 1), "label 0 has a wrong number"),
        (change(SUITE, FIRST + 4, 0), "label 0 extends beyond the end of the dictionary"),
        (change(SUITE, FIRST + 4, 1 << 20), "label 0 extends beyond the end of the dictionary"),
        (change(SUITE, FIRST + 4, 5), "two labels overlap|label 0 does not end with a zero byte"),
        (change(SUITE, FIRST + 4, 3), "label 0 does not end with a zero byte"),
        (SUITE.replace(b"L-1", b"L-0"), "two labels have the same name"),
        (SUITE.replace(b"L-1", b"L\xff1"), "label 1 is not utf-8"),
        (SUITE.replace(b"L-1", b"L\x001"), "label 1 contains a zero byte"),
        (
            change(SUITE, OFFSETS["labelrefs"] + 8, 2),
            "LFRF: the table has 2 entries, but 3 are needed",
        ),
        (
            change(SUITE, OFFSETS["attrrefs"] + 12, len(SUITE) - 3),
            "AFRF: entry 0 is beyond the end",
        ),
        (change(SUITE, OFFSETS["attrrefs"], 0), "expected AFRF at byte"),
    ],
)
def test_errors_of_crfsuite_files(data: bytes, problem: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=f"m: .*({problem})"):
        crfsuite.read(write_bytes(tmp_path / "m", data))


def test_the_intact_file_of_crfsuite(tmp_path: Path) -> None:
    model = crfsuite.read(write_bytes(tmp_path / "m", SUITE))
    assert model.labels == ["L-0", "L-1", "L-2"]


def test_references_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = crfsuite.read(write_bytes(tmp_path / "m", SUITE))
    at = OFFSETS["attrrefs"] + 12
    second = next(n for n in range(1, 12) if number(SUITE, number(SUITE, at + 4 * n)) > 0)
    reference = number(SUITE, at + 4 * second) + 4
    for block in (1, 2, 5, 1 << 16):
        monkeypatch.setattr(crfsuite, "_BLOCK", block)
        model = crfsuite.read(write_bytes(tmp_path / "m", SUITE))
        np.testing.assert_array_equal(model.state_weight, expected.state_weight)
        data = change(SUITE, reference, number(SUITE, reference) + 1)
        with pytest.raises(
            FormatError, match="AFRF: an entry refers to a feature of another entry"
        ):
            crfsuite.read(write_bytes(tmp_path / "n", data))
        for feature in (0, 1, 6):
            data = change(SUITE, OFFSETS["features"] + 12 + 20 * feature + 8, 3)
            with pytest.raises(FormatError, match=f"feature {feature} has a target label"):
                crfsuite.read(write_bytes(tmp_path / "n", data))


# ---- strings and parts


def test_names() -> None:
    data, ends = pack_strings(["né", "", "a"])
    names = Names(data, ends[:-1], np.diff(ends))
    assert names.decoded("name") == ["né", "", "a"]
    assert names.decoded("name", "latin-1") == ["nÃ©", "", "a"]
    with pytest.raises(FormatError, match="name 0 is not ascii: "):
        names.decoded("name", "ascii")
    data, ends = pack_strings(["a", "b\0"])
    with pytest.raises(FormatError, match="name 1 contains a zero byte"):
        Names(data, ends[:-1], np.diff(ends)).decoded("name")


@pytest.mark.parametrize(
    ("data", "ends", "problem"),
    [
        (
            np.zeros(2, np.int8),
            np.array([0, 2]),
            "strings must be 1-D uint8 data and 1-D int64 off",
        ),
        (np.zeros(2, np.uint8), np.array([0, 2], np.int32), "strings must be 1-D uint8 data"),
        (np.zeros((1, 2), np.uint8), np.array([0, 2]), "strings must be 1-D uint8 data"),
        (np.zeros(2, np.uint8), np.array([[0, 2]]), "strings must be 1-D uint8 data"),
        (
            np.zeros(2, np.uint8),
            np.zeros(0, np.int64),
            "offsets must start at 0 and end at 2, not em",
        ),
        (np.zeros(2, np.uint8), np.array([1, 2]), r"end at 2, not \[1, 2\]"),
        (np.zeros(2, np.uint8), np.array([0, 1]), r"end at 2, not \[0, 1\]"),
        (np.zeros(2, np.uint8), np.array([0, 2, 1, 2]), "string 1 ends before it begins"),
        (np.full(2, 255, np.uint8), np.array([0, 0, 2]), "string 1 is not UTF-8"),
    ],
)
def test_offsets_of_strings(data: Any, ends: Any, problem: str) -> None:
    with pytest.raises(FormatError, match=f"m: .*{problem}"):
        unpack_strings(data, ends, "m")


class Model(parts.Saved):
    """A model without arrays."""

    kind = "empty"

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"value": self.value, "n_jobs": None, "constraints": None, "label_weight": None}

    def to_parts(self) -> parts.Parts:
        return {}, {}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Any) -> Model:
        return cls()


def test_what_every_file_has(tmp_path: Path) -> None:
    model = Model()
    model.save(tmp_path / "m")
    again = parts.load_class(Model, tmp_path / "m")
    assert (again.isa_, again.corpus_layout_) == (None, None)
    model.isa_, model.corpus_layout_ = "x" * 100, Layout("conll", (0,), 1, 2)
    model.save(tmp_path / "m")
    again = parts.load_class(Model, tmp_path / "m")
    assert (again.isa_, again.corpus_layout_) == ("x" * 100, Layout("conll", (0,), 1, 2))
    for isa in ("x" * 101, 3):
        native.write(tmp_path / "m", "empty", {"isa": isa}, {})
        with pytest.raises(FormatError, match="m: isa must be the name of an instruction set, not"):
            parts.load_class(Model, tmp_path / "m")
    with pytest.raises(NotImplementedError):
        parts.Saved().to_parts()
    with pytest.raises(NotImplementedError):
        parts.Saved.from_parts({}, None)  # type: ignore[arg-type]

    class Derived(Model):
        pass

    with pytest.raises(InputError, match="cannot save a Derived: a subclass has no file format"):
        Derived().save(tmp_path / "m")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([], "parameters must be an object, not list"),
        ({"b": 1, "a": 2}, "parameters: unknown names a, b"),
        ({"value": 1, "left": 2}, "parameters: unknown names left"),
        ({"label_weight": [["a"]]}, r"label_weight must be a list of pairs \[label, weight\]"),
        ({"label_weight": ["ab"]}, r"label_weight must be a list of pairs \[label, weight\]"),
        ({"label_weight": [["a", 1, 2]]}, r"label_weight must be a list of pairs"),
        ({"label_weight": [[None, 1]]}, "label None cannot be saved"),
        ({"constraints": [["a", None]]}, "label None cannot be saved"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_invalid_parameters_of_files(values: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parts.read_parameters(Model, {"parameters": values})
    with pytest.raises(InputError, match="unknown names value"):
        parts.read_parameters(Model, {"parameters": {"value": 1}}, ["value"])
    read = parts.read_parameters(
        Model, {"parameters": {"constraints": [["a", "b"]], "label_weight": [["a", 2.0]]}}
    )
    assert read == {"constraints": [("a", "b")], "label_weight": {"a": 2.0}}
    assert parts.read_parameters(Model, {"parameters": {"constraints": "BIO"}}) == {
        "constraints": "BIO"
    }


def test_stored_parameters() -> None:
    class Estimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]:
            assert not deep
            return {
                "left": 1,
                "rng": np.random.default_rng(0),
                "state": np.random.RandomState(0),
                "number": np.float32(0.5),
                "pair": (1, 2),
                "constraints": [("a", "b")],
                "label_weight": {"a": np.float64(2)},
            }

    assert parts.stored_parameters(Estimator(), ["left"]) == {
        "number": 0.5,
        "pair": [1, 2],
        "constraints": [["a", "b"]],
        "label_weight": [["a", 2.0]],
    }
    with pytest.raises(InputError, match="label None cannot be saved: must be a str or a number"):
        parts.stored_labels(["a", None])


@pytest.mark.parametrize("classes", ["ab", [], ["a", "a"], {}, None])
def test_invalid_classes(classes: Any) -> None:
    with pytest.raises(InputError, match="classes must be a list of distinct labels"):
        parts.read_classes({"classes": classes})
    assert parts.read_classes({"classes": ["a"]}) == ["a"]


def test_records_of_the_training() -> None:
    class Trained:
        n_iter_, objective_, converged_ = 0, 2.5, True
        history_ = ((1, 2.0), (2, 1.5))

    record = parts.training_record(Trained(), ["history", "other"])
    assert record == {
        "iterations": 0,
        "objective": 2.5,
        "converged": True,
        "history": [[1, 2.0], [2, 1.5]],
    }
    model: Any = Model()
    parts.read_training(model, {"training": record}, ["history", "other"])
    assert (model.n_iter_, model.objective_, model.converged_) == (0, 2.5, True)
    assert (model.history_, model.other_) == ([*Trained.history_], [])
    with pytest.raises(InputError, match="iterations"):
        parts.read_training(model, {"training": {**record, "iterations": -1}})


def test_errors_name_the_file_once() -> None:
    for raised, text in (
        (FormatError("m: wrong"), "m: wrong"),
        (FormatError("wrong"), "m: wrong"),
        (KeyError("x"), "m: 'x' is missing"),
        (IndexError("i"), "m: i"),
        (OverflowError("o"), "m: o"),
        (AttributeError("a"), "m: a"),
    ):
        with pytest.raises(FormatError) as error, parts.errors_name_file("m"):
            raise raised
        assert str(error.value) == text


# ---- headers of .trellis files


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (2**64, "2\\^64|64"),
        (-(2**63) - 1, "64|63"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (object(), "object"),
        ({1: 2}, "1"),
        ("\ud800", "surrogate|Unicode|cannot"),
        (np.float32(1), "float32"),
    ],
)
def test_values_that_headers_cannot_store(tmp_path: Path, value: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        native.write(tmp_path / "m", "x", {"a": value}, {})
    with pytest.raises(InputError, match=problem):
        native.write(tmp_path / "m", "x", {"a": [{"b": value}]}, {})
    assert not (tmp_path / "m").exists()


def test_stored_values_are_read_back(tmp_path: Path) -> None:
    nested: Any = 1
    for _ in range(MAX_DEPTH - 3):
        nested = [nested]
    meta = {"a": 2**64 - 1, "b": -(2**63), "c": [True, None, 1.5, "é"], "d": nested}
    native.write(tmp_path / "m", "x", meta, {"t": np.zeros((1,) * 32)})
    contents = native.read(tmp_path / "m", kind="x")
    assert contents.meta == meta
    assert contents.tensors["t"].ndim == 32
    for kind in (3, "\ud800"):
        with pytest.raises(InputError):
            native.write(tmp_path / "n", kind, {}, {})  # type: ignore[arg-type]


# ---- ARPA


ARPA = (
    "\\data\\\nngram 1=3\nngram 2=1\n\n\\1-grams:\n-1\t<s>\t0\n-1\t</s>\n-1\ta\t-0.5\n\n"
    "\\2-grams:\n-0.5\t<s> a\n\n\\end\\\n"
)


def test_a_language_model(tmp_path: Path) -> None:
    path = tmp_path / "m.arpa"
    path.write_text(ARPA)
    model = arpa.read(path)
    assert (model.order, model.counts, model.vocabulary) == (2, (3, 1), 3)
    assert model.words() == ["<s>", "</s>", "a"]
    assert repr(model) == "NGramModel(order=2, counts=(3, 1))"
    assert "a" in model
    assert "b" not in model
    assert 3 not in model
    assert "\ud800" not in model
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.path == model.path
        assert other.score("a") == model.score("a")
    assert copy.copy(model).core is model.core
    log10, state = model.step(model.start(), "a")
    assert log10 == -0.5
    assert model.step(state, "</s>")[0] == -1.5
    assert model.step(model.start(bos=False), "a")[0] == -1.0
    assert model.score("a") == -2.0
    assert model.score("a", eos=False) == -0.5
    assert model.score("a", bos=False) == -2.5
    with pytest.raises(InputError, match="state is 'x': must be a state of this model"):
        model.step("x", "a")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="word is 3: must be a str without unpaired surrogates"):
        model.step(state, 3)  # type: ignore[arg-type]
    path.unlink()
    with pytest.raises(InputError, match=r"cannot be pickled: its file .*m\.arpa no longer exists"):
        pickle.dumps(model)
    without_path = arpa.NGramModel(model.core)
    with pytest.raises(InputError, match="cannot be pickled: its file None no longer exists"):
        pickle.dumps(without_path)


def test_loading_of_every_model(tmp_path: Path) -> None:
    for make in (crfsuite_model, crfpp_model, wapiti_model):
        model = trellis.load(write_bytes(tmp_path / "m", make()))
        assert len(model.classes_) in (2, 3)
