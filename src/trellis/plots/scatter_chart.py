"""`scatter`: named points in the plane, with arrows between them."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from trellis.errors import InputError
from trellis.plots.annotations import draw_title
from trellis.plots.drawing import Drawing
from trellis.plots.shapes import Circle, Line, Shape, Text, cut, estimate_width

__all__ = ["scatter"]

_MARGIN = 24.0
_MAX_NAME = 160.0  # largest width of a name; longer names are cut
_GAP = 5.0  # between an arrow and the centre of a dot
_HEAD = 7.0  # length of the two lines of an arrowhead
_ANGLE = 0.45  # between these lines and the arrow, in radians


def scatter(
    places: ArrayLike,
    names: Sequence[str],
    *,
    arrows: Sequence[tuple[str, str]] = (),
    title: str | None = None,
    size: tuple[float, float] = (640.0, 480.0),
) -> Drawing:
    """Draw a dot and a name for each row of ``places``, shape (names, 2), with equal axis scales.

    ``arrows`` are pairs of names; an arrow leads from the first to the second.

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
    index = {name: n for n, name in enumerate(names)}
    pairs = _read_arrows(arrows, index)
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
    below = -6.0 if pairs else 4.0  # with arrows, names are above the lines
    for a, b in pairs:
        tip = f"{names[a]} → {names[b]}"
        shapes += _draw_arrow((float(x[a]), float(y[a])), (float(x[b]), float(y[b])), tip)
    for name, point, dot_x, dot_y in zip(names, points, x.tolist(), y.tolist(), strict=True):
        tip = f"{name}: {point[0]:.4g}, {point[1]:.4g}"
        dot_x, dot_y = round(dot_x, 2), round(dot_y, 2)
        shapes.append(Circle(dot_x, dot_y, 3.0, fill="blue", tip=tip, kind="point"))
        shapes.append(Text(dot_x + 6, dot_y + below, cut(name, _MAX_NAME), fill="ink", tip=tip))
    return Drawing(width, height, shapes, title or ", ".join(names[:20]))


def _read_arrows(arrows: Sequence[tuple[str, str]], index: dict[str, int]) -> list[tuple[int, int]]:
    """Return the arrows as pairs of point numbers."""
    pairs = []
    for n, arrow in enumerate(arrows):
        if isinstance(arrow, str) or len(arrow) != 2 or not all(name in index for name in arrow):
            raise InputError(f"arrows[{n}] is {arrow!r}: must be two of the names")
        pairs.append((index[arrow[0]], index[arrow[1]]))
    return pairs


def _draw_arrow(start: tuple[float, float], end: tuple[float, float], tip: str) -> list[Shape]:
    """Return an arrow between two dots, a line and a head; [] if the dots are too close."""
    run, rise = end[0] - start[0], end[1] - start[1]
    length = math.hypot(run, rise)
    if length < 2 * _GAP + _HEAD:
        return []
    run, rise = run / length, rise / length
    point = end[0] - _GAP * run, end[1] - _GAP * rise
    sides = []
    for angle in (_ANGLE, -_ANGLE):
        turned_run = run * math.cos(angle) - rise * math.sin(angle)
        turned_rise = run * math.sin(angle) + rise * math.cos(angle)
        sides.append(_round(point[0] - _HEAD * turned_run, point[1] - _HEAD * turned_rise))
    tail = _round(start[0] + _GAP * run, start[1] + _GAP * rise)
    lines = ((tail, _round(*point)), (sides[0], _round(*point), sides[1]))
    return [Line(points, stroke="red", stroke_width=1.5, tip=tip, kind="arrow") for points in lines]


def _round(x: float, y: float) -> tuple[float, float]:
    return round(x, 2), round(y, 2)
