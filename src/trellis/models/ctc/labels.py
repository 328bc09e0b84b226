"""How the labels of a CTC network are written: which is the blank, and where words begin.

Three kinds of labels are known:

``characters``
    a label is a letter, and one of them, ``" "`` (or ``"|"`` if there is no ``" "``), parts words.
``bpe``
    pieces of words: ``▁`` before those that begin a word (SentencePiece), or ``##`` before those
    that do not (WordPiece).
``words``
    each label is a word.

``auto`` is bpe if some label begins with ``▁`` or ``##``; characters if there is a label that parts
words, or if no label is longer than a letter; words otherwise.

The blank is the label ``""``; if there is none ``<pad>``, ``[PAD]``, ``<blank>`` or ``[BLANK]``, in
capitals or not; if there is none ``_``. ``<unk>`` and ``[UNK]`` are written ``⁇``.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from trellis.checks import as_integer, is_text
from trellis.errors import InputError

__all__ = ["LabelSet", "read_labels"]

UNITS = ("auto", "characters", "bpe", "words")
_BLANKS = (re.compile(r""), re.compile(r"[<\[](pad|blank)[>\]]", re.I), re.compile(r"_"))
_UNKNOWN = re.compile(r"[<\[]unk[>\]]", re.I)
_SPECIAL = re.compile(r"[<\[].+[>\]]")
_PIECE, _REST = "▁", "##"


class Piece(NamedTuple):
    """A label: its letters, and whether a word begins before them or ends behind."""

    text: str
    starts: bool
    ends: bool


class LabelSet(NamedTuple):
    """Labels as the decoder takes them."""

    labels: tuple[str, ...]
    pieces: tuple[Piece, ...]
    units: str
    blank: int
    space: int  # the label that parts words; -1 if none does

    def spell(self, word: str) -> list[int]:
        """The labels of a word: as few as will do.

        >>> labels = read_labels(["", "▁to", "▁", "t", "o", "day"], None, "auto")
        >>> [labels.labels[i] for i in labels.spell("today")]
        ['▁to', 'day']
        """
        first, later = self._by_text()
        best: list[list[int] | None] = [[], *[None] * len(word)]
        longest = max(map(len, [*first, *later]), default=0)
        for end in range(1, len(word) + 1):
            for begin in range(max(0, end - longest), end):
                before, text = best[begin], word[begin:end]
                label = (first if begin == 0 else later).get(text)
                found = [] if label is None else [label]
                if label is None and begin == 0 and text in later and "" in first:
                    found = [first[""], later[text]]  # a mark of its own, then the piece
                if not found or before is None:
                    continue
                here = best[end]
                if here is None or len(before) + len(found) < len(here):
                    best[end] = [*before, *found]
        whole = best[-1]
        if whole is None:
            reached = max(i for i, way in enumerate(best) if way is not None)
            raise InputError(f"no label spells {word[reached]!r} in the word {word!r}")
        return whole

    def _by_text(self) -> tuple[dict[str, int], dict[str, int]]:
        """The labels that can begin a word, and those that can go on with one, by their letters."""
        first: dict[str, int] = {}
        later: dict[str, int] = {}
        for i, piece in enumerate(self.pieces):
            if i in (self.blank, self.space):
                continue
            if self.units != "bpe" or piece.starts:
                first.setdefault(piece.text, i)
            if self.units == "characters" or (self.units == "bpe" and not piece.starts):
                later.setdefault(piece.text, i)
        return first, later


def read_labels(labels: Sequence[str], blank: int | None, units: str) -> LabelSet:
    """Look at the labels and see which is what.

    >>> found = read_labels(["<pad>", "|", "a", "b"], None, "auto")
    >>> found.units, found.blank, found.space
    ('characters', 0, 1)
    >>> read_labels(["_", "##ing", "go"], None, "auto").pieces[1:]
    (Piece(text='ing', starts=False, ends=False), Piece(text='go', starts=True, ends=False))
    """
    own = _checked(labels)
    if units not in UNITS:
        raise InputError(f"units is {units!r}: must be one of {', '.join(UNITS)}")
    where = _blank(own, blank)
    kind = _kind(own, where) if units == "auto" else units
    space = _space(own) if kind == "characters" else -1
    if where == space:
        raise InputError(f"label {where} cannot be both the blank and what parts words")
    wordpiece = any(label.startswith(_REST) for label in own)
    pieces = []
    for i, label in enumerate(own):
        if i in (where, space):
            pieces.append(Piece("" if i == where else " ", False, False))
        elif kind == "bpe":
            pieces.append(_bpe(label, wordpiece))
        else:
            text = "⁇" if _UNKNOWN.fullmatch(label) else label
            pieces.append(Piece(text, kind == "words", kind == "words"))
        if kind != "characters" and any(c.isspace() for c in pieces[-1].text):
            raise InputError(f"label {i} is {label!r}: {kind} have no spaces in them")
    return LabelSet(own, tuple(pieces), kind, where, space)


def _checked(labels: Any) -> tuple[str, ...]:
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise InputError(f"labels must be a list of strs, not {type(labels).__name__}")
    seen: dict[str, int] = {}
    for i, label in enumerate(labels):
        if not is_text(label):
            raise InputError(f"label {i} is {label!r}: must be text")
        if label in seen:
            raise InputError(f"labels {seen[label]} and {i} are both {label!r}")
        seen[label] = i
    return tuple(labels)


def _blank(labels: tuple[str, ...], blank: int | None) -> int:
    if blank is not None:
        number = as_integer(blank, "blank")
        if not 0 <= number < len(labels):
            raise InputError(f"blank is {number}: must be 0 to {len(labels) - 1}")
        return number
    for pattern in _BLANKS:
        found = [i for i, label in enumerate(labels) if pattern.fullmatch(label)]
        if len(found) > 1:
            raise InputError(f"labels {found[0]} and {found[1]} may both be the blank: pass blank=")
        if found:
            return found[0]
    raise InputError('no label is "", <pad>, [PAD], <blank> or _: pass the index as blank=')


def _kind(labels: tuple[str, ...], blank: int) -> str:
    if any(label.startswith((_PIECE, _REST)) for label in labels):
        return "bpe"
    letters = [label for i, label in enumerate(labels) if i != blank and not _SPECIAL.match(label)]
    one_each = all(len(label) == 1 for label in letters)
    return "characters" if one_each or _space(labels) >= 0 else "words"


def _space(labels: tuple[str, ...]) -> int:
    for mark in (" ", "|"):
        if mark in labels:
            return labels.index(mark)
    return -1


def _bpe(label: str, wordpiece: bool) -> Piece:
    if _UNKNOWN.fullmatch(label):
        return Piece("⁇", True, True)
    if wordpiece:
        rest = label.startswith(_REST)
        return Piece(label.removeprefix(_REST), not rest, False)
    starts, ends = label.startswith(_PIECE), len(label) > 1 and label.endswith(_PIECE)
    return Piece(label.removeprefix(_PIECE).removesuffix(_PIECE if ends else ""), starts, ends)
