"""fastText's functions that train and load models, implemented by the models of trellis."""  # noqa: N999

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from trellis import _core
from trellis.compat.fasttext.arguments import (
    SUPERVISED,
    UNSUPERVISED,
    loss_name,
    model_name,
    read_arguments,
)
from trellis.compat.fasttext.lines import encoded, tokens
from trellis.compat.fasttext.model import _FastText
from trellis.embeddings import sources
from trellis.embeddings.classifier import TextClassifier
from trellis.embeddings.fasttext import FastText, as_bytes
from trellis.embeddings.training import FILE_LOSSES
from trellis.embeddings.vectors import Vectors
from trellis.embeddings.vocabulary import Vocabulary
from trellis.errors import InputError
from trellis.formats.fasttext import FastTextFile
from trellis.native import resolve_jobs

__all__ = [
    "BOW",
    "EOS",
    "EOW",
    "_FastText",
    "cbow",
    "load_model",
    "loss_name",
    "model_name",
    "skipgram",
    "supervised",
    "tokenize",
    "train_supervised",
    "train_unsupervised",
]

EOS, BOW, EOW = "</s>", "<", ">"
_LOSSES = {file_name: name for name, file_name in FILE_LOSSES.items()}
_EXPONENT = 0.5  # fastText draws words in proportion to count^0.5, word2vec to count^0.75


def load_model(path: str | os.PathLike[str]) -> _FastText:
    """Load the model of a ``.bin`` or ``.ftz`` file."""
    return _FastText(path)


def tokenize(text: str) -> list[str]:
    """Split text at white space; the end of a line becomes ``</s>``."""
    return [token.decode() for token in tokens(encoded(text))]


def train_unsupervised(*args: Any, **kwargs: Any) -> _FastText:
    """Train word vectors on a text file: ``train_unsupervised(input, model="skipgram", …)``.

    Unlike in fastText, all words of a window have the same negative samples. This is several times
    faster, and not less accurate in our benchmarks.
    """
    path, options = read_arguments(UNSUPERVISED, args, kwargs)
    if options.loss == "ova" or options.model == "supervised":
        raise InputError(
            f"model={options.model!r} with loss={options.loss!r} cannot train word vectors"
        )
    model = _FastTextOfLines(
        options.dim,
        window=options.ws,
        architecture=options.model,
        loss=_LOSSES[options.loss],
        negatives=options.neg,
        exponent=_EXPONENT,
        sample=options.t,
        min_count=max(1, options.minCount),
        alpha=options.lr,
        min_alpha=0.0,
        epochs=options.epoch,
        minn=options.minn if options.maxn else 0,
        maxn=options.maxn,
        bucket=options.bucket,
        n_jobs=max(1, options.thread),
        random_state=0,
    )
    model.label_prefix = options.label
    model.fit(_check_exists(path), pretrained=_load_pretrained(options))
    file = replace(model.to_file(), labels=as_bytes(model.labels), label_counts=model.label_counts)
    return _wrap(file, options)


def train_supervised(*args: Any, **kwargs: Any) -> _FastText:
    """Train a classifier on a file of labelled lines: ``train_supervised(input, lr=0.1, …)``."""
    path, options = read_arguments(SUPERVISED, args, kwargs)
    model = TextClassifier(
        options.dim,
        loss=_LOSSES[options.loss],
        word_ngrams=max(1, options.wordNgrams),
        minn=options.minn,
        maxn=options.maxn,
        bucket=options.bucket,
        negatives=options.neg,
        exponent=_EXPONENT,
        min_count=max(1, options.minCount),
        min_label_count=max(1, options.minCountLabel),
        alpha=options.lr,
        epochs=options.epoch,
        label_prefix=options.label,
        n_jobs=max(1, options.thread),
        random_state=options.seed,
    )
    model.fit(_check_exists(path), pretrained=_load_pretrained(options))
    return _wrap(model.to_file(), options)


def _check_exists(path: Any) -> Any:
    """Return the path. Raise InputError unless it is a file."""
    if not isinstance(path, str | os.PathLike) or not os.path.isfile(path):
        raise InputError(f"{path} cannot be opened for training")
    return path


def _load_pretrained(options: Any) -> Vectors | None:
    return Vectors.load(options.pretrainedVectors) if options.pretrainedVectors else None


def _wrap(file: FastTextFile, options: Any) -> _FastText:
    """Return fastText's model object for a trained model."""
    # fastText writes these arguments to its files, although the models of trellis do not use them.
    unused_arguments = {"ws": options.ws, "lr_update_rate": options.lrUpdateRate, "t": options.t}
    file = replace(
        file, args=file.args._replace(**unused_arguments, word_ngrams=options.wordNgrams)
    )
    options.loss = loss_name[options.loss]  # the attribute of a fastText model is the enum member
    return _FastText._from_file(file, options)


class _FastTextOfLines(FastText):
    """`FastText` that reads text as fastText does: ``</s>`` ends a line, labels are not words."""

    label_prefix: str
    labels: list[str]

    def _read(self, source: Any, column: str | None) -> _core.Corpus:
        return sources.read(source, resolve_jobs(self.n_jobs), column=column, end_words=True)

    def _learn_words(self, corpus: _core.Corpus) -> Vocabulary:
        """Set the labels and their counts. Return the frequent words."""
        words, counts = Vocabulary.of(corpus, 1, None)
        is_label = np.array([word.startswith(self.label_prefix) for word in words])
        self.labels = [words[i] for i in np.flatnonzero(is_label).tolist()]
        self.label_counts = counts[is_label]
        frequent_indices = np.flatnonzero(~is_label & (counts >= self.min_count))
        if not len(frequent_indices):
            raise InputError(f"minCount is {self.min_count}: no word occurs {self.min_count} times")
        return Vocabulary([words[i] for i in frequent_indices.tolist()], counts[frequent_indices])


def cbow(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise an InputError, as in fastText: use ``train_unsupervised(…, model="cbow")``."""
    raise InputError("cbow was removed from fastText: use train_unsupervised with model='cbow'")


def skipgram(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise an InputError, as in fastText: use ``train_unsupervised(…, model="skipgram")``."""
    raise InputError(
        "skipgram was removed from fastText: use train_unsupervised with model='skipgram'"
    )


def supervised(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise an InputError, as in fastText: use ``train_supervised(…)``."""
    raise InputError("supervised was removed from fastText: use train_supervised")
