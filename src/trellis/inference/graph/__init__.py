"""Inference on graphs of any shape.

A labelling y of the variables has the score Σ_f θ_f(y_f), a sum over factors of one, two or more
variables, and the probability p(y) = exp(score(y)) / Z. `FactorGraph` holds the factors.
`marginals` and `best` take the name of an algorithm. Grids have separate functions (``grid_*``).
README.md in this folder explains the algorithms.
"""

from trellis.inference.graph.belief import belief_propagation, max_product, tree_reweighted
from trellis.inference.graph.cpu import best, log_partition, marginals, score
from trellis.inference.graph.cuts import alpha_expansion, icm, min_cut
from trellis.inference.graph.exact import (
    exact_best,
    exact_marginals,
    exact_sample,
    induced_width,
)
from trellis.inference.graph.factors import FactorGraph
from trellis.inference.graph.gibbs import gibbs
from trellis.inference.graph.grid import (
    GridMarginals,
    grid_best,
    grid_edges,
    grid_graph,
    grid_marginals,
    grid_score,
)
from trellis.inference.graph.meanfield import mean_field
from trellis.inference.graph.results import Best, Marginals, Samples

__all__ = [
    "Best",
    "FactorGraph",
    "GridMarginals",
    "Marginals",
    "Samples",
    "alpha_expansion",
    "belief_propagation",
    "best",
    "exact_best",
    "exact_marginals",
    "exact_sample",
    "gibbs",
    "grid_best",
    "grid_edges",
    "grid_graph",
    "grid_marginals",
    "grid_score",
    "icm",
    "induced_width",
    "log_partition",
    "marginals",
    "max_product",
    "mean_field",
    "min_cut",
    "score",
    "tree_reweighted",
]
