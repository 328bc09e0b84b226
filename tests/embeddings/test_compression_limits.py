"""The number of rows that a compressed classifier keeps, at its exact limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trellis
from trellis.embeddings.texts.compression import Compression, quantized
from trellis.errors import InputError


@pytest.fixture(scope="module")
def file() -> Any:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in rng.integers(300, size=5)) for _ in range(300)]
    model = trellis.TextClassifier(4, epochs=1, n_jobs=1, random_state=0)
    return model.fit(texts, ["a", "b"] * 150).to_file()


def compress(file: Any, cutoff: int, retrain: Any = None) -> Any:
    return quantized(file, Compression(cutoff, 2, False, False, 0), retrain)


def test_rows_that_are_kept(file: Any) -> None:
    rows = len(file.input)
    for cutoff in (0, rows, rows + 1):
        assert compress(file, cutoff).prune is None
    small = compress(file, rows - 1)
    assert small.prune is not None
    assert len(small.words) + len(small.prune) == rows - 1
    assert set(small.words) < set(file.words)
    assert b"</s>" in small.words
    with pytest.raises(InputError, match="cutoff is -1, must be >= 0"):
        compress(file, -1)


def test_only_fewer_rows_are_trained_again(file: Any) -> None:
    calls: list[int] = []

    def retrain(pruned: Any) -> Any:
        calls.append(len(pruned.input))
        return pruned

    rows = len(file.input)
    for cutoff in (0, rows, rows - 1):
        compress(file, cutoff, retrain)
    assert calls == [rows - 1]


def test_the_longest_rows_are_kept(file: Any) -> None:
    small = compress(file, 280)
    lengths = np.linalg.norm(file.input, axis=1)
    longest = {file.words[i] for i in np.argsort(-lengths)[:279]}
    assert longest <= set(small.words)
    order = [file.words.index(word) for word in small.words]
    assert order == sorted(order)
    assert small.counts.tolist() == [file.counts[i] for i in order]
