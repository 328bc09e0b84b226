"""`curves`: lines through points, with two axes."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from trellis.errors import InputError
from trellis.plots.annotations import Entry, choose_ticks, draw_legend, draw_title
from trellis.plots.drawing import Drawing
from trellis.plots.shapes import Circle, Line, Rect, Shape, Text, estimate_width

__all__ = ["curves"]

Points: TypeAlias = Sequence[tuple[float, float]]

_COLOURS = ("blue", "red", "green", "purple", "amber", "soft")
_MAX_MARKERS = 24  # a line with more points has no markers, because they would hide it


def curves(
    series: Mapping[str, Points],
    x: str = "",
    y: str = "",
    title: str | None = None,
    *,
    dashed: Collection[str] = (),
    size: tuple[float, float] = (640.0, 380.0),
) -> Drawing:
    """Draw named lines through (x, y) points, with round numbers on the axes.

    ``x`` and ``y`` label the axes. Lines in ``dashed`` have no markers at their points.

    >>> drawing = curves({"loss": [(0, 9.5), (1, 4.0), (2, 3.5)]}, x="iteration")
    >>> [shape.tip for shape in drawing.shapes if shape.kind == "point"]
    ['loss: 0, 9.5', 'loss: 1, 4', 'loss: 2, 3.5']
    """
    _validate(series)
    axes = _Axes(series, x, y, title, size)
    entries: list[Entry] = [
        (name, partial(_draw_symbol, n, name in dashed))
        for n, name in enumerate(series)
        if len(series) > 1
    ]
    legend_shapes, legend_end = draw_legend(entries, axes.left, 50 if title else 20, size[0] - 12)
    axes.top = legend_end + 14 if entries else 46.0 if title else 16.0
    shapes = [*draw_title(title, size[0]), *legend_shapes, *axes.shapes()]
    for n, (name, points) in enumerate(series.items()):
        is_dashed = name in dashed
        shapes.append(
            _draw_line(n, is_dashed, [axes.position(*point) for point in points], "curve")
        )
        if not is_dashed and len(points) <= _MAX_MARKERS:
            shapes += [
                _draw_marker(
                    n, *axes.position(*point), f"{name}: {_format_number(point[0])}, {point[1]:.6g}"
                )
                for point in points
            ]
    return Drawing(*size, shapes, title or ", ".join(series))


class _Axes:
    """The axes, which map values to positions on the sheet."""

    top: float
    """The y coordinate of the upper end; it is set when the height of the legend is known."""

    def __init__(
        self,
        series: Mapping[str, Points],
        x: str,
        y: str,
        title: str | None,
        size: tuple[float, float],
    ) -> None:
        self.x_ticks = choose_ticks([point[0] for points in series.values() for point in points])
        self.y_ticks = choose_ticks([point[1] for points in series.values() for point in points])
        self.x_label, self.y_label = x, y
        self.height = size[1]
        number_width = max(estimate_width(_format_number(value)) for value in self.y_ticks)
        self.left = number_width + (44.0 if y else 24.0)
        self.right = size[0] - 24.0
        self.base = size[1] - (48.0 if x else 28.0)

    def position(self, x: float, y: float) -> tuple[float, float]:
        """Return the position of a point on the sheet."""
        x_fraction = (x - self.x_ticks[0]) / (self.x_ticks[-1] - self.x_ticks[0])
        y_fraction = (y - self.y_ticks[0]) / (self.y_ticks[-1] - self.y_ticks[0])
        horizontal = self.left + x_fraction * (self.right - self.left)
        return horizontal, self.base - y_fraction * (self.base - self.top)

    def shapes(self) -> list[Shape]:
        """Return the grid lines, the numbers of the ticks and the labels of the axes."""
        shapes: list[Shape] = []
        for value in self.y_ticks:
            y = self.position(self.x_ticks[0], value)[1]
            shapes.append(Line(((self.left, y), (self.right, y)), stroke="line"))
            shapes.append(
                Text(self.left - 8, y + 4, _format_number(value), anchor="end", fill="soft")
            )
        for value in self.x_ticks:
            x = self.position(value, self.y_ticks[0])[0]
            shapes.append(
                Text(x, self.base + 18, _format_number(value), anchor="middle", fill="soft")
            )
        centre = (self.left + self.right) / 2, (self.top + self.base) / 2
        if self.x_label:
            shapes.append(
                Text(centre[0], self.height - 10, self.x_label, anchor="middle", fill="ink")
            )
        if self.y_label:
            shapes.append(Text(18, centre[1], self.y_label, anchor="middle", angle=-90, fill="ink"))
        return shapes


def _validate(series: Mapping[str, Points]) -> None:
    """Raise if there is no point, or if a point is not two finite numbers."""
    if not series:
        raise InputError("series is empty: there is nothing to draw")
    for name, points in series.items():
        if not len(points):
            raise InputError(f"series {name!r} has no points")
        for n, point in enumerate(points):
            if len(point) != 2 or not np.isfinite(point).all():
                raise InputError(f"series {name!r}, point {n}: {point!r} is not two finite numbers")


def _format_number(value: float) -> str:
    return f"{value:,.10g}".replace("-", "−")


def _draw_line(index: int, dashed: bool, points: Points, kind: str = "") -> Shape:
    dash = (6.0, 4.0) if dashed else None
    colour = _COLOURS[index % len(_COLOURS)]
    return Line(tuple(points), stroke=colour, stroke_width=2.0, dash=dash, kind=kind)


def _draw_marker(n: int, x: float, y: float, tip: str = "") -> Shape:
    """Return a disc, a square or a ring, so that overlapping lines can be distinguished."""
    colour = _COLOURS[n % len(_COLOURS)]
    kind = "point" if tip else ""
    if n % 3 == 1:
        return Rect(x - 4, y - 4, 8, 8, fill=colour, tip=tip, kind=kind)
    if n % 3 == 2:
        return Circle(x, y, 7, stroke=colour, stroke_width=1.8, tip=tip, kind=kind)
    return Circle(x, y, 4, fill=colour, tip=tip, kind=kind)


def _draw_symbol(n: int, dashed: bool, x: float, y: float) -> list[Shape]:
    line = _draw_line(n, dashed, [(x, y), (x + 28, y)])
    return [line] if dashed else [line, _draw_marker(n, x + 14, y)]
