"""`lattice`: the trellis of one sequence, a node per position and label, and its best paths."""

from collections.abc import Iterable, Sequence
from itertools import chain, groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.plots.annotations import Entry, draw_legend, draw_title
from trellis.plots.drawing import Drawing
from trellis.plots.shapes import HALO, Circle, Line, Shape, Text, cut, estimate_width

__all__ = ["lattice"]

_MAX_ROWS = 14  # labels; more rows would not fit on a page
_MIN_SHOWN = 0.01  # nodes with a higher probability are drawn above the paths, and have edges
_ROW_HEIGHT = 42.0
_NUMBER_HEIGHT = 16.0  # additional height of a row with numbers
_MAX_UPRIGHT = 14  # tokens; if there are more, they are slanted and closer to each other
_TOKEN_SIZE = 13.0

Position = tuple[float, float]


def lattice(
    tokens: Sequence[str],
    labels: Sequence[Any],
    marginals: NDArray[np.float64],
    best: Sequence[Any],
    second: Sequence[Any] | None = None,
    gold: Sequence[Any] | None = None,
    title: str | None = None,
    *,
    pairwise: NDArray[np.float64] | None = None,
    numbers: NDArray[np.float64] | None = None,
) -> Drawing:
    """Draw the trellis of a sequence: larger and darker nodes have a higher p(yₜ | x).

    ``marginals`` has shape (tokens, labels). The best path is bold, the second best is dashed where
    it differs, and the true labels (``gold``, None where unknown) have a ring. Labels that are
    improbable everywhere are left out. With ``pairwise``, shape (tokens - 1, labels, labels), an
    edge is as wide and dark as p(yₜ₋₁, yₜ | x) is large. ``numbers``, shape (tokens, labels), are
    written below the nodes, for example α, β or π of `trellis.inference.chain`.

    >>> p = np.array([[0.9, 0.1, 0.0], [0.3, 0.7, 0.0]])
    >>> drawing = lattice(["Ann", "sings"], ["N", "V", "ADJ"], p, ["N", "V"], second=["N", "N"])
    >>> [shape.tip for shape in drawing.shapes if shape.kind == "node"]
    ['Ann · N · p = 0.900', 'Ann · V · p = 0.100', 'sings · N · p = 0.300', 'sings · V · p = 0.700']
    """
    p = _validate(tokens, labels, marginals)
    n_labels = len(labels)
    pairs = _check_extra(pairwise, "pairwise", (len(p) - 1, n_labels, n_labels))
    values = _check_extra(numbers, "numbers", (len(p), n_labels))
    label_index = {label: n for n, label in enumerate(labels)}
    paths = {"best": _encode_path(best, "best", label_index, len(p))}
    if second is not None:
        paths["second"] = _encode_path(second, "second", label_index, len(p))
    gold_indices, names, p = _encode_gold(gold, list(labels), p)
    needed_labels = [y for y in gold_indices if y is not None]
    shown_labels = _choose_labels(p, {*needed_labels, *chain.from_iterable(paths.values())})
    rows = [str(names[y]) for y in shown_labels]
    grid = _Grid([str(token) for token in tokens], rows, title, values is not None)
    known = [y for y in shown_labels if y < n_labels]  # a true label may be unknown to the model
    edges = None if pairs is None else pairs[:, known][:, :, known]
    texts = None if values is None else values[:, known]
    row_by_label = {y: n for n, y in enumerate(shown_labels)}
    rows_of_path = {kind: [row_by_label[y] for y in path] for kind, path in paths.items()}
    rows_of_gold = (
        [None if y is None else row_by_label[y] for y in gold_indices] if gold is not None else None
    )
    return _draw(grid, p[:, shown_labels], rows_of_path, rows_of_gold, edges, texts)


def _draw(
    grid: "_Grid",
    p: NDArray[np.float64],
    paths: dict[str, list[int]],
    gold: list[int | None] | None,
    pairs: NDArray[np.float64] | None,
    numbers: NDArray[np.float64] | None,
) -> Drawing:
    """Draw the chosen labels. p is (tokens, rows); paths and gold have the row of each token.

    The labels that the model knows come first. Only these have ``pairs`` and ``numbers``.
    """
    improbable_nodes, nodes = _draw_nodes(grid, p, paths)
    edges = _draw_edges(grid, p) if pairs is None else _draw_pairs(grid, pairs)
    shapes: list[Shape] = [*grid.names_and_title(), *edges]
    shapes += [*improbable_nodes, *_draw_paths(grid, paths), *nodes]
    shapes += [] if numbers is None else _draw_numbers(grid, numbers)
    shapes += [
        Circle(*grid.position(t, row), _compute_radius(p[t, row]) + 4.0, kind="gold", **_RING)
        for t, row in enumerate(gold or [])
        if row is not None
    ]
    entries = [_ENTRIES[kind] for kind in paths]
    entries += [_ENTRIES["gold"]] if gold is not None else []
    entries.append(_ENTRIES["node"])
    legend, height = draw_legend(entries, grid.left, grid.bottom + 26, grid.width - 12)
    description = grid.title or "trellis of a sequence"
    return Drawing(grid.width, height + 12, [*shapes, *legend], description)


class _Grid:
    """Computes the positions of nodes, tokens and labels on the sheet."""

    def __init__(
        self, tokens: list[str], names: list[str], title: str | None, has_numbers: bool = False
    ) -> None:
        self.tokens, self.names, self.title = tokens, names, title
        self.row_height = _ROW_HEIGHT + (_NUMBER_HEIGHT if has_numbers else 0.0)
        self.slanted = len(tokens) > _MAX_UPRIGHT
        max_width = max(estimate_width(token, _TOKEN_SIZE) for token in tokens)
        self.column_width = (
            46.0 if self.slanted else min(max(max_width + 14, 700 / len(tokens)), 108.0)
        )
        self.left = 24 + min(max(estimate_width(name, 12) for name in names), 170.0)
        token_height = min(max_width, 110.0) * 0.7 + 14 if self.slanted else 24.0
        self.top = (38.0 if title else 10.0) + token_height + 30
        self.bottom = self.top + self.row_height * (len(names) - 1) + 22
        overhang = 50.0 if self.slanted else 0.0  # the last slanted token extends to the right
        content_width = self.left + self.column_width * len(tokens) + overhang + 12
        self.width = max(content_width, self.left + 575, estimate_width(title or "", 15) + 40)

    def position(self, t: int, row: int) -> Position:
        """Return the centre of a node."""
        return self.left + self.column_width * (t + 0.5), self.top + self.row_height * row

    def names_and_title(self) -> list[Shape]:
        """Return the title, the tokens above and the labels on the left."""
        shapes: list[Shape] = draw_title(self.title, self.width)
        for t, token in enumerate(self.tokens):
            x, y = self.position(t, 0)
            style: dict[str, Any] = {
                "anchor": "middle",
                "text": cut(token, self.column_width - 6, 13),
            }
            if self.slanted:
                style = {"angle": -45.0, "text": cut(token, 110, 13)}
            shapes.append(
                Text(x, y - 30, size=_TOKEN_SIZE, fill="ink", tip=token, kind="token", **style)
            )
        for row, name in enumerate(self.names):
            y = self.position(0, row)[1]
            guide_line = ((self.left, y), (self.left + self.column_width * len(self.tokens), y))
            shapes.append(Line(guide_line, stroke="line", opacity=0.5))
            text = cut(name, 170, 12)
            shapes.append(
                Text(self.left - 8, y + 4, text, anchor="end", fill="ink", tip=name, kind="label")
            )
        return shapes


_BEST: dict[str, Any] = {"stroke": "blue", "stroke_width": 6.0, "opacity": 0.85}
_SECOND: dict[str, Any] = {"stroke": "red", "stroke_width": 2.4, "dash": (6.0, 4.0)}
_RING: dict[str, Any] = {"stroke": "green", "stroke_width": 1.8}
_ENTRIES: dict[str, Entry] = {
    "best": ("best path", lambda x, y: [Line(((x, y), (x + 28, y)), **_BEST)]),
    "second": ("second best", lambda x, y: [Line(((x, y), (x + 28, y)), **_SECOND)]),
    "gold": ("true label", lambda x, y: [Circle(x + 18, y, 9, **_RING)]),
    "node": (
        "probability of a label, in %",
        lambda x, y: [*_draw_node(x + 18, y, 0.45, "soft", 1.0, "")],
    ),
}


def _compute_radius(p: float) -> float:
    """Return the radius of a node: the area grows with the probability."""
    return float(3.0 + 12.0 * np.sqrt(p))


def _draw_node(x: float, y: float, p: float, stroke: str, width: float, tip: str) -> list[Shape]:
    kind = "node" if tip else ""
    radius = _compute_radius(p)
    shapes: list[Shape] = [
        Circle(x, y, radius, fill="paper"),  # hides the paths under a transparent node
        Circle(
            x,
            y,
            radius,
            fill="blue",
            opacity=p,
            stroke=stroke,
            stroke_width=width,
            tip=tip,
            kind=kind,
        ),
    ]
    if p >= 0.145:  # the radius is at least 7.6: a number of two digits fits
        colour = "paper" if p > 0.62 else "ink"
        percentage = f"{100 * p:.0f}"
        shapes.append(Text(x, y + 3.5, percentage, 10, "middle", p > 0.62, fill=colour, tip=tip))
    return shapes


def _draw_nodes(
    grid: _Grid, p: NDArray[np.float64], paths: dict[str, list[int]]
) -> tuple[list[Shape], list[Shape]]:
    """Return the improbable nodes, drawn below the paths, and the others, drawn above them."""
    improbable_nodes: list[Shape] = []
    nodes: list[Shape] = []
    for t, token in enumerate(grid.tokens):
        for row, name in enumerate(grid.names):
            value = float(p[t, row])
            path = next((kind for kind, rows in paths.items() if rows[t] == row), "")
            stroke = {"best": "blue", "second": "red"}.get(path, "soft")
            tip = f"{token} · {name} · p = {value:.3f}"
            layer = nodes if path or value > _MIN_SHOWN else improbable_nodes
            layer += _draw_node(*grid.position(t, row), value, stroke, 2.0 if path else 0.8, tip)
    return improbable_nodes, nodes


def _draw_edges(grid: _Grid, p: NDArray[np.float64]) -> Iterable[Shape]:
    """Yield the edges between probable neighbouring nodes. Edges of likelier nodes are darker."""
    for t, (before, after) in enumerate(pairwise(p)):
        for row in np.flatnonzero(before > _MIN_SHOWN).tolist():
            for next_row in np.flatnonzero(after > _MIN_SHOWN).tolist():
                ends = (grid.position(t, row), grid.position(t + 1, next_row))
                shade = 0.2 + 0.6 * float(min(before[row], after[next_row]))
                yield Line(ends, stroke="soft", stroke_width=1.0, opacity=shade, kind="edge")


def _draw_pairs(grid: _Grid, pairs: NDArray[np.float64]) -> Iterable[Shape]:
    """Yield the probable edges of p(yₜ₋₁, yₜ | x), shape (tokens - 1, rows, rows)."""
    for t, row, next_row in np.argwhere(pairs > _MIN_SHOWN).tolist():
        p = float(pairs[t, row, next_row])
        names = f"{grid.names[row]} → {grid.names[next_row]}"
        yield Line(
            (grid.position(t, row), grid.position(t + 1, next_row)),
            stroke="soft",
            stroke_width=1.0 + 4.0 * p,
            opacity=0.2 + 0.6 * p,
            tip=f"{grid.tokens[t]} {grid.tokens[t + 1]} · {names} · p = {p:.3f}",
            kind="edge",
        )


def _draw_numbers(grid: _Grid, numbers: NDArray[np.float64]) -> Iterable[Shape]:
    """Yield a number below each node, (tokens, rows)."""
    for (t, row), value in np.ndenumerate(numbers):
        x, y = grid.position(t, row)
        text = "−∞" if value == -np.inf else f"{value:.2f}".replace("-", "−")
        yield Text(x, y + 30, text, 9, "middle", fill="soft", kind="number", **HALO)


def _draw_paths(grid: _Grid, paths: dict[str, list[int]]) -> Iterable[Shape]:
    """Yield the best path, and the parts of the second best path that differ from it."""
    points = {
        kind: [grid.position(t, row) for t, row in enumerate(rows)] for kind, rows in paths.items()
    }
    yield Line(tuple(points["best"]), kind="best", **_BEST)
    if "second" in paths:
        is_different_at = [
            row != best for row, best in zip(paths["second"], paths["best"], strict=True)
        ]
        for is_different, step_run in groupby(
            range(len(is_different_at)), is_different_at.__getitem__
        ):
            if is_different:
                positions = list(step_run)
                # The part includes the common nodes before and after it, so that the lines meet.
                segment = points["second"][max(positions[0] - 1, 0) : positions[-1] + 2]
                yield Line(tuple(segment), kind="second", **_SECOND)


def _validate(
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
    invalid = ~((p >= -1e-6) & (p <= 1 + 1e-6))
    if invalid.any():
        t, y = np.argwhere(invalid)[0].tolist()
        raise InputError(
            f"marginals, position {t}, label {labels[y]!r}: {p[t, y]} is not in [0, 1]"
        )
    return p.clip(0.0, 1.0)


def _check_extra(
    values: NDArray[np.float64] | None, name: str, shape: tuple[int, ...]
) -> NDArray[np.float64] | None:
    """Return an optional array; raise InputError unless it has this shape and no NaN."""
    if values is None:
        return None
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}: must be {shape}")
    if np.isnan(array).any():
        raise InputError(f"{name} is nan at {tuple(np.argwhere(np.isnan(array))[0].tolist())}")
    return array


def _encode_path(
    path: Sequence[Any], name: str, label_index: dict[Any, int], length: int
) -> list[int]:
    """Return the indices of the labels of a path. Raise if a label is unknown."""
    if len(path) != length:
        raise InputError(f"{name} has {len(path)} labels, but there are {length} tokens")
    for t, label in enumerate(path):
        if label not in label_index:
            raise InputError(f"{name}, position {t}: {label!r} is not one of the labels")
    return [label_index[label] for label in path]


def _encode_gold(
    gold: Sequence[Any] | None, labels: list[Any], p: NDArray[np.float64]
) -> tuple[list[int | None], list[Any], NDArray[np.float64]]:
    """Return the indices of the true labels, all labels, and p.

    True labels that are new get a column of zeros in p.
    """
    if gold is None:
        return [None] * len(p), labels, p
    if len(gold) != len(p):
        raise InputError(f"gold has {len(gold)} labels, but there are {len(p)} tokens")
    new_labels = [y for y in dict.fromkeys(gold) if y is not None and y not in labels]
    labels = [*labels, *new_labels]
    p = np.hstack([p, np.zeros((len(p), len(new_labels)))])
    return [None if y is None else labels.index(y) for y in gold], labels, p


def _choose_labels(p: NDArray[np.float64], needed_labels: set[int]) -> list[int]:
    """Return the needed labels and the most probable other labels, `_MAX_ROWS` or fewer in all.

    There are more if more labels are needed.
    """
    max_probabilities = p.max(axis=0)
    other_labels = [
        y for y in np.argsort(-max_probabilities, kind="stable").tolist() if y not in needed_labels
    ]
    free_rows = max(_MAX_ROWS - len(needed_labels), 0)
    return sorted(
        {
            *needed_labels,
            *[y for y in other_labels if max_probabilities[y] > _MIN_SHOWN][:free_rows],
        }
    )
