"""Lists of words that features look up: gazetteers and clusters.

Both are parts of a `Spec`, and are saved with a model.
"""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trellis.data import files
from trellis.errors import FormatError, InputError

__all__ = ["Clusters", "Gazetteer", "check_items", "check_types", "read_clusters"]


@dataclass(frozen=True)
class Gazetteer:
    """A list of phrases, which are searched in a sequence from left to right.

    If several phrases start at a token, the longest is used.

    >>> Gazetteer("city", (("paris",), ("new", "york")))
    Gazetteer(name='city', phrases=(('paris',), ('new', 'york')), lower=True)
    """

    name: str
    phrases: tuple[tuple[str, ...], ...]
    lower: bool = True
    """True to compare phrases and tokens in lower case."""

    def __post_init__(self) -> None:
        check_types(self, name=str, phrases=tuple, lower=bool)
        check_items(f"phrases of gazetteer {self.name!r}", self.phrases, tuple)
        for phrase in self.phrases:
            check_items(f"phrase {phrase} of gazetteer {self.name!r}", phrase, str)
            if not phrase:
                raise InputError(f"gazetteer {self.name!r} has an empty phrase")


@dataclass(frozen=True)
class Clusters:
    """Classes of words that occur in similar contexts: Brown clusters, or k-means of word vectors.

    >>> clusters = Clusters("topic", ("paris", "Bern", "wine"), ("0110", "0111", "10"))
    >>> clusters.find("Bern"), clusters.find("Paris"), clusters.find("Paris", size=3)
    ('0111', '0110', '011')
    >>> clusters.find("oslo") is None
    True
    """

    name: str
    words: tuple[str, ...]
    clusters: tuple[str, ...]
    """The cluster of each word."""

    def __post_init__(self) -> None:
        check_types(self, name=str, words=tuple, clusters=tuple)
        for title, values in (("words", self.words), ("clusters", self.clusters)):
            check_items(f"{title} of clusters {self.name!r}", values, str)
        if len(self.words) != len(self.clusters):
            raise InputError(
                f"clusters {self.name!r} have {len(self.words)} words, but "
                f"{len(self.clusters)} clusters: each word needs one"
            )

    @cached_property
    def _by_word(self) -> dict[str, str]:
        return dict(zip(self.words, self.clusters, strict=True))

    def find(self, word: str, size: int = 0) -> str | None:
        """Return the cluster of a word, or else of the word in lower case; None if neither has one.

        With ``size``, only the first ``size`` characters of the cluster are returned.
        """
        cluster = self._by_word.get(word)
        if cluster is None:
            cluster = self._by_word.get(word.lower())
        return cluster[:size] if cluster is not None and size else cluster

    @property
    def is_binary(self) -> bool:
        """True if the clusters are bit strings, whose prefixes are larger clusters (Brown)."""
        return all(not cluster.strip("01") for cluster in self.clusters)


def read_clusters(path: str | os.PathLike[str], encoding: str = "utf-8") -> dict[str, str]:
    r"""Return the cluster of each word of a file.

    A line is ``word<TAB>cluster``, or ``bits<TAB>word<TAB>count`` as Brown's program writes it.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "clusters.tsv"
    >>> _ = path.write_text("Rome\t17\nParis\t17\n")
    >>> read_clusters(path)
    {'Rome': '17', 'Paris': '17'}
    >>> _ = path.write_text("0110\tRome\t25\n0111\tParis\t40\n")
    >>> read_clusters(path)
    {'Rome': '0110', 'Paris': '0111'}
    """
    clusters: dict[str, str] = {}
    for n, line in enumerate(files.lines(path, encoding), start=1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) == 3 and not columns[0].strip("01") and columns[2].strip().isdecimal():
            cluster, word = columns[:2]
        elif len(columns) == 2:
            word, cluster = columns
        else:
            raise FormatError(
                f"{path}, line {n}: must be word<TAB>cluster, or bits<TAB>word<TAB>count, "
                f"got {line!r:.60}"
            )
        if clusters.setdefault(word, cluster) != cluster:
            raise FormatError(f"{path}, line {n}: {word!r} already has another cluster")
    if not clusters:
        raise FormatError(f"{path}: the file contains no cluster")
    return clusters


def check_types(instance: object, **types: type) -> None:
    """Raise InputError if an attribute of a dataclass has the wrong type."""
    for name, kind in types.items():
        value = getattr(instance, name)
        # bool is a subclass of int, but True is not a valid offset.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InputError(
                f"{type(instance).__name__}: {name} must be {kind.__name__}, got {value!r}"
            )


def check_items(name: str, values: tuple[Any, ...], kind: type) -> None:
    """Raise InputError if an item has the wrong type."""
    for n, value in enumerate(values):
        if not isinstance(value, kind):
            raise InputError(f"{name}: item {n} must be {kind.__name__}, got {value!r}")
