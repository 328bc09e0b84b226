"""A neural tagger with the face of the linear models: words → BiLSTM → CRF."""

from collections import Counter
from collections.abc import Callable
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from trellis import metrics
from trellis.checks import check_not_empty, sequences
from trellis.data import tags
from trellis.errors import InputError
from trellis.estimator import Estimator, check_fitted
from trellis.inference import chain
from trellis.models.chain.checkpoint import Checkpoint
from trellis.models.chain.crf import CRF
from trellis.models.chain.decoding import Decoding
from trellis.models.chain.description import Description
from trellis.models.chain.labels import Label, as_array, constraints_for, encode
from trellis.models.chain.memm import by_step
from trellis.nn.tagger.build import (
    build_network,
    build_words,
    check_settings,
    check_watch,
    choose_device,
)
from trellis.nn.tagger.data import Corpus, Epoch, bucketed, make_corpus, words_of
from trellis.nn.tagger.heads import MEMM
from trellis.nn.tagger.linear import WEIGHTS, check_linear, linear_model, linear_scores
from trellis.nn.tagger.network import Network
from trellis.nn.tagger.run import Run, fingerprint_of
from trellis.nn.tagger.training import Progress, Trainer

__all__ = ["NeuralTagger"]

_PREDICTED = 128  # sequences at a time


class NeuralTagger(Decoding, Estimator):
    """A neural sequence labeller: p(y | x) of a CRF whose emissions a network makes of the words.

    h = BiLSTM(v(word₁) … v(word_T)),  eₜ = W hₜ + b,  p(y | x) = exp(Σₜ eₜ(yₜ) + A(yₜ₋₁, yₜ)) / Z

    >>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]] * 8
    >>> y = [["DET", "NOUN", "VERB"]] * 24
    >>> tagger = NeuralTagger(hidden=16, epochs=10, random_state=0, device="cpu").fit(X, y)
    >>> tagger.predict([["a", "dog", "sleeps"]])
    [['DET', 'NOUN', 'VERB']]
    >>> tagger.predict_marginals([["a", "dog"]])[0].shape
    (2, 3)

    A token is a ``str``, or a tuple of columns or a dict, whose ``column`` is the word. Labels,
    marginals, the k best, samples and likelihoods are asked for as of `trellis.CRF`.

    Parameters
    ----------
    words
        What the vector of a word is made of: "embedding" (a table of words), "cnn" and "rnn" (its
        characters), "ngrams" (means of character n-grams). See `trellis.nn.words`.
    vectors
        `Vectors`, or a path to some, that the table begins with; else it is random, ``word_dim``
        wide.
    char_dim, char_hidden, char_widths
        How wide the vectors of characters are, and what is made of them; how many characters the
        filters of "cnn" see at a time.
    lowercase
        Whether the table of words knows lower case alone. (Characters are always as they are.)
    encoder, hidden, layers
        "lstm" or "cnn" (dilated convolutions), 2 · hidden wide, and so many layers.
    head
        "crf", "softmax" (each token for itself), "memm" (each given the label before), or a
        function of the number of labels that gives a Module with the face of pytorch-crf's ``CRF``:
        ``head(emissions, tags, mask=mask)`` is Σ log p, ``head.decode(emissions, mask=mask)`` the
        labels.
    constraints
        With head="crf": a tagging scheme ("BIO", …) or pairs of labels that must not follow each
        other.
    features
        "crf" adds α · w · φ(x, t, y) and α · A(y', y), the scores of a `trellis.CRF` that is fitted
        on the same data: a hybrid of network and sparse features. α is chosen on the development
        set, and is 1 without one. A `Window`, a `Spec`, a function or a `CRF` says which features,
        and how they are fitted.
    dropout, word_dropout
        Share of the numbers that a sequence loses before and after the encoder (the same ones in
        all its steps), and a in the chance a / (a + n) that a word which occurs n times is taken
        for an unknown one.
    optimizer, learning_rate, weight_decay, schedule, clip
        "adamw" or "sgd"; the rate is "constant", or after an epoch of rising falls to 0 ("linear",
        "cosine"); ``clip`` bounds the norm of the gradient.
    epochs, patience, batch_size
        How often the data are seen; with a development set, after how many epochs that are no
        better training ends; sequences of a batch.
    scoring
        Of the development set: "span_f1", "accuracy" or "sequence_accuracy"; None is the F1 of
        spans if the labels look like it.
    device, precision
        "cpu", "cuda", or None for a card if there is one; "bf16" or "fp16" for mixed precision
        there.
    random_state
        The same seed gives the same bits on the CPU, with the same number of threads; on a card,
        sums may be taken in another order.

    """

    classes_: NDArray[Any]
    network_: Network
    linear_: CRF | None
    """The model of sparse features that has a part in the scores."""
    alpha_: float
    """The weight of its scores."""
    history_: list[Progress]
    columns_: int
    """How many columns a token has; 1 for a ``str``."""

    def __init__(
        self,
        *,
        words: tuple[str, ...] = ("embedding", "cnn"),
        vectors: Any = None,
        word_dim: int = 64,
        char_dim: int = 25,
        char_hidden: int = 48,
        char_widths: tuple[int, ...] = (3,),
        lowercase: bool = False,
        column: int | str = 0,
        encoder: str = "lstm",
        hidden: int = 64,
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
        batch_size: int = 8,
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
        self.char_widths = char_widths
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
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """Learn from sequences X and their labels y.

        A label of ``None`` is unknown, a set of labels means one of them. ``dev=(X, y)`` is scored
        after each epoch, and the weights with the best score are kept; with ``patience=n`` training
        ends after n epochs in a row that are not better. ``callback`` sees each epoch, and stops
        training if it returns what is true. A ``checkpoint`` saves the state as training goes, and
        takes it up again.
        """
        before = dict(self.__dict__)
        try:
            self._fit(sequences(X), y, dev, callback, checkpoint)
        except BaseException:
            self.__dict__ = before  # an earlier model stays whole
            raise
        return self

    def _fit(self, X: Any, y: Any, dev: Any, callback: Any, checkpoint: Any) -> None:
        check_settings(self)
        check_watch(dev, callback, checkpoint)
        device = choose_device(self.device)
        words, lengths = words_of(X, self.column)
        check_not_empty(lengths)
        known = encode(y, lengths)
        if not known.classes:
            raise InputError("no label is known at any position")
        if known.allowed is not None and (callable(self.head) or self.head == "memm"):
            raise InputError(f"head={self.head!r} cannot learn from labels that are unknown")
        limits = constraints_for(self.constraints, known.classes)
        if limits is not None:
            limits.check(known, lengths)
        self.linear_, self.alpha_ = linear_model(self.features, self.head, self.n_jobs), WEIGHTS[0]
        if self.linear_ is not None:
            self.linear_.fit(X, y)
            check_linear(self.linear_)
        seed = int(np.random.default_rng(self.random_state).integers(2**31))
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            self.classes_, self.columns_ = as_array(known.classes), _columns(X)
            encoder = build_words(self, device.type == "cpu", self.vectors)
            encoder.learn(Counter(words))
            self.network_ = self._build(encoder, device)
            corpus = make_corpus(words, lengths, encoder, device)
            corpus.tags = known.label.astype(np.int64)
            if known.allowed is not None:
                corpus.allowed = torch.from_numpy(known.allowed).to(device)
            score = self._dev_score(dev)
            run = Run(Trainer(self.network_, corpus, self, seed), score)
            self._take_up(run, checkpoint)
            run.to_end(callback, checkpoint)
            if score is not None and self.linear_ is not None:
                self.alpha_ = max(WEIGHTS, key=score)
        self.history_ = run.progress

    def _build(self, encoder: Any, device: torch.device) -> Network:
        labels = self.classes_.tolist()
        network = build_network(self, encoder, labels)
        return network.to(device).eval()

    def _take_up(self, run: Run, checkpoint: Checkpoint | None) -> None:
        if checkpoint is None:
            return
        free = {"device", "vectors", "head"} if callable(self.head) else {"device", "vectors"}
        given = self.get_params(deep=False).items()
        settings = {"model": "NeuralTagger", **{k: v for k, v in given if k not in free}}
        saved = checkpoint.restore(settings, fingerprint_of(run.trainer.corpus, self.network_))
        if saved is not None:
            with checkpoint.errors_name_file():
                run.restore(saved.arrays, saved.since_best)

    def _dev_score(self, dev: Any) -> Callable[..., float] | None:
        """A function that scores the development set; of a hybrid, with any weight α."""
        if dev is None:
            return None
        full = [(x, list(own)) for x, own in zip(*dev, strict=True) if len(own)]
        X, y = [x for x, _ in full], [own for _, own in full]
        corpus = self._corpus(X)
        linear = None if self.linear_ is None else linear_scores(self.linear_, X)
        labels = [str(label) for label in self.classes_]
        scheme = tags.detect(labels, otherwise="plain")
        name = self.scoring or ("accuracy" if scheme == "plain" else "span_f1")
        options = {"scheme": scheme} if name == "span_f1" else {}
        metric = getattr(metrics, name)
        true = [[str(label) for label in own] for own in y]

        def score(alpha: float = WEIGHTS[0]) -> float:
            found = self._best_paths(corpus, linear, alpha)
            return float(metric(true, [[str(v) for v in own] for own in found], **options))

        return score

    # ---- scores

    def predict(self, X: Any, known: Any = None) -> list[list[Label]]:
        """argmax_y p(y | x) for each sequence; ``known`` as in `trellis.CRF`."""
        self._fitted()
        if self.network_.own_head:
            return super().predict(X, known)
        if known is not None:
            raise InputError("a head that was given as a function cannot decode with known labels")
        X = sequences(X)
        full = [i for i, x in enumerate(X) if len(x)]
        found: list[list[Label]] = [[] for _ in X]
        if full:
            for i, path in zip(
                full, self._best_paths(self._corpus([X[i] for i in full])), strict=True
            ):
                found[i] = path
        return found

    def transition_scores(self) -> NDArray[np.float64]:
        """A(y', y), (labels, labels); zeros for a softmax."""
        self._fitted()
        matrix = self._head_scores()[0]
        if self.linear_ is None:
            return matrix
        return matrix + self.alpha_ * self.linear_.transition_scores()

    def describe(self) -> Description:
        """Return facts about the fitted tagger: size of its parts and training record."""
        self._fitted()
        parts: Counter[str] = Counter()
        for name, weights in self.network_.named_parameters():
            parts[name.partition(".")[0]] += weights.numel()
        if self.linear_ is not None:
            parts["features"] = len(self.linear_.coef_)
        last = self.history_[-1]
        return Description(
            columns=self.columns_,
            settings={"head": str(self.head)},
            linear=self.linear_,
            weights=parts.total(),
            parts=dict(parts),
            unit="epoch",
            steps=self.n_iter_,
            loss=last.loss,
            losses=self.losses_,
            dev_scores=self.dev_scores_,
            tokens_per_second=last.tokens_per_second,
        )

    def _fitted(self) -> None:
        check_fitted(self, "network_")

    def _corpus(self, X: Any) -> Corpus:
        words, lengths = words_of(X, self.column)
        return make_corpus(words, lengths, self.network_.words, self.network_.device)

    @torch.no_grad()
    def _emissions(self, corpus: Corpus) -> list[NDArray[np.float64]]:
        """Scores (length, labels) of each sequence."""
        parts = bucketed(corpus.lengths, _PREDICTED, None)
        self.network_.eval()
        batches, grids = [], []
        for batch in Epoch(corpus, parts):
            batches.append(batch.sequences)
            grids.append(self.network_(batch))
        found: list[Any] = [None] * len(corpus.lengths)
        for numbers, grid in zip(batches, grids, strict=True):
            scores = grid.cpu().double().numpy()
            for row, i in enumerate(numbers):
                found[i] = scores[row, : corpus.lengths[i]]
        return found

    def _head_scores(self) -> tuple[NDArray[np.float64], Any, Any]:
        head = self.network_.head
        if not hasattr(head, "scores"):
            raise InputError("a head that was given as a function gives labels alone")
        with torch.no_grad():
            matrix, start, end = (x.double().cpu().numpy() for x in head.scores())
        return matrix, start, end

    def _compute_scores(self, X: Any) -> chain.Scores:
        linear = None if self.linear_ is None else linear_scores(self.linear_, X)
        return self._scored(self._corpus(X), linear, self.alpha_)

    def _scored(self, corpus: Corpus, linear: Any, alpha: float) -> chain.Scores:
        """Scores of the network, and alpha times those of the linear model."""
        unary = self._emissions(corpus)
        matrix, start, end = self._head_scores()
        if linear is not None:
            unary = [own + alpha * other for own, other in zip(unary, linear[0], strict=True)]
            matrix = matrix + alpha * linear[1]
        chains = chain.Scores(unary, matrix, start, end)
        return by_step(chains) if isinstance(self.network_.head, MEMM) else chains

    def _best_paths(
        self, corpus: Corpus, linear: Any = None, alpha: float = 1.0
    ) -> list[list[Label]]:
        """The best labels of sequences, none of them empty."""
        if self.network_.own_head:
            chains = self._scored(corpus, linear, alpha)
            paths: Any = chain.viterbi(chains, n_jobs=self.n_jobs).labels
        else:
            paths = self._decoded(corpus)
        return [self.classes_[np.asarray(path)].tolist() for path in paths]

    @torch.no_grad()
    def _decoded(self, corpus: Corpus) -> list[list[int]]:
        """By the ``decode`` of a head that the caller made."""
        found: list[list[int]] = [[] for _ in corpus.lengths]
        self.network_.eval()
        for batch in Epoch(corpus, bucketed(corpus.lengths, _PREDICTED, None)):
            emissions = self.network_(batch)
            steps = torch.arange(emissions.shape[1], device=emissions.device)
            paths = self.network_.head.decode(emissions, mask=steps < batch.lengths[:, None])
            for i, path in zip(batch.sequences, paths, strict=True):
                found[i] = path
        return found

    # ---- what training has seen, and files

    @property
    def losses_(self) -> list[tuple[int, float]]:
        """Epoch and loss."""
        return [(p.epoch, p.loss) for p in self.history_]

    @property
    def dev_scores_(self) -> list[tuple[int, float]]:
        """Epoch and score on the development set."""
        return [(p.epoch, p.dev_score) for p in self.history_ if p.dev_score is not None]

    @property
    def n_iter_(self) -> int:
        """How many epochs there were."""
        return len(self.history_)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a ``.trellis`` file, which `trellis.load` reads on any device."""
        from trellis.nn.tagger.files import save  # it makes taggers

        self._fitted()
        save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], *, device: Any = "cpu") -> "NeuralTagger":
        """The tagger of a ``.trellis`` file; FormatError if it holds none."""
        from trellis.nn.tagger.files import load

        return load(path, device)


def _columns(X: Any) -> int:
    token = next((token for x in X for token in x), "")
    return len(token) if isinstance(token, tuple | list) else 1
