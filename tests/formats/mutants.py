"""Damage a file: change, remove, insert or repeat a few bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

Change: TypeAlias = Callable[[bytes, random.Random], bytes]

NUMBERS = [0, 1, 2, 7, 8, 255, 2**16, 2**31 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


def mutant(data: bytes, rng: random.Random, changes: Sequence[Change]) -> bytes:
    """A file with one to three changes."""
    for _ in range(rng.randint(1, 3)):
        data = rng.choice(changes)(data, rng)
    return data


def change_bit(data: bytes, rng: random.Random) -> bytes:
    i = rng.randrange(len(data))
    return data[:i] + bytes([data[i] ^ 1 << rng.randrange(8)]) + data[i + 1 :]


def change_byte(data: bytes, rng: random.Random) -> bytes:
    i = rng.randrange(len(data))
    return data[:i] + bytes([rng.randrange(256)]) + data[i + 1 :]


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(1, len(data) + 1)]


def insert(data: bytes, rng: random.Random) -> bytes:
    i = rng.randrange(len(data) + 1)
    return data[:i] + rng.randbytes(rng.choice([1, 2, 8, 64])) + data[i:]


def remove(data: bytes, rng: random.Random) -> bytes:
    i = rng.randrange(len(data))
    return data[:i] + data[i + rng.choice([1, 2, 8, 64]) :] or data


def repeat(data: bytes, rng: random.Random) -> bytes:
    i, j = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:j] + data[i:j] + data[j:]


def change_number(data: bytes, rng: random.Random) -> bytes:
    """Another integer, giant ones too, over the bytes at a place, more often near the beginning."""
    layout = rng.choice(["<B", "<I", "<Q"])
    size = struct.calcsize(layout)
    i = rng.randrange(max(1, min(len(data) - size + 1, rng.choice([128, len(data)]))))
    number = rng.choice([*NUMBERS, rng.randrange(256)]) % 256**size
    return data[:i] + struct.pack(layout, number) + data[i + size :]


def put(path: Path, data: bytes) -> None:
    """A new file in the place of the old one: to empty that one first would flush the disk."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


BYTES: list[Change] = [change_bit, change_byte, truncate, insert, remove, repeat]
