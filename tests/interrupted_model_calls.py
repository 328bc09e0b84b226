"""More long native calls for interrupted_calls.py: features, weights, layers, embeddings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from trellis import CTCDecoder, TextClassifier, Word2Vec, _core
from trellis.embeddings.texts.prediction import Predictor
from trellis.embeddings.vocabulary import Vocabulary
from trellis.features import Window
from trellis.features.extractor import TemplateFeatures

Call = Callable[[], Any]
THREADS = 2


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, np.float32)


# ---- features and weights


def extractor(tokens: int, learn: bool) -> Call:
    """One sequence: a loop that polls once per sequence would not be interrupted."""
    features = TemplateFeatures(Window().spec())
    features.learn([[(f"w{i % 500}",) for i in range(1000)]])
    x = [[(f"w{i % 997}",) for i in range(1000)] * (tokens // 1000)]
    return (
        partial(features._core.learn, x) if learn else partial(features._core.extract, x, THREADS)
    )


def sparse_rows(rows: int, per_row: int, attributes: int) -> _core.SparseRows:
    ids = np.random.default_rng(0).integers(0, attributes, rows * per_row, np.int32)
    return _core.SparseRows(np.arange(rows + 1, dtype=np.int64) * per_row, ids, None)


def scorer(rows: int, labels: int) -> Call:
    attributes, per_row = 5000, 20
    state_label = np.tile(np.arange(labels, dtype=np.uint16), attributes)
    begin = np.arange(attributes + 1, dtype=np.int64) * labels
    bigram = np.arange(labels**2, dtype=np.int32)
    layout = _core.WeightLayout(labels, begin, state_label, bigram, None, None)
    core = _core.Scorer(layout, np.zeros(attributes * labels + labels**2))
    out = np.zeros((rows, labels))
    return partial(core.scores, sparse_rows(rows, per_row, attributes), THREADS, out)


def seen_cells(rows: int) -> Call:
    cell = np.random.default_rng(1).integers(0, 30, rows, np.int32)
    return partial(
        _core.seen, sparse_rows(rows, 20, 200_000), 200_000, 30, cell, None, None, -np.inf
    )


def names(count: int) -> tuple[np.ndarray, np.ndarray]:
    data = np.frombuffer(b"".join(b"%08d" % i for i in range(count)), np.uint8)
    return data, np.arange(count + 1, dtype=np.int64) * 8


def dictionary(count: int) -> Call:
    return partial(_core.make_cqdb, *names(count))


def repeated(count: int) -> Call:
    data, begin = names(count)
    return partial(_core.repeated, data, begin[:-1], np.diff(begin))


def restored(count: int) -> Call:
    data, begin = names(count)
    return partial(_core.Vocabulary().restore_from, data, begin[:-1].copy(), np.diff(begin))


def weight_lines(count: int) -> Call:
    text = b"".join(b"%d=0x1.8p-1\n" % i for i in range(count))
    reader = _core.WeightReader(True, np.zeros(count, np.int64), np.zeros(count))
    return partial(reader.feed, text)


# ---- layers


def layer(rows: int, length: int, labels: int, best: bool) -> Call:
    x = floats(rows, length, labels)
    zeros = np.zeros(labels)
    scores = (x, np.zeros((labels, labels)), zeros, zeros, np.full(rows, length))
    if best:
        out = (np.zeros((rows, length), np.int64), np.zeros(rows))
        return partial(_core.layer_best, *scores, *out, THREADS)
    counts = (np.zeros(rows), np.zeros_like(x), np.zeros((labels, labels)))
    return partial(_core.layer_counts, *scores, None, *counts, THREADS)


def lstm_backward(steps: int, hidden: int) -> Call:
    d_h, activations = floats(steps, 2 * hidden), floats(steps, 8 * hidden)
    c, u = floats(steps, 2 * hidden), floats(2, 4 * hidden, hidden)
    sizes = np.ones(steps, np.int64)
    d_gates = np.zeros((steps, 8 * hidden), np.float32)
    return partial(_core.lstm_backward, d_h, activations, c, u, sizes, d_gates, THREADS)


def windows(words: int, backward: bool) -> Call:
    ids = np.random.default_rng(0).integers(0, 100, (words, 30))
    table, best = floats(100, 3, 200), np.zeros((words, 200), np.float32)
    where = np.zeros((words, 200), np.int32)
    if backward:
        return partial(_core.largest_windows_backward, ids, where, best, np.zeros_like(table))
    return partial(_core.largest_windows, ids, table, best, where)


# ---- CTC


def greedy(frames: int) -> Call:
    x = np.broadcast_to(np.linspace(-9, -1, 1000), (1, frames, 1000))
    return partial(_core.ctc_greedy, x, np.array([frames]), 0, THREADS)


def words(frames: int) -> Call:
    decoder = CTCDecoder(["", " ", *"abcdefghij"])
    x = np.random.default_rng(0).normal(size=(frames, 12))
    return partial(decoder._core.decode_float64, [x], True, 1, True, False, THREADS, None)


# ---- embeddings


def sentences(tokens: int) -> Call:
    text = [[f"w{i * i % 9973}" for i in range(1000)]]
    model = Word2Vec(100, min_count=1, epochs=1, n_jobs=1).fit(text)
    corpus = _core.Corpus(1)
    corpus.add_sentences(text * (tokens // 1000), 0)
    corpus.finish()
    Vocabulary(model.words_, model.counts_).number(corpus)
    last = len(corpus.chunk_words()) - 1
    trainer = model._make_trainer(model._make_row_table())
    return partial(trainer.sentences, corpus, 0, last, 0.1, 0.0, 0.0, 1e9, 1, 1, 1)


def classifier(words: int) -> Call:
    model = TextClassifier(100, epochs=1, min_count=1, word_ngrams=5, bucket=1000).fit(
        [["a", "b"], ["c"]], ["x", "y"]
    )
    text = [f"w{i}" for i in range(1000)] * (words // 1000)
    return partial(Predictor(model.to_file())._core.best, [text], 1, 0.0, THREADS)


def assigned(rows: int) -> Call:
    codes = np.zeros((rows, 1), np.uint8)
    return partial(_core.assign, floats(rows, 32), 0, floats(32, 256), 0, codes, THREADS)


def means(rows: int) -> Call:
    begin = np.arange(rows + 1, dtype=np.int64) * 20
    ids = np.random.default_rng(0).integers(0, 10_000, rows * 20, np.int32)
    table, out = _core.embedding_table(10_000, 96), _core.embedding_table(rows, 96)
    return partial(_core.row_means, table, begin, ids, out, THREADS)


def coarse(rows: int) -> Call:
    code, step, off = np.zeros((rows, 96), np.int8), floats(rows), floats(rows)
    return partial(_core.coarse_rows, floats(rows, 96), floats(rows), THREADS, code, step, off)


def filled(rows: int) -> Call:
    return partial(_core.fill_table, _core.embedding_table(rows, 96), 0, rows, 96, 0.5, 1, THREADS)


CALLS: dict[str, Callable[[], Call]] = {
    "features of one sequence": lambda: extractor(1_000_000, False),
    "learning features of one sequence": lambda: extractor(1_000_000, True),
    "scores of rows": lambda: scorer(1_000_000, 60),
    "seen cells": lambda: seen_cells(1_000_000),
    "dictionary of names": lambda: dictionary(3_000_000),
    "repeated names": lambda: repeated(4_000_000),
    "restored names": lambda: restored(4_000_000),
    "lines of weights": lambda: weight_lines(9_000_000),
    "layer, counts": lambda: layer(1, 60_000, 300, False),
    "layer, best paths": lambda: layer(1, 60_000, 300, True),
    "lstm backward": lambda: lstm_backward(10_000, 512),
    "windows of characters": lambda: windows(200_000, False),
    "windows of characters, backward": lambda: windows(200_000, True),
    "ctc greedy": lambda: greedy(2_000_000),
    "ctc words": lambda: words(6_000),
    "training of word vectors": lambda: sentences(1_000_000),
    "text classifier, one text": lambda: classifier(10_000_000),
    "codes of rows": lambda: assigned(3_000_000),
    "means of rows": lambda: means(1_000_000),
    "coarse rows": lambda: coarse(1_500_000),
    "random table": lambda: filled(3_000_000),
    "tokens with offsets": lambda: partial(_core.token_offsets, "a " * 6_000_000),
    "boundaries of words": lambda: partial(_core.word_boundaries, "a " * 10_000_000),
    "subwords": lambda: partial(_core.subwords, "ab" * 40_000, 3, 60),
    "hashes of words": lambda: partial(_core.word_hashes, [b"word" * 30] * 10_000_000),
}
