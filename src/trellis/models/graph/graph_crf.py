"""The CRF on any graph: p(y | x) = exp(Σ_v u_v(y_v) + Σ_e t_e(y_a, y_b) + Σ_c t_c(y_c)) / Z(x).

u_v are the scores of node v, t_e those of edge e from node a to node b, and t_c those of a larger
clique c.
"""

from typing import Any

from numpy.typing import NDArray

from trellis.models.graph.base import GraphModel
from trellis.models.graph.inference import Engine, GraphEngine
from trellis.models.graph.samples import Graph, Samples
from trellis.models.graph.validation import collect

__all__ = ["Graph", "GraphCRF"]


class GraphCRF(GraphModel):
    """A conditional random field on graphs; each sample has its own graph.

    The score of label y at node v with features x_v is u_v(y) = w_y · x_v. The score of labels a
    and b at the two nodes of edge e with features f_e is t_e(a, b) = P₀[a, b] + Σ_k P_k[a, b] f_ek.
    A clique of three and more nodes has such a score for each combination of labels. Training
    minimises Σᵢ lossᵢ(w) + l2/2 ‖w‖² + l1 ‖w‖₁ over samples i and all weights w.

    X is a list of tuples (nodes, edges, edge_features, node_types, cliques, clique_features); all
    but the first are optional. `trellis.models.graph.samples.Graph` describes them. y is a list of
    label arrays, one label for each node: ``None`` if it is unknown, a set if it is one of several.

    >>> import numpy as np
    >>> ring = [[0, 1], [1, 2], [2, 3], [3, 0]]
    >>> X = [(np.array([[1.0], [0.2], [-0.1], [0.9]]), ring), (-np.ones((4, 1)), ring)]
    >>> crf = GraphCRF(l2=0.1).fit(X, [["up"] * 4, ["down"] * 4])
    >>> crf.predict([(np.array([[-0.5], [0.1], [-0.5], [-0.5]]), ring)])[0].tolist()
    ['down', 'down', 'down', 'down']

    A clique of three nodes has a score for each combination of their labels. Here the third label
    is 1 if the first two differ, which no pair of labels shows:

    >>> X = [(np.zeros((3, 1)), (), None, None, [[0, 1, 2]])] * 4
    >>> y = [[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]
    >>> crf = GraphCRF(l2=0.1).fit(X, y)
    >>> crf.clique_coef_["cliques"][0, 1].round(1)  # the first label is 1
    array([[-1.1,  1.1],
           [ 1.1, -1.1]])
    >>> np.exp(crf.log_likelihood(X[:1], [[0, None, 0]])).round(2)  # p(0, 0, 0) + p(0, 1, 0)
    array([0.25])

    Parameters
    ----------
    objective
        The loss:

        - "likelihood": -log p(y | x), exact. The graphs must not be too wide: the tables of exact
          inference must fit into memory.
        - "pseudolikelihood": -Σ_v log p(y_v | x, correct labels of the neighbours of v). It needs
          no inference. With unknown labels, the sum is over nodes whose neighbours have known
          labels.
        - "trw": -log p(y | x) with the tree-reweighted upper bound of log Z. This loss is convex,
          and its minimum is never above the loss of a model without edges.
        - "bethe": -log p(y | x) with the log Z of loopy belief propagation, which is not a bound.
          Steps to weights where the messages do not converge are rejected.
        - "perceptron": the averaged perceptron. It needs a label for every node.
        - "ssvm": the hinge loss with a Hamming margin, by block-coordinate Frank–Wolfe. It needs a
          label for every node.
    l2, l1
        Strengths of the penalties. They apply to every weight, including the intercepts.
    inference
        How labels and marginals are computed: "exact", "bp" (loopy belief propagation), "trw", or
        "auto". With "auto", a model trained with "trw" uses "trw"; any other model uses "exact" if
        the tables fit into memory, and "bp" otherwise. "expansion", "cut" and "icm" are for labels
        only: marginals are then those of "exact" or "bp", as with "auto". "expansion" and "cut" do
        not support cliques of three or more nodes.
        With "bp" and "trw", also if "auto" chose them, ICM improves two labellings, the one of
        max-product and the one of the largest marginals; the better one is returned.
    symmetric
        Whether the pairs of labels (a, b) and (b, a) have the same weight, and for larger cliques
        all orders of the same labels. Edges then have no direction.
    fit_intercept
        Whether to add a constant to the node features.
    max_iter, tol
        Limits of the optimiser. max_iter is a number of iterations or epochs. None means 100 for
        "trw" and "bethe", 30 for "perceptron", 50 for "ssvm", and no limit for the others. Training
        stops when the gradient is below tol; for "ssvm", when the duality gap divided by the loss
        is below tol.
    damping, max_sweeps
        Damping and largest number of sweeps of belief propagation. After training with "trw" or
        "bethe", ``report_`` has the residual of the messages, and the accuracy on the training
        nodes with and without edges. fit warns if the messages did not converge, or if the edges
        reduce the accuracy.
    n_jobs
        Number of threads; None uses all cores. Results do not depend on it.
    random_state
        Seed or generator for the order of the samples, for "perceptron" and "ssvm".

    """

    kind = "graph-crf"

    def _collect(self, X: Any) -> Samples:
        return collect(X, bool(self.fit_intercept))

    def _create_engine(self, samples: Samples, n_labels: int) -> Engine:
        return GraphEngine(samples, n_labels, self._settings())

    def _reshape(self, samples: Samples, i: int, rows: NDArray[Any]) -> NDArray[Any]:
        return rows
