"""One pass over a file with labels: counts, the first places of everything odd, and hashes.

Memory grows by about 30 bytes per sequence, and with the number of distinct labels.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Any

from trellis.app.checking.characters import describe_token, find_traits
from trellis.data import corpus, files
from trellis.data.corpus import Columns
from trellis.data.files import Numbered, Source, Token

__all__ = ["MAX_LABELS", "Pair", "Places", "Survey", "survey_file"]

MAX_LABELS = 2_000  # more labels usually mean that a wrong column was read as the label
_MAX_CACHED_TOKENS = 1 << 17

Pair = tuple[str | None, str | None]
"""Two labels that follow each other; None is the start or the end of a sequence."""


class Places:
    """The number of occurrences of something, and the lines of the first occurrences."""

    __slots__ = ("count", "first")

    def __init__(self) -> None:
        self.count = 0
        self.first: list[tuple[int, str]] = []
        """(line, text)"""

    def add(self, line: int, text: str, limit: int) -> None:
        """Count an occurrence; store it if it is one of the first ``limit``."""
        self.count += 1
        if len(self.first) < limit:
            self.first.append((line, text))


class Survey:
    """The facts about one file.

    ``limit`` is the number of places that are stored for each kind of finding. ``unknown`` is the
    label of tokens whose true label is not known; it is not counted as a label.
    """

    def __init__(self, name: str, format: str, limit: int, unknown: str | None = None) -> None:
        self.name, self.format, self.limit = name, format, limit
        self.unknown = unknown
        self.tokens = 0
        self.labels: dict[str, Places] = {}
        self.has_more_labels = False
        """True if there are more than `MAX_LABELS` labels; only as many are counted."""
        self.pairs: dict[Pair, Places] = {}
        self.wrong_lines = Places()
        self.empty_sequences = Places()
        self.widths: dict[int, Places] = {}
        """Sequences by the number of columns of their first token."""
        self.traits: dict[str, Places] = {}
        """Tokens with invisible or damaged characters, and the normal forms of tokens."""
        self.lines = array("q")
        """(sequences,) The first line of each sequence that has tokens."""
        self.lengths = array("q")
        """(sequences,)"""
        self.word_hashes = array("q")
        """(sequences,) The hash of the words of each sequence."""
        self.label_hashes = array("q")
        """(sequences,)"""
        self._plain: set[Token] = set()  # tokens that add nothing to `traits`
        self._cache: dict[Token, tuple[str, ...]] = {}

    @property
    def usual_width(self) -> int | None:
        """The most frequent number of columns of a token; None without sequences."""
        return max(self.widths, key=lambda width: self.widths[width].count, default=None)

    def report(self, line: int, problem: str) -> None:
        """Record a line that cannot be read."""
        self.wrong_lines.add(line, problem, self.limit)

    def add(self, sequence: Numbered) -> None:
        """Record a sequence."""
        if not sequence.tokens:
            self.empty_sequences.add(sequence.line, "the sequence has no token", self.limit)
            return
        self.tokens += len(sequence.tokens)
        self.lines.append(sequence.line)
        self.lengths.append(len(sequence.tokens))
        self.word_hashes.append(hash("\n".join(map(_get_word, sequence.tokens))))
        self.label_hashes.append(hash("\n".join(sequence.labels)))
        self._add_width(sequence)
        self._add_labels(sequence)
        if not self._plain.issuperset(sequence.tokens):
            self._add_tokens(sequence)

    def _add_width(self, sequence: Numbered) -> None:
        token = next(filter(None, sequence.tokens), None)
        if token is not None:  # None: no row of the sequence can be read
            width = 1 if isinstance(token, str) else len(token)
            places = self.widths.setdefault(width, Places())
            places.add(sequence.line, f"{token!r}", self.limit)

    def _add_labels(self, sequence: Numbered) -> None:
        limit = self.limit
        for label, line in zip(sequence.labels, sequence.lines, strict=True):
            if (places := self.labels.get(label)) is None:
                # An empty label belongs to a wrong row, which has been reported.
                if not label or label == self.unknown:
                    continue
                if len(self.labels) == MAX_LABELS:
                    self.has_more_labels = True
                    continue
                places = self.labels[label] = Places()
            places.add(line, "", limit)
        if self.has_more_labels:
            return
        neighbours = pairwise(chain((None,), sequence.labels, (None,)))
        # The line of a pair is that of its second label. A pair with the end of the sequence has
        # the line of the last label.
        lines = chain(sequence.lines, sequence.lines[-1:])
        for pair, line in zip(neighbours, lines, strict=True):
            if "" in pair or (self.unknown is not None and self.unknown in pair):
                continue
            if (places := self.pairs.get(pair)) is None:
                places = self.pairs[pair] = Places()
            places.add(line, "", limit)

    def _add_tokens(self, sequence: Numbered) -> None:
        for token, line in zip(sequence.tokens, sequence.lines, strict=True):
            if token in self._plain or token == "":
                continue
            traits = self._cache.get(token)
            if traits is None:
                traits = self._inspect(token)
            for trait in traits:
                places = self.traits.setdefault(trait, Places())
                is_stored = len(places.first) < self.limit
                places.add(line, _describe(token, trait) if is_stored else "", self.limit)

    def _inspect(self, token: Token) -> tuple[str, ...]:
        """Return the traits of a token, and store them for its next occurrence."""
        columns = (token,) if isinstance(token, str) else token
        traits = tuple(dict.fromkeys(chain.from_iterable(map(find_traits, columns))))
        if len(self._plain) + len(self._cache) >= _MAX_CACHED_TOKENS:
            self._plain.clear()
            self._cache.clear()
        if traits:
            self._cache[token] = traits
        else:
            self._plain.add(token)
        return traits


def survey_file(
    source: Source,
    format: str | None,
    layout: Columns,
    limit: int,
    unknown: str | None = None,
) -> Survey:
    """Read a path, a pipe or an open file once, and return its survey."""
    with files.open_once(source) as file:  # type: ignore[arg-type]
        file.encoding = layout.encoding
        format = format or corpus.format_of(file)
        survey = Survey(files.name_of(file), format, limit, unknown)
        for sequence in _read(file, survey, layout):
            survey.add(sequence)
    return survey


def _read(file: Any, survey: Survey, layout: Columns) -> Iterator[Numbered]:
    return corpus.iterate_numbered(file, survey.report, survey.format, layout)


def _get_word(token: Token) -> str:
    return token if isinstance(token, str) else token[0]


def _describe(token: Token, trait: str) -> str:
    """Return the column of a token that has a trait, as text."""
    columns = (token,) if isinstance(token, str) else token
    return describe_token(next(text for text in columns if trait in find_traits(text)))
