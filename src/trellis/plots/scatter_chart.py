"""`scatter`: named points in the plane."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from trellis.errors import InputError
from trellis.plots.annotations import draw_title
from trellis.plots.drawing import Drawing
from trellis.plots.shapes import Circle, Shape, Text, cut, estimate_width

__all__ = ["scatter"]

_MARGIN = 24.0
_MAX_NAME = 160.0  # largest width of a name; longer names are cut


def scatter(
    places: ArrayLike,
    names: Sequence[str],
    *,
    title: str | None = None,
    size: tuple[float, float] = (640.0, 480.0),
) -> Drawing:
    """Draw a dot and a name for each row of ``places``, shape (names, 2), with equal axis scales.

    >>> drawing = scatter([[0, 0], [4, 2]], ["one", "two"])
    >>> [(shape.tip, shape.x) for shape in drawing.shapes if shape.kind == "point"]
    [('one: 0, 0', 24.0), ('two: 4, 2', 586.4)]
    """
    points = np.asarray(places, dtype=np.float64)
    if not len(names):
        raise InputError("names is empty: at least one point is needed")
    if points.shape != (len(names), 2):
        raise InputError(
            f"places has shape {points.shape}, must be ({len(names)}, 2): one row per name"
        )
    if not np.isfinite(points).all():
        n = int(np.argmin(np.isfinite(points).all(axis=1)))
        raise InputError(f"places of {names[n]!r} are {points[n].tolist()}: must be finite")
    width, height = size
    top = _MARGIN + (28.0 if title else 0.0)
    # space for a name at the right edge
    name_width = min(_MAX_NAME, max(map(estimate_width, names))) + 8
    low, span = points.min(axis=0), np.maximum(np.ptp(points, axis=0), 1e-12)
    scale = float(
        min((width - 2 * _MARGIN - name_width) / span[0], (height - top - _MARGIN) / span[1])
    )
    x = _MARGIN + (points[:, 0] - low[0]) * scale
    y = height - _MARGIN - (points[:, 1] - low[1]) * scale
    shapes: list[Shape] = [*draw_title(title, width)]
    for name, point, dot_x, dot_y in zip(names, points, x.tolist(), y.tolist(), strict=True):
        tip = f"{name}: {point[0]:.4g}, {point[1]:.4g}"
        dot_x, dot_y = round(dot_x, 2), round(dot_y, 2)
        shapes.append(Circle(dot_x, dot_y, 3.0, fill="blue", tip=tip, kind="point"))
        shapes.append(Text(dot_x + 6, dot_y + 4, cut(name, _MAX_NAME), fill="ink", tip=tip))
    return Drawing(width, height, shapes, title or ", ".join(names[:20]))
