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
        first_labels, later_labels = self._map_texts()
        # best[i] spells word[:i] with the fewest labels; None if no labels spell it.
        best: list[list[int] | None] = [[], *[None] * len(word)]
        max_length = max(map(len, ["", *first_labels, *later_labels]))
        for end in range(1, len(word) + 1):
            for begin in range(max(0, end - max_length), end):
                spelling_before, text = best[begin], word[begin:end]
                label = (first_labels if begin == 0 else later_labels).get(text)
                new_labels = [] if label is None else [label]
                if label is None and begin == 0 and text in later_labels and "" in first_labels:
                    # The marker of a word start is a label by itself: "▁" and then the piece.
                    new_labels = [first_labels[""], later_labels[text]]
                if not new_labels or spelling_before is None:
                    continue
                best_so_far = best[end]
                if best_so_far is None or len(spelling_before) + len(new_labels) < len(best_so_far):
                    best[end] = [*spelling_before, *new_labels]
        spelling = best[-1]
        if spelling is None:
            spelt_length = max(i for i, labels in enumerate(best) if labels is not None)
            raise InputError(f"the labels cannot spell {word[spelt_length]!r} in the word {word!r}")
        return spelling

    def _map_texts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return two maps from text to label: for the start of a word, and for the rest of it."""
        first_labels: dict[str, int] = {}
        later_labels: dict[str, int] = {}
        for i, piece in enumerate(self.pieces):
            if i in (self.blank, self.space):
                continue
            if self.units != "bpe" or piece.starts:
                first_labels.setdefault(piece.text, i)
            if self.units == "characters" or (self.units == "bpe" and not piece.starts):
                later_labels.setdefault(piece.text, i)
        return first_labels, later_labels


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
    unit = _guess_units(texts, blank_index) if units == "auto" else units
    space = _find_space(texts) if unit == "characters" else -1
    if blank_index == space:
        raise InputError(f"label {space} cannot be both the blank and the separator of words")
    wordpiece = any(label.startswith(_CONTINUATION) for label in texts)
    pieces = []
    for i, label in enumerate(texts):
        if i in (blank_index, space):
            pieces.append(Piece("" if i == blank_index else " ", False, False))
        elif unit == "bpe":
            pieces.append(_parse_bpe(label, wordpiece))
        else:
            text = "⁇" if _UNKNOWN.fullmatch(label) else label
            pieces.append(Piece(text, unit == "words", unit == "words"))
        if unit != "characters" and any(character.isspace() for character in pieces[-1].text):
            raise InputError(f"label {i} is {label!r}: {unit} cannot contain spaces")
    return LabelSet(texts, tuple(pieces), unit, blank_index, space)


def _check_texts(labels: Any) -> tuple[str, ...]:
    """Return the labels as a tuple. Raise InputError unless they are distinct texts."""
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise InputError(f"labels must be a list of str, not {type(labels).__name__}")
    index_of_label: dict[str, int] = {}
    for i, label in enumerate(labels):
        if not is_text(label):
            raise InputError(f"label {i} is {label!r}: must be a str without unpaired surrogates")
        if label in index_of_label:
            raise InputError(
                f"labels {index_of_label[label]} and {i} are both {label!r}: "
                "labels must be distinct"
            )
        index_of_label[label] = i
    return tuple(labels)


def _find_blank(labels: tuple[str, ...], blank: int | None) -> int:
    """Return the index of the blank."""
    if blank is not None:
        index = as_integer(blank, "blank")
        if not 0 <= index < len(labels):
            raise InputError(f"blank is {index}: must be 0 to {len(labels) - 1}")
        return index
    for pattern in _BLANKS:
        matches = [i for i, label in enumerate(labels) if pattern.fullmatch(label)]
        if len(matches) > 1:
            first, second = matches[:2]
            raise InputError(
                f"labels {first} and {second} both look like the blank: "
                "pass the index of the blank: blank=…, or --blank in commands"
            )
        if matches:
            return matches[0]
    raise InputError(
        'no label is "", <pad>, [PAD], <blank>, [BLANK] or _: '
        "pass the index of the blank: blank=…, or --blank in commands"
    )


def _guess_units(labels: tuple[str, ...], blank: int) -> str:
    """Return the kind of labels for ``units="auto"``."""
    if any(label.startswith((_WORD_START, _CONTINUATION)) for label in labels):
        return "bpe"
    texts = [label for i, label in enumerate(labels) if i != blank and not _SPECIAL.match(label)]
    are_single_letters = all(len(label) == 1 for label in texts)
    return "characters" if are_single_letters or _find_space(labels) >= 0 else "words"


def _find_space(labels: tuple[str, ...]) -> int:
    """Return the index of the label that separates words, or -1 if there is none."""
    for separator in (" ", "|"):
        if separator in labels:
            return labels.index(separator)
    return -1


def _parse_bpe(label: str, wordpiece: bool) -> Piece:
    """Return the letters of a label, and whether its markers start or end a word."""
    if _UNKNOWN.fullmatch(label):
        return Piece("⁇", True, True)
    if wordpiece:
        continues_word = label.startswith(_CONTINUATION)
        return Piece(label.removeprefix(_CONTINUATION), not continues_word, False)
    starts_word, ends_word = (
        label.startswith(_WORD_START),
        len(label) > 1 and label.endswith(_WORD_START),
    )
    return Piece(
        label.removeprefix(_WORD_START).removesuffix(_WORD_START),
        starts_word,
        ends_word,
    )
