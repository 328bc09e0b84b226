"""The type of a fuzz target: seeds, a mutation, and a function that uses the mutated file."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from trellis.errors import TrellisError

SPARE = 64 << 20  # bytes that a case may take beyond `Target.factor` times the size of its file


class Target(NamedTuple):
    """One format or interface."""

    name: str
    seeds: Callable[[], list[bytes]]
    """Returns small valid files; called once, before the workers are forked."""
    mutate: Callable[[bytes, random.Random], bytes]
    use: Callable[[Path, random.Random], Any]
    """Reads the file at a path and uses what it contains."""
    suffix: str = ""
    allowed: tuple[type[BaseException], ...] = (TrellisError,)
    """The exceptions that the entry point documents. Any other is a finding."""
    cases: int = 20
    """Cases per round. Slow targets have fewer, so that all cases together keep their rate."""
    factor: int = 4
    """The memory that reading may take, as a multiple of the size of the file."""


def same(data: bytes, rng: random.Random) -> bytes:
    """Return the seed. For targets without a file, whose arguments come from ``rng``."""
    return data


def no_seed() -> list[bytes]:
    """Return one empty seed, for targets without a file."""
    return [b""]
