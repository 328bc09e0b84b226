"""Labels that are probably misspelt: variants of a frequent label in case, space or one letter."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trellis.app.checking.characters import remove_invisible

__all__ = ["Misspelling", "count_names", "find_misspellings", "get_name"]

_MIN_RATIO = 10  # a label is suspicious if a similar one is at least this many times as frequent
# Words with fewer letters are not compared, because tag sets have codes that differ in one letter,
# such as NN and NNS, VBD-TL and VBN-TL.
_MIN_LENGTH = 5
# For two swapped letters, shorter words are enough: PRE and PER are rarely two different labels.
_MIN_SWAPPED = 3
_DISTINCT = ({"PRON", "PROPN"}, {"CCONJ", "SCONJ"})  # correct tags of Universal Dependencies
_WORD = re.compile(r"[^\W\d_]+")


class Misspelling(NamedTuple):
    """A label and the label that was probably meant."""

    label: str
    meant: str
    reason: str


def get_name(label: str, scheme: str) -> str:
    """Return the name of a tag without its letter; in the scheme plain, the label itself.

    >>> get_name("B-PER", "BIO"), get_name("B-PER", "plain"), get_name("PER", "BIO")
    ('PER', 'B-PER', 'PER')
    """
    letter, hyphen, name = label.partition("-")
    return name if scheme != "plain" and len(letter) == 1 and hyphen else label


def count_names(labels: Mapping[str, int], scheme: str) -> Counter[str]:
    """Return the number of tokens of each name."""
    names: Counter[str] = Counter()
    for label, count in labels.items():
        names[get_name(label, scheme)] += count
    return names


def find_misspellings(labels: Mapping[str, int], scheme: str) -> Iterator[Misspelling]:
    """Yield the labels that are probably misspelt, each once."""
    reported = set()
    for entry in _find_variants(labels):
        reported.add(entry.label)
        yield entry
    names = count_names(labels, scheme)
    frequent_name_of = dict(_find_similar(names))
    for label in labels:
        frequent_name = frequent_name_of.get(get_name(label, scheme))
        if frequent_name is not None and label not in reported:
            count = names[frequent_name]
            reason = f"{count:,} tokens are {frequent_name!r}, which differs in one letter"
            yield Misspelling(label, frequent_name, reason)


def _find_variants(labels: Mapping[str, int]) -> Iterator[Misspelling]:
    """Yield labels that are equal to a more frequent one except for case and separators."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(_fold_label(label), []).append(label)
    for group in groups.values():
        meant = max(group, key=lambda label: labels[label])
        for label in group:
            if label != meant:
                reason = (
                    f"{labels[meant]:,} tokens are {meant!r}, "
                    "which differs in case, white space or separators"
                )
                yield Misspelling(label, meant, reason)


def _fold_label(label: str) -> str:
    folded_label = remove_invisible(unicodedata.normalize("NFKC", label)).casefold()
    return "o" if folded_label == "0" else folded_label.replace("_", "-")


def _find_similar(names: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield pairs (rare name, frequent name) that differ in one letter."""
    by_count = sorted(names, key=lambda name: -names[name])
    for rare in names:
        for frequent in by_count:
            if names[frequent] < _MIN_RATIO * names[rare]:
                break
            if _is_one_edit(rare, frequent):
                yield rare, frequent
                break


def _is_one_edit(rare_name: str, frequent_name: str) -> bool:
    """Return whether one letter is inserted, removed or replaced, or two neighbours are swapped.

    The letter must be part of a word. Digits are not letters: ARG1 and ARG2 are two labels.

    >>> _is_one_edit("PRE", "PER"), _is_one_edit("locaton", "location"), _is_one_edit("a1", "a2")
    (True, True, False)
    >>> _is_one_edit("JJ-TL", "NN-TL"), _is_one_edit("NN$-TL", "NN-TL")
    (False, False)
    """
    if abs(len(rare_name) - len(frequent_name)) > 1 or {rare_name, frequent_name} in _DISTINCT:
        return False
    start = 0
    while (
        start < min(len(rare_name), len(frequent_name)) and rare_name[start] == frequent_name[start]
    ):
        start += 1
    end = 0
    while (
        end < min(len(rare_name), len(frequent_name)) - start
        and rare_name[-1 - end] == frequent_name[-1 - end]
    ):
        end += 1
    a, b = rare_name[start : len(rare_name) - end], frequent_name[start : len(frequent_name) - end]
    if not (a + b).isalpha():
        return False
    letters = _count_letters(frequent_name, start)
    if len(a) == len(b) == 2:
        return a == b[::-1] and letters >= _MIN_SWAPPED
    return max(len(a), len(b)) == 1 and letters >= _MIN_LENGTH


def _count_letters(text: str, position: int) -> int:
    """Return the length of the word around a position."""
    words = (match.span() for match in _WORD.finditer(text))
    return max((end - start for start, end in words if start <= position <= end), default=0)
