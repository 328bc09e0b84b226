"""No file with a changed byte is accepted; forgeries neither crash, nor hang, nor take memory."""

from __future__ import annotations

import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from mutants import BYTES, NUMBERS, change_byte, mutant, put
from native_files import (
    DIGITS,
    META,
    body_of,
    edited,
    of_tensor,
    peak_memory,
    refused,
    resealed,
    with_header,
)

from trellis.errors import FormatError
from trellis.formats import native


def test_truncated_files(path: Path) -> None:
    native.write(path, "crf", META, {"weights": np.arange(500.0), "text": np.zeros(77, np.uint8)})
    intact = path.read_bytes()
    for part in range(50):
        refused(path, intact[: len(intact) * part // 50])
    refused(path, intact[:-1], "tensors take 4077 bytes, but 4076 bytes follow")
    refused(path, intact + b"\0", "tensors take 4077 bytes, but 4078 bytes follow")


def test_a_flipped_bit_in_any_byte_is_detected(path: Path) -> None:
    intact, rng = path.read_bytes(), random.Random(2)
    for i, byte in enumerate(intact):
        damaged = intact[:i] + bytes([byte ^ 1 << rng.randrange(8)]) + intact[i + 1 :]
        refused(path, damaged)


def other_length(data: bytes, rng: random.Random) -> bytes:
    length = int.from_bytes(data[:8], "little")
    length = rng.choice([length - 8, length + 8, length + 1, *NUMBERS])
    return (length % 2**64).to_bytes(8, "little") + data[8:]


def header_number(data: bytes, rng: random.Random) -> bytes:
    """Another number in the header, giant ones too, with the header's length right."""
    length = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + length], data[8 + length :]
    numbers = list(re.finditer(rb"(?<![\w.])\d+(?![\w.])", header))
    if not numbers:
        return change_byte(data, rng)
    place = rng.choice(numbers)
    number = rng.choice([*NUMBERS, -1, int(place[0][:18]) + rng.choice([-8, -1, 1, 8])])
    return with_header(header[: place.start()] + b"%d" % number + header[place.end() :], body)


def swap_ranges(data: bytes, rng: random.Random) -> bytes:
    """Two of the strings, lists or objects in the header change places."""
    length = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + length], data[8 + length :]
    parts = list(re.finditer(rb'\[[\d,]*\]|"[A-Z]\d+"|"[a-z]\w+"|\{[^{}]*\}', header))
    pair = sorted(rng.sample(range(len(parts)), 2)) if len(parts) > 1 else None
    if pair is None or parts[pair[0]].end() > parts[pair[1]].start():
        return change_byte(data, rng)
    a, b = (parts[i] for i in pair)
    swapped = header[: a.start()] + b[0] + header[a.end() : b.start()] + a[0] + header[b.end() :]
    return with_header(swapped, body)


CHANGES = [*BYTES, other_length, header_number, swap_ranges]


@pytest.mark.slow
def test_ten_thousand_mutants(path: Path) -> None:
    intact, rng = path.read_bytes(), random.Random(0)

    def refuse_all() -> None:
        made = 0
        while made < 10_000:
            data = mutant(intact, rng, CHANGES)
            if data != intact:
                refused(path, data)
                made += 1

    assert peak_memory(refuse_all) < 2**22  # whatever sizes they declare


def test_forged_mutants(path: Path) -> None:
    """With a right checksum, what is accepted is sound, and safetensors agrees."""
    intact, rng = path.read_bytes(), random.Random(1)
    accepted = 0
    for _ in range(4000):
        data = mutant(intact, rng, CHANGES)
        if len(data) < DIGITS.stop:
            continue
        put(path, resealed(data))
        try:
            tensors = native.read(path).tensors
        except FormatError:
            continue
        accepted += 1
        assert sum(array.nbytes for array in tensors.values()) == len(body_of(data))
        others = safetensors.numpy.load_file(path)
        assert tensors.keys() == others.keys()
        for name, array in tensors.items():
            assert array.tobytes() == others[name].tobytes()
    assert accepted > 100


@pytest.mark.parametrize("size", [2**23, 2**31, 2**40, 2**63, 2**64 - 1])
def test_giant_sizes_take_no_memory(path: Path, size: int) -> None:
    intact = path.read_bytes()

    def giant(header: dict[str, Any]) -> None:
        header["weights"].update(shape=[size], data_offsets=[0, size * 8 % 2**64])

    forged = [
        size.to_bytes(8, "little") + intact[8:],
        edited(intact, giant),
        edited(intact, of_tensor("weights", "shape", [size, size])),
        edited(intact, of_tensor("weights", "data_offsets", [0, size])),
    ]
    for data in forged:
        assert peak_memory(partial(refused, path, data)) < 2**20


def test_long_names_do_not_slow_down_validation(path: Path) -> None:
    """Error messages contain only the start of a key; otherwise this would take days."""
    header = b'{"%s":[%s0]}' % (b"x" * 2**21, b"0," * 2**20)
    refused(path, with_header(header, b""), "not written by trellis")
