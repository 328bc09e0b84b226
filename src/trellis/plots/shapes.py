"""The shapes of a drawing, and the palettes of their colours.

A colour is the name of an entry in a palette. Colour-blind people can tell the colours of a palette
apart (after Okabe and Ito). A shade is blue or red with an opacity, so that it follows the palette.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TypeAlias
from unicodedata import combining, east_asian_width

__all__ = [
    "DARK",
    "LIGHT",
    "Circle",
    "Line",
    "Rect",
    "Shape",
    "Text",
    "as_attribute",
    "as_number",
    "cut",
    "plain",
    "width_of",
]

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
Paint: TypeAlias = Callable[[str], str]
"""From the name of a colour to its value in SVG."""
_INVALID_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NARROW, _WIDE = frozenset("fijlrt.,:;!|'()[]/ -"), frozenset("mwMW%@—")


def plain(text: object) -> str:
    """Return the text with characters that XML forbids replaced by U+FFFD."""
    return _INVALID_XML.sub("\ufffd", str(text))


def width_of(text: str, size: float = 12.0) -> float:
    """Estimate the width of a text, without a font.

    >>> width_of("ill", 10) < width_of("abc", 10) < width_of("MWM", 10) < width_of("日本語", 10)
    True
    """

    def width(character: str) -> float:
        """Return the width in units of the font size: typical values of sans-serif fonts."""
        if combining(character):
            return 0.0
        if east_asian_width(character) in "WF":
            return 1.0
        if character in _NARROW:
            return 0.33
        return 0.9 if character in _WIDE else 0.68 if character.isupper() else 0.57

    return size * sum(map(width, text))


def cut(text: str, width: float, size: float = 12.0) -> str:
    """Return the text, cut and with an ellipsis if it is wider than ``width``.

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
    """Base class: colours, a tooltip, and the role of the shape in the picture."""

    fill: str | None = None
    stroke: str | None = None
    stroke_width: float = 1.0
    dash: tuple[float, float] | None = None
    opacity: float = 1.0
    """Opacity of the fill, or of the stroke if there is no fill."""
    tip: str = ""
    """The text that appears when the mouse is over the shape."""
    kind: str = ""
    """What the shape stands for, for example "cell": its CSS class."""

    def svg(self, paint: Paint) -> str:
        """Return the shape as an SVG element."""
        name, geometry, content = self._element()
        fields: dict[str, object] = {"class": self.kind or None, **geometry}
        fields["fill"] = paint(self.fill) if self.fill else "none"
        if self.stroke:
            fields |= {"stroke": paint(self.stroke), "stroke-width": self.stroke_width}
        if self.dash:
            fields["stroke-dasharray"] = f"{self.dash[0]:g} {self.dash[1]:g}"
        if self.opacity < 1.0:
            fields["fill-opacity" if self.fill else "stroke-opacity"] = self.opacity
        attributes = [f'{key}="{as_attribute(v)}"' for key, v in fields.items() if v is not None]
        content = escape(content) + (
            f"<title>{escape(plain(self.tip))}</title>" if self.tip else ""
        )
        opening = " ".join([f"<{name}", *attributes])
        return f"{opening}>{content}</{name}>" if content else f"{opening}/>"

    @abstractmethod
    def _element(self) -> tuple[str, dict[str, object], str]:
        """Return the name, the attributes and the content of the SVG element."""


@dataclass(frozen=True)
class Rect(Shape):
    """A rectangle; x and y are its upper left corner."""

    x: float
    y: float
    width: float
    height: float
    radius: float = 0.0

    def _element(self) -> tuple[str, dict[str, object], str]:
        box = {"x": self.x, "y": self.y, "width": self.width, "height": self.height}
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
    """A line from point to point."""

    points: tuple[tuple[float, float], ...]

    def _element(self) -> tuple[str, dict[str, object], str]:
        points = " ".join(f"{as_number(x)},{as_number(y)}" for x, y in self.points)
        return "polyline", {"points": points, "stroke-linejoin": "round"}, ""


@dataclass(frozen=True)
class Text(Shape):
    """A line of text; x and y are the start, middle or end of its baseline.

    ``angle`` rotates it clockwise, in degrees.
    """

    x: float
    y: float
    text: str
    size: float = 12.0
    anchor: str = "start"
    bold: bool = False
    angle: float = 0.0

    def _element(self) -> tuple[str, dict[str, object], str]:
        x, y = as_number(self.x), as_number(self.y)
        attributes: dict[str, object] = {
            "font-size": self.size if self.size != 12.0 else None,
            "text-anchor": self.anchor if self.anchor != "start" else None,
            "font-weight": 600 if self.bold else None,
            "transform": f"rotate({as_number(self.angle)} {x} {y})" if self.angle else None,
        }
        return "text", {"x": self.x, "y": self.y, **attributes}, plain(self.text)


def as_attribute(value: object) -> str:
    """Return a value as the text of an attribute, with special characters escaped."""
    text = as_number(value) if isinstance(value, int | float) else plain(value)
    return escape(text, quote=True)


def as_number(value: float) -> str:
    """Return a number with at most two decimals, without trailing zeros.

    >>> as_number(3.0), as_number(0.12345), as_number(-0.001)
    ('3', '0.12', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
