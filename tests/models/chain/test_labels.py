"""Encoding of labels, validation of y, constraints from schemes and pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trellis
from trellis.errors import InputError
from trellis.models.chain.labels import constraints_for, encode


def lengths(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_full_labels() -> None:
    known = encode([["b", "a"], ["c"]], lengths(2, 1))
    assert known.classes == ("a", "b", "c")
    assert known.label.tolist() == [1, 0, 2]
    assert known.allowed is None


def test_classes_keep_their_order() -> None:
    assert encode([["b", "a"]], lengths(2), ["b", "z", "a"]).label.tolist() == [0, 2]


def test_partial_labels() -> None:
    known = encode([[None, {"a", "b"}, frozenset({"c"}), "a"]], lengths(4))
    assert known.label.tolist() == [-1, -1, 2, 0]
    assert known.allowed is not None
    assert known.allowed.astype(int).tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    "labels",
    [
        [1, 0, 2],
        [True, False, True],
        [("a", 1), ("b", 2), ("a", 2)],
        ["x", 1, "y"],
        [2.5, -1.0, 0.0],
        ["", "é", "日本"],
    ],
)
def test_any_hashable_label_is_returned_unchanged(labels: list[Any]) -> None:
    X = [[["f0"], ["f1"], ["f2"]]] * 3
    model = trellis.CRF(l2=0.01).fit(X, [labels] * 3)
    assert model.predict(X) == [labels] * 3
    assert [type(a) for a in model.predict(X)[0]] == [type(a) for a in labels]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64, np.str_])
def test_labels_in_numpy_arrays(dtype: Any, tmp_path: Any) -> None:
    X = [[["f0"], ["f1"], ["f2"]]] * 3
    y = [np.array([2, 0, 1]).astype(dtype)] * 3
    model = trellis.CRF(l2=0.01).fit(X, y)
    assert model.predict(X) == [labels.tolist() for labels in y]
    assert not any(isinstance(label, np.generic) for label in model.predict(X)[0])
    model.save(tmp_path / "model.trellis")
    assert trellis.load(tmp_path / "model.trellis").predict(X) == model.predict(X)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ("PQ", "y must be a list"),
        (7, "y must be a list"),
        (None, "y must be a list"),
        ([["P", "Q"]], "X has 2 sequences, y has 1"),
        ([["P", "Q"], ["P"], ["P"]], "X has 2 sequences, y has 3"),
        ([["P", "Q"], "P"], "labels of sequence 1"),
        ([["P", "Q"], 7], "labels of sequence 1"),
        ([["P", "Q"], ["P", "Q"]], "sequence 1 has 1 positions and 2 labels"),
        ([["P"], ["P"]], "sequence 0 has 2 positions and 1 labels"),
        ([["P", ["Q"]], ["P"]], "sequence 0, position 1"),
        ([["P", {}], ["P"]], "sequence 0, position 1"),
        ([["P", "Q"], [set()]], "sequence 1, position 0"),
        ([["P", "Q"], [{None}]], "sequence 1, position 0"),
        ([["P", float("nan")], ["P"]], "sequence 0, position 1: nan cannot be a label"),
        ([["P", "Q"], [{"P", np.nan}]], "sequence 1, position 0: nan cannot be a label"),
        (
            [np.array([1.0, 2.0]), np.array([np.nan])],
            "sequence 1, position 0: nan cannot be a label",
        ),
    ],
)
@pytest.mark.parametrize("cls", [trellis.CRF, trellis.MEMM, trellis.HMM])
def test_invalid_y(cls: Any, y: Any, message: str) -> None:
    if cls is trellis.HMM and y is None:
        pytest.skip("an HMM may be fitted without y")
    with pytest.raises(InputError, match=message):
        cls().fit([["a", "b"], ["c"]], y)


def test_a_label_unknown_to_the_model() -> None:
    with pytest.raises(InputError, match="sequence 1, position 1: 'z' is not one of the 2 labels"):
        encode([["a"], ["b", "z"]], lengths(1, 2), ["a", "b"])
    with pytest.raises(InputError, match="sequence 0, position 0"):
        encode([[{"a", "z"}]], lengths(1), ["a", "b"])


def test_constraints_from_a_scheme() -> None:
    limits = constraints_for("BILOU", ["B-X", "L-X", "O", "U-X"])
    assert limits is not None
    allowed = ~limits.forbidden
    assert allowed.astype(int).tolist() == [[0, 1, 0, 0], [1, 0, 1, 1], [1, 0, 1, 1], [1, 0, 1, 1]]
    assert limits.start.tolist() == [0.0, -np.inf, 0.0, 0.0]
    assert limits.end.tolist() == [-np.inf, 0.0, 0.0, 0.0]


def test_constraints_from_pairs() -> None:
    limits = constraints_for([("P", "Q"), ("Q", "never")], ["P", "Q"])
    assert limits is not None
    assert limits.forbidden.tolist() == [[False, True], [False, False]]
    assert limits.start.tolist() == limits.end.tolist() == [0.0, 0.0]
    assert constraints_for(None, ["P"]) is None
