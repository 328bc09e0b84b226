"""pyctcdecode's `Alphabet`: the labels of a network, converted to one notation.

>>> Alphabet.build_alphabet(["<pad>", "|", "a", "[UNK]"]).labels
['', ' ', 'a', '⁇']
>>> Alphabet.build_alphabet(["B", "##ugs", "[PAD]"]).labels
['▁B', 'ugs', '']
"""

from __future__ import annotations

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
_CONTINUATION = "##"  # BERT's prefix of pieces that do not start a word

logger = logging.getLogger(__name__)


class Alphabet:
    """Labels: ``""`` is the blank, ``" "`` separates words, a subword with ``▁`` starts a word."""

    def __init__(self, labels: list[str], is_bpe: bool) -> None:
        self._labels = labels
        self._is_bpe = is_bpe

    @property
    def is_bpe(self) -> bool:
        """True if the labels are subwords."""
        return self._is_bpe

    @property
    def labels(self) -> list[str]:
        """A copy of the labels."""
        return self._labels[:]

    @classmethod
    def build_alphabet(cls, labels: list[str]) -> Alphabet:
        """Return the alphabet of a network's labels. A blank is appended if there is none."""
        names = _check_labels(labels)
        is_bpe = any(label.startswith((_CONTINUATION, BPE_TOKEN)) for label in names)
        if len(set(names)) != len(names):
            raise InputError("labels contain a label twice: labels must be distinct")
        if is_bpe and any(" " in label for label in names):
            raise InputError("a subword in labels contains a space: must not contain spaces")
        return cls(_normalize_bpe_alphabet(names) if is_bpe else _normalize_regular(names), is_bpe)

    def dumps(self) -> str:
        """Return the alphabet as JSON."""
        return json.dumps({"labels": self.labels, "is_bpe": self.is_bpe})

    @classmethod
    def loads(cls, s: str) -> Alphabet:
        """Return the alphabet of a JSON string.

        >>> Alphabet.loads(Alphabet(["", "a"], False).dumps()).labels
        ['', 'a']
        """
        try:
            content = json.loads(s)
        except (TypeError, ValueError, RecursionError) as error:
            raise FormatError(f"the alphabet is not valid JSON: {error}") from None
        if not isinstance(content, dict) or set(content) != {"is_bpe", "labels"}:
            raise FormatError("the alphabet must have exactly the keys is_bpe and labels")
        if not isinstance(content["is_bpe"], bool):
            raise FormatError(f"is_bpe is {content['is_bpe']!r:.80}: must be true or false")
        try:
            return cls(_check_labels(content["labels"]), content["is_bpe"])
        except InputError as error:
            raise FormatError(str(error)) from None


def _check_labels(labels: Any) -> list[str]:
    """Return the labels as a list. Raise InputError if one is not a valid str."""
    if isinstance(labels, str) or not isinstance(labels, list | tuple):
        raise InputError(f"labels must be a list of str, not {type(labels).__name__}")
    for i, label in enumerate(labels):
        if not is_text(label):
            raise InputError(
                f"label {i} is {label!r:.80}: must be a str without unpaired surrogates"
            )
    return list(labels)


def _normalize_regular(labels: list[str]) -> list[str]:
    """Return letters in the notation of this module.

    If there is no ``" "``, ``|`` separates words. If there is no blank, ``_`` is the blank.
    """
    names = labels[:]
    if "|" in names and " " not in names:
        names[names.index("|")] = " "
    names = ["" if BLANK_TOKEN_PTN.match(label) else label for label in names]
    if "_" in names and "" not in names:
        names[names.index("_")] = ""
    names = _append_blank(names)
    if any(len(label) > 1 and not UNK_TOKEN_PTN.match(label) for label in names):
        logger.warning("some labels have several letters, but none starts with ▁ or ##")
    if " " not in names:
        logger.warning("no label separates words")
    return [UNK_TOKEN if UNK_TOKEN_PTN.match(label) else label for label in names]


def _normalize_bpe_alphabet(labels: list[str]) -> list[str]:
    """Return subwords in the notation of this module: ``▁`` marks the start of a word."""
    names = labels[:]
    if any(label.startswith(_CONTINUATION) for label in names):
        names = [_mark_start(label) for label in names]
    names = _append_blank(["" if BLANK_TOKEN_PTN.match(label) else label for label in names])
    names = [UNK_BPE_TOKEN if UNK_TOKEN_PTN.match(label) else label for label in names]
    if UNK_BPE_TOKEN not in names:
        logger.warning("the labels have no %s for unknown tokens", UNK_BPE_TOKEN)
    return names


def _mark_start(label: str) -> str:
    """Return a label of BERT with ``▁`` at a word start, and without ``##``."""
    if label.startswith(_CONTINUATION):
        return label.removeprefix(_CONTINUATION)
    is_special = SPECIAL_TOKEN_PTN.match(label) or label in ("", BPE_TOKEN, UNK_BPE_TOKEN)
    return label if is_special else BPE_TOKEN + label


def _append_blank(labels: list[str]) -> list[str]:
    return labels if "" in labels else [*labels, ""]


def verify_alphabet_coverage(alphabet: Alphabet, unigrams: Collection[str]) -> None:
    """Log a warning if more than a fifth of the letters of the unigrams are not labels."""
    # A few unknown letters are normal. More than a fifth (pyctcdecode's limit) suggest that the
    # labels are in another case.
    letters = set("".join(unigrams))
    if len(letters - set(alphabet.labels)) > 0.2 * len(letters):
        logger.warning("many letters of the unigrams are not labels")
