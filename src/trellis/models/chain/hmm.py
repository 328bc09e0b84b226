"""The hidden Markov model: p(x, y) = p(y₀) Πₜ p(yₜ | yₜ₋₁) Πₜ p(xₜ | yₜ)."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import (
    as_integer,
    check_not_empty,
    integer_at_least,
    number_at_least,
    sample_weights,
    sequences,
    unchanged_on_error,
)
from trellis.errors import InputError
from trellis.estimator import Estimator, check_fitted
from trellis.features.rows import FeatureBatch
from trellis.features.vectorizer import FeatureMap, choose
from trellis.features.window import named
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import Parts
from trellis.inference import chain
from trellis.inference.chain import Scores
from trellis.models.chain.decoding import Decoding
from trellis.models.chain.description import Description, token_columns
from trellis.models.chain.inspection import FeatureWeight, check_top
from trellis.models.chain.labels import EncodedLabels, as_array, encode
from trellis.models.chain.storage import read_chain, set_feature_functions, store_chain
from trellis.native import resolve_jobs

__all__ = ["HMM"]


class HMM(Decoding, Estimator):
    """A hidden Markov model of symbols, or of bags of features.

    p(x, y) = p(y₀) Πₜ p(yₜ | yₜ₋₁) Πₜ p(xₜ | yₜ)

    If all labels are known, the probabilities are smoothed relative counts. A label in y may also
    be unknown: ``None``, or a set of labels. Without y, the labels are 0, 1, …, ``n_states`` - 1.
    If labels are unknown, Baum–Welch fits the probabilities: it repeats expected counts under the
    current model until the likelihood converges.

    A token that is a ``str`` is one symbol. A token may also have features (dicts, lists, arrays or
    a spec). Given the label, features are independent of each other, as in naive Bayes. Unknown
    features are ignored. If all features of a position are unknown, the position has the
    probability of an unknown symbol, which comes from the smoothing.

    >>> X = [["dog", "barks"], ["cat", "sleeps"], ["dog", "sleeps"]]
    >>> hmm = HMM().fit(X, [["N", "V"]] * 3)
    >>> hmm.predict([["cat", "barks"]])
    [['N', 'V']]
    >>> hmm.transitions_.round(2).tolist()  # with 0.1 added to each count
    [[0.03, 0.97], [0.5, 0.5]]

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
    max_iter, tol
        Baum–Welch stops after max_iter iterations, or when an iteration increases the
        log-likelihood per position by less than tol.

    """

    kind: ClassVar[str] = "hmm"
    classes_: NDArray[Any]
    """(labels,) All labels."""
    features_: FeatureMap
    start_: NDArray[np.float64]
    """p(y₀), shape (labels,)."""
    transitions_: NDArray[np.float64]
    """p(yₜ | yₜ₋₁), shape (labels, labels), one row for each yₜ₋₁."""
    emissions_: NDArray[np.float64]
    """log p(symbol | y), shape (symbols + 1, labels); the last row is for unknown symbols."""
    log_likelihoods_: list[float]
    """The log-likelihood of the data at the start of each iteration of Baum–Welch."""

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
    ) -> None:
        self.features = features
        self.smoothing = smoothing
        self.transition_smoothing = transition_smoothing
        self.n_states = n_states
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Estimate the probabilities from counts, or from expected counts if labels are unknown."""
        for name in ("smoothing", "transition_smoothing"):
            number_at_least(getattr(self, name), 0, name)
        integer_at_least(self.max_iter, 1, "max_iter")
        with unchanged_on_error(self):
            X = sequences(X)
            self.features_ = self._choose_features(X)
            batch = self.features_.learn(X)
            check_not_empty(batch.lengths)
            if batch.rows.value is not None and (batch.rows.value < 0).any():
                raise InputError("X has a negative feature value: in an HMM, values are counts")
            weights = sample_weights(sample_weight, len(X))
            weights = np.ones(len(X)) if weights is None else weights
            labels = self._encode_labels(y, batch)
            self.classes_, self.log_likelihoods_ = as_array(labels.classes), []
            data = _Data(
                batch,
                _build_symbol_matrix(batch, len(self.features_)),
                labels,
                np.repeat(weights, batch.lengths),
            )
            if labels.allowed is None:
                self._set_probabilities(data, _count_labels(data), _count_pairs(data))
            else:
                self._run_baum_welch(data)
        return self

    def _choose_features(self, X: list[Any]) -> FeatureMap:
        first = next((x for x in X if isinstance(x, list | tuple) and x), [None])[0]
        if self.features is None and isinstance(first, str):
            return choose(named(["w[0]"]), None, X)
        return choose(self.features, None, X)

    def _encode_labels(self, y: Any, batch: FeatureBatch) -> EncodedLabels:
        if y is not None:
            labels = encode(y, batch.lengths)
            if labels.classes:
                return labels
        if self.n_states is None or as_integer(self.n_states, "n_states") < 1:
            raise InputError(
                f"y has no labels and n_states is {self.n_states!r}: must be at least 1 to fit "
                "without labels"
            )
        positions = int(batch.lengths.sum())
        allowed = np.ones((positions, self.n_states), dtype=np.bool_)
        unknown = np.full(positions, -1, np.int32)
        return EncodedLabels(tuple(range(self.n_states)), unknown, allowed)

    def _run_baum_welch(self, data: "_Data") -> None:
        """Repeat: compute expected counts, then set the probabilities from these counts."""
        generator = np.random.default_rng(self.random_state)
        count = len(data.labels.classes)
        allowed = cast(NDArray[np.bool_], data.labels.allowed)
        # Each symbol starts with a random preference for states. If all states were equal, they
        # would get the same expected counts in every iteration. With 1e-3, every state is possible
        # at positions without a known symbol.
        preference = generator.exponential(size=(data.symbols.shape[1], count))
        p = allowed * (data.symbols @ preference + 1e-3)
        p *= data.row_weight[:, None] / p.sum(axis=1, keepdims=True)
        self._set_probabilities(data, p, 1.0 + generator.exponential(size=(count, count)))
        cuts = np.cumsum(data.batch.lengths)[:-1]
        masks = np.split(allowed, cuts)
        weights = data.row_weight[data.batch.row_begin[:-1]]
        min_gain = self.tol * float(data.row_weight.sum())
        for _ in range(self.max_iter):
            unary = np.split(data.symbols @ self.emissions_[:-1], cuts)
            pairs, p, log_likelihood = self._compute_expected_counts(unary, masks, weights)
            self.log_likelihoods_.append(log_likelihood)
            self._set_probabilities(data, p, pairs)
            recent = self.log_likelihoods_[-2:]
            if len(recent) == 2 and recent[1] - recent[0] < min_gain:
                break

    def _compute_expected_counts(
        self, unary: Any, masks: Any, weights: Any
    ) -> tuple[Any, Any, float]:
        """Return expected counts of pairs (L, L) and of labels (positions, L), and log p(x)."""
        scores = (_log(self.transitions_), _log(self.start_))
        if (weights == 1.0).all():
            counts = chain.expected_counts(unary, *scores, mask=masks, n_jobs=self.n_jobs)
            rows = np.concatenate(cast(Any, counts.unary))
            return counts.transition, rows, float(np.sum(counts.log_partition))
        marginals = chain.marginals(unary, *scores, mask=masks, n_jobs=self.n_jobs)
        pairs = sum(
            weight * np.sum(p, axis=0)
            for weight, p in zip(weights, marginals.pairwise, strict=True)
        )
        rows = np.concatenate(
            [weight * p for weight, p in zip(weights, marginals.unary, strict=True)]
        )
        return pairs, rows, float(weights @ np.asarray(marginals.log_partition))

    def _set_probabilities(self, data: "_Data", p: Any, pairs: Any) -> None:
        """Set the probabilities from (expected) counts of labels and pairs.

        ``p`` has shape (positions, labels), ``pairs`` (labels, labels).
        """
        counts = np.asarray(data.symbols.T @ p) + self.smoothing
        unknown = np.full((1, p.shape[1]), self.smoothing)
        counts = np.concatenate([counts, unknown])
        totals = counts.sum(axis=0)
        self.emissions_ = _log(counts / np.where(totals > 0, totals, 1.0))
        pairs = pairs + self.transition_smoothing
        sums = pairs.sum(axis=1, keepdims=True)
        # Without smoothing, a label that no label follows has no counts. Its row is uniform.
        self.transitions_ = np.where(sums > 0, pairs / np.where(sums > 0, sums, 1), 1 / len(pairs))
        first = p[data.batch.row_begin[:-1]].sum(axis=0) + self.transition_smoothing
        self.start_ = first / first.sum()

    # ---- inspection

    def transition_scores(self) -> NDArray[np.float64]:
        """log p(yₜ | yₜ₋₁), shape (labels, labels), one row for each yₜ₋₁."""
        self._fitted()
        return _log(self.transitions_)

    def top_features(self, n: int | None = 20, label: Any = None) -> list[FeatureWeight]:
        """Return the n most probable symbols of each label, or of ``label``, with log p."""
        self._fitted()
        classes = self.classes_.tolist()
        n = check_top(n, label, classes)
        names, top = self.features_.names(), []
        for number, name in enumerate(classes):
            if label is None or name == label:
                weights = self.emissions_[:-1, number]
                best = np.argsort(-weights, kind="stable")[:n]
                top += [FeatureWeight(name, names[a], float(weights[a])) for a in best]
        return top

    def describe(self) -> Description:
        """Return facts about the fitted model: settings and size."""
        self._fitted()
        smoothing = f"{self.smoothing:g}, transitions {self.transition_smoothing:g}"
        return Description(
            columns=token_columns(self.features_),
            settings={"smoothing": smoothing},
            linear=self,
            has_probabilities=True,
        )

    # ---- scores

    def _fitted(self) -> None:
        check_fitted(self, "emissions_")

    def _compute_scores(self, X: list[Any]) -> Scores:
        batch = self.features_.find(X, resolve_jobs(self.n_jobs))
        unary = np.asarray(_build_symbol_matrix(batch, len(self.features_)) @ self.emissions_[:-1])
        # Without smoothing, log p of unknown symbols is -inf. They are then ignored.
        unknown = self.emissions_[-1]
        is_unknown = np.diff(batch.rows.begin) == 0
        unary[is_unknown] += np.where(np.isneginf(unknown), 0.0, unknown)
        cuts = np.cumsum(batch.lengths)[:-1]
        return Scores(np.split(unary, cuts), _log(self.transitions_), _log(self.start_))

    def log_probability(self, X: Any) -> NDArray[np.float64]:
        """log p(x) = log Σ_y p(x, y) of each sequence, shape (sequences,)."""

        def totals(scores: Scores) -> list[Any]:
            return list(cast(Any, chain.log_partition(scores, n_jobs=self.n_jobs)))

        return np.array(self._map_slices(X, None, totals, float))

    # ---- files

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of the fitted model."""
        self._fitted()
        meta, tensors = store_chain(self)
        tensors |= {
            "start": self.start_,
            "transitions": self.transitions_,
            "emissions": self.emissions_,
        }
        return meta, tensors

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the model with these parts; raise InputError if a part is missing or invalid."""
        model = read_chain(cls, meta, tensors)
        labels = len(model.classes_)
        expect(tensors, "start", np.float64, (labels,))
        expect(tensors, "transitions", np.float64, (labels, labels))
        model.start_ = finite(tensors, "start")
        model.transitions_ = finite(tensors, "transitions")
        for p in (model.start_, model.transitions_):
            if (p < 0).any() or not np.allclose(p.sum(axis=-1), 1.0, atol=1e-6):
                raise InputError("start and the rows of transitions must be probabilities")
        emissions = expect(tensors, "emissions", np.float64, (len(model.features_) + 1, labels))
        if np.isnan(emissions).any() or (emissions > 0).any():
            raise InputError("emissions must be log-probabilities: at most 0, not nan")
        model.emissions_, model.log_likelihoods_ = emissions, []
        return model

    def set_feature_functions(
        self,
        features: Callable[[Any], Any] | None = None,
        edge_features: Callable[[Any], Any] | None = None,
    ) -> None:
        """Set the Python function that computes features. A file cannot contain it."""
        set_feature_functions(self, features=features)


class _Data(NamedTuple):
    """The training data of an HMM."""

    batch: FeatureBatch
    symbols: Any
    """(positions, symbols) Counts as a sparse matrix."""
    labels: EncodedLabels
    row_weight: NDArray[np.float64]
    """(positions,) The sample weight of the sequence that contains the position."""


def _log(p: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.log(p)


def _build_symbol_matrix(batch: FeatureBatch, columns: int) -> Any:
    """Return the features of each position, a sparse matrix of shape (positions, columns)."""
    from scipy import sparse  # imported only here, because it takes 0.1 s

    rows = batch.rows
    value = np.ones(len(rows.id)) if rows.value is None else rows.value
    return sparse.csr_array((value, rows.id, rows.begin), shape=(len(rows), columns))


def _count_labels(data: _Data) -> NDArray[np.float64]:
    """Return the sample weight at the label of each position, else 0: (positions, labels)."""
    p = np.zeros((len(data.labels.label), len(data.labels.classes)))
    p[np.arange(len(p)), data.labels.label] = data.row_weight
    return p


def _count_pairs(data: _Data) -> NDArray[np.float64]:
    """Return the weighted count of each transition: (labels, labels)."""
    label = data.labels.label
    has_previous = np.ones(len(label), dtype=np.bool_)
    has_previous[data.batch.row_begin[:-1]] = False
    after = np.flatnonzero(has_previous)
    count = len(data.labels.classes)
    bigrams = label[after - 1].astype(np.int64) * count + label[after]
    sums: NDArray[Any] = np.bincount(
        bigrams, weights=data.row_weight[after], minlength=count * count
    )
    return sums.reshape(count, count)
