"""Belief propagation on grids: images, without an object or a loop for a pixel in Python.

    score(y) = Σ unary[i, j, y_ij] + Σ horizontal[y_ij, y_i,j+1] + Σ vertical[y_ij, y_i+1,j]

A sweep passes messages down and up all columns, then along all rows and back: every message once, and
each line as an exact chain, given what crosses it. So a single row or column is exact after one.
Tree-reweighted, the edges of each direction have one weight: see `tree_weights`.
"""  # noqa: E501

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from trellis import _core
from trellis.errors import InfeasibleError, InputError
from trellis.inference.graph.belief import checked_limits
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.results import Best, Doubles, Integers
from trellis.native import resolve_jobs

__all__ = ["GridMarginals", "grid_best", "grid_edges", "grid_graph", "grid_marginals", "grid_score"]


class GridScores(NamedTuple):
    """Scores of a grid, checked."""

    unary: Doubles
    horizontal: Doubles
    vertical: Doubles


class TreeWeights(NamedTuple):
    """Which share of the trees has an edge: 1 of both is plain belief propagation."""

    horizontal: float = 1.0
    vertical: float = 1.0


class _Edges(NamedTuple):
    """Of one direction: messages into the two ends of each edge, and what else the ends hear."""

    first: Doubles
    """Unary and all messages but that of the edge, ``(…, L)``, of the left or upper end."""
    second: Doubles
    table: Doubles
    weight: float


@dataclass(frozen=True, eq=False)
class GridMarginals:
    """Beliefs on a grid. Those of pairs, and log Z, are computed when they are first read."""

    unary: Doubles
    """``(H, W, L)``"""
    converged: bool
    iterations: int
    residual: float
    """The largest change of a message in the last sweep."""
    _scores: GridScores = field(repr=False)
    _grid: _core.Grid = field(repr=False)
    kind: str = "Bethe"
    """What ``log_partition`` is: "Bethe" (an estimate), or "upper bound" once converged."""
    _weights: TreeWeights = field(default=TreeWeights(), repr=False)

    @cached_property
    def _messages(self) -> Doubles:
        return _messages(self._scores, self._grid)

    @cached_property
    def log_partition(self) -> float:
        """The Bethe estimate of log Z, or the tree-reweighted bound."""
        s, (across, down) = self._scores, self._weights
        above, below, left, right = self._messages
        log_v = _log_sum_exp(s.unary + down * (above + below) + across * (left + right))
        log_z = float(log_v.sum())
        for (log_e, _), ends, weight in zip(self._both, _ends(log_v), self._weights, strict=True):
            log_z += weight * float((log_e - ends[0] - ends[1]).sum())
        return log_z

    @cached_property
    def _both(self) -> list[tuple[Doubles, Doubles]]:
        """Of each direction: log Z and beliefs of the edges."""
        edges = _cavities(self._scores, self._messages, self._weights)
        return [_pairwise(own) for own in edges]

    @property
    def horizontal(self) -> Doubles:
        """``(H, W - 1, L, L)`` beliefs of the pairs side by side."""
        return self._both[0][1]

    @property
    def vertical(self) -> Doubles:
        """``(H - 1, W, L, L)`` beliefs of the pairs above each other."""
        return self._both[1][1]


def grid_marginals(
    unary: Any,
    horizontal: Any,
    vertical: Any,
    *,
    method: str = "bp",
    damping: float = 0.0,
    max_iter: int = 100,
    tolerance: float = 1e-6,
    n_jobs: int | None = None,
) -> GridMarginals:
    """Sum-product on a grid of ``unary`` (H, W, L).

    ``horizontal`` and ``vertical`` are (L, L), or one table an edge: (H, W-1, L, L) and
    (H-1, W, L, L). -inf forbids. ``method`` is "bp", or "trw": tree-reweighted, which has one fixed
    point and whose log Z is an upper bound there. The same bits for every ``n_jobs``.

    >>> p = grid_marginals(np.log([[[0.9, 0.1], [0.5, 0.5]]]), np.log([[0.8, 0.2], [0.2, 0.8]]), np.eye(2))
    >>> p.unary.round(2).tolist(), p.converged
    ([[[0.9, 0.1], [0.74, 0.26]]], True)
    """  # noqa: E501
    s = checked_grid(unary, horizontal, vertical)
    if method not in ("bp", "trw"):
        raise InputError(f"method must be one of bp, trw, not {method!r}")
    weights = tree_weights(*s.unary.shape[:2]) if method == "trw" else TreeWeights()
    core = _propagate(s, False, damping, max_iter, tolerance, n_jobs, weights)
    p = np.empty_like(s.unary)
    if not core.beliefs(p):
        raise InfeasibleError("no labelling is allowed: a pixel has no label left")
    sweeps, residual, converged = core.report()
    kind = "upper bound" if method == "trw" else "Bethe"
    return GridMarginals(p, converged, sweeps, residual, s, core, kind, weights)


def tree_weights(height: int, width: int) -> TreeWeights:
    """The share of spanning trees that a horizontal edge is in, and a vertical one.

    Half of the trees are all rows, joined along one column, each column as often; the other half
    are all columns, joined along one row.

    >>> tree_weights(1, 9).horizontal, tree_weights(2, 4)
    (1.0, TreeWeights(horizontal=0.75, vertical=0.625))
    """
    return TreeWeights(0.5 * (1.0 + 1.0 / height), 0.5 * (1.0 + 1.0 / width))


def grid_best(
    unary: Any,
    horizontal: Any,
    vertical: Any,
    *,
    damping: float = 0.0,
    max_iter: int = 100,
    tolerance: float = 1e-6,
    n_jobs: int | None = None,
) -> Best:
    """Max-product on a grid: labels ``(H, W)`` with the best max-marginals.

    >>> found = grid_best(np.array([[[0.0, 1.0], [0.9, 0.0]]]), np.diag([0.0, 1.0]), np.eye(2))
    >>> found.labels.tolist(), found.score
    ([[1, 1]], 2.0)
    """
    s = checked_grid(unary, horizontal, vertical)
    core = _propagate(s, True, damping, max_iter, tolerance, n_jobs)
    labels = (s.unary + _messages(s, core).sum(axis=0)).argmax(axis=-1)
    sweeps, residual, converged = core.report()
    return Best(labels, _score(s, labels), False, converged, sweeps, residual)


def grid_score(unary: Any, horizontal: Any, vertical: Any, labels: Any) -> float:
    """The score of one labelling ``(H, W)``.

    >>> grid_score(np.zeros((2, 2, 2)), np.eye(2), 2 * np.eye(2), [[0, 0], [1, 0]])
    3.0
    """
    s = checked_grid(unary, horizontal, vertical)
    found = np.asarray(labels)
    if found.shape != s.unary.shape[:2] or found.dtype.kind not in "iu":
        raise InputError(
            f"labels must be integers of shape {s.unary.shape[:2]}, not {found.dtype} {found.shape}"
        )
    bad = np.argwhere((found < 0) | (found >= s.unary.shape[2]))
    if bad.size:
        raise InputError(f"pixel {bad[0].tolist()} has label {found[tuple(bad[0])]}: out of range")
    return _score(s, found)


def _score(s: GridScores, y: Integers) -> float:
    total = np.take_along_axis(s.unary, y[..., None], axis=-1).sum()
    for table, a, b in ((s.horizontal, y[:, :-1], y[:, 1:]), (s.vertical, y[:-1], y[1:])):
        if table.ndim == 2:
            total += table[a, b].sum()
        else:
            rows, columns = np.indices(a.shape)
            total += table[rows, columns, a, b].sum()
    return float(total)


def grid_edges(height: int, width: int) -> Integers:
    """Pairs of pixels, numbered row by row: all horizontal ones, then all vertical ones.

    >>> grid_edges(2, 2).tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """
    at = np.arange(height * width).reshape(height, width)
    sides = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in sides])


def grid_graph(unary: Any, horizontal: Any, vertical: Any) -> FactorGraph:
    """The same scores as a `FactorGraph`, for the other algorithms.

    >>> len(grid_graph(np.zeros((3, 4, 2)), np.eye(2), np.eye(2)))
    12
    """
    s = checked_grid(unary, horizontal, vertical)
    height, width, labels = s.unary.shape
    edges, split = grid_edges(height, width), height * (width - 1)
    entries: list[Any] = [(np.arange(height * width)[:, None], s.unary.reshape(-1, labels))]
    for own, table in ((edges[:split], s.horizontal), (edges[split:], s.vertical)):
        if len(own):
            shape = (labels, labels) if table.ndim == 2 else (len(own), labels, labels)
            entries.append((own, table.reshape(shape)))
    return FactorGraph(np.full(height * width, labels), entries)


def checked_grid(unary: Any, horizontal: Any, vertical: Any) -> GridScores:
    """Arrays of doubles that fit each other, without NaN and +inf."""
    try:
        found = [np.array(a, dtype=np.float64, order="C") for a in (unary, horizontal, vertical)]
    except (TypeError, ValueError):
        raise InputError("unary, horizontal and vertical must be arrays of numbers") from None
    u = found[0]
    if u.ndim != 3 or u.size == 0:
        raise InputError(f"unary must be (height, width, labels), none of them 0, not {u.shape}")
    height, width, labels = u.shape
    shapes = {
        "horizontal": (height, width - 1, labels, labels),
        "vertical": (height - 1, width, labels, labels),
    }
    for (name, shape), table in zip(shapes.items(), found[1:], strict=True):
        if table.shape not in (shape, (labels, labels)):
            raise InputError(
                f"{name} has shape {table.shape}: must be {(labels, labels)} or {shape}"
            )
    for name, array in zip(("unary", *shapes), found, strict=True):
        bad = np.argwhere(np.isnan(array) | (array == np.inf))
        if bad.size:
            raise InputError(f"{name} is {array[tuple(bad[0])]} at {bad[0].tolist()}")
    return GridScores(*found)


def _propagate(
    s: GridScores,
    maximise: bool,
    damping: float,
    max_iter: int,
    tolerance: float,
    n_jobs: int | None,
    weights: TreeWeights = TreeWeights(),  # noqa: B008 - of numbers, which cannot change
) -> _core.Grid:
    most, tolerance = checked_limits(max_iter, tolerance, damping)
    return _core.Grid(*s, maximise, float(damping), tolerance, most, resolve_jobs(n_jobs), *weights)


def _messages(s: GridScores, core: _core.Grid) -> Doubles:
    """From above, from below, from the left and from the right, ``(4, H, W, L)``."""
    out = np.empty((4, *s.unary.shape))
    core.messages(out)
    return out


def _cavities(s: GridScores, messages: Doubles, weights: TreeWeights) -> tuple[_Edges, _Edges]:
    """What each end of each edge hears but for the edge: sums, as a difference could be ∞ - ∞."""
    above, below, left, right = messages
    across = s.unary + weights.vertical * (above + below)
    along = s.unary + weights.horizontal * (left + right)
    first, second = _ends_of_lines(left, right, weights.horizontal)
    upper, lower = _ends_of_lines(above, below, weights.vertical)
    return (
        _Edges(
            (across + first)[:, :-1], (across + second)[:, 1:], s.horizontal, weights.horizontal
        ),
        _Edges((along + upper)[:-1], (along + lower)[1:], s.vertical, weights.vertical),
    )


def _ends_of_lines(before: Doubles, after: Doubles, weight: float) -> tuple[Doubles, Doubles]:
    """What a pixel hears along a line but for the edge after it, and but for that before it."""
    if weight == 1.0:
        return before, after
    less = [np.where(np.isneginf(m), 0.0, (1.0 - weight) * m) for m in (after, before)]
    return weight * before - less[0], weight * after - less[1]


def _ends(rows: Doubles) -> tuple[tuple[Doubles, Doubles], tuple[Doubles, Doubles]]:
    return (rows[:, :-1], rows[:, 1:]), (rows[:-1], rows[1:])


def _joint(edges: _Edges) -> Doubles:
    return edges.first[..., :, None] + edges.second[..., None, :] + edges.table / edges.weight


def _log_sum_exp(x: Doubles) -> Doubles:
    top = x.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(top[..., 0] + np.log(np.exp(x - top).sum(axis=-1)))


def _pairwise(edges: _Edges) -> tuple[Doubles, Doubles]:
    """Log Z and beliefs of the edges of one direction."""
    x = _joint(edges)
    flat = x.reshape(*x.shape[:2], x.shape[2] ** 2)
    log_z = _log_sum_exp(flat)
    p = np.exp(flat - log_z[..., None])
    return log_z, (p / p.sum(axis=-1, keepdims=True)).reshape(x.shape)
