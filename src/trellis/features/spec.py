"""The features of a sequence: fields of its tokens, and templates that join them to attributes.

A token has columns (a ``str`` is one column). A *field* f is a function of the value of one column;
its kinds are in kinds.py. A *template* joins fields at relative positions to the name of one
attribute of position i:

    literals[0] + f₁(x[i + offset₁]) + literals[1] + f₂(x[i + offset₂]) + … + literals[n]

Templates with the same literals give the same attributes, as the bag of words of CRF++ does. A
field may have no value at a position; then the template adds no attribute there.

>>> spec = Spec(
...     fields=(Field(), Field(kind="suffix", size=2)),
...     templates=(
...         Template("bias", (), ("bias",)),
...         Template("w[-1]|s[0]", (Part(-1, 0), Part(0, 1)), ("w[-1]|s[0]=", "|", "")),
...     ),
... )
>>> Spec.from_json(spec.to_json()) == spec
True

At the last position of ``["New", "York"]`` its attributes are ``bias`` and ``w[-1]|s[0]=New|rk``;
at the first only ``bias``, because x[-1] is outside of the sequence and `outside` is None.
"""

import re
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

from trellis.errors import FormatError, InputError
from trellis.features.kinds import KINDS, ascii_lower

__all__ = ["KINDS", "ORIGINS", "Draft", "Field", "Gazetteer", "Part", "Spec", "Template"]

ORIGINS = ("here", "first", "last")
"""The origin of the offset of a part: position i, the first or the last position."""

_T = TypeVar("_T")
_MAX_INT32 = 2**31 - 1  # sizes, columns and offsets are int32 in the core


@dataclass(frozen=True)
class Field:
    """A function of one column's value.

    >>> Field(column=1), Field(kind="suffix", size=3), Field(kind="test", pattern="^[0-9]")
    ... # doctest: +NORMALIZE_WHITESPACE
    (Field(column=1, kind='value', size=0, pattern=''),
     Field(column=0, kind='suffix', size=3, pattern=''),
     Field(column=0, kind='test', size=0, pattern='^[0-9]'))
    """

    column: int = 0
    kind: str = "value"
    size: int = 0
    """The number of code points of a prefix or suffix, or the largest length; else 0."""
    pattern: str = ""
    """A regular expression of `re`, or the name of a gazetteer; empty for other kinds."""

    def __post_init__(self) -> None:
        _check_types(self, column=int, kind=str, size=int, pattern=str)
        if self.kind not in KINDS:
            raise InputError(f"there is no kind of field {self.kind!r}; kinds: {', '.join(KINDS)}")
        kind, name = KINDS[self.kind], f"a field of kind {self.kind!r}"
        if not 0 <= self.column <= _MAX_INT32:
            raise InputError(f"{name}: column must be 0 to {_MAX_INT32}, got {self.column}")
        if kind.positional and self.column:
            raise InputError(f"{name} reads no column, got column={self.column}")
        if kind.sized and not 1 <= self.size <= _MAX_INT32:
            raise InputError(f"{name}: size must be 1 to {_MAX_INT32}, got {self.size}")
        if not kind.sized and self.size:
            raise InputError(f"{name} has no size, got {self.size}")
        if not (kind.regular or kind.named) and self.pattern:
            raise InputError(f"{name} has no pattern, got {self.pattern!r}")
        if kind.regular:
            self.regex  # noqa: B018  raise for a wrong expression now, not at the first token

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The regular expression of the kinds that have one."""
        try:
            return re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise InputError(f"not a regular expression: {self.pattern!r}: {error}") from None

    def match(self, value: str) -> str:
        """The value of a field with a regular expression.

        >>> Field(kind="match", pattern="[0-9]+").match("A380-800")
        '380'
        >>> Field(kind="test", pattern="^[0-9]+$").match("A380-800")
        'false'
        """
        match = self.regex.search(value)
        if self.kind == "test":
            return "true" if match else "false"
        text = match.group() if match else ""
        return ascii_lower(text) if self.kind == "ascii_lower_match" else text


@dataclass(frozen=True)
class Part:
    """One field at one position: i + offset, or counted from the first or the last position."""

    offset: int
    field: int
    """Index into `Spec.fields`."""
    origin: str = "here"

    def __post_init__(self) -> None:
        _check_types(self, offset=int, field=int, origin=str)
        if self.origin not in ORIGINS:
            raise InputError(f"a part's origin must be one of {ORIGINS}, got {self.origin!r}")
        if abs(self.offset) > _MAX_INT32:
            raise InputError(f"a part's offset must be within ±{_MAX_INT32}, got {self.offset}")


@dataclass(frozen=True)
class Template:
    """One attribute per position: `literals` around the values of `parts`.

    A template without parts adds its attribute at every position. With ``edge=True`` it is an
    attribute of the transition into position i ≥ 1: φ(x, i, y', y).
    """

    name: str
    parts: tuple[Part, ...]
    literals: tuple[str, ...]
    edge: bool = False

    def __post_init__(self) -> None:
        _check_types(self, name=str, parts=tuple, literals=tuple, edge=bool)
        _check_items(f"parts of template {self.name!r}", self.parts, Part)
        _check_items(f"literals of template {self.name!r}", self.literals, str)
        if len(self.literals) != len(self.parts) + 1:
            raise InputError(
                f"template {self.name!r} has {len(self.parts)} parts and {len(self.literals)} "
                "literals; there must be one literal more than parts"
            )


@dataclass(frozen=True)
class Gazetteer:
    """Phrases to look up: from left to right, the longest phrase that starts at a token wins.

    >>> Gazetteer("city", (("paris",), ("new", "york")))
    Gazetteer(name='city', phrases=(('paris',), ('new', 'york')), lower=True)
    """

    name: str
    phrases: tuple[tuple[str, ...], ...]
    lower: bool = True
    """True to compare phrases and tokens in lower case."""

    def __post_init__(self) -> None:
        _check_types(self, name=str, phrases=tuple, lower=bool)
        _check_items(f"phrases of gazetteer {self.name!r}", self.phrases, tuple)
        for phrase in self.phrases:
            _check_items(f"phrase {phrase} of gazetteer {self.name!r}", phrase, str)
            if not phrase:
                raise InputError(f"gazetteer {self.name!r} has an empty phrase")


@dataclass(frozen=True)
class Spec:
    """All fields and templates of a feature extractor. A template that occurs twice is kept once.

    `outside` has the values of all columns outside of the sequence: at distance 1, 2, … before its
    start, and after its end. The last value is also used at larger distances. Fields are applied to
    these values like to any other (but first, last and gazetteer have no value there). With None, a
    template with a part outside of the sequence adds no attribute.
    """

    fields: tuple[Field, ...]
    templates: tuple[Template, ...]
    outside: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    gazetteers: tuple[Gazetteer, ...] = ()

    def __post_init__(self) -> None:
        _check_types(self, fields=tuple, templates=tuple, gazetteers=tuple)
        _check_items("fields", self.fields, Field)
        _check_items("templates", self.templates, Template)
        _check_items("gazetteers", self.gazetteers, Gazetteer)
        self._check_outside()
        self._check_references()
        distinct: dict[Any, Template] = {}
        for t in self.templates:
            distinct.setdefault((t.parts, t.literals, t.edge), t)
        object.__setattr__(self, "templates", tuple(distinct.values()))

    def _check_outside(self) -> None:
        if self.outside is None:
            return
        if not isinstance(self.outside, tuple) or len(self.outside) != 2:
            raise InputError(f"outside must be None or (before, after), got {self.outside!r}")
        for side, values in zip(("before", "after"), self.outside, strict=True):
            if not isinstance(values, tuple) or not values:
                raise InputError(f"outside: the values {side} must be a tuple of at least one str")
            _check_items(f"outside values {side}", values, str)

    def _check_references(self) -> None:
        for template in self.templates:
            for part in template.parts:
                if not 0 <= part.field < len(self.fields):
                    raise InputError(
                        f"template {template.name!r} refers to field {part.field}; "
                        f"there are {len(self.fields)}"
                    )
        names = {g.name for g in self.gazetteers}
        if len(names) < len(self.gazetteers):
            raise InputError(f"two of {len(self.gazetteers)} gazetteers have the same name")
        for f in self.fields:
            if f.kind == "gazetteer" and f.pattern not in names:
                raise InputError(f"there is no gazetteer {f.pattern!r}; there are {sorted(names)}")

    @property
    def columns(self) -> int:
        """The smallest number of columns that tokens must have."""
        return 1 + max((f.column for f in self.fields), default=0)

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON values, for `from_json`; defaults are omitted."""
        out: dict[str, Any] = {
            "fields": [_as_dict(f) for f in self.fields],
            "templates": [
                _as_dict(t) | {"parts": [_as_dict(p) for p in t.parts], "literals": [*t.literals]}
                for t in self.templates
            ],
        }
        if self.outside is not None:
            out["outside"] = [[*values] for values in self.outside]
        if self.gazetteers:
            out["gazetteers"] = [
                _as_dict(g) | {"phrases": [[*phrase] for phrase in g.phrases]}
                for g in self.gazetteers
            ]
        return out

    @staticmethod
    def from_json(data: object) -> "Spec":
        """The spec that `to_json` wrote; FormatError if `data` is anything else.

        >>> Spec.from_json({"fields": [{"kind": "value"}], "templates": [{"name": "w"}]})
        Traceback (most recent call last):
        trellis.errors.FormatError: features: templates[0]: there is no 'parts'
        """
        return _build(Spec, "features", data)


@dataclass
class Draft:
    """A builder for a spec: templates are added with the fields they need.

    >>> draft = Draft()
    >>> draft.add("w[0]|p[0]", [(0, Field()), (0, Field(column=1))], ("w[0]|p[0]=", "|", ""))
    >>> draft.add("w[1]", [(1, Field())], ("w[1]=", ""))
    >>> len(draft.spec().fields)
    2
    """

    fields: dict[Field, int] = field(default_factory=dict)
    templates: list[Template] = field(default_factory=list)

    def add(
        self,
        name: str,
        parts: Iterable[tuple[int, Field] | tuple[int, Field, str]],
        literals: Iterable[str],
        edge: bool = False,
    ) -> None:
        """Add a template; each part is (offset, field) or (offset, field, origin)."""
        indexed = [
            Part(offset, self.fields.setdefault(f, len(self.fields)), *origin)
            for offset, f, *origin in parts
        ]
        self.templates.append(Template(name, tuple(indexed), tuple(literals), edge))

    def spec(
        self,
        outside: tuple[tuple[str, ...], tuple[str, ...]] | None = None,
        gazetteers: Iterable[Gazetteer] = (),
    ) -> Spec:
        """The spec of all templates added so far."""
        return Spec(tuple(self.fields), tuple(self.templates), outside, tuple(gazetteers))


def _check_types(of: object, **types: type) -> None:
    for name, kind in types.items():
        value = getattr(of, name)
        # bool is a subclass of int, but True is never meant as an offset.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InputError(f"{type(of).__name__}: {name} must be {kind.__name__}, got {value!r}")


def _check_items(name: str, values: tuple[Any, ...], kind: type) -> None:
    for n, value in enumerate(values):
        if not isinstance(value, kind):
            raise InputError(f"{name}: item {n} must be {kind.__name__}, got {value!r}")


def _as_dict(value: Any) -> dict[str, Any]:
    names = [(f.name, f.default) for f in fields(value)]
    return {n: getattr(value, n) for n, default in names if getattr(value, n) != default}


def _build(cls: type[_T], where: str, data: object) -> _T:
    """cls(**data), after a check of the keys; lists become tuples."""
    if not isinstance(data, dict):
        raise FormatError(f"{where}: expected an object, got {data!r:.80}")
    required = _REQUIRED[cls]
    for key in data:
        if key not in required:
            raise FormatError(f"{where}: unknown key {key!r:.80}")
    for name in required:
        if required[name] and name not in data:
            raise FormatError(f"{where}: there is no {name!r}")
    arguments = {
        key: _build_all(_NESTED[cls, key], f"{where}: {key}", value)
        if (cls, key) in _NESTED
        else _tuples(value, depth=2)
        for key, value in data.items()
    }
    try:
        return cls(**arguments)
    except InputError as error:
        raise FormatError(f"{where}: {error}") from None


def _build_all(cls: type[_T], where: str, data: object) -> tuple[_T, ...]:
    if not isinstance(data, list):
        raise FormatError(f"{where}: expected a list, got {data!r:.80}")
    return tuple(_build(cls, f"{where}[{n}]", item) for n, item in enumerate(data))


def _tuples(value: Any, depth: int) -> Any:
    """Lists, and the lists in them, as tuples."""
    if depth and isinstance(value, list):
        return tuple(_tuples(item, depth - 1) for item in value)
    return value


_REQUIRED: dict[type, dict[str, bool]] = {
    cls: {f.name: f.default is MISSING for f in fields(cls)}
    for cls in (Spec, Field, Template, Part, Gazetteer)
}
_NESTED: dict[tuple[type, str], type] = {
    (Spec, "fields"): Field,
    (Spec, "templates"): Template,
    (Spec, "gazetteers"): Gazetteer,
    (Template, "parts"): Part,
}
