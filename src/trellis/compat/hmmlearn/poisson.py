"""`PoissonHMM`: rows of counts, each with a Poisson distribution."""

from typing import Any

import numpy as np

from trellis.compat.hmmlearn.base import BaseHMM

__all__ = ["PoissonHMM"]


class PoissonHMM(BaseHMM):
    """X has shape (n_samples, n_features): counts.

    >>> X = np.array([[0], [1], [9], [11], [10]])
    >>> sorted(PoissonHMM(n_components=2, random_state=0).fit(X).lambdas_.round(1).ravel().tolist())
    [0.5, 10.0]
    """

    lambdas_: Any
    """(n_components, n_features) The rates."""

    def __init__(
        self,
        n_components: int = 1,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        lambdas_prior: Any = 0.0,
        lambdas_weight: Any = 0.0,
        algorithm: str = "viterbi",
        random_state: Any = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stl",
        init_params: str = "stl",
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
        self.lambdas_prior = lambdas_prior
        self.lambdas_weight = lambdas_weight

    def _init(self, X: Any, lengths: Any = None) -> None:
        from sklearn.utils import check_random_state

        super()._init(X, lengths)
        self.random_state = check_random_state(self.random_state)
        if self._needs_init("l", "lambdas_"):
            mean, variance = X.mean(), X.var()
            self.lambdas_ = self.random_state.gamma(
                shape=mean**2 / variance,
                scale=variance / mean,
                size=(self.n_components, self.n_features),
            )

    def _check(self) -> None:
        super()._check()
        self.lambdas_ = np.atleast_2d(self.lambdas_)
        n_features = getattr(self, "n_features", self.lambdas_.shape[1])
        if self.lambdas_.shape != (self.n_components, n_features):
            raise ValueError("lambdas_ must have shape (n_components, n_features)")
        self.n_features = n_features

    def _get_n_fit_scalars_per_param(self) -> Any:
        n, n_features = self.n_components, self.n_features
        return {"s": n - 1, "t": n * (n - 1), "l": n * n_features}

    def _compute_log_likelihood(self, X: Any) -> Any:
        """Σ_f x_f log λ_f - λ_f - log x_f!; -inf for a row with a value that is no count."""
        from scipy.special import gammaln

        X = np.asarray(X, dtype=np.float64)
        rates = self.lambdas_
        is_zero = rates == 0
        with np.errstate(invalid="ignore"):
            logs = X @ np.log(np.where(is_zero, 1.0, rates)).T - rates.sum(axis=1)
            logs -= gammaln(X + 1).sum(axis=1)[:, None]
        if is_zero.any():
            logs[(X > 0) @ is_zero.T] = -np.inf
        logs[((X < 0) | (np.floor(X) != X)).any(axis=1)] = -np.inf
        return logs

    def _initialize_sufficient_statistics(self) -> dict[str, Any]:
        stats = super()._initialize_sufficient_statistics()
        shape = (self.n_components, self.n_features)
        return {**stats, "post": np.zeros(self.n_components), "obs": np.zeros(shape)}

    def _accumulate_sufficient_statistics(
        self,
        stats: dict[str, Any],
        X: Any,
        lattice: Any,
        posteriors: Any,
        fwdlattice: Any,
        bwdlattice: Any,
    ) -> None:
        if "l" in self.params:
            stats["post"] += posteriors.sum(axis=0)
            stats["obs"] += posteriors.T @ X

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        """Set the rates to (α + n x̄) / (β + n).

        α is ``lambdas_prior``, β is ``lambdas_weight``, and x̄ is the mean of the state. As in
        hmmlearn, n is the number of all samples, not of those of the state.
        """
        super()._do_mstep(stats)
        if "l" in self.params:
            n = stats["post"].sum()
            mean = stats["obs"] / stats["post"][:, None]
            self.lambdas_ = (self.lambdas_prior + n * mean) / (self.lambdas_weight + n)

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        return random_state.poisson(self.lambdas_[state])
