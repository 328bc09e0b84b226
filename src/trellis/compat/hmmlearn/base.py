"""`BaseHMM`: what all models of hmmlearn share, with the E-step in the native core.

A subclass defines the emissions by the methods that hmmlearn documents: ``_init``, ``_check``,
``_compute_log_likelihood`` (or ``_compute_likelihood``), ``_initialize_sufficient_statistics``,
``_accumulate_sufficient_statistics``, ``_do_mstep`` and ``_generate_sample_from_state``. One call
computes the likelihoods or statistics of many sequences, not of one. So the arguments
``fwdlattice`` and ``bwdlattice`` are None.
"""

import logging
import string
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np

from trellis.compat.hmmlearn.monitor import ConvergenceMonitor
from trellis.compat.hmmlearn.utils import normalize
from trellis.errors import InputError
from trellis.estimator import Estimator, check_fitted
from trellis.inference import chain
from trellis.inference.chain import Scores
from trellis.models.chain.emissions.counts import join, slice_rows

__all__ = ["DECODER_ALGORITHMS", "BaseHMM", "ConvergenceMonitor"]

_logger = logging.getLogger(__name__)
DECODER_ALGORITHMS = frozenset(("viterbi", "map"))
"""The values of ``algorithm``."""
_IMPLEMENTATIONS = ("log", "scaling")
# hmmlearn's scaled recursions raise an error if all probabilities of a position are below this.
_UNDERFLOW = 1e-300
# Number of scores that an E-step computes at a time. The C library returns the memory of larger
# arrays to the system after each use, and fresh pages cost more than the recursions.
_GROUP = 1 << 17


class BaseHMM(Estimator):
    """Parameters, training and decoding of all models; see the module for subclasses."""

    startprob_: Any
    """(n_components,) p(y₀)."""
    transmat_: Any
    """(n_components, n_components) p(yₜ | yₜ₋₁), one row for each yₜ₋₁."""
    n_features: Any
    """Number of columns of X, or of symbols; set by `fit`."""

    def __init__(
        self,
        n_components: int = 1,
        startprob_prior: Any = 1.0,
        transmat_prior: Any = 1.0,
        algorithm: str = "viterbi",
        random_state: Any = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = string.ascii_letters,
        init_params: str = string.ascii_letters,
        implementation: str = "log",
    ) -> None:
        self.n_components = n_components
        self.startprob_prior = startprob_prior
        self.transmat_prior = transmat_prior
        self.algorithm = algorithm
        self.random_state = random_state
        self.n_iter = n_iter
        self.tol = tol
        self.verbose = verbose
        self.params = params
        self.init_params = init_params
        self.implementation = implementation
        self.monitor_ = ConvergenceMonitor(tol, n_iter, verbose)

    # ---- training

    def fit(self, X: Any, lengths: Any = None) -> Self:
        """Set the parameters in ``init_params``, then improve those in ``params`` by EM."""
        X = _check_array(X)
        lengths = np.array([len(X)]) if lengths is None else lengths
        self._init(X, lengths)
        self._check()
        self.monitor_._reset()
        for _ in range(self.n_iter):
            stats, log_prob = self._do_estep(X, lengths)
            self._do_mstep(stats)
            self.monitor_.report(log_prob)
            if self.monitor_.converged:
                break
            if (self.transmat_.sum(axis=1) == 0).any():
                _logger.warning(
                    "Some rows of transmat_ have zero sum because no transition from the state "
                    "was ever observed."
                )
        return self

    def _do_estep(self, X: Any, lengths: Any) -> tuple[dict[str, Any], float]:
        """Return the sufficient statistics of all sequences, and the log-likelihood."""
        stats = self._initialize_sufficient_statistics()
        log_prob = 0.0
        for part, part_lengths in _split(X, lengths, self.n_components):
            scores = self._scores(part, part_lengths)
            counts = chain.expected_counts(scores)
            lattice, posteriors = join(cast(Any, scores.unary)), join(cast(Any, counts.unary))
            stats["nobs"] += len(counts.unary)
            if "s" in self.params:
                stats["start"] += counts.start
            if "t" in self.params:
                stats["trans"] += counts.transition
            self._accumulate_sufficient_statistics(stats, part, lattice, posteriors, None, None)
            log_prob += float(np.sum(counts.log_partition))
        return stats, log_prob

    def _init(self, X: Any, lengths: Any = None) -> None:
        """Draw ``startprob_`` and ``transmat_`` if needed; warn if X has too few values."""
        from sklearn.utils import check_random_state

        self._check_and_set_n_features(X)
        random_state = check_random_state(self.random_state)
        concentration = np.full(self.n_components, 1.0 / self.n_components)
        if self._needs_init("s", "startprob_"):
            self.startprob_ = random_state.dirichlet(concentration)
        if self._needs_init("t", "transmat_"):
            self.transmat_ = random_state.dirichlet(concentration, size=self.n_components)
        free = self._get_n_fit_scalars_per_param()
        n_free = 0 if free is None else sum(free[name] for name in self.params)
        if X.size < n_free:
            _logger.warning(
                "Fitting a model with %d free scalar parameters with only %d data points will "
                "result in a degenerate solution.",
                n_free,
                X.size,
            )

    def _needs_init(self, code: str, name: str) -> bool:
        """Return whether `_init` sets the attribute ``name``; warn if it overwrites a value.

        ``code`` is the letter of the attribute in ``init_params``.
        """
        if code not in self.init_params:
            return not hasattr(self, name)
        if hasattr(self, name):
            _logger.warning(
                "Even though the %r attribute is set, it will be overwritten during "
                "initialization because 'init_params' contains %r",
                name,
                code,
            )
        return True

    def _check_and_set_n_features(self, X: Any) -> None:
        n_features = X.shape[1]
        if getattr(self, "n_features", n_features) != n_features:
            raise ValueError(
                f"Unexpected number of dimensions, got {n_features} but expected {self.n_features}"
            )
        self.n_features = n_features

    def _get_n_fit_scalars_per_param(self) -> Any:
        """Return the number of free parameters by their letter in ``params``.

        None disables the warning about too few data.
        """
        return None

    def _check(self) -> None:
        """Raise ValueError if the start or the transitions are no probabilities."""
        self.startprob_ = np.asarray(self.startprob_)
        if len(self.startprob_) != self.n_components:
            raise ValueError("startprob_ must have length n_components")
        self._check_sum_1("startprob_")
        self.transmat_ = np.asarray(self.transmat_)
        if self.transmat_.shape != (self.n_components, self.n_components):
            raise ValueError("transmat_ must have shape (n_components, n_components)")
        self._check_sum_1("transmat_")

    def _check_sum_1(self, name: str) -> None:
        sums = getattr(self, name).sum(axis=-1)
        if not np.allclose(sums, 1):
            if sums.ndim:
                raise ValueError(f"{name} rows must sum to 1 (got row sums of {sums})")
            raise ValueError(f"{name} must sum to 1 (got {sums:.4f})")

    def _initialize_sufficient_statistics(self) -> dict[str, Any]:
        n = self.n_components
        return {"nobs": 0, "start": np.zeros(n), "trans": np.zeros((n, n))}

    def _accumulate_sufficient_statistics(
        self,
        stats: dict[str, Any],
        X: Any,
        lattice: Any,
        posteriors: Any,
        fwdlattice: Any,
        bwdlattice: Any,
    ) -> None:
        """Add the statistics of the emissions. Those of the chain are in ``stats`` already."""

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        """Set the start and the transitions. A probability of 0 stays 0."""
        if "s" in self.params:
            counts = np.maximum(self.startprob_prior - 1 + stats["start"], 0)
            self.startprob_ = np.where(self.startprob_ == 0, 0, counts)
            normalize(self.startprob_)
        if "t" in self.params:
            counts = np.maximum(self.transmat_prior - 1 + stats["trans"], 0)
            self.transmat_ = np.where(self.transmat_ == 0, 0, counts)
            normalize(self.transmat_, axis=1)

    # ---- emissions

    def _compute_likelihood(self, X: Any) -> Any:
        """p(xₜ | yₜ), shape (n_samples, n_components)."""
        if type(self)._compute_log_likelihood is BaseHMM._compute_log_likelihood:
            raise NotImplementedError("Must be overridden in subclass")
        with np.errstate(under="ignore"):
            return np.exp(self._compute_log_likelihood(X))

    def _compute_log_likelihood(self, X: Any) -> Any:
        """log p(xₜ | yₜ), shape (n_samples, n_components)."""
        if type(self)._compute_likelihood is BaseHMM._compute_likelihood:
            raise NotImplementedError("Must be overridden in subclass")
        with np.errstate(divide="ignore"):
            return np.log(self._compute_likelihood(X))

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        """Draw one observation. `BaseHMM` has no emissions and returns an empty tuple."""
        return ()

    def _scores(self, X: Any, lengths: Any) -> Scores:
        """Return the scores of all sequences: logarithms of all probabilities."""
        if self.implementation not in _IMPLEMENTATIONS:
            raise KeyError(self.implementation)
        frames = np.asarray(self._compute_log_likelihood(X), dtype=np.float64)
        if np.isnan(frames.min(initial=0.0)):
            self._refuse_nan(frames)
        if self.implementation == "scaling" and (frames.max(axis=1) < np.log(_UNDERFLOW)).any():
            raise ValueError(
                "forward pass failed with underflow; consider using implementation='log' instead"
            )
        if lengths is None or len(lengths) == 1:
            parts = [frames]  # frames may have more rows than X, if a row of X has many symbols
        else:
            _check_lengths(len(X), lengths)
            parts = slice_rows(frames, lengths)
        with np.errstate(divide="ignore"):
            transition, start = np.log(self.transmat_), np.log(self.startprob_)
        return Scores(cast(Any, parts), transition, start)

    def _refuse_nan(self, frames: Any) -> None:
        states = np.flatnonzero(np.isnan(frames).any(axis=0)).tolist()
        raise InputError(
            f"the log-likelihoods of state {states[0]} of {type(self).__name__} are nan: its "
            "parameters are nan if no observation belongs to it, or if its observations have no "
            "variance; use fewer components or another random_state, or set priors"
        )

    def _fitted_scores(self, X: Any, lengths: Any) -> Scores:
        check_fitted(self, "startprob_")
        self._check()
        X = _check_array(X)
        if lengths is not None:
            _check_lengths(len(X), lengths)
        return self._scores(X, lengths)

    # ---- results

    def score(self, X: Any, lengths: Any = None) -> float:
        """log p(x), summed over all sequences."""
        return float(np.sum(chain.log_partition(self._fitted_scores(X, lengths))))

    def score_samples(self, X: Any, lengths: Any = None) -> tuple[float, Any]:
        """Return log p(x), and p(yₜ | x) of shape (n_samples, n_components)."""
        p = chain.marginals(self._fitted_scores(X, lengths))
        return float(np.sum(p.log_partition)), np.concatenate(cast(Any, p.unary))

    def predict_proba(self, X: Any, lengths: Any = None) -> Any:
        """p(yₜ | x), shape (n_samples, n_components)."""
        return self.score_samples(X, lengths)[1]

    def decode(self, X: Any, lengths: Any = None, algorithm: str | None = None) -> Any:
        """Return (log p(x, y), states). For "map", return the sum of the states' posteriors first.

        The states have shape (n_samples,).
        """
        check_fitted(self, "startprob_")
        algorithm = algorithm or self.algorithm
        if algorithm not in DECODER_ALGORITHMS:
            raise ValueError(f"Unknown decoder {algorithm!r}")
        if algorithm == "map":
            posteriors = self.score_samples(X, lengths)[1]
            return posteriors.max(axis=1).sum(), posteriors.argmax(axis=1)
        path = chain.viterbi(self._fitted_scores(X, lengths))
        return float(np.sum(path.score)), np.concatenate(cast(Any, path.labels))

    def predict(self, X: Any, lengths: Any = None) -> Any:
        """Return the states that `decode` returns, shape (n_samples,)."""
        return self.decode(X, lengths)[1]

    def sample(
        self, n_samples: int = 1, random_state: Any = None, currstate: int | None = None
    ) -> tuple[Any, Any]:
        """Draw one sequence and its states; ``currstate`` is its first state."""
        from sklearn.utils import check_random_state

        check_fitted(self, "startprob_")
        self._check()
        generator = check_random_state(self.random_state if random_state is None else random_state)
        limits = np.cumsum(self.transmat_, axis=1)
        if currstate is None:
            currstate = (np.cumsum(self.startprob_) > generator.rand()).argmax()
        states = [currstate]
        # The order of the draws is that of hmmlearn: state, observation, state, observation, …
        rows = [self._generate_sample_from_state(currstate, random_state=generator)]
        for _ in range(n_samples - 1):
            states.append((limits[states[-1]] > generator.rand()).argmax())
            rows.append(self._generate_sample_from_state(states[-1], random_state=generator))
        return np.atleast_2d(rows), np.array(states, dtype=int)

    def get_stationary_distribution(self) -> Any:
        """Return p with p = p · transmat_: the left eigenvector of the eigenvalue 1."""
        check_fitted(self, "transmat_")
        values, vectors = np.linalg.eig(np.transpose(self.transmat_))
        vector = np.real_if_close(vectors[:, np.argmax(values.real)])
        return vector / vector.sum()

    def aic(self, X: Any, lengths: Any = None) -> float:
        """-2 log p(x) + 2 · (number of free parameters): the smaller, the better."""
        n_free = sum(self._get_n_fit_scalars_per_param().values())
        return float(-2 * self.score(X, lengths) + 2 * n_free)

    def bic(self, X: Any, lengths: Any = None) -> float:
        """-2 log p(x) + log(n_samples) · (number of free parameters): the smaller, the better."""
        n_free = sum(self._get_n_fit_scalars_per_param().values())
        return float(-2 * self.score(X, lengths) + n_free * np.log(len(X)))


def _check_array(X: Any) -> Any:
    from sklearn.utils import check_array  # only here: importing scikit-learn takes a second

    return check_array(X)


def _split(X: Any, lengths: Any, n_components: int) -> Iterator[tuple[Any, Any]]:
    """Yield groups of consecutive sequences, of about _GROUP scores each: rows, and lengths.

    >>> [n.tolist() for _, n in _split(np.zeros((2 * _GROUP, 1)), [_GROUP // 2] * 4, 1)]
    [[65536, 65536], [65536, 65536]]
    """
    if lengths is None or len(lengths) == 1:
        yield X, lengths
        return
    _check_lengths(len(X), lengths)
    ends = np.cumsum(lengths)
    size = max(1, _GROUP // n_components)
    firsts = np.flatnonzero(np.diff((ends - 1) // size, prepend=-2)).tolist()
    for first, last in pairwise([*firsts, len(ends)]):
        begin = ends[first - 1] if first else 0
        yield X[begin : ends[last - 1]], np.asarray(lengths[first:last])


def _check_lengths(n_samples: int, lengths: Any) -> None:
    if np.sum(lengths) != n_samples:
        raise ValueError(f"lengths array {lengths} doesn't sum to {n_samples} samples")
    if np.min(lengths) < 1:
        i = int(np.argmin(lengths))
        raise ValueError(f"lengths[{i}] is {lengths[i]}: each sequence needs at least one sample")
