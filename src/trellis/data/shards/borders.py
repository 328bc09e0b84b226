r"""Borders of shards in a text file: the first ends of sequences at or after multiples of a size.

A border depends on the bytes of the file alone, so every machine and every number of workers gets
the same shards. Offsets count decompressed bytes.

>>> list(find_borders([b"a\n\nb\n", b"\nc\n"], 2, BLANK_LINE))
[3, 6]
"""

import os
import re
from collections.abc import Iterable, Iterator

from trellis.data import files

__all__ = ["BLANK_LINE", "LINE", "cut_file", "find_borders"]

LINE = re.compile(rb"\n")
BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_BLOCK = 1 << 16  # bytes to read at a time


def cut_file(path: str, size: int, pattern: re.Pattern[bytes]) -> list[tuple[int, int]]:
    """Return the byte ranges of the shards of a file, each at least ``size`` bytes but the last.

    A file that is not compressed is read only near the borders.
    """
    with files.open_once(path) as file:
        is_packed = file.is_packed
        if is_packed:
            total, borders = _cut_stream(file, size, pattern)
    if not is_packed:
        total = os.stat(path).st_size
        borders = list(_seek_borders(path, total, size, pattern))
    ends = [*(border for border in borders if border < total), total]
    return [(begin, end) for begin, end in zip([0, *ends], ends, strict=False) if begin < end]


def find_borders(
    blocks: Iterable[bytes], size: int, pattern: re.Pattern[bytes], target: int | None = None
) -> Iterator[int]:
    """Yield the end of the first match at or after each multiple of ``size``, without repetition.

    With ``target``, the blocks start at the byte before it, and it replaces the first multiple.
    """
    offset, buffer = (0, b"") if target is None else (target - 1, b"")
    target = size if target is None else target
    for block in blocks:
        buffer += block
        while match := pattern.search(buffer, max(0, target - 1 - offset)):
            border = offset + match.end()
            yield border
            target = (border // size + 1) * size
        # A match can start at the last line break of the block and end in the next block. Without
        # a line break nothing is kept, so a long line is searched only once.
        last = buffer.rfind(b"\n") if b"\n" in buffer else len(buffer)
        unused = min(len(buffer), max(0, target - 1 - offset, last))
        offset, buffer = offset + unused, buffer[unused:]


def _cut_stream(
    file: files.OpenFile, size: int, pattern: re.Pattern[bytes]
) -> tuple[int, list[int]]:
    """Return the number of decompressed bytes and the borders in them."""
    total = 0

    def read_blocks() -> Iterator[bytes]:
        nonlocal total
        while block := file.read(_BLOCK):
            total += len(block)
            yield block

    borders = list(find_borders(read_blocks(), size, pattern))
    return total, borders


def _seek_borders(path: str, total: int, size: int, pattern: re.Pattern[bytes]) -> Iterator[int]:
    target = size
    with open(path, "rb") as file:
        while target < total:
            file.seek(target - 1)
            blocks = iter(lambda: file.read(_BLOCK), b"")
            border = next(find_borders(blocks, size, pattern, target), None)
            if border is None:
                return
            yield border
            target = (border // size + 1) * size
