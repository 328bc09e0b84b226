"""Belief propagation on grids, such as the pixels of an image, without a Python loop over pixels.

    score(y) = Σ unary[i, j, y_ij] + Σ horizontal[y_ij, y_i,j+1] + Σ vertical[y_ij, y_i+1,j]

A sweep passes messages down and up all columns, then along all rows in both directions. It updates
every message once. Each line is an exact chain given the messages that cross it, so a grid of one
row or one column is exact after one sweep. In the tree-reweighted variant, all edges of a direction
have the same weight, see `tree_weights`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trellis import _core
from trellis.checks import is_not_a_score, one_of
from trellis.errors import InfeasibleError, InputError
from trellis.inference.graph.belief import validate_limits
from trellis.inference.graph.factors import FactorGraph, describe_bad_score
from trellis.inference.graph.results import Best, Doubles, Integers
from trellis.native import resolve_jobs

__all__ = ["GridMarginals", "grid_best", "grid_edges", "grid_graph", "grid_marginals", "grid_score"]


class GridScores(NamedTuple):
    """Validated scores of a grid."""

    unary: Doubles  # (H, W, L)
    horizontal: Doubles  # (L, L) or (H, W-1, L, L)
    vertical: Doubles  # (L, L) or (H-1, W, L, L)


class TreeWeights(NamedTuple):
    """The fraction of spanning trees that contain an edge; 1 in plain belief propagation."""

    horizontal: float = 1.0
    vertical: float = 1.0


class _Edges(NamedTuple):
    """All edges of one direction."""

    first: Doubles
    """Cavity of the left or upper end, ``(…, L)``: its unary score and all messages to it except
    the one of this edge."""
    second: Doubles
    """Cavity of the right or lower end, ``(…, L)``."""
    table: Doubles
    weight: float


@dataclass(frozen=True, eq=False)
class GridMarginals:
    """Beliefs on a grid. Beliefs of pairs and log Z are computed when they are first read."""

    unary: Doubles
    """``(H, W, L)``"""
    converged: bool
    iterations: int
    residual: float
    """The largest change of a message in the last sweep."""
    _scores: GridScores = field(repr=False)
    _grid: _core.Grid = field(repr=False)
    kind: str = "Bethe"
    """The meaning of ``log_partition``: "Bethe" (an estimate), or "upper bound" if converged."""
    _weights: TreeWeights = field(default=TreeWeights(), repr=False)

    @cached_property
    def _messages(self) -> Doubles:
        return _messages(self._scores, self._grid)

    @cached_property
    def log_partition(self) -> float:
        """The Bethe estimate of log Z, or the tree-reweighted bound."""
        scores, (horizontal_weight, vertical_weight) = self._scores, self._weights
        above, below, left, right = self._messages
        log_v = _log_sum_exp(
            scores.unary + vertical_weight * (above + below) + horizontal_weight * (left + right)
        )
        log_z = float(log_v.sum())
        for (log_e, _), ends, weight in zip(
            self._pairs, _edge_ends(log_v), self._weights, strict=True
        ):
            log_z += weight * float((log_e - ends[0] - ends[1]).sum())
        return log_z

    @cached_property
    def _pairs(self) -> list[tuple[Doubles, Doubles]]:
        """For each direction, log Z and beliefs of the edges."""
        directions = _compute_cavities(self._scores, self._messages, self._weights)
        return [_edge_beliefs(cavity) for cavity in directions]

    @property
    def horizontal(self) -> Doubles:
        """``(H, W - 1, L, L)``: beliefs of horizontal neighbours."""
        return self._pairs[0][1]

    @property
    def vertical(self) -> Doubles:
        """``(H - 1, W, L, L)``: beliefs of vertical neighbours."""
        return self._pairs[1][1]


def grid_marginals(
    unary: ArrayLike,
    horizontal: ArrayLike,
    vertical: ArrayLike,
    *,
    method: str = "bp",
    damping: float = 0.0,
    max_iter: int = 100,
    tolerance: float = 1e-6,
    n_jobs: int | None = None,
) -> GridMarginals:
    """Compute beliefs p(y_ij) by sum-product on a grid with ``unary`` scores (H, W, L).

    ``horizontal`` and ``vertical`` are (L, L), or one table per edge: (H, W-1, L, L) and
    (H-1, W, L, L). -inf forbids a label or a pair. ``method`` is "bp" (belief propagation) or "trw"
    (tree-reweighted: it has one fixed point, and log Z is an upper bound there). Results are
    the same bits for every ``n_jobs``.

    >>> unary = np.log([[[0.9, 0.1], [0.5, 0.5]]])
    >>> p = grid_marginals(unary, np.log([[0.8, 0.2], [0.2, 0.8]]), np.eye(2))
    >>> p.unary.round(2).tolist(), p.converged
    ([[[0.9, 0.1], [0.74, 0.26]]], True)
    """
    scores = validate_grid(unary, horizontal, vertical)
    one_of(method, ("bp", "trw"), "method")
    weights = tree_weights(*scores.unary.shape[:2]) if method == "trw" else TreeWeights()
    core = _propagate(scores, False, damping, max_iter, tolerance, n_jobs, weights)
    p = np.empty_like(scores.unary)
    if not core.beliefs(p):
        raise InfeasibleError("no labelling is allowed: the scores forbid all labels of a pixel")
    sweeps, residual, converged = core.report()
    kind = "upper bound" if method == "trw" else "Bethe"
    return GridMarginals(p, converged, sweeps, residual, scores, core, kind, weights)


def tree_weights(height: int, width: int) -> TreeWeights:
    """Return the fraction of spanning trees that contain a horizontal edge, and a vertical edge.

    Half of the trees consist of all rows, joined along one column; each column is used equally
    often. The other half consist of all columns, joined along one row.

    >>> tree_weights(1, 9).horizontal, tree_weights(2, 4)
    (1.0, TreeWeights(horizontal=0.75, vertical=0.625))
    """
    return TreeWeights(0.5 * (1.0 + 1.0 / height), 0.5 * (1.0 + 1.0 / width))


def grid_best(
    unary: ArrayLike,
    horizontal: ArrayLike,
    vertical: ArrayLike,
    *,
    damping: float = 0.0,
    max_iter: int = 100,
    tolerance: float = 1e-6,
    n_jobs: int | None = None,
) -> Best:
    """Return the labels ``(H, W)`` with the best max-marginals, by max-product on a grid.

    >>> best = grid_best(np.array([[[0.0, 1.0], [0.9, 0.0]]]), np.diag([0.0, 1.0]), np.eye(2))
    >>> best.labels.tolist(), best.score
    ([[1, 1]], 2.0)
    """
    scores = validate_grid(unary, horizontal, vertical)
    core = _propagate(scores, True, damping, max_iter, tolerance, n_jobs)
    labels = (scores.unary + _messages(scores, core).sum(axis=0)).argmax(axis=-1)
    sweeps, residual, converged = core.report()
    return Best(labels, _score(scores, labels), False, converged, sweeps, residual)


def grid_score(
    unary: ArrayLike, horizontal: ArrayLike, vertical: ArrayLike, labels: ArrayLike
) -> float:
    """Compute the score of one labelling ``(H, W)``.

    >>> grid_score(np.zeros((2, 2, 2)), np.eye(2), 2 * np.eye(2), [[0, 0], [1, 0]])
    3.0
    """
    scores = validate_grid(unary, horizontal, vertical)
    y = np.asarray(labels)
    if y.shape != scores.unary.shape[:2] or y.dtype.kind not in "iu":
        raise InputError(
            f"labels must be integers of shape {scores.unary.shape[:2]}, not {y.dtype} {y.shape}"
        )
    invalid = np.argwhere((y < 0) | (y >= scores.unary.shape[2]))
    if invalid.size:
        label, max_label = y[tuple(invalid[0])], scores.unary.shape[2] - 1
        raise InputError(f"pixel {invalid[0].tolist()} has label {label}: must be 0 to {max_label}")
    return _score(scores, y)


def _score(scores: GridScores, y: Integers) -> float:
    total = np.take_along_axis(scores.unary, y[..., None], axis=-1).sum()
    for table, a, b in ((scores.horizontal, y[:, :-1], y[:, 1:]), (scores.vertical, y[:-1], y[1:])):
        if table.ndim == 2:
            total += table[a, b].sum()
        else:
            rows, columns = np.indices(a.shape)
            total += table[rows, columns, a, b].sum()
    return float(total)


def grid_edges(height: int, width: int) -> Integers:
    """Return the pixels of each edge (edges, 2): first all horizontal, then all vertical edges.

    Pixels are numbered row by row.

    >>> grid_edges(2, 2).tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """
    pixel = np.arange(height * width).reshape(height, width)
    pixel_pairs = [(pixel[:, :-1], pixel[:, 1:]), (pixel[:-1], pixel[1:])]
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pixel_pairs])


def grid_graph(unary: ArrayLike, horizontal: ArrayLike, vertical: ArrayLike) -> FactorGraph:
    """Return the same scores as a `FactorGraph`, for the other algorithms.

    >>> len(grid_graph(np.zeros((3, 4, 2)), np.eye(2), np.eye(2)))
    12
    """
    scores = validate_grid(unary, horizontal, vertical)
    height, width, n_labels = scores.unary.shape
    edges, n_horizontal = grid_edges(height, width), height * (width - 1)
    entries: list[Any] = [(np.arange(height * width)[:, None], scores.unary.reshape(-1, n_labels))]
    for pairs, table in (
        (edges[:n_horizontal], scores.horizontal),
        (edges[n_horizontal:], scores.vertical),
    ):
        if len(pairs):
            shape = (n_labels, n_labels) if table.ndim == 2 else (len(pairs), n_labels, n_labels)
            entries.append((pairs, table.reshape(shape)))
    return FactorGraph(np.full(height * width, n_labels), entries)


def validate_grid(unary: Any, horizontal: Any, vertical: Any) -> GridScores:
    """Return the scores as float64 arrays; raise InputError for wrong shapes, NaN or +inf."""
    try:
        arrays = [
            np.array(value, dtype=np.float64, order="C") for value in (unary, horizontal, vertical)
        ]
    except (TypeError, ValueError):
        raise InputError("unary, horizontal and vertical must be arrays of numbers") from None
    unary_array = arrays[0]
    if unary_array.ndim != 3 or unary_array.size == 0:
        raise InputError(
            f"unary must be (height, width, labels), all at least 1, not {unary_array.shape}"
        )
    height, width, n_labels = unary_array.shape
    shapes = {
        "horizontal": (height, width - 1, n_labels, n_labels),
        "vertical": (height - 1, width, n_labels, n_labels),
    }
    for (name, shape), table in zip(shapes.items(), arrays[1:], strict=True):
        if table.shape not in (shape, (n_labels, n_labels)):
            raise InputError(
                f"{name} has shape {table.shape}: must be {(n_labels, n_labels)} or {shape}"
            )
    for name, array in zip(("unary", *shapes), arrays, strict=True):
        invalid = np.argwhere(is_not_a_score(array))
        if invalid.size:
            raise InputError(f"{name}{describe_bad_score(array, tuple(invalid[0].tolist()))}")
    return GridScores(*arrays)


def _propagate(
    scores: GridScores,
    maximise: bool,
    damping: float,
    max_iter: int,
    tolerance: float,
    n_jobs: int | None,
    weights: TreeWeights = TreeWeights(),  # noqa: B008 - immutable
) -> _core.Grid:
    limit, tolerance = validate_limits(max_iter, tolerance, damping)
    threads = resolve_jobs(n_jobs)
    return _core.Grid(*scores, maximise, float(damping), tolerance, limit, threads, *weights)


def _messages(scores: GridScores, core: _core.Grid) -> Doubles:
    """Return the messages to each pixel from above, below, left and right, ``(4, H, W, L)``."""
    messages = np.empty((4, *scores.unary.shape))
    core.messages(messages)
    return messages


def _compute_cavities(
    scores: GridScores, messages: Doubles, weights: TreeWeights
) -> tuple[_Edges, _Edges]:
    """Compute the cavities of the two ends of each edge, for both directions.

    A cavity is computed as the sum of the other messages, not as the belief minus the message of
    the edge, which could be ∞ - ∞.
    """
    above, below, left, right = messages
    without_row = scores.unary + weights.vertical * (above + below)
    without_column = scores.unary + weights.horizontal * (left + right)
    first, second = _line_messages(left, right, weights.horizontal)
    upper, lower = _line_messages(above, below, weights.vertical)
    return (
        _Edges(
            (without_row + first)[:, :-1],
            (without_row + second)[:, 1:],
            scores.horizontal,
            weights.horizontal,
        ),
        _Edges(
            (without_column + upper)[:-1],
            (without_column + lower)[1:],
            scores.vertical,
            weights.vertical,
        ),
    )


def _line_messages(before: Doubles, after: Doubles, weight: float) -> tuple[Doubles, Doubles]:
    """Return two sums of the messages along a line at each pixel.

    The first is without the message of the next edge, the second without that of the previous edge.
    In the tree-reweighted variant, the cavity is b_v - m: the weighted sum of all messages minus
    the full message of the edge.
    """
    if weight == 1.0:
        return before, after
    # A message of -inf already forbids the label in the sum. Subtracting it would give NaN.
    corrections = [
        np.where(np.isneginf(message), 0.0, (1.0 - weight) * message) for message in (after, before)
    ]
    return weight * before - corrections[0], weight * after - corrections[1]


def _edge_ends(rows: Doubles) -> tuple[tuple[Doubles, Doubles], tuple[Doubles, Doubles]]:
    """Return the values at both ends of each horizontal edge, and of each vertical edge."""
    return (rows[:, :-1], rows[:, 1:]), (rows[:-1], rows[1:])


def _log_beliefs(edges: _Edges) -> Doubles:
    """Compute the log of the unnormalised beliefs of the edges, ``(…, L, L)``."""
    return edges.first[..., :, None] + edges.second[..., None, :] + edges.table / edges.weight


def _log_sum_exp(x: Doubles) -> Doubles:
    maximum = x.max(axis=-1, keepdims=True)
    maximum = np.where(np.isfinite(maximum), maximum, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(maximum[..., 0] + np.log(np.exp(x - maximum).sum(axis=-1)))


def _edge_beliefs(edges: _Edges) -> tuple[Doubles, Doubles]:
    """Compute log Z and beliefs of the edges of one direction."""
    log_beliefs = _log_beliefs(edges)
    flat_beliefs = log_beliefs.reshape(*log_beliefs.shape[:2], log_beliefs.shape[2] ** 2)
    log_z = _log_sum_exp(flat_beliefs)
    p = np.exp(flat_beliefs - log_z[..., None])
    return log_z, (p / p.sum(axis=-1, keepdims=True)).reshape(log_beliefs.shape)
