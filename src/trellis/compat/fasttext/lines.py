"""Splits text into tokens as fastText does."""

import re

from trellis.errors import InputError

__all__ = ["END", "encoded", "one_line", "tokens"]

END = b"</s>"
# fastText splits at ASCII white space and NUL only, and a line feed is a token. str.split would
# also split at Unicode white space.
_TOKEN = re.compile(rb"[^ \n\r\t\v\f\0]+|\n")


def tokens(text: bytes) -> list[bytes]:
    r"""Return the words of a text, with ``</s>`` at the end of each line.

    >>> tokens(b"a b\n")
    [b'a', b'b', b'</s>']
    """
    return [END if token == b"\n" else token for token in _TOKEN.findall(text)]


def encoded(text: str, name: str = "text") -> bytes:
    """Return a text as UTF-8. ``name`` is the argument that error messages name."""
    if not isinstance(text, str):
        raise InputError(f"{name} is {type(text).__name__}: must be a str")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name} cannot be encoded as UTF-8: {error}") from None


def one_line(text: str, function: str) -> bytes:
    """Return one line of text as UTF-8 with a line feed at the end.

    Raise InputError if the text contains a line feed.
    """
    line = encoded(text)
    if b"\n" in line:
        raise InputError(f"{function} processes one line at a time (remove '\\n')")
    return line + b"\n"
