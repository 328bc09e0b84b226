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
_WIDTH = 900.0  # width of all frames together, if the width of a frame is then between 2 and 24


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
    p, path_labels = _validate(log_probs, labels, path)
    most_probable = p.max(axis=0)
    # If all probabilities are below 0.1, the label with the largest one is shown, so that the
    # picture has at least one row.
    is_probable = most_probable >= min(0.1, most_probable.max())
    shown_labels = np.flatnonzero(is_probable | np.isin(np.arange(len(labels)), path_labels))
    sheet = _Sheet(len(p), [str(labels[label]) for label in shown_labels.tolist()], title)
    shapes = [*draw_title(title, sheet.width), *sheet.axes(frame, x)]
    for row, label in enumerate(shown_labels.tolist()):
        for t in np.flatnonzero(p[:, label] >= _MIN_SHOWN):
            tip = f"{labels[label]}, frame {t}: {p[t, label]:.2f}"
            shade = float(p[t, label]) ** 0.7  # with an exponent below 1, small values stay visible
            box = (
                sheet.left + sheet.frame_width * t,
                sheet.top + _ROW_HEIGHT * row,
                sheet.frame_width,
                _ROW_HEIGHT,
            )
            shapes.append(Rect(*box, fill="blue", opacity=shade, tip=tip, kind="cell"))
    if len(path_labels):
        shapes += sheet.path([int(np.searchsorted(shown_labels, label)) for label in path_labels])
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
        x_middle = (self.left + self.right) / 2
        shapes.append(Text(x_middle, self.bottom + 36, x, anchor="middle", fill="ink"))
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
    scores = np.asarray(log_probs, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[1] != len(labels):
        raise InputError(f"log_probs has shape {scores.shape}, but there are {len(labels)} labels")
    if scores.size == 0:
        raise InputError(f"log_probs has shape {scores.shape}: there is nothing to draw")
    if not (scores <= 1e-6).all():  # a comparison with NaN is False, so NaN raises too
        t, label = np.argwhere(~(scores <= 1e-6))[0].tolist()
        raise InputError(
            f"log_probs of frame {t}, label {labels[label]!r} is {scores[t, label]}: must be ≤ 0"
        )
    path_labels = np.asarray([] if path is None else path, dtype=np.int64)
    if path is not None and path_labels.shape != (len(scores),):
        raise InputError(
            f"the path has shape {path_labels.shape}, but there are {len(scores)} frames"
        )
    is_invalid = (path_labels < 0) | (path_labels >= len(labels))
    if is_invalid.any():
        t = int(np.argmax(is_invalid))
        raise InputError(
            f"the path, frame {t}: {path_labels[t]} is not the index of one of {len(labels)} labels"
        )
    return np.exp(np.minimum(scores, 0.0)), path_labels
