"""Small Dask clusters for tests, and a file to train on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from trellis.data import Corpus

__all__ = ["SHARD", "cluster", "digest", "write_corpus"]

SHARD = 400  # bytes: about 20 shards
_WORDS = ["the", "dog", "Ann", "sings", "New", "York", "of", "3", "x-ray", "a", "cat"]


@contextmanager
def cluster(workers: int, **options: Any) -> Iterator[Any]:
    """Yield the client of a cluster of processes on this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=50,
            **options,
        ) as local,
        Client(local) as client,
    ):
        yield client


def write_corpus(folder: Path, sequences: int = 200) -> Path:
    """Write a file in which labels depend on the word and on the label before it."""
    random = np.random.default_rng(0)
    rows = []
    for _ in range(sequences):
        label = 0
        for _ in range(random.integers(2, 9)):
            word = int(random.integers(len(_WORDS)))
            label = (word + label) % 3 if random.random() < 0.9 else int(random.integers(3))
            rows.append(f"{_WORDS[word]} L{label}\n")
        rows.append("\n")
    path = folder / "train.conll"
    path.write_text("".join(rows))
    assert len(Corpus.text(path, shard=SHARD).shards) > 15
    return path


def digest(model: Any) -> str:
    """Return the SHA-256 of the weights."""
    return hashlib.sha256(np.ascontiguousarray(model.coef_).tobytes()).hexdigest()
