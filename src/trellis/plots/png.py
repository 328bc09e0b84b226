"""The shapes of a drawing through matplotlib, which is needed for this alone."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trellis.errors import InputError
from trellis.plots.drawing import LIGHT, Circle, Line, Rect, Shape, Text, plain

if TYPE_CHECKING:
    from trellis.plots.drawing import Drawing

__all__ = ["write"]

_PER_INCH = 96.0  # units of a drawing
_SHARP = 2.0  # pixels for each unit
_FONTS = ("Helvetica", "Arial", "Liberation Sans", "DejaVu Sans")  # the last comes with matplotlib
# what a user's settings must not change
_SETTINGS = {"lines.scale_dashes": False, "text.usetex": False, "path.sketch": None}


def write(drawing: "Drawing", path: str) -> None:
    """Draw shape by shape on an Agg canvas of the same proportions."""
    try:
        matplotlib = import_module("matplotlib")
        figures = import_module("matplotlib.figure")
        canvas = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg
        fonts = import_module("matplotlib.font_manager")
    except ImportError:
        raise InputError(
            f"{path}: a .png needs matplotlib: pip install trellis[plot] (a .svg does not)"
        ) from None
    there = set(fonts.get_font_names())
    family = [name for name in _FONTS if name in there]
    size = (drawing.width / _PER_INCH, drawing.height / _PER_INCH)
    with matplotlib.rc_context(_SETTINGS):
        figure = figures.Figure(figsize=size, dpi=_PER_INCH * _SHARP, facecolor=LIGHT["paper"])
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
        axes.set_axis_off()
        for order, shape in enumerate(drawing.shapes):
            artist = _artist(shape, family)
            artist.set(zorder=order, clip_on=False)
            axes.add_artist(artist)
            if isinstance(shape, Text):
                artist.set_transform(axes.transData)
        canvas(figure).print_png(path)


def _artist(shape: Shape, family: list[str]) -> Any:
    if isinstance(shape, Text):
        return _text(shape, family)
    patches = import_module("matplotlib.patches")
    fill, stroke = _colours(shape)
    points = 72.0 / _PER_INCH
    if isinstance(shape, Line):
        line = import_module("matplotlib.lines").Line2D
        x, y = zip(*shape.points, strict=True)
        style = (0, [points * d for d in shape.dash]) if shape.dash else "-"
        return line(x, y, color=stroke, linewidth=points * shape.width, linestyle=style)
    look = {"facecolor": fill, "edgecolor": stroke, "linewidth": points * shape.width}
    if isinstance(shape, Circle):
        return patches.Circle((shape.x, shape.y), shape.radius, **look)
    assert isinstance(shape, Rect)
    style = f"round,pad=0,rounding_size={shape.radius}" if shape.radius else "square,pad=0"
    corner = (shape.x, shape.y)
    return patches.FancyBboxPatch(corner, shape.across, shape.down, boxstyle=style, **look)


def _text(shape: Text, family: list[str]) -> Any:
    return import_module("matplotlib.text").Text(
        shape.x,
        shape.y,
        plain(shape.text),
        color=_colours(shape)[0],
        fontfamily=family,
        fontsize=shape.size * 72.0 / _PER_INCH,
        fontweight="bold" if shape.bold else "normal",
        horizontalalignment={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
        verticalalignment="baseline",
        rotation=-shape.angle,
        rotation_mode="anchor",
        parse_math=False,  # a $ is a dollar
    )


def _colours(shape: Shape) -> tuple[Any, Any]:
    """(red, green, blue, opacity) of fill and stroke."""
    to_rgba = import_module("matplotlib.colors").to_rgba
    fill = to_rgba(LIGHT[shape.fill], shape.opacity) if shape.fill else "none"
    alpha = 1.0 if shape.fill else shape.opacity
    return fill, to_rgba(LIGHT[shape.stroke], alpha) if shape.stroke else "none"
