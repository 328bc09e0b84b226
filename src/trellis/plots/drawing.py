"""A picture is a list of shapes; what is drawn is said once, and written as SVG or PNG.

Colours are names of a palette. The palettes keep apart for the colour-blind (after Okabe and Ito),
and a page may bring its own: ``svg(themed=True)`` writes ``var(--blue)`` where it would write blue.
Shades are blue or red of some opacity on paper, so that they follow the palette too.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike, fspath
from pathlib import Path as FilePath
from typing import TypeAlias
from unicodedata import combining, east_asian_width

from trellis.errors import InputError

__all__ = ["DARK", "LIGHT", "Circle", "Drawing", "Line", "Rect", "Shape", "Text", "cut", "width_of"]

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c2127",
    "soft": "#5b6570",
    "line": "#d9dee4",
    "blue": "#0067b0",
    "red": "#c64600",
    "green": "#00795a",
    "purple": "#a2468a",
    "amber": "#a36a00",
}
DARK = {
    "paper": "#191e25",
    "ink": "#e8ebef",
    "soft": "#a0abb7",
    "line": "#38414c",
    "blue": "#5cb3f0",
    "red": "#ff9352",
    "green": "#3ecba0",
    "purple": "#e298cb",
    "amber": "#e9b949",
}
FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"

Paint: TypeAlias = Callable[[str], str]
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NARROW, _BROAD = frozenset("fijlrt.,:;!|'()[]/ -"), frozenset("mwMW%@—")


def plain(text: object) -> str:
    """Text that XML can hold: characters that it cannot become U+FFFD."""
    return _NO_XML.sub("\ufffd", str(text))


def width_of(text: str, size: float = 12.0) -> float:
    """About how wide a text is, without asking a font.

    >>> width_of("ill", 10) < width_of("abc", 10) < width_of("MWM", 10) < width_of("日本語", 10)
    True
    """

    def em(character: str) -> float:
        if combining(character):
            return 0.0
        if east_asian_width(character) in "WF":
            return 1.0
        if character in _NARROW:
            return 0.33
        return 0.9 if character in _BROAD else 0.68 if character.isupper() else 0.57

    return size * sum(map(em, text))


def cut(text: str, width: float, size: float = 12.0) -> str:
    """The text, or as much of its beginning as fits and an ellipsis.

    >>> cut("Constantinople", 100), cut("Constantinople", 50)
    ('Constantinople', 'Consta…')
    """
    if width_of(text, size) <= width:
        return text
    while text and width_of(text + "…", size) > width:
        text = text[:-1]
    return text + "…"


@dataclass(frozen=True, kw_only=True)
class Shape(ABC):
    """What all shapes have: colours, a tooltip, and what they stand for in the picture."""

    fill: str | None = None
    stroke: str | None = None
    width: float = 1.0
    """Of the stroke."""
    dash: tuple[float, float] | None = None
    opacity: float = 1.0
    """Of the fill; of the stroke if there is no fill."""
    tip: str = ""
    kind: str = ""

    def svg(self, paint: Paint) -> str:
        """The shape as an element of SVG."""
        name, geometry, content = self._element()
        fields: dict[str, object] = {"class": self.kind or None, **geometry}
        fields["fill"] = paint(self.fill) if self.fill else "none"
        if self.stroke:
            fields |= {"stroke": paint(self.stroke), "stroke-width": self.width}
        if self.dash:
            fields["stroke-dasharray"] = f"{self.dash[0]:g} {self.dash[1]:g}"
        if self.opacity < 1.0:
            fields["fill-opacity" if self.fill else "stroke-opacity"] = self.opacity
        written = [f'{key}="{_attribute(v)}"' for key, v in fields.items() if v is not None]
        content = escape(content) + (
            f"<title>{escape(plain(self.tip))}</title>" if self.tip else ""
        )
        opened = " ".join([f"<{name}", *written])
        return f"{opened}>{content}</{name}>" if content else f"{opened}/>"

    @abstractmethod
    def _element(self) -> tuple[str, dict[str, object], str]:
        """Name, attributes and content of the element."""


@dataclass(frozen=True)
class Rect(Shape):
    """A box, by its upper left corner."""

    x: float
    y: float
    across: float
    down: float
    radius: float = 0.0

    def _element(self) -> tuple[str, dict[str, object], str]:
        box = {"x": self.x, "y": self.y, "width": self.across, "height": self.down}
        return "rect", {**box, "rx": self.radius or None}, ""


@dataclass(frozen=True)
class Circle(Shape):
    """A disc, or a ring if it has no fill."""

    x: float
    y: float
    radius: float

    def _element(self) -> tuple[str, dict[str, object], str]:
        return "circle", {"cx": self.x, "cy": self.y, "r": self.radius}, ""


@dataclass(frozen=True)
class Line(Shape):
    """Straight from point to point."""

    points: tuple[tuple[float, float], ...]

    def _element(self) -> tuple[str, dict[str, object], str]:
        way = " ".join(f"{_number(x)},{_number(y)}" for x, y in self.points)
        return "polyline", {"points": way, "stroke-linejoin": "round"}, ""


@dataclass(frozen=True)
class Text(Shape):
    """A line of text, by the start, middle or end of its base line; turned clockwise by angle."""

    x: float
    y: float
    text: str
    size: float = 12.0
    anchor: str = "start"
    bold: bool = False
    angle: float = 0.0

    def _element(self) -> tuple[str, dict[str, object], str]:
        x, y = _number(self.x), _number(self.y)
        more: dict[str, object] = {
            "font-size": self.size if self.size != 12.0 else None,
            "text-anchor": self.anchor if self.anchor != "start" else None,
            "font-weight": 600 if self.bold else None,
            "transform": f"rotate({_number(self.angle)} {x} {y})" if self.angle else None,
        }
        return "text", {"x": self.x, "y": self.y, **more}, plain(self.text)


@dataclass(frozen=True)
class Drawing:
    """Shapes on a sheet, those drawn later above those drawn before.

    >>> dot = Circle(5, 5, 4, fill="blue", tip="a <dot>")
    >>> print(Drawing(10, 10, [dot], "one dot").svg(themed=True).splitlines()[1])
    <circle cx="5" cy="5" r="4" fill="var(--blue)"><title>a &lt;dot&gt;</title></circle>
    """

    width: float
    height: float
    shapes: Sequence[Shape]
    about: str = ""
    """What it shows, for those who cannot see it."""

    def svg(self, themed: bool = False) -> str:
        """The picture as SVG: on white paper, or in the colours of the page that it is put in."""
        wide, high = _number(self.width), _number(self.height)
        paint = _variable if themed else LIGHT.__getitem__
        shapes = list(self.shapes)
        name = "<svg"
        if not themed:
            name = '<svg xmlns="http://www.w3.org/2000/svg"'
            shapes.insert(0, Rect(0, 0, self.width, self.height, 10, fill="paper"))
        head = (
            f'{name} viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img" '
            f'aria-label="{_attribute(self.about)}" font-family="{FONT}" font-size="12">'
        )
        return "\n".join([head, *(shape.svg(paint) for shape in shapes), "</svg>"])

    def save(self, path: str | PathLike[str]) -> None:
        """Write a ``.svg`` or ``.png`` file; the latter needs matplotlib."""
        name = fspath(path)
        if name.lower().endswith(".svg"):
            FilePath(name).write_text(self.svg() + "\n", encoding="utf-8")
        elif name.lower().endswith(".png"):
            from trellis.plots.png import write  # the only part that needs matplotlib

            write(self, name)
        else:
            raise InputError(f"{name}: a picture is saved as .svg or .png")

    def _repr_svg_(self) -> str:
        return self.svg()  # notebooks show it


def _variable(colour: str) -> str:
    return f"var(--{colour})"


def _attribute(value: object) -> str:
    text = _number(value) if isinstance(value, int | float) else plain(value)
    return escape(text, quote=True)


def _number(value: float) -> str:
    """At most two digits after the point.

    >>> _number(3.0), _number(0.12345), _number(-0.001)
    ('3', '0.12', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
