"""Text classification: p(label | text) = softmax(W h); h is the mean of the rows of its words."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import integer_in_range, number_in_range
from trellis.data import files as text_files
from trellis.embeddings import sources
from trellis.embeddings.fasttext import SUBWORD_RANGES, as_bytes
from trellis.embeddings.model import EmbeddingModel, RowTable, check_counts
from trellis.embeddings.texts.compression import Compression, quantized
from trellis.embeddings.texts.prediction import Predictor
from trellis.embeddings.texts.training import number_types, retrain, text_step
from trellis.embeddings.training import FILE_LOSSES, Callback, Schedule, seed_of, train
from trellis.embeddings.vectors import Vectors
from trellis.embeddings.vocabulary import Vocabulary
from trellis.errors import InputError
from trellis.estimator import names_arguments
from trellis.formats import fasttext as files
from trellis.formats.native import Tensors, expect
from trellis.formats.parts import Parts, read_strings, store_strings
from trellis.formats.quantization import QuantizedMatrix
from trellis.native import isa, resolve_jobs

__all__ = ["Prediction", "Scores", "TextClassifier"]

Text: TypeAlias = str | Sequence[str]


class Prediction(NamedTuple):
    """A label and its probability."""

    label: str
    probability: float


class Scores(NamedTuple):
    """Quality of the predictions for labelled texts, with k predictions for each text."""

    texts: int
    """Number of texts."""
    precision: float
    """Fraction of the predictions that are labels of their text."""
    recall: float
    """Fraction of the labels that are among the predictions for their text."""


class TextClassifier(EmbeddingModel):
    """fastText's supervised mode: multinomial logistic regression on the mean of a text's rows.

    This is a separate class and not a mode of `FastText`: it is trained on labels, has no window,
    and predicts labels instead of neighbours. It reads and writes fastText's files.

    >>> X = ["a sunny warm day", "rain and storm again", "warm and sunny", "a storm with rain"]
    >>> model = TextClassifier(8, epochs=50, n_jobs=1, random_state=0)
    >>> model.fit(X, ["good", "bad", "good", "bad"]).predict(["sunny again"])[0][0].label
    'good'

    Parameters
    ----------
    vector_size
        Number of dimensions of a row.
    loss
        "softmax"; "ova" (one logistic regression for each label) for texts with several labels;
        "hierarchical" or "negative" for a very large number of labels.
    word_ngrams
        Largest length of word n-grams. They have rows too: a hash assigns them to ``bucket`` rows.
    minn, maxn, bucket
        Settings of the character n-grams, as in `FastText`; ``maxn=0`` means no n-grams.
    negatives, exponent
        Number of random labels per text for the loss "negative". They are drawn with probability
        proportional to count^exponent.
    min_count, min_label_count
        Smallest counts: rarer words have no row, and rarer labels are not learnt.
    alpha, epochs
        Learning rate at the start (it falls to 0), and number of passes over the texts.
    label_prefix
        Prefix of labels in files. The labels of the model do not contain it.
    n_jobs
        Number of threads; the same ``random_state`` gives the same bits only with one thread.
    verbose
        If True, the progress of training is shown, as for `trellis.CRF`.

    """

    kind: ClassVar[str] = "classifier"

    word_ngrams: int
    minn: int
    maxn: int
    bucket: int
    min_label_count: int
    alpha: float
    label_prefix: str

    labels_: list[str]
    """The labels, most frequent first."""
    label_counts_: NDArray[np.int64]
    """(labels,)"""

    # The file that the model was loaded from. It is stored because the tables do not show whether
    # the file is pruned.
    _source: files.FastTextFile | None = None
    _predictor: Predictor | None = None

    _INTEGERS: ClassVar[dict[str, tuple[int, float]]] = {
        **EmbeddingModel._INTEGERS,
        **SUBWORD_RANGES,
        "word_ngrams": (1, 1 << 10),
        "min_label_count": (1, np.inf),
    }
    _NUMBERS: ClassVar[dict[str, tuple[float, float]]] = {
        **EmbeddingModel._NUMBERS,
        "alpha": (0.0, np.inf),
    }
    _CHOICES: ClassVar[dict[str, Iterable[str]]] = {"loss": tuple(FILE_LOSSES)}

    @names_arguments
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
        verbose: bool = False,
    ) -> None:
        self._store_parameters(locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._has_buckets() and self.bucket == 0:
            raise InputError("bucket is 0: must be at least 1, because n-grams need rows")
        if not isinstance(self.label_prefix, str) or not self.label_prefix:
            raise InputError(f"label_prefix is {self.label_prefix!r}: must be a non-empty str")

    def _has_buckets(self) -> bool:
        return self.maxn > 0 or self.word_ngrams > 1

    # ---- training

    def fit(
        self,
        source: Any,
        y: Any = None,
        *,
        pretrained: Vectors | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Train on texts and their labels, or on files whose lines contain both.

        A text is a str, which is split at white space, or a list of words. Its label is a str or a
        list of str. The words of ``pretrained`` are added to the vocabulary, and their vectors are
        the initial rows.
        """
        self._check_parameters()
        seed, threads = seed_of(self.random_state), resolve_jobs(self.n_jobs)
        # As in fastText, the word </s> is added at the end of each line. It acts as a bias.
        texts = source if y is None else self._yield_labelled_words(source, y)
        corpus = sources.read(texts, threads, end_words=True)
        names = self._learn_words(corpus, pretrained)
        self._source = self._predictor = None  # they belong to the previous model
        self._create_tables(self._make_row_table().total, len(self.labels_), pretrained, seed)
        tables = self._input, self._output
        self.n_tokens_ = corpus.words
        step = text_step(self.to_file(), tables, names, self.label_prefix, self.exponent)
        with self._show_progress(callback) as after_slice:
            history = train(step, corpus, self._schedule(), seed, threads, after_slice)
        self.losses_, self.words_per_second_ = history.losses, history.words_per_second
        self._warn(history, "no text has a word and a label", 3)
        self.isa_ = isa()
        return self

    def _schedule(self) -> Schedule:
        return Schedule(self.alpha, 0.0, self.epochs)

    def _yield_labelled_words(self, texts: Iterable[Text], y: Any) -> Iterator[list[str]]:
        """Yield a list for each text: its labels with their prefix, then its words."""
        label_lists = _validate_labels(y)
        if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
            raise InputError(f"texts must be a list of texts, not {type(texts).__name__}")
        texts = list(texts)
        if len(texts) != len(label_lists):
            raise InputError(
                f"there are {len(texts)} texts but {len(label_lists)} labels: must be equally many"
            )
        for i, (text, labels) in enumerate(zip(texts, label_lists, strict=True)):
            yield [*(self.label_prefix + label for label in labels), *_split_words(text, i)]

    def _learn_words(self, corpus: _core.Corpus, pretrained: Vectors | None) -> list[str]:
        """Set words and labels with their counts. Return all names in order of their numbers."""
        # The corpus contains words and labels. Labels are the names that start with the prefix.
        names, counts, names_by_type = number_types(corpus)
        prefix = self.label_prefix
        pairs = list(zip(names, counts.tolist(), strict=True))
        words = [
            (name, count)
            for name, count in pairs
            if not name.startswith(prefix) and count >= self.min_count
        ]
        labels = [
            (name.removeprefix(prefix), count) for name, count in pairs if name.startswith(prefix)
        ]
        if not labels:
            raise InputError(f"the texts have no labels: no word starts with {prefix!r}")
        labels = [(name, count) for name, count in labels if count >= self.min_label_count]
        if not labels:
            raise InputError(f"min_label_count is {self.min_label_count}: no label occurs so often")
        self.labels_, self.label_counts_ = _unzip(labels)
        self.words_, self.counts_ = Vocabulary(*_unzip(words)).with_pretrained(
            pretrained, self.vector_size
        )
        return names_by_type

    def _make_row_table(self) -> RowTable:
        return RowTable(None, None, len(self.words_) + (self.bucket if self._has_buckets() else 0))

    # ---- prediction

    def predict(
        self, texts: Iterable[Text], k: int = 1, threshold: float = 0.0
    ) -> list[list[Prediction]]:
        """Return the k most probable labels of each text; omit labels below the threshold.

        As in fastText, 1e-5 is added to each probability (with hierarchical softmax, to that of
        each step in the tree). A text without known words or n-grams has no labels.
        """
        self._check_fitted()
        # The most frequent types are tested first: the two checks take longer than the prediction
        # of a short text.
        if type(k) is not int or type(threshold) is not float or not (k > 0 and threshold >= 0.0):
            integer_in_range(k, 1, np.inf, "k")
            number_in_range(threshold, 0.0, np.inf, "threshold")
        if type(texts) is not list and (isinstance(texts, str) or not isinstance(texts, Iterable)):
            raise InputError(f"texts is {type(texts).__name__}: must be a list of texts")
        words = [text.split() if isinstance(text, str) else text for text in texts]
        text_labels = self._get_predictor().best(words, k, threshold, self.n_jobs)
        labels = self.labels_
        return [
            [Prediction(labels[i], p) for i, p in labels_of_text] for labels_of_text in text_labels
        ]

    def test(self, source: Any, y: Any = None, k: int = 1, threshold: float = 0.0) -> Scores:
        """Return precision and recall of `predict` on labelled texts; arguments are as in `fit`."""
        pairs = list(
            self._read_examples(source)
            if y is None
            else zip(source, _validate_labels(y), strict=True)
        )
        predictions = self.predict([text for text, _ in pairs], k, threshold)
        n_correct = sum(
            sum(prediction.label in labels for prediction in text_predictions)
            for text_predictions, (_, labels) in zip(predictions, pairs, strict=True)
        )
        n_predicted, n_labels = sum(map(len, predictions)), sum(len(labels) for _, labels in pairs)
        # max avoids a division by 0: the score without predictions or labels is 0.
        return Scores(len(pairs), n_correct / max(n_predicted, 1), n_correct / max(n_labels, 1))

    def _read_examples(self, source: Any) -> Iterator[tuple[list[str], list[str]]]:
        """Yield (words, labels) of each line in files; skip lines without labels."""
        paths = [source] if isinstance(source, str | os.PathLike) else source
        prefix = self.label_prefix
        for path in paths:
            for line in text_files.lines(path):
                words = line.split()
                labels = [word.removeprefix(prefix) for word in words if word.startswith(prefix)]
                if labels:
                    yield [word for word in words if not word.startswith(prefix)], labels

    def _get_predictor(self) -> Predictor:
        """Return the predictor, created at first use."""
        if self._predictor is None:
            self._predictor = Predictor(self.to_file())
        return self._predictor

    # ---- files

    def quantize(
        self,
        *,
        cutoff: int = 0,
        dsub: int = 2,
        norms: bool = False,
        output: bool = False,
        retrain: Any = None,
    ) -> TextClassifier:
        """Return a smaller model whose rows are product codes.

        ``cutoff=n`` keeps only the n rows of largest length (0: all rows). ``dsub`` is the number
        of dimensions per code. ``norms`` encodes the lengths of rows separately; ``output`` encodes
        W too. ``retrain`` is a file in the format of `fit`: if ``cutoff`` removes rows, the
        remaining rows are trained on this file before they are encoded.
        """
        self._check_fitted()
        seed = seed_of(self.random_state)
        compression = Compression(cutoff, dsub, norms, output, seed)
        train_again = None if retrain is None else self._make_retrainer(retrain, seed)
        return self.from_file(
            quantized(self.to_file(), compression, train_again), self.label_prefix
        )

    def _make_retrainer(self, source: Any, seed: int) -> Any:
        prefix, schedule, threads = self.label_prefix, self._schedule(), resolve_jobs(self.n_jobs)
        return lambda file: retrain(file, source, prefix, schedule, seed, threads)

    def save_fasttext(self, path: str | os.PathLike[str]) -> None:
        """Write the ``.bin`` file of fastText, or its ``.ftz`` file if the model is quantised."""
        self._check_fitted()
        files.write(path, self.to_file())

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of a ``.trellis`` file."""
        self._check_fitted()
        if isinstance(self._input, QuantizedMatrix):
            raise InputError("a quantised model cannot be saved as .trellis: use save_fasttext")
        meta, tensors = super().to_parts()
        tensors["label_counts"] = self.label_counts_
        store_strings(tensors, "labels", self.labels_)
        return meta, tensors

    def _read_outputs(self, tensors: Tensors) -> int:
        self.labels_ = read_strings(tensors, "labels")
        if not self.labels_:
            raise InputError("labels is empty: a classifier needs at least one label")
        self.label_counts_ = expect(tensors, "label_counts", np.int64, (len(self.labels_),))
        check_counts(self.label_counts_, "label_counts", 1)
        return len(self.labels_)

    @classmethod
    def from_file(cls, file: files.FastTextFile, label_prefix: str = "__label__") -> Self:
        """Return the classifier that a fastText file contains."""
        args = file.args
        if args.model != "supervised":
            raise InputError("the file contains word vectors: use FastText.load")
        losses = {file_name: name for name, file_name in FILE_LOSSES.items()}
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
        labels = [label.decode("utf-8", "surrogateescape") for label in file.labels]
        model.words_ = [word.decode("utf-8", "surrogateescape") for word in file.words]
        model.labels_ = [label.removeprefix(label_prefix) for label in labels]
        model.counts_, model.label_counts_ = np.array(file.counts), np.array(file.label_counts)
        model.n_tokens_, model.losses_, model.words_per_second_ = file.n_tokens, [], 0.0
        model._input, model._output = file.input, file.output
        model._source = file
        return model

    def to_file(self) -> files.FastTextFile:
        """Return the content of fastText's file for this model."""
        if self._source is not None:
            return self._source
        args = files.Args(
            dim=self.vector_size,
            epoch=self.epochs,
            min_count=self.min_count,
            neg=self.negatives,
            word_ngrams=self.word_ngrams,
            loss=FILE_LOSSES[self.loss],
            model="supervised",
            bucket=self.bucket if self._has_buckets() else 0,
            minn=self.minn if self.maxn > 0 else 0,
            maxn=self.maxn,
        )
        return files.FastTextFile(
            args,
            as_bytes(self.words_),
            self.counts_,
            as_bytes([self.label_prefix + label for label in self.labels_]),
            self.label_counts_,
            self.n_tokens_,
            self.input_,
            self.output_,
        )


def _unzip(pairs: list[tuple[str, int]]) -> tuple[list[str], NDArray[np.int64]]:
    return [name for name, _ in pairs], np.array([count for _, count in pairs], np.int64)


def _split_words(text: Text, number: int) -> list[str]:
    """Return the words of text number ``number``. Raise InputError if its type is wrong."""
    if isinstance(text, str):
        return text.split()
    if isinstance(text, list | tuple) and all(isinstance(word, str) for word in text):
        return list(text)
    raise InputError(f"text {number} is {type(text).__name__}: must be a str or a list of str")


def _validate_labels(y: Any) -> list[list[str]]:
    """Return a list of labels for each text. Raise InputError if a label is not a single word."""
    label_lists = [[labels] if isinstance(labels, str) else list(labels) for labels in y]
    for i, labels in enumerate(label_lists):
        if not all(isinstance(label, str) and label.split() == [label] for label in labels):
            raise InputError(f"text {i}: labels must be str without white space, not {labels!r}")
    return label_lists
