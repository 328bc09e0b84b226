"""Built-in features: the words around a token, their shapes, affixes and columns.

A template is defined by its name: ``w[-1]|w[0]`` joins the previous word and the word itself to the
attribute ``w[-1]|w[0]=New|York``. `Window` generates such names from a few settings; `named` parses
them:

>>> named(["w[0]", "lower[-1]|suffix2[0]", "bias"]).templates[1].literals
('lower[-1]|suffix2[0]=', '|', '')
>>> [*Window(words=1, prefixes=(), suffixes=(), shape=None, case=None).names()]
['bias', '__BOS__', '__EOS__', 'w[-1]', 'w[0]', 'w[1]', 'lower[0]', 'digits[0]', 'w[-1]|w[0]', \
'w[0]|w[1]']
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from trellis.errors import InputError
from trellis.features.kinds import KINDS
from trellis.features.spec import Clusters, Draft, Field, Gazetteer, Spec

__all__ = ["Window", "chunking", "chunking_rich", "default_spec", "named", "ner", "pos"]

_PART = re.compile(r"([^\[\]|=]+)\[([+-]?[0-9]{1,9})\]")
_KIND = re.compile(r"([a-z_]+)([0-9]{0,9})")
_PLAIN_KINDS = [name for name, kind in KINDS.items() if not (kind.regular or kind.named)]
_FLAGS = {"bias": None, "__BOS__": Field(kind="first"), "__EOS__": Field(kind="last")}


def named(
    names: Iterable[str],
    columns: Sequence[str] = (),
    gazetteers: Iterable[Gazetteer] = (),
    edges: Iterable[str] = (),
    clusters: Iterable[Clusters] = (),
) -> Spec:
    """Return the spec of templates that are defined by their names.

    A template that reads a position outside of the sequence adds no attribute.

    A name is ``field[offset]``, or several of these joined by ``|``, or one of ``bias`` (every
    position), ``__BOS__`` (the first position) and ``__EOS__`` (the last position). A field is
    ``w`` (the word), a column, a gazetteer, or a kind of `trellis.features.kinds.KINDS` that needs
    no pattern, with its size if it has one: ``suffix3``. ``columns`` are the names of the columns
    after the first. ``pos.prefix1`` applies a kind to the column ``pos``. The name of clusters is
    also a field: ``brown`` is the cluster of the word in the clusters named brown, and
    ``brown.prefix4`` the first four characters of it. ``edges`` are templates of the transition
    into a position.

    >>> spec = named(["w[0]", "pos.prefix1[0]|pos[1]"], columns=["pos"], edges=["pos[0]"])
    >>> spec.fields[1], spec.templates[2].edge
    (Field(column=1, kind='prefix', size=1, pattern=''), True)
    """
    arguments = {"names": names, "columns": columns, "gazetteers": gazetteers}
    for argument, value in arguments.items():
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise InputError(f"{argument} must be a list of names, got {value!r}")
    gazetteers, clusters = tuple(gazetteers), tuple(clusters)
    fields_by_name = {"w": Field()}
    fields_by_name |= {name: Field(column=n) for n, name in enumerate(columns, start=1)}
    fields_by_name |= {
        gazetteer.name: Field(kind="gazetteer", pattern=gazetteer.name) for gazetteer in gazetteers
    }
    fields_by_name |= {table.name: Field(kind="cluster", pattern=table.name) for table in clusters}
    lists = gazetteers + clusters
    if len(fields_by_name) < 1 + len(columns) + len(lists) or any(map(_parse_kind, fields_by_name)):
        list_names = [table.name for table in lists]
        title = "gazetteers and clusters" if clusters else "gazetteers"
        raise InputError(
            f"columns {[*columns]} and {title} {list_names} must have "
            "distinct names, other than 'w' and the kinds of fields"
        )
    draft = Draft()
    for edge, template_names in ((False, names), (True, edges)):
        for name in template_names:
            _add_template(draft, name, fields_by_name, edge)
    return draft.spec(gazetteers=gazetteers, clusters=clusters)


def _add_template(draft: Draft, name: str, fields_by_name: Mapping[str, Field], edge: bool) -> None:
    if name in _FLAGS:
        flag = _FLAGS[name]
        parts, literals = ([(0, flag)], [name, ""]) if flag else ([], [name])
    else:
        field_texts = name.split("|")
        matches = [_PART.fullmatch(text) for text in field_texts]
        parts = [
            (int(match[2]), _find_field(match[1], name, fields_by_name))
            for match in matches
            if match
        ]
        if len(parts) < len(field_texts):
            invalid = field_texts[matches.index(None)]
            raise InputError(f"template {name!r}: expected field[offset], got {invalid!r}")
        literals = [f"{name}=", *["|"] * (len(parts) - 1), ""]
    draft.add(name, parts, literals, edge)


def _find_field(text: str, name: str, fields_by_name: Mapping[str, Field]) -> Field:
    """Return the field with the name ``text``; errors mention the template ``name``."""
    if text in fields_by_name:
        return fields_by_name[text]
    prefix, _, suffix = text.rpartition(".")
    column = fields_by_name.get(prefix or "w")
    kind = _parse_kind(suffix)
    if column is not None and column.kind == "cluster" and kind and kind[0] == "prefix":
        return Field(0, "cluster_prefix", kind[1], column.pattern)
    if kind is None or column is None or column.kind != "value":
        raise InputError(
            f"template {name!r}: field {text!r} is unknown: must be one of "
            f"{', '.join(fields_by_name)}, or a kind: {', '.join(_PLAIN_KINDS)}"
        )
    return Field(column.column, *kind)


def _parse_kind(text: str) -> tuple[str, int] | None:
    """Return ``("suffix", 3)`` for ``suffix3``; None if there is no such kind."""
    parsed = _KIND.fullmatch(text)
    return (parsed[1], int(parsed[2] or 0)) if parsed and parsed[1] in _PLAIN_KINDS else None


@dataclass(frozen=True)
class Window:
    """Generates the templates of positions i - r … i + r.

    A radius r of 0 means the token itself. None means no template.

    >>> Window(words=0, bigrams=None).spec().columns
    1
    >>> cities = Window(gazetteers={"city": ["Paris", "New York"]}).spec().gazetteers
    >>> cities[0].phrases
    (('Paris',), ('New', 'York'))
    """

    words: int | None = 2
    """Radius of the unchanged words."""
    lower: int | None = 0
    """Radius of the words in lower case."""
    shape: int | None = 1
    """Radius of the shapes: ``Xxxxx`` for ``Paris``."""
    short_shape: int | None = None
    """Radius of the short shapes: ``Xx`` for ``Paris``."""
    digits: int | None = 0
    """Radius of the kind ``digits``: all or some digits."""
    case: int | None = 1
    """Radius of the kind ``case``: upper, lower, title or mixed case."""
    alnum: int | None = None
    """Radius of the kind ``alnum``: letters, digits, both or neither."""
    prefixes: tuple[int, ...] = (1, 2, 3, 4)
    """Sizes of prefixes."""
    suffixes: tuple[int, ...] = (1, 2, 3, 4)
    """Sizes of suffixes."""
    affixes: int | None = 0
    """Radius of prefixes and suffixes."""
    lower_affixes: bool = False
    """True to take prefixes and suffixes from the word in lower case."""
    bigrams: int | None = 1
    """Radius of pairs of neighbouring words."""
    trigrams: int | None = None
    """Radius of three consecutive words."""
    position: bool = True
    """True to add an attribute at the first position, and another one at the last position."""
    bias: bool = True
    """True to add the same attribute at every position."""
    columns: tuple[str, ...] = ()
    """Names of the columns after the first column, which is the word."""
    column_window: int | None = 2
    """Radius of the values of these columns."""
    column_bigrams: int | None = 2
    """Radius of pairs of neighbouring values of these columns."""
    column_trigrams: int | None = 2
    """Radius of three consecutive values of these columns."""
    gazetteers: Mapping[str, Iterable[str]] | None = None
    """Lists of phrases by name; words are separated by spaces, and case is ignored."""
    gazetteer_window: int | None = 1
    """Radius of the gazetteer fields."""
    clusters: Mapping[str, Mapping[str, str]] | None = None
    """Clusters of words by name, each a mapping from words to clusters (see docs/features.md)."""
    cluster_window: int | None = 1
    """Radius of the clusters."""
    cluster_prefixes: tuple[int, ...] = (4, 6, 10)
    """Sizes of the prefixes of clusters that are bit strings, as Brown clusters are."""
    extra: tuple[str, ...] = ()
    """Names of additional templates, as in `named`."""
    edges: tuple[str, ...] = ()
    """Names of templates of the transition into a position, as in `named`."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            radius = getattr(self, setting.name)
            # Every setting of type `int | None` is a radius.
            if setting.type != (int | None) or radius is None:
                continue
            if not isinstance(radius, int) or isinstance(radius, bool) or radius < 0:
                raise InputError(
                    f"{setting.name} must be None or an integer of at least 0, got {radius!r}"
                )

    def names(self) -> Iterator[str]:
        """Yield the names of the templates, for `named`."""
        yield from ["bias"] * self.bias
        yield from ["__BOS__", "__EOS__"] * self.position
        yield from _list_ngrams("w", 1, self.words)
        for kind in ("lower", "shape", "short_shape", "digits", "case", "alnum"):
            yield from _list_ngrams(kind, 1, getattr(self, kind))
        lower = "lower_" if self.lower_affixes else ""
        for size in self.prefixes:
            yield from _list_ngrams(f"{lower}prefix{size}", 1, self.affixes)
        for size in self.suffixes:
            yield from _list_ngrams(f"{lower}suffix{size}", 1, self.affixes)
        yield from _list_ngrams("w", 2, self.bigrams)
        yield from _list_ngrams("w", 3, self.trigrams)
        for column in self.columns:
            yield from _list_ngrams(column, 1, self.column_window)
            yield from _list_ngrams(column, 2, self.column_bigrams)
            yield from _list_ngrams(column, 3, self.column_trigrams)
        for gazetteer in self.gazetteers or ():
            yield from _list_ngrams(gazetteer, 1, self.gazetteer_window)
        for table in self._tables():
            yield from _list_ngrams(table.name, 1, self.cluster_window)
            for size in self.cluster_prefixes if table.is_binary else ():
                yield from _list_ngrams(f"{table.name}.prefix{size}", 1, self.cluster_window)
        yield from self.extra

    def _tables(self) -> list[Clusters]:
        return [_make_clusters(*item) for item in (self.clusters or {}).items()]

    def spec(self) -> Spec:
        """Return the spec of this window."""
        phrases = {
            name: _split_phrases(name, texts) for name, texts in (self.gazetteers or {}).items()
        }
        gazetteers = [Gazetteer(*item) for item in phrases.items()]
        return named(self.names(), self.columns, gazetteers, self.edges, self._tables())


def _make_clusters(name: str, by_word: object) -> Clusters:
    if not isinstance(by_word, Mapping):
        raise InputError(f"clusters {name!r} must map words to clusters, got {by_word!r:.60}")
    return Clusters(name, tuple(by_word), tuple(by_word.values()))


def _split_phrases(name: str, texts: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    if isinstance(texts, str):
        raise InputError(f"gazetteer {name!r} must be a list of phrases, got the str {texts!r}")
    return tuple(tuple(text.split()) for text in texts)


def _list_ngrams(field: str, n: int, radius: int | None) -> Iterator[str]:
    """Yield names of n neighbours within a radius: n=2, radius=1 gives w[-1]|w[0], w[0]|w[1]."""
    if radius is not None:
        for first in range(-radius, radius - n + 2):
            yield "|".join(f"{field}[{offset}]" for offset in range(first, first + n))


_CHUNKING = Window(
    lower=None,
    shape=None,
    digits=None,
    case=None,
    affixes=None,
    bias=False,
    columns=("pos",),
)


def chunking() -> Spec:
    """Return the features of CRFsuite's chunking example; tokens are (word, part of speech).

    >>> [t.name for t in chunking().templates][:6]
    ['__BOS__', '__EOS__', 'w[-2]', 'w[-1]', 'w[0]', 'w[1]']
    """
    return _CHUNKING.spec()


def chunking_rich() -> Spec:
    """Return the features of `chunking`, and words joined with the parts of speech next to them.

    Use it as ``CRF(chunking_rich(), states="all")``. Then pairs of a feature and a label that
    do not occur in the training data have weights too, which can become negative.

    >>> "w[0]|pos[1]" in {t.name for t in chunking_rich().templates}
    True
    """
    pairs = ("pos[-1]|w[0]", "w[-1]|pos[0]", "w[0]|pos[0]", "w[0]|pos[1]", "pos[0]|w[1]")
    return replace(_CHUNKING, bias=True, extra=(*pairs, "w[-1]|w[1]")).spec()


def _validate_columns(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"columns must be a list of names, got {names!r}")
    return tuple(names)


def ner(
    columns: Sequence[str] = (),
    gazetteers: Mapping[str, Iterable[str]] | None = None,
    clusters: Mapping[str, Mapping[str, str]] | None = None,
) -> Spec:
    """Return features for named entities: words in lower case, their shapes, long affixes.

    >>> "short_shape[-1]|short_shape[0]" in {t.name for t in ner().templates}
    True
    """
    neighbor_affixes = (f"lower_{affix}3[{i}]" for i in (-1, 1) for affix in ("prefix", "suffix"))
    return Window(
        words=0,
        bigrams=None,
        lower=4,
        shape=0,
        short_shape=3,
        case=1,
        prefixes=(1, 2, 3, 4, 5),
        suffixes=(1, 2, 3, 4, 5),
        lower_affixes=True,
        columns=_validate_columns(columns),
        column_trigrams=1,
        gazetteers=gazetteers,
        clusters=clusters,
        extra=(
            *_list_ngrams("lower", 2, 2),
            *_list_ngrams("short_shape", 2, 1),
            *_list_ngrams("short_shape", 3, 1),
            "lower[-1]|short_shape[0]",
            "short_shape[0]|lower[1]",
            *neighbor_affixes,
        ),
    ).spec()


def pos(
    gazetteers: Mapping[str, Iterable[str]] | None = None,
    clusters: Mapping[str, Mapping[str, str]] | None = None,
) -> Spec:
    """Return features for part-of-speech tagging: long affixes, surrounding words, shapes.

    >>> "lower_suffix5[0]" in {t.name for t in pos().templates}
    True
    """
    return Window(
        words=0,
        bigrams=None,
        lower=2,
        shape=0,
        short_shape=1,
        case=0,
        suffixes=(1, 2, 3, 4, 5),
        lower_affixes=True,
        gazetteers=gazetteers,
        clusters=clusters,
        extra=(
            *_list_ngrams("lower", 2, 1),
            "lower_suffix3[-1]",
            "lower_suffix3[1]",
            "lower_suffix3[-1]|lower_suffix3[0]",
        ),
    ).spec()


def default_spec(token: str | Sequence[str]) -> Spec:
    """Return the default features for tokens like this one: a str, or a tuple of columns.

    >>> default_spec("Paris").columns, default_spec(("Paris", "NNP", "B-NP")).columns
    (1, 3)
    """
    if isinstance(token, str):
        return Window().spec()
    if not isinstance(token, Sequence) or {*map(type, token)} != {str}:
        raise InputError(f"a token must be a str or a tuple of at least one str, got {token!r}")
    return Window(columns=tuple(f"c{n}" for n in range(1, len(token)))).spec()
