"""Gibbs sampling: each variable in turn is drawn given all others, p(y_v | y_neighbours)."""

from typing import Any

import numpy as np

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.results import Doubles, Integers, Samples
from trellis.native import resolve_jobs

__all__ = ["effective_size", "gibbs", "r_hat"]

_MOST_NUMBERS = 2**31
_AT_A_TIME = 1 << 22  # uniform numbers


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
    """``n`` labellings of each chain, after ``burn_in`` sweeps, one every ``thin`` sweeps.

    Chains begin with random labels, or all with ``initial``, which must be allowed if labellings
    are forbidden. Between labellings that only forbidden ones connect, a chain cannot go. The
    result depends on ``random_state`` alone.

    >>> coin = FactorGraph([2], [((0,), np.log([0.25, 0.75]))])
    >>> found = gibbs(coin, n=2000, random_state=0)
    >>> found.labels.shape, bool(abs(found.variables[0, 1] - 0.75) < 0.02), found.r_hat[0].round(2)
    ((4, 2000, 1), True, np.float64(1.0))
    """
    n, thin, chains = (
        _at_least(v, 1, k) for v, k in ((n, "n"), (thin, "thin"), (chains, "chains"))
    )
    burn_in, threads = _at_least(burn_in, 0, "burn_in"), resolve_jobs(n_jobs)
    if chains * n * max(1, len(graph)) > _MOST_NUMBERS:
        raise InputError(f"{chains} chains of {n} samples of {len(graph)} variables do not fit")
    random = np.random.default_rng(random_state)
    if initial is None:
        labels = random.integers(np.tile(graph.cardinalities, (chains, 1)))
    else:
        labels = np.tile(graph.checked(initial), (chains, 1))
    flat = np.ascontiguousarray(labels, dtype=np.int64).ravel()
    kept = np.empty((chains, n, len(graph)), dtype=np.int64)
    score = np.empty((chains, n))
    _sweep(graph, chains, burn_in, flat, random, threads)
    size = max(1, _AT_A_TIME // max(1, chains * thin * len(graph)))
    for begin in range(0, n, size):
        end = min(n, begin + size)
        own, scores = _sweep(graph, chains, (end - begin) * thin, flat, random, threads)
        kept[:, begin:end] = own[:, thin - 1 :: thin]
        score[:, begin:end] = scores[:, thin - 1 :: thin]
    return Samples(kept, score, *_summary(graph, kept))


def _at_least(value: Any, least: int, name: str) -> int:
    found = as_integer(value, name)
    if found < least:
        raise InputError(f"{name} must be at least {least}, not {found}")
    return found


def _sweep(
    graph: FactorGraph,
    chains: int,
    sweeps: int,
    labels: Integers,
    random: np.random.Generator,
    threads: int,
) -> tuple[Integers, Doubles]:
    """The labels after each sweep and their scores; ``labels`` are those after the last."""
    n = len(graph)
    kept, score = np.empty(chains * sweeps * n, dtype=np.int64), np.empty(chains * sweeps)
    uniforms = random.random(chains * sweeps * n)
    graph.core.gibbs(graph.tables, chains, sweeps, uniforms, labels, kept, score, threads)
    return kept.reshape(chains, sweeps, n), score.reshape(chains, sweeps)


def _summary(graph: FactorGraph, kept: Integers) -> tuple[Doubles, Doubles, Doubles]:
    """Frequencies, and the worst diagnostics of the indicators of each variable's labels."""
    n, count = kept.shape[1:]
    rows = np.zeros((count, graph.most_labels))
    worst, size = np.full(count, np.nan), np.full(count, np.nan)
    for y in range(graph.most_labels):
        one = (kept == y).astype(np.float64)
        rows[:, y] = one.mean(axis=(0, 1))
        if n > 3:
            worst = np.fmax(worst, r_hat(one))
            size = np.fmin(size, effective_size(one))
    return rows, worst, size


def r_hat(x: Doubles) -> Doubles:
    """√(variance of all / variance within) of ``x`` (chains, samples, quantities), chains halved.

    A chain that drifts has halves that differ, so it shows even in one chain (Gelman et al., 2013).
    NaN where nothing varies.

    >>> x = np.array([[0.0, 1.0, 0.0, 1.0], [5.0, 6.0, 5.0, 6.0]])[..., None]
    >>> bool(r_hat(x)[0] > 2)
    True
    """
    half = x.shape[1] // 2
    parts = np.concatenate([x[:, :half], x[:, half : 2 * half]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.sqrt((half - 1) / half + between / within)
    return np.where((within == 0) & (between == 0), np.nan, found)


def effective_size(x: Doubles) -> Doubles:
    """Samples / (1 + 2 Σₜ ρₜ) of ``x`` (chains, samples, quantities), ρ the autocorrelation.

    Pairs of neighbouring terms are summed while they are positive and fall (Geyer, 1992).

    >>> x = np.random.default_rng(0).normal(size=(4, 1000, 1))
    >>> bool(3000 < effective_size(x)[0] < 5000)
    True
    """
    chains, n, _ = x.shape
    centred = x - x.mean(axis=1, keepdims=True)
    padded = np.fft.rfft(centred, n=2 * n, axis=1)
    covariance = np.fft.irfft(padded * padded.conj(), axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + (x.mean(axis=1).var(axis=0, ddof=1) if chains > 1 else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - covariance) / total
    pairs = rho[: n // 2 * 2].reshape(n // 2, 2, -1).sum(axis=1)
    alive = np.cumprod(pairs > 0, axis=0)
    tau = 2.0 * (np.minimum.accumulate(pairs, axis=0) * alive).sum(axis=0) - 1.0
    found = chains * n / np.maximum(tau, 1.0 / np.log10(max(chains * n, 10)))
    return np.where(total > 0, found, np.nan)
