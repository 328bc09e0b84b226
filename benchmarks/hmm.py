"""Compare training and decoding of hidden Markov models with hmmlearn, on one thread.

    python benchmarks/hmm.py
    python benchmarks/hmm.py --quick --markdown

Both have the same parameters. Before the timing, the log-likelihoods must agree to 1e-8 (relative)
and the expected counts to 1e-7. `log` and `scaling` are the two implementations of hmmlearn; `log`
is its default. Times are CPU times of the process, so that other programs disturb them less.
"""

from __future__ import annotations

import logging
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is imported
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np  # noqa: E402
from hmmlearn import hmm as theirs  # noqa: E402
from sections import run_sections  # noqa: E402
from timing import Case, Table, Times, Timing, check_close, milliseconds, ratio  # noqa: E402

from trellis import HMM  # noqa: E402
from trellis.compat.hmmlearn import hmm as ours  # noqa: E402

LENGTH = 100
COLUMNS = ("model", "states", "log", "scaling", "ours", "log / ours", "scaling / ours", "at minima")
# name -> (class, settings, states, dimensions or symbols)
MODELS: dict[str, tuple[str, dict[str, Any], int, int]] = {
    "Gaussian, diagonal, 2 dimensions": ("GaussianHMM", {"covariance_type": "diag"}, 4, 2),
    "Gaussian, diagonal, 4 dimensions": ("GaussianHMM", {"covariance_type": "diag"}, 8, 4),
    "Gaussian, diagonal, 8 dimensions": ("GaussianHMM", {"covariance_type": "diag"}, 16, 8),
    "Gaussian, spherical, 4 dimensions": ("GaussianHMM", {"covariance_type": "spherical"}, 8, 4),
    "Gaussian, tied, 4 dimensions": ("GaussianHMM", {"covariance_type": "tied"}, 8, 4),
    "Gaussian, full, 4 dimensions": ("GaussianHMM", {"covariance_type": "full"}, 8, 4),
    "categorical, 10 symbols": ("CategoricalHMM", {}, 4, 10),
    "categorical, 50 symbols": ("CategoricalHMM", {}, 8, 50),
    "categorical, 1,000 symbols": ("CategoricalHMM", {}, 20, 1000),
    "Poisson, 4 dimensions": ("PoissonHMM", {}, 8, 4),
    "mixture of 3, diagonal, 4 dimensions": ("GMMHMM", {"n_mix": 3}, 8, 4),
}


def draw(name: str, quick: bool) -> tuple[Any, list[int]]:
    """Return observations of sticky states, and the lengths of the sequences."""
    cls, _, n_states, size = MODELS[name]
    rng = np.random.default_rng(0)
    count = 20 if quick else 200
    states = np.repeat(rng.integers(n_states, size=count * LENGTH // 10), 10)
    shape = (len(states), size)
    if cls == "CategoricalHMM":
        X = ((states * size // n_states + rng.integers(size // 2, size=len(states))) % size)[
            :, None
        ]
        X[:size, 0] = np.arange(size)
    elif cls == "PoissonHMM":
        X = rng.poisson(1.0 + 3.0 * states[:, None], size=shape)
    else:
        X = rng.normal(size=shape) + 2.0 * states[:, None]
    return X, [LENGTH] * count


def models(name: str, X: Any, lengths: list[int]) -> dict[str, Any]:
    """Return three models with the same parameters."""
    cls, settings, n_states, _ = MODELS[name]
    first = getattr(theirs, cls)(n_states, random_state=0, **settings)
    first._init(X, lengths)
    first._check()
    result = {"log": first}
    for key, module in (("scaling", theirs), ("ours", ours)):
        model = getattr(module, cls)(n_states, **settings)
        model.__dict__.update({**first.__dict__, "implementation": "scaling"})
        result[key] = model
    result["ours"].implementation = "log"
    for model in result.values():
        model._check()
    return result


def time_cpu(cases: Sequence[Case], repeats: int) -> Times:
    """Return the CPU times of cases that take turns. The first call of each case is not counted."""
    seconds: dict[str, list[float]] = {case.name: [] for case in cases}
    for turn in range(repeats + 1):
        for case in cases:
            if turn <= (case.max_repeats or repeats):
                begin = time.process_time()
                case.call()
                seconds[case.name].append(time.process_time() - begin)
    return Times(
        (name, Timing(statistics.median(values[1:]), min(values[1:]), len(values) - 1))
        for name, values in seconds.items()
    )


def training(quick: bool) -> list[Table]:
    """Time one E-step: likelihoods of all observations, forward-backward, expected counts."""
    return [_compare("E-step, 20,000 positions, ms", quick, lambda m, X, n: m._do_estep(X, n))]


def decoding(quick: bool) -> list[Table]:
    """Time the best paths."""
    return [_compare("decode, 20,000 positions, ms", quick, lambda m, X, n: m.decode(X, n))]


def _compare(title: str, quick: bool, call: Callable[[Any, Any, list[int]], Any]) -> Table:
    table = Table(title, COLUMNS)
    table.notes = [f"sequences have {LENGTH} positions; one thread, float64, medians of CPU times"]
    for name in MODELS:
        X, lengths = draw(name, quick)
        trio = models(name, X, lengths)
        check(name, trio, X, lengths)
        cases = [
            Case(key, partial(call, model, X, lengths), None if key == "ours" else 3)
            for key, model in trio.items()
        ]
        times = time_cpu(cases, 3 if quick else 9)
        table.keep(name, times)
        table.add(
            name,
            MODELS[name][2],
            *(milliseconds(times[key]) for key in trio),
            ratio(times["log"], times["ours"]),
            ratio(times["scaling"], times["ours"]),
            ratio(times["scaling"], times["ours"], "minimum"),
        )
    return table


def check(name: str, trio: dict[str, Any], X: Any, lengths: list[int]) -> None:
    """Raise unless likelihoods and expected counts agree."""
    stats, log_p = trio["ours"]._do_estep(X, lengths)
    for key in ("log", "scaling"):
        expected, expected_log_p = trio[key]._do_estep(X, lengths)
        check_close(f"{name}: log-likelihood", log_p / expected_log_p, 1.0)
        for statistic in stats:
            check_close(f"{name}: {statistic}", stats[statistic], expected[statistic], 1e-7)


def fits(quick: bool) -> list[Table]:
    """Time ten iterations of `trellis.HMM` and of hmmlearn, from data to model."""
    columns = ("model", "states", "hmmlearn", "HMM", "hmmlearn / HMM", "at minima")
    table = Table("10 iterations of Baum–Welch, 20,000 positions, ms", columns)
    table.notes = [
        "hmmlearn has implementation='scaling', and the caller sets its first parameters",
        "HMM.fit includes validation and k-means, so the first parameters differ",
    ]
    chosen = {
        "Gaussian, diagonal, 4 dimensions": {"emissions": "gaussian"},
        "Gaussian, full, 4 dimensions": {"emissions": "gaussian", "covariance": "full"},
        "categorical, 50 symbols": {"emissions": "categorical"},
        "Poisson, 4 dimensions": {"emissions": "poisson"},
    }
    for name, settings in chosen.items():
        X, lengths = draw(name, quick)
        model = models(name, X, lengths)["scaling"]
        model.set_params(n_iter=10, tol=-np.inf, init_params="")
        hmm = HMM(n_states=MODELS[name][2], max_iter=10, tol=-np.inf, random_state=0, **settings)
        model.monitor_.n_iter, model.monitor_.tol = 10, -np.inf
        cases = [
            Case("peer", partial(model.fit, X, lengths), 3),
            Case("ours", partial(hmm.fit, X, lengths=lengths)),
        ]
        times = time_cpu(cases, 3 if quick else 7)
        table.keep(name, times)
        table.add(
            name,
            MODELS[name][2],
            *(milliseconds(times[key]) for key in ("peer", "ours")),
            ratio(times["peer"], times["ours"]),
            ratio(times["peer"], times["ours"], "minimum"),
        )
    return [table]


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # hmmlearn's, about few data and non-increasing likelihoods
    run_sections(
        __doc__,
        ("numpy", "hmmlearn"),
        {"training": training, "decoding": decoding, "fits": fits},
    )
