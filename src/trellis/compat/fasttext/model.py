"""fastText's model object, over what a fastText file holds."""

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
from trellis.embeddings.compression import quantized
from trellis.embeddings.geometry import unit_rows
from trellis.embeddings.prediction import Answers, Predictor
from trellis.embeddings.subword_rows import SubwordRows
from trellis.embeddings.text_training import retrained
from trellis.embeddings.training import Schedule
from trellis.embeddings.vectors import Vectors
from trellis.errors import InputError
from trellis.formats import fasttext as files
from trellis.formats.quantization import QuantizedMatrix

__all__ = ["_FastText"]

Path: TypeAlias = str | os.PathLike[str]
Floats: TypeAlias = NDArray[np.float32]
_NUMBERS = (int, float, np.number)
_MADE = ("_rows", "_predictor", "_vectors", "_label_index", "words", "labels")


class _FastText:
    """What `load_model` and the two trainers give; its arguments are attributes: ``model.dim``."""

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
            self._use(file)
            self.set_args(of_file(file.args))
        self.set_args(args)

    @classmethod
    def _of(cls, file: files.FastTextFile, args: SimpleNamespace) -> "_FastText":
        model = cls(args=args)
        model._use(file)
        return model

    def _use(self, file: files.FastTextFile) -> None:
        self._file = file
        for name in _MADE:
            self.__dict__.pop(name, None)

    def set_args(self, args: Any = None) -> None:
        """Take the attributes of fastText's names from an object."""
        if args:
            for name in NAMES:
                setattr(self, name, getattr(args, name))

    # ---- what is made of the file, when first needed

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
        """All words, the commonest first."""
        return list(self.get_words())

    @cached_property
    def labels(self) -> list[str]:
        """All labels, the commonest first; the words of a model of word vectors."""
        return list(self.get_labels())

    # ---- words and their rows

    def is_quantized(self) -> bool:
        """Whether rows are codes."""
        return isinstance(self._file.input, QuantizedMatrix)

    def get_dimension(self) -> int:
        """Numbers in a vector."""
        return self._file.args.dim

    def get_word_vector(self, word: str) -> Floats:
        """The mean of the rows of a word and of its n-grams; zero if it has none."""
        vector: Floats = self._rows.vectors([encoded(word, "word")])[0]
        return vector

    def get_sentence_vector(self, text: str) -> Floats:
        """The mean of a line's rows, or of its words' directions if the model has no labels."""
        line = one_line(text, "get_sentence_vector")
        if self._file.args.model == "supervised":
            return self._predictor.mean(line, encoded(self.label, "label"))[0]
        units = unit_rows(self._rows.vectors(line.split()))
        units = units[units.any(axis=1)]
        return units.mean(axis=0) if len(units) else np.zeros(self.get_dimension(), np.float32)

    def get_word_id(self, word: str) -> int:
        """The place of a word in the dictionary, where labels come after all words; −1 if none."""
        entry = encoded(word, "word")
        label = self._label_index.get(entry)
        return self._rows.index.get(entry, -1 if label is None else len(self._file.words) + label)

    def get_label_id(self, label: str) -> int:
        """The place of a label among the labels; −1 if there is none."""
        return self._label_index.get(encoded(label, "label"), -1)

    def get_subword_id(self, subword: str) -> int:
        """The row of the input matrix that an n-gram hashes to."""
        bucket = self._file.args.bucket
        if not bucket:
            raise InputError("the model has no n-grams")
        (hashed,) = _core.word_hashes([encoded(subword, "subword")]).tolist()
        return len(self._file.words) + int(hashed) % bucket

    def get_subwords(
        self, word: str, on_unicode_error: str = "strict"
    ) -> tuple[list[str], NDArray[np.int64]]:
        """The word, if it is known, and its n-grams; and the rows of those that have one."""
        args, entry = self._file.args, encoded(word, "word")
        own = [_decoded(entry, on_unicode_error)] if entry in self._rows.index else []
        return own + _core.subwords(entry, args.minn, args.maxn), self._rows.ids([entry])[1]

    def get_input_vector(self, ind: int) -> Floats:
        """A row of the input matrix."""
        row, count = as_integer(ind, "ind"), self._file.input.shape[0]
        if not 0 <= row < count:
            raise InputError(f"ind is {ind}: the input matrix has {count} rows")
        return np.array(self._rows.rows(np.array([row]))[0])

    def get_input_matrix(self) -> Floats:
        """A copy of the rows of words and n-grams."""
        return self._dense(self._file.input)

    def get_output_matrix(self) -> Floats:
        """A copy of the rows of labels, or of words that are predicted."""
        return self._dense(self._file.output)

    def _dense(self, matrix: files.Matrix) -> Floats:
        if self.is_quantized() or isinstance(matrix, QuantizedMatrix):
            raise InputError("Can't get quantized Matrix")
        return np.array(matrix, np.float32, order="C")

    def set_matrices(self, input_matrix: ArrayLike, output_matrix: ArrayLike) -> None:
        """Put others in the place of both matrices; the dimension may be another."""
        given = [np.array(matrix, np.float32) for matrix in (input_matrix, output_matrix)]
        for matrix, old in zip(given, (self._file.input, self._file.output), strict=True):
            if matrix.ndim != 2 or len(matrix) != old.shape[0] or matrix.shape[1] < 1:
                raise InputError(
                    f"a matrix of shape {matrix.shape} cannot have {old.shape[0]} rows"
                )
        if given[0].shape[1] != given[1].shape[1]:
            raise InputError(
                f"{given[0].shape[1]} and {given[1].shape[1]} columns are not the same"
            )
        dim = int(given[0].shape[1])
        args = self._file.args._replace(dim=dim)
        self._use(replace(self._file, args=args, input=given[0], output=given[1]))
        self.dim = dim

    def get_words(self, include_freq: bool = False, on_unicode_error: str = "strict") -> Any:
        """All words, and how often each occurred if asked for."""
        return _listed(self._file.words, self._file.counts, include_freq, on_unicode_error)

    def get_labels(self, include_freq: bool = False, on_unicode_error: str = "strict") -> Any:
        """All labels; the words of a model of word vectors."""
        if self._file.args.model != "supervised":
            return self.get_words(include_freq, on_unicode_error)
        return _listed(self._file.labels, self._file.label_counts, include_freq, on_unicode_error)

    def __getitem__(self, word: str) -> Floats:
        return self.get_word_vector(word)

    def __contains__(self, word: str) -> bool:
        return encoded(word, "word") in self._rows.index

    # ---- neighbours

    def get_nearest_neighbors(
        self, word: str, k: int = 10, on_unicode_error: str = "strict"
    ) -> list[tuple[float, str]]:
        """(cosine, word) of the k words nearest to a word, which may be any."""
        return self._nearest(self.get_word_vector(word), [word], k, on_unicode_error)

    def get_analogies(
        self,
        wordA: str,  # noqa: N803
        wordB: str,  # noqa: N803
        wordC: str,  # noqa: N803
        k: int = 10,
        on_unicode_error: str = "strict",
    ) -> list[tuple[float, str]]:
        """(cosine, word) of the k words nearest to A − B + C, each of length one."""
        asked = [wordA, wordB, wordC]
        a, b, c = unit_rows(np.array([self.get_word_vector(word) for word in asked]))
        return self._nearest(a - b + c, asked, k, on_unicode_error)

    def _nearest(
        self, query: Floats, without: Sequence[str], k: int, errors: str
    ) -> list[tuple[float, str]]:
        banned = {self._rows.index.get(encoded(word)) for word in without}
        if not self._file.words:
            return []
        scores, ids = self._vectors.search(
            unit_rows(query)[None], as_integer(k, "k") + len(banned) if k > 0 else k
        )
        pairs = zip(scores[0].tolist(), ids[0].tolist(), strict=True)
        names = self._file.words
        return [(score, _decoded(names[i], errors)) for score, i in pairs if i not in banned][:k]

    # ---- labels of texts

    def predict(
        self,
        text: str | list[str],
        k: int = 1,
        threshold: float = 0.0,
        on_unicode_error: str = "strict",
    ) -> tuple[Any, Any]:
        """The k likeliest labels of a line and their probabilities; lists of both for a list."""
        names = self._file.labels
        if isinstance(text, str):
            (own,) = self._best([one_line(text, "predict")], k, threshold)
            labels = tuple([_decoded(names[i], on_unicode_error) for i, _ in own])
            return labels, np.array([p for _, p in own])
        if not isinstance(text, list):
            raise InputError(f"text is {type(text).__name__}: must be a str or a list of them")
        found = self._best([one_line(line, "predict") for line in text], k, threshold)
        lists = [[_decoded(names[i], on_unicode_error) for i, _ in own] for own in found]
        chances = [np.array([p for _, p in own], np.float32) for own in found]
        return lists, chances

    def _best(self, lines: list[bytes], k: int, threshold: float) -> Answers:
        if self._file.args.model != "supervised":
            raise InputError("Model needs to be supervised for prediction!")
        if type(k) is not int or k == -1:
            k = len(self._file.labels) if k == -1 else as_integer(k, "k")
        if k < 1 and self._file.labels:
            raise InputError(f"k is {k}: it needs to be 1 or higher, or -1 for all labels")
        if not isinstance(threshold, _NUMBERS) or threshold != threshold:  # NaN
            raise InputError(f"threshold is {threshold!r}: must be a number")
        prefix = encoded(self.label, "label")
        return self._predictor.best_of_lines(lines, prefix, k, float(threshold))

    def get_line(self, text: str | list[str], on_unicode_error: str = "strict") -> Any:
        """Words and known labels of a line, or lists of both for a list of lines."""
        if isinstance(text, list):
            pairs = [self.get_line(line, on_unicode_error) for line in text]
            return [words for words, _ in pairs], [labels for _, labels in pairs]
        words, labels = self._split(one_line(text, "get_line"))
        names = [self._file.labels[i] for i in labels]
        return tuple([_decoded(t, on_unicode_error) for t in own] for own in (words, names))

    def _split(self, line: bytes) -> tuple[list[bytes], list[int]]:
        return self._predictor.split(line, encoded(self.label, "label"))

    def test(self, path: Path, k: int = 1, threshold: float = 0.0) -> tuple[int, float, float]:
        """How many lines of a file have labels, precision and recall."""
        counts = self._count(path, k, threshold)
        return counts.examples, counts.precision(), counts.recall()

    def test_label(
        self, path: Path, k: int = 1, threshold: float = 0.0
    ) -> dict[str, dict[str, float]]:
        """Precision, recall and F1 of each label."""
        counts = self._count(path, k, threshold)
        return {label: counts.of_label(i) for i, label in enumerate(self.labels)}

    def get_meter(self, path: Path, k: int = -1) -> Meter:
        """Precision against recall on the lines of a file."""
        names = {label: i for i, label in enumerate(self.labels)}
        return Meter(self._count(path, k, 0.0), names)

    def _count(self, path: Path, k: int, threshold: float) -> Counts:
        counts = Counts(len(self._file.labels))
        try:
            with open(path, "rb") as file:
                lines = list(file)
        except OSError as error:
            raise InputError(f"test file {path} cannot be opened: {error}") from None
        prefix = encoded(self.label, "label")
        gold = [self._predictor.split(line, prefix)[1] for line in lines]
        kept = [
            i for i, own in enumerate(gold) if own and self._predictor.mean(lines[i], prefix)[1]
        ]
        answers = self._best([lines[i] for i in kept], k, threshold)
        for i, own in zip(kept, answers, strict=True):
            counts.add(gold[i], own)
        return counts

    # ---- files and codes

    def save_model(self, path: Path) -> None:
        """Write fastText's file; it appears whole or not at all."""
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
        """Turn rows into codes, of the ``cutoff`` longest alone if that is not 0."""
        if self._file.args.model != "supervised":
            raise InputError("only supervised models are quantised")
        if retrain and not input:
            raise InputError("Need input file path if retraining")
        schedule = Schedule(lr or self.lr, 0.0, epoch or self.epoch)
        threads = max(1, thread or self.thread)

        def learn(file: files.FastTextFile) -> files.FastTextFile:
            return retrained(file, input, self.label, schedule, 0, threads)

        dsub = min(dsub, self.get_dimension())
        coded = quantized(self._file, cutoff, dsub, qnorm, qout, 0, learn if retrain else None)
        self._use(coded)


def _decoded(token: bytes, errors: str) -> str:
    return token.decode("utf-8", errors)


def _listed(tokens: list[bytes], counts: NDArray[np.int64], freq: bool, errors: str) -> Any:
    names = [_decoded(token, errors) for token in tokens]
    return (names, np.array(counts)) if freq else names
