"""`ctc_lattice`: the forward table of CTC as a lattice of frames and symbols."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.errors import InputError
from trellis.plots.annotations import Entry, draw_legend, draw_title
from trellis.plots.drawing import Drawing
from trellis.plots.shapes import Circle, Line, Shape, Text, cut, estimate_width

__all__ = ["ctc_lattice"]

_COLUMN, _ROW = 46.0, 40.0  # distances between frames and between symbols
_MAX_NAME = 110.0  # largest width of the name of a symbol; longer names are cut
_PATH: dict[str, Any] = {"stroke": "red", "stroke_width": 5.0, "opacity": 0.8}


def ctc_lattice(
    alpha: ArrayLike,
    symbols: Sequence[int],
    labels: Sequence[str],
    path: Sequence[int] | None = None,
    *,
    blank: int = 0,
    title: str | None = None,
) -> Drawing:
    """Draw α of `trellis.inference.ctc.forward`: a column per frame, a row per symbol.

    ``alpha`` has shape (frames, symbols) and contains logarithms. ``symbols`` is the extended
    target, – y₁ – y₂ … –, as label indices, and ``labels`` has the names of the labels. The area
    and the number of a node are its share of the α of its frame, in percent. ``path`` has one label
    index per frame, as `trellis.inference.ctc.align` returns it, and is drawn in red. States that
    no path reaches have no node.

    >>> alpha = np.log([[0.4, 0.6, 1e-300], [0.2, 0.5, 0.3]])
    >>> drawing = ctc_lattice(alpha, [0, 1, 0], ["–", "a"])
    >>> [shape.tip for shape in drawing.shapes if shape.kind == "node"][-1]
    'frame 1, –: log α = -1.204, 30 % of the frame'
    """
    table = _check_table(alpha, symbols, labels, blank)
    states = [int(symbol) for symbol in symbols]
    names = [str(labels[symbol]) for symbol in states]
    left = 24.0 + min(max(map(estimate_width, names)), _MAX_NAME)
    top = 66.0 if title else 38.0
    bottom = top + _ROW * (len(states) - 1) + 20
    width = max(left + _COLUMN * len(table) + 20, 420.0, estimate_width(title or "", 15) + 40)

    def position(t: int, s: int) -> tuple[float, float]:
        return left + _COLUMN * (t + 0.5), top + _ROW * s

    shapes: list[Shape] = draw_title(title, width)
    for t in range(len(table)):
        x, y = position(t, 0)
        shapes.append(Text(x, y - 24, str(t), 11, "middle", fill="soft", kind="frame"))
    for s, name in enumerate(names):
        y = position(0, s)[1] + 4
        text = cut(name, _MAX_NAME)
        shapes.append(Text(left - 4, y, text, anchor="end", fill="ink", tip=name, kind="symbol"))
    for t, s, s_next in _list_edges(table, states, blank):
        ends = (position(t, s), position(t + 1, s_next))
        shapes.append(Line(ends, stroke="soft", opacity=0.45, kind="edge"))
    if path is not None:
        rows = _find_states(path, states, len(table))
        points = tuple(position(t, s) for t, s in enumerate(rows))
        shapes.append(Line(points, kind="path", **_PATH))
    share = np.exp(table - table.max(axis=1, keepdims=True, initial=-1e300))
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    for t, s in np.argwhere(table > -np.inf).tolist():
        tip = (
            f"frame {t}, {names[s]}: log α = {table[t, s]:.3f}, {100 * share[t, s]:.0f} % of the "
            "frame"
        )
        shapes += _draw_node(*position(t, s), float(share[t, s]), tip)
    entries: list[Entry] = [
        ("share of α in the frame, in %", lambda x, y: _draw_node(x + 18, y, 0.4, ""))
    ]
    if path is not None:
        entries.insert(0, ("path", lambda x, y: [Line(((x, y), (x + 28, y)), **_PATH)]))
    legend, height = draw_legend(entries, 24.0, bottom + 18, width - 12)
    return Drawing(width, height + 10, [*shapes, *legend], title or "CTC lattice")


def _draw_node(x: float, y: float, share: float, tip: str) -> list[Shape]:
    radius = float(3.0 + 11.0 * np.sqrt(share))
    kind = "node" if tip else ""
    shapes: list[Shape] = [
        Circle(x, y, radius, fill="paper"),  # hides the edges under a transparent node
        Circle(x, y, radius, fill="blue", opacity=share, stroke="soft", tip=tip, kind=kind),
    ]
    if share >= 0.145:  # a number of two digits fits
        colour = "paper" if share > 0.62 else "ink"
        number = f"{100 * share:.0f}"
        shapes.append(Text(x, y + 3.5, number, 10, "middle", share > 0.62, fill=colour, tip=tip))
    return shapes


def _list_edges(
    table: NDArray[np.float64], states: list[int], blank: int
) -> list[tuple[int, int, int]]:
    """Return (t, s, s') of each allowed step from s at frame t to s' that carries α."""
    edges = []
    for t, s in np.argwhere(table[:-1] > -np.inf).tolist():
        for s_next in range(s, min(s + 3, len(states))):
            # A skip leads over a blank from one label to a different one.
            is_skip = s_next == s + 2
            if is_skip and (states[s_next] == blank or states[s_next] == states[s]):
                continue
            if table[t + 1, s_next] > -np.inf:
                edges.append((t, s, s_next))
    return edges


def _find_states(path: Sequence[int], states: list[int], n_frames: int) -> list[int]:
    """Return the state of each frame: from the last state on, the first state with its label."""
    if len(path) != n_frames:
        raise InputError(f"the path has {len(path)} labels, but there are {n_frames} frames")
    rows: list[int] = []
    for t, label in enumerate(path):
        first = rows[-1] if rows else 0
        last = min(first + 3 if rows else 2, len(states))
        row = next((s for s in range(first, last) if states[s] == label), None)
        if row is None:
            raise InputError(f"the path, frame {t}: label {int(label)} cannot follow in the target")
        rows.append(row)
    return rows


def _check_table(
    alpha: ArrayLike, symbols: Sequence[int], labels: Sequence[str], blank: int
) -> NDArray[np.float64]:
    table = np.asarray(alpha, dtype=np.float64)
    if table.ndim != 2 or table.size == 0 or table.shape[1] != len(symbols):
        raise InputError(
            f"alpha has shape {table.shape}: must be (frames, {len(symbols)}), a column per symbol"
        )
    if not (table < np.inf).all():
        t, s = np.argwhere(~(table < np.inf))[0].tolist()
        raise InputError(f"alpha of frame {t}, symbol {s} is {table[t, s]}: must be a logarithm")
    for s, symbol in enumerate(symbols):
        if not 0 <= symbol < len(labels):
            raise InputError(
                f"symbol {s} is {symbol}: must be the index of one of {len(labels)} labels"
            )
        if (s % 2 == 0) != (symbol == blank):
            raise InputError(
                f"symbol {s} is {symbol}: symbols 0, 2, 4 … must be the blank ({blank}), and the "
                "others must not"
            )
    return table
