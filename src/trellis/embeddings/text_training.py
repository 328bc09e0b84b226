"""Training on labelled texts: −log p(label | text), p from the mean of the rows of a text."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.embeddings import sources
from trellis.embeddings.fasttext import as_bytes
from trellis.embeddings.subword_rows import SubwordRows
from trellis.embeddings.training import Schedule, table, train
from trellis.formats.fasttext import FastTextFile
from trellis.formats.quantization import QuantizedMatrix
from trellis.formats.strings import unpack_strings

__all__ = ["LOSSES", "numbered", "retrained", "step"]

LOSSES = {"ns": 0, "hs": 1, "softmax": 2, "ova": 3}
"""What the native trainer calls the losses of fastText's files."""
_WORD, _NOTHING = -1, -2  # instead of the number of a label

Table: TypeAlias = NDArray[np.float32]


def step(
    file: FastTextFile, input: Table, output: Table, names: list[str], prefix: str, exponent: float
) -> Callable[..., tuple[float, float]]:
    """The native trainer's step; ``names`` are all words and labels of the corpus, by type."""
    args, rows, encoded = file.args, SubwordRows(file), as_bytes(names)
    begin, ids = rows.ids(encoded)
    place = {label: i for i, label in enumerate(file.labels)}
    start = as_bytes([prefix])[0]
    kinds = [_NOTHING if name.startswith(start) else _WORD for name in encoded]
    labels = [place.get(name, kind) for name, kind in zip(encoded, kinds, strict=True)]
    noise: Any = None
    path: Any = (None, None, None)
    counts = np.asarray(file.label_counts, np.int64)
    if args.loss == "ns":
        noise = _core.alias_cells(counts.astype(np.float64) ** exponent)
    if args.loss == "hs":
        path = _core.huffman(counts)[:3]
    trainer = _core.EmbeddingTrainer(
        input=input,
        output=output,
        vocabulary=len(file.words),
        rows_begin=None,
        row=None,
        keep=None,
        noise=noise,
        path_begin=path[0],
        path_node=path[1],
        path_right=path[2],
        loss=LOSSES[args.loss],
        cbow=False,
        shared=False,
        window=1,
        negatives=args.neg if args.loss == "ns" else 0,
        shrink=False,
    )
    known = {
        "begin": begin,
        "row": ids.astype(np.int32),
        "label": np.array(labels, np.int32),
        "hash": _core.word_hashes(encoded),
        "word_ngrams": max(1, args.word_ngrams),
        "buckets": args.bucket,
        "first_bucket": len(file.words),
        "bucket_row": rows.bucket_table(),
    }
    return lambda **options: trainer.texts(**known, **options)


def numbered(corpus: "_core.Corpus") -> tuple[list[str], NDArray[np.int64], list[str]]:
    """Words and labels of a corpus, the commonest first, their counts, and all of them by type."""
    data, ends, counts, types = corpus.common_words(0, 0)
    names = unpack_strings(data.view(np.uint8), ends, "the text")
    corpus.number(np.arange(corpus.types, dtype=np.int32))
    by_type = [""] * len(names)
    for name, type_ in zip(names, types.tolist(), strict=True):
        by_type[type_] = name
    return names, counts, by_type


def retrained(
    file: FastTextFile, source: Any, prefix: str, schedule: Schedule, seed: int, threads: int
) -> FastTextFile:
    """The file after some more epochs; words and labels stay those that it has."""
    assert not isinstance(file.input, QuantizedMatrix)
    assert not isinstance(file.output, QuantizedMatrix)
    corpus = sources.read(source, threads, end_words=True)
    tables = []
    for matrix in (file.input, file.output):
        tables.append(table(len(matrix), file.args.dim))
        tables[-1].fill(0.0)
        tables[-1][:, : file.args.dim] = matrix
    run = step(file, tables[0], tables[1], numbered(corpus)[2], prefix, 0.5)
    train(run, corpus, schedule, seed, threads, None)
    input, output = (rows[:, : file.args.dim] for rows in tables)
    return replace(file, input=input, output=output)
