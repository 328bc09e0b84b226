"""Drawings as PNG files, by matplotlib. No other module of the package needs matplotlib."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from trellis.data.atomic import writing
from trellis.errors import InputError
from trellis.plots.shapes import LIGHT, Circle, Line, Rect, Shape, Text, replace_invalid

__all__ = ["write_png"]

_UNITS_PER_INCH = 96.0  # a unit of a drawing is a CSS pixel
_PIXELS_PER_UNIT = 2.0  # so that the picture is sharp on high-resolution screens
_FONTS = ("Helvetica", "Arial", "Liberation Sans", "DejaVu Sans")  # DejaVu comes with matplotlib
# These settings of matplotlib would change the picture, and a user may have changed them.
_SETTINGS = {"lines.scale_dashes": False, "text.usetex": False, "path.sketch": None}


def write_png(path: str, width: float, height: float, shapes: Sequence[Shape]) -> None:
    """Draw the shapes in order on a canvas of ``width`` × ``height`` units."""
    try:
        matplotlib = import_module("matplotlib")
        figures = import_module("matplotlib.figure")
        canvas = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg
        fonts = import_module("matplotlib.font_manager")
    except ImportError:
        raise InputError(
            f"{path}: a .png file needs matplotlib: pip install trellis[plot], or save a .svg file"
        ) from None
    installed_fonts = set(fonts.get_font_names())
    family = [name for name in _FONTS if name in installed_fonts]
    size = (width / _UNITS_PER_INCH, height / _UNITS_PER_INCH)
    with matplotlib.rc_context(_SETTINGS):
        figure = figures.Figure(
            figsize=size, dpi=_UNITS_PER_INCH * _PIXELS_PER_UNIT, facecolor=LIGHT["paper"]
        )
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        for order, shape in enumerate(shapes):
            artist = _make_artist(shape, family)
            artist.set(zorder=order, clip_on=False)
            axes.add_artist(artist)
            if isinstance(shape, Text):
                artist.set_transform(axes.transData)
        with writing(path) as file:
            canvas(figure).print_png(file)


def _make_artist(shape: Shape, family: list[str]) -> Any:
    """Return the matplotlib artist that draws a shape."""
    if isinstance(shape, Text):
        return _make_text(shape, family)
    patches = import_module("matplotlib.patches")
    fill, stroke = _convert_colours(shape)
    points = 72.0 / _UNITS_PER_INCH
    if isinstance(shape, Line):
        line = import_module("matplotlib.lines").Line2D
        x, y = zip(*shape.points, strict=True)
        dashes = (0, [points * length for length in shape.dash]) if shape.dash else "-"
        return line(x, y, color=stroke, linewidth=points * shape.stroke_width, linestyle=dashes)
    style = {"facecolor": fill, "edgecolor": stroke, "linewidth": points * shape.stroke_width}
    if isinstance(shape, Circle):
        return patches.Circle((shape.x, shape.y), shape.radius, **style)
    assert isinstance(shape, Rect)
    box_style = f"round,pad=0,rounding_size={shape.radius}" if shape.radius else "square,pad=0"
    corner = (shape.x, shape.y)
    return patches.FancyBboxPatch(corner, shape.width, shape.height, boxstyle=box_style, **style)


def _make_text(shape: Text, family: list[str]) -> Any:
    fill, stroke = _convert_colours(shape)
    points = 72.0 / _UNITS_PER_INCH
    effects = []
    if shape.stroke:
        outline = import_module("matplotlib.patheffects").withStroke
        effects = [outline(linewidth=points * shape.stroke_width, foreground=stroke)]
    return import_module("matplotlib.text").Text(
        shape.x,
        shape.y,
        replace_invalid(shape.text),
        color=fill,
        path_effects=effects,
        fontfamily=family,
        fontsize=points * shape.size,
        fontweight="bold" if shape.bold else "normal",
        horizontalalignment={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
        verticalalignment="baseline",
        rotation=-shape.angle,
        rotation_mode="anchor",
        parse_math=False,  # "$" is a dollar sign, not the start of a TeX formula
    )


def _convert_colours(shape: Shape) -> tuple[Any, Any]:
    """Return (red, green, blue, opacity) of the fill and of the stroke."""
    to_rgba = import_module("matplotlib.colors").to_rgba
    fill = to_rgba(LIGHT[shape.fill], shape.opacity) if shape.fill else "none"
    alpha = 1.0 if shape.fill else shape.opacity
    return fill, to_rgba(LIGHT[shape.stroke], alpha) if shape.stroke else "none"
