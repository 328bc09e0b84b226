"""Arrays of .npy, .npz and .safetensors files, compared with the libraries that wrote them."""

from __future__ import annotations

import io
import random
import re
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from trellis.errors import FormatError
from trellis.formats import arrays

RNG = np.random.default_rng(0)
SOME = {
    "f64": RNG.normal(size=(4, 3)),
    "f32": RNG.normal(size=(2, 5, 3)).astype(np.float32),
    "f16": RNG.normal(size=7).astype(np.float16),
    "i64": np.arange(6).reshape(2, 3),
    "u8": np.array([0, 255], np.uint8),
    "none": np.zeros((0, 3)),
    "one": np.array(2.5),
}


@pytest.mark.parametrize("name", SOME)
def test_npy(tmp_path: Path, name: str) -> None:
    for n, array in enumerate((SOME[name], np.asfortranarray(SOME[name]))):
        np.save(tmp_path / f"a{n}.npy", array)
        (item,) = arrays.read(tmp_path / f"a{n}.npy").items()
        assert item[0] == f"a{n}"
        assert item[1].dtype == array.dtype
        np.testing.assert_array_equal(item[1], array)


def test_the_other_byte_order(tmp_path: Path) -> None:
    array = SOME["f64"].astype(">f8")
    np.save(tmp_path / "big.npy", array)
    np.testing.assert_array_equal(arrays.read(tmp_path / "big.npy")["big"], array)


def test_npz_and_safetensors(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **SOME)
    np.savez_compressed(tmp_path / "b.npz", **SOME)
    safetensors.numpy.save_file(SOME, tmp_path / "c.safetensors", {"made": "here"})
    (tmp_path / "d.bin").write_bytes((tmp_path / "b.npz").read_bytes())  # names do not matter
    for name in ("a.npz", "b.npz", "c.safetensors", "d.bin"):
        arrays_read = arrays.read(str(tmp_path / name))
        assert arrays_read.keys() == SOME.keys()
        for key, array in SOME.items():
            assert arrays_read[key].dtype == array.dtype
            np.testing.assert_array_equal(arrays_read[key], array)


def saved(**named: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **named)
    return file.getvalue()


def npy(array: np.ndarray, pickled: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=pickled)
    return file.getvalue()


BROKEN = {
    "empty": (b"", "not a .npy"),
    "text": (b"0.5 0.5\n" * 10, "not a .npy"),
    "pickle": (npy(np.array([{"a": 1}], dtype=object), pickled=True), "dtype object"),
    "strings": (npy(np.array(["a"])), "must be numbers"),
    "cut": (npy(np.zeros((4, 4)))[:-3], "need 128 bytes, the file has 125"),
    "longer": (npy(np.zeros((4, 4))) + b"\0", "need 128 bytes, the file has 129"),
    "forged": (npy(np.zeros((4, 4))).replace(b"(4, 4)", b"(9**9,)"[:6]), "not a .npy file"),
    "huge": (npy(np.zeros(10**4)).replace(b"(10000,)", b"(9**99,)"), "not a .npy file"),
    "below zero": (npy(np.zeros((4, 4))).replace(b"(4, 4), ", b"(-4,-4),"), "shape"),
    "huge shape": (npy(np.zeros(10**6)).replace(b"(1000000,)", b"(9999999,)"), "need 79999992"),
    "version": (b"\x93NUMPY\x09\x00" + npy(np.zeros(2))[8:], "not a .npy file"),
    "half an archive": (saved(a=np.zeros(99))[:-30], "not a .npz file"),
    "no array inside": (b"PK\x05\x06" + bytes(18), "not a .npy"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_damage(tmp_path: Path, name: str) -> None:
    data, message = BROKEN[name]
    path = tmp_path / "broken.npy"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=rf"broken\.npy: .*({message})") as caught:
        arrays.read(path)
    assert "\n" not in str(caught.value)


def test_archives_with_other_contents(tmp_path: Path) -> None:
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy(np.zeros(2)))
        archive.writestr("notes.txt", "not an array")
    with pytest.raises(FormatError, match=re.escape("odd.npz: 'notes.txt' not a .npy file")):
        arrays.read(path)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        arrays.read(tmp_path / "none.npy")


def test_mutants(tmp_path: Path) -> None:
    """A changed byte gives an error of ours or other numbers; nothing else."""
    rng, path = random.Random(1), tmp_path / "mutant.npz"
    valid = [npy(SOME["f64"]), saved(a=SOME["f64"]), safetensors.numpy.save({"a": SOME["f64"]})]
    refused = 0
    for n in range(600):
        data = bytearray(valid[n % 3])
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            arrays_read = arrays.read(path)
        except FormatError:
            refused += 1
            continue
        assert all(isinstance(array, np.ndarray) for array in arrays_read.values())
    assert 100 < refused < 600


def archive_of(data: bytes, method: int, declared: int | None = None) -> bytes:
    """A ``.npz`` file with one member; ``declared`` is a wrong size in both of its headers."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("a.npy", data)
    text = file.getvalue()
    if declared is not None:
        size = len(data).to_bytes(4, "little")
        assert text.count(size) >= 2
        text = text.replace(size, declared.to_bytes(4, "little"))
    return text


def zeros_file(count: int) -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros((count // 2, 2), np.float32))
    return file.getvalue()


@pytest.mark.parametrize("declared", [None, 1000])
def test_an_archive_that_expands_too_much(tmp_path: Path, declared: int | None) -> None:
    data = archive_of(zeros_file(40_000_000), zipfile.ZIP_DEFLATED, declared)
    assert len(data) < 200_000
    path = tmp_path / "bomb.npz"
    path.write_bytes(data)
    del data
    tracemalloc.start()
    with pytest.raises(FormatError, match=r"bomb\.npz: "):
        arrays.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_numpy_does_not_write(tmp_path: Path, method: int) -> None:
    path = tmp_path / "odd.npz"
    data = archive_of(zeros_file(10), method)
    for damage in range(len(data)):
        path.write_bytes(data[:damage] + bytes([data[damage] ^ 255]) + data[damage + 1 :])
        with pytest.raises(FormatError, match=r"odd\.npz: "):
            arrays.read(path)
