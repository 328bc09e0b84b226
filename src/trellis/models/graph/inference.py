"""Inference for graph models: marginals, log Z and the best labelling of many samples at once.

`GraphEngine` works on any graph, `GridEngine` on images. An engine is built once for some samples.
Each step of the training then calls it with new scores.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from trellis.errors import InputError
from trellis.inference import graph
from trellis.inference.graph.belief import bethe_terms, propagate, spanning_forests
from trellis.inference.graph.exact import check_possible, induced_width
from trellis.inference.graph.nesting import Merged
from trellis.models.graph.samples import Doubles, Integers, Samples, Scores
from trellis.native import resolve_jobs

__all__ = [
    "DECODERS",
    "INFERENCE",
    "Engine",
    "GraphEngine",
    "GridEngine",
    "Marginals",
    "Settings",
    "better_labels",
    "build_factor_graph",
    "check_decoder",
    "sample_scores",
    "split_scores",
]

DECODERS = ("expansion", "cut", "icm")  # methods that return labels only
INFERENCE = ("auto", "exact", "bp", "trw", *DECODERS)
# Largest number of table entries of exact inference: they take 128 MB. With "auto", graphs that
# need larger tables use message passing.
MAX_TABLE_ENTRIES = 1 << 24
# Without damping, tree-reweighted messages often oscillate on graphs with many loops.
TREE_DAMPING = 0.3


class Marginals(NamedTuple):
    """Marginal probabilities of the labels of nodes, edges and cliques."""

    log_z: Doubles
    """``(samples,)``: log Z, or its approximation."""
    nodes: Doubles
    """``(N, L)``: p(y_v | x)."""
    tables: tuple[Doubles, ...]
    """First ``(E, L, L)``: p(y_a, y_b | x) of edges. Then one array ``(C, L, …, L)`` for each type
    of clique."""
    residual: float = 0.0
    """The largest change of a message in the last sweep; 0 if the method is exact."""


class Settings(NamedTuple):
    """The parameters of a model that inference depends on."""

    inference: str
    """One of `INFERENCE`."""
    sweeps: dict[str, Any]
    """Arguments of belief propagation: damping, max_iter, tolerance."""
    n_jobs: int | None


class Engine(Protocol):
    """Inference for some samples."""

    def exact(self, scores: Scores) -> Marginals:
        """Return exact marginals and log Z; raise InputError if the graph is too wide."""

    def bethe(self, scores: Scores) -> Marginals:
        """Return the beliefs of loopy belief propagation and the Bethe approximation of log Z."""

    def trw(self, scores: Scores) -> Marginals:
        """Return the beliefs of tree-reweighted propagation and its upper bound of log Z."""

    def marginals(self, scores: Scores) -> Marginals:
        """Return marginals by the method of the settings."""

    def best_labels(self, scores: Scores) -> Integers:
        """Return the best labelling ``(N,)``, exact or approximate depending on the method."""


class GraphEngine:
    """Inference on graphs of any form."""

    def __init__(self, samples: Samples, n_labels: int, settings: Settings) -> None:
        self._samples, self._labels, self._settings = samples, n_labels, settings
        # The structure is compiled once. The scores are filled in by `_with_scores`.
        tables = [np.zeros((len(f), *f.shape.dimensions(n_labels)[1:])) for f in samples.factors]
        unary = np.zeros((int(samples.node_begin[-1]), n_labels))
        self._graph = build_factor_graph(samples, Scores(unary, tuple(tables)))

    def _with_scores(self, scores: Scores) -> graph.FactorGraph:
        return self._graph.rescored(
            np.concatenate([scores.unary.ravel(), *(table.ravel() for table in scores.tables)])
        )

    # ---- exact inference: for all samples together or, if the tables are too large, for each half

    def _is_exact(self) -> bool:
        """Return True if inference is exact: by the settings, or because the tables are small."""
        if self._settings.inference in ("exact", "bp", "trw"):
            return self._settings.inference == "exact"
        half_engines = self._half_engines
        return self._tables_fit or (
            len(half_engines) > 1 and all(half._is_exact() for half in half_engines)
        )

    @cached_property
    def _tables_fit(self) -> bool:
        """True if the tables of all samples together are small enough."""
        try:
            induced_width(self._graph, MAX_TABLE_ENTRIES)
        except InputError:
            return False
        return True

    @cached_property
    def _half_engines(self) -> list["GraphEngine"]:
        """Engines of the first and the second half of the samples; empty for a single sample."""
        n_samples = len(self._samples)
        if n_samples < 2:
            return []
        ranges = (0, n_samples // 2), (n_samples // 2, n_samples)
        return [
            GraphEngine(self._samples.part(begin, end), self._labels, self._settings)
            for begin, end in ranges
        ]

    def _split_in_halves(self, scores: Scores) -> list[tuple["GraphEngine", Scores]]:
        """Return each half with its scores; the scores are split at the same sample."""
        middle = len(self._samples) // 2
        halves = [
            scores_of_part(self._samples, scores, begin, end)
            for begin, end in ((0, middle), (middle, len(self._samples)))
        ]
        return list(zip(self._half_engines, halves, strict=True))

    def exact(self, scores: Scores) -> Marginals:
        """Return exact marginals by variable elimination; raise if the graph is too wide."""
        if not self._tables_fit and self._half_engines:
            parts = [
                engine.exact(half_scores) for engine, half_scores in self._split_in_halves(scores)
            ]
            tables = zip(*(result.tables for result in parts), strict=True)
            return Marginals(
                np.concatenate([result.log_z for result in parts]),
                np.concatenate([result.nodes for result in parts]),
                tuple(np.concatenate(halves) for halves in tables),
            )
        factor_graph = self._with_scores(scores)
        induced_width(
            factor_graph, MAX_TABLE_ENTRIES
        )  # raises InputError if the tables are too large
        log_z = np.empty(len(factor_graph))
        node_marginals = np.empty(scores.unary.size)
        factor_marginals = np.empty(factor_graph.sizes[1])
        factor_graph.core.exact(
            factor_graph.tables,
            log_z,
            node_marginals,
            factor_marginals,
            resolve_jobs(self._settings.n_jobs),
        )
        check_possible(log_z)
        return self._reshape(log_z, node_marginals, factor_marginals, scores)

    # ---- messages; `Merged` first adds edges and cliques inside a larger clique to its table

    @cached_property
    def _merged(self) -> Merged:
        return Merged(self._graph)

    def bethe(self, scores: Scores) -> Marginals:
        """Return the beliefs of loopy belief propagation."""
        return self._propagate(scores, None, self._settings.sweeps)

    @cached_property
    def _tree_weights(self) -> Doubles:
        """For each factor, the fraction of the spanning trees that contain it."""
        return np.asarray(spanning_forests(self._merged.rescored(self._graph)).mean(axis=0))

    def trw(self, scores: Scores) -> Marginals:
        """Return the beliefs of tree-reweighted propagation."""
        sweeps = self._settings.sweeps
        sweeps = {**sweeps, "damping": max(sweeps["damping"], TREE_DAMPING)}
        return self._propagate(scores, self._tree_weights, sweeps)

    def _propagate(
        self, scores: Scores, weights: Doubles | None, sweeps: dict[str, Any]
    ) -> Marginals:
        factor_graph = self._merged.rescored(self._with_scores(scores))
        beliefs = propagate(
            factor_graph, maximise=False, weights=weights, n_jobs=self._settings.n_jobs, **sweeps
        )
        terms = bethe_terms(factor_graph, beliefs, weights)
        factor_marginals = self._merged.unmerged(beliefs.factors)
        marginals = self._reshape(terms, beliefs.variables, factor_marginals, scores)
        return marginals._replace(residual=beliefs.residual)

    def _reshape(self, terms: Doubles, p: Doubles, factors: Doubles, scores: Scores) -> Marginals:
        """Return the flat arrays in the shapes of the scores, and log Z from one term per node."""
        log_z = np.zeros(len(self._samples))
        np.add.at(log_z, self._samples.sample_of_nodes(), terms)
        # The unary factors come first. Their marginals are those of the nodes.
        ends = np.cumsum([scores.unary.size, *(table.size for table in scores.tables)])
        tables = zip(np.split(factors, ends[:-1])[1:], scores.tables, strict=True)
        return Marginals(
            log_z,
            p.reshape(scores.unary.shape),
            tuple(flat.reshape(table.shape) for flat, table in tables),
        )

    # ---- the method of the settings

    def marginals(self, scores: Scores) -> Marginals:
        """Return marginals by the method of the settings: exact or with message passing."""
        if self._settings.inference == "trw":
            return self.trw(scores)
        return self.exact(scores) if self._is_exact() else self.bethe(scores)

    def best_labels(self, scores: Scores) -> Integers:
        """Return the best labelling if inference is exact, else the better of two local optima."""
        settings = self._settings
        if self._is_exact() and not self._tables_fit and self._half_engines:
            return np.concatenate(
                [
                    engine.best_labels(half_scores)
                    for engine, half_scores in self._split_in_halves(scores)
                ]
            )
        factor_graph = self._with_scores(scores)
        if settings.inference in DECODERS:
            return graph.best(factor_graph, settings.inference).labels
        if self._is_exact():
            return graph.exact_best(
                factor_graph, max_entries=MAX_TABLE_ENTRIES, n_jobs=settings.n_jobs
            ).labels
        start_labels = (
            graph.max_product(
                self._merged.rescored(factor_graph), n_jobs=settings.n_jobs, **settings.sweeps
            ).labels,
            self.marginals(scores).nodes.argmax(axis=1),
        )
        first_labels, second_labels = (
            graph.icm(factor_graph, initial=start).labels for start in start_labels
        )
        return better_labels(self._samples, first_labels, second_labels, scores)


class GridEngine:
    """Belief propagation on images in the compiled core: much faster than on a general graph."""

    def __init__(self, samples: Samples, n_labels: int, settings: Settings, shared: bool) -> None:
        """With ``shared``, all horizontal edges have the same table, and all vertical edges too."""
        self._samples, self._labels, self._shared = samples, n_labels, shared
        self._settings = settings
        self._options = {**settings.sweeps, "n_jobs": settings.n_jobs}

    def _images(self, scores: Scores) -> Iterator[tuple[Doubles, Doubles, Doubles]]:
        """Yield the unary, horizontal and vertical scores of each image."""
        samples, square = self._samples, (self._labels, self._labels)
        assert samples.grids is not None
        for i, (height, width) in enumerate(samples.grids):
            nodes = slice(*samples.node_begin[i : i + 2])
            unary = scores.unary[nodes].reshape(height, width, -1)
            pairs = scores.tables[0][slice(*samples.edge_begin[i : i + 2])]
            # `graph.grid_edges` lists all horizontal edges first.
            horizontal, vertical = np.split(pairs, [height * (width - 1)])
            if self._shared:
                yield unary, _first_table(horizontal, square), _first_table(vertical, square)
            else:
                yield (
                    unary,
                    horizontal.reshape(height, width - 1, *square),
                    vertical.reshape(height - 1, width, *square),
                )

    def exact(self, scores: Scores) -> Marginals:
        """Return exact marginals by the engine for graphs; raise InputError for large images."""
        settings = Settings("exact", {}, None)
        return GraphEngine(self._samples, self._labels, settings).exact(scores)

    def bethe(self, scores: Scores) -> Marginals:
        """Return the beliefs of loopy belief propagation."""
        return self._propagate("bp", scores)

    def trw(self, scores: Scores) -> Marginals:
        """Return the beliefs of tree-reweighted propagation."""
        return self._propagate("trw", scores)

    def _propagate(self, method: str, scores: Scores) -> Marginals:
        log_z, node_marginals, pair_marginals = [], [], [np.zeros((0, self._labels, self._labels))]
        residual = 0.0
        for image in self._images(scores):
            beliefs = graph.grid_marginals(*image, method=method, **self._options)
            residual = max(residual, beliefs.residual)
            log_z.append(beliefs.log_partition)
            node_marginals.append(beliefs.unary.reshape(-1, self._labels))
            for tables in (beliefs.horizontal, beliefs.vertical):
                pair_marginals.append(tables.reshape(-1, self._labels, self._labels))
        return Marginals(
            np.array(log_z),
            np.concatenate(node_marginals),
            (np.concatenate(pair_marginals),),
            residual,
        )

    def marginals(self, scores: Scores) -> Marginals:
        """Return marginals by the method of the settings."""
        return self._propagate("trw" if self._settings.inference == "trw" else "bp", scores)

    def best_labels(self, scores: Scores) -> Integers:
        """Return the better of two labellings: ICM from max-product, and ICM from the marginals."""
        most_probable_labels = self.marginals(scores).nodes.argmax(axis=1)
        from_max, from_marginals = [], []
        for i, image in enumerate(self._images(scores)):
            factor_graph, nodes = (
                graph.grid_graph(*image),
                slice(*self._samples.node_begin[i : i + 2]),
            )
            start = graph.grid_best(*image, **self._options).labels.ravel()
            from_max.append(graph.icm(factor_graph, initial=start).labels)
            from_marginals.append(
                graph.icm(factor_graph, initial=most_probable_labels[nodes]).labels
            )
        first_labels, second_labels = np.concatenate(from_max), np.concatenate(from_marginals)
        return better_labels(self._samples, first_labels, second_labels, scores)


def _first_table(tables: Doubles, square: tuple[int, int]) -> Doubles:
    """Return the first of equal tables; zeros if there are no edges."""
    return tables[0] if len(tables) else np.zeros(square)


def check_decoder(inference: str, samples: Samples) -> None:
    """Raise InputError if ``inference`` supports only edges, and X has larger cliques."""
    if inference not in ("expansion", "cut"):
        return
    for cliques in samples.cliques:
        if len(cliques) and cliques.shape.n_nodes > 2:
            raise InputError(
                f"X has cliques {cliques.name!r} of {cliques.shape.n_nodes} nodes: "
                f"inference={inference!r} supports at most two; use 'auto', 'exact', 'bp', 'trw' "
                "or 'icm'"
            )


def build_factor_graph(samples: Samples, scores: Scores) -> graph.FactorGraph:
    """Return the scores of some samples as factors of nodes, edges and each type of clique."""
    n_nodes, n_labels = scores.unary.shape
    factors = [(np.arange(n_nodes)[:, None], scores.unary)]
    for factor, tables in zip(samples.factors, scores.tables, strict=True):
        if len(factor):
            factors.append((factor.nodes, tables))
    return graph.FactorGraph(np.full(n_nodes, n_labels), factors)


def scores_of_part(samples: Samples, scores: Scores, begin: int, end: int) -> Scores:
    """Return the scores of the samples ``begin : end``."""
    factors = zip(samples.factors, scores.tables, strict=True)
    return Scores(
        scores.unary[slice(*samples.node_begin[[begin, end]])],
        tuple(tables[slice(*factor.begin[[begin, end]])] for factor, tables in factors),
    )


def split_scores(samples: Samples, scores: Scores) -> Iterator[tuple[Samples, Scores]]:
    """Yield each sample with its scores."""
    for i in range(len(samples)):
        yield samples.part(i, i + 1), scores_of_part(samples, scores, i, i + 1)


def sample_scores(samples: Samples, labels: Integers, scores: Scores) -> Doubles:
    """Return the score of a labelling ``(N,)`` in each sample, ``(samples,)``."""
    nodes = scores.unary[np.arange(len(labels)), labels]
    totals = np.bincount(samples.sample_of_nodes(), nodes, len(samples))
    for factor, tables in zip(samples.factors, scores.tables, strict=True):
        totals += np.bincount(factor.samples(), tables[factor.at(labels)], len(samples))
    return np.asarray(totals)


def better_labels(samples: Samples, first: Integers, second: Integers, scores: Scores) -> Integers:
    """Return, for each sample, the labelling with the higher score; the first if they are equal."""
    first_scores = sample_scores(samples, first, scores)
    second_scores = sample_scores(samples, second, scores)
    return np.where((first_scores >= second_scores)[samples.sample_of_nodes()], first, second)
