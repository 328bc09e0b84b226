"""`GaussianHMM`: one Gaussian for each state."""

from typing import Any

import numpy as np

from trellis.compat.hmmlearn.base import BaseHMM
from trellis.compat.hmmlearn.stats import log_multivariate_normal_density
from trellis.compat.hmmlearn.utils import fill_covars

__all__ = ["COVARIANCE_TYPES", "GaussianHMM", "check_covars", "check_matrix"]

COVARIANCE_TYPES = frozenset(("spherical", "diag", "full", "tied"))
"""The values of ``covariance_type``."""


class GaussianHMM(BaseHMM):
    """X has shape (n_samples, n_features).

    >>> X = np.array([[0.0], [0.2], [5.0], [5.2]])
    >>> GaussianHMM(n_components=2, random_state=0).fit(X).means_.round(1).ravel().tolist()
    [5.1, 0.1]
    """

    means_: Any
    """(n_components, n_features)."""

    def __init__(
        self,
        n_components: int = 1,
        covariance_type: str = "diag",
        min_covar: float = 1e-3,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        means_prior: Any = 0,
        means_weight: Any = 0,
        covars_prior: Any = 1e-2,
        covars_weight: Any = 1,
        algorithm: str = "viterbi",
        random_state: Any = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stmc",
        init_params: str = "stmc",
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
        self.covariance_type = covariance_type
        self.min_covar = min_covar
        self.means_prior = means_prior
        self.means_weight = means_weight
        self.covars_prior = covars_prior
        self.covars_weight = covars_weight

    @property
    def covars_(self) -> Any:
        """The covariances as matrices, (n_components, n_features, n_features)."""
        return fill_covars(self._covars_, self.covariance_type, self.n_components, self.n_features)

    @covars_.setter
    def covars_(self, covars: Any) -> None:
        covars = np.array(covars, copy=True)
        check_covars(covars, self.covariance_type, self.n_components)
        self._covars_ = covars

    def _init(self, X: Any, lengths: Any = None) -> None:
        super()._init(X, lengths)
        if self._needs_init("m", "means_"):
            from sklearn.cluster import KMeans

            kmeans = KMeans(self.n_components, random_state=self.random_state, n_init=10)
            self.means_ = kmeans.fit(X).cluster_centers_
        if self._needs_init("c", "covars_"):
            n = self.n_components
            matrix = np.atleast_2d(np.cov(X.T)) + self.min_covar * np.eye(X.shape[1])
            if self.covariance_type == "spherical":
                self.covars_ = np.full((n, X.shape[1]), matrix.mean())
            elif self.covariance_type == "diag":
                self.covars_ = np.tile(np.diag(matrix), (n, 1))
            elif self.covariance_type == "tied":
                self.covars_ = matrix
            else:
                self.covars_ = np.tile(matrix, (n, 1, 1))

    def _check(self) -> None:
        super()._check()
        self.means_ = np.asarray(self.means_)
        self.n_features = self.means_.shape[1]
        if self.covariance_type not in COVARIANCE_TYPES:
            raise ValueError(f"covariance_type must be one of {COVARIANCE_TYPES}")

    def _get_n_fit_scalars_per_param(self) -> Any:
        n, d = self.n_components, self.n_features
        covars = {"spherical": n, "diag": n * d, "tied": d * (d + 1) // 2}
        covars["full"] = n * covars["tied"]
        return {"s": n - 1, "t": n * (n - 1), "m": n * d, "c": covars[self.covariance_type]}

    def _compute_log_likelihood(self, X: Any) -> Any:
        return log_multivariate_normal_density(X, self.means_, self._covars_, self.covariance_type)

    def _initialize_sufficient_statistics(self) -> dict[str, Any]:
        stats = super()._initialize_sufficient_statistics()
        n, d = self.n_components, self.n_features
        stats |= {"post": np.zeros(n), "obs": np.zeros((n, d)), "obs**2": np.zeros((n, d))}
        if self.covariance_type in ("tied", "full"):
            stats["obs*obs.T"] = np.zeros((n, d, d))
        return stats

    def _needs_sufficient_statistics_for_mean(self) -> bool:
        return "m" in self.params

    def _needs_sufficient_statistics_for_covars(self) -> bool:
        return "c" in self.params

    def _accumulate_sufficient_statistics(
        self,
        stats: dict[str, Any],
        X: Any,
        lattice: Any,
        posteriors: Any,
        fwdlattice: Any,
        bwdlattice: Any,
    ) -> None:
        if self._needs_sufficient_statistics_for_mean():
            stats["post"] += np.ones(len(X)) @ posteriors  # faster than a sum over the first axis
            stats["obs"] += posteriors.T @ X
        if not self._needs_sufficient_statistics_for_covars():
            return
        if self.covariance_type in ("spherical", "diag"):
            stats["obs**2"] += posteriors.T @ np.square(X)
            return
        for state, weights in enumerate(posteriors.T):
            stats["obs*obs.T"][state] += (X * weights[:, None]).T @ X

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        """Maximise the posterior under a normal prior of means and an inverse Wishart prior."""
        super()._do_mstep(stats)
        weight = stats["post"][:, None]
        if "m" in self.params:
            total = self.means_weight * self.means_prior + stats["obs"]
            self.means_ = total / (self.means_weight + weight)
        if "c" not in self.params:
            return
        offset = self.means_ - self.means_prior
        if self.covariance_type in ("spherical", "diag"):
            scatter = (
                self.means_weight * offset**2
                + stats["obs**2"]
                - 2 * self.means_ * stats["obs"]
                + self.means_**2 * weight
            )
            total = max(self.covars_weight - 1, 0) + weight
            covars = (self.covars_prior + scatter) / np.maximum(total, 1e-5)
            if self.covariance_type == "spherical":
                covars = np.tile(covars.mean(axis=1, keepdims=True), (1, covars.shape[1]))
            self._covars_ = covars
            return
        cross = stats["obs"][:, :, None] * self.means_[:, None, :]
        scatter = (
            self.means_weight * offset[:, :, None] * offset[:, None, :]
            + stats["obs*obs.T"]
            - cross
            - np.swapaxes(cross, 1, 2)
            + weight[:, :, None] * self.means_[:, :, None] * self.means_[:, None, :]
        )
        prior_weight = max(self.covars_weight - self.n_features, 0)
        if self.covariance_type == "tied":
            total = prior_weight + stats["post"].sum()
            self._covars_ = (self.covars_prior + scatter.sum(axis=0)) / total
        else:
            self._covars_ = (self.covars_prior + scatter) / (prior_weight + weight[:, :, None])

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        return random_state.multivariate_normal(self.means_[state], self.covars_[state])


def check_covars(covars: Any, covariance_type: str, n_components: int) -> None:
    """Raise ValueError unless covariances have the right shape and are positive definite."""
    if covariance_type == "spherical":
        if len(covars) != n_components:
            raise ValueError("'spherical' covars have length n_components")
        if (covars <= 0).any():
            raise ValueError("'spherical' covars must be positive")
    elif covariance_type == "diag":
        if covars.ndim != 2:
            raise ValueError("'diag' covars must have shape (n_components, n_dim)")
        if (covars <= 0).any():
            raise ValueError("'diag' covars must be positive")
    elif covariance_type == "tied":
        if covars.ndim != 2 or covars.shape[0] != covars.shape[1]:
            raise ValueError("'tied' covars must have shape (n_dim, n_dim)")
        if check_matrix(covars) <= 0:
            raise ValueError("'tied' covars must be symmetric, positive-definite")
    elif covariance_type == "full":
        if covars.ndim != 3 or covars.shape[1] != covars.shape[2]:
            raise ValueError("'full' covars must have shape (n_components, n_dim, n_dim)")
        for n, matrix in enumerate(covars):
            if check_matrix(matrix) <= 0:
                raise ValueError(
                    f"component {n} of 'full' covars must be symmetric, positive-definite"
                )
    else:
        raise ValueError("covariance_type must be one of 'spherical', 'tied', 'diag', 'full'")


def check_matrix(matrix: Any) -> float:
    """Return the smallest eigenvalue of a symmetric matrix; -inf if it is not symmetric."""
    if not np.allclose(matrix, matrix.T):
        return -np.inf
    return float(np.linalg.eigvalsh(matrix).min())
