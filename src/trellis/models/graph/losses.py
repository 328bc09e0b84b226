"""What graph models minimise, as functions of the scores, and the inference that this takes.

Each loss gives its value and its derivatives by the unary scores (N, L) and by the tables (E, L, L). That
of log Z is the marginals; that of the score of y is 1 where y is.
"""  # noqa: E501

from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from trellis.errors import InputError
from trellis.inference import graph
from trellis.inference.graph.belief import Beliefs, bethe_terms, propagate, spanning_forests
from trellis.inference.graph.exact import check_possible, induced_width
from trellis.models.graph.samples import Doubles, Fields, Integers
from trellis.native import resolve_jobs

__all__ = ["INFERENCE", "OBJECTIVES", "Engine", "GraphEngine", "Loss", "Targets", "loss_of"]

OBJECTIVES = ("likelihood", "pseudolikelihood", "trw", "bethe", "perceptron", "ssvm")
LOOPY = ("trw", "bethe")  # the likelihood with messages
DECODERS = ("expansion", "cut", "icm")
INFERENCE = ("auto", "exact", "bp", "trw", *DECODERS)
MOST_ENTRIES = 1 << 24  # of the tables of exact inference, for a stretch of samples
TREE_DAMPING = 0.3
TOLERANCE = 1e-6  # of messages: a loss that is stationary in them is off by its square
SETTLED = 1e-4  # a change of messages below which value and gradient of a loss agree


class Parts(NamedTuple):
    """Of some samples."""

    log_z: Doubles
    """Of each sample."""
    nodes: Doubles
    pairs: Doubles
    residual: float = 0.0
    """The largest change of a message in the last sweep."""


class Loss(NamedTuple):
    """Of some samples."""

    value: float
    d_unary: Doubles
    d_tables: Doubles
    residual: float = 0.0
    """Of the messages, where there are any."""


class Engine(Protocol):
    """Inference for some samples; the scores come later."""

    def exact(self, unary: Doubles, tables: Doubles) -> Parts:
        """Whatever it takes."""

    def bethe(self, unary: Doubles, tables: Doubles) -> Parts:
        """By belief propagation."""

    def trw(self, unary: Doubles, tables: Doubles) -> Parts:
        """By tree-reweighted belief propagation."""

    def marginals(self, unary: Doubles, tables: Doubles) -> Parts:
        """One of the three."""

    def best(self, unary: Doubles, tables: Doubles) -> Integers:
        """The labels of all nodes."""


class GraphEngine:
    """Inference on graphs of any shape."""

    def __init__(
        self,
        fields: Fields,
        labels: int,
        inference: str,
        options: dict[str, Any],
        n_jobs: int | None,
    ) -> None:
        self._fields, self._jobs, self._options = fields, n_jobs, options
        shape = (len(fields.edges), labels, labels)
        self._graph = graph.FactorGraph.pairwise(
            np.zeros((int(fields.node_begin[-1]), labels)), fields.edges, np.zeros(shape)
        )
        self._inference, self._labels = inference, labels

    def _exactly(self) -> bool:
        """Whether to be exact: as asked for, or where the width allows."""
        if self._inference in ("exact", "bp", "trw"):
            return self._inference == "exact"
        return self._fits or (len(self._halves) > 1 and all(h._exactly() for h in self._halves))

    @cached_property
    def _fits(self) -> bool:
        """Whether the tables of all samples together fit."""
        try:
            induced_width(self._graph, MOST_ENTRIES)
        except InputError:
            return False
        return True

    @cached_property
    def _halves(self) -> list["GraphEngine"]:
        """Engines for the first and the second half of the samples; none if there is one sample."""
        count, own = len(self._fields), (self._labels, self._inference, self._options, self._jobs)
        if count < 2:
            return []
        cuts = (0, count // 2), (count // 2, count)
        return [GraphEngine(self._fields.part(a, b), *own) for a, b in cuts]

    def _by_halves(self, unary: Doubles, tables: Doubles) -> list[tuple[Any, Doubles, Doubles]]:
        half = len(self._fields) // 2
        n, e = self._fields.node_begin[half], self._fields.edge_begin[half]
        first, second = self._halves
        return [(first, unary[:n], tables[:e]), (second, unary[n:], tables[e:])]

    def _scored(self, unary: Doubles, tables: Doubles) -> graph.FactorGraph:
        return self._graph.rescored(np.concatenate([unary.ravel(), tables.ravel()]))

    def marginals(self, unary: Doubles, tables: Doubles) -> Parts:
        """Exact, or by belief propagation with its log Z."""
        if self._inference == "trw":
            return self.trw(unary, tables)
        return self.exact(unary, tables) if self._exactly() else self.bethe(unary, tables)

    def exact(self, unary: Doubles, tables: Doubles) -> Parts:
        """By elimination; an error with the width if it is too large."""
        if not self._fits and self._halves:
            parts = [h.exact(u, t) for h, u, t in self._by_halves(unary, tables)]
            log_z, p, pairs = (np.concatenate([part[k] for part in parts]) for k in range(3))
            return Parts(log_z, p, pairs)
        g = self._scored(unary, tables)
        induced_width(g, MOST_ENTRIES)
        log_z, p, pairs = (
            np.empty(len(g)),
            np.empty(unary.size),
            np.empty(sum(g.sizes) - unary.size),
        )
        g.core.exact(g.tables, log_z, p, pairs, resolve_jobs(self._jobs))
        check_possible(log_z)
        return self._parts(log_z, p, pairs, unary, tables)

    def bethe(self, unary: Doubles, tables: Doubles) -> Parts:
        """By belief propagation."""
        g = self._scored(unary, tables)
        found = propagate(g, maximise=False, n_jobs=self._jobs, **self._options)
        return self._beliefs(g, found, None, unary, tables)

    @cached_property
    def _weights(self) -> Doubles:
        """How many of some spanning trees have each factor."""
        return np.asarray(spanning_forests(self._graph).mean(axis=0))

    def trw(self, unary: Doubles, tables: Doubles) -> Parts:
        """By messages that are weighted by trees; a little damping makes them settle."""
        g = self._scored(unary, tables)
        options = {**self._options, "damping": max(self._options["damping"], TREE_DAMPING)}
        found = propagate(g, maximise=False, weights=self._weights, n_jobs=self._jobs, **options)
        return self._beliefs(g, found, self._weights, unary, tables)

    def _beliefs(
        self,
        g: graph.FactorGraph,
        found: Beliefs,
        weights: Doubles | None,
        unary: Doubles,
        tables: Doubles,
    ) -> Parts:
        parts = self._parts(
            bethe_terms(g, found, weights), found.variables, found.factors, unary, tables
        )
        return parts._replace(residual=found.residual)

    def _parts(
        self, terms: Doubles, p: Doubles, pairs: Doubles, unary: Doubles, tables: Doubles
    ) -> Parts:
        log_z = np.zeros(len(self._fields))
        np.add.at(log_z, self._fields.sample_of_nodes(), terms)
        return Parts(log_z, p.reshape(unary.shape), pairs[unary.size :].reshape(tables.shape))

    def best(self, unary: Doubles, tables: Doubles) -> Integers:
        """Exact where asked for or possible; else max-product or the marginals, then ICM."""
        if self._exactly() and not self._fits and self._halves:
            parts = [h.best(u, t) for h, u, t in self._by_halves(unary, tables)]
            return np.concatenate(parts)
        g = self._scored(unary, tables)
        if self._inference in DECODERS:
            return graph.best(g, self._inference).labels
        if self._exactly():
            return graph.exact_best(g, max_entries=MOST_ENTRIES, n_jobs=self._jobs).labels
        starts = [graph.max_product(g, n_jobs=self._jobs, **self._options).labels]
        starts.append(self.marginals(unary, tables).nodes.argmax(axis=1))
        found = [graph.icm(g, initial=start).labels for start in starts]
        return better(self._fields, found[0], found[1], unary, tables)


class Targets(NamedTuple):
    """The right labels of some samples, and how much each sample counts."""

    labels: Integers
    weights: Doubles


def loss_of(
    objective: str, fields: Fields, engine: Engine, y: Targets, unary: Doubles, tables: Doubles
) -> Loss:
    """The loss of some samples at these scores."""
    if objective == "pseudolikelihood":
        return pseudolikelihood(fields, y, unary, tables)
    if objective in ("likelihood", *LOOPY):
        run = {"likelihood": engine.exact, "bethe": engine.bethe, "trw": engine.trw}[objective]
        log_z, p, pairs, residual = run(unary, tables)
        return _against(fields, y, unary, tables, p, pairs, log_z)._replace(residual=residual)
    wrong = unary + hamming(y.labels, unary.shape) if objective == "ssvm" else unary
    guess = engine.best(wrong, tables)
    p, pairs = indicators(guess, unary.shape, fields)
    score = sample_scores(fields, guess, wrong, tables)
    return _against(fields, y, unary, tables, p, pairs, score)


def _against(
    fields: Fields,
    y: Targets,
    unary: Doubles,
    tables: Doubles,
    p: Doubles,
    pairs: Doubles,
    level: Doubles,
) -> Loss:
    """Σ weight (level - score(y)), whose derivative is p less what y uses."""
    right = sample_scores(fields, y.labels, unary, tables)
    own, own_pairs = indicators(y.labels, unary.shape, fields)
    per_node = y.weights[fields.sample_of_nodes()]
    per_edge = y.weights[fields.sample_of_edges()]
    return Loss(
        float(y.weights @ (level - right)),
        per_node[:, None] * (p - own),
        per_edge[:, None, None] * (pairs - own_pairs),
    )


def hamming(labels: Integers, shape: tuple[int, ...]) -> Doubles:
    """1 for each wrong label."""
    cost = np.ones(shape)
    cost[np.arange(len(labels)), labels] = 0.0
    return cost


def indicators(labels: Integers, shape: tuple[int, ...], fields: Fields) -> tuple[Doubles, Doubles]:
    """1 where a labelling is, on nodes and on edges."""
    own = np.zeros(shape)
    own[np.arange(len(labels)), labels] = 1.0
    pairs = np.zeros((len(fields.edges), shape[1], shape[1]))
    a, b = fields.edges.T
    pairs[np.arange(len(pairs)), labels[a], labels[b]] = 1.0
    return own, pairs


def sample_scores(fields: Fields, labels: Integers, unary: Doubles, tables: Doubles) -> Doubles:
    """The score of a labelling in each sample."""
    a, b = fields.edges.T
    own = unary[np.arange(len(labels)), labels]
    pairs = tables[np.arange(len(tables)), labels[a], labels[b]]
    return np.asarray(
        np.bincount(fields.sample_of_nodes(), own, len(fields))
        + np.bincount(fields.sample_of_edges(), pairs, len(fields))
    )


def better(
    fields: Fields, first: Integers, second: Integers, unary: Doubles, tables: Doubles
) -> Integers:
    """Of two labellings the one with the higher score, in each sample; the first if both have."""
    scores = [sample_scores(fields, y, unary, tables) for y in (first, second)]
    return np.where((scores[0] >= scores[1])[fields.sample_of_nodes()], first, second)


def conditionals(fields: Fields, labels: Integers, unary: Doubles, tables: Doubles) -> Doubles:
    """Log p(y_v | the labels of its neighbours), ``(N, L)``."""
    a, b = fields.edges.T
    x, rows = unary.copy(), np.arange(len(tables))
    for y in range(unary.shape[1]):
        x[:, y] += np.bincount(a, tables[rows, y, labels[b]], len(x))
        x[:, y] += np.bincount(b, tables[rows, labels[a], y], len(x))
    x -= x.max(axis=1, keepdims=True)
    x -= np.log(np.exp(x).sum(axis=1, keepdims=True))
    return x


def pseudolikelihood(fields: Fields, y: Targets, unary: Doubles, tables: Doubles) -> Loss:
    """-Σ_v log p(y_v | the right labels of its neighbours) (Besag 1975)."""
    log_p = conditionals(fields, y.labels, unary, tables)
    per_node = y.weights[fields.sample_of_nodes()]
    nodes, rows = np.arange(len(unary)), np.arange(len(tables))
    value = -float(per_node @ log_p[nodes, y.labels])
    d_unary = np.exp(log_p)
    d_unary[nodes, y.labels] -= 1.0
    d_unary *= per_node[:, None]
    d_tables = np.zeros_like(tables)
    a, b = fields.edges.T
    # an edge is met twice: from its first node, whose neighbour is right, and from its second
    d_tables[rows, :, y.labels[b]] += d_unary[a]
    d_tables[rows, y.labels[a], :] += d_unary[b]
    return Loss(value, d_unary, d_tables)


def checked_choice(value: Any, known: tuple[str, ...], name: str) -> str:
    """One of some words."""
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    return str(value)
