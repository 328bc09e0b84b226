"""Training and loading under fastText's names; constants that mean something else are converted."""  # noqa: N999

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
    read,
)
from trellis.compat.fasttext.lines import encoded, tokens
from trellis.compat.fasttext.model import _FastText
from trellis.embeddings import sources
from trellis.embeddings.classifier import TextClassifier
from trellis.embeddings.fasttext import FastText, as_bytes
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
_LOSSES = {"ns": "negative", "hs": "hierarchical", "softmax": "softmax", "ova": "ova"}
_EXPONENT = 0.5  # of counts, for negative samples


def load_model(path: str | os.PathLike[str]) -> _FastText:
    """The model of a ``.bin`` or ``.ftz`` file."""
    return _FastText(path)


def tokenize(text: str) -> list[str]:
    """Words between white space; ``</s>`` for the end of a line."""
    return [token.decode() for token in tokens(encoded(text))]


def train_unsupervised(*given: Any, **named: Any) -> _FastText:
    """Word vectors of a file of text: ``train_unsupervised(input, model="skipgram", …)``.

    Negatives are shared over a window, which is several times quicker and measured no worse.
    """
    path, args = read(UNSUPERVISED, given, named)
    if args.loss == "ova" or args.model == "supervised":
        raise InputError(f"model={args.model!r} with loss={args.loss!r} are no word vectors")
    model = _Lines(
        args.dim,
        window=args.ws,
        architecture=args.model,
        loss=_LOSSES[args.loss],
        negatives=args.neg,
        exponent=_EXPONENT,
        sample=args.t,
        min_count=max(1, args.minCount),
        alpha=args.lr,
        min_alpha=0.0,
        epochs=args.epoch,
        minn=args.minn if args.maxn else 0,
        maxn=args.maxn,
        bucket=args.bucket,
        n_jobs=max(1, args.thread),
        random_state=0,
    )
    model.label_prefix = args.label
    model.fit(_existing(path), pretrained=_pretrained(args))
    file = replace(model._file(), labels=as_bytes(model.labels), label_counts=model.label_counts)
    return _made(file, args)


def train_supervised(*given: Any, **named: Any) -> _FastText:
    """A text classifier from a file of labelled lines: ``train_supervised(input, lr=0.1, …)``."""
    path, args = read(SUPERVISED, given, named)
    model = TextClassifier(
        args.dim,
        loss=_LOSSES[args.loss],
        word_ngrams=max(1, args.wordNgrams),
        minn=args.minn,
        maxn=args.maxn,
        bucket=args.bucket,
        negatives=args.neg,
        exponent=_EXPONENT,
        min_count=max(1, args.minCount),
        min_label_count=max(1, args.minCountLabel),
        alpha=args.lr,
        epochs=args.epoch,
        label_prefix=args.label,
        n_jobs=max(1, args.thread),
        random_state=args.seed,
    )
    model.fit(_existing(path), pretrained=_pretrained(args))
    return _made(model._file(), args)


def _existing(path: Any) -> Any:
    if not isinstance(path, str | os.PathLike) or not os.path.isfile(path):
        raise InputError(f"{path} cannot be opened for training")
    return path


def _pretrained(args: Any) -> Vectors | None:
    if not args.pretrainedVectors:
        return None
    return Vectors.load(args.pretrainedVectors)


def _made(file: FastTextFile, args: Any) -> _FastText:
    known = {"ws": args.ws, "lr_update_rate": args.lrUpdateRate, "t": args.t}
    file = replace(file, args=file.args._replace(**known, word_ngrams=args.wordNgrams))
    args.loss = loss_name[args.loss]
    return _FastText._of(file, args)


class _Lines(FastText):
    """`FastText` on text whose lines end with a word, and whose labels are no words."""

    label_prefix: str
    labels: list[str]

    def _read(self, source: Any, column: str | None) -> "_core.Corpus":
        return sources.read(source, resolve_jobs(self.n_jobs), column=column, end_words=True)

    def _learn_words(self, corpus: "_core.Corpus") -> Vocabulary:
        found = Vocabulary.of(corpus, 1, None)
        is_label = np.array([word.startswith(self.label_prefix) for word in found.words])
        self.labels = [word for word, is_one in zip(found.words, is_label, strict=True) if is_one]
        self.label_counts = found.counts[is_label]
        kept = np.flatnonzero(~is_label & (found.counts >= self.min_count))
        if not len(kept):
            raise InputError(f"no word occurs {self.min_count} times: try a smaller minCount")
        return Vocabulary([found.words[i] for i in kept.tolist()], found.counts[kept])


def cbow(*given: Any, **named: Any) -> NoReturn:
    """Gone from fastText itself: ``train_unsupervised(…, model="cbow")``."""
    raise InputError("cbow is not there any more: use train_unsupervised with model='cbow'")


def skipgram(*given: Any, **named: Any) -> NoReturn:
    """Gone from fastText itself: ``train_unsupervised(…, model="skipgram")``."""
    raise InputError("skipgram is not there any more: use train_unsupervised with model='skipgram'")


def supervised(*given: Any, **named: Any) -> NoReturn:
    """Gone from fastText itself: ``train_supervised(…)``."""
    raise InputError("supervised is not there any more: use train_supervised")
