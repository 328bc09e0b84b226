"""`factor_graph` and `model_graph`: which variables a model connects."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import hypot

from trellis.checks import one_of
from trellis.errors import InputError
from trellis.plots.annotations import draw_title
from trellis.plots.drawing import Drawing
from trellis.plots.shapes import Circle, Line, Rect, Shape, Text, cut, estimate_width

__all__ = ["factor_graph", "model_graph"]

_COLUMN, _ROW = 110.0, 92.0  # distances between the places of a grid
_RADIUS = 21.0
_FACTOR = 9.0  # side of the square of a factor
_HEAD = 8.0  # length of an arrowhead
_RAISED = 0.55  # a factor that skips variables is above their row, by this number of rows
_MODELS = ("independent", "memm", "hmm", "crf", "skip-chain")

Place = tuple[float, float]


def factor_graph(
    variables: Mapping[str, Place],
    factors: Sequence[Sequence[str]] = (),
    arrows: Sequence[tuple[str, str]] = (),
    *,
    observed: Sequence[str] = (),
    title: str | None = None,
) -> Drawing:
    """Draw variables as circles, factors as squares, and arrows of directed models.

    ``variables`` has the place of each variable, as (column, row) of a grid. A factor is a list of
    variables; its square is in their middle, or above it if variables lie between them. An arrow
    leads from one variable to another. ``observed`` variables are grey.

    >>> drawing = factor_graph({"y1": (0, 0), "y2": (1, 0)}, [["y1", "y2"]])
    >>> [shape.kind for shape in drawing.shapes if shape.kind]
    ['edge', 'edge', 'factor', 'variable', 'variable']
    """
    _check_graph(variables, factors, arrows, observed)
    places = [_find_middle([variables[name] for name in names]) for names in factors]
    columns, rows = zip(*variables.values(), *places, strict=True)
    left, top = 36.0 - _COLUMN * min(columns), (64.0 if title else 36.0) - _ROW * min(rows)

    def point(place: Place) -> Place:
        return left + _COLUMN * place[0], top + _ROW * place[1]

    points = {name: point(place) for name, place in variables.items()}
    width = max(max(x for x, _ in points.values()) + 36, estimate_width(title or "", 15) + 40)
    height = max(y for _, y in points.values()) + 36
    lines: list[Shape] = []
    squares: list[Shape] = []
    for names, place in zip(factors, places, strict=True):
        x, y = point(place)
        lines += [Line((points[name], (x, y)), stroke="soft", kind="edge") for name in names]
        tip = f"factor of {', '.join(names)}"
        corner = (x - _FACTOR / 2, y - _FACTOR / 2)
        squares.append(Rect(*corner, _FACTOR, _FACTOR, fill="ink", tip=tip, kind="factor"))
    for begin, end in arrows:
        lines += _draw_arrow(points[begin], points[end])
    shapes = [*draw_title(title, width), *lines, *squares]
    for name, (x, y) in points.items():
        is_observed = name in observed
        fill, opacity = ("soft", 0.35) if is_observed else ("paper", 1.0)
        shapes.append(Circle(x, y, _RADIUS, fill="paper"))  # hides the lines under the variable
        shapes.append(
            Circle(
                x, y, _RADIUS, fill=fill, opacity=opacity, stroke="ink", tip=name, kind="variable"
            )
        )
        text = cut(name, 2 * _RADIUS - 4)
        shapes.append(Text(x, y + 4, text, anchor="middle", fill="ink", tip=name))
    return Drawing(width, height, shapes, title or f"graph of {', '.join(variables)}")


def model_graph(
    model: str,
    tokens: Sequence[str],
    *,
    skips: Sequence[tuple[int, int]] = (),
    title: str | None = None,
) -> Drawing:
    """Draw the graph of a model for a sequence of tokens.

    ``model`` is "independent" (a softmax for each token), "memm" (each label depends on the
    previous one and on all tokens), "hmm", "crf", or "skip-chain": a CRF with further edges between
    the labels of two positions, in ``skips``.

    >>> drawing = model_graph("crf", ["I", "have", "a", "pen"])
    >>> [shape.tip for shape in drawing.shapes if shape.kind == "factor"][:2]
    ['factor of y1, y2', 'factor of y2, y3']
    """
    kind = one_of(model, _MODELS, "model")
    if not tokens or isinstance(tokens, str):
        raise InputError("tokens must be a list of at least one token")
    if skips and kind != "skip-chain":
        raise InputError(f"skips need the model 'skip-chain', not {kind!r}")
    n = len(tokens)
    for begin, end in skips:
        if not 0 <= begin < end < n:
            raise InputError(f"skip ({begin}, {end}): must be two positions of {n} tokens in order")
    labels = [f"y{t + 1}" for t in range(n)]
    words = [f"{token}" for token in tokens]
    # Two tokens may be equal, but variables must have different names.
    names = [word if words.count(word) == 1 else f"{word}·{t + 1}" for t, word in enumerate(words)]
    variables: dict[str, Place] = {label: (t, 0) for t, label in enumerate(labels)}
    variables |= {name: (t, 1) for t, name in enumerate(names)}
    pairs = [*pairwise(labels)]
    to_labels, to_tokens = [*zip(names, labels, strict=True)], [*zip(labels, names, strict=True)]
    factors: list[tuple[str, str]] = []
    arrows: list[tuple[str, str]] = []
    if kind == "independent":
        arrows = to_labels
    elif kind == "memm":
        arrows = pairs + to_labels
    elif kind == "hmm":
        arrows = pairs + to_tokens
    else:
        factors = pairs + to_tokens + [(labels[begin], labels[end]) for begin, end in skips]
    return factor_graph(variables, factors, arrows, observed=names, title=title)


def _find_middle(places: Sequence[Place]) -> Place:
    """Return the middle of a factor's variables.

    If a factor skips variables of its row, its place is above the middle.
    """
    columns, rows = zip(*places, strict=True)
    column, row = sum(columns) / len(places), sum(rows) / len(places)
    is_skip = len(set(rows)) == 1 and max(columns) - min(columns) > 1
    return column, row - (_RAISED if is_skip else 0.0)


def _draw_arrow(begin: Place, end: Place) -> list[Shape]:
    """Return a line between the edges of two variables, and its head."""
    length = hypot(end[0] - begin[0], end[1] - begin[1])
    x, y = (end[0] - begin[0]) / length, (end[1] - begin[1]) / length  # the direction
    tail = (begin[0] + _RADIUS * x, begin[1] + _RADIUS * y)
    tip = (end[0] - _RADIUS * x, end[1] - _RADIUS * y)
    back = (tip[0] - _HEAD * x, tip[1] - _HEAD * y)
    left = (back[0] - _HEAD / 2 * y, back[1] + _HEAD / 2 * x)
    right = (back[0] + _HEAD / 2 * y, back[1] - _HEAD / 2 * x)
    return [
        Line((tail, tip), stroke="soft", kind="arrow"),
        Line((left, tip, right), stroke="soft", kind="head"),
    ]


def _check_graph(
    variables: Mapping[str, Place],
    factors: Sequence[Sequence[str]],
    arrows: Sequence[tuple[str, str]],
    observed: Sequence[str],
) -> None:
    if not variables:
        raise InputError("variables is empty: at least one variable is needed")
    groups = [("factor", [*names]) for names in factors]
    groups += [("arrow", [*names]) for names in arrows] + [("observed", [*observed])]
    for kind, names in groups:
        for name in names:
            if name not in variables:
                raise InputError(f"{kind} {names}: {name!r} is not one of the variables")
        if kind == "factor" and not names:
            raise InputError("a factor has no variables")
        if kind == "arrow" and (len(names) != 2 or variables[names[0]] == variables[names[1]]):
            raise InputError(f"arrow {names}: must be two variables at different places")
