"""Characters of a token that a reader cannot see, and Unicode normal forms."""

import unicodedata

from trellis.data import files

__all__ = [
    "COMPOSED",
    "DAMAGED",
    "DECOMPOSED",
    "EMPTY",
    "INVISIBLE",
    "describe_token",
    "find_traits",
    "remove_invisible",
]

EMPTY = "empty"
INVISIBLE = "invisible"
DAMAGED = "damaged"
COMPOSED = "composed"
DECOMPOSED = "decomposed"

_REPLACEMENT = "\ufffd"
_INVISIBLE_CATEGORIES = {"Cc", "Cf", "Zl", "Zp", "Zs"}
_JOINERS = "\u200c\u200d"
# Format characters that are visible (Arabic number signs), or part of emoji (tag characters).
_VISIBLE_FORMATS = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x8E2, 0x110BD, *range(0xE0020, 0xE0080)}
_LAST_LATIN = 0x24F


def find_traits(text: str) -> tuple[str, ...]:
    r"""Return the traits of a token; an ordinary token has none.

    >>> find_traits("caf\u00e9"), find_traits("cafe\u0301"), find_traits("a\u200bb")
    (('composed',), ('decomposed',), ('invisible',))
    """
    if not text.strip():
        return (EMPTY,)
    traits = []
    if _find_invisible(text):
        traits.append(INVISIBLE)
    if _REPLACEMENT in text or _has_undecoded(text):
        traits.append(DAMAGED)
    if not text.isascii():
        if not unicodedata.is_normalized("NFC", text):
            traits.append(DECOMPOSED)
        elif not unicodedata.is_normalized("NFD", text):
            traits.append(COMPOSED)
    return tuple(traits)


def describe_token(text: str) -> str:
    r"""Return a token in quotes, with the names of its invisible characters.

    >>> print(describe_token("a\u200bb"))
    'a\u200bb' (U+200B ZERO WIDTH SPACE)
    """
    if _has_undecoded(text):
        return repr(text.encode("utf-8", "surrogateescape"))
    names = dict.fromkeys(_name_character(character) for character in _find_invisible(text))
    return files.quote(text) + (f" ({', '.join(names)})" if names else "")


def remove_invisible(text: str) -> str:
    """Return a text without white space and invisible characters."""
    hidden = {*_find_invisible(text), " "}
    return "".join(character for character in text if character not in hidden)


def _find_invisible(text: str) -> list[str]:
    """Return the invisible characters of a text."""
    # isprintable is fast. It is false for all invisible characters except the space.
    if text.isprintable():
        return []
    return [
        character
        for position, character in enumerate(text)
        if character != " "
        and unicodedata.category(character) in _INVISIBLE_CATEGORIES
        and ord(character) not in _VISIBLE_FORMATS
        and not _is_spelling(text, position)
    ]


def _is_spelling(text: str, position: int) -> bool:
    """Return whether a joiner stands between two letters of a script that uses it, or in emoji.

    The test is simple: the characters on both sides must come after the Latin letters in Unicode.
    """
    if text[position] not in _JOINERS or not 0 < position < len(text) - 1:
        return False
    return ord(text[position - 1]) > _LAST_LATIN and ord(text[position + 1]) > _LAST_LATIN


def _has_undecoded(text: str) -> bool:
    """Return whether a text has bytes that are not UTF-8; ``surrogateescape`` keeps them."""
    return any("\udc80" <= character <= "\udcff" for character in text)


def _name_character(character: str) -> str:
    name = unicodedata.name(character, "control character")
    return f"U+{ord(character):04X} {name}"
