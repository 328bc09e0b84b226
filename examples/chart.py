"""A line chart as plain SVG, for the examples: numbers in, a small file out, nothing to install."""

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from pathlib import Path

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 640, 380
LEFT, END, TOP, BASE = 64, 620, 74, 328  # edges of the plot
COLOURS = ("#0969da", "#cf222e", "#1a7f37", "#57606a")
DASHES = ("", "", "", "6 4")
MARKS = (
    '<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{c}"/>',
    '<rect x="{x0:.1f}" y="{y0:.1f}" width="8" height="8" fill="{c}"/>',
    '<circle cx="{x:.1f}" cy="{y:.1f}" r="7" fill="none" stroke="{c}" stroke-width="1.6"/>',
    "",
)


def line_chart(path: Path, title: str, x: str, y: str, series: Mapping[str, Points]) -> None:
    """Write up to four named lines over labelled axes; the fourth is dashed, without marks."""
    ticks_x = _ticks([point[0] for points in series.values() for point in points])
    ticks_y = _ticks([point[1] for points in series.values() for point in points])

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across = (point[0] - ticks_x[0]) / (ticks_x[-1] - ticks_x[0])
        up = (point[1] - ticks_y[0]) / (ticks_y[-1] - ticks_y[0])
        return LEFT + across * (END - LEFT), BASE - up * (BASE - TOP)

    parts = _frame(title, x, y)
    for value in ticks_y:
        _, at = place((ticks_x[0], value))
        parts.append(f'<path d="M{LEFT} {at:.1f}H{END}" stroke="#e3e7eb"/>')
        parts.append(_text(LEFT - 8, at + 4, f"{value:g}", "end"))
    for value in ticks_x:
        at, _ = place((value, ticks_y[0]))
        parts.append(_text(at, BASE + 18, f"{value:g}", "middle"))
    for n, (name, points) in enumerate(series.items()):
        parts += _line(n, [place(point) for point in points])
        key = LEFT + n * (END - LEFT) / len(series)
        parts += _line(n, [(key, 50.0), (key + 24, 50.0)])
        parts.append(_text(key + 34, 54, name, "start"))
    path.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")


def _frame(title: str, x: str, y: str) -> list[str]:
    middle = (TOP + BASE) / 2
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" '
        'font-size="12" fill="#1f2328">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff"/>',
        _text(LEFT, 26, title, "start", 'font-size="15" font-weight="600"'),
        _text((LEFT + END) / 2, HEIGHT - 14, x, "middle"),
        _text(16, middle, y, "middle", f'transform="rotate(-90 16 {middle:.1f})"'),
    ]


def _line(n: int, places: Points) -> list[str]:
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dash = f' stroke-dasharray="{DASHES[n]}"' if DASHES[n] else ""
    style = f'fill="none" stroke="{COLOURS[n]}" stroke-width="2"{dash}'
    marks = [MARKS[n].format(x=x, y=y, x0=x - 4, y0=y - 4, c=COLOURS[n]) for x, y in places]
    return [f'<polyline points="{corners}" {style}/>', *filter(None, marks)]


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def _ticks(values: Sequence[float]) -> list[float]:
    """Round numbers around the values: up to 10 of them, 1, 2 or 5 times a power of ten apart."""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    unit = 10.0 ** floor(log10(span))
    step = next(s * unit for s in (0.1, 0.2, 0.5, 1.0, 2.0) if span / (s * unit) <= 8)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(n * step, 10) for n in range(first, max(last, first + 1) + 1)]
