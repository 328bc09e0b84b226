"""Pictures at the exact limits of their rules: what is shown, and what is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis.errors import InputError
from trellis.plots import curves, emissions, heat_map, lattice, model_graph
from trellis.plots import line_chart as lines
from trellis.plots import matrix_chart as matrices
from trellis.plots import scatter_chart as scatter
from trellis.plots import trellis_chart as trellises
from trellis.plots.annotations import choose_ticks, draw_legend, draw_title
from trellis.plots.graph_chart import _find_middle
from trellis.plots.shapes import cut, estimate_width


def kinds(drawing: Any, kind: str) -> list[Any]:
    return [shape for shape in drawing.shapes if shape.kind == kind]


def test_a_legend_that_just_fits_into_a_line() -> None:
    entries: Any = [("one", lambda x, y: []), ("two", lambda x, y: [])]
    first, second = (42 + estimate_width(name) for name, _ in entries)
    needed = 10.0 + first + 20 + second
    shapes, end = draw_legend(entries, 10.0, 5.0, needed)
    assert ([shape.y for shape in shapes], end) == ([9.0, 9.0], 15.0)
    assert [shape.x for shape in shapes] == [46.0, 46.0 + first + 20]
    shapes, end = draw_legend(entries, 10.0, 5.0, needed - 0.01)
    assert ([shape.y for shape in shapes], end) == ([9.0, 31.0], 37.0)
    assert [shape.x for shape in shapes] == [46.0, 46.0]
    # A name that is wider than the picture is not moved below an empty line.
    assert draw_legend(entries[:1], 10.0, 5.0, 11.0)[1] == 15.0
    assert draw_title(None, 99.0) == draw_title("", 99.0) == []


def test_texts_that_just_fit() -> None:
    width = estimate_width("wide text", 12)
    assert cut("wide text", width, 12) == "wide text"
    shorter = cut("wide text", width - 0.01, 12)
    assert shorter.endswith("…")
    assert estimate_width(shorter, 12) <= width - 0.01
    assert estimate_width("wide text"[: len(shorter)] + "…", 12) > width - 0.01


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0, 8.0], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
        ([0.0, 8.5], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
        ([0.0, 16.0], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]),
        ([0.0, 40.0], [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0]),
        ([0.0, 0.8], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]),
        ([-3.0, 3.0], [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]),
    ],
)
def test_ticks(values: list[float], ticks: list[float]) -> None:
    assert choose_ticks(values) == ticks


def test_cells_of_emissions() -> None:
    """Probabilities from 0.02 have a cell, and labels from 0.1 a row."""
    least = np.log(0.02)
    p = np.exp(least)
    log_p = np.log(np.array([[1 - p - 0.1, 0.1, p, 0.0]]).clip(1e-9))
    log_p[0, 2] = least
    drawing = emissions(log_p, ["a", "b", "c", "d"], [2])
    tips = [shape.tip for shape in kinds(drawing, "cell")]
    assert [tip.split(",")[0] for tip in tips if tip.startswith(("a", "b"))] == ["a", "b"]
    for value, is_shown in ((0.0200001, True), (0.0199999, False)):
        log_p[0, 2] = np.log(value)
        tips = [shape.tip for shape in kinds(emissions(log_p, ["a", "b", "c", "d"], [2]), "cell")]
        assert any(tip.startswith("c, frame 0") for tip in tips) == is_shown
    for value, is_valid in ((0.9e-6, True), (1.1e-6, False)):
        log_p[0, 0] = value
        if is_valid:
            emissions(log_p, ["a", "b", "c", "d"])
            continue
        with pytest.raises(InputError, match="frame 0"):
            emissions(log_p, ["a", "b", "c", "d"])
    for label in (-1, 4):
        with pytest.raises(InputError, match="path"):
            emissions(np.log([[0.25] * 4]), ["a", "b", "c", "d"], [label])


def test_arrows_between_dots_that_are_close() -> None:
    length = 2 * scatter._GAP + scatter._HEAD
    assert scatter._draw_arrow((0.0, 0.0), (length - 0.01, 0.0), "") == []
    line, head = scatter._draw_arrow((0.0, 0.0), (length, 0.0), "tip")
    gap, size = scatter._GAP, scatter._HEAD
    assert line.points == ((gap, 0.0), (gap + size, 0.0))
    assert head.points[1] == (gap + size, 0.0)
    assert head.points[0][0] == head.points[2][0] < gap + size
    assert head.points[0][1] == -head.points[2][1]


def test_markers_and_legends_of_curves() -> None:
    maximum = lines._MAX_MARKERS
    for count, shown in ((maximum, maximum), (maximum + 1, 0)):
        drawing = curves({"loss": [(n, float(n)) for n in range(count)]}, "x", "y")
        assert len(kinds(drawing, "point")) == shown
    texts = [getattr(shape, "text", "") for shape in drawing.shapes]
    assert "loss" not in texts  # one curve needs no legend
    both = curves({"a": [(0, 1.0), (1, 2.0)], "b": [(0, 2.0), (1, 1.0)]}, "x", "y", dashed=["b"])
    assert {"a", "b"} <= {getattr(shape, "text", "") for shape in both.shapes}
    assert len(kinds(both, "point")) == 2


def test_numbers_in_the_cells_of_a_small_matrix() -> None:
    maximum = matrices._MAX_NUMBERED
    for size, is_numbered in ((maximum, True), (maximum + 1, False)):
        names = [f"n{i}" for i in range(size)]
        values = np.full((1, size), 0.5)
        drawing = heat_map(values, ["row"], names)
        numbers = [shape for shape in drawing.shapes if getattr(shape, "text", "") == "0.50"]
        assert len(numbers) == (size if is_numbered else 0)
    for values, scale in (([[0.0, 2.0]], ["0", "2"]), ([[-1.0, 2.0]], ["−2", "0", "2"])):
        drawing = heat_map(np.array(values), ["row"], ["a", "b"])
        texts = [getattr(shape, "text", "") for shape in drawing.shapes]
        assert [text for text in texts if text in ("−2", "0", "2")] == scale
    assert heat_map(np.zeros((1, 1)), ["row"], ["a"]) is not None
    assert heat_map(np.full((1, 1), np.inf), ["row"], ["a"]) is not None


def test_positions_of_skips_and_factors() -> None:
    graph = model_graph("skip-chain", ["a", "b", "c"], skips=[(0, 2)])
    assert "factor of y1, y3" in [shape.tip for shape in kinds(graph, "factor")]
    for skip in ((-1, 1), (1, 1), (2, 1), (0, 3)):
        with pytest.raises(InputError, match="must be two positions of 3 tokens in order"):
            model_graph("skip-chain", ["a", "b", "c"], skips=[skip])
    assert _find_middle([(0, 0), (1, 0)]) == (0.5, 0.0)
    column, row = _find_middle([(0, 0), (2, 0)])  # raised above the variable between them
    assert (column, row < 0) == (1.0, True)
    assert _find_middle([(0, 0), (2, 1)]) == (1.0, 0.5)


def test_labels_of_a_trellis() -> None:
    least = trellises._MIN_SHOWN
    p = np.array([[least, 0.5, np.nextafter(least, 1.0), 0.0]])
    assert trellises._choose_labels(p, set()) == [1, 2]
    assert trellises._choose_labels(p, {3}) == [1, 2, 3]
    rows = trellises._MAX_ROWS
    many = np.linspace(0.1, 0.9, rows + 2)[None]
    assert trellises._choose_labels(many, set()) == [*range(2, rows + 2)]
    assert trellises._choose_labels(many, {0}) == [0, *range(3, rows + 2)]
    assert trellises._choose_labels(many, {*range(rows + 1)}) == [*range(rows + 1)]


def test_true_labels_that_the_model_does_not_know() -> None:
    numbers, labels, p = trellises._encode_gold(["b", None, "z"], ["a", "b"], np.full((3, 2), 0.5))
    assert (numbers, labels) == ([1, None, 2], ["a", "b", "z"])
    assert p.tolist() == [[0.5, 0.5, 0.0]] * 3
    with pytest.raises(InputError, match="gold has 2 labels, but there are 3 tokens"):
        trellises._encode_gold(["b", "b"], ["a", "b"], np.full((3, 2), 0.5))
    drawing = lattice(["x"], ["a", "b"], np.array([[0.25, 0.75]]), ["b"], gold=["z"])
    assert "z" in [getattr(shape, "text", "") for shape in drawing.shapes]


def test_the_second_path_is_drawn_where_it_differs() -> None:
    p = np.full((5, 2), 0.5)
    best, second = ["a"] * 5, ["a", "b", "a", "a", "b"]
    drawing = lattice([*"vwxyz"], ["a", "b"], p, best, second=second)
    parts = [len(shape.points) for shape in kinds(drawing, "second")]
    assert parts == [3, 2]  # one node before and one after the difference
