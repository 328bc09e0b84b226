"""Training on labelled texts: minimises −log p(label | text)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.embeddings import sources
from trellis.embeddings.fasttext import as_bytes
from trellis.embeddings.subword_rows import SubwordRows
from trellis.embeddings.training import FILE_LOSSES, Schedule, loss_arguments, table, train
from trellis.formats.fasttext import FastTextFile
from trellis.formats.quantization import QuantizedMatrix
from trellis.formats.strings import unpack_strings

__all__ = ["CorpusNames", "number_types", "retrain", "text_step"]

_EXPONENT = 0.5  # fastText draws labels as negative samples in proportion to count^0.5
# Label numbers of the names that are not labels of the model:
_WORD, _UNKNOWN_LABEL = -1, -2

Table: TypeAlias = NDArray[np.float32]


class CorpusNames(NamedTuple):
    """The distinct words and labels of a corpus."""

    names: list[str]
    """Most frequent first."""
    counts: NDArray[np.int64]
    """The count of each name."""
    by_type: list[str]
    """The same names, in the order of their numbers in the corpus."""


def number_types(corpus: _core.Corpus) -> CorpusNames:
    """Number the types (distinct words) of a corpus. Return their names and counts."""
    letters, ends, counts, types = corpus.common_words(0, 0)
    names = unpack_strings(letters.view(np.uint8), ends, "the text")
    corpus.number(np.arange(corpus.types, dtype=np.int32))
    by_type = [""] * len(names)
    for name, type_number in zip(names, types.tolist(), strict=True):
        by_type[type_number] = name
    return CorpusNames(names, counts, by_type)


def text_step(
    file: FastTextFile,
    tables: tuple[Table, Table],
    names: list[str],
    prefix: str,
    exponent: float = _EXPONENT,
) -> Callable[..., tuple[float, float]]:
    """Return the step of the native trainer for `trellis.embeddings.training.train`.

    ``tables`` are V and W, padded. ``names`` are all words and labels of the corpus, in the
    order of their numbers.
    """
    args, rows, encoded = file.args, SubwordRows(file), as_bytes(names)
    begin, ids = rows.ids(encoded)
    # The file contains fastText's name of the loss.
    loss = next(name for name, file_name in FILE_LOSSES.items() if file_name == args.loss)
    counts = np.asarray(file.label_counts, np.int64)
    trainer = _core.EmbeddingTrainer(
        input=tables[0],
        output=tables[1],
        vocabulary=len(file.words),
        rows_begin=None,
        row=None,
        keep=None,
        # The next four arguments are for sentences. Training on texts does not use them.
        cbow=False,
        shared=False,
        window=1,
        shrink=False,
        **loss_arguments(loss, counts, exponent, args.neg),
    )
    corpus_options = {
        "begin": begin,
        "row": ids.astype(np.int32),
        "label": _label_numbers(encoded, file.labels, as_bytes([prefix])[0]),
        "hash": _core.word_hashes(encoded),
        "word_ngrams": max(1, args.word_ngrams),
        "buckets": args.bucket,
        "first_bucket": len(file.words),
        "bucket_row": rows.bucket_table(),
    }
    return lambda **options: trainer.texts(**corpus_options, **options)


def _label_numbers(names: list[bytes], labels: list[bytes], prefix: bytes) -> NDArray[np.int32]:
    """Return the label number of each name; -1 for a word, -2 for an unknown label, (names,)."""
    label_number = {label: i for i, label in enumerate(labels)}
    defaults = (_UNKNOWN_LABEL if name.startswith(prefix) else _WORD for name in names)
    pairs = zip(names, defaults, strict=True)
    return np.array([label_number.get(name, default) for name, default in pairs], np.int32)


def retrain(
    file: FastTextFile, source: Any, prefix: str, schedule: Schedule, seed: int, threads: int
) -> FastTextFile:
    """Train on a source with the words and labels of the file. Return the file with new rows."""
    assert not isinstance(file.input, QuantizedMatrix)
    assert not isinstance(file.output, QuantizedMatrix)
    corpus = sources.read(source, threads, end_words=True)
    tables = _pad(file.input), _pad(file.output)
    step = text_step(file, tables, number_types(corpus).by_type, prefix)
    train(step, corpus, schedule, seed, threads, None)
    input, output = (rows[:, : file.args.dim] for rows in tables)
    return replace(file, input=input, output=output)


def _pad(matrix: NDArray[np.float32]) -> Table:
    """Return a copy of a matrix as a padded table of the trainer."""
    n_rows, dim = matrix.shape
    copy = table(n_rows, dim)
    copy.fill(0.0)
    copy[:, :dim] = matrix
    return copy
