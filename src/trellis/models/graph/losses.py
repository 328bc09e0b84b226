"""The losses of graph models, as functions of the scores.

A loss has a value and derivatives by the unary scores (N, L) and by the tables (E, L, L). The
derivatives of log Z are the marginals p. The derivative of the score of a labelling is its
indicator: 1 at its labels, 0 elsewhere. So nearly every loss has this form:

    loss = Σ weight (level - score(y)),     ∂loss = weight (p - indicator(y))

For likelihoods, the level is log Z. For the perceptron and the structured support vector machine,
the level is the score of the best labelling, and p is its indicator.
"""

from typing import NamedTuple

import numpy as np

from trellis.models.graph.inference import Engine, Marginals, sample_scores
from trellis.models.graph.samples import Doubles, Integers, Samples, Scores

__all__ = ["MESSAGES", "OBJECTIVES", "Loss", "Targets", "loss_of"]

OBJECTIVES = ("likelihood", "pseudolikelihood", "trw", "bethe", "perceptron", "ssvm")
MESSAGES = (
    "trw",
    "bethe",
)  # the likelihood with an approximation of log Z, computed with message passing
# Messages stop at this residual. At a fixed point the derivative of a loss by the messages is 0,
# so the error of the loss is about the square of this number.
TOLERANCE = 1e-6
# Below this residual, the value and the gradient of a loss are consistent enough for a line search.
MAX_RESIDUAL = 1e-4


class Loss(NamedTuple):
    """The loss of some samples, and its derivatives."""

    value: float
    d_scores: Scores
    """Derivatives by the unary scores ``(N, L)`` and by the tables ``(E, L, L)``."""
    residual: float = 0.0
    """The largest change of a message in the last sweep; 0 for losses without messages."""


class Targets(NamedTuple):
    """The correct labels of some samples, and the weight of each sample."""

    labels: Integers
    """``(N,)``"""
    weights: Doubles
    """``(samples,)``"""


def loss_of(
    objective: str, samples: Samples, engine: Engine, targets: Targets, scores: Scores
) -> Loss:
    """Return the loss of some samples for these scores."""
    if objective == "pseudolikelihood":
        return pseudolikelihood(samples, targets, scores)
    if objective in ("likelihood", *MESSAGES):
        compute_marginals = {"likelihood": engine.exact, "bethe": engine.bethe, "trw": engine.trw}[
            objective
        ]
        return _subtract_correct_score(samples, targets, scores, compute_marginals(scores))
    # The hinge loss adds 1 to the score of each wrong label: the margin.
    costs = hamming(targets.labels, scores.unary.shape) if objective == "ssvm" else 0.0
    augmented_scores = Scores(scores.unary + costs, scores.tables)
    best_labels = engine.best_labels(augmented_scores)
    levels = sample_scores(samples, best_labels, augmented_scores)
    return _subtract_correct_score(
        samples,
        targets,
        scores,
        Marginals(levels, *indicators(best_labels, scores.unary.shape, samples)),
    )


def _subtract_correct_score(
    samples: Samples, targets: Targets, scores: Scores, p: Marginals
) -> Loss:
    """Return Σ weight (p.log_z - score(y)) and its derivative, weight (p - indicator(y))."""
    correct_indicators = indicators(targets.labels, scores.unary.shape, samples)
    node_weights = targets.weights[samples.sample_of_nodes()]
    edge_weights = targets.weights[samples.sample_of_edges()]
    return Loss(
        float(targets.weights @ (p.log_z - sample_scores(samples, targets.labels, scores))),
        Scores(
            node_weights[:, None] * (p.nodes - correct_indicators.unary),
            edge_weights[:, None, None] * (p.pairs - correct_indicators.tables),
        ),
        p.residual,
    )


def hamming(labels: Integers, shape: tuple[int, ...]) -> Doubles:
    """Return the cost ``(N, L)`` of each label: 0 if it is correct, 1 otherwise."""
    cost = np.ones(shape)
    cost[np.arange(len(labels)), labels] = 0.0
    return cost


def indicators(labels: Integers, shape: tuple[int, ...], samples: Samples) -> Scores:
    """Return 1 at the labels of a labelling and 0 elsewhere, for nodes and for edges."""
    nodes = np.zeros(shape)
    nodes[np.arange(len(labels)), labels] = 1.0
    pairs = np.zeros((len(samples.edges), shape[1], shape[1]))
    a, b = samples.edges.T
    pairs[np.arange(len(pairs)), labels[a], labels[b]] = 1.0
    return Scores(nodes, pairs)


def log_conditionals(samples: Samples, labels: Integers, scores: Scores) -> Doubles:
    """log p(y_v | the labels of its neighbours) for each node and label, ``(N, L)``."""
    a, b = samples.edges.T
    log_p, edges = scores.unary.copy(), np.arange(len(scores.tables))
    for y in range(log_p.shape[1]):
        log_p[:, y] += np.bincount(a, scores.tables[edges, y, labels[b]], len(log_p))
        log_p[:, y] += np.bincount(b, scores.tables[edges, labels[a], y], len(log_p))
    log_p -= log_p.max(axis=1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(axis=1, keepdims=True))
    return log_p


def pseudolikelihood(samples: Samples, targets: Targets, scores: Scores) -> Loss:
    """-Σ_v log p(y_v | the correct labels of its neighbours) (Besag 1975)."""
    y = targets.labels
    log_p = log_conditionals(samples, y, scores)
    node_weights = targets.weights[samples.sample_of_nodes()]
    nodes, edges = np.arange(len(y)), np.arange(len(scores.tables))
    value = -float(node_weights @ log_p[nodes, y])
    d_unary = np.exp(log_p)
    d_unary[nodes, y] -= 1.0
    d_unary *= node_weights[:, None]
    d_tables = np.zeros_like(scores.tables)
    a, b = samples.edges.T
    # An edge is part of two conditionals: its first node given the second, and the reverse.
    d_tables[edges, :, y[b]] += d_unary[a]
    d_tables[edges, y[a], :] += d_unary[b]
    return Loss(value, Scores(d_unary, d_tables))
