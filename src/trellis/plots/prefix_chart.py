"""`prefix_tree`: how the hypotheses of a CTC beam search grow, frame by frame."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from trellis.errors import InputError
from trellis.plots.annotations import Entry, draw_legend, draw_title
from trellis.plots.drawing import Drawing
from trellis.plots.shapes import HALO, Circle, Line, Shape, Text, cut, estimate_width

__all__ = ["prefix_tree"]

_ROW = 36.0  # distance between the hypotheses of a frame
_MAX_NAME = 120.0  # largest width of a hypothesis; longer ones are cut
_EMPTY = "ε"

Hypothesis = tuple[Sequence[int], float]


def prefix_tree(
    beams: Sequence[Iterable[Hypothesis]], labels: Sequence[str], *, title: str | None = None
) -> Drawing:
    """Draw the beam after each frame, and which hypothesis comes from which.

    ``beams[t]`` has the hypotheses after frame t as (label indices, log-probability), best first.
    In a frame, a hypothesis stays the same or grows by one label. So the lines to a hypothesis come
    from the same hypothesis in the frame before, and from the one without its last label. The area
    of a node is its share of the probability of the beam. A hypothesis without a line to the right
    has left the beam.

    >>> beams = [[((), -0.5), ((1,), -1.0)], [((1,), -0.7), ((1, 2), -2.0)]]
    >>> drawing = prefix_tree(beams, ["–", "a", "b"])
    >>> [shape.tip for shape in drawing.shapes if shape.kind == "hypothesis"][-1]
    'after frame 1: ab, log p = -2.000'
    """
    columns = [_check_beam(t, beam, len(labels)) for t, beam in enumerate(beams)]
    if not columns:
        raise InputError("beams is empty: at least one frame is needed")
    columns.insert(0, {(): 0.0})  # before the first frame: the empty hypothesis
    names = [
        {labelling: "".join(str(labels[v]) for v in labelling) or _EMPTY for labelling in column}
        for column in columns
    ]
    name_width = max(estimate_width(name) for column in names for name in column.values())
    column_width = 60.0 + min(name_width, _MAX_NAME)
    top = 70.0 if title else 42.0
    bottom = top + _ROW * (max(map(len, columns)) - 1) + 24
    width = max(30 + column_width * len(columns), 420.0, estimate_width(title or "", 15) + 40)

    def position(t: int, row: int) -> tuple[float, float]:
        return 30.0 + column_width * t, top + _ROW * row

    shapes: list[Shape] = draw_title(title, width)
    rows = [{labelling: row for row, labelling in enumerate(column)} for column in columns]
    for t, (rows_before, rows_here) in enumerate(pairwise(rows), 1):
        for labelling, row in rows_here.items():
            for parent in dict.fromkeys((labelling, labelling[:-1])):
                if parent in rows_before:
                    ends = (position(t - 1, rows_before[parent]), position(t, row))
                    kind, stroke = ("same", "soft") if parent == labelling else ("grown", "blue")
                    shapes.append(Line(ends, stroke=stroke, stroke_width=1.4, kind=kind))
    for t in range(len(columns)):
        x, y = position(t, 0)
        heading = f"frame {t - 1}" if t else "start"
        shapes.append(Text(x - 8, y - 24, heading, 11, fill="soft", kind="frame"))
    for t, column in enumerate(columns):
        best = max(column.values())
        weights = [float(np.exp(log_p - best)) for log_p in column.values()]
        for row, (labelling, log_p) in enumerate(column.items()):
            x, y = position(t, row)
            share = weights[row] / sum(weights)
            tip = f"after frame {t - 1}: {names[t][labelling]}, log p = {log_p:.3f}" if t else ""
            kind = "hypothesis" if t else "root"
            text = cut(names[t][labelling], _MAX_NAME)
            shapes.append(Text(x + 4, y - 10, text, fill="ink", tip=tip, kind="name", **HALO))
            shapes += _draw_node(x, y, share, tip, kind)
    entries: list[Entry] = [
        ("share of the beam", lambda x, y: _draw_node(x + 18, y, 0.4, "", "")),
        ("one label more", lambda x, y: [Line(((x, y), (x + 28, y)), stroke="blue")]),
        ("the same labels", lambda x, y: [Line(((x, y), (x + 28, y)), stroke="soft")]),
    ]
    legend, height = draw_legend(entries, 24.0, bottom + 14, width - 12)
    return Drawing(width, height + 10, [*shapes, *legend], title or "prefixes of a beam search")


def _draw_node(x: float, y: float, share: float, tip: str, kind: str) -> list[Shape]:
    radius = float(3.0 + 7.0 * np.sqrt(share))
    return [
        Circle(x, y, radius, fill="paper"),  # hides the lines under a transparent node
        Circle(x, y, radius, fill="blue", opacity=share, stroke="soft", tip=tip, kind=kind),
    ]


def _check_beam(t: int, beam: Iterable[Hypothesis], n_labels: int) -> dict[tuple[int, ...], float]:
    """Return the log-probability of each labelling; raise InputError if one is invalid."""
    column: dict[tuple[int, ...], float] = {}
    for n, entry in enumerate(beam):
        labelling, log_p = tuple(int(v) for v in entry[0]), float(entry[1])
        place = f"beams, frame {t}, hypothesis {n}"
        for v in labelling:
            if not 0 <= v < n_labels:
                raise InputError(f"{place}: {v} is not the index of one of {n_labels} labels")
        if not np.isfinite(log_p):
            raise InputError(f"{place}: the log-probability is {log_p}: must be finite")
        if labelling in column:
            raise InputError(f"{place}: {list(labelling)} occurs twice")
        column[labelling] = log_p
    if not column:
        raise InputError(f"beams, frame {t} is empty: a beam has at least one hypothesis")
    return column
