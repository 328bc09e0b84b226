"""Mutated files of word vectors neither crash, nor hang, nor take memory.

What is accepted is sound: distinct words, finite numbers, a row for each word.
"""

from __future__ import annotations

import pickle
import random
import re
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutants import BYTES, NUMBERS, change_byte, change_number, mutant, put
from vector_files import some_file, some_rows, some_words

from trellis import Vectors
from trellis.errors import FormatError
from trellis.formats import fasttext, word2vec
from trellis.formats.quantization import quantize

KINDS = ["bin", "supervised", "ftz", "text", "binary", "glove", "gensim", "npy"]


class Holder:
    """Pickled as gensim's KeyedVectors are: attributes in a dictionary."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def write_valid(kind: str, path: Path) -> Path:
    """Write a file of this kind at the path, and return the path of the file to damage."""
    words, matrix = some_words(8), some_rows(8, 3)
    if kind in ("bin", "supervised"):
        model = "supervised" if kind == "supervised" else "cbow"
        fasttext.write(path, some_file(model, words=8, dim=3, bucket=12))
    elif kind == "ftz":
        prune = np.array([[7, 1], [11, 0], [3, 2]], np.int32)
        file = some_file("supervised", words=8, dim=3, bucket=12)
        large = quantize(some_rows(300, 3), norms=True, random_state=0)
        assert large.norm_codes is not None
        few = replace(large, codes=large.codes[:11], norm_codes=large.norm_codes[:11])
        fasttext.write(path, replace(file, prune=prune, input=few))
    elif kind == "binary":
        word2vec.write_binary(path, words, matrix)
    elif kind in ("text", "glove"):
        word2vec.write_text(path, words, matrix, header=kind == "text")
    elif kind == "gensim":
        path.write_bytes(pickle.dumps(Holder(index_to_key=words, vectors=matrix), 4))
    else:
        path.write_bytes(pickle.dumps(Holder(index_to_key=words, __numpys=["vectors"]), 4))
        np.save(f"{path}.vectors.npy", matrix)
        return Path(f"{path}.vectors.npy")
    return path


def change_digits(data: bytes, rng: random.Random) -> bytes:
    """Another number in a text, giant ones too."""
    numbers = list(re.finditer(rb"\d+", data[:200])) + list(re.finditer(rb"\d+", data))
    if not numbers:
        return change_byte(data, rng)
    place = rng.choice(numbers)
    return data[: place.start()] + b"%d" % rng.choice(NUMBERS) + data[place.end() :]


@contextmanager
def little_memory(size: int) -> Iterator[None]:
    """At most twice the file and 64 MB more."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    yield
    _, peak = tracemalloc.get_traced_memory()
    assert peak - before < 2 * size + 2**26


def damaged(kind: str, path: Path, count: int) -> int:
    """Load ``count`` mutants, and return the number that was accepted."""
    rng = random.Random(KINDS.index(kind))
    target = write_valid(kind, path)
    good, accepted = target.read_bytes(), 0
    changes = [*BYTES, change_number, *([change_digits] if kind in ("text", "glove") else [])]
    tracemalloc.start()
    try:
        for _ in range(count):
            data = mutant(good, rng, changes)
            put(target, data)
            with little_memory(len(data)):
                accepted += is_sound(path)
    finally:
        tracemalloc.stop()
    return accepted


def is_sound(path: Path) -> bool:
    try:
        v = Vectors.load(path, errors="replace")
    except FormatError as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert said.startswith(f"{path}: ")
        assert len(said) < 1000 + 2 * len(str(path))
        return False
    assert len(set(v.words)) == len(v) == len(v.matrix) > 0
    assert np.isfinite(v.matrix).all()
    assert len(v.nearest(v.matrix[0], k=2)) == min(2, len(v))
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_mutants(kind: str, tmp_path: Path) -> None:
    assert is_sound_when_valid(kind, tmp_path / "valid")
    assert damaged(kind, tmp_path / "file", 300) < 300


def is_sound_when_valid(kind: str, path: Path) -> bool:
    write_valid(kind, path)
    return is_sound(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_mutants(kind: str, tmp_path: Path) -> None:
    accepted = damaged(kind, tmp_path / "file", 10_000)
    assert 0 < accepted < 10_000
