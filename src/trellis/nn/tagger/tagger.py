"""`NeuralTagger`: words → vectors → BiLSTM → CRF, with the interface of the linear models."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from trellis.checks import (
    check_not_empty,
    integer_at_least,
    number_at_least,
    number_in_range,
    sample_weights,
    unchanged_on_error,
)
from trellis.data.shards.corpus import Corpus as ShardedCorpus
from trellis.errors import InputError
from trellis.estimator import Estimator, Predictions, check_fitted, names_arguments
from trellis.formats.native import Tensors
from trellis.formats.parts import (
    Parts,
    compared_parameters,
    load_class,
    read_classes,
    read_parameters,
    stored_labels,
    stored_parameters,
    tensors_below,
)
from trellis.inference import chain
from trellis.models.chain.checkpoint import Checkpoint
from trellis.models.chain.crf import CRF
from trellis.models.chain.decoding import Decoding
from trellis.models.chain.inspection import Explanations, explain_decisions
from trellis.models.chain.labels import Label, as_array, constraints_for, encode_for_training
from trellis.models.chain.monitoring import read_dev, warn_of_unseen_labels
from trellis.models.chain.weights import check_label_count
from trellis.models.description import Description
from trellis.models.spans import SpanDecoding
from trellis.native import isa
from trellis.nn.tagger.calibration import MAX_TEMPERATURE, MIN_TEMPERATURE, fit_temperature
from trellis.nn.tagger.data import Corpus, build_corpus, read_words
from trellis.nn.tagger.inspection import split_scores
from trellis.nn.tagger.network import (
    Network,
    build_network,
    build_word_encoder,
    count_weights,
    network_parts,
    read_network,
)
from trellis.nn.tagger.scores import (
    ALPHAS,
    DevScore,
    LinearScores,
    build_linear,
    check_linear,
    choose_metric,
    compute_scores,
    decode_custom,
    head_scores,
    score_linear,
    tempered_scores,
)
from trellis.nn.tagger.settings import check_fit_arguments, check_settings, choose_device
from trellis.nn.tagger.training import (
    Progress,
    Trainer,
    TrainingRun,
    after_epoch,
    fingerprint_of,
)
from trellis.optim.display import show_progress
from trellis.sequences import label_lists

__all__ = ["NeuralTagger"]

# These parameters are not stored in a file: the weights replace vectors, device and n_jobs depend
# on the machine that loads the file, and features may be a function.
_NOT_STORED = ("vectors", "device", "n_jobs", "features", "verbose")
_MAX_ALPHA = 1000.0  # limit for α in a file; training chooses α from ALPHAS, which are far smaller
_LINEAR = "linear."  # prefix of the tensors of the linear part
# These parameters may differ when training resumes: the saved weights do not depend on them.
_NOT_COMPARED = {"device", "vectors"}


class NeuralTagger(SpanDecoding, Decoding, Estimator):
    """A neural sequence labeller: a CRF whose emission scores come from a network over the words.

    h = BiLSTM(v(word₁) … v(word_T)),  eₜ = W hₜ + b,  p(y | x) = exp(Σₜ eₜ(yₜ) + A(yₜ₋₁, yₜ)) / Z

    >>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]] * 8
    >>> y = [["DET", "NOUN", "VERB"]] * 24
    >>> tagger = NeuralTagger(hidden=16, epochs=10, random_state=0, device="cpu").fit(X, y)
    >>> tagger.predict([["a", "dog", "sleeps"]])
    [['DET', 'NOUN', 'VERB']]
    >>> tagger.predict_marginals([["a", "dog"]])[0].shape
    (2, 3)

    A token is a ``str``, or a tuple or dict whose ``column`` is the word. Labels, marginals, the k
    best labellings, samples and likelihoods have the same methods as those of `trellis.CRF`.

    Parameters
    ----------
    words
        The encoders whose vectors are joined: "embedding" (a table of words), "cnn" and "rnn"
        (over characters), "ngrams" (means of character n-grams), "charagram" (sums of them through
        tanh). See `trellis.nn.words`.
    vectors
        `Vectors`, or the path of a file with vectors, that initialise the table of words. Without
        them the table is random, with ``word_dim`` columns.
    char_dim, char_hidden, char_widths
        Width of the character vectors, width of the word vectors that are computed from them, and
        numbers of characters per filter of "cnn".
    char_highway, char_cell
        If ``char_highway`` is True, "cnn" ends with a highway layer. ``char_cell`` is the recurrent
        cell of "rnn": "lstm" or "gru".
    lowercase
        If True, the table of words stores lower-case words only. Characters keep their case.
    column
        Index or key of the word in a token that is not a ``str``.
    encoder, hidden, layers
        "lstm" or "cnn" (dilated convolutions), its width (2 · hidden), and its number of layers.
    head
        "crf", "softmax" (independent labels), "memm" (each label depends on the previous one), or
        a function of the number of labels. It returns a Module with the interface of pytorch-crf's
        ``CRF``: ``head(emissions, tags, mask=mask)`` returns Σ log p, and
        ``head.decode(emissions, mask=mask)`` returns the labels.
    constraints
        For head="crf": a tagging scheme ("BIO", …), or pairs (y', y) of labels such that y must not
        follow y'.
    features
        "crf" adds the scores of a `trellis.CRF` fitted on the same data, α · w · φ(x, t, y) and
        α · A(y', y): a hybrid of a network and sparse features. α is chosen on the development set;
        without one it is 1. A `Window`, a `Spec`, a function or a `CRF` sets the features and how
        they are fitted.
    dropout, word_dropout
        ``dropout`` is the probability that a column is set to 0 before and after the encoder, in
        all steps of a sequence. ``word_dropout`` is the number a in a / (a + n), the probability
        that a word which occurs n times is replaced by the unknown word.
    optimizer, learning_rate, weight_decay, schedule, clip
        "adamw" or "sgd"; the learning rate is "constant", or rises for an epoch and then falls to 0
        ("linear", "cosine"); ``clip`` is the largest norm of the gradient.
    epochs, patience, batch_size
        ``epochs`` is the number of passes over the data. With a development set, training stops
        after ``patience`` epochs without a better score. ``batch_size`` is the number of sequences
        per batch.
    scoring
        Metric of the development set: "span_f1", "accuracy" or "sequence_accuracy". None chooses
        span_f1 if the labels are spans, else accuracy.
    device, precision
        ``device`` is "cpu", "cuda", or None for a GPU if there is one. ``precision`` is "bf16" or
        "fp16" for mixed precision on a GPU.
    n_jobs
        Number of threads of the CRF of a hybrid, and of decoding.
    random_state
        Seed. The same seed gives the same bits on the CPU with the same number of threads. On a
        GPU, the order of some sums can change.
    verbose
        If True, the progress of fit is shown, as for `trellis.CRF`.

    """

    kind = "neural-tagger"
    added_parameters = frozenset({"char_highway", "char_cell"})

    classes_: NDArray[Any]
    """(labels,)"""
    network_: Network
    linear_: CRF | None
    """The CRF of sparse features of a hybrid, or None."""
    alpha_: float
    """The weight α of the scores of ``linear_``."""
    temperature_: float = 1.0
    """The scores are divided by this number, fitted on the development set; 1 without one."""
    history_: list[Progress]
    """One entry per epoch."""
    columns_: int
    """Number of columns of a token; 1 for a ``str``."""

    @names_arguments
    def __init__(
        self,
        *,
        words: tuple[str, ...] = ("embedding", "cnn"),
        vectors: Any = None,
        word_dim: int = 64,
        char_dim: int = 25,
        char_hidden: int = 48,
        char_widths: tuple[int, ...] = (3,),
        char_highway: bool = False,
        char_cell: str = "lstm",
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
        verbose: bool = False,
    ) -> None:
        self.words = words
        self.vectors = vectors
        self.word_dim = word_dim
        self.char_dim = char_dim
        self.char_hidden = char_hidden
        self.char_widths = char_widths
        self.char_highway = char_highway
        self.char_cell = char_cell
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
        self.verbose = verbose

    # ---- training

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        dev: tuple[Any, Any] | None = None,
        callback: Callable[[Progress], object] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """Train on sequences X and their labels y.

        A label of ``None`` is unknown. A set of labels means that one of them is correct.
        ``sample_weight`` is one number per sequence, by which its -log p is multiplied.
        ``dev=(X, y)`` is scored after each epoch, and the weights with the best score are kept. At
        the end of training, ``temperature_`` is fitted on it, which calibrates the probabilities.
        With ``patience=n``, training stops after n epochs in a row without a better score.
        ``callback`` is called with the `Progress` of each epoch; a truthy return value stops
        training. A ``checkpoint`` saves the state during training, and can resume it.
        """
        with unchanged_on_error(self):
            X = self._sequences(X)
            weights = sample_weights(sample_weight, len(X))
            self._fit(X, label_lists(y), weights, dev, callback, checkpoint)
        return self

    def _fit(self, X: Any, y: Any, weights: Any, dev: Any, callback: Any, checkpoint: Any) -> None:
        check_settings(self)
        self.corpus_layout_ = None  # that of an earlier fit does not describe these data
        check_fit_arguments(callback, checkpoint)
        dev = read_dev(dev, callable(self.features))
        device = choose_device(self.device)
        words, lengths = read_words(X, self.column)
        check_not_empty(lengths)
        self.linear_, self.alpha_ = build_linear(self.features, self.head, self.n_jobs), ALPHAS[0]
        labels = self._encode_labels(y, lengths, weights is not None)
        warn_of_unseen_labels(dev, labels.classes, stacklevel=4)
        if self.linear_ is not None:
            if labels.allowed is not None and isinstance(self.constraints, str):
                # If labels are unknown, a scheme adds the tags that are missing in y, such as I-X
                # for B-X. The CRF gets the same scheme, so that it has the labels of the network.
                self.linear_.set_params(constraints=self.constraints)
            self.linear_.fit(X, y, weights)
            check_linear(self.linear_)
        seed = int(np.random.default_rng(self.random_state).integers(2**31))
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            self.classes_, self.columns_ = as_array(labels.classes), _count_columns(X)
            encoder = build_word_encoder(self, device.type == "cpu", self.vectors)
            encoder.learn(Counter(words))
            network = build_network(self, encoder, self.classes_.tolist())
            self.network_ = network.to(device).eval()
            corpus = build_corpus(words, lengths, encoder, device)
            corpus.tags = labels.label.astype(np.int64)
            if labels.allowed is not None:
                corpus.allowed = torch.from_numpy(labels.allowed).to(device)
            if weights is not None:
                corpus.weights = torch.from_numpy(weights).float().to(device)
            score = self._build_dev_score(dev)
            run = TrainingRun(Trainer(self.network_, corpus, self, seed), score)
            self._restore(run, checkpoint)
            with show_progress("NeuralTagger", self.verbose) as draw:
                run.run(partial(after_epoch, self.epochs, draw, callback), checkpoint)
            if score is not None and self.linear_ is not None:
                self.alpha_ = max(ALPHAS, key=score)
            self.temperature_ = 1.0 if dev is None else self._fit_temperature(*dev)
        self.history_, self.isa_ = run.progress, isa()

    def _encode_labels(self, y: Any, lengths: NDArray[np.int64], has_weights: bool) -> Any:
        rules = self.constraints
        if self.linear_ is not None and not isinstance(rules, str):
            rules = self.linear_.constraints
        labels = encode_for_training(y, lengths, constraints=rules)
        if labels.allowed is not None and (callable(self.head) or self.head == "memm"):
            raise InputError(f"y has unknown labels, which head={self.head!r} does not support")
        if has_weights and callable(self.head):
            raise InputError("sample_weight must be None: a head that is a function ignores it")
        limits = constraints_for(self.constraints, labels.classes)
        if limits is not None:
            limits.check(labels, lengths)
        return labels

    def _restore(self, run: TrainingRun, checkpoint: Checkpoint | None) -> None:
        if checkpoint is None:
            return
        ignored_parameters = _NOT_COMPARED | ({"head"} if callable(self.head) else set())
        params = compared_parameters(self).items()
        settings = {
            "model": "NeuralTagger",
            **{name: value for name, value in params if name not in ignored_parameters},
        }
        saved = checkpoint.restore(settings, fingerprint_of(run.trainer.corpus, self.network_))
        if saved is not None:
            with checkpoint.errors_name_file():
                run.restore(saved.arrays, saved.since_best)

    def _build_dev_score(self, dev: Any) -> DevScore | None:
        """Return a function of α that scores the development set; None if there is no such set."""
        if dev is None:
            return None
        pairs = [(x, list(labels)) for x, labels in zip(*dev, strict=True) if len(labels)]
        X, y = [x for x, _ in pairs], [labels for _, labels in pairs]
        corpus, linear = self._build_corpus(X), score_linear(self.linear_, X)
        metric = choose_metric(self.scoring, self.classes_.tolist())
        return lambda alpha=ALPHAS[0]: metric(y, self._best_paths(corpus, linear, alpha))

    def _fit_temperature(self, X: Any, y: Any) -> float:
        """Return the temperature that calibrates the probabilities on a development set."""
        if not self.network_.has_builtin_head:
            return 1.0
        pairs = [(x, labels) for x, labels in zip(X, y, strict=True) if len(labels)]
        sequences_, index = [x for x, _ in pairs], {c: n for n, c in enumerate(self.classes_)}
        numbers = [index.get(label, -1) for _, labels in pairs for label in labels]
        corpus, linear = self._build_corpus(sequences_), score_linear(self.linear_, sequences_)
        scores_at = tempered_scores(self.network_, corpus, linear, self.alpha_)
        return fit_temperature(scores_at, np.array(numbers, np.int64), self.n_jobs)

    # ---- scores and labels

    def predict(self, X: Any, known: Any = None, *, decode: str = "viterbi", **options: Any) -> Any:
        """argmax_y p(y | x) for each sequence; the arguments are those of `trellis.CRF.predict`."""
        self._check_fitted()
        if self.network_.has_builtin_head or isinstance(X, ShardedCorpus):
            return super().predict(X, known, decode=decode, **options)
        if known is not None:
            raise InputError("known must be None: a head that is a function does not support it")
        if decode != "viterbi":
            raise InputError(
                f"decode must be viterbi, not {decode!r}: a head that is a function has only its "
                "own decoder"
            )
        X = self._sequences(X)
        paths: list[list[Label]] = Predictions([] for _ in X)
        nonempty_indices = [i for i, x in enumerate(X) if len(x)]
        if nonempty_indices:
            corpus = self._build_corpus([X[i] for i in nonempty_indices])
            for i, path in zip(nonempty_indices, self._best_paths(corpus), strict=True):
                paths[i] = path
        return paths

    def transition_scores(self) -> NDArray[np.float64]:
        """A(y', y), shape (labels, labels); zeros for a softmax."""
        self._check_fitted()
        matrix = head_scores(self.network_)[0]
        if self.linear_ is None:
            return matrix
        return matrix + self.alpha_ * self.linear_.transition_scores()

    def explain(self, x: Any) -> Explanations:
        """Compare the chosen label with the runner-up, for each position of one sequence.

        The result is like that of `trellis.CRF.explain`. The network is one contribution; further
        contributions are the features of a hybrid, the transitions, the start and the end.
        """
        self._check_fitted()
        x = self._sequences([x])[0]
        if not len(x):
            return Explanations([], [])
        scores = self._compute_scores([x])
        return explain_decisions(self, x, partial(split_scores, self, x, scores))

    def describe(self) -> Description:
        """Return facts about the fitted tagger: the sizes of its parts, and its training."""
        self._check_fitted()
        parts = count_weights(self.network_)
        if self.linear_ is not None:
            parts["features"] = len(self.linear_.coef_)
        last = self.history_[-1]
        # Without features of a CRF, only the word is used.
        only_word = self.linear_ is None and self.column == 0
        return Description(
            columns=1 if only_word else self.columns_,
            settings={"head": str(self.head)},
            linear=self.linear_,
            weights=sum(parts.values()),
            parts=parts,
            unit="epoch",
            steps=self.n_iter_,
            loss=last.loss,
            losses=self.losses_,
            dev_scores=self.dev_scores_,
            tokens_per_second=last.tokens_per_second,
        )

    def _check_fitted(self) -> None:
        check_fitted(self, "network_")

    def _build_corpus(self, X: Any) -> Corpus:
        words, lengths = read_words(X, self.column)
        return build_corpus(words, lengths, self.network_.words, self.network_.device)

    def _compute_scores(self, X: Any) -> chain.Scores:
        linear = score_linear(self.linear_, X)
        corpus = self._build_corpus(X)
        return compute_scores(self.network_, corpus, linear, self.alpha_, self.temperature_)

    def _best_paths(
        self, corpus: Corpus, linear: LinearScores | None = None, alpha: float = 1.0
    ) -> list[list[Label]]:
        """Return the best labels of each sequence; no sequence may be empty."""
        if self.network_.has_builtin_head:
            scores = compute_scores(self.network_, corpus, linear, alpha)
            paths: Any = chain.viterbi(scores, n_jobs=self.n_jobs).labels
        else:
            paths = decode_custom(self.network_, corpus)
        return [self.classes_[np.asarray(path)].tolist() for path in paths]

    # ---- history of the training

    @property
    def losses_(self) -> list[tuple[int, float]]:
        """(epoch, loss) pairs."""
        return [(p.epoch, p.loss) for p in self.history_]

    @property
    def dev_scores_(self) -> list[tuple[int, float]]:
        """(epoch, score on the development set) pairs."""
        return [(p.epoch, p.dev_score) for p in self.history_ if p.dev_score is not None]

    @property
    def n_iter_(self) -> int:
        """Number of epochs."""
        return len(self.history_)

    # ---- files

    @classmethod
    def load(cls, path: str | PathLike[str], *, device: Any = "cpu") -> Self:
        """Load a tagger from a ``.trellis`` file. Raise FormatError if it contains no tagger."""
        torch_device = choose_device(device)
        tagger = load_class(cls, path)
        tagger.network_.to(torch_device)
        return tagger

    def to_parts(self) -> Parts:
        """Return metadata and tensors of the network and, in a hybrid, of the linear part."""
        self._check_fitted()
        if callable(self.head):
            raise InputError("a tagger whose head is a function cannot be saved")
        meta, tensors = network_parts(self.network_)
        meta["parameters"] = stored_parameters(self, _NOT_STORED)
        meta["classes"] = stored_labels(self.classes_.tolist())
        meta["columns"] = self.columns_
        meta["temperature"] = self.temperature_
        meta["history"] = [list(progress) for progress in self.history_]
        if self.linear_ is not None:
            meta["alpha"] = self.alpha_
            meta["linear"], linear_tensors = self.linear_.to_parts()
            tensors |= {_LINEAR + name: array for name, array in linear_tensors.items()}
        return meta, tensors

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the tagger with these parts, on the CPU."""
        parameters = read_parameters(cls, meta, _NOT_STORED)
        for name in ("words", "char_widths"):
            if name in parameters:
                parameters[name] = tuple(parameters[name])
        tagger = cls(**parameters)
        check_settings(tagger)
        tagger.classes_ = as_array(tuple(read_classes(meta)))
        check_label_count(len(tagger.classes_), sum(array.size for array in tensors.values()))
        tagger.columns_ = integer_at_least(meta["columns"], 0, "columns")
        tagger.history_ = _read_history(meta["history"])
        tagger.linear_ = None
        if "linear" in meta:
            tagger.linear_, tagger.features = _read_linear(meta, tensors), "crf"
        tagger.alpha_ = number_in_range(meta.get("alpha", ALPHAS[0]), 0.0, _MAX_ALPHA, "alpha")
        tagger.temperature_ = number_in_range(
            meta.get("temperature", 1.0), MIN_TEMPERATURE, MAX_TEMPERATURE, "temperature"
        )
        tagger.network_ = read_network(tagger, tagger.classes_.tolist(), meta, tensors)
        return tagger

    def set_feature_functions(
        self,
        features: Callable[[Any], Any] | None = None,
        edge_features: Callable[[Any], Any] | None = None,
        joint: Any = None,
    ) -> None:
        """Set the functions that compute the features of the linear part of a hybrid."""
        if self.linear_ is not None:
            self.linear_.set_feature_functions(features, edge_features)


def _read_history(entries: Any) -> list[Progress]:
    """Return the progress of each epoch from a file; there is at least one epoch."""
    if not isinstance(entries, list) or not entries:
        raise InputError("history must be a list with one entry per epoch")
    history = []
    for entry in entries:
        epoch, loss, score, *speeds = Progress(*entry)
        history.append(
            Progress(
                integer_at_least(epoch, 1, "epoch"),
                number_at_least(loss, -np.inf, "loss"),
                None if score is None else number_at_least(score, 0.0, "dev_score"),
                *(number_at_least(value, 0.0, "history") for value in speeds),
            )
        )
    return history


def _read_linear(meta: dict[str, Any], tensors: Tensors) -> CRF:
    model: CRF = CRF.from_parts(meta["linear"], tensors_below(tensors, _LINEAR))
    if model.classes_.tolist() != meta["classes"] or model.features_.has_edges:
        raise InputError(
            "the linear part must have the labels of the tagger, and no features of transitions"
        )
    return model


def _count_columns(X: Any) -> int:
    token = next((token for x in X for token in x), "")
    return len(token) if isinstance(token, tuple | list) else 1
