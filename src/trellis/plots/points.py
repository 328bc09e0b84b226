"""Names at places in the plane."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from trellis.errors import InputError
from trellis.plots.drawing import Circle, Drawing, Shape, Text, cut, width_of
from trellis.plots.frame import heading

__all__ = ["scatter"]

_MARGIN = 24.0
_NAME = 160.0


def scatter(
    places: ArrayLike,
    names: Sequence[str],
    *,
    title: str | None = None,
    size: tuple[float, float] = (640.0, 480.0),
) -> Drawing:
    """A dot and a name for each row of ``places``, (names, 2); both axes have the same scale.

    >>> drawing = scatter([[0, 0], [4, 2]], ["one", "two"])
    >>> [(shape.tip, shape.x) for shape in drawing.shapes if shape.kind == "point"]
    [('one: 0, 0', 24.0), ('two: 4, 2', 586.4)]
    """
    points = np.asarray(places, dtype=np.float64)
    if points.shape != (len(names), 2) or not len(names) or not np.isfinite(points).all():
        raise InputError(f"{len(names)} names cannot be at places of shape {points.shape}")
    width, height = size
    top = _MARGIN + (28.0 if title else 0.0)
    room = min(_NAME, max(map(width_of, names))) + 8  # for a name at the right edge
    low, span = points.min(axis=0), np.maximum(np.ptp(points, axis=0), 1e-12)
    scale = float(min((width - 2 * _MARGIN - room) / span[0], (height - top - _MARGIN) / span[1]))
    x = _MARGIN + (points[:, 0] - low[0]) * scale
    y = height - _MARGIN - (points[:, 1] - low[1]) * scale
    shapes: list[Shape] = [*heading(title, width)]
    for name, (a, b), across, down in zip(names, points, x.tolist(), y.tolist(), strict=True):
        tip = f"{name}: {a:.4g}, {b:.4g}"
        across, down = round(across, 2), round(down, 2)
        shapes.append(Circle(across, down, 3.0, fill="blue", tip=tip, kind="point"))
        shapes.append(Text(across + 6, down + 4, cut(name, _NAME), fill="ink", tip=tip))
    return Drawing(width, height, shapes, title or ", ".join(names[:20]))
