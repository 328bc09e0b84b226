"""`heat_map`: a matrix as coloured cells."""

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.plots.annotations import draw_title
from trellis.plots.drawing import Drawing
from trellis.plots.shapes import Rect, Shape, Text, cut, estimate_width

__all__ = ["heat_map"]

_MAX_NUMBERED = 12  # rows or columns; in a larger matrix, the cells are too small for numbers
_MAX_NAME = 150.0  # largest width of a row or column name; longer names are cut
_SCALE_STEPS = 48  # cells of the colour scale


def heat_map(
    matrix: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    x: str = "",
    y: str = "",
    title: str | None = None,
) -> Drawing:
    """Draw a matrix: positive values are blue, negative ones red, 0 is white.

    ``x`` and ``y`` label the columns and the rows. Infinite values are grey.

    >>> drawing = heat_map(np.array([[0.5, -2.0]]), ["from A"], ["to A", "to B"])
    >>> [(s.tip, s.fill, round(s.opacity, 2)) for s in drawing.shapes if s.kind == "cell"]
    [('from A → to A: 0.5', 'blue', 0.38), ('from A → to B: -2', 'red', 1.0)]
    """
    values = _validate(matrix, rows, columns)
    grid = _Grid([str(name) for name in rows], [str(name) for name in columns], x, y, title)
    finite_values = values[np.isfinite(values)]
    max_size = float(np.abs(finite_values).max(initial=0.0)) or 1.0
    shapes = [*draw_title(title, grid.width), *grid.names(), *grid.cells(values, max_size)]
    shapes += _draw_scale(
        grid.left, grid.bottom + 16, -max_size if (finite_values < 0).any() else 0.0, max_size
    )
    return Drawing(grid.width, grid.bottom + 56, shapes, title or "heat map")


class _Grid:
    """Computes the positions of cells and names on the sheet."""

    def __init__(
        self, rows: list[str], columns: list[str], x: str, y: str, title: str | None
    ) -> None:
        self.rows, self.columns, self.x_label, self.y_label = rows, columns, x, y
        count = max(len(rows), len(columns))
        self.numbered = count <= _MAX_NUMBERED
        # The side of a cell is 23 units for 13 rows or columns, and 6 units for 216 or more.
        side = max(6.0, 24.0 - count / 12)
        self.cell_width, self.cell_height = (48.0, 32.0) if self.numbered else (side, side)
        self.left = min(max(map(estimate_width, rows)), _MAX_NAME) + (42.0 if y else 24.0)
        # Column names are slanted by 45°, so they take 0.71 of their width in both directions.
        name_width = min(max(map(estimate_width, columns)), _MAX_NAME)
        self.caption = 56.0 if title else 20.0
        self.top = self.caption + (4.0 if x else -18.0) + 0.71 * name_width + 18
        self.bottom = self.top + self.cell_height * len(rows)
        content_width = (
            self.left + self.cell_width * len(columns) + max(0.71 * name_width, 16.0) + 8
        )
        self.width = max(content_width, self.left + 260, estimate_width(title or "", 15) + 40)

    def names(self) -> list[Shape]:
        """Return the names of rows and columns; if cells are small, only every n-th name."""
        shapes: list[Shape] = []
        step = ceil(12 / self.cell_height)
        for index, name in list(enumerate(self.rows))[::step]:
            y = self.top + self.cell_height * (index + 0.5) + 4
            shapes.append(
                Text(self.left - 6, y, cut(name, _MAX_NAME), anchor="end", fill="ink", tip=name)
            )
        for index, name in list(enumerate(self.columns))[::step]:
            x = self.left + self.cell_width * (index + 0.5) + 3
            shapes.append(
                Text(x, self.top - 8, cut(name, _MAX_NAME), angle=-45, fill="ink", tip=name)
            )
        if self.x_label:
            shapes.append(Text(self.left, self.caption, self.x_label, fill="soft"))
        if self.y_label:
            y_middle = (self.top + self.bottom) / 2
            shapes.append(Text(18, y_middle, self.y_label, anchor="middle", angle=-90, fill="soft"))
        return shapes

    def cells(self, values: NDArray[np.float64], max_size: float) -> list[Shape]:
        """Return a rectangle for each value, with a number if the matrix is small."""
        box = (self.cell_width * len(self.columns), self.cell_height * len(self.rows))
        shapes: list[Shape] = [Rect(self.left, self.top, *box, stroke="line")]
        gap = 1.0 if self.cell_height > 12 else 0.0
        for (i, j), value in np.ndenumerate(values):
            x, y = self.left + self.cell_width * j, self.top + self.cell_height * i
            fill, shade = _choose_shade(float(value), max_size)
            tip = f"{self.rows[i]} → {self.columns[j]}: {value:.4g}"
            size = (self.cell_width - gap, self.cell_height - gap)
            shapes.append(Rect(x, y, *size, fill=fill, opacity=shade, tip=tip, kind="cell"))
            if self.numbered:
                # In the dark palette, paper has more contrast than ink for shades above 0.64.
                colour = "paper" if shade > 0.62 else "ink"
                centre = (x + self.cell_width / 2, y + self.cell_height / 2 + 4)
                shapes.append(
                    Text(
                        *centre, _format_number(value, max_size), 11, "middle", fill=colour, tip=tip
                    )
                )
        return shapes


def _choose_shade(value: float, max_size: float) -> tuple[str, float]:
    """Return the colour and the opacity of a value."""
    if not np.isfinite(value):
        return "soft", 0.35
    opacity = (abs(value) / max_size) ** 0.7  # with an exponent below 1, small values stay visible
    return "blue" if value >= 0 else "red", opacity


def _format_number(value: float, max_size: float) -> str:
    if not np.isfinite(value):
        return "∞" if value > 0 else "−∞"
    digits = 2 if max_size < 10 else 1 if max_size < 100 else 0
    return f"{value:.{digits}f}".replace("-", "−")


def _draw_scale(x: float, y: float, low: float, high: float) -> list[Shape]:
    """Return the colour scale with its numbers."""
    shapes: list[Shape] = []
    steps = np.linspace(low, high, _SCALE_STEPS)
    for n, value in enumerate(steps.tolist()):
        fill, shade = _choose_shade(value, high)
        shapes.append(Rect(x + 4 * n, y, 4, 10, fill=fill, opacity=shade))
    shapes.append(Rect(x, y, 4 * _SCALE_STEPS, 10, stroke="line"))
    for value in sorted({low, 0.0, high}):
        position = x + 4 * _SCALE_STEPS * (value - low) / (high - low)
        shapes.append(
            Text(position, y + 25, f"{value:.3g}".replace("-", "−"), 11, "middle", fill="soft")
        )
    return shapes


def _validate(
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
        raise InputError(f"the matrix, row {rows[i]!r}, column {columns[j]!r}: the value is NaN")
    return values
