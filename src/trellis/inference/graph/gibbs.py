"""Gibbs sampling: draw each variable in turn given all others, from p(y_v | y_neighbours)."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.results import Doubles, Integers, Samples
from trellis.native import resolve_jobs

__all__ = ["effective_size", "gibbs", "r_hat"]

_MAX_SAMPLED_LABELS = 2**31  # 16 GiB of labels: a larger number is a mistake of the caller
_UNIFORMS_PER_BLOCK = 1 << 22  # 32 MiB of random numbers at a time, to bound the memory


def gibbs(
    graph: FactorGraph,
    *,
    n: int = 1000,
    burn_in: int = 200,
    thin: int = 1,
    chains: int = 4,
    initial: Any = None,
    random_state: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
) -> Samples:
    """Draw ``n`` labellings from each chain: one every ``thin`` sweeps, after ``burn_in`` sweeps.

    Chains start from random labels, or all from ``initial``. If some labellings are forbidden,
    ``initial`` must be an allowed one. A chain changes one variable at a time, so it cannot move
    between allowed labellings that are connected only by forbidden ones. The result is determined
    by ``random_state``.

    >>> coin = FactorGraph([2], [((0,), np.log([0.25, 0.75]))])
    >>> samples = gibbs(coin, n=2000, random_state=0)
    >>> samples.labels.shape, bool(abs(samples.variables[0, 1] - 0.75) < 0.02)
    ((4, 2000, 1), True)
    >>> samples.r_hat[0].round(2)
    np.float64(1.0)
    """
    n, thin, chains = (
        _validate_minimum(value, 1, name)
        for value, name in ((n, "n"), (thin, "thin"), (chains, "chains"))
    )
    burn_in, threads = _validate_minimum(burn_in, 0, "burn_in"), resolve_jobs(n_jobs)
    if chains * n * max(1, len(graph)) > _MAX_SAMPLED_LABELS:
        raise InputError(
            f"{chains} chains of {n} samples of {len(graph)} variables do not fit into memory"
        )
    generator = np.random.default_rng(random_state)
    if initial is None:
        labels = generator.integers(np.tile(graph.cardinalities, (chains, 1)))
    else:
        labels = np.tile(graph.checked(initial), (chains, 1))
    current_labels = np.ascontiguousarray(labels, dtype=np.int64).ravel()
    samples = np.empty((chains, n, len(graph)), dtype=np.int64)
    sample_scores = np.empty((chains, n))
    _sweep(graph, chains, burn_in, current_labels, generator, threads)
    block_size = max(1, _UNIFORMS_PER_BLOCK // max(1, chains * thin * len(graph)))
    for begin in range(0, n, block_size):
        end = min(n, begin + block_size)
        sweep_labels, sweep_scores = _sweep(
            graph, chains, (end - begin) * thin, current_labels, generator, threads
        )
        samples[:, begin:end] = sweep_labels[:, thin - 1 :: thin]
        sample_scores[:, begin:end] = sweep_scores[:, thin - 1 :: thin]
    return Samples(samples, sample_scores, *_summarize(graph, samples))


def _validate_minimum(value: Any, minimum: int, name: str) -> int:
    integer = as_integer(value, name)
    if integer < minimum:
        raise InputError(f"{name} must be at least {minimum}, not {integer}")
    return integer


def _sweep(
    graph: FactorGraph,
    chains: int,
    sweeps: int,
    labels: Integers,
    generator: np.random.Generator,
    threads: int,
) -> tuple[Integers, Doubles]:
    """Return labels (chains, sweeps, variables) after each sweep, and scores (chains, sweeps).

    ``labels``, the current state of all chains, is updated in place.
    """
    n_variables = len(graph)
    sweep_labels, sweep_scores = (
        np.empty(chains * sweeps * n_variables, dtype=np.int64),
        np.empty(chains * sweeps),
    )
    uniforms = generator.random(chains * sweeps * n_variables)
    graph.core.gibbs(
        graph.tables, chains, sweeps, uniforms, labels, sweep_labels, sweep_scores, threads
    )
    return sweep_labels.reshape(chains, sweeps, n_variables), sweep_scores.reshape(chains, sweeps)


def _summarize(graph: FactorGraph, samples: Integers) -> tuple[Doubles, Doubles, Doubles]:
    """Return label frequencies, and for each variable the worst r_hat and effective size."""
    n, n_variables = samples.shape[1:]
    frequencies = np.zeros((n_variables, graph.most_labels))
    worst_r_hat, smallest_size = np.full(n_variables, np.nan), np.full(n_variables, np.nan)
    for y in range(graph.most_labels):
        indicator = (samples == y).astype(np.float64)
        frequencies[:, y] = indicator.mean(axis=(0, 1))
        if n > 3:  # each half of a chain needs two samples for a variance
            worst_r_hat = np.fmax(worst_r_hat, r_hat(indicator))
            smallest_size = np.fmin(smallest_size, effective_size(indicator))
    return frequencies, worst_r_hat, smallest_size


def r_hat(x: Doubles) -> Doubles:
    """√(total variance / variance within chains) of ``x`` (chains, samples, quantities).

    Each chain is split into halves. The halves of a chain that drifts differ, so drift is detected
    even in a single chain (Gelman et al., 2013). The result is NaN where nothing varies.

    >>> x = np.array([[0.0, 1.0, 0.0, 1.0], [5.0, 6.0, 5.0, 6.0]])[..., None]
    >>> bool(r_hat(x)[0] > 2)
    True
    """
    half_length = x.shape[1] // 2
    half_chains = np.concatenate([x[:, :half_length], x[:, half_length : 2 * half_length]])
    within_variance = half_chains.var(axis=1, ddof=1).mean(axis=0)
    between_variance = half_chains.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((half_length - 1) / half_length + between_variance / within_variance)
    return np.where((within_variance == 0) & (between_variance == 0), np.nan, ratio)


def effective_size(x: Doubles) -> Doubles:
    """samples / (1 + 2 Σₜ ρₜ) of ``x`` (chains, samples, quantities); ρ is the autocorrelation.

    The sum runs over pairs of neighbouring terms as long as they are positive, and each pair counts
    at most as much as the pair before it (Geyer, 1992).

    >>> x = np.random.default_rng(0).normal(size=(4, 1000, 1))
    >>> bool(3000 < effective_size(x)[0] < 5000)
    True
    """
    n_chains, n_samples, _ = x.shape
    deviations = x - x.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(
        deviations, n=2 * n_samples, axis=1
    )  # zero padding: no circular correlation
    covariance = (
        np.fft.irfft(spectrum * spectrum.conj(), axis=1)[:, :n_samples].mean(axis=0) / n_samples
    )
    variance_within = covariance[0] * n_samples / (n_samples - 1)
    total_variance = covariance[0] + (x.mean(axis=1).var(axis=0, ddof=1) if n_chains > 1 else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (variance_within - covariance) / total_variance
    pairs = rho[: n_samples // 2 * 2].reshape(n_samples // 2, 2, -1).sum(axis=1)
    is_summed = np.cumprod(pairs > 0, axis=0)  # 1 up to the first pair that is not positive
    tau = 2.0 * (np.minimum.accumulate(pairs, axis=0) * is_summed).sum(axis=0) - 1.0
    # Negative correlations can make tau tiny. Like Stan, limit the size to n log10(n).
    size = n_chains * n_samples / np.maximum(tau, 1.0 / np.log10(max(n_chains * n_samples, 10)))
    return np.where(total_variance > 0, size, np.nan)
