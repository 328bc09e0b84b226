"""fastText's model object, implemented on the content of a fastText file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis import _core
from trellis.checks import as_integer
from trellis.compat.fasttext.arguments import NAMES, of_file
from trellis.compat.fasttext.lines import encoded, one_line
from trellis.compat.fasttext.meter import Counts, Meter
from trellis.embeddings.search import unit_rows
from trellis.embeddings.subword_rows import SubwordRows
from trellis.embeddings.texts.compression import Compression, quantized
from trellis.embeddings.texts.prediction import Answers, Predictor
from trellis.embeddings.texts.training import retrain as train_again
from trellis.embeddings.training import Schedule
from trellis.embeddings.vectors import Vectors
from trellis.errors import InputError
from trellis.formats import fasttext as files
from trellis.formats.quantization import QuantizedMatrix

__all__ = ["_FastText"]

Path: TypeAlias = str | os.PathLike[str]
Floats: TypeAlias = NDArray[np.float32]
_NUMBERS = (int, float, np.number)
_CACHED = ("_rows", "_predictor", "_vectors", "_label_index", "words", "labels")


class _FastText:
    """The result of `load_model` and of training. Its arguments are attributes: ``model.dim``."""

    _file: files.FastTextFile
    label: str
    lr: float
    epoch: int
    thread: int

    def __init__(self, model_path: Path | None = None, args: Any = None) -> None:
        if model_path is not None:
            try:
                file = files.read(model_path)
            except OSError as error:
                raise InputError(f"{model_path} cannot be opened for loading: {error}") from None
            self._set_file(file)
            self.set_args(of_file(file.args))
        self.set_args(args)

    @classmethod
    def _from_file(cls, file: files.FastTextFile, args: SimpleNamespace) -> _FastText:
        """Return the model of a file with the arguments of its training."""
        model = cls(args=args)
        model._set_file(file)
        return model

    def _set_file(self, file: files.FastTextFile) -> None:
        """Set the content, and delete the values that were computed from the old content."""
        self._file = file
        for name in _CACHED:
            self.__dict__.pop(name, None)

    def set_args(self, args: Any = None) -> None:
        """Copy fastText's arguments from the attributes of an object."""
        if args:
            for name in NAMES:
                setattr(self, name, getattr(args, name))

    # ---- computed from the file at first use

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self._file)

    @cached_property
    def _rows(self) -> SubwordRows:
        return SubwordRows(self._file)

    @cached_property
    def _vectors(self) -> Vectors:
        words = [word.decode("utf-8", "surrogateescape") for word in self._file.words]
        return Vectors(words, self._rows.vectors(self._file.words))

    @cached_property
    def _label_index(self) -> dict[bytes, int]:
        return {label: i for i, label in enumerate(self._file.labels)}

    @cached_property
    def words(self) -> list[str]:
        """All words, most frequent first."""
        return list(self.get_words())

    @cached_property
    def labels(self) -> list[str]:
        """All labels, most frequent first; for a model of word vectors, its words."""
        return list(self.get_labels())

    # ---- words and their rows

    def is_quantized(self) -> bool:
        """Return whether the rows are quantised."""
        return isinstance(self._file.input, QuantizedMatrix)

    def get_dimension(self) -> int:
        """Return the number of dimensions of a vector."""
        return self._file.args.dim

    def get_word_vector(self, word: str) -> Floats:
        """Return the mean of the rows of a word and its n-grams, (dim,); zero if it has none."""
        vector: Floats = self._rows.vectors([encoded(word, "word")])[0]
        return vector

    def get_sentence_vector(self, text: str) -> Floats:
        """Return the mean of the rows of a line, (dim,).

        For a model of word vectors, return the mean of the unit vectors of the words.
        """
        line = one_line(text, "get_sentence_vector")
        if self._file.args.model == "supervised":
            return self._predictor.mean(line, encoded(self.label, "label"))[0]
        unit_vectors = unit_rows(self._rows.vectors(line.split()))
        unit_vectors = unit_vectors[
            unit_vectors.any(axis=1)
        ]  # fastText ignores words without a vector
        return (
            unit_vectors.mean(axis=0)
            if len(unit_vectors)
            else np.zeros(self.get_dimension(), np.float32)
        )

    def get_word_id(self, word: str) -> int:
        """Return the index of a word or label, or −1. The labels follow the words."""
        entry = encoded(word, "word")
        label = self._label_index.get(entry)
        return self._rows.index.get(entry, -1 if label is None else len(self._file.words) + label)

    def get_label_id(self, label: str) -> int:
        """Return the index of a label among the labels, or −1."""
        return self._label_index.get(encoded(label, "label"), -1)

    def get_subword_id(self, subword: str) -> int:
        """Return the row of the input matrix that an n-gram is hashed to."""
        bucket = self._file.args.bucket
        if not bucket:
            raise InputError("the model has no n-grams: its bucket is 0")
        # As in fastText, any text has a hash, even if it is not an n-gram of a word.
        (hash_value,) = _core.word_hashes([encoded(subword, "subword")]).tolist()
        return len(self._file.words) + int(hash_value) % bucket

    def get_subwords(
        self, word: str, on_unicode_error: str = "strict"
    ) -> tuple[list[str], NDArray[np.int64]]:
        """Return the word, if it is known, with its n-grams, and their rows."""
        args, entry = self._file.args, encoded(word, "word")
        known_words = [_decode(entry, on_unicode_error)] if entry in self._rows.index else []
        return known_words + _core.subwords(entry, args.minn, args.maxn), self._rows.ids([entry])[1]

    def get_input_vector(self, ind: int) -> Floats:
        """Return a row of the input matrix, (dim,)."""
        row, count = as_integer(ind, "ind"), self._file.input.shape[0]
        if not 0 <= row < count:
            raise InputError(f"ind is {ind}: must be in 0..{count - 1}")
        return np.array(self._rows.rows(np.array([row]))[0])

    def get_input_matrix(self) -> Floats:
        """Return a copy of the rows of words and n-grams, (rows, dim)."""
        return self._copy_matrix(self._file.input)

    def get_output_matrix(self) -> Floats:
        """Return a copy of the rows of labels or predicted words, (rows, dim)."""
        return self._copy_matrix(self._file.output)

    def _copy_matrix(self, matrix: files.Matrix) -> Floats:
        """Return a copy of a matrix as floats. Raise InputError if the model is quantised."""
        if self.is_quantized() or isinstance(matrix, QuantizedMatrix):
            raise InputError("Can't get quantized Matrix")  # fastText's message
        return np.array(matrix, np.float32, order="C")

    def set_matrices(self, input_matrix: ArrayLike, output_matrix: ArrayLike) -> None:
        """Replace the input and the output matrix; the number of dimensions may change."""
        new_input = np.array(input_matrix, np.float32)
        new_output = np.array(output_matrix, np.float32)
        for name, matrix, n_rows in (
            ("input_matrix", new_input, self._file.input.shape[0]),
            ("output_matrix", new_output, self._file.output.shape[0]),
        ):
            if matrix.ndim != 2 or len(matrix) != n_rows or matrix.shape[1] < 1:
                raise InputError(
                    f"{name} has shape {matrix.shape}: must be ({n_rows}, dim) with dim at least 1"
                )
        dim = int(new_input.shape[1])
        if new_output.shape[1] != dim:
            raise InputError(
                f"input_matrix has {dim} columns and output_matrix {new_output.shape[1]}: "
                "must be the same number"
            )
        args = self._file.args._replace(dim=dim)
        self._set_file(replace(self._file, args=args, input=new_input, output=new_output))
        self.dim = dim

    def get_words(self, include_freq: bool = False, on_unicode_error: str = "strict") -> Any:
        """Return all words; with ``include_freq``, also their counts."""
        return _decode_tokens(self._file.words, self._file.counts, include_freq, on_unicode_error)

    def get_labels(self, include_freq: bool = False, on_unicode_error: str = "strict") -> Any:
        """Return all labels; for a model of word vectors, its words."""
        if self._file.args.model != "supervised":
            return self.get_words(include_freq, on_unicode_error)
        return _decode_tokens(
            self._file.labels, self._file.label_counts, include_freq, on_unicode_error
        )

    def __getitem__(self, word: str) -> Floats:
        return self.get_word_vector(word)

    def __contains__(self, word: str) -> bool:
        return encoded(word, "word") in self._rows.index

    # ---- neighbours

    def get_nearest_neighbors(
        self, word: str, k: int = 10, on_unicode_error: str = "strict"
    ) -> list[tuple[float, str]]:
        """Return (cosine, word) of the k words nearest to a word, known or not."""
        return self._search(self.get_word_vector(word), [word], k, on_unicode_error)

    def get_analogies(
        self,
        wordA: str,  # noqa: N803
        wordB: str,  # noqa: N803
        wordC: str,  # noqa: N803
        k: int = 10,
        on_unicode_error: str = "strict",
    ) -> list[tuple[float, str]]:
        """Return (cosine, word) of the k words nearest to A − B + C, computed with unit vectors."""
        words = [wordA, wordB, wordC]
        a, b, c = unit_rows(np.array([self.get_word_vector(word) for word in words]))
        return self._search(a - b + c, words, k, on_unicode_error)

    def _search(
        self, query: Floats, excluded: Sequence[str], k: int, errors: str
    ) -> list[tuple[float, str]]:
        """Return (cosine, word) of the k words nearest to a vector, without excluded words."""
        excluded_rows = {self._rows.index.get(encoded(word)) for word in excluded}
        if not self._file.words:
            return []
        # Excluded words can be among the nearest, so the search returns more than k words.
        scores, ids = self._vectors.search(
            unit_rows(query)[None], as_integer(k, "k") + len(excluded_rows) if k > 0 else k
        )
        pairs = zip(scores[0].tolist(), ids[0].tolist(), strict=True)
        names = self._file.words
        return [(score, _decode(names[i], errors)) for score, i in pairs if i not in excluded_rows][
            :k
        ]

    # ---- labels of texts

    def predict(
        self,
        text: str | list[str],
        k: int = 1,
        threshold: float = 0.0,
        on_unicode_error: str = "strict",
    ) -> tuple[Any, Any]:
        """Return the k most probable labels of a line and their probabilities.

        For a list of lines, return a list of label lists and a list of probability arrays.
        """
        names = self._file.labels
        if isinstance(text, str):
            (prediction,) = self._predict_lines([one_line(text, "predict")], k, threshold)
            labels = tuple([_decode(names[i], on_unicode_error) for i, _ in prediction])
            # As in fastText, probabilities are float64 for one line, and float32 for a list.
            return labels, np.array([p for _, p in prediction])
        if not isinstance(text, list):
            raise InputError(f"text is {type(text).__name__}: must be a str or a list of str")
        lines = [one_line(line, "predict") for line in text]
        predictions = self._predict_lines(lines, k, threshold)
        label_lists = [
            [_decode(names[i], on_unicode_error) for i, _ in prediction]
            for prediction in predictions
        ]
        probabilities = [
            np.array([p for _, p in prediction], np.float32) for prediction in predictions
        ]
        return label_lists, probabilities

    def _predict_lines(self, lines: list[bytes], k: int, threshold: float) -> Answers:
        """Return the k most probable labels of each line. Raise InputError if k is invalid."""
        if self._file.args.model != "supervised":
            raise InputError("Model needs to be supervised for prediction!")
        # The most frequent type is tested first: the full checks take longer than the prediction
        # of a short text.
        if type(k) is not int or k == -1:
            k = len(self._file.labels) if k == -1 else as_integer(k, "k")
        if k < 1 and self._file.labels:
            raise InputError(f"k is {k}: it needs to be 1 or higher, or -1 for all labels")
        if not isinstance(threshold, _NUMBERS) or threshold != threshold:  # NaN
            raise InputError(f"threshold is {threshold!r}: must be a number")
        prefix = encoded(self.label, "label")
        return self._predictor.best_of_lines(lines, prefix, k, float(threshold))

    def get_line(self, text: str | list[str], on_unicode_error: str = "strict") -> Any:
        """Return (words, known labels) of a line.

        For a list of lines, return a list of word lists and a list of label lists.
        """
        if isinstance(text, list):
            pairs = [self.get_line(line, on_unicode_error) for line in text]
            return [words for words, _ in pairs], [labels for _, labels in pairs]
        words, labels = self._split(one_line(text, "get_line"))
        names = [self._file.labels[i] for i in labels]
        return tuple(
            [_decode(token, on_unicode_error) for token in tokens] for tokens in (words, names)
        )

    def _split(self, line: bytes) -> tuple[list[bytes], list[int]]:
        return self._predictor.split(line, encoded(self.label, "label"))

    def test(self, path: Path, k: int = 1, threshold: float = 0.0) -> tuple[int, float, float]:
        """Return the number of labelled lines in a file, precision and recall."""
        counts = self._count_labels(path, k, threshold)
        return counts.examples, counts.precision(), counts.recall()

    def test_label(
        self, path: Path, k: int = 1, threshold: float = 0.0
    ) -> dict[str, dict[str, float]]:
        """Return precision, recall and F1 of each label."""
        counts = self._count_labels(path, k, threshold)
        return {label: counts.of_label(i) for i, label in enumerate(self.labels)}

    def get_meter(self, path: Path, k: int = -1) -> Meter:
        """Return a meter for the precision-recall curves on the lines of a file."""
        names = {label: i for i, label in enumerate(self.labels)}
        return Meter(self._count_labels(path, k, 0.0), names)

    def _count_labels(self, path: Path, k: int, threshold: float) -> Counts:
        """Return the counts of labels and predictions on the lines of a file."""
        counts = Counts(len(self._file.labels))
        try:
            with open(path, "rb") as file:
                lines = list(file)
        except OSError as error:
            raise InputError(f"test file {path} cannot be opened: {error}") from None
        prefix = encoded(self.label, "label")
        gold = [self._predictor.split(line, prefix)[1] for line in lines]
        # fastText skips lines without labels, and lines without known words or n-grams.
        tested_lines = [
            i
            for i, labels in enumerate(gold)
            if labels and self._predictor.mean(lines[i], prefix)[1]
        ]
        predictions = self._predict_lines([lines[i] for i in tested_lines], k, threshold)
        for i, prediction in zip(tested_lines, predictions, strict=True):
            counts.add(gold[i], prediction)
        return counts

    # ---- files and quantisation

    def save_model(self, path: Path) -> None:
        """Write fastText's file; a failure leaves an earlier file unchanged."""
        files.write(path, self._file)

    def quantize(
        self,
        input: Path | None = None,
        qout: bool = False,
        cutoff: int = 0,
        retrain: bool = False,
        epoch: int | None = None,
        lr: float | None = None,
        thread: int | None = None,
        verbose: int | None = None,
        dsub: int = 2,
        qnorm: bool = False,
    ) -> None:
        """Replace rows by product codes. ``cutoff=n`` keeps only the n rows with largest norms."""
        if self._file.args.model != "supervised":
            raise InputError("the model has word vectors: only supervised models can be quantised")
        if retrain and not input:
            raise InputError("Need input file path if retraining")
        schedule = Schedule(lr or self.lr, 0.0, epoch or self.epoch)
        threads = max(1, thread or self.thread)

        def train_rows(file: files.FastTextFile) -> files.FastTextFile:
            return train_again(file, input, self.label, schedule, 0, threads)

        compression = Compression(cutoff, min(dsub, self.get_dimension()), qnorm, qout, 0)
        self._set_file(quantized(self._file, compression, train_rows if retrain else None))


def _decode(token: bytes, errors: str) -> str:
    return token.decode("utf-8", errors)


def _decode_tokens(tokens: list[bytes], counts: NDArray[np.int64], freq: bool, errors: str) -> Any:
    names = [_decode(token, errors) for token in tokens]
    return (names, np.array(counts)) if freq else names
