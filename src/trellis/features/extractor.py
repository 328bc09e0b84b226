"""Compute the attributes of tokens (``str``, or tuples of columns) from templates.

The native core does the work.

>>> from trellis.features.window import default_spec, named
>>> features = TemplateFeatures(named(["w[0]", "lower[-1]|suffix2[0]"]))
>>> batch = features.learn([["New", "York"]])
>>> features.names()
['w[0]=New', 'w[0]=York', 'lower[-1]|suffix2[0]=new|rk']
>>> features.find([["new", "York"]]).rows.id.tolist()  # "new" was not learned
[1, 2]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

_CLUSTER_KINDS = ("cluster", "cluster_prefix")
_CLUSTER_LISTS = ("words", "clusters")
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
        """The distinct literals of the templates.

        The key of an attribute starts with an index into this list.
        """
        return self._literals

    @property
    def values(self) -> list[str]:
        """All values of fields, by number. The values outside of a sequence come first."""
        return self._strings(raw=False)

    @property
    def words(self) -> list[str]:
        """All values of columns, by number."""
        return self._strings(raw=True)

    @property
    def key_size(self) -> int:
        """The length of the keys of attributes.

        A key is the index of the literals, then the number of the value of each part.
        """
        return self._core.key_size

    def names(self, edge: bool = False) -> list[str]:
        """Return the name of each attribute."""
        values = self._strings(raw=False)
        key_rows = self._core.keys(edge).reshape(-1, self._core.key_size)
        names = []
        for head, *parts in key_rows.tolist():
            first, *literals = self._literals[head]
            names.append(
                first
                + "".join(
                    values[value_number] + text
                    for value_number, text in zip(parts, literals, strict=False)
                )
            )
        return names

    def values_of_column(self, column: int) -> list[str]:
        """Return the values of a column that are attributes, in the order of training.

        The result is empty if no template consists only of the column's value at the position.

        >>> from trellis.features.window import default_spec
        >>> features = TemplateFeatures(default_spec(("Ann", "NNP")))
        >>> batch = features.learn([[("Ann", "NNP"), ("sings", "VBZ")]])
        >>> features.values_of_column(1)
        ['NNP', 'VBZ']
        """
        wanted = Field(column)
        heads = [
            self._literals.index(t.literals)
            for t in self.spec.templates
            if [(p.offset, p.origin, self.spec.fields[p.field]) for p in t.parts]
            == [(0, "here", wanted)]
        ]
        values = self._strings(raw=False)
        keys = self._core.keys(False).reshape(-1, self._core.key_size)
        return [values[key[1]] for key in keys[np.isin(keys[:, 0], heads)].tolist()]

    def keep(self, ids: NDArray[np.int32], edge_ids: NDArray[np.int32]) -> None:
        """Keep only the attributes ``ids`` and edge attributes ``edge_ids``, numbered from 0."""
        size = self._core.key_size
        keys = self._core.keys(False).reshape(-1, size)[ids]
        edge_keys = self._core.keys(True).reshape(-1, size)[edge_ids]
        field_values, column_values = self._strings(raw=False), self._strings(raw=True)
        self._core = self._new_core()
        self._core.restore(field_values, column_values, keys.reshape(-1), edge_keys.reshape(-1))

    def with_attributes(
        self,
        values: list[str],
        words: list[str],
        keys: NDArray[np.uint32],
        edge_keys: NDArray[np.uint32],
    ) -> TemplateFeatures:
        """Return a new extractor of the same spec with these values and keys."""
        features = TemplateFeatures(self.spec)
        features._core.restore(values, words, keys.reshape(-1), edge_keys.reshape(-1))
        return features

    def add_names(
        self, packed: Any, name_indices: NDArray[np.int64], edge: bool
    ) -> NDArray[np.int64]:
        """Add attributes, given by their names in another program; a name can become several.

        ``packed`` is (data, begin, size) in UTF-8 (see `trellis.features.names`), and
        ``name_indices`` are the names to use. Return the index of the name of each new attribute.
        """
        used_literals = {
            template.literals for template in self.spec.templates if template.edge == edge
        }
        template_indices = [
            n for n, literals in enumerate(self._literals) if literals in used_literals
        ]
        literals = [list(texts) for texts in self._literals]
        try:
            data, begin, size = packed
            return self._core.add_names(
                data, begin, size, name_indices, literals, template_indices, edge
            )
        except ValueError as error:
            raise InputError(str(error)) from None

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return (meta, tensors), from which `from_parts` builds an equal extractor."""
        spec = self.spec.to_json()
        tensors: dict[str, NDArray[Any]] = {
            "keys": self._core.keys(False),
            "edge_keys": self._core.keys(True),
        }
        for name, is_raw in (("values", False), ("words", True)):
            data, ends = self._core.strings(is_raw)
            tensors |= {f"{name}.bytes": data.view(np.uint8), f"{name}.ends": ends}
        for name, strings in self._cluster_strings().items():
            tensors |= _pack(name, strings)
        for table in spec.get("clusters", ()):
            # The words can be many, so they are tensors and not in the JSON header of the file.
            table |= {name: [] for name in _CLUSTER_LISTS}
        return {"spec": spec}, tensors

    def _cluster_strings(self) -> dict[str, Sequence[str]]:
        """Return the words and the clusters of each table, by the name of their tensors."""
        return {
            f"clusters{n}.{name}": getattr(table, name)
            for n, table in enumerate(self.spec.clusters)
            for name in _CLUSTER_LISTS
        }

    @classmethod
    def from_parts(
        cls, meta: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], strings: Any
    ) -> TemplateFeatures:
        """Build the extractor from its parts; `strings(name)` returns validated strings."""
        features = cls(Spec.from_json(_restore_clusters(meta.get("spec"), strings)))
        keys, edge_keys = (
            np.ascontiguousarray(tensors[name], np.uint32) for name in ("keys", "edge_keys")
        )
        try:
            features._core.restore(strings("values"), strings("words"), keys, edge_keys)
        except ValueError as error:
            raise InputError(str(error)) from None
        features._check_keys()
        return features

    def _check_keys(self) -> None:
        """Raise InputError unless each key has one value for each part of its template."""
        part_counts = np.array([len(literals) - 1 for literals in self._literals], dtype=np.int64)
        for edge in (False, True):
            keys = self._core.keys(edge).reshape(-1, self._core.key_size)
            if len(keys) and int(keys[:, 0].max()) >= len(part_counts):
                raise InputError("keys: a template index is out of range")
            has_value = np.arange(self._core.key_size - 1) < part_counts[keys[:, 0]][:, None]
            if not np.array_equal(keys[:, 1:] != _NONE, has_value):
                raise InputError("keys: a key has more or fewer values than its template")

    # The object of the core cannot be pickled, so pickle stores the parts of a model file.
    def __getstate__(self) -> dict[str, Any]:
        meta, tensors = self.to_parts()
        strings = {name: self._strings(raw=name == "words") for name in ("values", "words")}
        strings |= {name: [*values] for name, values in self._cluster_strings().items()}
        return {"meta": meta, "tensors": tensors, "strings": strings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        features = self.from_parts(state["meta"], state["tensors"], state["strings"].__getitem__)
        self.__dict__ = features.__dict__

    def _new_core(self) -> _core.Extractor:
        # A gazetteer compares its phrases with a column, possibly in lower case. The core needs a
        # field for this value, also if no template uses it.
        fields = list(self._fields)
        gazetteers = []
        for gazetteer in self.spec.gazetteers:
            lower = gazetteer.lower
            for n, field in enumerate(self.spec.fields):
                if field.kind == "gazetteer" and field.pattern == gazetteer.name:
                    compared_field = Field(field.column, "lower" if lower else "value")
                    if compared_field not in fields:
                        fields.append(compared_field)
                    phrases = [
                        [word.lower() if lower else word for word in phrase]
                        for phrase in gazetteer.phrases
                    ]
                    gazetteers.append((n, fields.index(compared_field), phrases))
        self._fields = fields
        literals_index = {literals: n for n, literals in enumerate(self._literals)}
        try:
            return self._make_core(fields, literals_index, gazetteers)
        except (TypeError, UnicodeError):  # nanobind cannot pass a str with lone surrogates
            raise InputError(
                "the spec contains text with unpaired surrogates, which is not valid Unicode"
            ) from None

    def _make_core(
        self, fields: list[Field], literals_index: dict[Any, int], gazetteers: Any
    ) -> _core.Extractor:
        tables = {table.name: table for table in self.spec.clusters}

        def compute(n: int, text: str) -> str | None:
            field = fields[n]
            if field.kind in _CLUSTER_KINDS:
                return tables[field.pattern].find(text, field.size)
            return derive(field, text)

        return _core.Extractor(
            [
                (field.column, field.kind if KINDS[field.kind].native else "python", field.size)
                for field in fields
            ],
            [
                (
                    literals_index[template.literals],
                    template.edge,
                    [
                        (part.offset, part.field, ORIGINS.index(part.origin))
                        for part in template.parts
                    ],
                )
                for template in self.spec.templates
                # The label bigram is not an attribute.
                if not (template.edge and not template.parts)
            ],
            None if self.spec.outside is None else tuple(map(list, self.spec.outside)),
            gazetteers,
            "",
            compute,
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
    """Return the value of a field (see `KINDS`) for any text.

    The core calls it for text that is not ASCII, and for kinds that it cannot compute.

    >>> derive(Field(kind="shape"), "Ærø-7"), derive(Field(kind="suffix", size=2), "Ærø")
    ('Xxx-d', 'rø')
    """
    kind = KINDS[field.kind]
    if kind.regular:
        return field.match(value)
    assert kind.derive is not None  # the core computes positions and gazetteers
    return kind.derive(value, field.size)


def _pack(name: str, strings: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the UTF-8 bytes of strings, and the offset at which each begins, then the end."""
    encoded = [text.encode() for text in strings]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(encoded), np.uint8), f"{name}.ends": ends}


def _restore_clusters(spec: Any, strings: Any) -> Any:
    """Return the JSON of a spec with the words of its clusters, which are tensors in a file."""
    tables = spec.get("clusters") if isinstance(spec, dict) else None
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        return spec
    restored = [
        table | {name: strings(f"clusters{n}.{name}") for name in _CLUSTER_LISTS}
        for n, table in enumerate(tables)
    ]
    return {**spec, "clusters": restored}
