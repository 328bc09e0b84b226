"""`.trellis` files: round trips, and values that cannot be stored exactly."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from native_files import DIGITS, META, PREFIX, body_of, dump, header_of, peak_memory, some_tensors
from safetensors import safe_open
from scale import examples

import trellis
from trellis.errors import FormatError, InputError
from trellis.formats import native

DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
tensor_names = names.filter(lambda name: name != "__metadata__")
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
any_array = arrays.arrays(
    st.sampled_from([*DTYPES, ">f8", ">i4"]),
    arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)


@settings(max_examples=examples(150), deadline=None)
@given(
    kind=names,
    meta=st.dictionaries(names, json_values, max_size=4),
    tensors=st.dictionaries(tensor_names, any_array, max_size=5),
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, kind: str, meta: dict[str, Any], tensors: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.trellis"
    native.write(path, kind, meta, tensors)
    contents = native.read(path, kind)
    assert (contents.kind, contents.meta, contents.version) == (kind, meta, 1)
    assert dump(contents.meta) == dump(meta, sort_keys=True)  # 1 is not 1.0
    others = safetensors.numpy.load_file(path)
    assert contents.tensors.keys() == tensors.keys() == others.keys()
    for name, array in tensors.items():
        ours = contents.tensors[name]
        for read in (ours, others[name]):
            assert read.dtype == array.dtype.newbyteorder("<")
            assert read.shape == array.shape
            assert read.tobytes() == array.astype(read.dtype).tobytes()  # NaN and -0.0 too
        assert ours.flags.aligned


def test_is_a_safetensors_file(path: Path) -> None:
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        assert set(file.keys()) == set(some_tensors())
    envelope = json.loads(metadata["trellis"])
    assert envelope.pop("checksum") == path.read_bytes()[DIGITS].decode()
    assert envelope == {
        "format": 1,
        "kind": "crf",
        "library": trellis.__version__,
        "meta": META,
    }


def test_equal_input_gives_equal_bytes(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.trellis"
    native.write(
        other,
        "crf",
        dict(reversed(META.items())),
        {
            name: np.asfortranarray(array) if array.ndim else array
            for name, array in reversed(some_tensors().items())
        },
    )
    assert other.read_bytes() == path.read_bytes()


def test_layout(path: Path) -> None:
    data = path.read_bytes()
    assert data[8 : DIGITS.start] == PREFIX
    assert (len(data) - len(body_of(data))) % 8 == 0
    entries = list(header_of(data).items())[1:]
    sizes = [np.dtype(some_tensors()[name].dtype).itemsize for name, _ in entries]
    assert sizes == sorted(sizes, reverse=True)


def test_arrays_are_mapped_and_read_only(path: Path) -> None:
    ones = np.ones(2**21)  # 16 MiB
    assert peak_memory(lambda: native.write(path, "crf", {}, {"large": ones})) < 2**20
    assert peak_memory(lambda: native.read(path)) < 2**20
    large = native.read(path).tensors["large"]
    with pytest.raises(ValueError, match="read-only"):
        large[0] = 2.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        large.flags.writeable = True


def test_arrays_outlive_the_file(path: Path) -> None:
    weights = native.read(path).tensors["weights"]
    native.write(path, "crf", {}, {"weights": np.zeros((2, 3))})  # as a model saves over itself
    assert weights.sum() == 15.0
    path.unlink()
    assert weights.sum() == 15.0


def test_contents_can_be_written_again(path: Path) -> None:
    before = path.read_bytes()
    contents = native.read(str(path))
    native.write(str(path), contents.kind, contents.meta, contents.tensors)
    assert path.read_bytes() == before


# What cannot be written


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("meta", "match"),
    [
        ({"a": [0.0, float("nan")]}, re.escape("meta['a'][1] is nan")),
        ({"a": {"b": float("-inf")}}, re.escape("meta['a']['b'] is -inf")),
        ({"a": np.int64(3)}, re.escape("meta['a'] is of type int64")),
        ({"a": np.zeros(2)}, re.escape("meta['a'] is of type ndarray")),
        ({"a": (1, 2)}, re.escape("meta['a'] is of type tuple")),
        ({"a": {1}}, "of type set"),
        ({"a": b"bytes"}, "of type bytes"),
        ({"a": {3: 1}}, re.escape("meta['a'] has the key 3")),
        ({"a": 2**64}, "64 bits"),
        ({"a": 10**5000}, "64 bits"),
        ({"a": "\ud800"}, re.escape("meta['a'] contains an unpaired surrogate")),
        ({"\udfff": 1}, "a key of meta contains an unpaired"),
        ({"a": nested(31)}, "32 deep"),
        ({"a": CIRCLE}, "32 deep"),
        ({"a": "x" * 2**23}, "at most 8388608"),
        ([("a", 1)], "meta a dict"),
        (None, "meta a dict"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, str) else None,
)
def test_bad_meta(path: Path, meta: Any, match: str) -> None:
    before = path.read_bytes()
    with pytest.raises(InputError, match=match):
        native.write(path, "crf", meta, {})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_deepest_meta(path: Path) -> None:
    native.write(path, "crf", {"a": nested(30)}, {})
    assert native.read(path).meta == {"a": nested(30)}


@pytest.mark.parametrize(
    ("tensors", "match"),
    [
        ({"a": np.array([None])}, "'a' has dtype object: must be one of float64"),
        ({"a": np.array(["x"])}, "dtype <U1"),
        ({"a": np.array([1j])}, "complex128"),
        ({"a": np.zeros(1, dtype="M8[s]")}, "datetime64"),
        ({"a": np.zeros(1, dtype=[("x", "f8")])}, "'x'"),
        ({"a": np.zeros(1, dtype="V3")}, "V3"),
        ({"a": [1.0]}, "'a' is of type list: must be an array"),
        ({3: np.zeros(1)}, "name 3 must be a str"),
        ({"__metadata__": np.zeros(1)}, "__metadata__"),
        ({"\ud800": np.zeros(1)}, "surrogate"),
    ],
)
def test_bad_tensors(path: Path, tensors: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        native.write(path, "crf", {}, tensors)


@pytest.mark.parametrize("kind", [None, 3, b"crf"])
def test_bad_kind(path: Path, kind: Any) -> None:
    with pytest.raises(InputError, match="kind must be a str"):
        native.write(path, kind, {}, {})


def test_expect(path: Path) -> None:
    tensors = native.read(path).tensors
    assert native.expect(tensors, "weights", np.float64, (2, None)) is tensors["weights"]
    assert native.expect(tensors, "none", "f4", (0, 4)).size == 0
    for name, dtype, shape, match in [
        ("absent", np.float64, (2, 3), "tensor 'absent' is missing"),
        ("weights", np.float32, (2, 3), "'weights' has dtype float64: must be float32"),
        ("weights", np.float64, (3, 2), r"'weights' has shape \(2, 3\): must be \(3, 2\)"),
        ("weights", np.float64, (None, 2), r"must be \(any, 2\)"),
        ("weights", np.float64, (6,), r"must be \(6\)"),
        ("weights", np.float64, (), r"must be \(\)"),
    ]:
        with pytest.raises(FormatError, match=f"{path}: .*{match}"):
            native.expect(tensors, name, dtype, shape)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_finite(path: Path, bad: float) -> None:
    weights = np.zeros((2, 3))
    weights[1, 2] = bad
    native.write(path, "crf", {}, {"weights": weights, "ids": np.arange(3), "none": np.zeros(0)})
    tensors = native.read(path).tensors
    assert native.finite(tensors, "ids") is tensors["ids"]
    assert native.finite(tensors, "none").size == 0
    with pytest.raises(FormatError, match=rf"{path}: tensor 'weights' is {bad} at \[1, 2\]"):
        native.finite(tensors, "weights")
