"""Pictures of models, as SVG of our own or as PNG: trellis, transitions, curves, emissions."""

from trellis.plots.chart import curves
from trellis.plots.drawing import Drawing
from trellis.plots.emission import emissions
from trellis.plots.heat import heat_map
from trellis.plots.paths import lattice
from trellis.plots.points import scatter

__all__ = ["Drawing", "curves", "emissions", "heat_map", "lattice", "scatter"]
