"""Parse and forge `.trellis` files as docs/format.md describes them, without our code."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutants import put

from trellis.errors import FormatError
from trellis.formats import native

PREFIX = b'{"__metadata__":{"trellis":"{\\"checksum\\":\\"'
DIGITS = slice(8 + len(PREFIX), 8 + len(PREFIX) + 64)
META = {"labels": ["B-né", "O"], "l2": 0.5, "params": {"window": [1, 2], "lower": True, "c": None}}


def some_tensors() -> dict[str, Any]:
    return {
        "weights": np.arange(6.0).reshape(2, 3),
        "ids": np.array([3, 1, 2], dtype=np.int32),
        "text": np.array([104, 105, 33], dtype=np.uint8),
        "used": np.array([True, False]),
        "none": np.zeros((0, 4), dtype=np.float32),
    }


def header_of(data: bytes) -> dict[str, Any]:
    end = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8:end])
    return header


def body_of(data: bytes) -> bytes:
    return data[8 + int.from_bytes(data[:8], "little") :]


def with_header(text: bytes, body: bytes) -> bytes:
    """A file with another header, its length right."""
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


def dump(value: Any, sort_keys: bool = False) -> str:
    return json.dumps(value, sort_keys=sort_keys, ensure_ascii=False, separators=(",", ":"))


def resealed(data: bytes) -> bytes:
    """The same with the checksum that belongs to it, as a forger would write it."""
    zeroed = data[: DIGITS.start] + b"0" * 64 + data[DIGITS.stop :]
    digits = hashlib.sha256(zeroed).hexdigest().encode()
    return data[: DIGITS.start] + digits + data[DIGITS.stop :]


def edited(data: bytes, edit: Callable[[dict[str, Any]], Any], seal: bool = True) -> bytes:
    """A forged file: `edit` changes the header, or returns another."""
    header = header_of(data)
    header = edit(header) or header
    forged = with_header(dump(header).encode(), body_of(data))
    return resealed(forged) if seal else forged


def edited_envelope(data: bytes, edit: Callable[[dict[str, Any]], Any], seal: bool = True) -> bytes:
    def change(header: dict[str, Any]) -> None:
        envelope = json.loads(header["__metadata__"]["trellis"])
        envelope = edit(envelope) or envelope
        header["__metadata__"]["trellis"] = dump(envelope)

    return edited(data, change, seal)


def of_tensor(name: str, field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header[name].__setitem__(field, value)


def refused(path: Path, data: bytes, match: str | None = None) -> None:
    put(path, data)
    with pytest.raises(FormatError, match=match) as caught:
        native.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value)) < 1000 + len(str(path))


def peak_memory(work: Callable[[], object]) -> int:
    """Bytes that Python and NumPy held at most, beyond what they held before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
