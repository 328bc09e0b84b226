"""Text as fastText cuts it: six kinds of white space and the zero byte; a line ends with a word."""

import re

from trellis.errors import InputError

__all__ = ["END", "encoded", "one_line", "tokens"]

END = b"</s>"
_TOKEN = re.compile(rb"[^ \n\r\t\v\f\0]+|\n")


def tokens(text: bytes) -> list[bytes]:
    r"""Words of a text, and ``</s>`` where a line ends.

    >>> tokens(b"a b\n")
    [b'a', b'b', b'</s>']
    """
    return [END if token == b"\n" else token for token in _TOKEN.findall(text)]


def encoded(text: str, what: str = "text") -> bytes:
    """UTF-8, or an error that says why not."""
    if not isinstance(text, str):
        raise InputError(f"{what} is {type(text).__name__}: must be a str")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{what} cannot be UTF-8: {error}") from None


def one_line(text: str, asked: str) -> bytes:
    """The bytes of a text that is to be one line, with its end."""
    line = encoded(text)
    if b"\n" in line:
        raise InputError(f"{asked} processes one line at a time (remove '\\n')")
    return line + b"\n"
