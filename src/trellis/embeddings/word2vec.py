"""word2vec: p(w_o | w_i) ∝ exp(V[w_i] · W[w_o]); the rows of V are the embeddings.

Skip-gram predicts a word from each word near it, CBOW from the mean of all words near it. The
softmax over the vocabulary is exact or replaced: by the path to the word in a binary tree
(hierarchical softmax), by separating the word from a few random words (negative sampling), or by
one sigmoid for each word (one-vs-all).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from trellis import _core
from trellis.checks import as_positive
from trellis.embeddings import sources
from trellis.embeddings.huffman import HuffmanTree
from trellis.embeddings.model import EmbeddingModel, RowTable, Table
from trellis.embeddings.training import (
    Callback,
    Schedule,
    loss_arguments,
    seed_of,
    table,
    train,
)
from trellis.embeddings.vectors import Vectors
from trellis.embeddings.vocabulary import Vocabulary
from trellis.errors import InputError, UnknownWordError
from trellis.estimator import names_arguments
from trellis.native import isa, resolve_jobs

__all__ = ["ARCHITECTURES", "LOSSES", "Word2Vec", "WordProbability"]

ARCHITECTURES = ("skipgram", "cbow")
LOSSES = ("negative", "hierarchical", "softmax", "ova")
_ALPHA = {"skipgram": 0.025, "cbow": 0.05}
# Hierarchical softmax with several threads: each thread has its own copy of the `_HOT_NODES` nodes
# nearest to the root, and merges its changes every `_HOT_FOR` words.
_HOT_NODES, _HOT_FOR = 64, 32


class WordProbability(NamedTuple):
    """A word and its probability."""

    word: str
    probability: float


class Word2Vec(EmbeddingModel):
    """Word embeddings from running text.

    negative sampling:  −log σ(V[w_i]·W[w_o]) − Σⱼ log σ(−V[w_i]·W[wⱼ]),  wⱼ ~ U(w)^exponent

    w_i is a word of the text, w_o a word near it, wⱼ are random words, and U(w) is the share of the
    word w in the text.

    >>> text = [["the", "cat", "purrs"], ["the", "dog", "barks"]] * 50
    >>> model = Word2Vec(8, min_count=1, n_jobs=1, random_state=0).fit(text)
    >>> model.vectors_["cat"].shape, model.vectors_.words[0]
    ((8,), 'the')

    Parameters
    ----------
    vector_size
        Number of dimensions of a vector.
    window
        Largest distance between two words that predict each other. For each word a smaller window
        is drawn from 1 to ``window``, unless ``shrink_windows=False``.
    architecture
        "skipgram" or "cbow".
    loss
        "negative" (negative sampling), "hierarchical" (hierarchical softmax), "softmax", which is
        exact, or "ova" (one-vs-all: a sigmoid for every word). The costs of "softmax" and "ova"
        grow with the vocabulary.
    negatives, exponent
        Number of random words per prediction. They are drawn with probability proportional to
        count^exponent.
    shared_negatives
        If True, skip-gram draws random words once for all words in a window. Many small steps then
        become small matrix products: this is several times faster, and not less accurate in our
        benchmarks. If False, random words are drawn for each pair, as in word2vec.
    sample
        Words whose share f of the text is larger than ``sample`` are dropped at random. A word
        stays with probability √(sample / f) + sample / f. 0 drops no words.
    min_count, max_vocabulary
        The vocabulary has the ``max_vocabulary`` most frequent words that occur at least
        ``min_count`` times. Other words are removed from the text.
    alpha, min_alpha
        Learning rate at the start and at the end. ``alpha`` is by default 0.025 for skip-gram and
        0.05 for CBOW. ``min_alpha`` is by default ``alpha / 10`` with negative sampling, and 0.0001
        with the other losses.
    epochs
        Number of passes over the text.
    n_jobs
        Number of threads; None for all cores. Threads update the tables without locks: the same
        ``random_state`` gives the same bits only with one thread.
    verbose
        If True, the progress of training is shown, as for `trellis.CRF`.

    """

    kind: ClassVar[str] = "word2vec"

    window: int
    architecture: str
    shared_negatives: bool
    sample: float
    max_vocabulary: int | None
    alpha: float | None
    min_alpha: float | None
    shrink_windows: bool

    _vectors: Vectors | None = None

    _INTEGERS: ClassVar[dict[str, tuple[int, float]]] = {
        **EmbeddingModel._INTEGERS,
        "window": (1, 10_000),
        "max_vocabulary": (1, np.inf),
    }
    _NUMBERS: ClassVar[dict[str, tuple[float, float]]] = {
        **EmbeddingModel._NUMBERS,
        "sample": (0.0, np.inf),
        "alpha": (0.0, np.inf),
        "min_alpha": (0.0, np.inf),
    }
    _CHOICES: ClassVar[dict[str, Iterable[str]]] = {"architecture": ARCHITECTURES, "loss": LOSSES}
    _FLAGS = ("shared_negatives", "shrink_windows")
    _OPTIONAL = ("max_vocabulary", "alpha", "min_alpha")

    @names_arguments
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
        verbose: bool = False,
    ) -> None:
        self._store_parameters(locals())

    # ---- training

    def fit(
        self,
        source: sources.Source,
        *,
        column: str | None = None,
        pretrained: Vectors | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Train on a text file, a list of files, a `Corpus`, or token lists; the text is read once.

        Files may be compressed (``.gz``, ``.xz``, ``.zst``). ``column`` is the column of Parquet or
        Arrow files that contains the texts. The words of ``pretrained`` are added to the
        vocabulary, and their vectors are the initial rows. ``callback`` is called with a `Progress`
        about every million words.
        """
        self._check_parameters()
        seed = seed_of(self.random_state)
        corpus = self._read(source, column)
        vocabulary = self._learn_words(corpus).with_pretrained(pretrained, self.vector_size)
        self.words_, self.counts_ = vocabulary
        rows = self._make_row_table()
        self._create_tables(rows.total, len(self.words_), pretrained, seed)
        self.n_tokens_, self.losses_ = 0, []
        self._train(corpus, rows, seed, callback)
        return self

    def partial_fit(
        self, source: sources.Source, *, column: str | None = None, callback: Callback | None = None
    ) -> Self:
        """Continue training on new text. New words that occur ``min_count`` times are added.

        Counts of old and new text are added, and known words keep their rows. With hierarchical
        softmax the tree is built again, and the rows of its nodes start at zero.
        """
        if not hasattr(self, "words_"):
            return self.fit(source, column=column, callback=callback)
        self._check_parameters()
        seed, corpus = seed_of(self.random_state), self._read(source, column)
        new_vocabulary = Vocabulary.of(corpus, 1, None)
        self._grow(
            Vocabulary(self.words_, self.counts_).joined(new_vocabulary, self.min_count), seed
        )
        # Each call needs another seed: the same seed would draw the same random words again.
        self._train(corpus, self._make_row_table(), seed + self.n_tokens_, callback)
        return self

    def _read(self, source: sources.Source, column: str | None) -> _core.Corpus:
        return sources.read(source, resolve_jobs(self.n_jobs), column=column)

    def _learn_words(self, corpus: _core.Corpus) -> Vocabulary:
        return Vocabulary.of(corpus, self.min_count, self.max_vocabulary)

    def _train(
        self, corpus: _core.Corpus, rows: RowTable, seed: int, callback: Callback | None
    ) -> None:
        """Train on a corpus, and update the losses and the number of tokens."""
        Vocabulary(self.words_, self.counts_).number(corpus)
        threads = resolve_jobs(self.n_jobs)
        step = self._make_trainer(rows).sentences
        with self._show_progress(callback) as after_slice:
            history = train(step, corpus, self._schedule(), seed, threads, after_slice)
        self.losses_ = [*self.losses_, *history.losses]
        self.words_per_second_, self.isa_ = history.words_per_second, isa()
        self.n_tokens_ += corpus.words
        self._vectors = None
        self._warn(
            history,
            f"no sentence has two words that remain with min_count={self.min_count} and "
            f"sample={self.sample}; a sentence must be a list of words",
            4,
        )

    def _schedule(self) -> Schedule:
        """Return the learning rates, with the defaults of the architecture and the loss."""
        first = _ALPHA[self.architecture] if self.alpha is None else self.alpha
        last = self.min_alpha
        if last is None:
            last = 0.1 * first if self.loss == "negative" else 1e-4
        return Schedule(first, min(last, first), self.epochs)  # the rate never grows

    def _make_trainer(self, rows: RowTable) -> _core.EmbeddingTrainer:
        """Return the native trainer for the tables of this model."""
        return _core.EmbeddingTrainer(
            input=self._input,
            output=self._output,
            vocabulary=len(self.words_),
            rows_begin=rows.begin,
            row=rows.row,
            # The core keeps a word if 32 random bits, as an integer, are at most this integer.
            keep=(self._keep_probabilities() * 0xFFFFFFFF).astype(np.uint32),
            cbow=self.architecture == "cbow",
            shared=bool(self.shared_negatives),
            window=self.window,
            shrink=bool(self.shrink_windows),
            sum=self._sums_rows(),
            **loss_arguments(self.loss, self.counts_, self.exponent, self.negatives),
            **self._hot_node_arguments(),
        )

    def _hot_node_arguments(self) -> dict[str, Any]:
        """Return the arguments that give each thread a copy of the tree nodes near the root.

        Every word updates these nodes, so threads would wait for each other's cache lines. Threads
        rarely update another row at the same time, so other rows have no copies.
        """
        if self.loss != "hierarchical" or resolve_jobs(self.n_jobs) == 1:
            return {}
        return {"hot_nodes": _HOT_NODES, "hot_for": _HOT_FOR}

    def _keep_probabilities(self) -> NDArray[np.float64]:
        """Return the probability that an occurrence of each word is kept, (words,)."""
        frequency = self.counts_ / self.counts_.sum()
        if self.sample == 0:
            return np.ones_like(frequency)
        ratio = self.sample / frequency
        probabilities: NDArray[np.float64] = np.minimum(np.sqrt(ratio) + ratio, 1.0)
        return probabilities

    def _make_row_table(self) -> RowTable:
        return RowTable(None, None, len(self.words_))

    def _sums_rows(self) -> bool:
        """Return whether the vector of a word is the sum of its rows, not their mean."""
        return False

    def _grow(self, vocabulary: Vocabulary, seed: int) -> None:
        """Renumber the words, and add rows for new words."""
        old_rows_by_word = {word: i for i, word in enumerate(self.words_)}
        source_rows = np.array([old_rows_by_word.get(word, -1) for word in vocabulary.words])
        known_rows = np.flatnonzero(source_rows >= 0)
        self.words_, self.counts_ = vocabulary
        n_rows = self._make_row_table().total
        input, output = table(n_rows, self.vector_size), table(len(source_rows), self.vector_size)
        output.fill(0.0)
        self._fill_random(input, 0, len(source_rows), seed + len(old_rows_by_word))
        _copy_rows(input, known_rows, self._input, source_rows[known_rows])
        if self.loss != "hierarchical":
            _copy_rows(output, known_rows, self._output, source_rows[known_rows])
        # The rows of n-grams follow the rows of all words. The number of n-grams does not change.
        n_ngrams = n_rows - len(source_rows)
        new_rows, old_rows = (
            slice(len(source_rows), n_rows),
            slice(len(old_rows_by_word), len(old_rows_by_word) + n_ngrams),
        )
        _copy_rows(input, new_rows, self._input, old_rows)
        self._input, self._output = input, output

    # ---- results

    @property
    def vectors_(self) -> Vectors:
        """The embeddings of the words."""
        self._check_fitted()
        if self._vectors is None:
            self._vectors = self._make_vectors()
        return self._vectors

    def _make_vectors(self) -> Vectors:
        return Vectors(self.words_, self.input_[: len(self.words_)], n_jobs=self.n_jobs)

    @property
    def loss_(self) -> float:
        """Mean loss of the last epoch."""
        self._check_fitted()
        return self.losses_[-1]

    def huffman_tree(self) -> HuffmanTree:
        """Return the tree of hierarchical softmax; its inner node n is row n of ``output_``.

        >>> text = [["the", "cat", "purrs"], ["the", "dog", "barks"]] * 50
        >>> model = Word2Vec(8, loss="hierarchical", min_count=1, n_jobs=1, random_state=0)
        >>> tree = model.fit(text).huffman_tree()
        >>> tree.code("the"), tree.code("barks"), tree.depth
        ('0', '111', 3)
        """
        self._check_fitted()
        if self.loss != "hierarchical":
            raise InputError(f"loss is {self.loss!r}: only loss='hierarchical' has a tree")
        return HuffmanTree(self.words_, self.counts_)

    def output_probabilities(self, words: str | Sequence[str]) -> NDArray[np.float64]:
        """Return p(w | words) of each word w of the vocabulary, (words,), in their order.

        The input is one word, or several words of a context; h is the mean of their vectors:

        - "softmax": exp(h·W[w]) / Σ exp(h·W[v])
        - "hierarchical": the product of the sigmoids on the path to w
        - "negative": the softmax, as in gensim. The scores are trained for another purpose, to
          separate w from random words, so the probabilities are only a guide.
        - "ova": σ(h·W[w]); the sum is not 1
        """
        self._check_fitted()
        context = [words] if isinstance(words, str) else list(words)
        if not context:
            raise InputError("words is an empty list: must contain at least one word")
        scores = self.output_.astype(np.float64) @ self._hidden(context)
        if self.loss == "hierarchical":
            # The last row belongs to no node: a tree has one inner node less than words.
            return np.exp(self.huffman_tree().log_probabilities(scores[:-1]))
        probabilities: NDArray[np.float64] = (expit if self.loss == "ova" else softmax)(scores)
        return probabilities

    def predict_words(self, words: str | Sequence[str], k: int = 10) -> list[WordProbability]:
        """Return the k most probable words near a word, or near several: p(w_o | w_i).

        See `output_probabilities`. Words of equal probability are in the order of the vocabulary.

        >>> text = [["the", "cat", "purrs"], ["the", "dog", "barks"]] * 50
        >>> options = {"min_count": 1, "sample": 0, "alpha": 0.1, "n_jobs": 1, "random_state": 0}
        >>> model = Word2Vec(8, loss="softmax", epochs=50, **options).fit(text)
        >>> [(word, round(p, 1)) for word, p in model.predict_words("purrs", k=2)]
        [('cat', 0.6), ('the', 0.4)]
        """
        k = as_positive(k, "k")
        probabilities = self.output_probabilities(words)
        best = np.argsort(-probabilities, kind="stable")[:k]
        return [WordProbability(self.words_[i], float(probabilities[i])) for i in best.tolist()]

    def _hidden(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return the hidden vector h of a context, (vector_size,), as in training."""
        rows = np.concatenate([self._rows_of(word) for word in words])
        mean: NDArray[np.float64] = rows.mean(axis=0, dtype=np.float64)
        return mean

    def _rows_of(self, word: str) -> Table:
        """Return the input rows of a word, (rows, vector_size)."""
        row = self.vectors_.index.get(word)
        if row is None:
            raise UnknownWordError(f"{word!r} has no vector")
        return self.input_[row : row + 1]


def _copy_rows(target: Table, to: Any, source: Table, rows: Any) -> None:
    """Copy the rows of one table into another whose rows may be padded.

    Tables read from a file are not padded.
    """
    width = min(target.shape[1], source.shape[1])
    target[to, :width] = source[rows, :width]
    target[to, width:] = 0.0
