"""Lines through points, over two axes."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from trellis.errors import InputError
from trellis.plots.drawing import Circle, Drawing, Line, Rect, Shape, Text, width_of
from trellis.plots.frame import Entry, heading, legend, ticks

__all__ = ["curves"]

Points: TypeAlias = Sequence[tuple[float, float]]

_COLOURS = ("blue", "red", "green", "purple", "amber", "soft")
_MARKED = 24  # a line of more points is drawn without marks


def curves(
    series: Mapping[str, Points],
    x: str = "",
    y: str = "",
    title: str | None = None,
    *,
    dashed: Collection[str] = (),
    size: tuple[float, float] = (640.0, 380.0),
) -> Drawing:
    """Named lines through (x, y) points, over axes with round numbers.

    ``x`` and ``y`` say what the axes are. Lines in ``dashed`` have no marks at their points.

    >>> drawing = curves({"loss": [(0, 9.5), (1, 4.0), (2, 3.5)]}, x="iteration")
    >>> [shape.tip for shape in drawing.shapes if shape.kind == "point"]
    ['loss: 0, 9.5', 'loss: 1, 4', 'loss: 2, 3.5']
    """
    _check(series)
    axes = _Axes(series, x, y, title, size)
    keys: list[Entry] = [
        (name, partial(_key, n, name in dashed)) for n, name in enumerate(series) if len(series) > 1
    ]
    found, below = legend(keys, axes.left, 50 if title else 20, size[0] - 12)
    axes.top = below + 14 if keys else 46.0 if title else 16.0
    shapes = [*heading(title, size[0]), *found, *axes.frame()]
    for n, (name, points) in enumerate(series.items()):
        bare = name in dashed
        shapes.append(_line(n, bare, [axes.place(*point) for point in points], "curve"))
        if not bare and len(points) <= _MARKED:
            shapes += [
                _mark(n, *axes.place(*point), f"{name}: {_number(point[0])}, {point[1]:.6g}")
                for point in points
            ]
    return Drawing(*size, shapes, title or ", ".join(series))


class _Axes:
    """From values to places."""

    top: float

    def __init__(
        self,
        series: Mapping[str, Points],
        x: str,
        y: str,
        title: str | None,
        size: tuple[float, float],
    ) -> None:
        self.across = ticks([point[0] for points in series.values() for point in points])
        self.up = ticks([point[1] for points in series.values() for point in points])
        self.x, self.y = x, y
        self.height = size[1]
        numbers = max(width_of(_number(value)) for value in self.up)
        self.left = numbers + (44.0 if y else 24.0)
        self.right = size[0] - 24.0
        self.base = size[1] - (48.0 if x else 28.0)

    def place(self, x: float, y: float) -> tuple[float, float]:
        right = (x - self.across[0]) / (self.across[-1] - self.across[0])
        rise = (y - self.up[0]) / (self.up[-1] - self.up[0])
        across = self.left + right * (self.right - self.left)
        return across, self.base - rise * (self.base - self.top)

    def frame(self) -> list[Shape]:
        """Lines across, numbers at them, and what they are of."""
        shapes: list[Shape] = []
        for value in self.up:
            at = self.place(self.across[0], value)[1]
            shapes.append(Line(((self.left, at), (self.right, at)), stroke="line"))
            shapes.append(Text(self.left - 8, at + 4, _number(value), anchor="end", fill="soft"))
        for value in self.across:
            at = self.place(value, self.up[0])[0]
            shapes.append(Text(at, self.base + 18, _number(value), anchor="middle", fill="soft"))
        middle = (self.left + self.right) / 2, (self.top + self.base) / 2
        if self.x:
            shapes.append(Text(middle[0], self.height - 10, self.x, anchor="middle", fill="ink"))
        if self.y:
            shapes.append(Text(18, middle[1], self.y, anchor="middle", angle=-90, fill="ink"))
        return shapes


def _check(series: Mapping[str, Points]) -> None:
    if not series:
        raise InputError("series is empty: there is nothing to draw")
    for name, points in series.items():
        if not len(points):
            raise InputError(f"series {name!r} has no points")
        for n, point in enumerate(points):
            if len(point) != 2 or not np.isfinite(point).all():
                raise InputError(f"series {name!r}, point {n}: {point!r} is not two finite numbers")


def _number(value: float) -> str:
    return f"{value:,.10g}".replace("-", "−")


def _line(n: int, dashed: bool, points: Points, kind: str = "") -> Shape:
    dash = (6.0, 4.0) if dashed else None
    colour = _COLOURS[n % len(_COLOURS)]
    return Line(tuple(points), stroke=colour, width=2.0, dash=dash, kind=kind)


def _mark(n: int, x: float, y: float, tip: str = "") -> Shape:
    """Discs, squares and rings: lines that lie on each other can still be told apart."""
    colour = _COLOURS[n % len(_COLOURS)]
    kind = "point" if tip else ""
    if n % 3 == 1:
        return Rect(x - 4, y - 4, 8, 8, fill=colour, tip=tip, kind=kind)
    if n % 3 == 2:
        return Circle(x, y, 7, stroke=colour, width=1.8, tip=tip, kind=kind)
    return Circle(x, y, 4, fill=colour, tip=tip, kind=kind)


def _key(n: int, dashed: bool, x: float, y: float) -> list[Shape]:
    line = _line(n, dashed, [(x, y), (x + 28, y)])
    return [line] if dashed else [line, _mark(n, x + 14, y)]
