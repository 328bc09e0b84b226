"""`emissions`: label probabilities of a CTC network over time, with an alignment path."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.plots.annotations import choose_ticks, draw_title
from trellis.plots.drawing import Drawing
from trellis.plots.shapes import Line, Rect, Shape, Text, cut, estimate_width

__all__ = ["emissions"]

_MIN_SHOWN = 0.02  # smaller probabilities have no cell: the file would be too large
_MAX_NAME = 110.0  # largest width of a label name; longer names are cut
_ROW_HEIGHT = 16.0
_WIDTH = 900.0  # width of all frames together; but one frame has a width from 2 to 24


def emissions(
    log_probs: NDArray[Any],
    labels: Sequence[str],
    path: NDArray[np.integer[Any]] | Sequence[int] | None = None,
    *,
    frame: float = 1.0,
    x: str = "frame",
    title: str | None = None,
) -> Drawing:
    """Draw log-probabilities of shape (frames, labels): one row per label, darker is more probable.

    ``labels`` names the columns. ``path`` has one label index per frame and is drawn in red. Labels
    that are never probable and not on the path have no row. ``frame`` is the duration of a frame in
    the unit that ``x`` names.

    >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1]])
    >>> drawing = emissions(np.log(p), ["blank", "a"], [0, 1, 0])
    >>> [s.tip for s in drawing.shapes if s.kind == "cell"][:2]
    ['blank, frame 0: 0.90', 'blank, frame 1: 0.20']
    """
    p, on_path = _validate(log_probs, labels, path)
    shown = np.flatnonzero((p.max(axis=0) >= 0.1) | np.isin(np.arange(len(labels)), on_path))
    sheet = _Sheet(len(p), [str(labels[v]) for v in shown.tolist()], title)
    shapes = [*draw_title(title, sheet.width), *sheet.axes(frame, x)]
    for row, v in enumerate(shown.tolist()):
        for t in np.flatnonzero(p[:, v] >= _MIN_SHOWN):
            tip = f"{labels[v]}, frame {t}: {p[t, v]:.2f}"
            shade = float(p[t, v]) ** 0.7  # with an exponent below 1, small values stay visible
            box = (
                sheet.left + sheet.frame_width * t,
                sheet.top + _ROW_HEIGHT * row,
                sheet.frame_width,
                _ROW_HEIGHT,
            )
            shapes.append(Rect(*box, fill="blue", opacity=shade, tip=tip, kind="cell"))
    if len(on_path):
        shapes += sheet.path([int(np.searchsorted(shown, v)) for v in on_path])
    return Drawing(sheet.width, sheet.bottom + 48, shapes, title or "emissions")


class _Sheet:
    """Computes the positions of cells, names and axes on the sheet."""

    def __init__(self, frames: int, names: list[str], title: str | None) -> None:
        self.frames, self.names = frames, names
        self.frame_width = min(24.0, max(2.0, _WIDTH / frames))
        self.left = min(max(map(estimate_width, names)), _MAX_NAME) + 24.0
        self.top = 46.0 if title else 16.0
        self.bottom = self.top + _ROW_HEIGHT * len(names)
        self.right = self.left + self.frame_width * frames
        self.width = max(self.right + 20, estimate_width(title or "", 15) + 40)

    def axes(self, unit: float, x: str) -> list[Shape]:
        """Return a box, the names of the labels on the left and round numbers below."""
        size = (self.right - self.left, self.bottom - self.top)
        shapes: list[Shape] = [Rect(self.left, self.top, *size, stroke="line")]
        for row, name in enumerate(self.names):
            y = self.top + _ROW_HEIGHT * (row + 0.5) + 4
            shapes.append(
                Text(self.left - 8, y, cut(name, _MAX_NAME), anchor="end", fill="ink", tip=name)
            )
        for value in choose_ticks([0.0, self.frames * unit]):
            position = self.left + self.frame_width * value / unit
            if position <= self.right:
                text = f"{value:,.10g}"
                shapes.append(Text(position, self.bottom + 16, text, anchor="middle", fill="soft"))
        middle = (self.left + self.right) / 2
        shapes.append(Text(middle, self.bottom + 36, x, anchor="middle", fill="ink"))
        return shapes

    def path(self, rows: list[int]) -> list[Shape]:
        """Return a line through the rows of the path. A run of equal rows has two points."""
        points, start = [], 0
        for row, run in groupby(rows):
            end = start + len(list(run))
            y = self.top + _ROW_HEIGHT * (row + 0.5)
            points += [
                (self.left + self.frame_width * (t + 0.5), y) for t in sorted({start, end - 1})
            ]
            start = end
        return [Line(tuple(points), stroke="red", stroke_width=1.6, kind="path")]


def _validate(
    log_probs: Any, labels: Sequence[str], path: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    x = np.asarray(log_probs, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != len(labels):
        raise InputError(f"log_probs has shape {x.shape}, but there are {len(labels)} labels")
    if x.size == 0:
        raise InputError(f"log_probs has shape {x.shape}: there is nothing to draw")
    if not (x <= 1e-6).all():  # a comparison with NaN is False, so NaN raises too
        t, v = np.argwhere(~(x <= 1e-6))[0].tolist()
        raise InputError(f"log_probs of frame {t}, label {labels[v]!r} is {x[t, v]}: must be ≤ 0")
    on_path = np.asarray([] if path is None else path, dtype=np.int64)
    if path is not None and on_path.shape != (len(x),):
        raise InputError(f"the path has shape {on_path.shape}, but there are {len(x)} frames")
    outside = (on_path < 0) | (on_path >= len(labels))
    if outside.any():
        t = int(np.argmax(outside))
        raise InputError(
            f"the path, frame {t}: {on_path[t]} is not the index of one of {len(labels)} labels"
        )
    return np.exp(np.minimum(x, 0.0)), on_path
