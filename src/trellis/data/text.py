r"""Plain text with one sequence per line, and the tokenizer of raw text.

A token is a word (``\w+``, possibly with apostrophes inside), or one other character that is not
white space.
"""

import re
from collections.abc import Iterator

from trellis.data import files
from trellis.data.files import Source

__all__ = ["iterate", "offsets", "read", "tokenize"]

_TOKEN = re.compile(r"\w+(?:['’]\w+)*|\S")


def tokenize(text: str) -> list[str]:
    """Return the tokens of a raw text.

    >>> tokenize("Don't pay $9.50, O’Neil!")
    ["Don't", 'pay', '$', '9', '.', '50', ',', 'O’Neil', '!']
    """
    return _TOKEN.findall(text)


def offsets(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each token of a raw text: ``text[start:end]`` is the token.

    >>> offsets("It's  me.")
    [(0, 4), (6, 8), (8, 9)]
    """
    return [match.span() for match in _TOKEN.finditer(text)]


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
