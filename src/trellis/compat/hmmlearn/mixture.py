"""`GMMHMM`: a mixture of Gaussians for each state."""

import logging
from typing import Any

import numpy as np

from trellis.compat.hmmlearn.base import BaseHMM
from trellis.compat.hmmlearn.gaussian import COVARIANCE_TYPES, check_matrix
from trellis.compat.hmmlearn.stats import log_multivariate_normal_density
from trellis.compat.hmmlearn.utils import fill_covars, log_normalize

__all__ = ["GMMHMM"]

_logger = logging.getLogger(__name__)


class GMMHMM(BaseHMM):
    """X has shape (n_samples, n_features); each state has n_mix Gaussians.

    >>> X = np.array([[0.0], [0.2], [1.0], [1.2], [9.0], [9.2], [8.0], [8.2]])
    >>> model = GMMHMM(n_components=2, n_mix=2, random_state=0).fit(X)
    >>> model.means_.shape, model.weights_.sum(axis=1).round(6).tolist()
    ((2, 2, 1), [1.0, 1.0])
    """

    weights_: Any
    """(n_components, n_mix)."""
    means_: Any
    """(n_components, n_mix, n_features)."""
    covars_: Any
    """The shape depends on ``covariance_type``: see `_covars_shape`."""

    def __init__(
        self,
        n_components: int = 1,
        n_mix: int = 1,
        min_covar: float = 1e-3,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        weights_prior: Any = 1.0,
        means_prior: Any = 0.0,
        means_weight: Any = 0.0,
        covars_prior: Any = None,
        covars_weight: Any = None,
        algorithm: str = "viterbi",
        covariance_type: str = "diag",
        random_state: Any = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stmcw",
        init_params: str = "stmcw",
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
        self.n_mix = n_mix
        self.weights_prior = weights_prior
        self.means_prior = means_prior
        self.means_weight = means_weight
        self.covars_prior = covars_prior
        self.covars_weight = covars_weight

    # ---- parameters before the training

    def _init(self, X: Any, lengths: Any = None) -> None:
        super()._init(X, lengths)
        self._set_priors()
        means = self._cluster(X)  # always, so that as many random numbers are drawn as by hmmlearn
        if self._needs_init("w", "weights_"):
            self.weights_ = np.full((self.n_components, self.n_mix), 1.0 / self.n_mix)
        if self._needs_init("m", "means_"):
            self.means_ = means
        if self._needs_init("c", "covars_"):
            matrix = self._covariance(X)
            value = {
                "spherical": matrix.mean(),
                "diag": np.diag(matrix),
                "tied": matrix,
                "full": matrix,
            }[self.covariance_type]
            self.covars_ = np.broadcast_to(value, self._covars_shape()).copy()

    def _covariance(self, X: Any) -> Any:
        return np.atleast_2d(np.cov(X.T)) + self.min_covar * np.eye(self.n_features)

    def _cluster(self, X: Any) -> Any:
        """Return initial means in the shape of `means_`.

        k-means finds one cluster per state. k-means in each cluster then finds the n_mix means.
        """
        from sklearn.cluster import KMeans

        settings = {"random_state": self.random_state, "n_init": 10}
        states = KMeans(self.n_components, **settings)
        labels = states.fit_predict(X)
        centre = states.cluster_centers_.mean(axis=0)
        means = []
        for state in range(self.n_components):
            mixtures, rows = KMeans(self.n_mix, **settings), X[labels == state]
            if len(rows) >= self.n_mix:
                means.append(mixtures.fit(rows).cluster_centers_)
            else:
                covariance = self._covariance(X)
                # The global generator, as in hmmlearn.
                means.append(np.random.multivariate_normal(centre, covariance, size=self.n_mix))  # noqa: NPY002
        return np.stack(means)

    def _set_priors(self) -> None:
        """Replace the priors that are None, and give all priors their shapes."""
        n, n_mix, d = self.n_components, self.n_mix, self.n_features
        prior, weight = {
            "full": (0.0, -(1.0 + d + 1.0)),
            "tied": (0.0, -(n_mix + d + 1.0)),
            "diag": (-1.5, 0.0),
            "spherical": (-(n_mix + 2.0) / 2.0, 0.0),
        }.get(self.covariance_type, (None, None))
        if prior is None:
            return  # _check refuses this covariance_type
        weight_shape = {"full": (n, n_mix), "tied": (n,)}.get(
            self.covariance_type, self._covars_shape()
        )
        self.covars_prior = prior if self.covars_prior is None else self.covars_prior
        self.covars_weight = weight if self.covars_weight is None else self.covars_weight
        for name, shape in (
            ("weights_prior", (n, n_mix)),
            ("means_prior", (n, n_mix, d)),
            ("means_weight", (n, n_mix)),
            ("covars_prior", self._covars_shape()),
            ("covars_weight", weight_shape),
        ):
            setattr(self, name, np.broadcast_to(getattr(self, name), shape).copy())

    def _covars_shape(self) -> tuple[int, ...]:
        n, n_mix, d = self.n_components, self.n_mix, self.n_features
        return {
            "spherical": (n, n_mix),
            "tied": (n, d, d),
            "diag": (n, n_mix, d),
            "full": (n, n_mix, d, d),
        }[self.covariance_type]

    def _check(self) -> None:
        super()._check()
        if not hasattr(self, "n_features"):
            self.n_features = self.means_.shape[2]
        if self.covariance_type not in COVARIANCE_TYPES:
            raise ValueError(f"covariance_type must be one of {COVARIANCE_TYPES}")
        self._set_priors()
        n, n_mix, d = self.n_components, self.n_mix, self.n_features
        self.weights_, self.means_ = np.array(self.weights_), np.array(self.means_)
        self.covars_ = np.array(self.covars_)
        if self.weights_.shape != (n, n_mix):
            raise ValueError(
                "weights_ must have shape (n_components, n_mix), actual shape: "
                f"{self.weights_.shape}"
            )
        self._check_sum_1("weights_")
        if self.means_.shape != (n, n_mix, d):
            raise ValueError(
                "means_ must have shape (n_components, n_mix, n_features), actual shape: "
                f"{self.means_.shape}"
            )
        if self.covars_.shape != self._covars_shape():
            raise ValueError(
                f"{self.covariance_type!r} mixture covars must have shape "
                f"{self._covars_shape()}, actual shape: {self.covars_.shape}"
            )
        self._check_covars()

    def _check_covars(self) -> None:
        """Raise ValueError unless all covariances are positive semidefinite.

        Warn if a variance or an eigenvalue is 0.
        """
        if self.covariance_type in ("spherical", "diag"):
            if (self.covars_ < 0).any():
                raise ValueError(f"{self.covariance_type!r} mixture covars must be non-negative")
            if (self.covars_ == 0).any():
                _logger.warning("Degenerate mixture covariance")
            return
        for index in np.ndindex(self.covars_.shape[:-2]):
            place = " of state #{}".format(*index)
            if len(index) == 2:
                place += f", mixture #{index[1]}"
            smallest = check_matrix(self.covars_[index])
            if np.isneginf(smallest):
                raise ValueError(f"Covariance{place} is not symmetric")
            if smallest < 0:
                raise ValueError(f"Covariance{place} is not positive definite")
            if smallest == 0:
                _logger.warning("Covariance%s has a null eigenvalue.", place)

    def _get_n_fit_scalars_per_param(self) -> Any:
        n, n_mix, d = self.n_components, self.n_mix, self.n_features
        triangle = d * (d + 1) // 2
        covars = {
            "spherical": n * n_mix,
            "diag": n * n_mix * d,
            "full": n * n_mix * triangle,
            "tied": n * triangle,
        }[self.covariance_type]
        return {"s": n - 1, "t": n * (n - 1), "m": n * n_mix * d, "c": covars, "w": n_mix - 1}

    # ---- training

    def _compute_log_weighted_gaussian_densities(self, X: Any, i_comp: int) -> Any:
        """log w_m + log N(xₜ; μ_m, Σ_m) of one state, shape (n_samples, n_mix)."""
        covars = self.covars_[i_comp]
        if self.covariance_type == "spherical":
            covars = covars[:, None]
        densities = log_multivariate_normal_density(
            X, self.means_[i_comp], covars, self.covariance_type
        )
        with np.errstate(divide="ignore"):
            return densities + np.log(self.weights_[i_comp])

    def _compute_log_likelihood(self, X: Any) -> Any:
        columns = [
            np.logaddexp.reduce(self._compute_log_weighted_gaussian_densities(X, state), axis=1)
            for state in range(self.n_components)
        ]
        return np.stack(columns, axis=1)

    def _initialize_sufficient_statistics(self) -> dict[str, Any]:
        stats = super()._initialize_sufficient_statistics()
        stats["post_mix_sum"] = np.zeros((self.n_components, self.n_mix))
        stats["post_sum"] = np.zeros(self.n_components)
        if "m" in self.params:
            stats["m_n"] = self.means_weight[:, :, None] * self.means_prior
        if "c" in self.params:
            stats["c_n"] = np.zeros_like(self.covars_)
        return stats

    def _accumulate_sufficient_statistics(
        self,
        stats: dict[str, Any],
        X: Any,
        lattice: Any,
        posteriors: Any,
        fwdlattice: Any,
        bwdlattice: Any,
    ) -> None:
        stats["post_sum"] += posteriors.sum(axis=0)
        for state in range(self.n_components):
            logs = self._compute_log_weighted_gaussian_densities(X, state)
            log_normalize(logs, axis=1)
            with np.errstate(under="ignore"):
                p = posteriors[:, state, None] * np.exp(logs)
            stats["post_mix_sum"][state] += p.sum(axis=0)
            if "m" in self.params:
                stats["m_n"][state] += p.T @ X
            if "c" in self.params:
                for mixture in range(self.n_mix):
                    scatter = self._scatter(X - self.means_[state, mixture], p[:, mixture])
                    to = stats["c_n"][state]
                    if self.covariance_type == "tied":
                        to += scatter
                    else:
                        to[mixture] += scatter

    def _scatter(self, centred: Any, p: Any) -> Any:
        """Return Σₜ pₜ x xᵀ of centred rows x, as one entry of covars_."""
        if self.covariance_type in ("full", "tied"):
            return (centred * p[:, None]).T @ centred
        squares = p @ np.square(centred)
        return squares.sum() if self.covariance_type == "spherical" else squares

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        """Maximise the posterior under the priors of hmmlearn."""
        super()._do_mstep(stats)
        weight = stats["post_mix_sum"]
        if "w" in self.params:
            prior = self.weights_prior - 1
            total = stats["post_sum"] + prior.sum(axis=1)
            self.weights_ = (weight + prior) / total[:, None]
        if "m" in self.params:
            total = weight + self.means_weight
            # The mean of a Gaussian with weight 0 is set to 0. 0 / 0 would be nan, and a tied
            # covariance matrix, to which all means contribute, would become nan, too.
            total[(self.weights_ == 0) & (stats["m_n"] == 0).all(axis=-1)] = 1
            self.means_ = stats["m_n"] / total[:, :, None]
        if "c" in self.params:
            self.covars_ = self._maximise_covars(stats["c_n"], weight, stats["post_sum"])

    def _maximise_covars(self, scatter: Any, weight: Any, state_weight: Any) -> Any:
        offset = self.means_ - self.means_prior
        prior, nu, d = self.covars_prior, self.covars_weight, self.n_features
        if self.covariance_type in ("full", "tied"):
            products = offset[..., :, None] * offset[..., None, :]
            pull = self.means_weight[:, :, None, None] * products
            if self.covariance_type == "tied":
                total = state_weight + self.n_mix + nu + d + 1
                pull = pull.sum(axis=1)
            else:
                total = weight + 1 + nu + d + 1
            return (np.swapaxes(prior, -1, -2) + pull + scatter) / total[..., None, None]
        if self.covariance_type == "diag":
            pull = self.means_weight[:, :, None] * np.square(offset)
            total = weight[:, :, None] + 1 + 2 * (prior + 1)
        else:
            pull = self.means_weight * np.square(offset).sum(axis=-1)
            total = d * (weight + 1) + 2 * (prior + 1)
        return (pull + 2 * nu + scatter) / total

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        mixture = random_state.choice(self.n_mix, p=self.weights_[state])
        covars = self.covars_ if self.covariance_type == "tied" else self.covars_[:, mixture]
        if self.covariance_type != "tied":
            covars = fill_covars(covars, self.covariance_type, self.n_components, self.n_features)
        return random_state.multivariate_normal(self.means_[state, mixture], covars[state])
