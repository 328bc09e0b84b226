"""What a network says at each frame, and the path of an alignment on top of it."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.plots.drawing import Drawing, Line, Rect, Shape, Text, cut, width_of
from trellis.plots.frame import heading, ticks

__all__ = ["emissions"]

_SEEN = 0.02  # a probability below this is left white
_NAME = 110.0  # the longest a name may get
_DOWN = 16.0  # height of a row
_WIDTH = 900.0  # of the frames, unless they get too narrow or too wide for it


def emissions(
    log_probs: NDArray[Any],
    labels: Sequence[str],
    path: NDArray[np.integer[Any]] | Sequence[int] | None = None,
    *,
    frame: float = 1.0,
    x: str = "frame",
    title: str | None = None,
) -> Drawing:
    """Frames from left to right, a row for each label, the bluer the more probable; the path red.

    ``labels`` names the columns of ``log_probs``; those that are never probable and not on the path
    have no row. ``frame`` is what a frame lasts, in the units of ``x``.

    >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1]])
    >>> drawing = emissions(np.log(p), ["blank", "a"], [0, 1, 0])
    >>> [s.tip for s in drawing.shapes if s.kind == "cell"][:2]
    ['blank, frame 0: 0.90', 'blank, frame 1: 0.20']
    """
    p, on_path = _checked(log_probs, labels, path)
    shown = np.flatnonzero((p.max(axis=0) >= 0.1) | np.isin(np.arange(len(labels)), on_path))
    sheet = _Sheet(len(p), [str(labels[v]) for v in shown.tolist()], title)
    shapes = [*heading(title, sheet.width), *sheet.frame(frame, x)]
    for row, v in enumerate(shown.tolist()):
        for t in np.flatnonzero(p[:, v] >= _SEEN):
            tip = f"{labels[v]}, frame {t}: {p[t, v]:.2f}"
            shade = float(p[t, v]) ** 0.7  # small ones show too
            box = (sheet.left + sheet.across * t, sheet.top + _DOWN * row, sheet.across, _DOWN)
            shapes.append(Rect(*box, fill="blue", opacity=shade, tip=tip, kind="cell"))
    if len(on_path):
        shapes += sheet.path([int(np.searchsorted(shown, v)) for v in on_path])
    return Drawing(sheet.width, sheet.bottom + 48, shapes, title or "emissions")


class _Sheet:
    """Where things are."""

    def __init__(self, frames: int, names: list[str], title: str | None) -> None:
        self.frames, self.names = frames, names
        self.across = min(24.0, max(2.0, _WIDTH / frames))
        self.left = min(max(map(width_of, names)), _NAME) + 24.0
        self.top = 46.0 if title else 16.0
        self.bottom = self.top + _DOWN * len(names)
        self.right = self.left + self.across * frames
        self.width = max(self.right + 20, width_of(title or "", 15) + 40)

    def frame(self, unit: float, x: str) -> list[Shape]:
        """A box, names at the left, round numbers below."""
        size = (self.right - self.left, self.bottom - self.top)
        shapes: list[Shape] = [Rect(self.left, self.top, *size, stroke="line")]
        for row, name in enumerate(self.names):
            at = self.top + _DOWN * (row + 0.5) + 4
            shapes.append(
                Text(self.left - 8, at, cut(name, _NAME), anchor="end", fill="ink", tip=name)
            )
        for value in ticks([0.0, self.frames * unit]):
            at = self.left + self.across * value / unit
            if at <= self.right:
                text = f"{value:,.10g}"
                shapes.append(Text(at, self.bottom + 16, text, anchor="middle", fill="soft"))
        middle = (self.left + self.right) / 2
        shapes.append(Text(middle, self.bottom + 36, x, anchor="middle", fill="ink"))
        return shapes

    def path(self, rows: list[int]) -> list[Shape]:
        """A line in the row of each run of frames, and between the runs."""
        points, start = [], 0
        for row, run in groupby(rows):
            end = start + len(list(run))
            at = self.top + _DOWN * (row + 0.5)
            points += [(self.left + self.across * (t + 0.5), at) for t in sorted({start, end - 1})]
            start = end
        return [Line(tuple(points), stroke="red", width=1.6, kind="path")]


def _checked(log_probs: Any, labels: Sequence[str], path: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    x = np.asarray(log_probs, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != len(labels):
        raise InputError(f"log_probs has shape {x.shape}, but there are {len(labels)} labels")
    if x.size == 0:
        raise InputError(f"log_probs has shape {x.shape}: there is nothing to draw")
    if not (x <= 1e-6).all():  # false for NaN too
        t, v = np.argwhere(~(x <= 1e-6))[0].tolist()
        raise InputError(f"log_probs of frame {t}, label {labels[v]!r} is {x[t, v]}: must be ≤ 0")
    on_path = np.asarray([] if path is None else path, dtype=np.int64)
    if path is not None and on_path.shape != (len(x),):
        raise InputError(f"the path has shape {on_path.shape}, but there are {len(x)} frames")
    outside = (on_path < 0) | (on_path >= len(labels))
    if outside.any():
        t = int(np.argmax(outside))
        raise InputError(f"the path, frame {t}: {on_path[t]} is none of {len(labels)} labels")
    return np.exp(np.minimum(x, 0.0)), on_path
