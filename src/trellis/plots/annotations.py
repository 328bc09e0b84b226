"""Parts that several charts share: a title, a legend, round numbers on axes."""

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from typing import TypeAlias

from trellis.plots.shapes import Shape, Text, cut, estimate_width

__all__ = ["Entry", "choose_ticks", "draw_legend", "draw_title"]

Entry: TypeAlias = tuple[str, Callable[[float, float], Sequence[Shape]]]
"""A name, and the function that draws its symbol in the 36 units to the right of (x, y)."""


def draw_title(title: str | None, width: float) -> list[Shape]:
    """Return the title above a chart, cut to the width, or an empty list without a title."""
    if not title:
        return []
    return [Text(16, 27, cut(title, width - 32, 15), 15, bold=True, fill="ink", tip=title)]


def draw_legend(
    entries: Sequence[Entry], left: float, top: float, right: float
) -> tuple[list[Shape], float]:
    """Return symbols and names, wrapped into lines, and the y coordinate below the last line."""
    shapes: list[Shape] = []
    x, y = left, top
    for name, draw_symbol in entries:
        width = 42 + estimate_width(name)
        if x > left and x + width > right:
            x, y = left, y + 22
        shapes += draw_symbol(x, y)
        shapes.append(Text(x + 36, y + 4, name, fill="soft"))
        x += width + 20
    return shapes, y + 10


def choose_ticks(values: Sequence[float]) -> list[float]:
    """Return at most 10 round numbers that span the values. Their step is 1, 2 or 5 times 10ⁿ.

    >>> choose_ticks([0.13, 0.78])
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    >>> choose_ticks([40, 40])  # a flat line runs through the middle
    [38.0, 38.5, 39.0, 39.5, 40.0, 40.5, 41.0, 41.5, 42.0]
    """
    low, high = min(values), max(values)
    if high - low <= 1e-9 * abs(high + low):
        margin = 0.05 * abs(high) or 0.5
        low, high = low - margin, high + margin
    unit = 10.0 ** floor(log10(high - low))
    step = next(
        multiple * unit
        for multiple in (0.1, 0.2, 0.5, 1.0, 2.0)
        if (high - low) / (multiple * unit) <= 8
    )
    # Ticks are rounded, because multiples of 0.1 are not exact: 3 * 0.1 is 0.30000000000000004.
    digits = 2 - floor(log10(step))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(n * step, digits) for n in range(first, last + 1)]
