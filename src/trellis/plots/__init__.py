"""Pictures of models as SVG or PNG: trellises, heat maps, curves, CTC emissions, scatter plots."""

from trellis.plots.drawing import Drawing
from trellis.plots.emission_chart import emissions
from trellis.plots.line_chart import curves
from trellis.plots.matrix_chart import heat_map
from trellis.plots.scatter_chart import scatter
from trellis.plots.trellis_chart import lattice

__all__ = ["Drawing", "curves", "emissions", "heat_map", "lattice", "scatter"]
