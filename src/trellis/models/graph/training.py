"""What learning on graphs with loops needs besides a loss: a start, a scale, and a look back.

Messages settle where pairs are weak, and may not where they are strong and nodes say little. So learning
begins at the weights that nodes alone would have, and goes from there in features that are made round.
"""  # noqa: E501

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from trellis.models.graph.losses import Targets, hamming, indicators
from trellis.models.graph.samples import Doubles, Fields, Integers, Matrix, Shape
from trellis.optim.result import Callback, Objective, Progress, Result, read_only

__all__ = ["Report", "Scaling", "Steps", "solve_loopy"]

_ALONE = 200  # iterations without edges, which are without inference
_MOST_ROUND = 512  # features that are decorrelated; more are only scaled, each by itself
_ROUGH = 1e-2  # a change of messages that marginals show
_MOST_STEPS = 100  # if max_iter is None: each takes many sweeps, and the last gain little
_SLACK = 0.005  # of all training nodes: so much worse than nodes alone is not worth a word


class Scaling:
    """w = T u, with T of the features such that the loss curves about alike in all directions of u.

    The curvature of Σ -log p by the weights of a label is at most XᵀX / 4 + l2 = R Rᵀ, so T = R⁻ᵀ
    for the nodes of every label and likewise for the pairs. The loss itself stays what it is.
    """

    def __init__(self, fields: Fields, shape: Shape, l2: float) -> None:
        self._shape = shape
        self._both = _root(fields.nodes, l2), _root(fields.edge_features, l2)

    def weights(self, u: Doubles) -> Doubles:
        """T u."""
        return self._each(u, lambda root, rows: root.solve_transposed(rows))

    def scaled(self, w: Doubles) -> Doubles:
        """T⁻¹ w."""
        return self._each(w, lambda root, rows: root.times_transposed(rows))

    def gradient(self, g: Doubles) -> Doubles:
        """Tᵀ g."""
        return self._each(g, lambda root, rows: root.solve(rows))

    def _each(self, w: Doubles, turn: Callable[["_Root", Doubles], Doubles]) -> Doubles:
        """By the node features, and by the edge features."""
        own, pairs = self._shape.split(w)
        first = turn(self._both[0], own.T).T
        second = turn(self._both[1], pairs.reshape(self._shape.edges, -1))
        return np.concatenate([first.ravel(), second.ravel()])

    def objective(self, inner: Objective) -> Objective:
        """The same loss as a function of u."""

        def evaluate(u: Doubles, gradient: Doubles) -> float:
            loss = inner(self.weights(u), gradient)
            gradient[:] = self.gradient(gradient)
            return loss

        return evaluate

    def progress(self, progress: Progress) -> Progress:
        """With weights as they are meant."""
        return progress._replace(w=read_only(self.weights(progress.w)), state=None)


class _Root:
    """R of a positive matrix R Rᵀ: a triangle, or a diagonal as a vector."""

    def __init__(self, r: Doubles) -> None:
        self._r = r
        self._inverse: Doubles = 1.0 / r if r.ndim == 1 else np.asarray(np.linalg.inv(r), float)

    def _times(self, matrix: Doubles, rows: Doubles) -> Doubles:
        return matrix[:, None] * rows if matrix.ndim == 1 else matrix @ rows

    def solve(self, rows: Doubles) -> Doubles:
        return self._times(self._inverse, rows)

    def solve_transposed(self, rows: Doubles) -> Doubles:
        return self._times(self._inverse.T, rows)

    def times_transposed(self, rows: Doubles) -> Doubles:
        return self._times(self._r.T, rows)


def _root(features: Matrix, l2: float) -> _Root:
    count = features.shape[1]
    if sparse.issparse(features) or count > _MOST_ROUND:
        squares = features.multiply(features) if sparse.issparse(features) else features**2
        curve = 0.25 * np.asarray(squares.sum(axis=0)).ravel() + l2
        return _Root(np.sqrt(np.where(curve > 0.0, curve, 1.0)))
    curve = 0.25 * np.asarray(features.T @ features) + l2 * np.eye(count)
    # features may say the same twice, and l2 may be 0
    curve += np.diag(np.where(curve.diagonal() > 0.0, 1e-10 * curve.trace(), 1.0))
    return _Root(np.asarray(np.linalg.cholesky(curve), float))


def without_edges(fields: Fields) -> Fields:
    """The nodes alone."""
    return replace(
        fields,
        edges=fields.edges[:0],
        edge_features=fields.edge_features[:0],
        edge_begin=np.zeros_like(fields.edge_begin),
    )


class Report(NamedTuple):
    """A look back at the samples that were learnt from."""

    train_score: float
    """The share of nodes whose most probable label is right."""
    alone_score: float
    """The same of the nodes alone, without edges."""
    residual: float
    """The largest change of a message in the last sweep."""


def _warn(found: Report, name: str, bounded: bool) -> None:
    """Say what the user would want to know before using the model."""
    told = []
    if bounded:
        told.append(
            "belief propagation does not settle beyond the weights where learning ended: "
            "try objective='trw', a larger l2, or damping"
        )
    if found.residual > _ROUGH:
        told.append(
            f"messages still change by {found.residual:.2g} in the last sweep: "
            "raise max_sweeps, damping or l2"
        )
    if found.train_score < found.alone_score - _SLACK:
        told.append(
            f"{100 * found.train_score:.1f} % of the training nodes are right, of the nodes alone "
            f"{100 * found.alone_score:.1f} %: pairs do harm"
        )
    if told:
        warnings.warn(f"{name}: {'. '.join(told)}", ConvergenceWarning, stacklevel=6)


def solve_loopy(
    model: Any, fields: Fields, y: Targets, shape: Shape, each: Callback
) -> tuple[Result[Any], Report]:
    """From the weights of the nodes alone, where messages say nothing and so are right."""
    scaling = Scaling(fields, shape, model.l2) if model.l1 == 0 else None
    seen = each if scaling is None else lambda progress: each(scaling.progress(progress))

    def loss(name: str) -> Objective:
        own = without_edges(fields) if name == "pseudolikelihood" else fields
        found: Objective = model._objective_of(own, y, shape, name)
        return found if scaling is None else scaling.objective(found)

    alone = model._descend(loss("pseudolikelihood"), np.zeros(shape.size), _ALONE, None).w
    result = model._descend(
        loss(model.objective), alone.copy(), model.max_iter or _MOST_STEPS, seen
    )
    if scaling is not None:
        alone, result = scaling.weights(alone), replace(result, w=scaling.weights(result.w))
    found = _look_back(model, fields, y, shape, result.w, alone)
    bounded = model.objective == "bethe" and result.message.startswith("the line search failed")
    _warn(found, type(model).__name__, bounded)
    return result, found


def _look_back(
    model: Any, fields: Fields, y: Targets, shape: Shape, w: Doubles, alone: Doubles
) -> Report:
    """The training nodes with the weights that were learnt."""
    joint, single, residual = 0, 0, 0.0
    for own, targets, engine in model._parts(fields, y, shape.labels):
        run = engine.trw if model.objective == "trw" else engine.bethe
        found = run(*own.scores(model._tied(w, shape), shape, model.allowed_))
        unary, _ = own.scores(alone, shape, model.allowed_)
        joint += int(np.sum(found.nodes.argmax(axis=1) == targets.labels))
        single += int(np.sum(unary.argmax(axis=1) == targets.labels))
        residual = max(residual, found.residual)
    return Report(joint / len(y.labels), single / len(y.labels), residual)


class Steps:
    """One sample at a time, for the perceptron and for Frank–Wolfe."""

    def __init__(self, model: Any, fields: Fields, y: Targets, shape: Shape) -> None:
        self._model, self._shape, self._weights = model, shape, y.weights
        self._samples = [fields.part(i, i + 1) for i in range(len(fields))]
        self._labels = np.split(y.labels, fields.node_begin[1:-1])
        self._engines = [model._engine(own, shape.labels) for own in self._samples]

    def _difference(self, i: int, guess: Integers) -> Doubles:
        """φ(x, y) - φ(x, ŷ)."""
        own, shape = self._samples[i], (len(guess), self._shape.labels)
        right, wrong = indicators(self._labels[i], shape, own), indicators(guess, shape, own)
        out = np.zeros(self._shape.size)
        own.gradient(right[0] - wrong[0], right[1] - wrong[1], self._shape, out)
        tied: Doubles = self._model._tied(out, self._shape)
        return tied

    def worst(self, i: int, w: Doubles) -> tuple[Doubles, float]:
        """ψ and Δ of the labelling that breaks the margin most."""
        unary, tables = self._samples[i].scores(w, self._shape, self._model.allowed_)
        cost = hamming(self._labels[i], unary.shape)
        guess = self._engines[i].best(unary + cost, tables)
        weight = self._weights[i]
        errors = float(np.sum(guess != self._labels[i]))
        return weight * self._difference(i, guess), weight * errors

    def perceptron(
        self, order: Integers, w: Doubles, total: Doubles, steps: int
    ) -> tuple[int, int]:
        """An epoch of w ← w + φ(x, y) - φ(x, ŷ)."""
        errors = 0
        for i in order.tolist():
            unary, tables = self._samples[i].scores(w, self._shape, self._model.allowed_)
            guess = self._engines[i].best(unary, tables)
            wrong = int(np.sum(guess != self._labels[i]))
            if wrong:
                change = self._weights[i] * self._difference(i, guess)
                w += change
                total += steps * change
                errors += wrong
            steps += 1
        return errors, steps
