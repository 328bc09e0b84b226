"""Compare sum-product on grids with pgmax, on the same factors.

    python benchmarks/graph.py
    python benchmarks/graph.py --quick --markdown

In both, an iteration updates every message once. pgmax updates all messages from those of the
previous iteration, in float32, compiled by XLA; ours passes along columns and rows, in float64.
Results are compared before the timing, and the compilation of pgmax is not timed. Of the packages
that pip installs (pgmax, pgmpy, pyGMs, pomegranate, factorgraph), only pgmax is compiled and can
process a grid of this size: the others have a Python object for every factor.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import jax
import jax.extend.backend
import numpy as np
from sections import run_sections
from timing import Case, Table, check_close, milliseconds, ratio, time_alternating

from trellis.inference import graph

# pgmax 0.6.1 reads this name to detect a TPU, but JAX has moved it
jax.lib.xla_bridge = types.SimpleNamespace(get_backend=jax.extend.backend.get_backend)
from pgmax import fgraph, fgroup, infer, vgroup  # noqa: E402

SIDE, SWEEPS = 512, 50
TABLE = np.array([[0.3, 0.0], [0.0, 0.3]])
COLUMNS = ("grid, labels, iterations", "peer", "ours", "ours, 1 thread", "peer / ours", "at minima")


def unary_scores(side: int) -> np.ndarray:
    """Return normal scores of shape (side, side, 2)."""
    return np.random.default_rng(side).normal(size=(side, side, 2))


def pgmax_runner(unary: np.ndarray) -> Callable[[], np.ndarray]:
    """Return a function that runs all iterations and returns the marginals."""
    side = len(unary)
    variables = vgroup.NDVarArray(num_states=2, shape=(side, side))
    pairs = [[variables[i, j], variables[i, j + 1]] for i in range(side) for j in range(side - 1)]
    pairs += [[variables[i, j], variables[i + 1, j]] for i in range(side - 1) for j in range(side)]
    fg = fgraph.FactorGraph(variable_groups=variables)
    fg.add_factors(
        fgroup.PairwiseFactorGroup(variables_for_factors=pairs, log_potential_matrix=TABLE)
    )
    bp = infer.build_inferer(fg.bp_state, backend="bp")
    arrays = bp.init(evidence_updates={variables: unary})

    def run() -> np.ndarray:
        done = bp.run(arrays, num_iters=SWEEPS, damping=0.0, temperature=1.0)
        return np.asarray(infer.get_marginals(bp.get_beliefs(done))[variables])

    return run


def ours(unary: np.ndarray, threads: int) -> np.ndarray:
    """Return our marginals after all sweeps, even if they have not converged."""
    return graph.grid_marginals(
        unary, TABLE, TABLE, max_iter=SWEEPS, tolerance=0.0, n_jobs=threads
    ).unary


def compare(
    side: int, name: str, make: Callable[..., Any], repeats: int, peer_repeats: int
) -> Table:
    """Compare the marginals of both sides, then time them."""
    unary = unary_scores(side)
    peer = make(unary)
    check_close(f"marginals of {name}", ours(unary, 2), peer(), 1e-5)
    cases = [
        Case("peer", peer, max_repeats=peer_repeats),
        Case("ours", lambda: ours(unary, 2)),
        Case("one", lambda: ours(unary, 1)),
    ]
    times = time_alternating(cases, repeats, pause=0.02)
    table = Table(f"sum-product on a grid, {name} and ours, 2 threads, ms", COLUMNS)
    table.keep(f"{name} {side}", times)
    table.add(
        f"{side}×{side}, 2, {SWEEPS}",
        *(milliseconds(times[case.name]) for case in cases),
        ratio(times["peer"], times["ours"]),
        ratio(times["peer"], times["ours"], "minimum"),
    )
    return table


def pgmax_section(quick: bool) -> list[Table]:
    """Time the large grid, or a smaller one if quick."""
    return [compare(SIDE // 4 if quick else SIDE, "pgmax", pgmax_runner, 5, 2)]


if __name__ == "__main__":
    run_sections(
        __doc__,
        ("trellis", "numpy", "pgmax", "jax"),
        {"pgmax": pgmax_section},
    )
