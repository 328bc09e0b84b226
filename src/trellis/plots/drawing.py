"""`Drawing`: a list of shapes, written as SVG or as PNG."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath

from trellis.data.atomic import writing
from trellis.errors import InputError
from trellis.plots.shapes import LIGHT, Rect, Shape, format_attribute, format_number

__all__ = ["Drawing"]

_FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Drawing:
    """Shapes on a sheet; later shapes cover earlier ones.

    A page may have its own palette: ``svg(themed=True)`` writes ``var(--blue)`` for blue.

    >>> from trellis.plots.shapes import Circle
    >>> dot = Circle(5, 5, 4, fill="blue", tip="a <dot>")
    >>> print(Drawing(10, 10, [dot], "one dot").svg(themed=True).splitlines()[1])
    <circle cx="5" cy="5" r="4" fill="var(--blue)"><title>a &lt;dot&gt;</title></circle>
    """

    width: float
    height: float
    shapes: Sequence[Shape]
    about: str = ""
    """A description for screen readers."""

    def svg(self, themed: bool = False) -> str:
        """Return the drawing as SVG, on white; with ``themed``, in the colours of the page."""
        width, height = format_number(self.width), format_number(self.height)
        paint = "var(--{})".format if themed else LIGHT.__getitem__
        shapes = list(self.shapes)
        svg_tag = "<svg"
        if not themed:
            svg_tag = '<svg xmlns="http://www.w3.org/2000/svg"'
            shapes.insert(0, Rect(0, 0, self.width, self.height, 10, fill="paper"))
        head = (
            f'{svg_tag} viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-label="{format_attribute(self.about)}" '
            f'font-family="{_FONT}" font-size="12">'
        )
        return "\n".join([head, *(shape.svg(paint) for shape in shapes), "</svg>"])

    def save(self, path: str | PathLike[str]) -> None:
        """Write a ``.svg`` file, or a ``.png`` file, which needs matplotlib."""
        name = fspath(path)
        if name.lower().endswith(".svg"):
            with writing(name) as file:
                file.write(f"{self.svg()}\n".encode())
        elif name.lower().endswith(".png"):
            # The import is here because it needs matplotlib, which is optional.
            from trellis.plots.png import write_png

            write_png(name, self.width, self.height, self.shapes)
        else:
            raise InputError(f"{name}: the file name must end in .svg or .png")

    def _repr_svg_(self) -> str:
        return self.svg()  # Jupyter calls this to show the drawing
