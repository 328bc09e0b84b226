"""pyctcdecode's `Alphabet`: labels in its own notation, whoever trained the network.

>>> Alphabet.build_alphabet(["<pad>", "|", "a", "[UNK]"]).labels
['', ' ', 'a', '⁇']
>>> Alphabet.build_alphabet(["B", "##ugs", "[PAD]"]).labels
['▁B', 'ugs', '']
"""

import json
import logging
import re
from collections.abc import Collection
from typing import Any

from trellis.checks import is_text
from trellis.errors import FormatError, InputError

__all__ = ["Alphabet", "verify_alphabet_coverage"]

BPE_TOKEN = "▁"
UNK_TOKEN = "⁇"
UNK_BPE_TOKEN = "▁⁇▁"
SPECIAL_TOKEN_PTN = re.compile(r"^[<\[].+[>\]]$")
BLANK_TOKEN_PTN = re.compile(r"^[<\[]pad[>\]]$", re.IGNORECASE)
UNK_TOKEN_PTN = re.compile(r"^[<\[]unk[>\]]$", re.IGNORECASE)
_REST = "##"

logger = logging.getLogger(__name__)


class Alphabet:
    """Labels: ``""`` is the blank, ``" "`` parts words, ``▁`` begins one in pieces of words."""

    def __init__(self, labels: list[str], is_bpe: bool) -> None:
        self._labels = labels
        self._is_bpe = is_bpe

    @property
    def is_bpe(self) -> bool:
        """Whether the labels are pieces of words."""
        return self._is_bpe

    @property
    def labels(self) -> list[str]:
        """A copy of the labels."""
        return self._labels[:]

    @classmethod
    def build_alphabet(cls, labels: list[str]) -> "Alphabet":
        """From labels as a network has them. Where none is the blank, there is one more behind."""
        own = _checked(labels)
        is_bpe = any(label.startswith((_REST, BPE_TOKEN)) for label in own)
        if len(set(own)) != len(own):
            raise InputError("the alphabet has a label twice")
        if is_bpe and any(" " in label for label in own):
            raise InputError("an alphabet of pieces of words has no label with a space in it")
        return cls(_normalize_bpe_alphabet(own) if is_bpe else _normalize_regular(own), is_bpe)

    def dumps(self) -> str:
        """As JSON."""
        return json.dumps({"labels": self.labels, "is_bpe": self.is_bpe})

    @classmethod
    def loads(cls, s: str) -> "Alphabet":
        """From JSON.

        >>> Alphabet.loads(Alphabet(["", "a"], False).dumps()).labels
        ['', 'a']
        """
        try:
            found = json.loads(s)
        except (TypeError, ValueError, RecursionError) as error:
            raise FormatError(f"an alphabet must be JSON: {error}") from None
        if not isinstance(found, dict) or set(found) != {"is_bpe", "labels"}:
            raise FormatError("an alphabet must have the keys is_bpe and labels, and no others")
        if not isinstance(found["is_bpe"], bool):
            raise FormatError(f"is_bpe is {found['is_bpe']!r:.80}: must be true or false")
        try:
            return cls(_checked(found["labels"]), found["is_bpe"])
        except InputError as error:
            raise FormatError(str(error)) from None


def _checked(labels: Any) -> list[str]:
    if isinstance(labels, str) or not isinstance(labels, list | tuple):
        raise InputError(f"labels must be a list of strs, not {type(labels).__name__}")
    for i, label in enumerate(labels):
        if not is_text(label):
            raise InputError(f"label {i} is {label!r:.80}: must be text")
    return list(labels)


def _normalize_regular(labels: list[str]) -> list[str]:
    """Letters: ``|`` parts words if no ``" "`` does, ``_`` is the blank if nothing else is."""
    own = labels[:]
    if "|" in own and " " not in own:
        own[own.index("|")] = " "
    own = ["" if BLANK_TOKEN_PTN.match(label) else label for label in own]
    if "_" in own and "" not in own:
        own[own.index("_")] = ""
    own = _with_blank(own)
    if any(len(label) > 1 and not UNK_TOKEN_PTN.match(label) for label in own):
        logger.warning("some labels have several letters, but none begins with ▁ or ##")
    if " " not in own:
        logger.warning("no label parts words")
    return [UNK_TOKEN if UNK_TOKEN_PTN.match(label) else label for label in own]


def _normalize_bpe_alphabet(labels: list[str]) -> list[str]:
    """Pieces of words, with ``▁`` before those that begin one."""
    own = labels[:]
    if any(label.startswith(_REST) for label in own):
        own = [_with_mark(label) for label in own]
    own = _with_blank(["" if BLANK_TOKEN_PTN.match(label) else label for label in own])
    own = [UNK_BPE_TOKEN if UNK_TOKEN_PTN.match(label) else label for label in own]
    if UNK_BPE_TOKEN not in own:
        logger.warning("no label is %s, for what is unknown", UNK_BPE_TOKEN)
    return own


def _with_mark(label: str) -> str:
    if label.startswith(_REST):
        return label.removeprefix(_REST)
    plain = SPECIAL_TOKEN_PTN.match(label) or label in ("", BPE_TOKEN, UNK_BPE_TOKEN)
    return label if plain else BPE_TOKEN + label


def _with_blank(labels: list[str]) -> list[str]:
    return labels if "" in labels else [*labels, ""]


def verify_alphabet_coverage(alphabet: Alphabet, unigrams: Collection[str]) -> None:
    """Warn where more than a fifth of the letters of the words are no labels."""
    letters = set("".join(unigrams))
    if len(letters - set(alphabet.labels)) > 0.2 * len(letters):
        logger.warning("many letters of the words are no labels")
