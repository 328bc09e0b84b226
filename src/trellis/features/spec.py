"""What is read off a sequence: fields of its tokens, and templates that join them to attributes.

A token has columns (a ``str`` is one column). A *field* f is a function of one column's value; a
*template* joins fields at relative positions to the name of one attribute of position i:

    literals[0] + f₁(x[i + offset₁]) + literals[1] + f₂(x[i + offset₂]) + … + literals[n]

Templates with the same literals give the same attributes, as the bag of words of CRF++ does. A
field may have no value at a position; then the template does not fire there.

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
at the first only ``bias``, for x[-1] lies outside and `outside` is None.
"""

import re
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

from trellis.errors import FormatError, InputError

__all__ = ["KINDS", "ORIGINS", "Draft", "Field", "Gazetteer", "Part", "Spec", "Template"]

KINDS = {
    "value": "the value itself",
    "lower": "in lower case, as str.lower",
    "ascii_lower": "with only A-Z in lower case, as C programs do it",
    "shape": "each upper-case letter as X, lower-case as x, decimal digit as d, others as they are",
    "short_shape": "the shape with each run of one character cut to one",
    "prefix": "the first `size` code points; none if there are fewer",
    "suffix": "the last `size` code points; none if there are fewer",
    "lower_prefix": "the prefix of the value in lower case",
    "lower_suffix": "the suffix of the value in lower case",
    "digits": "'all' or 'some' of the code points are decimal digits; none if there is no digit",
    "case": "the cased letters are all 'upper', all 'lower', 'title' (upper, then all lower) "
    "or 'mixed'; none if there is no cased letter",
    "alnum": "all letters: 'alpha'; all decimal digits: 'digit'; only these two: 'alnum'; none of "
    "these: 'punct'; else 'other'; none for the empty value",
    "length": "the number of code points, `size` if there are more",
    "test": "'true' if the regular expression `pattern` is found in the value, else 'false'",
    "match": "the first match of the regular expression `pattern`, '' if there is no match",
    "ascii_lower_match": "the match with A-Z in lower case",
    "first": "'' at the first position (the template's name says it all), none elsewhere",
    "last": "'' at the last position, none elsewhere",
    "gazetteer": "'B' on the first and 'I' on the other tokens of a phrase of the gazetteer "
    "named `pattern`, none elsewhere",
}
"""What each kind of field makes of a value. Upper, lower, letter and decimal digit are those of
str.isupper, str.islower, str.isalpha and str.isdecimal of one code point."""

_SIZED = frozenset({"prefix", "suffix", "lower_prefix", "lower_suffix", "length"})
_REGULAR = frozenset({"test", "match", "ascii_lower_match"})
_PATTERNED = _REGULAR | {"gazetteer"}
_POSITIONAL = frozenset({"first", "last"})

ORIGINS = ("here", "first", "last")
"""Where the offset of a part counts from: position i, the first or the last position."""

_T = TypeVar("_T")
_MOST = 2**31 - 1  # sizes, columns and offsets are int32 in the core


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
    """Code points of a prefix, a suffix, or of the greatest length; 0 for other kinds."""
    pattern: str = ""
    """A regular expression of `re`, or a gazetteer's name; empty for other kinds."""

    def __post_init__(self) -> None:
        _check_types(self, column=int, kind=str, size=int, pattern=str)
        if self.kind not in KINDS:
            raise InputError(f"there is no kind of field {self.kind!r}; kinds: {', '.join(KINDS)}")
        what = f"a field of kind {self.kind!r}"
        if not 0 <= self.column <= _MOST:
            raise InputError(f"{what}: column must be 0 to {_MOST}, got {self.column}")
        if self.kind in _POSITIONAL and self.column:
            raise InputError(f"{what} reads no column, got column={self.column}")
        if self.kind in _SIZED and not 1 <= self.size <= _MOST:
            raise InputError(f"{what}: size must be 1 to {_MOST}, got {self.size}")
        if self.kind not in _SIZED and self.size:
            raise InputError(f"{what} has no size, got {self.size}")
        if self.kind not in _PATTERNED and self.pattern:
            raise InputError(f"{what} has no pattern, got {self.pattern!r}")
        if self.kind in _REGULAR:
            self.regex  # noqa: B018  a wrong expression is found here, not at the first token

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The regular expression of the kinds that have one."""
        try:
            return re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise InputError(f"not a regular expression: {self.pattern!r}: {error}") from None

    def match(self, value: str) -> str:
        """What a field with a regular expression makes of a value.

        >>> Field(kind="match", pattern="[0-9]+").match("A380-800")
        '380'
        >>> Field(kind="test", pattern="^[0-9]+$").match("A380-800")
        'false'
        """
        found = self.regex.search(value)
        if self.kind == "test":
            return "true" if found else "false"
        text = found.group() if found else ""
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
        if abs(self.offset) > _MOST:
            raise InputError(f"a part's offset must be within ±{_MOST}, got {self.offset}")


@dataclass(frozen=True)
class Template:
    """One attribute a position: `literals` around the values of `parts`; no parts: it always fires.

    With ``edge=True`` it is an attribute of the transition into position i ≥ 1: φ(x, i, y', y).
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
    """Whether phrases and tokens are compared in lower case."""

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

    `outside` says what a column holds outside the sequence: the values at distance 1, 2, … before
    it and after it, the last of them also further away. Fields are applied to these as to any value
    (but first, last and gazetteer have none there). None: a part outside keeps a template from
    firing.
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
        kept: dict[Any, Template] = {}
        for t in self.templates:
            kept.setdefault((t.parts, t.literals, t.edge), t)
        object.__setattr__(self, "templates", tuple(kept.values()))

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
        """How many columns a token must have at least."""
        return 1 + max((f.column for f in self.fields), default=0)

    def to_json(self) -> dict[str, Any]:
        """Lists, dicts, str, int, bool and None that `from_json` reads; defaults are left out."""
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
    """A spec in the making: templates are added with the fields they need.

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
        """One template more; each part is (offset, field) or (offset, field, origin)."""
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
        """What was added so far."""
        return Spec(tuple(self.fields), tuple(self.templates), outside, tuple(gazetteers))


def ascii_lower(text: str) -> str:
    """A-Z in lower case, all else as it is: ``"NOËL"`` becomes ``"noËl"``."""
    return text.translate(_ASCII_LOWER)


_ASCII_LOWER = {ord(c): ord(c.lower()) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def _check_types(of: object, **types: type) -> None:
    for name, kind in types.items():
        value = getattr(of, name)
        # bool is an int in Python, but no one means True as an offset
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InputError(f"{type(of).__name__}: {name} must be {kind.__name__}, got {value!r}")


def _check_items(what: str, values: tuple[Any, ...], kind: type) -> None:
    for n, value in enumerate(values):
        if not isinstance(value, kind):
            raise InputError(f"{what}: item {n} must be {kind.__name__}, got {value!r}")


def _as_dict(value: Any) -> dict[str, Any]:
    names = [(f.name, f.default) for f in fields(value)]
    return {n: getattr(value, n) for n, default in names if getattr(value, n) != default}


def _build(cls: type[_T], where: str, data: object) -> _T:
    """The object whose arguments `data` holds; its lists become tuples."""
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
