"""Emission charts have the right cells, and the path goes through the right cells."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from trellis.errors import InputError
from trellis.plots import Drawing, emissions
from trellis.plots.shapes import Text

P = np.array([[0.90, 0.10, 0.0], [0.15, 0.85, 0.0], [0.10, 0.90, 0.0], [0.99, 0.01, 0.0]])
NAMES = ["<blank>", "a & b", "never"]
with np.errstate(divide="ignore"):
    LOG_P = np.log(P)


def shapes_of_kind(drawing: Drawing, kind: str) -> list[Any]:
    return [shape for shape in drawing.shapes if shape.kind == kind]


def texts(drawing: Drawing) -> list[str]:
    return [shape.text for shape in drawing.shapes if isinstance(shape, Text)]


def test_cells_are_the_visible_probabilities() -> None:
    drawing = emissions(LOG_P, NAMES)
    tips = [cell.tip for cell in shapes_of_kind(drawing, "cell")]
    assert tips == [
        "<blank>, frame 0: 0.90",
        "<blank>, frame 1: 0.15",
        "<blank>, frame 2: 0.10",
        "<blank>, frame 3: 0.99",
        "a & b, frame 0: 0.10",
        "a & b, frame 1: 0.85",
        "a & b, frame 2: 0.90",
    ]
    cells = shapes_of_kind(drawing, "cell")
    assert cells[0].opacity == pytest.approx(0.9**0.7)
    assert cells[4].x == cells[0].x
    assert cells[4].y > cells[0].y
    assert "never" not in texts(drawing)
    assert not shapes_of_kind(drawing, "path")
    ElementTree.fromstring(drawing.svg())  # this raises if a name is not escaped


def test_the_path_runs_through_its_cells() -> None:
    drawing = emissions(LOG_P, NAMES, [0, 1, 1, 2], title="T")
    assert "never" in texts(drawing), "a label on the path must have a row"
    (path,) = shapes_of_kind(drawing, "path")
    boxes = {cell.tip.split(":")[0]: cell for cell in shapes_of_kind(drawing, "cell")}
    for point, name in zip(
        path.points, ["<blank>, frame 0", "a & b, frame 1", "a & b, frame 2"], strict=False
    ):
        box = boxes[name]
        assert point == pytest.approx((box.x + box.width / 2, box.y + box.height / 2))
    assert len(path.points) == 4
    assert path.points[3][1] > path.points[2][1]


def test_time_in_other_units() -> None:
    drawing = emissions(np.log(np.full((400, 2), 0.5)), ["-", "a"], frame=0.02, x="seconds")
    assert {"0", "2", "4", "8", "seconds"} <= set(texts(drawing))
    assert all(0 <= cell.x <= drawing.width for cell in shapes_of_kind(drawing, "cell"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((LOG_P, NAMES[:2]), "log_probs has shape (4, 3), but there are 2 labels"),
        ((LOG_P[0], NAMES), "log_probs has shape (3,)"),
        ((LOG_P[:0], NAMES), "nothing to draw"),
        ((LOG_P + 1, NAMES), "log_probs of frame 0, label '<blank>' is 0.89"),
        ((np.where(P == 0.85, np.nan, LOG_P), NAMES), "frame 1, label 'a & b' is nan"),
        ((LOG_P, NAMES, [0, 1]), "the path has shape (2,), but there are 4 frames"),
        ((LOG_P, NAMES, [0, 1, 3, 0]), "the path, frame 2: 3 is not the index of one of 3 labels"),
        (
            (LOG_P, NAMES, [0, -1, 1, 0]),
            "the path, frame 1: -1 is not the index of one of 3 labels",
        ),
    ],
)
def test_invalid_emissions(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        emissions(*arguments)


def test_the_first_score_above_zero_is_named() -> None:
    log_p = np.array([[1e-6, -1.0], [0.0, 1.1e-6]])
    with pytest.raises(InputError, match=r"frame 1, label 'b' is 1.1e-06: must be ≤ 0"):
        emissions(log_p, ["a", "b"])
    log_p[1, 1] = 1e-6
    assert len(shapes_of_kind(emissions(log_p, ["a", "b"]), "cell")) == 4
