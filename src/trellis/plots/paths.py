"""The trellis of one sequence: all labels of all positions, and the paths through them."""

from collections.abc import Iterable, Sequence
from itertools import chain, groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.plots.drawing import Circle, Drawing, Line, Shape, Text, cut, width_of
from trellis.plots.frame import Entry, heading, legend

__all__ = ["lattice"]

_ROWS = 14
_MATTERS = 0.01
_DOWN = 42.0
_SLANT = 14  # positions from which the tokens are slanted, to stand closer
_TOKEN_SIZE = 13.0

Place = tuple[float, float]


def lattice(
    tokens: Sequence[str],
    labels: Sequence[Any],
    marginals: NDArray[np.float64],
    best: Sequence[Any],
    second: Sequence[Any] | None = None,
    gold: Sequence[Any] | None = None,
    title: str | None = None,
) -> Drawing:
    """A node for each position and label, as large and dark as p(yₜ | x), and paths through them.

    ``marginals`` is (tokens, labels). The best path is bold, the second best is dashed where it
    goes another way, and the right labels (``gold``, None where unknown) are ringed. Labels that
    matter nowhere are left out.

    >>> p = np.array([[0.9, 0.1, 0.0], [0.3, 0.7, 0.0]])
    >>> drawing = lattice(["Ann", "sings"], ["N", "V", "ADJ"], p, ["N", "V"], second=["N", "N"])
    >>> [shape.tip for shape in drawing.shapes if shape.kind == "node"]
    ['Ann · N · p = 0.900', 'Ann · V · p = 0.100', 'sings · N · p = 0.300', 'sings · V · p = 0.700']
    """
    p = _checked(tokens, labels, marginals)
    rows = {label: n for n, label in enumerate(labels)}
    paths = {"best": _path(best, "best", rows, len(p))}
    if second is not None:
        paths["second"] = _path(second, "second", rows, len(p))
    rings, names, p = _gold(gold, list(labels), p)
    ringed = [y for y in rings if y is not None]
    shown = _shown(p, {*ringed, *chain.from_iterable(paths.values())})
    grid = _Grid([str(token) for token in tokens], [str(names[y]) for y in shown], title)
    down = {y: n for n, y in enumerate(shown)}
    shapes: list[Shape] = [*grid.frame(), *_edges(grid, p[:, shown])]
    ways = {kind: [down[y] for y in path] for kind, path in paths.items()}
    idle, nodes = _nodes(grid, p[:, shown], ways)
    shapes += [*idle, *_ways(grid, ways), *nodes]
    for t, y in enumerate(rings):
        if y is not None:
            ring = (*grid.place(t, down[y]), _radius(p[t, y]) + 4.0)
            shapes.append(Circle(*ring, stroke="green", width=1.8, kind="gold"))
    keys = [_KEYS[kind] for kind in ("best", "second") if kind in paths]
    keys += [_KEYS["gold"]] if gold is not None else []
    found, height = legend([*keys, _KEYS["node"]], grid.left, grid.bottom + 26, grid.width - 12)
    return Drawing(grid.width, height + 12, [*shapes, *found], title or "trellis of a sequence")


class _Grid:
    """Where things are."""

    def __init__(self, tokens: list[str], names: list[str], title: str | None) -> None:
        self.tokens, self.names, self.title = tokens, names, title
        self.slanted = len(tokens) > _SLANT
        longest = max(width_of(token, _TOKEN_SIZE) for token in tokens)
        self.across = 46.0 if self.slanted else min(max(longest + 14, 700 / len(tokens)), 108.0)
        self.left = 24 + min(max(width_of(name, 12) for name in names), 170.0)
        rise = min(longest, 110.0) * 0.7 + 14 if self.slanted else 24.0
        self.top = (38.0 if title else 10.0) + rise + 30
        self.bottom = self.top + _DOWN * (len(names) - 1) + 22
        spare = 50.0 if self.slanted else 0.0  # what the last slanted token sticks out
        content = self.left + self.across * len(tokens) + spare + 12
        self.width = max(content, self.left + 575, width_of(title or "", 15) + 40)

    def place(self, t: int, row: int) -> Place:
        return self.left + self.across * (t + 0.5), self.top + _DOWN * row

    def frame(self) -> list[Shape]:
        """The title, tokens above, labels at the left."""
        shapes: list[Shape] = heading(self.title, self.width)
        for t, token in enumerate(self.tokens):
            x, y = self.place(t, 0)
            look: dict[str, Any] = {"anchor": "middle", "text": cut(token, self.across - 6, 13)}
            if self.slanted:
                look = {"angle": -45.0, "text": cut(token, 110, 13)}
            shapes.append(
                Text(x, y - 30, size=_TOKEN_SIZE, fill="ink", tip=token, kind="token", **look)
            )
        for row, name in enumerate(self.names):
            y = self.place(0, row)[1]
            guide = ((self.left, y), (self.left + self.across * len(self.tokens), y))
            shapes.append(Line(guide, stroke="line", opacity=0.5))
            shown = cut(name, 170, 12)
            at = (self.left - 8, y + 4)
            shapes.append(Text(*at, shown, anchor="end", fill="ink", tip=name, kind="label"))
        return shapes


_BEST: dict[str, Any] = {"stroke": "blue", "width": 6.0, "opacity": 0.85}
_SECOND: dict[str, Any] = {"stroke": "red", "width": 2.4, "dash": (6.0, 4.0)}
_KEYS: dict[str, Entry] = {
    "best": ("best path", lambda x, y: [Line(((x, y), (x + 28, y)), **_BEST)]),
    "second": ("second best", lambda x, y: [Line(((x, y), (x + 28, y)), **_SECOND)]),
    "gold": ("right label", lambda x, y: [Circle(x + 18, y, 9, stroke="green", width=1.8)]),
    "node": (
        "probability of a label, in %",
        lambda x, y: [*_node(x + 18, y, 0.45, "soft", 1.0, "")],
    ),
}


def _radius(p: float) -> float:
    return float(3.0 + 12.0 * np.sqrt(p))


def _node(x: float, y: float, p: float, stroke: str, width: float, tip: str) -> list[Shape]:
    kind = "node" if tip else ""
    r = _radius(p)
    shapes: list[Shape] = [
        Circle(x, y, r, fill="paper"),  # paths end at the rim
        Circle(x, y, r, fill="blue", opacity=p, stroke=stroke, width=width, tip=tip, kind=kind),
    ]
    if p >= 0.145:  # there is room for a number
        colour = "paper" if p > 0.62 else "ink"
        number = f"{100 * p:.0f}"
        shapes.append(Text(x, y + 3.5, number, 10, "middle", p > 0.62, fill=colour, tip=tip))
    return shapes


def _nodes(
    grid: _Grid, p: NDArray[np.float64], ways: dict[str, list[int]]
) -> tuple[list[Shape], list[Shape]]:
    """Those below the paths, which do not matter, and those above."""
    idle: list[Shape] = []
    nodes: list[Shape] = []
    for t, token in enumerate(grid.tokens):
        for row, name in enumerate(grid.names):
            value = float(p[t, row])
            on = next((kind for kind, way in ways.items() if way[t] == row), "")
            stroke = {"best": "blue", "second": "red"}.get(on, "soft")
            tip = f"{token} · {name} · p = {value:.3f}"
            level = nodes if on or value > _MATTERS else idle
            level += _node(*grid.place(t, row), value, stroke, 2.0 if on else 0.8, tip)
    return idle, nodes


def _edges(grid: _Grid, p: NDArray[np.float64]) -> Iterable[Shape]:
    """Between neighbours that both matter, the darker the likelier both are."""
    for t, (before, after) in enumerate(pairwise(p)):
        for a in np.flatnonzero(before > _MATTERS).tolist():
            for b in np.flatnonzero(after > _MATTERS).tolist():
                ends = (grid.place(t, a), grid.place(t + 1, b))
                shade = 0.2 + 0.6 * float(min(before[a], after[b]))
                yield Line(ends, stroke="soft", width=1.0, opacity=shade, kind="edge")


def _ways(grid: _Grid, ways: dict[str, list[int]]) -> Iterable[Shape]:
    places = {kind: [grid.place(t, y) for t, y in enumerate(way)] for kind, way in ways.items()}
    yield Line(tuple(places["best"]), kind="best", **_BEST)
    if "second" in ways:
        apart = [a != b for a, b in zip(ways["best"], ways["second"], strict=True)]
        for differ, run in groupby(range(len(apart)), apart.__getitem__):
            if differ:
                at = list(run)
                way = places["second"][max(at[0] - 1, 0) : at[-1] + 2]
                yield Line(tuple(way), kind="second", **_SECOND)


def _checked(
    tokens: Sequence[str], labels: Sequence[Any], marginals: NDArray[np.float64]
) -> NDArray[np.float64]:
    p = np.asarray(marginals, dtype=np.float64)
    if p.shape != (len(tokens), len(labels)):
        raise InputError(
            f"marginals have shape {p.shape}, but there are {len(tokens)} tokens and "
            f"{len(labels)} labels"
        )
    if p.size == 0:
        raise InputError(f"marginals have shape {p.shape}: there is nothing to draw")
    wrong = ~((p >= -1e-6) & (p <= 1 + 1e-6))
    if wrong.any():
        t, y = np.argwhere(wrong)[0].tolist()
        raise InputError(
            f"marginals, position {t}, label {labels[y]!r}: {p[t, y]} is not in [0, 1]"
        )
    return p.clip(0.0, 1.0)


def _path(path: Sequence[Any], name: str, rows: dict[Any, int], length: int) -> list[int]:
    if len(path) != length:
        raise InputError(f"{name} has {len(path)} labels for {length} tokens")
    for t, label in enumerate(path):
        if label not in rows:
            raise InputError(f"{name}, position {t}: {label!r} is none of the labels")
    return [rows[label] for label in path]


def _gold(
    gold: Sequence[Any] | None, labels: list[Any], p: NDArray[np.float64]
) -> tuple[list[int | None], list[Any], NDArray[np.float64]]:
    """Rows of the right labels; those that the model does not have get rows of probability 0."""
    if gold is None:
        return [None] * len(p), labels, p
    if len(gold) != len(p):
        raise InputError(f"gold has {len(gold)} labels for {len(p)} tokens")
    new = [y for y in dict.fromkeys(gold) if y is not None and y not in labels]
    labels = [*labels, *new]
    p = np.hstack([p, np.zeros((len(p), len(new)))])
    return [None if y is None else labels.index(y) for y in gold], labels, p


def _shown(p: NDArray[np.float64], needed: set[int]) -> list[int]:
    """The labels that are needed, and the likeliest of the others while there is room."""
    most = p.max(axis=0)
    others = [y for y in np.argsort(-most, kind="stable").tolist() if y not in needed]
    room = max(_ROWS - len(needed), 0)
    return sorted({*needed, *[y for y in others if most[y] > _MATTERS][:room]})
