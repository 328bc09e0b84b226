"""Specification of features: fields of tokens, and templates that join fields to attributes.

A token has columns; a ``str`` has one. A *field* f is a function of the value of one column;
its kinds are in kinds.py. A *template* joins fields at relative positions to the name of one
attribute of position i:

    literals[0] + f₁(x[i + offset₁]) + literals[1] + f₂(x[i + offset₂]) + … + literals[n]

Templates with the same literals share their attributes, as in CRF++, which uses this for a bag of
words. If a field has no value at a position, the template adds no attribute there.

>>> spec = Spec(
...     fields=(Field(), Field(kind="suffix", size=2)),
...     templates=(
...         Template("bias", (), ("bias",)),
...         Template("w[-1]|s[0]", (Part(-1, 0), Part(0, 1)), ("w[-1]|s[0]=", "|", "")),
...     ),
... )
>>> Spec.from_json(spec.to_json()) == spec
True

The last position of ``["New", "York"]`` has the attributes ``bias`` and ``w[-1]|s[0]=New|rk``. The
first position has only ``bias``, because x[-1] is outside of the sequence and `outside` is None.
"""

import re
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

from trellis.errors import FormatError, InputError
from trellis.features.kinds import KINDS, ascii_lower
from trellis.features.linear_regex import LinearRegex
from trellis.features.lists import Clusters, Gazetteer, check_items, check_types

__all__ = [
    "KINDS",
    "ORIGINS",
    "Clusters",
    "Draft",
    "Field",
    "Gazetteer",
    "Part",
    "Spec",
    "Template",
]

ORIGINS = ("here", "first", "last")
"""The position from which an offset counts: position i, the first or the last position."""

_T = TypeVar("_T")
# `re` is faster than `LinearRegex`, but can take exponential time. So it is used only for short
# values and patterns in which at most one operator (`_CHOICE`: * + ? {…} |) lets it choose between
# ways to match. Then it takes at most 64² steps for each character of the pattern.
_SHORT_VALUE = 64
_CHOICE = re.compile(r"[*+?{|]\??")
_MAX_INT32 = 2**31 - 1  # sizes and offsets are int32 in the core
_MAX_COLUMN = 2**16 - 1  # the core has a list per column, so a large number would fill the memory


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
    """Number of code points of a prefix or suffix, or the maximum of a length. Else 0."""
    pattern: str = ""
    """A regular expression of `re`, or the name of a gazetteer or of clusters. For other kinds of
    fields, it is empty."""

    def __post_init__(self) -> None:
        check_types(self, column=int, kind=str, size=int, pattern=str)
        if self.kind not in KINDS:
            raise InputError(f"kind is {self.kind!r}: must be one of {', '.join(KINDS)}")
        kind, name = KINDS[self.kind], f"a field of kind {self.kind!r}"
        if not 0 <= self.column <= _MAX_COLUMN:
            raise InputError(f"{name}: column must be 0 to {_MAX_COLUMN}, got {self.column}")
        if kind.positional and self.column:
            raise InputError(f"{name} reads no column, got column={self.column}")
        if kind.sized and not 1 <= self.size <= _MAX_INT32:
            raise InputError(f"{name}: size must be 1 to {_MAX_INT32}, got {self.size}")
        if not kind.sized and self.size:
            raise InputError(f"{name} has no size, got {self.size}")
        if not (kind.regular or kind.named) and self.pattern:
            raise InputError(f"{name} has no pattern, got {self.pattern!r}")
        if kind.regular:
            self.regex  # noqa: B018  raises for an invalid expression

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The regular expression of the kinds that have one."""
        try:
            return re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise InputError(
                f"pattern {self.pattern!r:.60} is not a regular expression: {error}"
            ) from None

    def match(self, value: str) -> str:
        """Return the value of a field with a regular expression.

        >>> Field(kind="match", pattern="[0-9]+").match("A380-800")
        '380'
        >>> Field(kind="test", pattern="^[0-9]+$").match("A380-800")
        'false'
        """
        span = self._find(value)
        if self.kind == "test":
            return "true" if span else "false"
        text = value[slice(*span)] if span else ""
        return ascii_lower(text) if self.kind == "ascii_lower_match" else text

    def check_linear(self) -> None:
        """Raise InputError if the expression cannot be matched in linear time: see `LinearRegex`.

        An expression in a model file must have this property, because the file may come from a
        stranger. An expression of the user need not: `re` then matches it.
        """
        if KINDS[self.kind].regular:
            LinearRegex(self.pattern)

    @cached_property
    def _linear(self) -> LinearRegex | None:
        try:
            return LinearRegex(self.pattern)
        except InputError:
            return None

    def _find(self, value: str) -> tuple[int, int] | None:
        """Return (begin, end) of the first match in a value, or None."""
        if (len(value) <= _SHORT_VALUE and self._is_simple) or self._linear is None:
            match = self.regex.search(value)
            return None if match is None else match.span()
        return self._linear.search(value)

    @cached_property
    def _is_simple(self) -> bool:
        """True if `re` has to choose between ways to match in at most one place of the pattern."""
        return len(_CHOICE.findall(self.pattern.replace("(?", "("))) <= 1


@dataclass(frozen=True)
class Part:
    """One field at one position: origin + offset, where the origin is one of `ORIGINS`."""

    offset: int
    field: int
    """Index into `Spec.fields`."""
    origin: str = "here"

    def __post_init__(self) -> None:
        check_types(self, offset=int, field=int, origin=str)
        if self.origin not in ORIGINS:
            raise InputError(f"a part's origin must be one of {ORIGINS}, got {self.origin!r}")
        if abs(self.offset) > _MAX_INT32:
            raise InputError(f"a part's offset must be within ±{_MAX_INT32}, got {self.offset}")


@dataclass(frozen=True)
class Template:
    """A template of one attribute per position: `literals` around the values of `parts`.

    A template without parts adds its attribute at every position. With ``edge=True`` the attribute
    belongs to the transition into position i ≥ 1: φ(x, i, y', y).
    """

    name: str
    parts: tuple[Part, ...]
    literals: tuple[str, ...]
    edge: bool = False

    def __post_init__(self) -> None:
        check_types(self, name=str, parts=tuple, literals=tuple, edge=bool)
        check_items(f"parts of template {self.name!r}", self.parts, Part)
        check_items(f"literals of template {self.name!r}", self.literals, str)
        if len(self.literals) != len(self.parts) + 1:
            raise InputError(
                f"template {self.name!r} has {len(self.parts)} parts and {len(self.literals)} "
                "literals; it must have one literal more than parts"
            )


@dataclass(frozen=True)
class Spec:
    """All fields and templates of a feature extractor. A template that occurs twice is kept once.

    `outside` is (before, after): the values of every column at distance 1, 2, … before the first
    and after the last position. The last value is also used at larger distances. Fields are applied
    to these values as to other values, but fields of the kinds first, last and gazetteer have no
    value there. If `outside` is None, a template with a part outside of the sequence adds no
    attribute.
    """

    fields: tuple[Field, ...]
    templates: tuple[Template, ...]
    outside: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    gazetteers: tuple[Gazetteer, ...] = ()
    clusters: tuple[Clusters, ...] = ()

    def __post_init__(self) -> None:
        check_types(self, fields=tuple, templates=tuple, gazetteers=tuple, clusters=tuple)
        check_items("fields", self.fields, Field)
        check_items("templates", self.templates, Template)
        check_items("gazetteers", self.gazetteers, Gazetteer)
        check_items("clusters", self.clusters, Clusters)
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
            check_items(f"outside values {side}", values, str)

    def _check_references(self) -> None:
        for template in self.templates:
            for part in template.parts:
                if not 0 <= part.field < len(self.fields):
                    raise InputError(
                        f"template {template.name!r} refers to field {part.field}, but there are "
                        f"{len(self.fields)} fields"
                    )
        self._check_names("gazetteer", "gazetteers", self.gazetteers)
        self._check_names("cluster", "clusters", self.clusters)

    def _check_names(self, kind: str, title: str, tables: Iterable[Gazetteer | Clusters]) -> None:
        """Raise InputError if a field refers to no table, or if two tables have the same name.

        Only fields of this kind and of the kind "…_prefix" are checked.
        """
        names = [table.name for table in tables]
        if len({*names}) < len(names):
            raise InputError(f"two of {len(names)} {title} have the same name")
        for token_field in self.fields:
            is_of_kind = token_field.kind.removesuffix("_prefix") == kind
            if is_of_kind and token_field.pattern not in names:
                name = token_field.pattern
                raise InputError(
                    f"a field refers to {kind} {name!r}: must be one of {sorted(names)}"
                )

    @property
    def columns(self) -> int:
        """The smallest number of columns that tokens must have."""
        return 1 + max((token_field.column for token_field in self.fields), default=0)

    def to_json(self) -> dict[str, Any]:
        """Return the spec as JSON values for `from_json`; defaults are omitted."""
        data: dict[str, Any] = {
            "fields": [_as_dict(token_field) for token_field in self.fields],
            "templates": [
                _as_dict(template)
                | {
                    "parts": [_as_dict(part) for part in template.parts],
                    "literals": [*template.literals],
                }
                for template in self.templates
            ],
        }
        if self.outside is not None:
            data["outside"] = [[*values] for values in self.outside]
        if self.gazetteers:
            data["gazetteers"] = [
                _as_dict(gazetteer) | {"phrases": [[*phrase] for phrase in gazetteer.phrases]}
                for gazetteer in self.gazetteers
            ]
        if self.clusters:
            data["clusters"] = [
                {
                    "name": table.name,
                    "words": [*table.words],
                    "clusters": [*table.clusters],
                }
                for table in self.clusters
            ]
        return data

    @staticmethod
    def from_json(data: object) -> "Spec":
        """Return the spec that `to_json` wrote; raise FormatError if `data` is invalid.

        >>> Spec.from_json({"fields": [{"kind": "value"}], "templates": [{"name": "w"}]})
        Traceback (most recent call last):
        trellis.errors.FormatError: features: templates[0]: key 'parts' is missing
        """
        return _build(Spec, "features", data)


@dataclass
class Draft:
    """Builds a spec: templates are added together with the fields that they need.

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
        indexed_parts = [
            Part(offset, self.fields.setdefault(token_field, len(self.fields)), *origin)
            for offset, token_field, *origin in parts
        ]
        self.templates.append(Template(name, tuple(indexed_parts), tuple(literals), edge))

    def spec(
        self,
        outside: tuple[tuple[str, ...], tuple[str, ...]] | None = None,
        gazetteers: Iterable[Gazetteer] = (),
        clusters: Iterable[Clusters] = (),
    ) -> Spec:
        """Return the spec of all templates that were added."""
        lists = tuple(gazetteers), tuple(clusters)
        return Spec(tuple(self.fields), tuple(self.templates), outside, *lists)


def _as_dict(value: Any) -> dict[str, Any]:
    defaults = {attribute.name: attribute.default for attribute in fields(value)}
    values = {name: getattr(value, name) for name in defaults}
    return {name: item for name, item in values.items() if item != defaults[name]}


def _build(cls: type[_T], where: str, data: object) -> _T:
    """Return cls(**data), with lists as tuples; raise FormatError if the keys are wrong."""
    if not isinstance(data, dict):
        raise FormatError(f"{where}: expected an object, got {data!r:.80}")
    required_names = _REQUIRED[cls]
    for key in data:
        if key not in required_names:
            raise FormatError(f"{where}: unknown key {key!r:.80}")
    for name in required_names:
        if required_names[name] and name not in data:
            raise FormatError(f"{where}: key {name!r} is missing")
    arguments = {
        key: _build_all(_NESTED[cls, key], f"{where}: {key}", value)
        if (cls, key) in _NESTED
        else _to_tuples(value, depth=2)
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


def _to_tuples(value: Any, depth: int) -> Any:
    """Convert a list, and lists in it up to ``depth``, to tuples."""
    if depth and isinstance(value, list):
        return tuple(_to_tuples(item, depth - 1) for item in value)
    return value


_REQUIRED: dict[type, dict[str, bool]] = {
    cls: {f.name: f.default is MISSING for f in fields(cls)}
    for cls in (Spec, Field, Template, Part, Gazetteer, Clusters)
}
_NESTED: dict[tuple[type, str], type] = {
    (Spec, "fields"): Field,
    (Spec, "templates"): Template,
    (Spec, "gazetteers"): Gazetteer,
    (Spec, "clusters"): Clusters,
    (Template, "parts"): Part,
}
