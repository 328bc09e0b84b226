"""The hidden Markov model: p(x, y) = p(y₀) Πₜ p(yₜ | yₜ₋₁) Πₜ p(xₜ | yₜ)."""

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import (
    as_integer,
    check_random_state,
    integer_at_least,
    number_at_least,
    one_of,
    sample_weights,
    unchanged_on_error,
)
from trellis.errors import InputError
from trellis.estimator import Estimator, check_fitted, names_arguments
from trellis.features.vectorizer import FeatureMap
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import Parts, tensors_below
from trellis.inference.chain import Scores
from trellis.models.chain.emissions import (
    BY_NAME,
    Categorical,
    Emission,
    Features,
    Gaussian,
    Mixture,
    Observations,
    Poisson,
)
from trellis.models.chain.emissions.base import MIN_VARIANCE
from trellis.models.chain.emissions.categorical import is_symbols
from trellis.models.chain.emissions.counts import Data, count_known, expect_counts
from trellis.models.chain.emissions.density import COVARIANCES
from trellis.models.chain.emissions.joint import JointDecoding
from trellis.models.chain.emissions.table import TableEmission, log
from trellis.models.chain.inspection import FeatureWeight, check_top
from trellis.models.chain.labels import EncodedLabels, as_array, encode
from trellis.models.chain.storage import (
    read_features,
    read_labels,
    set_feature_functions,
    store_chain,
    store_labels,
)
from trellis.models.description import Description, token_columns
from trellis.models.spans import SpanDecoding
from trellis.native import isa, resolve_jobs
from trellis.optim.display import describe_iteration, show_progress
from trellis.sequences import label_lists, split_sequences

__all__ = ["HMM"]


class HMM(SpanDecoding, JointDecoding, Estimator):
    """A hidden Markov model of symbols, bags of features, vectors or counts.

    p(x, y) = p(y₀) Πₜ p(yₜ | yₜ₋₁) Πₜ p(xₜ | yₜ)

    If all labels are known, the probabilities are (smoothed) relative counts. A label in y may also
    be unknown: ``None``, or a set of labels. Without y, the labels are 0, 1, …, ``n_states`` - 1.
    If labels are unknown, Baum–Welch fits the probabilities: it computes expected counts under the
    current model, sets the probabilities from them, and repeats both steps until the likelihood
    converges.

    Without ``emissions``, a token that is a ``str`` is one symbol, and so is an integer. A token
    may also have features (dicts, lists, arrays or a spec). Given the label, features are
    independent of each other, as in naive Bayes. Unknown features are ignored. If all features of a
    position are unknown, the position has the probability of an unknown symbol, which comes from
    the smoothing.

    >>> X = [["dog", "barks"], ["cat", "sleeps"], ["dog", "sleeps"]]
    >>> hmm = HMM().fit(X, [["N", "V"]] * 3)
    >>> hmm.predict([["cat", "barks"]])
    [['N', 'V']]
    >>> hmm.transitions_.round(2).tolist()  # with 0.1 added to each count
    [[0.03, 0.97], [0.5, 0.5]]

    Observations may be real numbers, vectors or counts; each sequence is an array (length,) or
    (length, dimensions).

    >>> X = [np.array([0.1, -0.2, 5.1, 4.9]), np.array([5.2, 0.0])]
    >>> hmm = HMM(emissions="gaussian", n_states=2, random_state=0).fit(X)
    >>> hmm.emission_.means.round(1).ravel().tolist()
    [5.1, -0.0]
    >>> hmm.predict([[4.0, 1.0]])
    [[0, 1]]

    Parameters
    ----------
    features
        As for `CRF`. With None, the feature of a ``str`` token is the word itself.
    smoothing
        This number is added to the count of each symbol in each state.
    transition_smoothing
        This number is added to the count of each transition and each first label.
    n_states
        The number of labels if fit gets no y.
    verbose
        If True, the progress of Baum–Welch is shown, as for `CRF`.
    max_iter, tol
        Baum–Welch stops after max_iter iterations, or when an iteration increases the
        log-likelihood per position by less than tol.
    emissions
        p(xₜ | yₜ): "categorical" (integers or strings as symbols), "gaussian", "mixture" (of
        Gaussians), "poisson" (counts), or an `Emission`. With None, integers are categorical, and
        other tokens have features.
    covariance
        Of Gaussians and mixtures: "diagonal", "full", "tied" (one matrix for all) or "spherical".
    n_mixtures
        The number of Gaussians in the mixture of each state.
    min_variance
        The smallest allowed variance of a Gaussian, eigenvalue of its matrix, or rate of a Poisson
        distribution.

    """

    kind: ClassVar[str] = "hmm"
    added_parameters = frozenset({"emissions", "covariance", "n_mixtures", "min_variance"})
    classes_: NDArray[Any]
    """(labels,) All labels."""
    emission_: Emission
    """The fitted p(xₜ | yₜ), with its parameters as attributes."""
    start_: NDArray[np.float64]
    """p(y₀), shape (labels,)."""
    transitions_: NDArray[np.float64]
    """p(yₜ | yₜ₋₁), shape (labels, labels), one row for each yₜ₋₁."""
    log_likelihoods_: list[float]
    """The log-likelihood of the data at the start of each iteration of Baum–Welch."""
    converged_: bool
    """False if Baum–Welch stopped at max_iter."""

    @names_arguments
    def __init__(
        self,
        features: Any = None,
        *,
        smoothing: float = 0.1,
        transition_smoothing: float = 0.1,
        n_states: int | None = None,
        max_iter: int = 300,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
        emissions: str | Emission | None = None,
        covariance: str = "diagonal",
        n_mixtures: int = 2,
        min_variance: float = 1e-3,
    ) -> None:
        self.features = features
        self.smoothing = smoothing
        self.transition_smoothing = transition_smoothing
        self.n_states = n_states
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.emissions = emissions
        self.covariance = covariance
        self.n_mixtures = n_mixtures
        self.min_variance = min_variance

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, lengths: Any = None) -> Self:
        """Estimate the probabilities from counts, or from expected counts if labels are unknown.

        With ``lengths``, X is one array of the positions of all sequences, and y (if any) one list
        of their labels.
        """
        self._check_parameters()
        with unchanged_on_error(self):
            X = self._sequences(split_sequences(X, lengths))
            self.corpus_layout_ = None  # the layout of an earlier fit does not describe these data
            y = None if y is None else label_lists(split_sequences(y, lengths, "y"))
            self.emission_ = self._new_emission(X)
            observations = self.emission_.learn(X, resolve_jobs(self.n_jobs))
            weights = sample_weights(sample_weight, len(X))
            weights = np.ones(len(X)) if weights is None else weights
            labels = self._encode_labels(y, observations)
            self.classes_, self.log_likelihoods_ = as_array(labels.classes), []
            data = Data(observations, labels, weights)
            self.converged_ = True
            if labels.allowed is None and not self.emission_.is_hidden:
                counts = count_known(data)
                self._set_chain(data, counts.p, counts.pairs)
                self._set_emission(data, counts.p)
            else:
                self._run_baum_welch(data)
            self.isa_ = isa()
        return self

    def _check_parameters(self) -> None:
        for name in ("smoothing", "transition_smoothing"):
            number_at_least(getattr(self, name), 0, name)
        number_at_least(self.tol, -np.inf, "tol")  # a negative tol disables the test of convergence
        integer_at_least(self.max_iter, 1, "max_iter")
        if self.n_states is not None:
            as_integer(self.n_states, "n_states")
        check_random_state(self.random_state)
        resolve_jobs(self.n_jobs)
        one_of(self.covariance, COVARIANCES, "covariance")
        integer_at_least(self.n_mixtures, 1, "n_mixtures")
        number_at_least(self.min_variance, MIN_VARIANCE, "min_variance")
        if self.emissions is None:
            return
        if not isinstance(self.emissions, Emission):
            one_of(self.emissions, BY_NAME, "emissions")
        if self.features is not None:
            raise InputError("features is set: only an HMM with emissions=None has features")

    def _new_emission(self, X: list[Any]) -> Emission:
        """Return an emission that is not fitted; the settings or the type of X select its class."""
        if isinstance(self.emissions, Emission):
            return copy.deepcopy(self.emissions)
        name = self.emissions
        if name is None:
            # An empty list or tuple does not show the type of the tokens. `learn` refuses it later.
            first = next((x for x in X if not isinstance(x, list | tuple) or x), None)
            if self.features is not None or not is_symbols(first):
                return Features(self.features, self.smoothing)
            name = Categorical.kind
        settings = {
            Categorical.kind: (self.smoothing,),
            Gaussian.kind: (self.covariance, self.min_variance),
            Mixture.kind: (self.n_mixtures, self.covariance, self.min_variance),
            Poisson.kind: (self.min_variance,),
        }
        return BY_NAME[name](*settings[name])

    def _encode_labels(self, y: Any, observations: Observations) -> EncodedLabels:
        lengths = observations.lengths
        n_positions = int(lengths.sum())
        if y is not None:
            labels = encode(y, lengths)
            if labels.classes and (labels.allowed is not None or not self.emission_.is_hidden):
                return labels
            if labels.classes:  # Baum–Welch needs the mask of known labels
                allowed = np.zeros((n_positions, len(labels.classes)), dtype=np.bool_)
                allowed[np.arange(n_positions), labels.label] = True
                return EncodedLabels(labels.classes, labels.label, allowed)
        if self.n_states is None or as_integer(self.n_states, "n_states") < 1:
            raise InputError(
                f"y has no labels and n_states is {self.n_states!r}: must be at least 1 to fit "
                "without labels"
            )
        allowed = np.ones((n_positions, self.n_states), dtype=np.bool_)
        unknown_labels = np.full(n_positions, -1, np.int32)
        return EncodedLabels(tuple(range(self.n_states)), unknown_labels, allowed)

    def _run_baum_welch(self, data: Data) -> None:
        """Repeat: compute expected counts, then set the probabilities from these counts."""
        generator = np.random.default_rng(self.random_state)
        n_states = len(data.labels.classes)
        values = data.observations.values
        allowed = cast(NDArray[np.bool_], data.labels.allowed)
        p = self.emission_.start(values, allowed, data.row_weight, generator)
        self._set_chain(data, p, 1.0 + generator.exponential(size=(n_states, n_states)))
        min_gain = self.tol * float(data.row_weight.sum())
        self.converged_ = False
        with show_progress("HMM", self.verbose) as draw:
            for iteration in range(1, self.max_iter + 1):
                unary = self.emission_.log_likelihood(values)
                counts = expect_counts(data, unary, self.transitions_, self.start_, self.n_jobs)
                self.log_likelihoods_.append(counts.log_likelihood)
                self._set_chain(data, counts.p, counts.pairs)
                self._set_emission(data, counts.p)
                message = describe_iteration(iteration, -counts.log_likelihood)
                draw(iteration / self.max_iter, message)
                recent = self.log_likelihoods_[-2:]
                if len(recent) == 2 and recent[1] - recent[0] < min_gain:
                    self.converged_ = True
                    break

    def _set_emission(self, data: Data, p: NDArray[np.float64]) -> None:
        statistics = self.emission_.statistics(data.observations.values, p)
        self.emission_.maximise(statistics)

    def _set_chain(self, data: Data, p: Any, pairs: Any) -> None:
        """Set p(y₀) and p(yₜ | yₜ₋₁) from (expected) counts of labels and pairs.

        ``p`` has shape (positions, labels), ``pairs`` (labels, labels).
        """
        pairs = pairs + self.transition_smoothing
        sums = pairs.sum(axis=1, keepdims=True)
        # Without smoothing, a label that no label follows has no counts. Its row is uniform.
        self.transitions_ = np.where(sums > 0, pairs / np.where(sums > 0, sums, 1), 1 / len(pairs))
        first_label_counts = p[data.first_rows].sum(axis=0) + self.transition_smoothing
        self.start_ = first_label_counts / first_label_counts.sum()

    # ---- inspection

    @property
    def features_(self) -> FeatureMap:
        """The feature map, if the emissions are bags of features."""
        emission = self.emission_
        if not isinstance(emission, Features):
            raise AttributeError(f"an HMM with {emission.kind} emissions has no features_")
        return emission.map

    @property
    def emissions_(self) -> NDArray[np.float64]:
        """log p(symbol | y), shape (symbols + 1, labels); the last row is for unknown symbols."""
        emission = self.emission_
        if not isinstance(emission, TableEmission):
            raise AttributeError(f"read the parameters of {emission.kind} emissions: emission_")
        return emission.log_probabilities

    def transition_scores(self) -> NDArray[np.float64]:
        """log p(yₜ | yₜ₋₁), shape (labels, labels), one row for each yₜ₋₁."""
        self._check_fitted()
        return log(self.transitions_)

    def top_features(self, n: int | None = 20, label: Any = None) -> list[FeatureWeight]:
        """Return the n most probable symbols of each label, or of ``label``, with log p."""
        self._check_fitted()
        emission = self.emission_
        if not isinstance(emission, TableEmission):
            raise InputError(f"{emission.kind} emissions have no symbols: read emission_")
        classes = self.classes_.tolist()
        n = check_top(n, label, classes)
        names, feature_weights = emission.names(), []
        for label_index, name in enumerate(classes):
            if label is None or name == label:
                weights = emission.log_probabilities[:-1, label_index]
                best_symbols = np.argsort(-weights, kind="stable")[:n]
                feature_weights += [
                    FeatureWeight(name, names[symbol], float(weights[symbol]))
                    for symbol in best_symbols
                ]
        return feature_weights

    def describe(self) -> Description:
        """Return facts about the fitted model: settings and size."""
        self._check_fitted()
        if not isinstance(self.emission_, Features):
            settings = {"emissions": self.emission_.kind}
            return Description(columns=None, settings=settings, has_probabilities=True)
        smoothing = f"{self.smoothing:g}, transitions {self.transition_smoothing:g}"
        return Description(
            columns=token_columns(self.features_),
            settings={"smoothing": smoothing},
            linear=self,
            has_probabilities=True,
        )

    # ---- scores

    def _check_fitted(self) -> None:
        check_fitted(self, "emission_")

    def _compute_scores(self, X: list[Any]) -> Scores:
        lengths, values = self.emission_.read(X, resolve_jobs(self.n_jobs))
        unary = self.emission_.log_likelihood(values)
        split_points = np.cumsum(lengths)[:-1]
        return Scores(np.split(unary, split_points), log(self.transitions_), log(self.start_))

    # ---- files

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of the fitted model."""
        self._check_fitted()
        tensors = {"start": self.start_, "transitions": self.transitions_}
        if isinstance(self.emission_, Features):
            meta, feature_tensors = store_chain(self)
            return meta, {**feature_tensors, **tensors, "emissions": self.emissions_}
        meta = store_labels(self)
        if isinstance(self.emissions, Emission):
            del meta["parameters"]["emissions"]  # an object cannot be stored as a parameter
        emission_meta, emission_tensors = self.emission_.to_parts()
        meta["emission"] = {"kind": self.emission_.kind, **emission_meta}
        return meta, tensors | {f"emission.{name}": t for name, t in emission_tensors.items()}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the model with these parts; raise InputError if a part is missing or invalid."""
        model = read_labels(cls, meta)
        model._check_parameters()
        n_labels = len(model.classes_)
        expect(tensors, "start", np.float64, (n_labels,))
        expect(tensors, "transitions", np.float64, (n_labels, n_labels))
        model.start_ = finite(tensors, "start")
        model.transitions_ = finite(tensors, "transitions")
        for p in (model.start_, model.transitions_):
            if (p < 0).any() or not np.allclose(p.sum(axis=-1), 1.0, atol=1e-6):
                raise InputError("start and the rows of transitions must be probabilities")
        if "emission" in meta:
            emission_meta = dict(meta["emission"])
            kind = one_of(emission_meta.pop("kind", None), BY_NAME, "the kind of emission")
            parts = emission_meta, tensors_below(tensors, "emission.")
            model.emission_ = BY_NAME[kind].from_parts(*parts, n_labels)
        else:
            model.emission_ = features = Features(model.features, model.smoothing)
            features.map = read_features(meta, tensors)
            features.read_table(tensors, "emissions", len(features.map), n_labels)
        model.log_likelihoods_ = []
        return model

    def set_feature_functions(
        self,
        features: Callable[[Any], Any] | None = None,
        edge_features: Callable[[Any], Any] | None = None,
        joint: Any = None,
    ) -> None:
        """Set the Python function that computes features. A file cannot contain it."""
        if isinstance(self.emission_, Features):
            set_feature_functions(self, features=features)
