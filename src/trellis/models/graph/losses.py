"""The losses of graph models, as functions of the scores.

A loss has a value and derivatives by the unary scores (N, L) and by the tables (E, L, L). The
derivative of log Z is the marginals. The derivative of the score of a labelling is its indicator: 1
at its labels, 0 elsewhere. So nearly every loss is a difference of the two:

    loss = Σ weight (level - score(y)),     ∂loss = weight (p - indicator(y))

with log Z as the level for likelihoods, and the score of the best labelling for the perceptron and
the structured support vector machine.
"""

from typing import NamedTuple

import numpy as np

from trellis.models.graph.inference import Engine, Marginals, sample_scores
from trellis.models.graph.samples import Doubles, Integers, Samples, Scores

__all__ = ["MESSAGES", "OBJECTIVES", "Loss", "Targets", "loss_of"]

OBJECTIVES = ("likelihood", "pseudolikelihood", "trw", "bethe", "perceptron", "ssvm")
MESSAGES = ("trw", "bethe")  # the likelihood with an approximation of log Z by messages
# Messages stop here. The losses are stationary in the messages, so they are off by its square.
TOLERANCE = 1e-6
# Below this residual, value and gradient of a loss agree well enough for a line search.
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
        infer = {"likelihood": engine.exact, "bethe": engine.bethe, "trw": engine.trw}[objective]
        return _difference(samples, targets, scores, infer(scores))
    # The hinge loss adds 1 for each wrong label, so a labelling with many errors must score lower.
    costs = hamming(targets.labels, scores.unary.shape) if objective == "ssvm" else 0.0
    augmented = Scores(scores.unary + costs, scores.tables)
    guess = engine.best(augmented)
    level = sample_scores(samples, guess, augmented)
    return _difference(
        samples, targets, scores, Marginals(level, *indicators(guess, scores.unary.shape, samples))
    )


def _difference(samples: Samples, targets: Targets, scores: Scores, p: Marginals) -> Loss:
    """Return Σ weight (p.log_z - score(y)), whose derivative is weight (p - indicator(y))."""
    correct = indicators(targets.labels, scores.unary.shape, samples)
    per_node = targets.weights[samples.sample_of_nodes()]
    per_edge = targets.weights[samples.sample_of_edges()]
    return Loss(
        float(targets.weights @ (p.log_z - sample_scores(samples, targets.labels, scores))),
        Scores(
            per_node[:, None] * (p.nodes - correct.unary),
            per_edge[:, None, None] * (p.pairs - correct.tables),
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


def conditionals(samples: Samples, labels: Integers, scores: Scores) -> Doubles:
    """log p(y_v | the labels of its neighbours), ``(N, L)``."""
    a, b = samples.edges.T
    x, rows = scores.unary.copy(), np.arange(len(scores.tables))
    for y in range(x.shape[1]):
        x[:, y] += np.bincount(a, scores.tables[rows, y, labels[b]], len(x))
        x[:, y] += np.bincount(b, scores.tables[rows, labels[a], y], len(x))
    x -= x.max(axis=1, keepdims=True)
    x -= np.log(np.exp(x).sum(axis=1, keepdims=True))
    return x


def pseudolikelihood(samples: Samples, targets: Targets, scores: Scores) -> Loss:
    """-Σ_v log p(y_v | the correct labels of its neighbours) (Besag 1975)."""
    y = targets.labels
    log_p = conditionals(samples, y, scores)
    per_node = targets.weights[samples.sample_of_nodes()]
    nodes, rows = np.arange(len(y)), np.arange(len(scores.tables))
    value = -float(per_node @ log_p[nodes, y])
    d_unary = np.exp(log_p)
    d_unary[nodes, y] -= 1.0
    d_unary *= per_node[:, None]
    d_tables = np.zeros_like(scores.tables)
    a, b = samples.edges.T
    # An edge occurs in two conditionals: of its first node given the second, and the reverse.
    d_tables[rows, :, y[b]] += d_unary[a]
    d_tables[rows, y[a], :] += d_unary[b]
    return Loss(value, Scores(d_unary, d_tables))
