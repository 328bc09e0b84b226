"""Files that are not ours, or whose makers knew the checksum: a FormatError says what is wrong."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from native_files import (
    body_of,
    dump,
    edited,
    edited_envelope,
    header_of,
    of_tensor,
    refused,
    resealed,
    with_header,
)
from safetensors import SafetensorError, safe_open

from trellis.errors import FormatError, InputError
from trellis.formats import native


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        native.read(tmp_path / "absent.trellis")
    with pytest.raises(FileNotFoundError, match="no_folder'"):
        native.write(tmp_path / "no_folder" / "model.trellis", "crf", {}, {})


def test_not_a_regular_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for bad in (tmp_path, pipe):
        with pytest.raises(FormatError, match=f"{bad}: not a regular file"):
            native.read(bad)
        with pytest.raises(InputError, match="not a regular file"):
            native.write(bad, "crf", {}, {})
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "empty"),
        (b"{}", "2 bytes are too few"),
        (bytes(8), "header is not valid JSON"),
        (pickle.dumps({"weights": [1.0] * 10}), "a pickle, which is never loaded"),
        (b"# a text of some length\n", "the content is text, not a .trellis file"),
        (b"PK\x03\x04" + bytes(60), "not a .trellis file|not valid JSON"),
        (with_header(b"{}", b""), "not written by trellis"),
        (with_header(b"[1]", b""), "header is not a JSON object"),
        (with_header(b"\xff{}", b""), "utf-8"),
        (with_header(b'{"a":1,"a":2}', b""), "key 'a' appears twice"),
        (with_header(b"[" * 100_000, b""), "32 deep"),
        (with_header(b"[" * 40 + b"]" * 40, b""), "32 deep"),
        (with_header(b'{"a":' * 5000, b""), "32 deep"),
        (with_header(b'{"a":NaN}', b""), "is nan"),
        (with_header(b'{"a":1e999}', b""), "is inf"),
        (with_header(b'{"a":"\\ud800"}', b""), "surrogate"),
        (with_header(b'{"a":' + b"9" * 5000 + b"}", b""), "not valid JSON"),
        (with_header(b'{"__metadata__":{"trellis":3}}', b""), "not written by trellis"),
        (with_header(b'{"__metadata__":[]}', b""), "not written by trellis"),
        (with_header(b" " * (8 * 2**20 + 8), b""), "at most 8388608"),
    ],
    ids=lambda value: "file" if isinstance(value, bytes) else value[:20],
)
def test_foreign_files(path: Path, data: bytes, match: str) -> None:
    refused(path, data, match)


def test_foreign_safetensors(path: Path) -> None:
    tensors = {"weights": np.zeros(3)}
    for metadata in (None, {"format": "pt"}):
        safetensors.numpy.save_file(tensors, path, metadata)
        with pytest.raises(FormatError, match="not written by trellis"):
            native.read(path)


def test_rewritten_by_another_library(path: Path) -> None:
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    tensors = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file({**tensors, "more": np.zeros(2)}, path, metadata)
    with pytest.raises(FormatError, match="checksum does not match"):
        native.read(path)


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (of_tensor("weights", "dtype", "F128"), "'weights' has dtype 'F128': must be one of F64"),
        (of_tensor("weights", "dtype", ["F64"]), "has dtype"),
        (of_tensor("weights", "dtype", "F32"), "takes 24 bytes, but data_offsets .0, 48. are 48"),
        (of_tensor("weights", "shape", [2, 4]), "takes 64 bytes"),
        (of_tensor("weights", "shape", [-2, -3]), "shape"),
        (of_tensor("weights", "shape", [2.0, 3]), "shape"),
        (of_tensor("weights", "shape", [True, 6]), "shape"),
        (of_tensor("weights", "shape", 6), "shape"),
        (of_tensor("weights", "shape", [6] + [1] * 32), "at most 32"),
        (of_tensor("weights", "shape", [2**62, 4, 3]), "too large"),
        (of_tensor("weights", "shape", [2**63, 2**63]), "too large"),
        (of_tensor("none", "shape", [0, 2**63]), "too large"),
        (of_tensor("none", "shape", [0, 10**30]), "64 bits"),
        (of_tensor("weights", "data_offsets", [0, 48, 48]), "begin and end"),
        (of_tensor("weights", "data_offsets", [48, 0]), "are -48 bytes"),
        (of_tensor("weights", "data_offsets", [8, 56]), "begins at byte 8, not at 0"),
        (of_tensor("ids", "data_offsets", [36, 48]), "gaps and overlaps"),
        (of_tensor("weights", "data_offsets", [2**60, 2**60 + 48]), "gaps and overlaps"),
        (lambda header: header["weights"].pop("shape") and None, "must have dtype, shape"),
        (of_tensor("weights", "more", 1), "must have dtype, shape"),
        (lambda header: header | {"weights": None}, "must have dtype, shape"),
        (lambda header: header.pop("used") and None, "tensors take 63 bytes, but 65 bytes follow"),
        (lambda header: header.pop("weights") and None, "gaps and overlaps"),
        (lambda header: header["__metadata__"].update(more="x"), "other entries"),
    ],
)
def test_forged_headers(path: Path, edit: Any, match: str) -> None:
    refused(path, edited(path.read_bytes(), edit), match)


def test_misaligned(path: Path) -> None:
    native.write(path, "crf", {}, {"a": np.zeros(1, "f4"), "b": np.zeros(4, "u1")})

    def swap(header: dict[str, Any]) -> None:
        header["b"] = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
        header["a"]["data_offsets"] = [2, 6]
        header["c"] = {"dtype": "U8", "shape": [2], "data_offsets": [6, 8]}

    refused(path, edited(path.read_bytes(), swap), "'a' begins at byte .*: not aligned")


def test_booleans_must_be_zero_or_one(path: Path) -> None:
    data = bytearray(path.read_bytes())
    start = len(data) - len(body_of(data))
    data[start + header_of(data)["used"]["data_offsets"][0]] = 2
    refused(path, resealed(bytes(data)), "'used' is BOOL")


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda e: e.update(checksum="F" * 64), "hexadecimal"),
        (lambda e: e.update(checksum=1), "hexadecimal"),
        (lambda e: e.pop("checksum") and None, "hexadecimal"),
        (lambda e: dict(sorted(e.items(), reverse=True)), "not at the beginning of the header"),
        (lambda e: [1], "metadata is not a JSON object"),
    ],
)
def test_forged_checksums(path: Path, edit: Any, match: str) -> None:
    refused(path, edited_envelope(path.read_bytes(), edit, seal=False), match)


def test_checksum_at_another_place(path: Path) -> None:
    data = path.read_bytes()
    header = dict(reversed(header_of(data).items()))
    refused(
        path,
        with_header(dump(header).encode(), body_of(data)),
        "not at the beginning of the header",
    )


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda e: e.update(format=2, library="0.9.1"), "version 2 needs trellis '0.9.1' or later"),
        (lambda e: e.update(format=2, kind=[], meta=3), "format version 2 needs"),
        (lambda e: e.update(format=0), "format 0"),
        (lambda e: e.update(format=True), "format True"),
        (lambda e: e.update(format="1"), "format '1'"),
        (lambda e: e.pop("format") and None, "format None"),
        (lambda e: e.update(library=None), "library None"),
        (lambda e: e.update(meta={"a": float("nan")}), r"\['a'\] is nan"),
        (lambda e: e.update(kind=1), "must have a kind"),
        (lambda e: e.update(meta=[]), "must have a kind"),
        (lambda e: e.pop("meta") and None, "must have a kind"),
    ],
)
def test_versions_and_kinds(path: Path, edit: Any, match: str) -> None:
    refused(path, edited_envelope(path.read_bytes(), edit), match)


def test_other_kind(path: Path) -> None:
    with pytest.raises(FormatError, match=f"{path}: contains a model of kind 'crf', not 'hmm'"):
        native.read(path, kind="hmm")


def test_duplicate_keys_of_the_envelope(path: Path) -> None:
    data = path.read_bytes()
    header, end = data[8 : len(data) - len(body_of(data))], b'\\"format\\":1'
    assert header.count(end) == 1
    doubled = with_header(header.replace(end, end + b"," + end), body_of(data))
    refused(path, resealed(doubled), "key 'format' appears twice")


def test_safetensors_refuses_holes_too(path: Path) -> None:
    path.write_bytes(edited(path.read_bytes(), lambda header: header.pop("weights") and None))
    with pytest.raises(SafetensorError):
        safetensors.numpy.load_file(path)
