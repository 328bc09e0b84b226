"""Text classification: p(label | text) = softmax(W h), h the mean of the rows of its words."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from trellis import _core
from trellis.data import files as text_files
from trellis.embeddings import sources
from trellis.embeddings.fasttext import as_bytes
from trellis.embeddings.prediction import Predictor
from trellis.embeddings.text_training import numbered, retrained, step
from trellis.embeddings.training import (
    Callback,
    Schedule,
    check_choice,
    check_number,
    seed_of,
    table,
    train,
)
from trellis.embeddings.vectors import Vectors
from trellis.embeddings.vocabulary import Vocabulary
from trellis.embeddings.word2vec import RowTable
from trellis.errors import InputError
from trellis.formats import fasttext as files
from trellis.formats import native
from trellis.formats.quantization import QuantizedMatrix
from trellis.native import resolve_jobs

__all__ = ["Prediction", "Scores", "TextClassifier"]

_FILE_LOSSES = {"negative": "ns", "hierarchical": "hs", "softmax": "softmax", "ova": "ova"}
_NOT_STORED = ("n_jobs", "random_state")

Text: TypeAlias = str | Sequence[str]


class Prediction(NamedTuple):
    """A label and its probability."""

    label: str
    probability: float


class Scores(NamedTuple):
    """Over labelled texts, with k answers each."""

    texts: int
    precision: float
    """The share of answers that are labels of the text."""
    recall: float
    """The share of labels that are among the answers."""


class TextClassifier(BaseEstimator):  # type: ignore[misc]
    """fastText's supervised mode: multinomial logistic regression on the mean of a text's rows.

    A class of its own, and not a mode of `FastText`: it is trained on labels, has no window, and
    answers with labels instead of neighbours. Files are fastText's, in both directions.

    >>> X = ["a sunny warm day", "rain and storm again", "warm and sunny", "a storm with rain"]
    >>> model = TextClassifier(8, epochs=50, n_jobs=1, random_state=0)
    >>> model.fit(X, ["good", "bad", "good", "bad"]).predict(["sunny again"])[0][0].label
    'good'

    Parameters
    ----------
    loss
        "softmax"; "ova", a logistic regression for each label, for texts with several;
        "hierarchical" or "negative" where there are very many labels.
    word_ngrams
        Runs of up to so many words have rows too, hashed into ``bucket`` of them.
    minn, maxn, bucket
        Character n-grams, as for `FastText`; ``maxn=0`` has none.
    min_count, min_label_count
        Rarer words have no row, and rarer labels are not learnt.
    label_prefix
        What labels begin with in a file of texts. Labels have it in files only.

    """

    words_: list[str]
    counts_: NDArray[np.int64]
    labels_: list[str]
    """The commonest first."""
    label_counts_: NDArray[np.int64]
    losses_: list[float]
    words_per_second_: float
    n_tokens_: int
    _input: Any
    _output: Any
    _source: files.FastTextFile

    def __init__(
        self,
        vector_size: int = 100,
        *,
        loss: str = "softmax",
        word_ngrams: int = 1,
        minn: int = 0,
        maxn: int = 0,
        bucket: int = 2_000_000,
        negatives: int = 5,
        exponent: float = 0.5,
        min_count: int = 1,
        min_label_count: int = 1,
        alpha: float = 0.1,
        epochs: int = 5,
        label_prefix: str = "__label__",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.vector_size = vector_size
        self.loss = loss
        self.word_ngrams = word_ngrams
        self.minn = minn
        self.maxn = maxn
        self.bucket = bucket
        self.negatives = negatives
        self.exponent = exponent
        self.min_count = min_count
        self.min_label_count = min_label_count
        self.alpha = alpha
        self.epochs = epochs
        self.label_prefix = label_prefix
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        source: Any,
        y: Any = None,
        *,
        pretrained: Vectors | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Learn from texts and their labels, or from files whose lines hold both.

        A text is a str, cut at white space, or a list of words; its label a str or a list of them.
        The words of ``pretrained`` join the vocabulary, and their rows begin as its.
        """
        self._check()
        seed, threads = seed_of(self.random_state), resolve_jobs(self.n_jobs)
        texts = source if y is None else self._labelled(source, y)
        corpus = sources.read(texts, threads, end_words=True)
        names = self._learn_words(corpus, pretrained)
        rows = self._rows()
        self._input = table(rows.total, self.vector_size)
        self._output = table(len(self.labels_), self.vector_size)
        dim = self.vector_size
        _core.fill_table(self._input, 0, rows.total, dim, 1.0 / dim, seed, threads)
        Vocabulary(self.words_, self.counts_).start_from(pretrained, self._input)
        self._output.fill(0.0)
        run = step(self._file(), self._input, self._output, names, self.label_prefix, self.exponent)
        schedule = Schedule(self.alpha, 0.0, self.epochs)
        history = train(run, corpus, schedule, seed, threads, callback)
        self.losses_, self.words_per_second_ = history
        self.n_tokens_ = corpus.words
        self._ready: Predictor | None = None
        return self

    def predict(
        self, texts: Iterable[Text], k: int = 1, threshold: float = 0.0
    ) -> list[list[Prediction]]:
        """The k likeliest labels of each text, less those below the threshold.

        Probabilities are fastText's, which adds 1e-5 to each (to each step of the tree, with
        hierarchical softmax). A text of which nothing is known has no labels.
        """
        self._fitted()
        if type(k) is not int or type(threshold) is not float or not (k > 0 and threshold >= 0.0):
            check_number(_Given(k=k), "k", 1)
            check_number(_Given(threshold=threshold), "threshold", 0.0)
        if type(texts) is not list and (isinstance(texts, str) or not isinstance(texts, Iterable)):
            raise InputError(f"texts is {type(texts).__name__}: predict takes a list of texts")
        words = [text.split() if isinstance(text, str) else text for text in texts]
        found = self._predictor().best(words, k, threshold, self.n_jobs)
        names = self.labels_
        return [[Prediction(names[i], p) for i, p in own] for own in found]

    def test(self, source: Any, y: Any = None, k: int = 1, threshold: float = 0.0) -> Scores:
        """Precision and recall of `predict`, on texts as for `fit`."""
        pairs = list(
            self._examples(source) if y is None else zip(source, _label_lists(y), strict=True)
        )
        answers = self.predict([text for text, _ in pairs], k, threshold)
        right = sum(
            sum(answer.label in labels for answer in own)
            for own, (_, labels) in zip(answers, pairs, strict=True)
        )
        given, wanted = sum(map(len, answers)), sum(len(labels) for _, labels in pairs)
        return Scores(len(pairs), right / max(given, 1), right / max(wanted, 1))

    def quantize(
        self,
        *,
        cutoff: int = 0,
        dsub: int = 2,
        norms: bool = False,
        output: bool = False,
        retrain: Any = None,
    ) -> "TextClassifier":
        """A smaller model: product codes for rows, and only the ``cutoff`` longest rows (0: all).

        ``norms`` codes the lengths of rows apart; ``output`` codes W too. The rows that are left
        learn once more from the texts of ``retrain``, a file as for `fit`, before they are coded.
        """
        from trellis.embeddings.compression import quantized

        self._fitted()
        seed, threads = seed_of(self.random_state), resolve_jobs(self.n_jobs)
        learn = None
        if retrain is not None:
            schedule = Schedule(self.alpha, 0.0, self.epochs)

            def learn(file: files.FastTextFile) -> files.FastTextFile:
                return retrained(file, retrain, self.label_prefix, schedule, seed, threads)

        coded = quantized(self._file(), cutoff, dsub, norms, output, seed, learn)
        return self.from_file(coded, self.label_prefix)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.trellis`` file; `save_fasttext` writes fastText's."""
        self._fitted()
        if isinstance(self._input, QuantizedMatrix):
            raise InputError("a quantised model is saved by save_fasttext")
        stored = {k: v for k, v in self.get_params(deep=False).items() if k not in _NOT_STORED}
        meta = {
            "parameters": stored,
            "tokens": self.n_tokens_,
            "losses": [loss if np.isfinite(loss) else None for loss in self.losses_],
            "words_per_second": self.words_per_second_,
        }
        tensors: dict[str, NDArray[Any]] = {
            "counts": self.counts_,
            "label_counts": self.label_counts_,
            "input": self._input[:, : self.vector_size],
            "output": self._output[:, : self.vector_size],
        }
        for name, strings in (("words", self.words_), ("labels", self.labels_)):
            tensors[f"{name}.bytes"], tensors[f"{name}.ends"] = native.pack_strings(strings)
        native.write(path, "classifier", meta, tensors)

    def save_fasttext(self, path: str | os.PathLike[str]) -> None:
        """Write fastText's ``.bin`` file, or ``.ftz`` if the model is quantised."""
        self._fitted()
        files.write(path, self._file())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TextClassifier":
        """A model from a ``.trellis`` file, or from fastText's ``.bin`` or ``.ftz``."""
        from trellis.embeddings.model_files import load_model

        model = load_model(path)
        if not isinstance(model, cls):
            raise InputError(f"{path}: holds a {type(model).__name__}, not a {cls.__name__}")
        return model

    @classmethod
    def from_file(cls, file: files.FastTextFile, label_prefix: str = "__label__") -> Self:
        """The model of a fastText file of a classifier."""
        args = file.args
        if args.model != "supervised":
            raise InputError("this file holds word vectors: FastText.load reads it")
        losses = {theirs: ours for ours, theirs in _FILE_LOSSES.items()}
        model = cls(
            args.dim,
            loss=losses[args.loss],
            word_ngrams=max(1, args.word_ngrams),
            minn=args.minn,
            maxn=args.maxn,
            bucket=args.bucket,
            negatives=max(1, args.neg),
            min_count=max(1, args.min_count),
            epochs=max(1, args.epoch),
            label_prefix=label_prefix,
        )
        decoded = [word.decode("utf-8", "surrogateescape") for word in file.labels]
        model.words_ = [word.decode("utf-8", "surrogateescape") for word in file.words]
        model.labels_ = [label.removeprefix(label_prefix) for label in decoded]
        model.counts_, model.label_counts_ = np.array(file.counts), np.array(file.label_counts)
        model.n_tokens_, model.losses_, model.words_per_second_ = file.n_tokens, [], 0.0
        model._input, model._output = file.input, file.output
        model._source = file
        return model

    # ---- training

    def _check(self) -> None:
        for name, least, most in (
            ("vector_size", 1, 1 << 16),
            ("word_ngrams", 1, 1 << 10),
            ("minn", 0, 64),
            ("maxn", 0, 64),
            ("bucket", 0, 2**31 - 2**25),
            ("negatives", 1, 10_000),
            ("min_count", 1, np.inf),
            ("min_label_count", 1, np.inf),
            ("epochs", 1, 1 << 20),
            ("exponent", -10.0, 10.0),
            ("alpha", 0.0, np.inf),
        ):
            check_number(self, name, least, most)
        check_choice(self, "loss", _FILE_LOSSES)
        if self._has_buckets() and self.bucket == 0:
            raise InputError("bucket is 0: n-grams need rows")
        if not isinstance(self.label_prefix, str) or not self.label_prefix:
            raise InputError(f"label_prefix is {self.label_prefix!r}: must be a str")

    def _has_buckets(self) -> bool:
        return self.maxn > 0 or self.word_ngrams > 1

    def _labelled(self, texts: Iterable[Text], y: Any) -> Iterator[list[str]]:
        labels = _label_lists(y)
        texts = list(texts)
        if len(texts) != len(labels):
            raise InputError(f"{len(texts)} texts have {len(labels)} labels")
        for i, (text, own) in enumerate(zip(texts, labels, strict=True)):
            yield [*(self.label_prefix + label for label in own), *_words(text, i)]

    def _learn_words(self, corpus: "_core.Corpus", pretrained: Vectors | None) -> list[str]:
        """Words and labels, the commonest first; the names of all types, by type."""
        names, counts, by_type = numbered(corpus)
        prefix = self.label_prefix
        pairs = list(zip(names, counts.tolist(), strict=True))
        words = [(n, c) for n, c in pairs if not n.startswith(prefix) and c >= self.min_count]
        labels = [(n.removeprefix(prefix), c) for n, c in pairs if n.startswith(prefix)]
        if not labels:
            raise InputError(f"there are no labels: no word begins with {prefix!r}")
        labels = [(n, c) for n, c in labels if c >= self.min_label_count]
        if not labels:
            raise InputError(f"no label occurs {self.min_label_count} times: min_label_count")
        self.labels_, self.label_counts_ = _unzipped(labels)
        self.words_, self.counts_ = Vocabulary(*_unzipped(words)).with_pretrained(
            pretrained, self.vector_size
        )
        return by_type

    def _rows(self) -> RowTable:
        return RowTable(None, None, len(self.words_) + (self.bucket if self._has_buckets() else 0))

    def _examples(self, source: Any) -> Iterator[tuple[list[str], list[str]]]:
        paths = [source] if isinstance(source, str | os.PathLike) else source
        prefix = self.label_prefix
        for path in paths:
            for line in text_files.lines(path):
                words = line.split()
                labels = [word.removeprefix(prefix) for word in words if word.startswith(prefix)]
                if labels:
                    yield [word for word in words if not word.startswith(prefix)], labels

    # ---- what was learnt

    def _fitted(self) -> None:
        if not hasattr(self, "labels_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit first")

    def _predictor(self) -> Predictor:
        if getattr(self, "_ready", None) is None:
            self._ready = Predictor(self._file())
        assert self._ready is not None
        return self._ready

    def _file(self) -> files.FastTextFile:
        if hasattr(self, "_source"):
            return self._source
        buckets = self._has_buckets()
        args = files.Args(
            dim=self.vector_size,
            epoch=self.epochs,
            min_count=self.min_count,
            neg=self.negatives,
            word_ngrams=self.word_ngrams,
            loss=_FILE_LOSSES[self.loss],
            model="supervised",
            bucket=self.bucket if buckets else 0,
            minn=self.minn if self.maxn > 0 else 0,
            maxn=self.maxn,
        )
        return files.FastTextFile(
            args,
            as_bytes(self.words_),
            self.counts_,
            as_bytes([self.label_prefix + label for label in self.labels_]),
            self.label_counts_,
            getattr(self, "n_tokens_", 0),
            self._input[:, : self.vector_size],
            self._output[:, : self.vector_size],
        )


def _unzipped(pairs: list[tuple[str, int]]) -> tuple[list[str], NDArray[np.int64]]:
    return [name for name, _ in pairs], np.array([count for _, count in pairs], np.int64)


class _Given:
    """Arguments as attributes, for the checks."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def _words(text: Text, number: int) -> list[str]:
    if isinstance(text, str):
        return text.split()
    if isinstance(text, list | tuple) and all(isinstance(word, str) for word in text):
        return list(text)
    raise InputError(f"text {number} is {type(text).__name__}, not a str or a list of str")


def _label_lists(y: Any) -> list[list[str]]:
    labels = [[own] if isinstance(own, str) else list(own) for own in y]
    for i, own in enumerate(labels):
        if not all(isinstance(label, str) and label.split() == [label] for label in own):
            raise InputError(f"text {i}: its labels {own!r} must be str without white space")
    return labels
