"""A neural tagger with the face of the linear models: words → BiLSTM → CRF."""

import logging
from collections import Counter
from collections.abc import Callable
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from trellis.data import tags
from trellis.errors import InputError
from trellis.metrics import scorer
from trellis.models.decoding import Chains, Decoding, as_array, checked
from trellis.models.labels import Label, encode
from trellis.nn.heads import MEMM
from trellis.nn.tagger_data import Corpus, Epoch, bucketed, make_corpus, words_of
from trellis.nn.tagger_network import ENCODERS, Network, make_head
from trellis.nn.tagger_training import Progress, Trainer, run_epoch
from trellis.nn.words_base import ConcatWords, WordEncoder
from trellis.nn.words_chars import CharCNN
from trellis.nn.words_tables import WordEmbedding, as_vectors

__all__ = ["NeuralTagger"]

_log = logging.getLogger("trellis")
_PREDICTED = 128  # sequences at a time


class NeuralTagger(Decoding, BaseEstimator):  # type: ignore[misc]
    """A neural sequence labeller: p(y | x) of a CRF whose emissions a network makes of the words.

    >>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]] * 8
    >>> y = [["DET", "NOUN", "VERB"]] * 24
    >>> tagger = NeuralTagger(hidden=16, epochs=20, batch_size=4, random_state=0, device="cpu")
    >>> tagger.fit(X, y).predict([["a", "dog", "sleeps"]])
    [['DET', 'NOUN', 'VERB']]
    """

    classes_: NDArray[Any]
    network_: Network
    history_: list[Progress]

    def __init__(
        self,
        *,
        words: tuple[str, ...] = ("embedding", "cnn"),
        vectors: Any = None,
        word_dim: int = 100,
        char_dim: int = 25,
        char_hidden: int = 50,
        lowercase: bool = False,
        column: int | str = 0,
        encoder: str = "lstm",
        hidden: int = 100,
        layers: int = 1,
        head: str | Callable[[int], Any] = "crf",
        constraints: Any = None,
        features: Any = None,
        dropout: float = 0.5,
        word_dropout: float = 0.25,
        optimizer: str = "adamw",
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-2,
        schedule: str = "linear",
        clip: float | None = 1.0,
        epochs: int = 30,
        patience: int | None = None,
        batch_size: int = 16,
        scoring: str | None = None,
        device: Any = None,
        precision: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.words = words
        self.vectors = vectors
        self.word_dim = word_dim
        self.char_dim = char_dim
        self.char_hidden = char_hidden
        self.lowercase = lowercase
        self.column = column
        self.encoder = encoder
        self.hidden = hidden
        self.layers = layers
        self.head = head
        self.constraints = constraints
        self.features = features
        self.dropout = dropout
        self.word_dropout = word_dropout
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.clip = clip
        self.epochs = epochs
        self.patience = patience
        self.batch_size = batch_size
        self.scoring = scoring
        self.device = device
        self.precision = precision
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---- training

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        dev: tuple[Any, Any] | None = None,
        callback: Callable[[Progress], object] | None = None,
        checkpoint: Any = None,
    ) -> Self:
        """Learn from sequences X and their labels y."""
        before = dict(self.__dict__)
        try:
            self._fit(checked(X), y, dev, callback)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def _fit(self, X: Any, y: Any, dev: Any, callback: Any) -> None:
        words, lengths = words_of(X, self.column)
        known = encode(y, lengths)
        seed = int(np.random.default_rng(self.random_state).integers(2**31))
        device = _device(self.device)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            self.classes_ = as_array(known.classes)
            encoder = self._words(device)
            encoder.learn(Counter(words))
            self.network_ = self._network(encoder).to(device)
            corpus = make_corpus(words, lengths, encoder, device, known.label.astype(np.int64))
            trainer = Trainer(self.network_, corpus, self, seed)
            self._run(trainer, dev, callback)
        self.network_.eval()

    def _run(self, trainer: Trainer, dev: Any, callback: Any) -> None:
        self.history_, best, kept = [], -np.inf, None
        metric = None if dev is None else self._metric()
        since = 0
        for number in range(1, self.epochs + 1):
            torch.manual_seed(trainer.seed + number)
            found = run_epoch(
                trainer, number, lambda: None if metric is None else metric(self, *dev)
            )
            self.history_.append(found)
            _log.info("epoch %d: loss %.4f, dev %s", found.epoch, found.loss, found.dev_score)
            if found.dev_score is not None and found.dev_score > best:
                best, since = found.dev_score, 0
                kept = {k: v.clone() for k, v in self.network_.state_dict().items()}
            else:
                since += 1
            if callback is not None and callback(found):
                break
            if self.patience is not None and dev is not None and since >= self.patience:
                break
        if kept is not None:
            self.network_.load_state_dict(kept)

    def _metric(self) -> Any:
        name = self.scoring
        labels = [str(label) for label in self.classes_]
        scheme = tags.detect(labels, otherwise="plain")
        name = name or ("accuracy" if scheme == "plain" else "span_f1")
        return scorer(name, **({"scheme": scheme} if name == "span_f1" else {}))

    def _words(self, device: torch.device) -> WordEncoder:
        parts: list[WordEncoder] = []
        for part in self.words:
            if part == "embedding":
                vectors = as_vectors(self.vectors)
                parts.append(
                    WordEmbedding(
                        None if vectors is not None else self.word_dim,
                        vectors=vectors,
                        unknown_dropout=self.word_dropout,
                        lowercase=self.lowercase,
                        sparse=device.type == "cpu",
                    )
                )
            else:
                parts.append(CharCNN(self.char_dim, filters=self.char_hidden))
        return ConcatWords(*parts)

    def _network(self, words: WordEncoder) -> Network:
        labels = self.classes_.tolist()
        encoder = ENCODERS[self.encoder](words.dim, self.hidden, self.layers)
        head = make_head(self.head, labels, self.constraints)
        return Network(words, encoder, head, len(labels), self.dropout)

    # ---- scores

    def _fitted(self) -> None:
        if not hasattr(self, "network_"):
            raise NotFittedError("this NeuralTagger is not fitted yet: call fit first")

    def _corpus(self, X: Any) -> Corpus:
        words, lengths = words_of(X, self.column)
        return make_corpus(words, lengths, self.network_.words, self._where())

    def _where(self) -> torch.device:
        return self.network_.output.weight.device

    @torch.no_grad()
    def _chains(self, X: Any) -> Chains:
        corpus = self._corpus(X)
        self.network_.eval()
        unary: list[Any] = [None] * len(X)
        parts = bucketed(corpus.lengths, _PREDICTED, None)
        for batch in Epoch(corpus, parts):
            scores = self.network_(batch).double().cpu().numpy()
            for i, own, length in zip(
                batch.sequences, scores, corpus.lengths[batch.sequences], strict=True
            ):
                unary[i] = own[:length]
        head = self.network_.head
        count = len(self.classes_)
        if hasattr(head, "transitions"):
            matrix, start, end = (x.double().cpu().numpy() for x in head._scores())
            return Chains(unary, matrix, start, end)
        return Chains(unary, np.zeros((count, count)), None, None)


def _device(wish: Any) -> torch.device:
    if wish is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(wish)
    except (RuntimeError, TypeError):
        raise InputError(f"device must be cpu, cuda or cuda:N, not {wish!r}") from None
