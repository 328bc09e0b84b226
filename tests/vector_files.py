"""Shared by the tests of word vectors: peer libraries, their files, and small generated files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_files import find_corpus, needs_corpus

from trellis.formats.fasttext import Args, FastTextFile

MODELS = find_corpus("models")
WORDSIM = find_corpus("wordsim")
needs_data = needs_corpus("models")

FASTTEXT = [
    "crime-and-punishment.bin",
    "lee_fasttext_new.bin",
    "lid.176.ftz",
    "pang_lee_polarity_fasttext.bin",
    "toy-model.bin",
]
WORD2VEC = [
    "word2vec/gensim-euclidean.bin",
    "word2vec/gensim-lee.txt",
    "word2vec/wiki3mb.cbow10.txt",
    "word2vec/wiki3mb.skipgram25.bin",
    "glove/glove.6B.50d.sample.txt",
    "fasttext/lee_fasttext.vec",
]


def fasttext() -> Any:
    """Return the fastText library, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("fasttext", reason="fastText is not installed")
    module.FastText.eprint = lambda *_: None
    return module


def keyed_vectors() -> Any:
    """Return the class of gensim."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("gensim.models", reason="gensim is not installed")
    return module.KeyedVectors


def read_by_gensim(path: Path) -> Any:
    first = path.read_bytes()[:200].split(b"\n")[0]
    header = len(first.split()) == 2
    return keyed_vectors().load_word2vec_format(
        path, binary=path.suffix == ".bin", no_header=not header
    )


def some_words(count: int) -> list[str]:
    """Return distinct words, some of them not ASCII."""
    return [f"{'wé日'[i % 3]}{i}" for i in range(count)]


def some_rows(rows: int, columns: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def some_file(model: str = "sg", dim: int = 6, words: int = 20, bucket: int = 50) -> FastTextFile:
    """Return a random model of fastText; a supervised one has three labels."""
    supervised = model == "supervised"
    labels = [b"__label__%d" % i for i in range(3)] if supervised else []
    args = Args(
        dim=dim,
        model=model,
        loss="softmax" if supervised else "ns",
        bucket=bucket,
        minn=2,
        maxn=4,
        word_ngrams=2 if supervised else 1,
    )
    return FastTextFile(
        args,
        [b"</s>", *(word.encode() for word in some_words(words - 1))],
        np.arange(words, 0, -1),
        labels,
        np.arange(len(labels), 0, -1),
        n_tokens=1000,
        input=some_rows(words + bucket, dim),
        output=some_rows(len(labels) or words, dim, seed=1),
    )
