"""Training with message passing on graphs with loops, and training with one sample at a time.

Messages converge if the pair weights are small. They may not converge if the pair weights are large
and the nodes carry little information. So `train_by_messages` starts at the weights of a model
without edges. It optimises in whitened features, so that no single step makes pair weights large.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.models.graph.inference import Engine
from trellis.models.graph.losses import Targets, hamming, indicators
from trellis.models.graph.samples import Doubles, Integers, Matrix, Samples, Scores, Shape
from trellis.optim.result import Callback, Objective, Progress, Result, read_only

__all__ = ["Report", "SingleSamples", "Whitening", "train_by_messages"]

_NODES_ONLY_ITERATIONS = 200  # they take little time, because there is no inference without edges
# Up to this number, features are decorrelated by a Cholesky factor. A larger number of features is
# only scaled, because the factor would take d² memory and d³ time.
_MAX_DECORRELATED = 512
_VISIBLE_RESIDUAL = 1e-2  # above this change of the messages, the marginals change visibly
# The default of max_iter. Each iteration takes many sweeps, and later iterations gain little.
_MAX_ITERATIONS = 100
# fit warns if the edges reduce the accuracy on the training nodes by more than this fraction.
_TOLERATED_LOSS = 0.005


class Model(Protocol):
    """The attributes and methods of a model that training uses (see base.py)."""

    objective: str
    l2: float
    l1: float
    max_iter: int | None
    allowed_: NDArray[np.bool_] | None

    def _objective_of(
        self, samples: Samples, targets: Targets, shape: Shape, objective: str
    ) -> Objective: ...
    def _minimise(
        self, objective: Objective, w0: Doubles, max_iter: Any, callback: Any
    ) -> Result[Any]: ...
    def _create_engine(self, samples: Samples, n_labels: int) -> Engine: ...
    def _tie_weights(self, w: Doubles, shape: Shape) -> Doubles: ...
    def _iterate_slices(
        self, samples: Samples, targets: Targets, n_labels: int
    ) -> Iterator[tuple[Samples, Targets, Engine]]: ...


class Whitening:
    """w = T u, where T makes the curvature of the loss about the same in all directions of u.

    X are the features of the nodes. The curvature of Σ -log p by the weights of one label is at
    most XᵀX / 4 + l2 = R Rᵀ. So T = R⁻ᵀ for these weights, and likewise for those of edges and
    cliques. The value of the loss does not change.
    """

    def __init__(self, samples: Samples, shape: Shape, l2: float) -> None:
        self._shape = shape
        self._node_root = _curvature_root(samples.nodes, l2)
        self._factor_roots = [_curvature_root(factor.features, l2) for factor in samples.factors]

    def weights(self, u: Doubles) -> Doubles:
        """Return w = T u."""
        return self._transform(u, lambda root, rows: root.solve_transposed(rows))

    def coordinates(self, w: Doubles) -> Doubles:
        """Return u = T⁻¹ w."""
        return self._transform(w, lambda root, rows: root.times_transposed(rows))

    def gradient(self, g: Doubles) -> Doubles:
        """Return the gradient by u, Tᵀ g, from the gradient g by w."""
        return self._transform(g, lambda root, rows: root.solve(rows))

    def _transform(self, w: Doubles, function: Callable[["_Root", Doubles], Doubles]) -> Doubles:
        """Apply a function to the weights of nodes, edges and cliques."""
        node_weights, *factor_weights = self._shape.split(w)
        parts = [function(self._node_root, node_weights.T).T]
        for root, weights in zip(self._factor_roots, factor_weights, strict=True):
            parts.append(function(root, weights.reshape(len(weights), -1)))
        return np.concatenate([part.ravel() for part in parts])

    def objective(self, inner: Objective) -> Objective:
        """Return the same loss as a function of u."""

        def evaluate(u: Doubles, gradient: Doubles) -> float:
            loss = inner(self.weights(u), gradient)
            gradient[:] = self.gradient(gradient)
            return loss

        return evaluate

    def progress(self, progress: Progress) -> Progress:
        """Return the progress with weights w in place of u."""
        return progress._replace(w=read_only(self.weights(progress.w)), state=None)


class _Root:
    """R of a positive definite matrix R Rᵀ: lower triangular, or the diagonal of a diagonal R."""

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


def _curvature_root(features: Matrix, l2: float) -> _Root:
    """Return R with R Rᵀ ≈ XᵀX / 4 + l2."""
    n_features = features.shape[1]
    if sparse.issparse(features) or n_features > _MAX_DECORRELATED:
        squares = features.multiply(features) if sparse.issparse(features) else features**2
        curvature = 0.25 * np.asarray(squares.sum(axis=0)).ravel() + l2
        return _Root(np.sqrt(np.where(curvature > 0.0, curvature, 1.0)))
    curvature = 0.25 * np.asarray(features.T @ features) + l2 * np.eye(n_features)
    # Without this, equal columns or columns of zeros make the matrix singular when l2 is 0.
    curvature += np.diag(np.where(curvature.diagonal() > 0.0, 1e-10 * curvature.trace(), 1.0))
    return _Root(np.asarray(np.linalg.cholesky(curvature), float))


class Report(NamedTuple):
    """Quality of a model after training with message passing, on its training samples."""

    train_score: float
    """The fraction of nodes whose most probable label is correct."""
    alone_score: float
    """The same fraction for a model without edges."""
    residual: float
    """The largest change of a message in the last sweep."""


def train_by_messages(
    model: Model, samples: Samples, targets: Targets, shape: Shape, callback: Callback
) -> tuple[Result[Any], Report]:
    """Minimise a loss with message passing, starting at the weights of a model without edges.

    At this start, the pair weights are zero, so the messages are constant and the loss is exact.
    """
    # The L1 penalty applies to w, and each u mixes several weights. So L1 excludes whitening.
    whitening = Whitening(samples, shape, model.l2) if model.l1 == 0 else None
    after_iteration = callback if whitening is None else lambda p: callback(whitening.progress(p))

    def build_loss(name: str) -> Objective:
        graphs = samples.without_factors() if name == "pseudolikelihood" else samples
        objective = model._objective_of(graphs, targets, shape, name)
        return objective if whitening is None else whitening.objective(objective)

    zero_weights = np.zeros(shape.size)
    nodes_only_w = model._minimise(
        build_loss("pseudolikelihood"), zero_weights, _NODES_ONLY_ITERATIONS, None
    ).w
    max_iter = model.max_iter or _MAX_ITERATIONS
    result = model._minimise(
        build_loss(model.objective), nodes_only_w.copy(), max_iter, after_iteration
    )
    if whitening is not None:
        nodes_only_w = whitening.weights(nodes_only_w)
        result = replace(result, w=whitening.weights(result.w))
    report = _evaluate(model, samples, targets, shape, (result.w, nodes_only_w))
    # The Bethe loss is infinite where messages do not converge, so the line search fails there.
    search_failed = model.objective == "bethe" and result.message.startswith(
        "the line search failed"
    )
    _warn(report, type(model).__name__, search_failed)
    return result, report


def _evaluate(
    model: Model,
    samples: Samples,
    targets: Targets,
    shape: Shape,
    weights: tuple[Doubles, Doubles],
) -> Report:
    """Evaluate the weights of the model, and those without edges, on the training samples.

    Nodes with unknown labels do not count. At a node with a set of labels, each of them is correct.
    """
    w, nodes_only = weights
    n_nodes, n_correct, n_correct_without_edges, residual = 0, 0, 0, 0.0
    for slice_samples, slice_targets, engine in model._iterate_slices(
        samples, targets, shape.n_labels
    ):
        compute_marginals = engine.trw if model.objective == "trw" else engine.bethe
        marginals = compute_marginals(
            slice_samples.scores(model._tie_weights(w, shape), shape, model.allowed_)
        )
        unary = slice_samples.scores(nodes_only, shape, model.allowed_).unary
        is_counted, is_correct = slice_targets.correctness(unary.shape)
        nodes = np.flatnonzero(is_counted)
        n_nodes += len(nodes)
        n_correct += int(is_correct[nodes, marginals.nodes[nodes].argmax(axis=1)].sum())
        n_correct_without_edges += int(is_correct[nodes, unary[nodes].argmax(axis=1)].sum())
        residual = max(residual, marginals.residual)
    n_nodes = max(n_nodes, 1)
    return Report(n_correct / n_nodes, n_correct_without_edges / n_nodes, residual)


def _warn(report: Report, name: str, search_failed: bool) -> None:
    """Warn if the messages did not converge, or if the edges reduce the accuracy."""
    from sklearn.exceptions import ConvergenceWarning  # importing scikit-learn takes a second

    problems = []
    if search_failed:
        problems.append(
            "belief propagation does not converge beyond the weights where training ended: "
            "try objective='trw', a larger l2, or damping"
        )
    if report.residual > _VISIBLE_RESIDUAL:
        problems.append(
            f"messages still change by {report.residual:.2g} in the last sweep: "
            "increase max_sweeps, damping or l2"
        )
    if report.train_score < report.alone_score - _TOLERATED_LOSS:
        problems.append(
            f"the edge potentials reduce accuracy: {100 * report.train_score:.1f} % of the "
            f"training nodes are correct, and {100 * report.alone_score:.1f} % without edges"
        )
    if problems:
        # Level 6 is the caller of fit: _warn, train_by_messages, _solve, _fit, fit, caller.
        warnings.warn(f"{name}: {'. '.join(problems)}", ConvergenceWarning, stacklevel=6)


class SingleSamples:
    """Updates from one sample at a time, for the perceptron and for Frank–Wolfe."""

    def __init__(self, model: Model, samples: Samples, targets: Targets, shape: Shape) -> None:
        self._model, self._shape, self._weights = model, shape, targets.weights
        self._samples = [samples.part(i, i + 1) for i in range(len(samples))]
        self._labels = np.split(targets.labels, samples.node_begin[1:-1])
        self._engines = [model._create_engine(sample, shape.n_labels) for sample in self._samples]

    def _feature_difference(self, i: int, labels: Integers) -> Doubles:
        """Return φ(x, y) - φ(x, ŷ), where ŷ are ``labels``."""
        sample, shape = self._samples[i], (len(labels), self._shape.n_labels)
        correct_indicators, guess_indicators = (
            indicators(y, shape, sample) for y in (self._labels[i], labels)
        )
        gradient = np.zeros(self._shape.size)
        tables = zip(correct_indicators.tables, guess_indicators.tables, strict=True)
        difference = Scores(
            correct_indicators.unary - guess_indicators.unary,
            tuple(correct - guess for correct, guess in tables),
        )
        sample.add_gradient(difference, self._shape, gradient)
        return self._model._tie_weights(gradient, self._shape)

    def most_violated(self, i: int, w: Doubles) -> tuple[Doubles, float]:
        """Return φ(x, y) - φ(x, ŷ) and the number of errors of ŷ, both times the sample weight.

        ŷ is the labelling that violates the margin the most.
        """
        scores = self._samples[i].scores(w, self._shape, self._model.allowed_)
        cost = hamming(self._labels[i], scores.unary.shape)
        worst_labels = self._engines[i].best_labels(scores._replace(unary=scores.unary + cost))
        weight = self._weights[i]
        errors = float(np.sum(worst_labels != self._labels[i]))
        return weight * self._feature_difference(i, worst_labels), weight * errors

    def perceptron(
        self, order: Integers, w: Doubles, total: Doubles, steps: int
    ) -> tuple[int, int]:
        """Run one epoch of w ← w + φ(x, y) - φ(x, ŷ). Return its errors and the new step count.

        ``total`` accumulates steps · change, from which the averaged weights are computed.
        """
        errors = 0
        for i in order.tolist():
            scores = self._samples[i].scores(w, self._shape, self._model.allowed_)
            best_labels = self._engines[i].best_labels(scores)
            n_wrong = int(np.sum(best_labels != self._labels[i]))
            if n_wrong:
                change = self._weights[i] * self._feature_difference(i, best_labels)
                w += change
                total += steps * change
                errors += n_wrong
            steps += 1
        return errors, steps
