"""The hidden Markov model: p(x, y) = Πₜ p(yₜ | yₜ₋₁) p(xₜ | yₜ)."""

from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.features.rows import FeatureBatch
from trellis.features.vectorizer import FeatureMap, choose
from trellis.features.window import named
from trellis.inference import chain
from trellis.models.chain.decoding import (
    Chains,
    Decoding,
    as_array,
    check_not_empty,
    checked,
    checked_weights,
)
from trellis.models.chain.inspection import FeatureWeight, checked_top
from trellis.models.chain.labels import Encoded, encode
from trellis.native import resolve_jobs

__all__ = ["HMM"]


class HMM(Decoding, BaseEstimator):  # type: ignore[misc]
    """A hidden Markov model of symbols, or of bags of features.

    p(x, y) = p(y₀) Πₜ p(yₜ | yₜ₋₁) Πₜ p(xₜ | yₜ)

    With all labels known, the probabilities are smoothed relative counts. Where labels are unknown
    (``None``, a set of labels, or no y at all, then with ``n_states`` labels 0, 1, …) they are
    fitted by Baum–Welch: expected counts under the model so far, until the likelihood stands still.

    A token that is a ``str`` is one symbol; features of dicts, lists, arrays or a spec are drawn
    independently of each other given the label, as in naive Bayes. A position of which nothing was
    ever seen has the probability that smoothing leaves for it; else unknown features are ignored.

    >>> X = [["dog", "barks"], ["cat", "sleeps"], ["dog", "sleeps"]]
    >>> hmm = HMM().fit(X, [["N", "V"]] * 3)
    >>> hmm.predict([["cat", "barks"]])
    [['N', 'V']]
    >>> hmm.transitions_.round(2).tolist()  # with 0.1 added to each count
    [[0.03, 0.97], [0.5, 0.5]]

    Parameters
    ----------
    features
        As for `CRF`; None is the word itself for ``str`` tokens.
    smoothing
        Added to the count of each symbol in each state; ``transition_smoothing`` to each transition
        and first label.
    n_states
        How many labels there are when fit is given no y.
    max_iter, tol
        Limits of Baum–Welch: iterations, and the gain in log-likelihood for each position.

    """

    classes_: NDArray[Any]
    features_: FeatureMap
    start_: NDArray[np.float64]
    """p(y₀)."""
    transitions_: NDArray[np.float64]
    """p(yₜ | yₜ₋₁), one row for each yₜ₋₁."""
    emissions_: NDArray[np.float64]
    """log p(symbol | y): (symbols + 1, labels), the last row for what was never seen."""
    log_likelihoods_: list[float]
    """Of the data, under the model that each iteration of Baum–Welch began with."""

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
        """Count, or count what is expected where labels are unknown."""
        X = checked(X)
        for name in ("smoothing", "transition_smoothing"):
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.number) and 0 <= value < np.inf):
                raise InputError(f"{name} must be a finite number of at least 0, not {value!r}")
        if as_integer(self.max_iter, "max_iter") < 1:
            raise InputError(f"max_iter must be at least 1, not {self.max_iter}")
        self.features_ = self._feature_map(X)
        batch = self.features_.learn(X)
        check_not_empty(batch.lengths)
        if batch.rows.value is not None and (batch.rows.value < 0).any():
            raise InputError("the values of features are counts in an HMM: none may be negative")
        weights = checked_weights(sample_weight, len(X))
        known = self._known(y, batch)
        self.classes_ = as_array(known.classes)
        symbols = _matrix(batch, len(self.features_))
        per_row = np.repeat(np.ones(len(X)) if weights is None else weights, batch.lengths)
        self.log_likelihoods_ = []
        if known.allowed is None:
            p = np.zeros((len(known.label), len(known.classes)))
            p[np.arange(len(p)), known.label] = per_row
            self._set(symbols, p, _observed_pairs(batch, known, per_row), batch)
            return self
        self._baum_welch(symbols, batch, known, per_row)
        return self

    def _feature_map(self, X: Any) -> FeatureMap:
        first = next((x for x in X if isinstance(x, list | tuple) and x), [None])[0]
        if self.features is None and isinstance(first, str):
            return choose(named(["w[0]"]), None, X)
        return choose(self.features, None, X)

    def _known(self, y: Any, batch: FeatureBatch) -> Encoded:
        if y is not None:
            known = encode(y, batch.lengths)
            if known.classes:
                return known
        if self.n_states is None or as_integer(self.n_states, "n_states") < 1:
            raise InputError("without any label, fit needs HMM(n_states=…)")
        rows = int(batch.lengths.sum())
        allowed = np.ones((rows, self.n_states), dtype=np.bool_)
        return Encoded(tuple(range(self.n_states)), np.full(rows, -1, np.int32), allowed)

    def _baum_welch(
        self, symbols: Any, batch: FeatureBatch, known: Encoded, per_row: NDArray[np.float64]
    ) -> None:
        random = np.random.default_rng(self.random_state)
        count = len(known.classes)
        allowed = cast(NDArray[np.bool_], known.allowed)
        # each symbol leans to states of its own, or all states would stay alike
        p = allowed * (symbols @ random.exponential(size=(symbols.shape[1], count)) + 1e-3)
        p *= per_row[:, None] / p.sum(axis=1, keepdims=True)
        self._set(symbols, p, 1.0 + random.exponential(size=(count, count)), batch)
        cuts = np.cumsum(batch.lengths)[:-1]
        masks, weights = np.split(allowed, cuts), per_row[batch.row_begin[:-1]]
        total = float(per_row.sum())
        for _ in range(self.max_iter):
            unary = np.split(symbols @ self.emissions_[:-1], cuts)
            pairs, p, value = self._expect(unary, masks, weights)
            self.log_likelihoods_.append(value)
            self._set(symbols, p, pairs, batch)
            recent = self.log_likelihoods_[-2:]
            if len(recent) == 2 and recent[1] - recent[0] < self.tol * total:
                break

    def _expect(self, unary: Any, masks: Any, weights: Any) -> tuple[Any, Any, float]:
        """Expected pairs and labels under the model, and the log-likelihood."""
        scores = (self._log(self.transitions_), self._log(self.start_))
        if (weights == 1.0).all():
            counts = chain.expected_counts(unary, *scores, mask=masks, n_jobs=self.n_jobs)
            rows = np.concatenate(cast(Any, counts.unary))
            return counts.transition, rows, float(np.sum(counts.log_partition))
        found = chain.marginals(unary, *scores, mask=masks, n_jobs=self.n_jobs)
        pairs = sum(w * np.sum(own, axis=0) for w, own in zip(weights, found.pairwise, strict=True))
        rows = np.concatenate([w * own for w, own in zip(weights, found.unary, strict=True)])
        return pairs, rows, float(weights @ np.asarray(found.log_partition))

    @staticmethod
    def _log(p: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            return np.log(p)

    def _set(self, symbols: Any, p: Any, pairs: Any, batch: FeatureBatch) -> None:
        """From (expected) counts to probabilities."""
        counts = np.asarray(symbols.T @ p) + self.smoothing
        unseen = np.full((1, p.shape[1]), self.smoothing)
        counts = np.concatenate([counts, unseen])
        totals = counts.sum(axis=0)
        self.emissions_ = self._log(counts / np.where(totals > 0, totals, 1.0))
        pairs = pairs + self.transition_smoothing
        sums = pairs.sum(axis=1, keepdims=True)
        self.transitions_ = np.where(sums > 0, pairs / np.where(sums > 0, sums, 1), 1 / len(pairs))
        first = p[batch.row_begin[:-1]].sum(axis=0) + self.transition_smoothing
        self.start_ = first / first.sum()

    def transition_scores(self) -> NDArray[np.float64]:
        """What each step from a label (rows) to another (columns) adds to the score: log p."""
        self._fitted()
        return self._log(self.transitions_)

    def top_features(self, n: int | None = 20, label: Any = None) -> list[FeatureWeight]:
        """The n most probable symbols of each label, or of one, with their log-probabilities."""
        self._fitted()
        classes = self.classes_.tolist()
        n = checked_top(n, label, classes)
        names, rows = self.features_.names(), []
        for number, own in enumerate(classes):
            if label is None or own == label:
                weights = self.emissions_[:-1, number]
                best = np.argsort(-weights, kind="stable")[:n]
                rows += [FeatureWeight(own, names[a], float(weights[a])) for a in best]
        return rows

    def _fitted(self) -> None:
        if not hasattr(self, "emissions_"):
            raise NotFittedError("this HMM is not fitted yet: call fit first")

    def _chains(self, X: Any) -> Chains:
        batch = self.features_.find(X, resolve_jobs(self.n_jobs))
        unary = _matrix(batch, len(self.features_)) @ self.emissions_[:-1]
        unary = np.asarray(unary)
        unary[np.diff(batch.rows.begin) == 0] += self._unseen()
        cuts = np.cumsum(batch.lengths)[:-1]
        return Chains(
            np.split(unary, cuts), self._log(self.transitions_), self._log(self.start_), None
        )

    def _unseen(self) -> NDArray[np.float64]:
        """Without smoothing, what was never seen says nothing rather than that nothing can be."""
        last = self.emissions_[-1]
        return np.where(np.isneginf(last), 0.0, last)

    def log_probability(self, X: Any) -> NDArray[np.float64]:
        """Log p(x) = log Σ_y p(x, y) of each sequence."""

        def total(c: Chains, mask: Any) -> list[Any]:
            return list(cast(Any, chain.log_partition(*c, mask=mask, n_jobs=self.n_jobs)))

        return np.array(self._each(X, None, total, float))


def _matrix(batch: FeatureBatch, columns: int) -> Any:
    rows = batch.rows
    value = np.ones(len(rows.id)) if rows.value is None else rows.value
    return sparse.csr_array((value, rows.id, rows.begin), shape=(len(rows), columns))


def _observed_pairs(batch: FeatureBatch, known: Encoded, per_row: NDArray[np.float64]) -> Any:
    inner = np.ones(len(known.label), dtype=np.bool_)
    inner[batch.row_begin[:-1]] = False
    after = np.flatnonzero(inner)
    count = len(known.classes)
    cells = known.label[after - 1].astype(np.int64) * count + known.label[after]
    sums = np.bincount(cells, weights=per_row[after], minlength=count * count)
    return sums.reshape(count, count)
