"""Compute the attributes of tokens (``str``, or tuples of columns) from templates.

The native core does the work.

>>> from trellis.features.window import named
>>> features = TemplateFeatures(named(["w[0]", "lower[-1]|suffix2[0]"]))
>>> batch = features.learn([["New", "York"]])
>>> features.names()
['w[0]=New', 'w[0]=York', 'lower[-1]|suffix2[0]=new|rk']
>>> features.find([["new", "York"]]).rows.id.tolist()  # "new" was not learned
[1, 2]
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.features.kinds import KINDS
from trellis.features.rows import FeatureBatch, SparseRows, core_error, lengths_of
from trellis.features.spec import ORIGINS, Field, Spec

__all__ = ["TemplateFeatures", "derive"]

_NONE = 0xFFFFFFFF  # marks an unused element of a key: kNone in cpp/core/base


class TemplateFeatures:
    """Computes the attributes of sequences from the templates of a `Spec`.

    Attributes are numbered in the order of their first occurrence.
    """

    kind = "templates"

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._fields = list(spec.fields)
        self._literals = list(dict.fromkeys(t.literals for t in spec.templates))
        self._core = self._new_core()

    def learn(self, X: Any) -> FeatureBatch:
        """Learn the attributes of X, and return the attributes of each position.

        New attributes get the next free numbers.
        """
        return self._batch(X, lambda: self._core.learn(X))

    def find(self, X: Any, threads: int = 1) -> FeatureBatch:
        """Return the known attributes of each position."""
        return self._batch(X, lambda: self._core.extract(X, threads))

    def __len__(self) -> int:
        return self._core.attributes

    @property
    def edges(self) -> int:
        """The number of attributes of transitions."""
        return self._core.edge_attributes

    @property
    def has_edges(self) -> bool:
        """True if there are templates of transitions, not counting the label bigram."""
        return any(t.edge and t.parts for t in self.spec.templates)

    @property
    def literals(self) -> list[tuple[str, ...]]:
        """The distinct literals of the templates; a key starts with an index into this list."""
        return self._literals

    @property
    def values(self) -> list[str]:
        """All values of fields, by number. The values outside of a sequence come first."""
        return self._strings(raw=False)

    @property
    def key_size(self) -> int:
        """The length of a key: the index of the literals, then the value of each part."""
        return self._core.key_size

    def names(self, edge: bool = False) -> list[str]:
        """Return the name of each attribute."""
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
        """Remove all attributes except these, and renumber these from 0."""
        size = self._core.key_size
        keys = self._core.keys(False).reshape(-1, size)[ids]
        edge_keys = self._core.keys(True).reshape(-1, size)[edge_ids]
        values, raw = self._strings(raw=False), self._strings(raw=True)
        self._core = self._new_core()
        self._core.restore(values, raw, keys.reshape(-1), edge_keys.reshape(-1))

    def add_names(self, packed: Any, which: NDArray[np.int64], edge: bool) -> NDArray[np.int64]:
        """Add attributes by their names in another program; return the name index of each.

        ``packed`` is (data, begin, size) in UTF-8; see `trellis.features.names`.
        """
        used = {t.literals for t in self.spec.templates if t.edge == edge}
        numbers = [n for n, literals in enumerate(self._literals) if literals in used]
        literals = [list(texts) for texts in self._literals]
        try:
            data, begin, size = packed
            return self._core.add_names(data, begin, size, which, literals, numbers, edge)
        except ValueError as error:
            raise InputError(str(error)) from None

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return (meta, tensors), from which `from_parts` builds an equal extractor."""
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
    ) -> TemplateFeatures:
        """Build the extractor from its parts; `strings(name)` returns validated strings."""
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
        """Raise InputError unless each key has one value for each part of its template."""
        parts = np.array([len(literals) - 1 for literals in self._literals], dtype=np.int64)
        for edge in (False, True):
            keys = self._core.keys(edge).reshape(-1, self._core.key_size)
            if len(keys) and int(keys[:, 0].max()) >= len(parts):
                raise InputError("keys: a template index is out of range")
            expected = np.arange(self._core.key_size - 1) < parts[keys[:, 0]][:, None]
            if not np.array_equal(keys[:, 1:] != _NONE, expected):
                raise InputError("keys: a key has more or fewer values than its template")

    # The object of the core cannot be pickled, so pickle stores the parts of a model file.
    def __getstate__(self) -> dict[str, Any]:
        meta, tensors = self.to_parts()
        names = {n: self._strings(raw=n == "words") for n in ("values", "words")}
        return {"meta": meta, "tensors": tensors, "strings": names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        features = self.from_parts(state["meta"], state["tensors"], state["strings"].__getitem__)
        self.__dict__ = features.__dict__

    def _new_core(self) -> _core.Extractor:
        # A gazetteer compares the value of a column, possibly in lower case. That field is added if
        # no template uses it.
        fields = list(self._fields)
        gazetteers = []
        for gazetteer in self.spec.gazetteers:
            lower = gazetteer.lower
            for n, field in enumerate(self.spec.fields):
                if field.kind == "gazetteer" and field.pattern == gazetteer.name:
                    compared = Field(field.column, "lower" if lower else "value")
                    if compared not in fields:
                        fields.append(compared)
                    phrases = [
                        [word.lower() if lower else word for word in phrase]
                        for phrase in gazetteer.phrases
                    ]
                    gazetteers.append((n, fields.index(compared), phrases))
        self._fields = fields
        number = {literals: n for n, literals in enumerate(self._literals)}
        try:
            return self._make_core(fields, number, gazetteers)
        except (TypeError, UnicodeError):  # nanobind cannot pass a str with lone surrogates
            raise InputError(
                "the spec contains text with unpaired surrogates, which is not valid Unicode"
            ) from None

    def _make_core(
        self, fields: list[Field], number: dict[Any, int], gazetteers: Any
    ) -> _core.Extractor:
        return _core.Extractor(
            [(f.column, f.kind if KINDS[f.kind].native else "python", f.size) for f in fields],
            [
                (
                    number[t.literals],
                    t.edge,
                    [(p.offset, p.field, ORIGINS.index(p.origin)) for p in t.parts],
                )
                for t in self.spec.templates
                if not (t.edge and not t.parts)  # the label bigram is not an attribute
            ],
            None if self.spec.outside is None else tuple(map(list, self.spec.outside)),
            gazetteers,
            "",
            lambda n, text: derive(fields[n], text),
        )

    def _batch(self, X: Any, run: Any) -> FeatureBatch:
        try:
            rows, edges = run()
        except InputError:  # the message already names the sequence
            raise
        except ValueError as error:
            raise core_error(error) from None
        return FeatureBatch(
            lengths_of(X), SparseRows(*rows), SparseRows(*edges) if self.has_edges else None
        )

    def _strings(self, raw: bool) -> list[str]:
        data, ends = self._core.strings(raw)
        text = data.tobytes()
        return [text[begin:end].decode() for begin, end in pairwise(ends)]


def derive(field: Field, value: str) -> str | None:
    """Return the value of a field (see `KINDS`) for any text; the core computes it for ASCII.

    >>> derive(Field(kind="shape"), "Ærø-7"), derive(Field(kind="suffix", size=2), "Ærø")
    ('Xxx-d', 'rø')
    """
    kind = KINDS[field.kind]
    if kind.regular:
        return field.match(value)
    assert kind.derive is not None  # the core computes positions and gazetteers
    return kind.derive(value, field.size)
