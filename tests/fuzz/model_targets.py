"""Targets: models in ``.trellis`` files, checkpoints, and models of other programs."""

from __future__ import annotations

import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

import foreign_files
import mutations
from fuzz_targets import Target

import trellis

TESTS = Path(__file__).parents[1]
FIXTURES = TESTS / "fixtures" / "0.1.0"
sys.path.append(str(TESTS / "fixtures"))
import write  # noqa: E402

OTHER = (
    "logistic", "softmax", "graph-crf", "grid-crf", "word2vec", "vectors", "fasttext", "classifier",
)  # fmt: skip


def read_fixture(name: str) -> list[bytes]:
    return [(FIXTURES / name).read_bytes()]


def use_chain(name: str, path: Path, rng: random.Random) -> None:
    model = trellis.load(path)
    if type(model).__name__ == write.CHAINS[name][0]:
        write.predict_chain(name, model)


def use_other(name: str, path: Path, rng: random.Random) -> None:
    model = trellis.load(path)
    if name in ("word2vec", "vectors", "fasttext"):
        vectors = model if name == "vectors" else model.vectors_
        if len(vectors):
            word = vectors.words[0]
            vectors.nearest(word, k=2)
    else:
        write.predict_other(name, model)


def use_tagger(path: Path, rng: random.Random) -> None:
    write.predict_tagger(trellis.load(path))


def resume(name: str, path: Path, rng: random.Random) -> None:
    model = write.make_crf(name)
    model.max_iter = 3  # a checkpoint of iteration 2: one more iteration
    write.resume(path, model)


def resume_tagger(path: Path, rng: random.Random) -> None:
    write.resume(path, write.make_tagger("tagger"))


def use_foreign(path: Path, rng: random.Random) -> None:
    """Load, label, and compute marginals."""
    model = trellis.load(path)
    x: list[Any] = [("the", "N"), ("dog", "V")]
    if path.read_bytes()[:4] == b"lCRF":
        x = [["w[0]=é1", "bias"], {"w[1]=é2": 0.5}]
    width = model.features_.spec.columns if hasattr(model.features_, "spec") else 2
    if width > 2:  # a changed template may read more columns
        x = [(*token, *[""] * (width - 2)) for token in x] if width < 1000 else []
    assert len(model.predict([x])[0]) == len(x)
    model.predict_marginals([x])


def binary_crfpp() -> list[bytes]:
    return [bytes([100, 0, 0, 0, 0, 0, 0, 0]) + bytes(6) + b"\xf0?" + bytes(40)]


def has_torch() -> bool:
    try:
        import torch
    except ImportError:
        return False
    torch.set_num_threads(1)
    return True


def targets() -> list[Target]:
    """Return all targets of this file."""
    native = mutations.mutate_native
    rows = [
        *(Target(f"trellis {name}", partial(read_fixture, f"{name}.trellis"), native,
                 partial(use_chain, name), cases=50) for name in write.CHAINS),
        *(Target(f"trellis {name}", partial(read_fixture, f"{name}.trellis"), native,
                 partial(use_other, name), cases=50) for name in OTHER),
        *(Target(f"checkpoint {name}", partial(read_fixture, f"{name}.checkpoint"), native,
                 partial(resume, name), cases=20) for name in write.CHECKPOINTS),
        Target("crfsuite", lambda: [foreign_files.crfsuite_model(s, 2 + s, 5 + 4 * s)
                                    for s in range(4)],
               foreign_files.mutant, use_foreign, cases=150),
        Target("crfpp", lambda: [foreign_files.crfpp_model(s, 2 + s) for s in range(2)],
               foreign_files.mutant, use_foreign, cases=100),
        Target("crfpp binary", binary_crfpp, mutations.mutate_bytes, use_foreign, cases=20),
        Target("wapiti", lambda: [foreign_files.wapiti_model(s, 2 + s) for s in range(2)],
               foreign_files.mutant, use_foreign, cases=100),
    ]  # fmt: skip
    if has_torch():
        rows += [
            *(Target(f"trellis {name}", partial(read_fixture, f"{name}.trellis"), native,
                     use_tagger, cases=15) for name in write.TAGGERS),
            Target("checkpoint tagger", partial(read_fixture, "tagger.checkpoint"), native,
                   resume_tagger, cases=5),
        ]  # fmt: skip
    return rows
