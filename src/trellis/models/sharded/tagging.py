"""`predict` of a sequence model on a `Corpus`: labels in memory, or one output file a shard.

An output file is replaced atomically, so a file that exists is complete. A later call with the same
model and corpus computes only the missing files.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trellis.data import conll, files, jsonl
from trellis.data.atomic import clear_leftovers, replacing
from trellis.data.shards.corpus import Corpus, Shard
from trellis.data.shards.text import TextShard
from trellis.engines.base import Engine
from trellis.engines.local import Local
from trellis.engines.storage import Shared, digest_of
from trellis.errors import FormatError, InputError
from trellis.models.chain.checkpoint import fingerprint

__all__ = ["predict_corpus"]

MANIFEST = "trellis.json"
"""The file that says which model and which corpus the output files belong to."""


@dataclass(frozen=True)
class Job:
    """A shard to label, and its output file."""

    number: int
    shard: Shard
    path: str | None

    @property
    def name(self) -> str:
        """The name of the shard."""
        return self.shard.name

    def line_of(self, sequence: int) -> int | None:
        """Return the line of a sequence of the shard."""
        return self.shard.line_of(sequence)


def predict_corpus(
    model: Any, corpus: Corpus, engine: Engine | None, to: Any, decode: str
) -> list[Any]:
    """Return the labels of all sequences; with ``to``, the paths of the output files instead."""
    if engine is not None and not isinstance(engine, Engine):
        raise InputError(
            f"engine must be a trellis.engines.Local or Dask, not {type(engine).__name__}"
        )
    if decode == "mbr":
        raise InputError(
            "decode='mbr' chooses the labels of all sequences together: use "
            "predict(corpus.load()[0])"
        )
    model._check_fitted()
    is_own = engine is None
    engine = Local(model.n_jobs) if engine is None else engine
    try:
        if to is None:
            jobs = [Job(n, shard, None) for n, shard in enumerate(corpus.shards)]
            return [labels for part in _run(model, engine, jobs, decode) for labels in part]
        jobs = _plan(model, corpus, Path(to).absolute(), decode)
        missing = [job for job in jobs if job.path and not os.path.exists(job.path)]
        for _ in _run(model, engine, missing, decode):
            pass
        return [Path(job.path) for job in jobs if job.path]
    finally:
        if is_own:
            engine.close()


def _run(model: Any, engine: Engine, jobs: list[Job], decode: str) -> Iterator[Any]:
    """Yield the labels of each job, or the path of its file."""
    if not jobs:
        return
    worker_model = copy.copy(model)
    worker_model.n_jobs = engine.task_threads
    shared = Shared(worker_model)
    with engine.holding(shared):
        yield from engine.run(_label_shard, jobs, shared, decode, name="tag")


def _label_shard(job: Job, shared: Shared, decode: str) -> Any:
    model, shard = shared.value, job.shard
    rows: list[list[str]] | None = None
    if isinstance(shard, TextShard) and not shard.labelled:
        # The columns of a token are those of the training data; the output has all columns.
        width = model.describe().columns or 1
        sequences = list(shard.sequences(width, getattr(model, "corpus_layout_", None)))
        X: list[Any] = [sequence.tokens for sequence in sequences]
        rows = [sequence.rows for sequence in sequences]
    else:
        X, _ = shard.read()
    y = [[*labels] for labels in model.predict(X, decode=decode)]
    if job.path is None:
        return y
    names = [[str(label) for label in labels] for labels in y]
    if rows is None or _suffix(shard) == "jsonl":
        (jsonl if _suffix(shard) == "jsonl" else conll).write(job.path, X, names)
    else:
        files.write(job.path, map(_format_rows, rows, names))
    return job.path


def _format_rows(rows: list[str], labels: list[str]) -> str:
    return "".join(f"{row}\t{label}\n" for row, label in zip(rows, labels, strict=True)) + "\n"


def _plan(model: Any, corpus: Corpus, folder: Path, decode: str) -> list[Job]:
    """Return the jobs of all shards, after a check that the folder belongs to the same run."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: to must be a folder, for one file of each shard")
    folder.mkdir(parents=True, exist_ok=True)
    meta, tensors = model.to_parts()
    arrays = [tensors[name] for name in sorted(tensors)]
    text = json.dumps(meta, sort_keys=True, default=repr)
    manifest = {
        "model": hashlib.sha256((text + fingerprint(arrays)).encode()).hexdigest(),
        "corpus": [digest_of(repr(shard.identity())) for shard in corpus.shards],
        "decode": decode,
    }
    path = folder / MANIFEST
    clear_leftovers(path)
    if path.exists():
        try:
            saved = json.loads(path.read_text())
        except ValueError:
            raise FormatError(f"{path}: the file is damaged: choose an empty folder") from None
        if saved != manifest:
            raise InputError(
                f"{folder} has the output of another model, corpus or decoder: choose an empty "
                "folder"
            )
    elif any(folder.iterdir()):
        raise InputError(f"{folder} is not empty: choose an empty folder for the output")
    else:
        with replacing(path) as file:
            file.write(json.dumps(manifest).encode())
    return [
        Job(n, shard, str(folder / f"{n:06d}.{_suffix(shard)}"))
        for n, shard in enumerate(corpus.shards)
    ]


def _suffix(shard: Shard) -> str:
    """Return the suffix of the output file of a shard."""
    return "jsonl" if getattr(shard, "format", "") == "jsonl" else "conll"
