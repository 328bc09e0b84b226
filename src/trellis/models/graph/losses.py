"""The losses of graph models, as functions of the scores.

A loss has a value and derivatives by the scores of nodes (N, L), of edges (E, L, L) and of cliques
(C, L, …, L). The derivatives of log Z are the marginals p. The derivative of the score of a
labelling is its indicator: 1 at its labels, 0 elsewhere. So every loss except the pseudolikelihood
has this form, with the correct labelling y:

    loss = Σ weight (level - score(y)),     ∂loss = weight (p - indicator(y))

For likelihoods, the level is log Z. For the perceptron and the structured support vector machine,
the level is the score of the best labelling, and p is the indicator of that labelling. If labels
are unknown, a likelihood has log Z of the labellings that y allows in place of score(y), and their
marginals in place of the indicator.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    """Derivatives by the scores of nodes, edges and cliques."""
    residual: float = 0.0
    """The largest change of a message in the last sweep; 0 for losses without messages."""


class Targets(NamedTuple):
    """The correct labels of some samples, and the weight of each sample."""

    labels: Integers
    """``(N,)``: -1 where the label is not known."""
    weights: Doubles
    """``(samples,)``"""
    allowed: NDArray[np.bool_] | None = None
    """``(N, L)``: True where y allows the label; None if all labels are known."""

    def part(self, begin: int, end: int, nodes: slice) -> "Targets":
        """Return the targets of the samples ``begin : end``, which have the nodes ``nodes``."""
        allowed = None if self.allowed is None else self.allowed[nodes]
        return Targets(self.labels[nodes], self.weights[begin:end], allowed)

    def correctness(self, shape: tuple[int, ...]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the nodes that y restricts ``(N,)``, and the labels it allows ``(N, L)``."""
        allowed = hamming(self.labels, shape) == 0.0 if self.allowed is None else self.allowed
        return ~allowed.all(axis=1) | (self.labels >= 0), allowed


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
        if targets.allowed is None:
            correct = _at_labels(samples, targets.labels, scores)
        else:
            correct = compute_marginals(scores.restricted(targets.allowed))
        return _difference(samples, targets, compute_marginals(scores), correct)
    # The hinge loss adds 1 to the score of each wrong label: the margin.
    costs = hamming(targets.labels, scores.unary.shape) if objective == "ssvm" else 0.0
    augmented_scores = scores._replace(unary=scores.unary + costs)
    best = _at_labels(samples, engine.best_labels(augmented_scores), augmented_scores)
    return _difference(samples, targets, best, _at_labels(samples, targets.labels, scores))


def _at_labels(samples: Samples, labels: Integers, scores: Scores) -> Marginals:
    """Return the score of one labelling in place of log Z, and its indicators as marginals."""
    levels = sample_scores(samples, labels, scores)
    return Marginals(levels, *indicators(labels, scores.unary.shape, samples))


def _difference(samples: Samples, targets: Targets, p: Marginals, correct: Marginals) -> Loss:
    """Return Σ weight (p.log_z - correct.log_z) and its derivative, weight (p - correct)."""
    node_weights = targets.weights[samples.sample_of_nodes()]
    tables = []
    for factor, expected, observed in zip(samples.factors, p.tables, correct.tables, strict=True):
        factor_weights = targets.weights[factor.samples()]
        tables.append(
            factor_weights.reshape(-1, *(1,) * (expected.ndim - 1)) * (expected - observed)
        )
    return Loss(
        float(targets.weights @ (p.log_z - correct.log_z)),
        Scores(node_weights[:, None] * (p.nodes - correct.nodes), tuple(tables)),
        max(p.residual, correct.residual),
    )


def hamming(labels: Integers, shape: tuple[int, ...]) -> Doubles:
    """Return the cost ``(N, L)`` of each label: 0 if it is correct, 1 otherwise."""
    cost = np.ones(shape)
    cost[np.arange(len(labels)), labels] = 0.0
    return cost


def indicators(labels: Integers, shape: tuple[int, ...], samples: Samples) -> Scores:
    """Return 1 at the labels of a labelling and 0 elsewhere, for nodes, edges and cliques."""
    nodes = np.zeros(shape)
    nodes[np.arange(len(labels)), labels] = 1.0
    tables = []
    for factor in samples.factors:
        table = np.zeros((len(factor), *factor.shape.dimensions(shape[1])[1:]))
        table[factor.at(labels)] = 1.0
        tables.append(table)
    return Scores(nodes, tuple(tables))


def log_conditionals(samples: Samples, labels: Integers, scores: Scores) -> Doubles:
    """log p(y_v | the labels of its neighbours) for each node and label, ``(N, L)``."""
    log_p = scores.unary.copy()
    for factor, tables in zip(samples.factors, scores.tables, strict=True):
        for slot, nodes in enumerate(factor.nodes.T):
            rows = tables[factor.axis(labels, slot)]
            for y in range(log_p.shape[1]):
                log_p[:, y] += np.bincount(nodes, rows[:, y], len(log_p))
    log_p -= log_p.max(axis=1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(axis=1, keepdims=True))
    return log_p


def has_known_neighbours(samples: Samples, labels: Integers) -> NDArray[np.bool_]:
    """Return True for the nodes whose neighbours all have a known label, ``(N,)``."""
    is_unknown = labels < 0
    result = np.ones(len(labels), dtype=np.bool_)
    for factor in samples.factors:
        unknown = is_unknown[factor.nodes]
        others = unknown.sum(axis=1, keepdims=True) - unknown
        result[factor.nodes[others > 0]] = False
    return result


def pseudolikelihood(samples: Samples, targets: Targets, scores: Scores) -> Loss:
    """-Σ_v log p(y_v | the correct labels of its neighbours) (Besag 1975).

    With unknown labels, the sum is over the nodes whose neighbours have known labels. A node with a
    set of labels adds the logarithm of the sum of their probabilities.
    """
    node_weights = targets.weights[samples.sample_of_nodes()]
    labels, allowed = targets.labels, targets.allowed
    if allowed is not None:
        node_weights = node_weights * has_known_neighbours(samples, labels)
        # Unknown labels become 0. Conditionals that depend on them have the weight 0.
        labels = np.maximum(labels, 0)
    log_p = log_conditionals(samples, labels, scores)
    d_unary = np.exp(log_p)
    if allowed is None:
        nodes = np.arange(len(labels))
        value = -float(node_weights @ log_p[nodes, labels])
        d_unary[nodes, labels] -= 1.0
    else:
        log_p[~allowed] = -np.inf
        log_sums = np.logaddexp.reduce(log_p, axis=1)
        value = -float(node_weights @ log_sums)
        d_unary -= np.exp(log_p - log_sums[:, None])
    d_unary *= node_weights[:, None]
    d_tables = tuple(np.zeros_like(tables) for tables in scores.tables)
    for factor, d_table in zip(samples.factors, d_tables, strict=True):
        # An edge is part of two conditionals: its first node given the second, and the reverse.
        for slot, nodes in enumerate(factor.nodes.T):
            d_table[factor.axis(labels, slot)] += d_unary[nodes]
    return Loss(value, Scores(d_unary, d_tables))
