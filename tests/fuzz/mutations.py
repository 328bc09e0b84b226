"""Mutations that know the structure of a file: JSON values, tensors, lines, compressed streams.

Every function takes a `random.Random`, so a case is reproduced by its seed.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import foreign_files
import mutants
import numpy as np
from native_files import body_of, dump, header_of, resealed, with_header

SCALARS: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63, 2**64, 10**30,
    -(2**63), 0.5, -0.0, 1e308, -1e308, 1e-320, float("nan"), float("inf"), "", "x", "é日", "\x00",
    "a" * 300, "\ud800", [], {}, [[]], [None], {"": 0}, "auto", "(a+)+$",
]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 127, 255, 65535, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 1e-320, 1e15, np.nan, np.inf, -np.inf]
DTYPES = ["F64", "F32", "F16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL", "C64"]


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return a file with one to three changed, removed, inserted or repeated pieces."""
    data = data or b"x"
    return mutants.mutant(data, rng, [*mutants.BYTES, mutants.change_number]) or b"x"


def mutate_text(data: bytes, rng: random.Random) -> bytes:
    """Return a text with changed digits, lines, fields or bytes."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        change = rng.choice([*foreign_files.TEXT, _repeat_field, _insert_token])
        data = change(data or b"x", rng)
    return data


def _repeat_field(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    i = rng.randrange(len(lines))
    fields = lines[i].split(rng.choice([b" ", b"\t", b":", b"="]))
    j = rng.randrange(len(fields))
    fields[j : j + 1] = [fields[j]] * rng.choice((0, 2, 3, 50))
    lines[i] = rng.choice([b" ", b"\t"]).join(fields)
    return b"\n".join(lines)


TOKENS = [
    b"\t", b" ", b"\\", b"[", b"](", b")", b"%x[0,0]", b"%x[-99999999999,0]", b"{", b"\"", b"\r",
    b"\xef\xbb\xbf", b"\xff\xfe", b"\xe2\x80\xa8", b"\x00", b"nan", b"1e999", b"-1", b"\n\n", b":",
    b"__label__", b"# ", b"-DOCSTART-", b"@weight", b"99999999999999999999",
]  # fmt: skip


def _insert_token(data: bytes, rng: random.Random) -> bytes:
    i = rng.randrange(len(data) + 1)
    return data[:i] + rng.choice(TOKENS) * rng.choice((1, 1, 1, 40)) + data[i:]


# ---- JSON


def mutate_json(value: Any, rng: random.Random) -> Any:
    """Return a JSON value in which one place has another value, or is removed or repeated."""
    places = [*_places(value)]
    if not places:
        return deepcopy(rng.choice(SCALARS))
    container, key = rng.choice(places)
    action = rng.randrange(6)
    if action == 0:
        del container[key]
    elif action == 1 and isinstance(container, list):
        container.insert(rng.randrange(len(container) + 1), deepcopy(container[key]))
    elif action == 2:  # a value of another place, which has a plausible type
        other, name = rng.choice(places)
        container[key] = deepcopy(other[name])
    elif action == 3 and isinstance(container[key], int | float):
        container[key] = container[key] * rng.choice((-1, 2, 1000)) + rng.choice((-1, 0, 1))
    elif action == 4 and isinstance(container, dict):
        container[rng.choice(["", "x", "kind", "é"])] = container.pop(key)
    else:
        container[key] = deepcopy(rng.choice(SCALARS))
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place inside a JSON value as (container, key)."""
    keys: Any = ()
    if isinstance(value, dict):
        keys = [*value]
    elif isinstance(value, list):
        keys = range(len(value))
    places = [(value, key) for key in keys]
    return places + [place for key in keys for place in _places(value[key])]


def mutate_json_text(data: bytes, rng: random.Random) -> bytes:
    """Return a JSON text with another value at a place, or with changed bytes."""
    if rng.random() < 0.3:
        return mutate_text(data, rng)
    value = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = mutate_json(value, rng) if isinstance(value, dict | list) else value
    return json.dumps(value).encode()


def mutate_json_lines(data: bytes, rng: random.Random) -> bytes:
    """Return JSON lines of which one is mutated."""
    lines = data.splitlines()
    i = rng.randrange(len(lines))
    lines[i] = mutate_json_text(lines[i], rng)
    return b"\n".join(lines)


# ---- .trellis files


def mutate_native(data: bytes, rng: random.Random) -> bytes:
    """Return a ``.trellis`` file with changed metadata or tensors and a valid checksum."""
    if rng.random() < 0.1:
        return mutate_bytes(data, rng)
    header, body = header_of(data), body_of(data)
    changes = rng.choices([_change_meta, _change_meta, _change_values], k=rng.choice((0, 1, 1, 2)))
    # A tensor is changed last: the other changes need a consistent header.
    if not changes or rng.random() < 0.1:
        changes.append(_change_tensor)
    for change in changes:
        body = change(header, body, rng)
    try:
        text = dump(header).encode()
    except UnicodeEncodeError:  # an unpaired surrogate, which JSON must escape
        text = json.dumps(header, separators=(",", ":")).encode()
    return resealed(with_header(text, body))


def mutate_safetensors(data: bytes, rng: random.Random) -> bytes:
    """Return a ``.safetensors`` file with a changed header, values or bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(data, rng)
    header, body = header_of(data), body_of(data)
    body = rng.choice([_change_values, _change_tensor])(header, body, rng)
    return with_header(dump(header).encode(), body)


def _change_meta(header: dict[str, Any], body: bytes, rng: random.Random) -> bytes:
    envelope = json.loads(header["__metadata__"]["trellis"])
    checksum = envelope.pop("checksum")
    target = envelope if rng.random() < 0.05 else envelope.get("meta")
    if isinstance(target, dict):
        mutate_json(target, rng)
    try:
        text = dump({"checksum": checksum, **envelope})
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps({"checksum": checksum, **envelope}, separators=(",", ":"))
    header["__metadata__"]["trellis"] = text
    return body


def _tensor_names(header: dict[str, Any]) -> list[str]:
    return [name for name in header if name != "__metadata__"]


def _change_values(header: dict[str, Any], body: bytes, rng: random.Random) -> bytes:
    """Change a few elements of a tensor."""
    names = _tensor_names(header)
    if not names:
        return body
    entry = header[rng.choice(names)]
    codes = {"F": "f", "I": "i", "U": "u", "B": "?"}
    size = "" if entry["dtype"] == "BOOL" else str(int(entry["dtype"][1:]) // 8)
    dtype = np.dtype(codes[entry["dtype"][0]] + size)
    begin, end = entry["data_offsets"]
    if end > len(body) or (end - begin) % dtype.itemsize or begin >= end:
        return body
    values = np.frombuffer(body[begin:end], dtype).copy()
    for _ in range(rng.choice((1, 1, 2, 8))):
        i = rng.randrange(len(values))
        if dtype.kind == "f":
            with np.errstate(over="ignore"):
                values[i] = rng.choice([*FLOATS, rng.gauss(0, 10)])
        elif dtype.kind == "b":
            values[i] = not values[i]
        else:
            limits = np.iinfo(dtype)
            number = rng.choice([*NUMBERS, int(values[i]) + rng.choice((-1, 1)), len(values)])
            values[i] = min(max(number, limits.min), limits.max)
    return body[:begin] + values.tobytes() + body[end:]


def _change_tensor(header: dict[str, Any], body: bytes, rng: random.Random) -> bytes:
    """Change the dtype, the shape, the name or the size of a tensor."""
    names = _tensor_names(header)
    if not names:
        return body
    name = rng.choice(names)
    entry = header[name]
    action = rng.randrange(6)
    if action == 0:
        entry["dtype"] = rng.choice(DTYPES)
    elif action == 1:
        entry["shape"] = rng.choice(
            [[], [0], [-1], [2**62, 4], entry["shape"][::-1], [1, *entry["shape"]], [2**40, 0]]
        )
    elif action == 2:
        header[rng.choice([*names, "", "other"])] = header.pop(name)
    elif action == 3:
        i = rng.randrange(2)
        entry["data_offsets"][i] = rng.choice([0, -1, 8, len(body), 2**63, 1e3, None])
    else:
        return _resize_tensor(header, name, body, rng.choice((-1, 1, -1000, 3)))
    return body


def _resize_tensor(header: dict[str, Any], name: str, body: bytes, rows: int) -> bytes:
    """Add rows to a tensor or remove some; the offsets of the tensors after it follow."""
    entry = header[name]
    begin, end = entry["data_offsets"]
    count = entry["shape"][0] if entry["shape"] else 0
    if not isinstance(count, int) or count <= 0 or not 0 <= begin < end <= len(body):
        return body
    size = (end - begin) // count
    rows = max(rows, -count)
    piece = body[begin:end] + body[begin : begin + size] * max(rows, 0)
    piece = piece[: (count + rows) * size]
    entry["shape"][0] = count + rows
    for other in _tensor_names(header):
        offsets = header[other]["data_offsets"]
        if other == name:
            offsets[1] = begin + len(piece)
        elif isinstance(offsets[0], int) and offsets[0] >= end:
            offsets[:] = [offset + len(piece) - (end - begin) for offset in offsets]
    return body[:begin] + piece + body[end:]


# ---- compressed files

COMPRESSORS: list[Callable[[bytes], bytes]] = [
    lambda data: gzip.compress(data, mtime=0),
    lzma.compress,
    bz2.compress,
    lambda data: b"\x28\xb5\x2f\xfd" + data,  # Zstandard: only the first bytes
]


def mutate_compressed(data: bytes, rng: random.Random) -> bytes:
    """Return a text in one to three streams of one program, then damaged."""
    compress = rng.choice(COMPRESSORS)
    packed = b"".join(compress(data) for _ in range(rng.choice((1, 1, 2, 3))))
    return mutate_bytes(packed, rng) if rng.random() < 0.8 else packed + rng.randbytes(9)
