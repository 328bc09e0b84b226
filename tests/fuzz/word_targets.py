"""Targets: models of this version, gensim's arrays, GloVe, text and questions for word vectors."""

from __future__ import annotations

import io
import pickle
import random
import sys
import tempfile
import types
from functools import partial
from pathlib import Path
from typing import Any

import mutations
import numpy as np
from fuzz_targets import Target
from model_targets import has_torch
from vector_files import some_rows, some_words

import trellis
from trellis import CRF, HMM, MEMM, TextClassifier, Vectors, Word2Vec
from trellis.data.corpus import Layout

X = [["Ann", "lives", "in", "Rome"], ["Bob", "left"]]
Y = [["B-PER", "O", "O", "B-LOC"], ["B-PER", "O"]]
PAIRS = [[(word, word[-1:]) for word in x] for x in X]
WORDS = Vectors(["ann", "bob", "rome", "paris"], np.eye(4, 3) + 0.1)


def saved(model: Any) -> bytes:
    """Return the bytes of the file of a model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.trellis"
        model.save(path)
        return path.read_bytes()


def current_models() -> list[bytes]:
    """Models with the parts that release 0.1.0 did not write: columns and the instruction set."""
    crf = CRF(constraints="BIO", max_iter=3).fit(PAIRS, Y)
    crf.corpus_layout_ = Layout("conll", (0, 1), "2", 3)
    memm, hmm = MEMM(max_iter=3).fit(PAIRS, Y), HMM().fit(PAIRS, Y)
    memm.corpus_layout_ = hmm.corpus_layout_ = Layout("conllu", label="xpos")
    return [saved(model) for model in (crf, memm, hmm)]


def current_taggers() -> list[bytes]:
    """A tagger with a temperature, and a hybrid with the weight of its features."""
    small = {"hidden": 3, "word_dim": 3, "epochs": 1, "device": "cpu", "random_state": 0}
    return [
        saved(trellis.NeuralTagger(**small, **options).fit(X, Y, dev=(X, Y)))
        for options in ({"words": ("embedding",)}, {"words": ("embedding",), "features": "crf"})
    ]


def use_model(path: Path, rng: random.Random) -> None:
    model = trellis.load(path)
    columns = model.describe().columns or 0
    x = [("Ann",) * columns, ("left",) * columns] if columns > 1 else ["Ann", "left"]
    if columns < 1000:
        assert len(model.predict([x])[0]) == 2
        model.predict_marginals([x])


# ---- word vectors


def array_seeds() -> list[bytes]:
    """Return the ``.npy`` files that gensim writes beside the pickle of large vectors."""
    seeds = []
    for dtype in (np.float32, np.float64):
        file = io.BytesIO()
        np.save(file, some_rows(5, 3).astype(dtype))
        seeds.append(file.getvalue())
    return seeds


def gensim_pickle() -> bytes:
    """Return a pickle of gensim's vectors whose matrix is in a separate file."""
    name = "gensim.models.keyedvectors"
    before = {key: sys.modules.get(key) for key in ("gensim", "gensim.models", name)}
    module = types.ModuleType(name)
    cls = type("KeyedVectors", (), {"__module__": name})
    module.KeyedVectors = cls  # type: ignore[attr-defined]
    sys.modules.update({key: module if key == name else types.ModuleType(key) for key in before})
    vectors = cls()
    vectors.__dict__.update(index_to_key=some_words(5), vector_size=3, __numpys=["vectors"])
    data = pickle.dumps(vectors)
    for key, old in before.items():
        del sys.modules[key]
        if old is not None:
            sys.modules[key] = old
    return data


GENSIM = gensim_pickle()


def use_arrays(path: Path, rng: random.Random) -> None:
    file = path.with_name("words.kv")
    file.write_bytes(GENSIM)
    file.with_name("words.kv.vectors.npy").write_bytes(path.read_bytes())
    vectors = Vectors.load(file)
    vectors.nearest(vectors.words[0], k=2)


def use_vectors(path: Path, rng: random.Random) -> None:
    vectors = Vectors.load(path, errors=rng.choice(["strict", "replace"]))
    if len(vectors):
        vectors.nearest(vectors.words[0], k=2)


def use_questions(method: str, path: Path, rng: random.Random) -> None:
    getattr(WORDS, method)(path)


# ---- text

TINY: dict[str, Any] = {"min_count": 1, "epochs": 1, "n_jobs": 1, "random_state": 0}
TEXT = "ann likes róme\nbob left rome , ann\n".encode()


def use_text(path: Path, rng: random.Random) -> None:
    Word2Vec(3, sample=0, **TINY).fit(path)


def use_labelled_text(path: Path, rng: random.Random) -> None:
    TextClassifier(3, **TINY).fit(path).predict([["ann"]])


def targets() -> list[Target]:
    """Return all targets of this file."""
    text, raw, native = mutations.mutate_text, mutations.mutate_bytes, mutations.mutate_native
    glove = b"the 0.1 0.2 0.3\ncaf\xc3\xa9 1 2 3\n. -1e-3 2 nan\n"
    questions = b": capitals\nann rome bob paris\nAnn Rome Bob x\n: empty\n"
    pairs = b"# human scores\nann bob 7.5\nrome\tparis\t9\nann x 1\n"
    labelled = b"__label__a ann likes rome\n__label__b __label__c bob left\n"
    rows = [
        Target("models of this version", current_models, native, use_model, cases=100),
        Target("gensim arrays", array_seeds, raw, use_arrays, cases=60),
        Target("GloVe", lambda: [glove], text, use_vectors, ".vec", cases=60),
        Target("word pairs", lambda: [pairs], text,
               partial(use_questions, "evaluate_similarity"), cases=60),
        Target("analogies", lambda: [questions], text,
               partial(use_questions, "evaluate_analogies"), cases=60),
        Target("text", lambda: [TEXT], text, use_text, cases=30),
        Target("text with labels", lambda: [labelled], text, use_labelled_text, cases=30),
    ]  # fmt: skip
    if has_torch():
        rows.append(Target("taggers of this version", current_taggers, native, use_model, cases=15))
    return rows
