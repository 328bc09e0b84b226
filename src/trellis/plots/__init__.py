"""Pictures of models as SVG or PNG.

Trellises, CTC lattices, beams, graphs of models, heat maps, curves, emissions, scatter plots.
"""

from trellis.plots.ctc_chart import ctc_lattice
from trellis.plots.drawing import Drawing
from trellis.plots.emission_chart import emissions
from trellis.plots.graph_chart import factor_graph, model_graph
from trellis.plots.line_chart import curves
from trellis.plots.matrix_chart import heat_map
from trellis.plots.prefix_chart import prefix_tree
from trellis.plots.scatter_chart import scatter
from trellis.plots.trellis_chart import lattice

__all__ = [
    "Drawing",
    "ctc_lattice",
    "curves",
    "emissions",
    "factor_graph",
    "heat_map",
    "lattice",
    "model_graph",
    "prefix_tree",
    "scatter",
]
