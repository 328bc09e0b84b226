"""Attributes of ``str`` tokens and of tuples of columns, by templates, in the native core.

>>> from trellis.features.window import named
>>> features = TemplateFeatures(named(["w[0]", "lower[-1]|suffix2[0]"]))
>>> batch = features.learn([["New", "York"]])
>>> features.names()
['w[0]=New', 'w[0]=York', 'lower[-1]|suffix2[0]=new|rk']
>>> features.find([["new", "York"]]).rows.id.tolist()  # "new" was never seen
[1, 2]
"""

from collections.abc import Mapping
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.features.rows import Batch, SparseRows, lengths_of
from trellis.features.spec import ORIGINS, Field, Spec, ascii_lower

__all__ = ["TemplateFeatures", "derive"]

_BY_PYTHON = frozenset({"test", "match", "ascii_lower_match"})
_NONE = 0xFFFFFFFF  # kNone in cpp/core/base/tables.hpp


class TemplateFeatures:
    """The attributes that a `Spec` reads off sequences, numbered in the order they are met."""

    kind = "templates"

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._fields = list(spec.fields)
        self._literals = list(dict.fromkeys(t.literals for t in spec.templates))
        self._core = self._new_core()

    def learn(self, X: Any) -> Batch:
        """The attributes of all positions; new ones get the next numbers."""
        return self._batch(X, lambda: self._core.learn(X))

    def find(self, X: Any, threads: int = 1) -> Batch:
        """The known attributes of all positions."""
        return self._batch(X, lambda: self._core.extract(X, threads))

    def __len__(self) -> int:
        return self._core.attributes

    @property
    def edges(self) -> int:
        """How many attributes of transitions there are."""
        return self._core.edge_attributes

    @property
    def has_edges(self) -> bool:
        """Whether any template is one of transitions, other than the plain label bigram."""
        return any(t.edge and t.parts for t in self.spec.templates)

    @property
    def literals(self) -> list[tuple[str, ...]]:
        """The text around the values of templates: a key begins with a number of these."""
        return self._literals

    @property
    def values(self) -> list[str]:
        """All values that fields have made, by number; the first are those outside a sequence."""
        return self._strings(raw=False)

    @property
    def key_size(self) -> int:
        """How many numbers a key has: the literals, and as many values as a template has parts."""
        return self._core.key_size

    def names(self, edge: bool = False) -> list[str]:
        """What each attribute is called."""
        values = self._strings(raw=False)
        keys = self._core.keys(edge).reshape(-1, self._core.key_size)
        names = []
        for head, *parts in keys.tolist():
            first, *literals = self._literals[head]
            names.append(
                first + "".join(values[v] + text for v, text in zip(parts, literals, strict=False))
            )
        return names

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Forget all attributes but these, which are numbered anew from 0."""
        size = self._core.key_size
        keys = self._core.keys(False).reshape(-1, size)[ids]
        edge_keys = self._core.keys(True).reshape(-1, size)[edge_ids]
        values, raw = self._strings(raw=False), self._strings(raw=True)
        self._core = self._new_core()
        self._core.restore(values, raw, keys.reshape(-1), edge_keys.reshape(-1))

    def add_names(self, packed: Any, which: NDArray[np.int64], edge: bool) -> NDArray[np.int64]:
        """Attributes for names that another program knows them by: see `trellis.features.names`.

        ``packed`` is (data, begin, size) in UTF-8. Gives which name each new attribute is of.
        """
        own = dict.fromkeys(t.literals for t in self.spec.templates if t.edge == edge)
        numbers = [n for n, literals in enumerate(self._literals) if literals in own]
        literals = [list(texts) for texts in self._literals]
        try:
            data, begin, size = packed
            return self._core.add_names(data, begin, size, which, literals, numbers, edge)
        except ValueError as error:
            raise InputError(str(error)) from None

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings and arrays that `from_parts` makes an equal extractor of."""
        tensors: dict[str, NDArray[Any]] = {
            "keys": self._core.keys(False),
            "edge_keys": self._core.keys(True),
        }
        for name, raw in (("values", False), ("words", True)):
            data, ends = self._core.strings(raw)
            tensors |= {f"{name}.bytes": data.view(np.uint8), f"{name}.ends": ends}
        return {"spec": self.spec.to_json()}, tensors

    @classmethod
    def from_parts(
        cls, meta: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], strings: Any
    ) -> "TemplateFeatures":
        """`strings(name)` gives the checked list of strings that is stored under a name."""
        features = cls(Spec.from_json(meta.get("spec")))
        keys, edge_keys = (
            np.ascontiguousarray(tensors[n], np.uint32) for n in ("keys", "edge_keys")
        )
        try:
            features._core.restore(strings("values"), strings("words"), keys, edge_keys)
        except ValueError as error:
            raise InputError(str(error)) from None
        features._check_keys()
        return features

    def _check_keys(self) -> None:
        """Each key has as many values as its template has parts."""
        parts = np.array([len(literals) - 1 for literals in self._literals], dtype=np.int64)
        for edge in (False, True):
            keys = self._core.keys(edge).reshape(-1, self._core.key_size)
            if len(keys) and int(keys[:, 0].max()) >= len(parts):
                raise InputError("keys: no such template")
            wanted = np.arange(self._core.key_size - 1) < parts[keys[:, 0]][:, None]
            if not np.array_equal(keys[:, 1:] != _NONE, wanted):
                raise InputError("keys: one has more or fewer values than its template")

    def __getstate__(self) -> dict[str, Any]:
        meta, tensors = self.to_parts()
        names = {n: self._strings(raw=n == "words") for n in ("values", "words")}
        return {"meta": meta, "tensors": tensors, "strings": names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        other = self.from_parts(state["meta"], state["tensors"], state["strings"].__getitem__)
        self.__dict__ = other.__dict__

    def _new_core(self) -> _core.Extractor:
        fields = list(self._fields)
        gazetteers = []
        for g in self.spec.gazetteers:
            for n, f in enumerate(self.spec.fields):
                if f.kind == "gazetteer" and f.pattern == g.name:
                    text = Field(f.column, "lower" if g.lower else "value")
                    if text not in fields:
                        fields.append(text)
                    phrases = [[w.lower() if g.lower else w for w in p] for p in g.phrases]
                    gazetteers.append((n, fields.index(text), phrases))
        self._fields = fields
        number = {literals: n for n, literals in enumerate(self._literals)}
        try:
            return self._make_core(fields, number, gazetteers)
        except (TypeError, UnicodeError):  # nanobind cannot pass a str with lone surrogates
            raise InputError("the spec has text with lone surrogates") from None

    def _make_core(
        self, fields: list[Field], number: dict[Any, int], gazetteers: Any
    ) -> _core.Extractor:
        return _core.Extractor(
            [(f.column, "python" if f.kind in _BY_PYTHON else f.kind, f.size) for f in fields],
            [
                (
                    number[t.literals],
                    t.edge,
                    [(p.offset, p.field, ORIGINS.index(p.origin)) for p in t.parts],
                )
                for t in self.spec.templates
                if not (
                    t.edge and not t.parts
                )  # the label bigram itself: it has weights of its own
            ],
            None if self.spec.outside is None else tuple(map(list, self.spec.outside)),
            gazetteers,
            "",
            lambda n, text: derive(fields[n], text),
        )

    def _batch(self, X: Any, run: Any) -> Batch:
        try:
            rows, edges = run()
        except InputError:  # it names the sequence
            raise
        except ValueError as error:
            raise InputError(str(error)) from None
        return Batch(
            lengths_of(X), SparseRows(*rows), SparseRows(*edges) if self.has_edges else None
        )

    def _strings(self, raw: bool) -> list[str]:
        data, ends = self._core.strings(raw)
        text = data.tobytes()
        return [text[a:b].decode() for a, b in pairwise(ends)]


def derive(field: Field, value: str) -> str | None:
    """f(value), as `KINDS` says, for any Unicode; the core does ASCII by itself.

    >>> derive(Field(kind="shape"), "Ærø-7"), derive(Field(kind="suffix", size=2), "Ærø")
    ('Xxx-d', 'rø')
    """
    kind = field.kind
    if kind.startswith("lower_"):
        kind, value = kind.removeprefix("lower_"), value.lower()
    if kind in _BY_PYTHON:
        return field.match(value)
    if kind in ("prefix", "suffix"):
        part = value[: field.size] if kind == "prefix" else value[len(value) - field.size :]
        return part if len(value) >= field.size else None
    made: str | None = _WHOLE[kind](field, value)
    return made


def _shape(value: str) -> list[str]:
    return [
        "X" if c.isupper() else "x" if c.islower() else "d" if c.isdecimal() else c for c in value
    ]


def _digits(value: str) -> str | None:
    count = sum(map(str.isdecimal, value))
    return None if count == 0 else "all" if count == len(value) else "some"


def _case(value: str) -> str | None:
    upper = [c.isupper() for c in value if c.isupper() or c.islower()]
    if not upper:
        return None
    if all(upper):
        return "upper"
    if not any(upper):
        return "lower"
    return "title" if upper[0] and sum(upper) == 1 else "mixed"


def _alnum(value: str) -> str | None:
    letters, digits = sum(map(str.isalpha, value)), sum(map(str.isdecimal, value))
    if not value:
        return None
    if letters + digits == len(value):
        return "alpha" if not digits else "alnum" if letters else "digit"
    return "other" if letters + digits else "punct"


_WHOLE: dict[str, Any] = {
    "value": lambda _, value: value,
    "lower": lambda _, value: value.lower(),
    "ascii_lower": lambda _, value: ascii_lower(value),
    "shape": lambda _, value: "".join(_shape(value)),
    "short_shape": lambda _, value: "".join(c for c, _ in groupby(_shape(value))),
    "digits": lambda _, value: _digits(value),
    "case": lambda _, value: _case(value),
    "alnum": lambda _, value: _alnum(value),
    "length": lambda field, value: str(min(len(value), field.size)),
}
