"""Every kind of picture, byte for byte: the files of tests/plots/pictures were checked by eye.

After a change of the drawing, `python tests/plots/test_pictures.py` writes them again: look at each
new file in a browser before it is committed.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from trellis.inference import ctc
from trellis.plots import (
    Drawing,
    ctc_lattice,
    curves,
    emissions,
    factor_graph,
    heat_map,
    lattice,
    model_graph,
    prefix_tree,
    scatter,
)
from trellis.plots.annotations import draw_legend
from trellis.plots.shapes import Circle, Line, Rect, Text

FOLDER = Path(__file__).parent / "pictures"
TOKENS, LABELS = ["Ann", "sings", "here", "extraordinarily-long-word"], ["N", "V", "ADV"]
P = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.3, 0.1, 0.6], [0.005, 0.5, 0.495]])
BEST = ["N", "V", "ADV", "V"]
CTC = np.array([[0.9, 0.1, 0.0], [0.15, 0.85, 0.0], [0.1, 0.9, 0.0], [0.99, 0.01, 0.0]])
with np.errstate(divide="ignore"):
    LOG_CTC = np.log(CTC)
NAMES = ["<blank>", "a & b", "never"]
LOSSES = [(0, 9.5), (1, 4.0), (2, 3.5), (3, 3.25)]


def wave(n: int) -> list[tuple[float, float]]:
    """Return n points of a line without markers."""
    return [(float(i), float(i * i % 17)) for i in range(n)]


def long_heat_map() -> Drawing:
    matrix = np.arange(2.0 * 60).reshape(2, 60) % 7 - 2
    matrix[0, 0], matrix[0, 1] = np.inf, -np.inf
    names = [f"label {n}" for n in range(60)]
    return heat_map(matrix, names[:2], names, x="to", y="from", title="Transitions")


def every_shape() -> Drawing:
    shapes = [
        Circle(5, 6.25, 4, fill="blue", stroke="red", stroke_width=2.5, opacity=0.5, tip="a <dot>"),
        Line(((0, 1), (2.125, 3)), stroke="ink", dash=(4, 3.5), kind="edge"),
        Rect(1, 2, 3, 4, 5, fill="paper", kind="box"),
        Text(7, 8, 'a "b" & c', fill="soft", size=9, anchor="middle", bold=True, angle=45),
    ]
    return Drawing(20, 10.5, shapes, 'about "shapes"')


def legend_in_rows() -> Drawing:
    def draw(x: float, y: float) -> list[Circle]:
        return [Circle(x, y, 3, fill="blue")]

    entries = [(f"entry number {n}", draw) for n in range(5)]
    shapes, end = draw_legend(entries, 10.0, 20.0, 300.0)
    return Drawing(300, end, shapes, f"ends at {end}")


def table_of_ctc(title: str | None = None) -> Drawing:
    """The target "aab": the repeated label cannot skip its blank."""
    p = np.array(
        [[0.4, 0.6, 0.0], [0.3, 0.5, 0.2], [0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0, 0.9]]
    )
    with np.errstate(divide="ignore"):
        log_probs = np.log(p)
    alpha, symbols, _ = ctc.forward(log_probs, [1, 1, 2])
    path = None if title is None else ctc.align(log_probs, [1, 1, 2]).labels.tolist()
    return ctc_lattice(alpha, symbols, ["–", "a", "a name that is too long"], path, title=title)


def beams() -> list[list[tuple[tuple[int, ...], float]]]:
    return [
        [((), -0.5), ((1,), -1.0)],
        [((1,), -0.7), ((), -1.5), ((1, 2), -2.0)],
        [((1, 2), -0.9), ((1, 2, 1), -3.0)],
    ]


NUMBERS = np.array([[0.0, -np.inf, 1.0], [-2.5, 3.0, 0.0], [10.125, 0.0, 0.0], [0.0, 0.0, -1e4]])
PAIRS = np.array([np.outer(a, b) for a, b in pairwise(P)])
PICTURES: dict[str, Callable[[], Drawing]] = {
    "shapes": every_shape,
    "legend": legend_in_rows,
    "lattice": lambda: lattice(TOKENS, LABELS, P, BEST),
    "lattice-paths": lambda: lattice(
        TOKENS, LABELS, P, BEST, ["N", "V", "N", "V"], ["N", None, "V", "other"], title="A title"
    ),
    "lattice-numbers": lambda: lattice(
        TOKENS, LABELS, P, BEST, gold=["N", "V", "new", "V"], pairwise=PAIRS, numbers=NUMBERS
    ),
    "ctc-lattice": table_of_ctc,
    "ctc-lattice-path": lambda: table_of_ctc("Forward table"),
    "prefix-tree": lambda: prefix_tree(beams(), ["–", "a", "b"], title="A beam"),
    "prefix-tree-one": lambda: prefix_tree([[((0,) * 40, -1.0)]], ["long"]),
    "graph": lambda: factor_graph(
        {"y1": (0, 1), "y2": (1, 1), "y3": (2, 1), "a long name": (1, 2)},
        [["y1"], ["y1", "y2", "a long name"], ["y1", "y3"]],
        [("a long name", "y3")],
        observed=["a long name"],
        title="Factors",
    ),
    "graph-independent": lambda: model_graph("independent", ["a", "pen"]),
    "graph-memm": lambda: model_graph("memm", ["a", "pen"]),
    "graph-hmm": lambda: model_graph("hmm", ["a", "pen"], title="HMM"),
    "graph-crf": lambda: model_graph("crf", ["a", "pen", "a"]),
    "graph-skip-chain": lambda: model_graph("skip-chain", ["a", "b", "a"], skips=[(0, 2)]),
    "lattice-one": lambda: lattice(["word"], ["N"], np.ones((1, 1)), ["N"]),
    "lattice-many-labels": lambda: lattice(
        ["a", "b"], [f"L{n}" for n in range(14)], np.full((2, 14), 1 / 14), ["L0", "L13"]
    ),
    "lattice-long": lambda: lattice(
        [f"word{n}" for n in range(14)], ["N", "V"], np.full((14, 2), 0.5), ["N", "V"] * 7
    ),
    "lattice-slanted": lambda: lattice(
        ["Antananarivo", *"abcdefghijklmn"], ["N", "V"], np.full((15, 2), 0.5), ["N"] * 15
    ),
    "lattice-slanted-long": lambda: lattice(
        ["extraordinarily-long-word", *"abcdefghijklmno"],
        ["N"],
        np.ones((16, 1)),
        ["N"] * 16,
        title="Slanted tokens",
    ),
    "heat-map": lambda: heat_map(np.array([[0.5, -2.0]]), ["from A"], ["to A", "to B"]),
    "heat-map-labels": lambda: heat_map(
        np.array([[0.0, 1.0], [1e-5, 123456.0]]), ["A", "B"], ["C", "D"], x="x", y="y", title="T"
    ),
    "heat-map-zero": lambda: heat_map(np.zeros((1, 1)), ["only"], ["only"]),
    "heat-map-long": long_heat_map,
    "heat-map-high": lambda: heat_map(
        np.arange(2.0 * 150).reshape(150, 2), [f"row {n}" for n in range(150)], ["a", "b"]
    ),
    "curves": lambda: curves({"loss": LOSSES}, x="iteration"),
    "curves-two": lambda: curves(
        {"training loss": LOSSES, "dev": [(0, 1e-3), (3, 1e5)], "third": [(1, -2.0), (2, -2.0)]},
        x="iteration",
        y="loss",
        title="Training",
        dashed={"dev"},
        size=(500.0, 300.0),
    ),
    "curves-many-points": lambda: curves({"one": wave(60), "two": wave(61)}),
    "curves-markers": lambda: curves({"one": wave(24), "two": wave(25)}),
    "curves-constant": lambda: curves({"flat": [(5, 5.0)]}),
    "emissions": lambda: emissions(LOG_CTC, NAMES),
    "emissions-path": lambda: emissions(
        LOG_CTC, NAMES, [0, 1, 1, 2], frame=0.02, x="seconds", title="Speech"
    ),
    "emissions-long": lambda: emissions(
        np.log(np.full((150, 2), 1 / 2)), ["unit 1", "unit 2"], [0, 1] * 75
    ),
    "emissions-title": lambda: emissions(LOG_CTC[:1], NAMES, title="A title wider than one frame"),
    "emissions-many-labels": lambda: emissions(
        np.log(np.full((3, 40), 1 / 40)), [f"label number {n}" for n in range(40)]
    ),
    "scatter": lambda: scatter([[0, 0], [4, 2], [1, -3]], ["one", "two", "three"]),
    "scatter-title": lambda: scatter(
        [[0.123456, 7], [0.5, 7], [0.25, 7]],
        ["a", "a name that is far too long for the space at the right edge of it", "c"],
        title="Words",
        size=(300.0, 200.0),
    ),
    "scatter-arrows": lambda: scatter(
        [[0, 0], [4, 2], [1, -3], [1.02, -3]],
        ["a", "b", "c", "d"],
        arrows=[("a", "b"), ("b", "c"), ("c", "d")],
    ),
    "scatter-one": lambda: scatter([[3.0, 3.0]], ["alone"]),
}


def draw(name: str) -> str:
    """Return the text of a file: the picture, and for one of them the version for pages."""
    drawing = PICTURES[name]()
    text = drawing.svg() + "\n"
    return text + drawing.svg(themed=True) + "\n" if name == "shapes" else text


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_unchanged(name: str) -> None:
    expected = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert draw(name).splitlines() == expected


def test_no_other_files() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == PICTURES.keys()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        (FOLDER / f"{name}.txt").write_text(draw(name), encoding="utf-8")
