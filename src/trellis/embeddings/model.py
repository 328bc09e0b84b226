"""The common base of Word2Vec, FastText and TextClassifier: parameters, tables and files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import flag, integer_in_range, number_in_range, one_of
from trellis.embeddings.training import Callback, History, Progress, Schedule, table
from trellis.embeddings.vector_files import is_fasttext
from trellis.embeddings.vectors import Vectors
from trellis.embeddings.vocabulary import Vocabulary
from trellis.errors import InputError, TrainingWarning
from trellis.estimator import Estimator, check_fitted
from trellis.formats import fasttext
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import (
    Parts,
    Saved,
    load_class,
    read_parameters,
    read_strings,
    store_strings,
    stored_parameters,
)
from trellis.formats.quantization import QuantizedMatrix
from trellis.native import resolve_jobs
from trellis.optim.display import show_progress

__all__ = ["EmbeddingModel", "RowTable", "Table", "check_counts"]

Table: TypeAlias = NDArray[np.float32]

# These settings belong to one run and not to the model. With them, the same model would give
# different files on different machines.
_NOT_STORED = ("n_jobs", "random_state", "verbose")
_MAX_TOKENS = 2**60  # counts of two texts can be added in 64 bits


def check_counts(counts: NDArray[np.int64], name: str, minimum: int) -> None:
    """Raise InputError if counts of a file are too small, too large, or not in descending order.

    The core builds a Huffman tree from the counts and relies on the order.
    """
    if (counts < minimum).any() or (counts[1:] > counts[:-1]).any():
        raise InputError(f"{name} must be at least {minimum} and in descending order")
    if counts.sum(dtype=np.float64) > _MAX_TOKENS:
        raise InputError(f"the sum of {name} must be at most {_MAX_TOKENS}")


class RowTable(NamedTuple):
    """The input rows of each word: word i has the rows ``row[begin[i] : begin[i + 1]]``."""

    begin: NDArray[np.int64] | None
    """(words + 1,); None if each word i has only row i."""
    row: NDArray[np.int32] | None
    total: int
    """Number of rows in the input table."""


class EmbeddingModel(Saved, Estimator):
    """A model with two tables: V has the input rows (words, then n-grams), W the output rows.

    scikit-learn reads the parameters from the signature of ``__init__``, so each class lists its
    parameters there. This class stores and validates them.
    """

    vector_size: int
    loss: str
    negatives: int
    exponent: float
    min_count: int
    epochs: int
    n_jobs: int | None
    random_state: Any

    words_: list[str]
    """The vocabulary, most frequent first."""
    counts_: NDArray[np.int64]
    """(words,): number of occurrences of each word."""
    n_tokens_: int
    """Number of words in the training text, including those outside the vocabulary."""
    losses_: list[float]
    """Mean loss of each epoch, estimated from a part of the steps."""
    words_per_second_: float
    verbose: bool
    _input: Any  # V: (rows, at least vector_size) or a QuantizedMatrix
    _output: Any  # W: (targets, at least vector_size) or a QuantizedMatrix

    _INTEGERS: ClassVar[dict[str, tuple[int, float]]] = {
        "vector_size": (1, 1 << 16),
        "negatives": (1, 10_000),
        "min_count": (1, np.inf),
        "epochs": (1, 1 << 20),
    }
    """Smallest and largest value of each integer parameter."""
    _NUMBERS: ClassVar[dict[str, tuple[float, float]]] = {"exponent": (-10.0, 10.0)}
    """Smallest and largest value of each real parameter."""
    _CHOICES: ClassVar[dict[str, Iterable[str]]] = {}
    _FLAGS: ClassVar[tuple[str, ...]] = ()
    _OPTIONAL: ClassVar[tuple[str, ...]] = ()
    """Parameters that may be None."""

    # ---- parameters

    def _store_parameters(self, arguments: dict[str, Any]) -> None:
        """Set an attribute for each argument of ``__init__``: call it with ``locals()``."""
        for name, value in arguments.items():
            if name != "self":
                setattr(self, name, value)

    @contextmanager
    def _show_progress(self, callback: Callback | None) -> Iterator[Callback]:
        """Yield a callback that also shows the progress, if the model is verbose."""
        with show_progress(type(self).__name__, self.verbose) as draw:

            def after_slice(progress: Progress) -> None:
                epoch = f"epoch {progress.epoch + 1} of {progress.epochs}"
                speed = f"{progress.words_per_second:,.0f} words/s"
                draw(progress.fraction, f"{epoch}  loss {progress.loss:.4f}  {speed}")
                if callback is not None:
                    callback(progress)

            yield after_slice

    def _check_parameters(self) -> None:
        """Raise InputError if a parameter is invalid."""
        for name, (minimum, maximum) in self._INTEGERS.items():
            if not self._is_unset(name):
                integer_in_range(getattr(self, name), minimum, maximum, name)
        for name, bounds in self._NUMBERS.items():
            if not self._is_unset(name):
                number_in_range(getattr(self, name), *bounds, name)
        for name, choices in self._CHOICES.items():
            one_of(getattr(self, name), choices, name)
        for name in self._FLAGS:
            flag(getattr(self, name), name)

    def _is_unset(self, name: str) -> bool:
        return name in self._OPTIONAL and getattr(self, name) is None

    # ---- tables

    def _make_row_table(self) -> RowTable:
        """Return the input rows of each word of the vocabulary."""
        raise NotImplementedError

    def _create_tables(
        self, n_rows: int, n_outputs: int, pretrained: Vectors | None, seed: int
    ) -> None:
        """Create V, ``n_rows`` random or pretrained rows, and W, ``n_outputs`` rows of zeros."""
        self._input = table(n_rows, self.vector_size)
        self._fill_random(self._input, 0, n_rows, seed)
        Vocabulary(self.words_, self.counts_).copy_pretrained(pretrained, self._input)
        # W starts at zero, as in word2vec and fastText: all outputs then have the same probability.
        self._output = table(n_outputs, self.vector_size)
        self._output.fill(0.0)

    def _fill_random(self, rows: Table, begin: int, end: int, seed: int) -> None:
        """Fill rows ``begin`` to ``end`` with random numbers, uniform in ±1/vector_size."""
        dim, threads = self.vector_size, resolve_jobs(self.n_jobs)
        _core.fill_table(rows, begin, end, dim, 1.0 / dim, seed, threads)

    @property
    def input_(self) -> Table:
        """V, (rows, vector_size): words, then n-grams. Each access decodes a quantised table."""
        self._check_fitted()
        return self._unpad(self._input)

    @property
    def output_(self) -> Table:
        """W, (words or labels, vector_size). In hierarchical softmax, row n is inner node n."""
        self._check_fitted()
        return self._unpad(self._output)

    def _unpad(self, matrix: Any) -> Table:
        """Return a table as floats, without its padding."""
        if isinstance(matrix, QuantizedMatrix):
            return matrix.rows(np.arange(matrix.shape[0]))
        rows: Table = matrix[:, : self.vector_size]
        return rows

    def _check_fitted(self) -> None:
        check_fitted(self, "words_")

    # ---- training

    def _schedule(self) -> Schedule:
        """Return the learning rates."""
        raise NotImplementedError

    def _warn(self, history: History, reason: str, stacklevel: int) -> None:
        """Warn if a loss is not a number, or if nothing was predicted; ``reason`` says why."""
        diverged = [
            loss
            for loss, terms in zip(history.losses, history.terms, strict=True)
            if terms and not np.isfinite(loss)
        ]
        if diverged:
            rate = self._schedule().first
            message = f"the loss is {diverged[0]}: training diverged; choose alpha below {rate}"
        elif not any(history.terms):
            message = f"nothing was learnt: {reason}"
        else:
            return
        warnings.warn(message, TrainingWarning, stacklevel=stacklevel)

    # ---- files

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a ``.trellis`` file. `FastText` and `TextClassifier` also load fastText's files."""
        return cls.from_file(fasttext.read(path)) if is_fasttext(path) else load_class(cls, path)

    @classmethod
    def from_file(cls, file: fasttext.FastTextFile) -> Self:
        """Return the model that a fastText file contains."""
        raise InputError("the file was written by fastText: use FastText.load")

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of a ``.trellis`` file."""
        self._check_fitted()
        meta = {
            "parameters": stored_parameters(self, _NOT_STORED),
            "tokens": self.n_tokens_,
            # The loss of an epoch without predictions is NaN. JSON has no NaN, so null is stored.
            "losses": [loss if np.isfinite(loss) else None for loss in self.losses_],
            "words_per_second": self.words_per_second_,
        }
        tensors: dict[str, NDArray[Any]] = {
            "counts": self.counts_,
            "input": self.input_,
            "output": self.output_,
        }
        store_strings(tensors, "words", self.words_)
        return meta, tensors

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the model that `to_parts` stored; raise InputError if a part is invalid."""
        model = cls(**read_parameters(cls, meta, _NOT_STORED))
        model._check_parameters()
        model.words_ = read_strings(tensors, "words")
        model.counts_ = expect(tensors, "counts", np.int64, (len(model.words_),))
        check_counts(model.counts_, "counts", 0)
        model.n_tokens_ = integer_in_range(meta["tokens"], 0, _MAX_TOKENS, "tokens")
        model.losses_ = [np.nan if loss is None else float(loss) for loss in meta["losses"]]
        model.words_per_second_ = float(meta["words_per_second"])
        outputs = model._read_outputs(tensors)
        expect(tensors, "input", np.float32, (model._make_row_table().total, model.vector_size))
        expect(tensors, "output", np.float32, (outputs, model.vector_size))
        model._input, model._output = finite(tensors, "input"), finite(tensors, "output")
        return model

    def _read_outputs(self, tensors: Tensors) -> int:
        """Read the tensors that only this class has; return the number of output rows."""
        return len(self.words_)
