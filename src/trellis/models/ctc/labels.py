"""The labels of a CTC network: the index of the blank, and the labels that begin words.

There are three kinds of labels:

``characters``
    Each label is a letter. The label ``" "`` separates words. If it does not exist, ``"|"`` does.
``bpe``
    Each label is a piece of a word. ``▁`` marks pieces that start a word (SentencePiece), or
    ``##`` marks pieces that do not (WordPiece).
``words``
    Each label is a word.

``auto`` chooses ``bpe`` if a label starts with ``▁`` or ``##``, ``characters`` if a label separates
words or if every label is a single letter, and ``words`` otherwise.

The blank is the first of these that exists: the label ``""``; ``<pad>``, ``[PAD]``, ``<blank>`` or
``[BLANK]``, in upper or lower case; ``_``. In texts, ``<unk>`` and ``[UNK]`` become ``⁇``.
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
_WORD_START, _CONTINUATION = "▁", "##"


class Piece(NamedTuple):
    """A label: its letters, whether it starts a word, and whether it ends one."""

    text: str
    starts: bool
    ends: bool


class LabelSet(NamedTuple):
    """The parsed labels of a network."""

    labels: tuple[str, ...]
    """The labels as the user passed them."""
    pieces: tuple[Piece, ...]
    """The same labels without their markers."""
    units: str
    """``characters``, ``bpe`` or ``words``."""
    blank: int
    """Index of the blank."""
    space: int
    """Index of the label that separates words; -1 if there is none."""

    def spell(self, word: str) -> list[int]:
        """Return the shortest sequence of labels that spells a word.

        >>> labels = read_labels(["", "▁to", "▁", "t", "o", "day"], None, "auto")
        >>> [labels.labels[i] for i in labels.spell("today")]
        ['▁to', 'day']
        """
        first, later = self._map_texts()
        # best[i] spells word[:i] with the fewest labels; None if no labels spell it.
        best: list[list[int] | None] = [[], *[None] * len(word)]
        longest = max(map(len, [*first, *later]), default=0)
        for end in range(1, len(word) + 1):
            for begin in range(max(0, end - longest), end):
                before, text = best[begin], word[begin:end]
                label = (first if begin == 0 else later).get(text)
                step = [] if label is None else [label]
                if label is None and begin == 0 and text in later and "" in first:
                    # The marker of a word start is a label by itself: "▁" and then the piece.
                    step = [first[""], later[text]]
                if not step or before is None:
                    continue
                shortest = best[end]
                if shortest is None or len(before) + len(step) < len(shortest):
                    best[end] = [*before, *step]
        spelling = best[-1]
        if spelling is None:
            reached = max(i for i, labels in enumerate(best) if labels is not None)
            raise InputError(f"the labels cannot spell {word[reached]!r} in the word {word!r}")
        return spelling

    def _map_texts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return two maps from text to label: for the start of a word, and for the rest of it."""
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
    """Parse labels; ``blank`` is an index or None, ``units`` a kind of labels or "auto".

    >>> labels = read_labels(["<pad>", "|", "a", "b"], None, "auto")
    >>> labels.units, labels.blank, labels.space
    ('characters', 0, 1)
    >>> read_labels(["_", "##ing", "go"], None, "auto").pieces[1:]
    (Piece(text='ing', starts=False, ends=False), Piece(text='go', starts=True, ends=False))
    """
    texts = _check_texts(labels)
    if units not in UNITS:
        raise InputError(f"units is {units!r}: must be one of {', '.join(UNITS)}")
    blank_index = _find_blank(texts, blank)
    kind = _guess_units(texts, blank_index) if units == "auto" else units
    space = _find_space(texts) if kind == "characters" else -1
    if blank_index == space:
        raise InputError(f"label {space} cannot be both the blank and the separator of words")
    wordpiece = any(label.startswith(_CONTINUATION) for label in texts)
    pieces = []
    for i, label in enumerate(texts):
        if i in (blank_index, space):
            pieces.append(Piece("" if i == blank_index else " ", False, False))
        elif kind == "bpe":
            pieces.append(_parse_bpe(label, wordpiece))
        else:
            text = "⁇" if _UNKNOWN.fullmatch(label) else label
            pieces.append(Piece(text, kind == "words", kind == "words"))
        if kind != "characters" and any(c.isspace() for c in pieces[-1].text):
            raise InputError(f"label {i} is {label!r}: {kind} cannot contain spaces")
    return LabelSet(texts, tuple(pieces), kind, blank_index, space)


def _check_texts(labels: Any) -> tuple[str, ...]:
    """Return the labels as a tuple. Raise InputError unless they are distinct texts."""
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise InputError(f"labels must be a list of str, not {type(labels).__name__}")
    seen: dict[str, int] = {}
    for i, label in enumerate(labels):
        if not is_text(label):
            raise InputError(f"label {i} is {label!r}: must be a str without unpaired surrogates")
        if label in seen:
            raise InputError(
                f"labels {seen[label]} and {i} are both {label!r}: labels must be distinct"
            )
        seen[label] = i
    return tuple(labels)


def _find_blank(labels: tuple[str, ...], blank: int | None) -> int:
    """Return the index of the blank."""
    if blank is not None:
        number = as_integer(blank, "blank")
        if not 0 <= number < len(labels):
            raise InputError(f"blank is {number}: must be 0 to {len(labels) - 1}")
        return number
    for pattern in _BLANKS:
        matches = [i for i, label in enumerate(labels) if pattern.fullmatch(label)]
        if len(matches) > 1:
            first, second = matches[:2]
            raise InputError(
                f"labels {first} and {second} both look like the blank: "
                "pass the index of the blank as blank=…"
            )
        if matches:
            return matches[0]
    raise InputError(
        'no label is "", <pad>, [PAD], <blank>, [BLANK] or _: '
        "pass the index of the blank as blank=…"
    )


def _guess_units(labels: tuple[str, ...], blank: int) -> str:
    """Return the kind of labels for ``units="auto"``."""
    if any(label.startswith((_WORD_START, _CONTINUATION)) for label in labels):
        return "bpe"
    letters = [label for i, label in enumerate(labels) if i != blank and not _SPECIAL.match(label)]
    all_single = all(len(label) == 1 for label in letters)
    return "characters" if all_single or _find_space(labels) >= 0 else "words"


def _find_space(labels: tuple[str, ...]) -> int:
    """Return the index of the label that separates words, or -1 if there is none."""
    for mark in (" ", "|"):
        if mark in labels:
            return labels.index(mark)
    return -1


def _parse_bpe(label: str, wordpiece: bool) -> Piece:
    """Return the letters of a label, and whether its markers start or end a word."""
    if _UNKNOWN.fullmatch(label):
        return Piece("⁇", True, True)
    if wordpiece:
        continues = label.startswith(_CONTINUATION)
        return Piece(label.removeprefix(_CONTINUATION), not continues, False)
    starts, ends = label.startswith(_WORD_START), len(label) > 1 and label.endswith(_WORD_START)
    return Piece(
        label.removeprefix(_WORD_START).removesuffix(_WORD_START if ends else ""), starts, ends
    )
