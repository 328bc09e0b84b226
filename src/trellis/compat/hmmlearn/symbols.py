"""`CategoricalHMM` (one symbol per row) and `MultinomialHMM` (rows of counts)."""

import logging
import warnings
from typing import Any

import numpy as np

from trellis.compat.hmmlearn.base import BaseHMM
from trellis.compat.hmmlearn.utils import normalize
from trellis.models.chain.emissions.counts import count_symbols

__all__ = ["CategoricalHMM", "MultinomialHMM"]

_logger = logging.getLogger(__name__)


class CategoricalHMM(BaseHMM):
    """X has shape (n_samples, 1): symbols 0, 1, …, n_features - 1.

    >>> model = CategoricalHMM(n_components=2, random_state=1, n_iter=50)
    >>> X = np.array([[0], [0], [0], [2], [2], [1]])
    >>> model.fit(X).emissionprob_.shape
    (2, 3)
    """

    emissionprob_: Any
    """(n_components, n_features) p(symbol | state)."""

    def __init__(
        self,
        n_components: int = 1,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        *,
        emissionprob_prior: Any = 1.0,
        n_features: int | None = None,
        algorithm: str = "viterbi",
        random_state: Any = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "ste",
        init_params: str = "ste",
        implementation: str = "log",
    ) -> None:
        super().__init__(
            n_components,
            startprob_prior=startprob_prior,
            transmat_prior=transmat_prior,
            algorithm=algorithm,
            random_state=random_state,
            n_iter=n_iter,
            tol=tol,
            verbose=verbose,
            params=params,
            init_params=init_params,
            implementation=implementation,
        )
        self.emissionprob_prior = emissionprob_prior
        self.n_features = n_features

    def _init(self, X: Any, lengths: Any = None) -> None:
        super()._init(X, lengths)
        _draw_emissions(self, self._needs_init("e", "emissionprob_"))

    def _check(self) -> None:
        super()._check()
        self.emissionprob_ = np.atleast_2d(self.emissionprob_)
        if self.n_features is None:
            self.n_features = self.emissionprob_.shape[1]
        if self.emissionprob_.shape != (self.n_components, self.n_features):
            raise ValueError(
                f"emissionprob_ must have shape({self.n_components}, {self.n_features})"
            )
        self._check_sum_1("emissionprob_")

    def _check_and_set_n_features(self, X: Any) -> None:
        if not np.issubdtype(X.dtype, np.integer):
            raise ValueError("Symbols should be integers")
        if X.min() < 0:
            raise ValueError("Symbols should be nonnegative")
        if self.n_features is None:
            self.n_features = X.max() + 1
        elif X.max() > self.n_features - 1:
            raise ValueError(
                f"Largest symbol is {X.max()} but the model only emits symbols up to "
                f"{self.n_features - 1}"
            )

    def _get_n_fit_scalars_per_param(self) -> Any:
        return _count_parameters(self)

    def _compute_log_likelihood(self, X: Any) -> Any:
        with np.errstate(divide="ignore"):
            table = np.log(self.emissionprob_).T
        return np.take(table, _symbols(X), axis=0)

    def _compute_likelihood(self, X: Any) -> Any:
        return np.take(self.emissionprob_.T, _symbols(X), axis=0)

    def _initialize_sufficient_statistics(self) -> dict[str, Any]:
        return _with_counts(self, super()._initialize_sufficient_statistics())

    def _accumulate_sufficient_statistics(
        self,
        stats: dict[str, Any],
        X: Any,
        lattice: Any,
        posteriors: Any,
        fwdlattice: Any,
        bwdlattice: Any,
    ) -> None:
        if "e" in self.params:
            n_features = stats["obs"].shape[1]
            stats["obs"] += count_symbols(_symbols(X), posteriors, n_features).T

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        if "e" in self.params:
            self.emissionprob_ = np.maximum(self.emissionprob_prior - 1 + stats["obs"], 0)
            normalize(self.emissionprob_, axis=1)

    def _generate_sample_from_state(self, state: int, random_state: Any = None) -> Any:
        from sklearn.utils import check_random_state

        limits = np.cumsum(self.emissionprob_[state])
        return [(limits > check_random_state(random_state).rand()).argmax()]


class MultinomialHMM(BaseHMM):
    """Rows of X are counts of n_features symbols that sum to n_trials.

    >>> model = MultinomialHMM(n_components=2, random_state=1)
    >>> X = np.array([[5, 0], [4, 1], [0, 5]])
    >>> model.fit(X).n_trials.tolist()
    [5, 5, 5]
    """

    emissionprob_: Any
    """(n_components, n_features) p(symbol | state) of each trial."""

    def __init__(
        self,
        n_components: int = 1,
        n_trials: Any = None,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        algorithm: str = "viterbi",
        random_state: Any = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "ste",
        init_params: str = "ste",
        implementation: str = "log",
    ) -> None:
        super().__init__(
            n_components,
            startprob_prior=startprob_prior,
            transmat_prior=transmat_prior,
            algorithm=algorithm,
            random_state=random_state,
            n_iter=n_iter,
            tol=tol,
            verbose=verbose,
            params=params,
            init_params=init_params,
            implementation=implementation,
        )
        self.n_trials = n_trials
        _logger.warning(
            "MultinomialHMM has multinomial emissions: its rows are counts. For one symbol per "
            "row, which it had before hmmlearn 0.3, use CategoricalHMM."
        )

    def _init(self, X: Any, lengths: Any = None) -> None:
        super()._init(X, lengths)
        _draw_emissions(self, "e" in self.init_params)

    def _check(self) -> None:
        super()._check()
        self.emissionprob_ = np.atleast_2d(self.emissionprob_)
        n_features = getattr(self, "n_features", self.emissionprob_.shape[1])
        if self.emissionprob_.shape != (self.n_components, n_features):
            raise ValueError("emissionprob_ must have shape (n_components, n_features)")
        self.n_features = n_features
        if self.n_trials is None:
            raise ValueError("n_trials must be set")

    def _check_and_set_n_features(self, X: Any) -> None:
        super()._check_and_set_n_features(X)
        if not np.issubdtype(X.dtype, np.integer) or X.min() < 0:
            raise ValueError("Symbol counts should be nonnegative integers")
        if self.n_trials is None:
            self.n_trials = X.sum(axis=1)
        elif not (X.sum(axis=1) == self.n_trials).all():
            raise ValueError("Total count for each sample should add up to the number of trials")

    def _get_n_fit_scalars_per_param(self) -> Any:
        return _count_parameters(self)

    def _compute_log_likelihood(self, X: Any) -> Any:
        """Log (n! / Π_f x_f!) + Σ_f x_f log p_f."""
        from scipy.special import gammaln

        X = np.asarray(X, dtype=np.float64)
        p = self.emissionprob_
        is_zero = p == 0
        logs = X @ np.log(np.where(is_zero, 1.0, p)).T
        logs += (gammaln(X.sum(axis=1) + 1) - gammaln(X + 1).sum(axis=1))[:, None]
        if is_zero.any():
            logs[(X > 0) @ is_zero.T] = -np.inf
        return logs

    def _initialize_sufficient_statistics(self) -> dict[str, Any]:
        return _with_counts(self, super()._initialize_sufficient_statistics())

    def _accumulate_sufficient_statistics(
        self,
        stats: dict[str, Any],
        X: Any,
        lattice: Any,
        posteriors: Any,
        fwdlattice: Any,
        bwdlattice: Any,
    ) -> None:
        if "e" in self.params:
            stats["obs"] += posteriors.T @ X

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        if "e" in self.params:
            self.emissionprob_ = stats["obs"] / stats["obs"].sum(axis=1, keepdims=True)

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        from scipy.stats import multinomial

        n_trials = np.unique(self.n_trials)
        if self.n_trials is None or len(n_trials) != 1:
            raise ValueError("For sampling, a single n_trials must be given")
        p = self.emissionprob_[state]
        return multinomial.rvs(n=n_trials[0], p=p, random_state=random_state)


def _symbols(X: Any) -> Any:
    """Return the symbols of X, shape (n_samples,)."""
    X = np.asarray(X)
    if X.shape[1] != 1:
        text = "Inputs of shape other than (n_samples, 1) are deprecated."
        warnings.warn(text, DeprecationWarning, stacklevel=3)
    return X.ravel()


def _draw_emissions(model: Any, needed: bool) -> None:
    """Draw emissionprob_ if ``needed``.

    As in hmmlearn, the generator stays in ``random_state``, so that `sample` continues with it.
    """
    from sklearn.utils import check_random_state

    model.random_state = check_random_state(model.random_state)
    if needed:
        model.emissionprob_ = model.random_state.rand(model.n_components, model.n_features)
        normalize(model.emissionprob_, axis=1)


def _count_parameters(model: Any) -> dict[str, int]:
    n, n_features = model.n_components, model.n_features
    return {"s": n - 1, "t": n * (n - 1), "e": n * (n_features - 1)}


def _with_counts(model: Any, stats: dict[str, Any]) -> dict[str, Any]:
    return {**stats, "obs": np.zeros((model.n_components, model.n_features))}
