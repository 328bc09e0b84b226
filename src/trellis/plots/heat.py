"""A matrix as coloured cells."""

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.plots.drawing import Drawing, Rect, Shape, Text, cut, width_of
from trellis.plots.frame import heading

__all__ = ["heat_map"]

_NUMBERED = 12  # a matrix of more rows or columns is drawn without numbers
_NAME = 150.0  # the longest a name may get
_STEPS = 48  # of the colour scale


def heat_map(
    matrix: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    x: str = "",
    y: str = "",
    title: str | None = None,
) -> Drawing:
    """Cells the bluer the higher above 0 their value is, the redder the lower below; 0 is paper.

    ``x`` and ``y`` say what columns and rows are. Values that are not finite are grey.

    >>> drawing = heat_map(np.array([[0.5, -2.0]]), ["from A"], ["to A", "to B"])
    >>> [(s.tip, s.fill, round(s.opacity, 2)) for s in drawing.shapes if s.kind == "cell"]
    [('from A → to A: 0.5', 'blue', 0.38), ('from A → to B: -2', 'red', 1.0)]
    """
    values = _checked(matrix, rows, columns)
    grid = _Grid([str(name) for name in rows], [str(name) for name in columns], x, y, title)
    finite = values[np.isfinite(values)]
    most = float(np.abs(finite).max(initial=0.0)) or 1.0
    shapes = [*heading(title, grid.width), *grid.names(), *grid.cells(values, most)]
    shapes += _scale(grid.left, grid.bottom + 16, -most if (finite < 0).any() else 0.0, most)
    return Drawing(grid.width, grid.bottom + 56, shapes, title or "heat map")


class _Grid:
    """Where things are."""

    def __init__(
        self, rows: list[str], columns: list[str], x: str, y: str, title: str | None
    ) -> None:
        self.rows, self.columns, self.x, self.y = rows, columns, x, y
        count = max(len(rows), len(columns))
        self.numbered = count <= _NUMBERED
        side = max(6.0, 24.0 - count / 12)
        self.across, self.down = (48.0, 32.0) if self.numbered else (side, side)
        self.left = min(max(map(width_of, rows)), _NAME) + (42.0 if y else 24.0)
        slant = min(max(map(width_of, columns)), _NAME)
        self.caption = 56.0 if title else 20.0
        self.top = self.caption + (4.0 if x else -18.0) + 0.71 * slant + 18
        self.bottom = self.top + self.down * len(rows)
        content = self.left + self.across * len(columns) + max(0.71 * slant, 16.0) + 8
        self.width = max(content, self.left + 260, width_of(title or "", 15) + 40)

    def names(self) -> list[Shape]:
        """Of rows at the left, of columns slanted above; not all where they are too narrow."""
        shapes: list[Shape] = []
        every = ceil(12 / self.down)
        for n, name in list(enumerate(self.rows))[::every]:
            at = self.top + self.down * (n + 0.5) + 4
            shapes.append(
                Text(self.left - 6, at, cut(name, _NAME), anchor="end", fill="ink", tip=name)
            )
        for n, name in list(enumerate(self.columns))[::every]:
            at = self.left + self.across * (n + 0.5) + 3
            shapes.append(Text(at, self.top - 8, cut(name, _NAME), angle=-45, fill="ink", tip=name))
        if self.x:
            shapes.append(Text(self.left, self.caption, self.x, fill="soft"))
        if self.y:
            middle = (self.top + self.bottom) / 2
            shapes.append(Text(18, middle, self.y, anchor="middle", angle=-90, fill="soft"))
        return shapes

    def cells(self, values: NDArray[np.float64], most: float) -> list[Shape]:
        """A rectangle for each value, and a number in it where there is room."""
        box = (self.across * len(self.columns), self.down * len(self.rows))
        shapes: list[Shape] = [Rect(self.left, self.top, *box, stroke="line")]
        gap = 1.0 if self.down > 12 else 0.0
        for (i, j), value in np.ndenumerate(values):
            x, y = self.left + self.across * j, self.top + self.down * i
            fill, shade = _shade(float(value), most)
            tip = f"{self.rows[i]} → {self.columns[j]}: {value:.4g}"
            size = (self.across - gap, self.down - gap)
            shapes.append(Rect(x, y, *size, fill=fill, opacity=shade, tip=tip, kind="cell"))
            if self.numbered:
                colour = "paper" if shade > 0.62 else "ink"
                place = (x + self.across / 2, y + self.down / 2 + 4)
                shapes.append(
                    Text(*place, _number(value, most), 11, "middle", fill=colour, tip=tip)
                )
        return shapes


def _shade(value: float, most: float) -> tuple[str, float]:
    if not np.isfinite(value):
        return "soft", 0.35
    return "blue" if value >= 0 else "red", (abs(value) / most) ** 0.7  # small ones show too


def _number(value: float, most: float) -> str:
    if not np.isfinite(value):
        return "∞" if value > 0 else "−∞"
    digits = 2 if most < 10 else 1 if most < 100 else 0
    return f"{value:.{digits}f}".replace("-", "−")


def _scale(x: float, y: float, low: float, high: float) -> list[Shape]:
    """What the colours mean."""
    shapes: list[Shape] = []
    steps = np.linspace(low, high, _STEPS)
    for n, value in enumerate(steps.tolist()):
        fill, shade = _shade(value, high)
        shapes.append(Rect(x + 4 * n, y, 4, 10, fill=fill, opacity=shade))
    shapes.append(Rect(x, y, 4 * _STEPS, 10, stroke="line"))
    for value in sorted({low, 0.0, high}):
        at = x + 4 * _STEPS * (value - low) / (high - low)
        shapes.append(Text(at, y + 25, f"{value:.3g}".replace("-", "−"), 11, "middle", fill="soft"))
    return shapes


def _checked(
    matrix: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str]
) -> NDArray[np.float64]:
    values = np.asarray(matrix, dtype=np.float64)
    if values.shape != (len(rows), len(columns)):
        raise InputError(
            f"the matrix has shape {values.shape}, but there are {len(rows)} rows and "
            f"{len(columns)} columns"
        )
    if values.size == 0:
        raise InputError(f"the matrix has shape {values.shape}: there is nothing to draw")
    if np.isnan(values).any():
        i, j = np.argwhere(np.isnan(values))[0].tolist()
        raise InputError(f"the matrix, row {rows[i]!r}, column {columns[j]!r}: not a number")
    return values
