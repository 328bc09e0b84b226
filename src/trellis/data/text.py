"""Plain text with one sequence per line, and the tokenizer of raw text.

Tokens are the words of Unicode's word segmentation (UAX #29) and single other characters. The rules
are in ``cpp/core/text``; docs/data.md lists the differences to UAX #29.
"""

from collections.abc import Iterator

from trellis import _core
from trellis.data import files
from trellis.data.files import Source
from trellis.errors import InputError

__all__ = ["iterate", "offsets", "read", "tokenize"]


def tokenize(text: str) -> list[str]:
    """Return the tokens of a raw text.

    A token is a word (letters, digits and underscores with their combining marks, possibly with
    apostrophes inside), an emoji, or one other character that is not white space. In scripts
    without spaces between words, such as Han, Hiragana and Thai, each character with its marks is a
    token, so that any part of the text can be labelled.

    >>> tokenize("Don't pay $9.50, O’Neil!")
    ["Don't", 'pay', '$', '9', '.', '50', ',', 'O’Neil', '!']
    >>> tokenize("नमस्ते, 東京タワー!")
    ['नमस्ते', ',', '東', '京', 'タワー', '!']
    """
    return _core.tokens(_check_text(text))


def offsets(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each token of a raw text: ``text[start:end]`` is the token.

    >>> offsets("It's  me.")
    [(0, 4), (6, 8), (8, 9)]
    """
    return _core.token_offsets(_check_text(text))


def _check_text(text: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"text must be a str, not {type(text).__name__}")
    return text


def read(source: Source, *, encoding: str = "utf-8", errors: str = "strict") -> list[list[str]]:
    """Return the sequences of a tokenised text: one per line, tokens separated by white space.

    Lines without a token are skipped. `source` is a path (also of a ``gzip`` or ``xz`` file), an
    open file, or lines.

    >>> read(["Ann sings .", "", "Hush !"])
    [['Ann', 'sings', '.'], ['Hush', '!']]
    """
    return list(iterate(source, encoding=encoding, errors=errors))


def iterate(
    source: Source, *, encoding: str = "utf-8", errors: str = "strict"
) -> Iterator[list[str]]:
    """Yield the sequences, in constant memory; arguments as in `read`.

    >>> next(iterate(["Ann sings .", "Hush !"]))
    ['Ann', 'sings', '.']
    """
    return filter(None, map(str.split, files.lines(source, encoding, errors)))
