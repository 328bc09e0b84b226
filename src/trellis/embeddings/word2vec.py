"""word2vec: p(w_o | w_i) ∝ exp(V[w_i] · W[w_o]); the rows of V are the embeddings.

Skip-gram predicts a word from each word near it, CBOW from the mean of all words near it. The
softmax over the vocabulary is exact, or replaced: by a walk down a binary tree (hierarchical), or
by telling the word from some drawn at random (negative sampling).
"""

import os
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from trellis import _core
from trellis.embeddings import sources
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
from trellis.errors import InputError
from trellis.formats import native
from trellis.native import resolve_jobs

__all__ = ["ARCHITECTURES", "LOSSES", "Word2Vec"]

ARCHITECTURES = ("skipgram", "cbow")
LOSSES = {"negative": 0, "hierarchical": 1, "softmax": 2}
_ALPHA = {"skipgram": 0.025, "cbow": 0.05}
_NOT_STORED = ("n_jobs", "random_state")
# With several threads: nodes that are copied, and words until their changes are shared.
_HOT_NODES, _HOT_FOR = 64, 32

Table: TypeAlias = NDArray[np.float32]


class RowTable(NamedTuple):
    """The input rows of each word: those of word i are ``row[begin[i] : begin[i + 1]]``."""

    begin: NDArray[np.int64] | None
    """None: row i alone."""
    row: NDArray[np.int32] | None
    total: int
    """Rows of the table."""


class Word2Vec(BaseEstimator):  # type: ignore[misc]
    """Word embeddings from running text.

    negative sampling:  −log σ(V[w_i]·W[w_o]) − Σⱼ log σ(−V[w_i]·W[wⱼ]),  wⱼ ~ U(w)^exponent

    >>> text = [["the", "cat", "purrs"], ["the", "dog", "barks"]] * 50
    >>> model = Word2Vec(8, min_count=1, n_jobs=1, random_state=0).fit(text)
    >>> model.vectors_["cat"].shape, model.vectors_.words[0]
    ((8,), 'the')

    Parameters
    ----------
    vector_size
        Numbers in a vector.
    window
        Words to each side; for each word a smaller window is drawn from 1 to this, unless
        ``shrink_windows=False``.
    architecture
        "skipgram" or "cbow".
    loss
        "negative" sampling, "hierarchical" softmax, or the exact "softmax", whose cost grows with
        the vocabulary.
    negatives, exponent
        How many words are drawn against each, from counts to the power of ``exponent``.
    shared_negatives
        Skip-gram draws once for all words near a word, which makes small matrix products of many
        small steps: several times quicker, and no worse in our measurements. False draws for each
        pair, as word2vec does.
    sample
        Words whose share f of the text is larger are dropped at random: the probability to stay
        is √(sample / f) + sample / f. 0 keeps all.
    min_count, max_vocabulary
        Rarer words, and all beyond so many, are as if they were not in the text.
    alpha, min_alpha
        The learning rate, at first and at last. None is 0.025 for skip-gram and 0.05 for CBOW;
        at last a tenth of the first with negative sampling, 0.0001 with the other losses.
    n_jobs
        Threads. They change the tables without locks: the same ``random_state`` gives the same bits
        for one thread only.

    """

    words_: list[str]
    """The vocabulary, the commonest first."""
    counts_: NDArray[np.int64]
    n_tokens_: int
    """Words of text seen, also those that are not in the vocabulary."""
    losses_: list[float]
    """The mean loss of each epoch, estimated from a part of the steps."""
    words_per_second_: float
    _input: Any
    _output: Any

    _kind = "word2vec"

    def __init__(
        self,
        vector_size: int = 100,
        *,
        window: int = 5,
        architecture: str = "skipgram",
        loss: str = "negative",
        negatives: int = 5,
        exponent: float = 0.75,
        shared_negatives: bool = True,
        sample: float = 1e-3,
        min_count: int = 5,
        max_vocabulary: int | None = None,
        alpha: float | None = None,
        min_alpha: float | None = None,
        epochs: int = 5,
        shrink_windows: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.vector_size = vector_size
        self.window = window
        self.architecture = architecture
        self.loss = loss
        self.negatives = negatives
        self.exponent = exponent
        self.shared_negatives = shared_negatives
        self.sample = sample
        self.min_count = min_count
        self.max_vocabulary = max_vocabulary
        self.alpha = alpha
        self.min_alpha = min_alpha
        self.epochs = epochs
        self.shrink_windows = shrink_windows
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---- training

    def fit(
        self,
        source: sources.Source,
        *,
        column: str | None = None,
        pretrained: Vectors | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Learn from a text file or many, or from token lists; the text is read once.

        Files may be packed (``.gz``, ``.xz``, ``.zst``); ``column`` is the texts' in Parquet or
        Arrow files. The words of ``pretrained`` join the vocabulary, and their rows begin as its.
        ``callback`` gets a `Progress` now and then.
        """
        self._check()
        seed = seed_of(self.random_state)
        corpus = self._read(source, column)
        vocabulary = self._learn_words(corpus).with_pretrained(pretrained, self.vector_size)
        self.words_, self.counts_ = vocabulary
        rows = self._rows()
        self._input = table(rows.total, self.vector_size)
        self._output = table(len(self.words_), self.vector_size)
        self._fill(self._input, 0, rows.total, seed)
        vocabulary.start_from(pretrained, self._input)
        self._output.fill(0.0)
        self.n_tokens_, self.losses_ = 0, []
        self._train(corpus, rows, seed, callback)
        return self

    def partial_fit(
        self, source: sources.Source, *, column: str | None = None, callback: Callback | None = None
    ) -> Self:
        """Go on with new text: words that occur in it ``min_count`` times join the vocabulary.

        Counts are added up. What was learnt stays; with hierarchical softmax the tree is built
        anew, and its nodes begin at zero.
        """
        if not hasattr(self, "words_"):
            return self.fit(source, column=column, callback=callback)
        self._check()
        seed, corpus = seed_of(self.random_state), self._read(source, column)
        new = Vocabulary.of(corpus, 1, None)
        self._grow(Vocabulary(self.words_, self.counts_).joined(new, self.min_count), seed)
        self._train(corpus, self._rows(), seed + self.n_tokens_, callback)
        return self

    def _read(self, source: sources.Source, column: str | None) -> "_core.Corpus":
        return sources.read(source, resolve_jobs(self.n_jobs), column=column)

    def _learn_words(self, corpus: "_core.Corpus") -> Vocabulary:
        return Vocabulary.of(corpus, self.min_count, self.max_vocabulary)

    def _train(
        self, corpus: "_core.Corpus", rows: RowTable, seed: int, callback: Callback | None
    ) -> None:
        Vocabulary(self.words_, self.counts_).number(corpus)
        alpha = _ALPHA[self.architecture] if self.alpha is None else self.alpha
        last = self.min_alpha
        if last is None:
            last = 0.1 * alpha if self.loss == "negative" else 1e-4
        schedule = Schedule(alpha, min(last, alpha), self.epochs)
        threads = resolve_jobs(self.n_jobs)
        history = train(self._trainer(rows).sentences, corpus, schedule, seed, threads, callback)
        self.losses_ = [*self.losses_, *history.losses]
        self.words_per_second_ = history.words_per_second
        self.n_tokens_ += corpus.words
        self._vectors: Vectors | None = None

    def _trainer(self, rows: RowTable) -> "_core.EmbeddingTrainer":
        noise = paths = None
        if self.loss == "negative":
            noise = _core.alias_cells(self.counts_.astype(np.float64) ** self.exponent)
        if self.loss == "hierarchical":
            paths = _core.huffman(self.counts_)[:3]
        begin, node, right = paths or (None, None, None)
        return _core.EmbeddingTrainer(
            self._input,
            self._output,
            len(self.words_),
            rows.begin,
            rows.row,
            (self._kept() * 0xFFFFFFFF).astype(np.uint32),
            noise,
            begin,
            node,
            right,
            LOSSES[self.loss],
            self.architecture == "cbow",
            self.shared_negatives,
            self.window,
            self.negatives if self.loss == "negative" else 0,
            self.shrink_windows,
            **self._hot(),
        )

    def _hot(self) -> dict[str, Any]:
        """Threads work on copies of the nodes near the root, which each of them wants all the time.

        Elsewhere they meet too seldom for copies to pay.
        """
        if self.loss != "hierarchical" or resolve_jobs(self.n_jobs) == 1:
            return {}
        return {"hot_nodes": _HOT_NODES, "hot_for": _HOT_FOR}

    def _kept(self) -> NDArray[np.float64]:
        """The probability to keep each word."""
        share = self.counts_ / self.counts_.sum()
        if self.sample == 0:
            return np.ones_like(share)
        kept: NDArray[np.float64] = np.minimum(
            np.sqrt(self.sample / share) + self.sample / share, 1.0
        )
        return kept

    def _rows(self) -> RowTable:
        return RowTable(None, None, len(self.words_))

    def _fill(self, rows: Table, begin: int, end: int, seed: int) -> None:
        """Uniform in ±1/vector_size."""
        dim, threads = self.vector_size, resolve_jobs(self.n_jobs)
        _core.fill_table(rows, begin, end, dim, 1.0 / dim, seed, threads)

    def _grow(self, vocabulary: Vocabulary, seed: int) -> None:
        """Give words new numbers, and rows to those that are new."""
        old = {word: i for i, word in enumerate(self.words_)}
        source = np.array([old.get(word, -1) for word in vocabulary.words])
        known = np.flatnonzero(source >= 0)
        self.words_, self.counts_ = vocabulary
        count = self._rows().total
        input, output = table(count, self.vector_size), table(len(source), self.vector_size)
        output.fill(0.0)
        self._fill(input, 0, len(source), seed + len(old))
        _copy_rows(input, known, self._input, source[known])
        if self.loss != "hierarchical":
            _copy_rows(output, known, self._output, source[known])
        rest = slice(len(source), count), slice(len(old), len(old) + count - len(source))
        _copy_rows(input, rest[0], self._input, rest[1])
        self._input, self._output = input, output

    def _check(self) -> None:
        for name, least, most in (
            ("vector_size", 1, 1 << 16),
            ("window", 1, 10_000),
            ("negatives", 1, 10_000),
            ("min_count", 1, np.inf),
            ("epochs", 1, 1 << 20),
            ("exponent", -10.0, 10.0),
            ("sample", 0.0, np.inf),
        ):
            check_number(self, name, least, most)
        for name, least in (("max_vocabulary", 1), ("alpha", 0.0), ("min_alpha", 0.0)):
            if getattr(self, name) is not None:
                check_number(self, name, least)
        check_choice(self, "architecture", ARCHITECTURES)
        check_choice(self, "loss", LOSSES)
        for name in ("shared_negatives", "shrink_windows"):
            check_choice(self, name, (True, False))

    # ---- what was learnt

    @property
    def vectors_(self) -> Vectors:
        """The embeddings: rows of V."""
        self._fitted()
        if self._vectors is None:
            self._vectors = self._make_vectors()
        return self._vectors

    def _make_vectors(self) -> Vectors:
        return Vectors(self.words_, self.input_[: len(self.words_)], n_jobs=self.n_jobs)

    @property
    def input_(self) -> Table:
        """V: a row for each word (and for each n-gram of `FastText`)."""
        self._fitted()
        rows: Table = self._input[:, : self.vector_size]
        return rows

    @property
    def output_(self) -> Table:
        """W: a row for each word, or for each inner node of the tree of hierarchical softmax."""
        self._fitted()
        rows: Table = self._output[:, : self.vector_size]
        return rows

    @property
    def loss_(self) -> float:
        """The mean loss of the last epoch."""
        self._fitted()
        return self.losses_[-1]

    def _fitted(self) -> None:
        if not hasattr(self, "words_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit first")

    # ---- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of the model, so that `partial_fit` can go on from the file.

        ``model.vectors_.save`` writes the embeddings alone, in word2vec's formats too.
        """
        self._fitted()
        meta, tensors = self._parts()
        native.write(path, self._kind, meta, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model that `save` wrote."""
        from trellis.embeddings.model_files import load_model

        model = load_model(path)
        if type(model) is not cls:
            raise InputError(f"{path}: holds a {type(model).__name__}, not a {cls.__name__}")
        return model

    def _parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        stored = {k: v for k, v in self.get_params(deep=False).items() if k not in _NOT_STORED}
        data, ends = native.pack_strings(self.words_)
        meta = {
            "parameters": {
                k: v.item() if isinstance(v, np.generic) else v for k, v in stored.items()
            },
            "tokens": self.n_tokens_,
            "losses": [loss if np.isfinite(loss) else None for loss in self.losses_],
            "words_per_second": self.words_per_second_,
        }
        tensors: dict[str, NDArray[Any]] = {
            "words.bytes": data,
            "words.ends": ends,
            "counts": self.counts_,
            "input": self.input_,
            "output": self.output_,
        }
        return meta, tensors


def _copy_rows(target: Table, to: Any, source: Table, rows: Any) -> None:
    """Rows of a table that may be padded otherwise: a file's is not padded at all."""
    width = min(target.shape[1], source.shape[1])
    target[to, :width] = source[rows, :width]
    target[to, width:] = 0.0
