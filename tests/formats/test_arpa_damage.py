"""Broken ARPA files: an error with the line, or a model; never a crash, never much memory."""

from __future__ import annotations

import gzip
import math
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from arpa_models import GOOD
from scale import SANITIZED

from trellis.errors import FormatError, InputError
from trellis.formats import arpa

LINES = GOOD.split("\n")


def line_of(text: str) -> int:
    """The number of the first line that holds a text, from 1."""
    return next(n for n, line in enumerate(LINES, 1) if text in line)


def replaced(old: str, new: str) -> tuple[str, int]:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new), line_of(old)


BROKEN = {
    "no number": replaced("-0.5\tblue", "half\tblue"),
    "half a number": replaced("-0.5\tblue", "-0.5x\tblue"),
    "NaN": replaced("-0.5\tblue", "nan\tblue"),
    "infinite": replaced("-0.5\tblue", "inf\tblue"),
    "back-off is no number": replaced("blue\t-0.125", "blue\tlow"),
    "back-off is NaN": replaced("blue\t-0.125", "blue\tnan"),
    "no word": replaced("-1.0\tsky\t-0.0625", "-1.0"),
    "a word is missing": replaced("blue sky\t-0.375", "blue\t-0.375"),
    "a word too many": replaced("blue sky\t-0.375", "blue blue sky\t-0.375"),
    "a word that is no unigram": replaced("-0.125\tblue sky", "-0.125\tgreen sky"),
    "a count is no number": replaced("ngram 2=3", "ngram 2=three"),
    "a count below zero": replaced("ngram 2=3", "ngram 2=-3"),
    "a count is missing": replaced("ngram 2=3", "ngram 2="),
    "a length is missing": replaced("ngram 2=3", "ngram 4=3"),
    "a count beyond all": replaced("ngram 2=3", "ngram 2=99999999999999999999999"),
    "sections in another order": replaced("\\2-grams:", "\\3-grams:"),
    "no such section": replaced("\\2-grams:", "\\2-gram:"),
    "a probability above 1": replaced("-0.5\tblue", "0.5\tblue"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_line_is_named(tmp_path: Path, name: str) -> None:
    text, line = BROKEN[name]
    path = tmp_path / "broken.arpa"
    path.write_text(text)
    with pytest.raises(FormatError, match=re.escape(f"broken.arpa, line {line}:")) as caught:
        arpa.read(path)
    assert "\n" not in str(caught.value)


COUNTED = {
    "fewer unigrams than said": "ngram 1=5",
    "fewer bigrams than said": "ngram 2=3",
    "fewer trigrams than said": "ngram 3=1",
}


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("by", [1, -1])
def test_counts_that_are_wrong(tmp_path: Path, name: str, by: int) -> None:
    said = COUNTED[name]
    head, _, count = said.partition("=")
    path = tmp_path / "broken.arpa"
    path.write_text(GOOD.replace(said, f"{head}={int(count) + by}"))
    with pytest.raises(FormatError, match=r"broken\.arpa, line \d+: "):
        arpa.read(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "no model\n",
        "\\data\\\n",
        "\\data\\\nngram 1=0\n\n\\1-grams:\n\n\\end\\\n",
        GOOD.replace("\\data\\", "data"),
        GOOD.replace("\\end\\", ""),
        GOOD.partition("\\3-grams:")[0],
        GOOD.replace("-0.5\tsky </s>\n", "-0.5\tsky </s>\n-0.5\tsky </s>\n"),
        GOOD.replace("-1.0\tsky\t-0.0625\n", "-1.0\tsky\t-0.0625\n-1.0\tblue\n"),
    ],
    ids=range(10),
)
def test_rejected_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.arpa"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"broken\.arpa"):
        arpa.read(path)


def test_duplicates_are_named_by_their_line(tmp_path: Path) -> None:
    text = GOOD.replace("-0.5\tsky </s>\n", "-0.5\tblue sky\n")
    (tmp_path / "twice.arpa").write_text(text)
    with pytest.raises(FormatError, match=r"twice\.arpa, line 16: "):
        arpa.read(tmp_path / "twice.arpa")


def test_every_truncation_is_detected(tmp_path: Path) -> None:
    """A file without \\end\\ was truncated."""
    path = tmp_path / "cut.arpa"
    for length in range(GOOD.index("\\end\\") + len("\\end\\")):
        path.write_bytes(GOOD.encode()[:length])
        with pytest.raises(FormatError, match=r"cut\.arpa"):
            arpa.read(path)


@pytest.mark.parametrize("name", ["cut.arpa.gz", "cut.arpa"])
def test_truncated_compressed_files(tmp_path: Path, name: str) -> None:
    packed = gzip.compress(GOOD.encode())
    (tmp_path / name).write_bytes(packed[: len(packed) // 2])
    with pytest.raises(FormatError, match=re.escape(name)):
        arpa.read(tmp_path / name)


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "bytes.arpa"
    path.write_bytes(GOOD.encode().replace(b"-0.5\tblue", b"-0.5\tbl\xff\xfee"))
    line = line_of("-0.5\tblue")
    with pytest.raises(FormatError, match=rf"bytes\.arpa, line {line}: "):
        arpa.read(path)
    path.write_bytes(bytes(range(256)) * 100)
    with pytest.raises(FormatError, match=r"bytes\.arpa"):
        arpa.read(path)


GREEDY = """
import resource, sys
from trellis.errors import FormatError
from trellis.formats import arpa
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
try:
    arpa.read(sys.argv[1])
except FormatError as error:
    print(error)
"""


@pytest.mark.skipif(SANITIZED, reason="limits the memory")
@pytest.mark.parametrize("length", [1, 2, 3])
def test_no_memory_is_allocated_for_a_declared_count(tmp_path: Path, length: int) -> None:
    path = tmp_path / "greedy.arpa"
    path.write_text(re.sub(rf"ngram {length}=\d", f"ngram {length}=4000000000", GOOD))
    ran = subprocess.run([sys.executable, "-c", GREEDY, path], capture_output=True, text=True)
    assert "greedy.arpa, line " in ran.stdout, ran.stderr


def test_invalid_paths() -> None:
    for odd in (7, None, b"lm.arpa", ["lm.arpa"]):
        with pytest.raises(InputError):
            arpa.read(odd)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        arpa.read("/nowhere/lm.arpa")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        arpa.read(tmp_path)


def mutant(data: bytes, rng: random.Random) -> bytes:
    """A file with one to three bytes, words or lines changed, lost or doubled."""
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(4)
        if kind == 0:
            at = rng.randrange(len(data))
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            lines = data.split(b"\n")
            a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[a] = rng.choice([lines[b], b"", lines[a] + b"\t" + lines[b]])
            data = b"\n".join(lines)
        elif kind == 2:
            words = re.split(rb"([\t \n=])", data)
            a, b = rng.randrange(len(words)), rng.randrange(len(words))
            words[a] = rng.choice([words[b], b"", b"9" * 30, b"-1e400", b"\0"])
            data = b"".join(words)
        else:
            a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
            data = data[:a] + data[b:] if rng.random() < 0.5 else data[:b] + data[a:]
        data = data or b"\n"
    return data


def test_mutants(tmp_path: Path) -> None:
    rng, path, errors = random.Random(3), tmp_path / "mutant.arpa", []
    for _ in range(800):
        path.write_bytes(mutant(GOOD.encode(), rng))
        try:
            lm = arpa.read(path)
        except FormatError as error:
            errors.append(str(error))
            continue
        assert not math.isnan(lm.score("blue sky green blue"))
        assert not math.isnan(lm.score("sky", bos=False, eos=False))
    assert all("mutant.arpa" in error and len(error) < 500 for error in errors)
    assert 100 < len(errors) < 780, "most are broken, some are still right"
