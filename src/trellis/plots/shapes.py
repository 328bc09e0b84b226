"""The shapes of a drawing, and the palettes of their colours.

A colour is the name of an entry in a palette. Colour-blind people can distinguish the colours of a
palette (after Okabe and Ito). A shade is blue or red with an opacity, so that another palette also
changes the shades.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias
from unicodedata import combining, east_asian_width

__all__ = [
    "DARK",
    "HALO",
    "LIGHT",
    "Circle",
    "Line",
    "Rect",
    "Shape",
    "Text",
    "cut",
    "estimate_width",
    "format_attribute",
    "format_number",
    "replace_invalid",
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
HALO: dict[str, Any] = {"stroke": "paper", "stroke_width": 3.0}
"""The stroke of a text that lines may cross."""
Paint: TypeAlias = Callable[[str], str]
"""A function from the name of a colour to its value in SVG."""
_INVALID_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NARROW, _WIDE = frozenset("fijlrt.,:;!|'()[]/ -"), frozenset("mwMW%@—")


def replace_invalid(text: object) -> str:
    """Return the text with characters that XML forbids replaced by U+FFFD."""
    return _INVALID_XML.sub("\ufffd", str(text))


def estimate_width(text: str, size: float = 12.0) -> float:
    """Estimate the width of a text from typical widths of sans-serif characters.

    >>> widths = [estimate_width(text, 10) for text in ("ill", "abc", "MWM", "日本語")]
    >>> widths == sorted(widths)
    True
    """

    def relative_width(character: str) -> float:
        """Return the width of a character in multiples of the font size."""
        if combining(character):
            return 0.0
        if east_asian_width(character) in "WF":
            return 1.0
        if character in _NARROW:
            return 0.33
        return 0.9 if character in _WIDE else 0.68 if character.isupper() else 0.57

    return size * sum(map(relative_width, text))


def cut(text: str, width: float, size: float = 12.0) -> str:
    """Return the text. If it is wider than ``width``, it is cut and ends with an ellipsis.

    >>> cut("Constantinople", 100), cut("Constantinople", 50)
    ('Constantinople', 'Consta…')
    """
    if estimate_width(text, size) <= width:
        return text
    while text and estimate_width(text + "…", size) > width:
        text = text[:-1]
    return text + "…"


@dataclass(frozen=True, kw_only=True)
class Shape(ABC):
    """Base class: the colours, the tooltip and the role of a shape."""

    fill: str | None = None
    stroke: str | None = None
    stroke_width: float = 1.0
    dash: tuple[float, float] | None = None
    opacity: float = 1.0
    """Opacity of the fill, or of the stroke if there is no fill."""
    tip: str = ""
    """The text that appears when the mouse is over the shape."""
    kind: str = ""
    """The role of the shape, for example "cell". It is the CSS class in SVG."""

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
        attributes = [
            f'{key}="{format_attribute(value)}"'
            for key, value in fields.items()
            if value is not None
        ]
        content = escape(content) + (
            f"<title>{escape(replace_invalid(self.tip))}</title>" if self.tip else ""
        )
        tag = " ".join([f"<{name}", *attributes])
        return f"{tag}>{content}</{name}>" if content else f"{tag}/>"

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
    """A line through two or more points."""

    points: tuple[tuple[float, float], ...]

    def _element(self) -> tuple[str, dict[str, object], str]:
        points = " ".join(f"{format_number(x)},{format_number(y)}" for x, y in self.points)
        return "polyline", {"points": points, "stroke-linejoin": "round"}, ""


@dataclass(frozen=True)
class Text(Shape):
    """A line of text; x and y are the start, middle or end of its baseline.

    ``angle`` rotates it clockwise, in degrees. A stroke is drawn below the letters: in the colour
    "paper", it keeps them readable where lines cross them.
    """

    x: float
    y: float
    text: str
    size: float = 12.0
    anchor: str = "start"
    bold: bool = False
    angle: float = 0.0

    def _element(self) -> tuple[str, dict[str, object], str]:
        x, y = format_number(self.x), format_number(self.y)
        attributes: dict[str, object] = {
            "font-size": self.size if self.size != 12.0 else None,
            "text-anchor": self.anchor if self.anchor != "start" else None,
            "font-weight": 600 if self.bold else None,
            "transform": f"rotate({format_number(self.angle)} {x} {y})" if self.angle else None,
            "paint-order": "stroke" if self.stroke else None,
            "stroke-linejoin": "round" if self.stroke else None,
        }
        return "text", {"x": self.x, "y": self.y, **attributes}, replace_invalid(self.text)


def format_attribute(value: object) -> str:
    """Return a value as the text of an attribute, with special characters escaped."""
    text = format_number(value) if isinstance(value, int | float) else replace_invalid(value)
    return escape(text, quote=True)


def format_number(value: float) -> str:
    """Return a number with at most two decimals, without trailing zeros.

    >>> format_number(3.0), format_number(0.12345), format_number(-0.001)
    ('3', '0.12', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
