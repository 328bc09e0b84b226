"""The CRF on any graph: p(y | x) = exp(Σ_v u_v(y_v) + Σ_e t_e(y_a, y_b)) / Z(x)."""

from typing import Any

from numpy.typing import NDArray

from trellis.models.graph.base import FieldModel
from trellis.models.graph.losses import Engine, GraphEngine
from trellis.models.graph.samples import Fields, Graph, collect

__all__ = ["Graph", "GraphCRF"]


class GraphCRF(FieldModel):
    """A conditional random field whose nodes are joined as each sample says.

    u_v(y) = w_y · x_v and t_e(a, b) = P₀[a, b] + Σ_k P_k[a, b] f_ek; trained to minimise
    Σᵢ lossᵢ(w) + l2/2 ‖w‖² + l1 ‖w‖₁.

    X is a list of tuples (nodes, edges, edge_features, node_types), the last two optional: see
    `trellis.models.graph.samples.Graph`. y has an array of labels for each.

    >>> import numpy as np
    >>> ring = [[0, 1], [1, 2], [2, 3], [3, 0]]
    >>> X = [(np.array([[1.0], [0.2], [-0.1], [0.9]]), ring), (-np.ones((4, 1)), ring)]
    >>> crf = GraphCRF(l2=0.1).fit(X, [["up"] * 4, ["down"] * 4])
    >>> crf.predict([(np.array([[-0.5], [0.1], [-0.5], [-0.5]]), ring)])[0].tolist()
    ['down', 'down', 'down', 'down']

    Parameters
    ----------
    objective
        "likelihood" (exact: -log p(y | x), where the width of the graphs allows),
        "pseudolikelihood" (-Σ_v log p(y_v | x, right labels of its neighbours): no inference at
        all), "trw" (the likelihood with the tree-reweighted upper bound of log Z: convex, so it has
        one minimum, never above the loss of the nodes alone), "bethe" (with log Z of loopy belief
        propagation, which is no bound; steps where messages do not settle are refused),
        "perceptron" (averaged) or "ssvm" (Hamming margin, block-coordinate Frank–Wolfe).
    l2, l1
        Strengths of the penalties; every weight has them, those of the intercept too.
    inference
        How labels and marginals are found: "exact", "bp", "trw", or "auto": as the weights were
        learnt if by "trw", else exact where the tables fit into memory, else belief propagation.
        For labels also "expansion", "cut" and "icm". Where inference is not exact, labels are the
        better of max-product and of the marginals, each followed by ICM.
    symmetric
        Whether the pairs (a, b) and (b, a) have the same weight: edges then have no direction.
    fit_intercept
        Whether a constant is added to the node features.
    max_iter, tol
        Limits of the optimiser: iterations or epochs (None: as many as it takes, at most 100 for
        "trw" and "bethe"), and the size of the gradient; for "ssvm" the duality gap, relative to
        the loss.
    damping, max_sweeps
        Of belief propagation. After "trw" and "bethe", ``report_`` says whether messages settled
        and how many training nodes are right, together and alone; a warning tells if that is bad.

    """

    kind = "graph-crf"

    def _collect(self, X: Any) -> Fields:
        return collect(X, bool(self.fit_intercept))

    def _engine(self, fields: Fields, labels: int) -> Engine:
        return GraphEngine(fields, labels, self._resolved(), self._sweeps(), self.n_jobs)

    def _shaped(self, fields: Fields, i: int, rows: NDArray[Any]) -> NDArray[Any]:
        return rows
