"""Drawings have the right shapes at the right positions, and escape any text."""

import re
import struct
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.plots import Drawing, curves, heat_map, lattice
from trellis.plots.annotations import choose_ticks, draw_legend
from trellis.plots.shapes import DARK, LIGHT, Circle, Line, Rect, Text, cut, estimate_width

HOSTILE = [
    "<script>alert(1)</script>",
    "a & b",
    "\"quoted\" 'too'",
    "]]>",
    "\x00\x1f\ud800",
    "\u202eabc",
]
SVG = "{http://www.w3.org/2000/svg}"
TOKENS, LABELS = ["Ann", "sings", "here"], ["N", "V", "ADV"]
P = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.3, 0.1, 0.6]])


def parse_svg(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(drawing.svg())


def shapes_of_kind(drawing: Drawing, kind: str) -> list[Any]:
    return [shape for shape in drawing.shapes if shape.kind == kind]


def node_positions(drawing: Drawing) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the centre of the node of each (token, label)."""
    return {
        tuple(node.tip.split(" · ")[:2]): (node.x, node.y)
        for node in shapes_of_kind(drawing, "node")
    }


def luminance(colour: str) -> float:
    parts = np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


# ---- the drawing


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_colours_can_be_read_on_the_paper(palette: dict[str, str]) -> None:
    paper = luminance(palette["paper"])
    for name in palette.keys() - {"paper", "line"}:
        light, dark = sorted([luminance(palette[name]), paper], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, name
    assert LIGHT.keys() == DARK.keys()


def test_svg_of_each_shape() -> None:
    shapes = [
        Rect(1, 2, 3.14159, 4, 5, fill="blue", opacity=0.5),
        Circle(1, 2, 3, stroke="red", stroke_width=2, tip="ring"),
        Line(((0, 0), (1.5, 2)), stroke="ink", dash=(6, 4), opacity=0.25, kind="edge"),
        Text(7, 8, "a<b", 10, "middle", True, -45, fill="soft"),
    ]
    lines = Drawing(20, 10, shapes, "four shapes").svg(themed=True).splitlines()
    assert lines[0].startswith('<svg viewBox="0 0 20 10" width="20" height="10" role="img"')
    assert 'aria-label="four shapes"' in lines[0]
    assert "system-ui" in lines[0]
    assert lines[1:] == [
        '<rect x="1" y="2" width="3.14" height="4" rx="5" fill="var(--blue)" fill-opacity="0.5"/>',
        '<circle cx="1" cy="2" r="3" fill="none" stroke="var(--red)" stroke-width="2">'
        "<title>ring</title></circle>",
        '<polyline class="edge" points="0,0 1.5,2" stroke-linejoin="round" fill="none" '
        'stroke="var(--ink)" stroke-width="1" stroke-dasharray="6 4" stroke-opacity="0.25"/>',
        '<text x="7" y="8" font-size="10" text-anchor="middle" font-weight="600" '
        'transform="rotate(-45 7 8)" fill="var(--soft)">a&lt;b</text>',
        "</svg>",
    ]


def test_a_file_has_fixed_colours_and_a_background() -> None:
    svg = Drawing(20, 10, [Circle(1, 2, 3, fill="blue")]).svg()
    assert "var(" not in svg
    root = ElementTree.fromstring(svg)
    assert [child.tag for child in root] == [f"{SVG}rect", f"{SVG}circle"]
    assert [child.get("fill") for child in root] == [LIGHT["paper"], LIGHT["blue"]]


@given(st.text())
def test_any_text_is_valid_xml(text: str) -> None:
    drawing = Drawing(9, 9, [Text(1, 1, text, fill="ink", tip=text)], text)
    element = parse_svg(drawing).find(f"{SVG}text")
    assert element is not None
    expected = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)
    expected = re.sub("\r\n?", "\n", expected)  # XML parsers convert line ends in the same way
    assert (element.text or "") == expected


@given(st.text(), st.floats(0, 300))
def test_cut_text_fits(text: str, width: float) -> None:
    short = cut(text, width)
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))
    assert short in (text, "…") or estimate_width(short) <= width


@given(
    st.lists(st.floats(-1e9, 1e9).map(lambda v: round(v, 3)), min_size=1),
    st.sampled_from([1e-12, 1.0, 1e6]),
)
def test_ticks_span_the_values_and_are_few(values: list[float], scale: float) -> None:
    values = [value * scale for value in values]
    numbers = choose_ticks(values)
    slack = 1e-6 * (numbers[1] - numbers[0])
    assert numbers[0] <= min(values) + slack
    assert numbers[-1] >= max(values) - slack
    assert 2 <= len(numbers) <= 11
    assert np.all(np.diff(numbers) > 0)


def test_legend_wraps() -> None:
    entries = [(f"name {n}", lambda x, y: []) for n in range(6)]
    shapes, end = draw_legend(entries, 10, 20, 300)
    rows = [shape.y for shape in shapes]  # type: ignore[attr-defined]
    assert rows == [24.0, 24.0, 46.0, 46.0, 68.0, 68.0]
    assert end == 74
    assert draw_legend([], 10, 20, 300) == ([], 30)


# ---- saving


def test_save_svg(tmp_path: Path) -> None:
    drawing = Drawing(20, 10, [Text(1, 1, "é", fill="ink")])
    drawing.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == drawing.svg() + "\n"
    assert drawing._repr_svg_() == drawing.svg()
    for name in ("a.gif", "svg", "a.svg.gz"):
        with pytest.raises(InputError, match=re.escape(name)):
            drawing.save(str(tmp_path / name))


@pytest.mark.parametrize("make", ["lattice", "heat_map", "curves"])
def test_save_png(make: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawing = {
        "lattice": lambda: lattice(["$5", "to", "$6"], LABELS, P, LABELS, ["N", "V", "N"], LABELS),
        "heat_map": lambda: heat_map(P - 0.5, LABELS, LABELS, title="weights"),
        "curves": lambda: curves({"a": [(0, 1), (1, 2)], "b": [(0, 2), (1, 1)]}, dashed=["b"]),
    }[make]()
    path = tmp_path / "picture.png"
    drawing.save(path)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    size = struct.unpack(">II", data[16:24])
    assert size == pytest.approx((2 * drawing.width, 2 * drawing.height), abs=1)


def test_png_has_the_colours_at_the_right_pixels(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")
    shapes = [
        Rect(0, 0, 40, 20, fill="blue"),
        Circle(60, 50, 10, fill="red"),
        Line(((0, 90), (100, 90)), stroke="green", stroke_width=6),
        Rect(80, 0, 20, 20, fill="blue", opacity=0.0),
    ]
    Drawing(100, 100, shapes).save(tmp_path / "a.png")
    pixels = image.imread(tmp_path / "a.png")[:, :, :3]
    positions = {"blue": (20, 10), "red": (60, 50), "green": (50, 90), "paper": (90, 10)}
    for colour, (x, y) in positions.items():
        expected = [int(LIGHT[colour][n : n + 2], 16) / 255 for n in (1, 3, 5)]
        assert pixels[2 * y, 2 * x] == pytest.approx(expected, abs=0.01), colour


def test_png_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install trellis\[plot\]"):
        Drawing(20, 10, []).save(tmp_path / "a.png")


# ---- the trellis


def test_lattice_nodes_and_edges() -> None:
    drawing = lattice(TOKENS, LABELS, P, ["N", "V", "ADV"], second=["N", "V", "N"])
    nodes = shapes_of_kind(drawing, "node")
    assert sorted((node.tip, node.opacity) for node in nodes) == sorted(
        (f"{token} · {label} · p = {P[t, y]:.3f}", P[t, y])
        for t, token in enumerate(TOKENS)
        for y, label in enumerate(LABELS)
    )
    positions = node_positions(drawing)
    edges = {edge.points for edge in shapes_of_kind(drawing, "edge")}
    expected = {
        (positions[TOKENS[t], a], positions[TOKENS[t + 1], b])
        for t in range(2)
        for i, a in enumerate(LABELS)
        for j, b in enumerate(LABELS)
        if P[t, i] > 0.01 and P[t + 1, j] > 0.01
    }
    assert len(expected) == 2 * 2 + 2 * 3
    assert edges == expected
    assert [shape.text for shape in shapes_of_kind(drawing, "token")] == TOKENS
    assert [shape.text for shape in shapes_of_kind(drawing, "label")] == LABELS


def test_lattice_paths_pass_through_their_nodes() -> None:
    best, second = ["N", "V", "ADV"], ["N", "V", "N"]
    drawing = lattice(TOKENS, LABELS, P, best, second, gold=["N", None, "V"])
    positions = node_positions(drawing)
    (line,) = shapes_of_kind(drawing, "best")
    assert line.points == tuple(positions[key] for key in zip(TOKENS, best, strict=True))
    (line,) = shapes_of_kind(drawing, "second")
    # the second path is drawn only where it differs from the best path
    assert line.points == (positions["sings", "V"], positions["here", "N"])
    assert line.dash
    assert line.stroke != shapes_of_kind(drawing, "best")[0].stroke
    rings = [(ring.x, ring.y) for ring in shapes_of_kind(drawing, "gold")]
    assert rings == [positions["Ann", "N"], positions["here", "V"]]
    root = parse_svg(drawing)
    assert len(root.findall(f"{SVG}circle[@class='node']")) == 9
    legend_texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"best path", "second best", "true label"} <= legend_texts


def test_second_best_path_may_differ_in_two_places() -> None:
    p = np.full((5, 2), 0.5)
    drawing = lattice(list("abcde"), ["X", "Y"], p, list("XXXXX"), list("YXXYX"))
    positions = node_positions(drawing)
    assert [line.points for line in shapes_of_kind(drawing, "second")] == [
        (positions["a", "Y"], positions["b", "X"]),
        (positions["c", "X"], positions["d", "Y"], positions["e", "X"]),
    ]


def test_lattice_omits_improbable_labels_but_none_on_a_path() -> None:
    labels = [f"L{n}" for n in range(260)]
    p = np.zeros((2, 260))
    p[:, :30] = np.linspace(0.05, 0.02, 30)  # thirty probable labels do not fit
    p[:, 200] = 0.4
    drawing = lattice(["a", "b"], labels, p, ["L200", "L259"], ["L200", "L258"])
    shown = [shape.text for shape in shapes_of_kind(drawing, "label")]
    assert shown == [*labels[:11], "L200", "L258", "L259"]
    tokens = [f"t{n}" for n in range(20)]
    drawing = lattice(tokens, labels, np.zeros((20, 260)), labels[:20], gold=labels[20:40])
    assert [shape.text for shape in shapes_of_kind(drawing, "label")] == labels[:40]


def test_true_label_that_the_model_does_not_have() -> None:
    drawing = lattice(["a"], ["X"], np.ones((1, 1)), ["X"], gold=["Z"])
    tips = {node.tip for node in shapes_of_kind(drawing, "node")}
    assert tips == {"a · X · p = 1.000", "a · Z · p = 0.000"}
    (ring,) = shapes_of_kind(drawing, "gold")
    assert (ring.x, ring.y) == node_positions(drawing)["a", "Z"]


def test_lattice_of_one_token_and_one_label() -> None:
    drawing = lattice(["a"], [7], np.ones((1, 1)), [7], title="one")
    assert len(shapes_of_kind(drawing, "node")) == 1
    assert shapes_of_kind(drawing, "edge") == []
    assert parse_svg(drawing).get("aria-label") == "one"


@pytest.mark.parametrize("length", [1, 5, 14, 15, 30])
def test_nodes_do_not_touch_and_stay_on_the_sheet(length: int) -> None:
    tokens = [f"{'incomprehensibilities' * (t % 3)}{t}" for t in range(length)]
    p = np.full((length, 8), 1.0)
    drawing = lattice(tokens, list("ABCDEFGH"), p, ["A"] * length)
    positions = np.array([(node.x, node.y) for node in shapes_of_kind(drawing, "node")])
    radius = max(node.radius for node in shapes_of_kind(drawing, "node"))
    distances = np.hypot(*(positions[:, None] - positions[None]).transpose(2, 0, 1))
    assert distances[~np.eye(len(positions), dtype=bool)].min() > 2 * radius
    assert (positions - radius).min() > 0
    assert ((positions + radius) < [drawing.width, drawing.height]).all()
    words = shapes_of_kind(drawing, "token")
    column_width = np.diff(sorted(set(positions[:, 0]))).min() if length > 1 else 108.0
    for shape, token in zip(words, tokens, strict=True):
        assert shape.tip == token
        if not shape.angle:
            assert estimate_width(shape.text, shape.size) < column_width


def test_hostile_texts_are_escaped() -> None:
    p = np.full((len(HOSTILE), len(HOSTILE)), 1 / len(HOSTILE))
    for drawing in (
        lattice(HOSTILE, HOSTILE, p, HOSTILE, HOSTILE[::-1], HOSTILE, title=HOSTILE[0]),
        heat_map(p, HOSTILE, HOSTILE, x=HOSTILE[0], y=HOSTILE[1], title=HOSTILE[2]),
        curves({name: [(0, 0), (1, 1)] for name in HOSTILE}, *HOSTILE[:3]),
    ):
        root = parse_svg(drawing)
        tags = {element.tag.removeprefix(SVG) for element in root.iter()}
        assert tags <= {"svg", "rect", "circle", "polyline", "text", "title"}
        assert any("<script>" in (element.text or "") for element in root.iter())
        assert "<script" not in drawing.svg(themed=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"marginals": np.zeros((0, 3)), "tokens": [], "best": []}, r"\(0, 3\): .*nothing to draw"),
        ({"marginals": P[:2]}, r"\(2, 3\), but there are 3 tokens and 3 labels"),
        ({"labels": ["N", "V"]}, r"\(3, 3\), but there are 3 tokens and 2 labels"),
        ({"marginals": np.zeros(3)}, r"shape \(3,\)"),
        ({"marginals": P - 0.5}, r"position 0, label 'V': -0.4 is not in \[0, 1\]"),
        ({"marginals": P * np.nan}, "nan is not in"),
        ({"best": ["N", "V"]}, "best has 2 labels, but there are 3 tokens"),
        ({"second": ["N"] * 4}, "second has 4 labels, but there are 3 tokens"),
        ({"gold": ["N"] * 2}, "gold has 2 labels, but there are 3 tokens"),
        ({"best": ["N", "V", "X"]}, "best, position 2: 'X' is not one of the labels"),
    ],
)
def test_invalid_lattices(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"tokens": TOKENS, "labels": LABELS, "marginals": P, "best": LABELS}
    with pytest.raises(InputError, match=message):
        lattice(**{**arguments, **changes})


# ---- charts


def test_heat_map_is_white_at_zero_and_blue_above() -> None:
    matrix = np.array([[0.0, 4.0], [-4.0, 1.0], [-np.inf, np.inf]])
    drawing = heat_map(matrix, ["a", "b", "c"], ["x", "y"], x="to", y="from", title="T")
    cells = shapes_of_kind(drawing, "cell")
    assert [cell.tip for cell in cells] == [
        "a → x: 0",
        "a → y: 4",
        "b → x: -4",
        "b → y: 1",
        "c → x: -inf",
        "c → y: inf",
    ]
    assert [cell.opacity for cell in cells[:3]] == [0.0, 1.0, 1.0]
    assert [cell.fill for cell in cells[1:]] == ["blue", "red", "blue", "soft", "soft"]
    texts = [text.text for text in parse_svg(drawing).iter(f"{SVG}text")]
    for number in ("0.00", "4.00", "−4.00", "−∞", "∞", "to", "from"):
        assert number in texts


@pytest.mark.parametrize("count", [1, 12, 13, 30, 260])
def test_heat_maps_of_all_sizes(count: int) -> None:
    matrix = np.arange(count * count, dtype=float).reshape(count, count)
    names = [f"name {n}" for n in range(count)]
    drawing = heat_map(matrix, names, names)
    cells = shapes_of_kind(drawing, "cell")
    assert len(cells) == count * count
    assert cells[-1].x + cells[-1].width <= drawing.width
    assert cells[-1].y + cells[-1].height <= drawing.height
    texts = [shape.text for shape in drawing.shapes if isinstance(shape, Text)]
    written = sum(text in names for text in texts)
    assert written == 2 * count if count <= 30 else count / 2 < written < 2 * count
    numbers = len(texts) - written - 2  # two texts are numbers of the colour scale
    assert numbers == (count * count if count <= 12 else 0)


def test_heat_map_without_negative_values_has_half_a_scale() -> None:
    drawing = heat_map(np.array([[0.25, 0.75]]), ["a"], ["x", "y"])
    texts = [shape.text for shape in drawing.shapes if isinstance(shape, Text)]
    assert texts[-2:] == ["0", "0.75"]
    heat_map(np.zeros((2, 2)), ["a", "b"], ["x", "y"])  # a matrix of zeros must not raise


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((2, 3)), r"\(2, 3\), but there are 2 rows and 2 columns"),
        (np.zeros(4), r"shape \(4,\)"),
        (np.array([[0, 1], [np.nan, 1]]), "row 'b', column 'x': the value is NaN"),
    ],
)
def test_invalid_heat_maps(matrix: NDArray[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        heat_map(matrix, ["a", "b"], ["x", "y"])
    with pytest.raises(InputError, match="nothing to draw"):
        heat_map(np.zeros((0, 0)), [], [])


def test_curves_go_through_their_points() -> None:
    series = {"one": [(0, 0), (5, 50), (10, 100)], "two": [(0, 100), (10, 100)]}
    drawing = curves(series, "x", "y", "title", dashed=["two"])
    one, two = shapes_of_kind(drawing, "curve")
    (left, base), (middle, half), (right, top) = one.points
    assert (middle, half) == pytest.approx(((left + right) / 2, (base + top) / 2))
    assert two.points == ((left, top), (right, top))
    assert (one.dash, two.dash) == (None, (6.0, 4.0))
    assert [point.tip for point in shapes_of_kind(drawing, "point")] == [
        "one: 0, 0",
        "one: 5, 50",
        "one: 10, 100",
    ]
    texts = [text.text for text in parse_svg(drawing).iter(f"{SVG}text")]
    assert {"x", "y", "title", "one", "two", "0", "10", "100"} <= set(texts)
    assert 0 < left < right < drawing.width
    assert 0 < top < base < drawing.height


def test_many_points_have_no_markers_and_one_line_no_legend() -> None:
    drawing = curves({"only": [(n, n * n) for n in range(25)]})
    assert shapes_of_kind(drawing, "point") == []
    assert "only" not in [shape.text for shape in drawing.shapes if isinstance(shape, Text)]
    assert (
        len(shapes_of_kind(curves({"a": [(3.0, 7.0)]}), "point")) == 1
    )  # a single point is drawn too


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ({}, "series is empty"),
        ({"a": []}, "'a' has no points"),
        ({"a": [(0, 1), (1, float("nan"))]}, "'a', point 1"),
        ({"a": [(0, 1, 2)]}, "'a', point 0"),
    ],
)
def test_invalid_curves(series: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        curves(series)


def test_png_shows_dollar_signs(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")
    pixels = []
    for number, text in enumerate(("$x$", "x")):
        path = tmp_path / f"{number}.png"
        Drawing(60, 30, [Text(5, 20, text, fill="ink")]).save(path)
        colours = image.imread(path)[:, :, 0]
        pixels.append(np.argwhere(colours != colours[0, 0])[:, 1].max() - 10)
    assert pixels[0] > 1.5 * pixels[1]


def test_values_within_the_tolerance_of_a_tick() -> None:
    for margin, first, last in ((0.5e-9, 0, 8), (1.5e-9, -1, 9)):
        assert choose_ticks([-margin, 5.0])[0] == first
        assert choose_ticks([0.0, 8.0 - 1e-12])[-1] == 8
        assert choose_ticks([0.5, 8.0 + margin])[-1] == last
