"""Damaged compressed files: a reader returns the full text or raises an error, never less text."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import zlib
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis import Vectors, Word2Vec
from trellis.data import conll, corpus, files, text
from trellis.data.compressed import _Gzip
from trellis.errors import FormatError
from trellis.formats import arpa, word2vec

zstandard = pytest.importorskip("zstandard")


def _pack_zstd(content: bytes) -> bytes:
    return bytes(zstandard.ZstdCompressor(write_checksum=True).compress(content))


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": _pack_zstd,
}
SUFFIXES = list(PACK)
FIRST, SECOND = b"one O\ntwo B-X\n\n", b"three O\nfour I-X\n"
COMPLETE = (FIRST + SECOND).decode().split("\n")[:-1]
every_suffix = pytest.mark.parametrize("suffix", SUFFIXES)


def read(content: bytes, suffix: str, size: int = 1 << 18) -> list[str]:
    """Return the lines of a file with this content and suffix."""
    file = io.BytesIO(content)
    file.name = f"corpus{suffix}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCK", size)
        return list(files.lines(file))


def is_refused(content: bytes, suffix: str) -> bool:
    """Return whether a file is refused by an error that names it."""
    try:
        read(content, suffix)
    except FormatError as error:
        return str(error).startswith(f"corpus{suffix}")
    return False


@every_suffix
@pytest.mark.parametrize("size", [1, 7, 1 << 18])
def test_several_streams_are_one_text(suffix: str, size: int) -> None:
    pack = PACK[suffix]
    assert read(pack(FIRST) + pack(SECOND), suffix, size) == COMPLETE
    assert read(pack(b"") + pack(FIRST) + pack(b"") + pack(SECOND + b"") + pack(b""), suffix) == (
        COMPLETE
    )
    assert read(pack(b""), suffix) == []
    assert read(b"".join(pack(bytes([byte])) for byte in FIRST + SECOND), suffix, size) == COMPLETE


@every_suffix
def test_a_long_text(suffix: str) -> None:
    """The text is longer than a block, and compresses to much less and to hardly less."""
    for line in (b"a" * 79, random.Random(0).randbytes(39).hex().encode()):
        content = (line + b"\n") * 20_000 + random.Random(1).randbytes(300_000).hex().encode()
        for packed in (
            PACK[suffix](content),
            PACK[suffix](content[:99]) + PACK[suffix](content[99:]),
        ):
            file = io.BytesIO(packed)
            assert "\n".join(files.lines(file)).encode() == content


@every_suffix
def test_truncation_at_every_byte(suffix: str) -> None:
    first, second = PACK[suffix](FIRST), PACK[suffix](SECOND)
    packed = first + second
    for end in range(len(packed)):
        if end == len(first):  # a complete file of one stream
            assert read(packed[:end], suffix) == FIRST.decode().split("\n")[:-1]
        else:
            assert is_refused(packed[:end], suffix), end


@every_suffix
def test_a_damaged_byte_anywhere(suffix: str) -> None:
    """Some bytes, such as the time in a gzip header, do not change the text."""
    packed = PACK[suffix](FIRST) + PACK[suffix](SECOND)
    refused = 0
    for position in range(len(packed)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(packed)
            damaged[position] ^= change
            if is_refused(bytes(damaged), suffix):
                refused += 1
            else:
                assert read(bytes(damaged), suffix) == COMPLETE, (position, change)
    assert refused > len(packed)


@every_suffix
@pytest.mark.parametrize("garbage", [b"garbage", b"\n", b"\x1f", b"\0" * 4 + b"x", b"\xfd7zXZ"])
def test_other_bytes_after_the_compressed_data(suffix: str, garbage: bytes) -> None:
    assert is_refused(PACK[suffix](FIRST) + garbage, suffix)
    assert is_refused(PACK[suffix](FIRST) + garbage + PACK[suffix](SECOND), suffix)


@every_suffix
@pytest.mark.parametrize("other", SUFFIXES)
def test_streams_of_two_formats(suffix: str, other: str) -> None:
    assert is_refused(PACK[suffix](FIRST) + PACK[other](SECOND), suffix) == (suffix != other)


@pytest.mark.parametrize(
    ("suffix", "count", "allowed"),
    [
        (".gz", 1, True),
        (".gz", 512, True),
        (".gz", 200_000, True),
        (".xz", 4, True),
        (".xz", 200_000, True),
        (".xz", 1, False),
        (".xz", 6, False),
        (".bz2", 4, False),
        (".zst", 4, False),
    ],
)
def test_padding_with_zero_bytes(suffix: str, count: int, allowed: bool) -> None:
    """As the format says: xz allows multiples of 4; gzip reads padded blocks of tapes."""
    first, second, padding = PACK[suffix](FIRST), PACK[suffix](SECOND), bytes(count)
    assert is_refused(first + padding, suffix) != allowed
    assert is_refused(first + padding + second, suffix) != allowed
    if allowed:
        assert read(first + padding + second + padding, suffix) == COMPLETE
    assert is_refused(padding + first, suffix)


def test_frames_that_zstd_skips() -> None:
    skipped = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"other"
    assert read(skipped + _pack_zstd(FIRST) + skipped + _pack_zstd(SECOND), ".zst") == COMPLETE
    assert is_refused(_pack_zstd(FIRST) + skipped[:-1], ".zst")


def test_an_xz_file_that_demands_much_memory() -> None:
    packed = bytearray(lzma.compress(FIRST))
    # Block header: size, flags, filter, size of its properties, dictionary, padding, checksum.
    assert packed[12:16] == b"\x02\x00\x21\x01"
    assert packed[20:24] == zlib.crc32(packed[12:20]).to_bytes(4, "little")
    packed[16] = 40  # a dictionary of 4 GB
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    assert is_refused(bytes(packed), ".xz")


@every_suffix
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_any_damage_gives_the_full_text_or_an_error(suffix: str, data: st.DataObject) -> None:
    pieces = data.draw(
        st.lists(st.sampled_from([FIRST, SECOND, b"", b"x" * 3000]), min_size=1, max_size=4)
    )
    packed = bytearray(b"".join(map(PACK[suffix], pieces)))
    expected = list(files.lines(io.BytesIO(b"".join(pieces))))
    borders = [0, *accumulate(len(PACK[suffix](piece)) for piece in pieces)]
    begin = data.draw(st.integers(0, len(packed)))
    end = data.draw(st.integers(begin, min(len(packed), begin + 20)))
    inserted = data.draw(st.binary(max_size=20))
    is_removed_stream = begin in borders and end in borders and not inserted
    damaged = bytes(packed[:begin] + inserted + packed[end:])
    try:
        lines = read(damaged, suffix, size=data.draw(st.sampled_from([1, 100, 1 << 18])))
    except FormatError:
        return
    if not is_removed_stream:
        assert lines == expected


@pytest.mark.parametrize("name", ["a.txt", "a.bz2", "a.gz", "a.zst"])
@pytest.mark.parametrize("line", ["BZh", "BZh9", "(", "P", "Pab", "BZh91AY", "\t(a"])
def test_texts_that_resemble_compressed_files(tmp_path: Path, name: str, line: str) -> None:
    path = tmp_path / name
    path.write_text(f"{line}\n")
    assert list(files.lines(path)) == [line]


# ---- all readers


def damaged_file(folder: Path, name: str, content: bytes) -> Path:
    """Write a file of two streams, the second of which is damaged, and return its path."""
    cut = content.index(b"\n", len(content) // 2) + 1
    pack = PACK[Path(name).suffix]
    second = bytearray(pack(content[cut:]))
    second[-9] ^= 0xFF
    path = folder / name
    path.write_bytes(pack(content[:cut]) + second)
    return path


READERS: dict[str, tuple[Callable[[Path], object], str, bytes]] = {
    "conll": (conll.read, "a.conll", (FIRST + b"\n") * 50),
    "corpus": (corpus.read, "a.conll", (FIRST + b"\n") * 50),
    "text": (text.read, "a.txt", b"one two\n" * 50),
    "vectors": (Vectors.load, "a.vec", b"".join(b"w%d 1 2 3\n" % n for n in range(50))),
    "word2vec": (word2vec.read, "a.vec", b"".join(b"w%d 1 2 3\n" % n for n in range(50))),
    "embed": (
        lambda path: Word2Vec(4, min_count=1, sample=0, epochs=1, n_jobs=1).fit(path),
        "a.txt",
        b"a rose is a rose\n" * 50,
    ),
    "arpa": (
        arpa.read,
        "a.arpa",
        b"\\data\\\nngram 1=3\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 a\n\n\\end\\\n",
    ),
}


@every_suffix
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_a_damaged_second_stream(
    tmp_path: Path, suffix: str, reader: str
) -> None:
    function, name, content = READERS[reader]
    (tmp_path / f"good{suffix}").write_bytes(PACK[suffix](content))  # also without its extension
    function(tmp_path / f"good{suffix}")
    path = damaged_file(tmp_path, name + suffix, content)
    with pytest.raises(FormatError, match="cannot be decompressed") as caught:
        function(path)
    assert str(caught.value).count(name + suffix) == 1


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 1001])
def test_gzip_byte_by_byte(size: int) -> None:
    """Input is needed only when zlib holds back no output."""
    data = b"a" * 1000
    packed = iter([bytes([byte]) for byte in gzip.compress(data)])
    stream, blocks = _Gzip(), []
    while not stream.eof:
        blocks.append(stream.decompress(next(packed) if stream.needs_input else b"", size))
        assert len(blocks[-1]) <= size
    assert b"".join(blocks) == data
    assert not [*packed]
