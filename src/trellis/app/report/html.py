"""HTML elements of the report: page, section, table, figure and bar."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias

from trellis.plots import Drawing
from trellis.plots.shapes import DARK, LIGHT, replace_invalid

__all__ = ["Part", "bar", "figure", "number", "page", "section", "table", "text"]

Part: TypeAlias = tuple[str, str, str, str]
"""The arguments of `section`: anchor, title, introduction and body."""

_BACKGROUND = {"light": "#f3f5f8", "dark": "#0f1318"}

_STYLE = """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
main, header > div, footer { max-width: 1120px; margin: 0 auto; padding: 0 20px; }
header { background: var(--paper); border-bottom: 1px solid var(--line);
  border-top: 5px solid var(--blue); padding: 26px 0 14px; margin-bottom: 24px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 20px; margin: 0 0 2px; }
h3 { font-size: 15px; margin: 18px 0 2px; overflow-wrap: anywhere; }
p { margin: 0 0 12px; }
.soft, .lead { color: var(--soft); }
.lead { max-width: 75ch; }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; margin-top: 14px; font-size: 14px; }
a { color: var(--blue); text-decoration: none; }
a:hover { text-decoration: underline; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 14px;
  padding: 20px 22px 22px; margin-bottom: 20px; scroll-margin-top: 12px; }
dl.facts { display: flex; flex-wrap: wrap; gap: 10px 30px; margin: 16px 0 0; }
dl.facts dt { font-size: 12px; color: var(--soft); }
dl.facts dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(158px, 1fr)); gap: 14px;
  margin-bottom: 20px; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 14px;
  padding: 14px 18px; }
.card b { display: block; font-size: 31px; line-height: 1.15; font-weight: 650;
  font-variant-numeric: tabular-nums; }
.card b small { font-size: 17px; font-weight: 500; color: var(--soft); }
.card span { color: var(--soft); font-size: 13px; display: block; }
.card.first { border-color: var(--blue); box-shadow: inset 0 0 0 1px var(--blue); }
.card.first b { color: var(--blue); }
.scroll { overflow-x: auto; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; min-width: min(100%, 760px);
  font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; font-size: 13px; color: var(--soft); }
th, td { padding: 5px 18px 5px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td code { background: var(--ground); border-radius: 4px; padding: 2px 5px; }
th:last-child, td:last-child { padding-right: 0; }
tbody tr:last-child td { border-bottom: 0; }
.right { text-align: right; }
td:first-child { font-weight: 550; }
.bar { display: inline-block; vertical-align: middle; width: 130px; height: 9px; margin-right: 9px;
  border-radius: 5px; background: var(--line); overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--blue); border-radius: 5px; }
details { margin-top: 12px; }
summary { cursor: pointer; color: var(--blue); padding: 4px 0; }
figure { margin: 12px 0 0; }
figure svg { display: block; height: auto; }
figure.fits svg { max-width: 100%; }
.scroll svg { max-width: none; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr));
  gap: 16px; }
.labels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(300px, 100%), 1fr));
  gap: 14px 30px; margin-top: 6px; }
.labels > div { border-top: 1px solid var(--line); min-width: 0; break-inside: avoid; }
.labels h3 { margin: 8px 0 4px; }
.weights { display: grid; grid-template-columns: minmax(0, 1fr) 90px 48px; gap: 1px 10px;
  font-size: 13px; align-items: center; }
.weights code { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.weights .bar { width: 100%; height: 7px; margin: 0; background: none; }
.weights .right { font-variant-numeric: tabular-nums; color: var(--soft); }
.minus .bar i, .bar.minus i { background: var(--red); }
code { font: 12.5px/1.5 ui-monospace, SFMono-Regular, Consolas, "Liberation Mono", monospace; }
.sentence { border-top: 1px solid var(--line); padding: 12px 0 4px; break-inside: avoid; }
.sentence:first-of-type { border-top: 0; }
.row { display: grid; grid-template-columns: 78px minmax(0, 1fr); gap: 8px; line-height: 2; }
.row > span:first-child { color: var(--soft); font-size: 13px; line-height: 2.3; }
.row > div { overflow-wrap: anywhere; }
bdi { white-space: pre-wrap; }
mark { display: inline-block; max-width: 100%; color: inherit; line-height: 1.5; padding: 0 5px;
  background: color-mix(in srgb, var(--mark) 17%, transparent);
  border-bottom: 2px solid var(--mark);
  border-radius: 4px 4px 0 0; margin: 2px 0; }
mark small { color: var(--mark); font-weight: 650; margin-left: 5px; font-size: 11px;
  white-space: nowrap; }
mark.wrong { border-bottom-style: dashed; }
mark.wrong small::after { content: " ✗"; }
.c0 { --mark: var(--blue); } .c1 { --mark: var(--red); } .c2 { --mark: var(--green); }
.c3 { --mark: var(--purple); } .c4 { --mark: var(--amber); } .c5 { --mark: var(--soft); }
footer { color: var(--soft); font-size: 13px; padding-bottom: 40px; }
@media (max-width: 560px) {
  main, header > div, footer { padding: 0 12px; }
  section { padding: 16px 14px; border-radius: 12px; }
  h1 { font-size: 23px; }
  .card { padding: 12px 14px; } .card b { font-size: 26px; }
  .cards { grid-template-columns: 1fr 1fr; gap: 10px; }
  .bar { width: 44px; margin-right: 6px; }
  table { font-size: 13px; } th, td { padding-right: 10px; }
  .row { grid-template-columns: 1fr; gap: 0; } .row > span:first-child { line-height: 1.4; }
}
@media print {
  body { background: none; font-size: 12px; }
  header { border-top: 0; padding: 0 0 10px; } nav { display: none; }
  section, .card { border-radius: 0; border-color: var(--line); }
  section { border-width: 1px 0 0; padding: 14px 0; }
  main, header > div, footer { max-width: none; padding: 0; }
  .scroll { overflow: visible; } .scroll svg { max-width: 100%; }
  figure, tr, p { break-inside: avoid; } h2, h3, p { break-after: avoid; }
  .pair { grid-template-columns: 1fr 1fr; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def text(value: object) -> str:
    """Return a value as HTML text, with special characters escaped.

    >>> text("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    return escape(replace_invalid(value), quote=True)


def number(value: float, digits: int = 0) -> str:
    """Return a number with thousands separators and a minus sign.

    >>> number(-1234.56, 1)
    '−1,234.6'
    """
    return "−∞" if value == float("-inf") else f"{value:,.{digits}f}".replace("-", "−")


def bar(fraction: float, css_class: str = "") -> str:
    """Return a small horizontal bar; it is full if ``fraction`` is 1."""
    width = 100 * min(max(fraction, 0.0), 1.0)
    return f'<span class="{f"bar {css_class}".strip()}"><i style="width:{width:.1f}%"></i></span>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Return a table. The cells are HTML; the columns in ``right`` are aligned to the right.

    >>> table(["label", "count"], [["A", "3"]], right=[1])[-72:]
    '<tbody><tr><td>A</td><td class="right">3</td></tr></tbody></table></div>'
    """

    def make_row(cells: Sequence[str], tag: str) -> str:
        classes = [' class="right"' if n in right else "" for n in range(len(cells))]
        pairs = zip(cells, classes, strict=True)
        row = "".join(f"<{tag}{attribute}>{cell}</{tag}>" for cell, attribute in pairs)
        return f"<tr>{row}</tr>"

    body = "".join(make_row(cells, "td") for cells in rows)
    return (
        f'<div class="scroll"><table><thead>{make_row([text(name) for name in head], "th")}</thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def figure(drawing: Drawing, fits: bool = False) -> str:
    """Return a picture. With ``fits`` it shrinks to the page, otherwise it scrolls sideways."""
    return f'<figure class="{"fits" if fits else "scroll"}">{drawing.svg(themed=True)}</figure>'


def section(anchor: str, title: str, introduction: str, body: str) -> str:
    """Return a section. Title and introduction are plain text, the body is HTML."""
    lead_html = f'<p class="lead">{text(introduction)}</p>' if introduction else ""
    return f'<section id="{text(anchor)}"><h2>{text(title)}</h2>{lead_html}{body}</section>'


def page(title: str, body: str) -> str:
    """Return a complete HTML document, with light or dark colours as set in the browser."""
    light = _make_css_variables({**LIGHT, "ground": _BACKGROUND["light"]})
    dark = _make_css_variables({**DARK, "ground": _BACKGROUND["dark"]})
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n<style>\n:root {{ {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"{_STYLE.strip()}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _make_css_variables(palette: dict[str, str]) -> str:
    """Return a palette as CSS variables."""
    return " ".join(f"--{name}: {colour};" for name, colour in palette.items())
