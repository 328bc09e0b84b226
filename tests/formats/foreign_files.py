"""Build small models of CRFsuite, CRF++ and Wapiti, and damage them.

python tests/formats/foreign_files.py --count 100000

loads this number of damaged files. If the shared data exist, real models are damaged too. Loading
must raise a FormatError or return a usable model. It may take at most two seconds, and memory of at
most twice the size of the file + 64 MB.
"""

from __future__ import annotations

import argparse
import gzip
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import trellis
from trellis.compat.pycrfsuite import Tagger
from trellis.errors import FormatError
from trellis.formats import crfsuite
from trellis.formats.strings import pack_strings

sys.path.append(str(Path(__file__).parents[1]))  # when this file runs as a script
from corpus_files import find_corpus

MODELS = find_corpus("models")
SECONDS = 2.0
SPARE = 64 << 20
NUMBERS = [0, 1, 2, 7, 11, 47, 48, 255, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1]
Mutate = Callable[[bytes, random.Random], bytes]


# ---- models


def crfsuite_model(seed: int = 0, labels: int = 3, attributes: int = 12) -> bytes:
    rng = np.random.default_rng(seed)
    names, ends = pack_strings([f"w[{i % 3 - 1}]=é{i}" for i in range(attributes)])
    cells = np.flatnonzero(rng.random(attributes * labels) < 0.5)
    pairs = np.flatnonzero(rng.random(labels * labels) < 0.7)
    parts = crfsuite.Parts(
        [f"L-{i}" for i in range(labels)],
        names,
        ends,
        *np.divmod(cells, labels),
        rng.normal(size=len(cells)),
        *np.divmod(pairs, labels),
        rng.normal(size=len(pairs)),
    )
    return b"".join(crfsuite.encode(parts))


TEMPLATES = "U00:%x[-1,0]\nU01:%x[0,0]/%x[0,1]\nU02\nB\nB01:%x[0,1]"
WORDS = ("the", "dog", "a/b", "né")


def crfpp_model(seed: int = 0, labels: int = 2) -> bytes:
    rng = random.Random(seed)
    unigrams = ["U02", "U00:_B-1", *(f"U00:{w}" for w in WORDS)]
    unigrams += [f"U01:{w}/{tag}" for w in WORDS for tag in ("N", "V/X")]
    lines, at = [], 0
    for name in ["B", "B01:N", *unigrams]:
        lines.append(f"{at} {name}")
        at += labels * labels if name[0] == "B" else labels
    header = f"version: 100\ncost-factor: 1\nmaxid: {at}\nxsize: 2\n"
    names = "".join(f"L{i}\n" for i in range(labels))
    weights = "".join(f"{rng.gauss(0, 1):.16f}\n" for _ in range(at))
    parts = [header, names, TEMPLATES + "\n", "\n".join(lines) + "\n", weights]
    return "\n".join(parts).encode()


PATTERNS = ["*", "u:w=%x[ 0,0]", "*:p=%X[-1,1]/%x[0,1]", 'b:c=%t[0,0,"^\\u"]']


def wapiti_model(seed: int = 0, labels: int = 2) -> bytes:
    rng = random.Random(seed)
    observations = ["*", *(f"u:w={w}" for w in WORDS), "*:p=_x-1/N", "*:p=n/V", "b:c=true"]

    def strings(texts: list[str]) -> str:
        return "".join(f"{len(t.encode())}:{t},\n" for t in texts)

    sizes = {"u": labels, "b": labels**2, "*": labels + labels**2}
    total = sum(sizes[o[0]] for o in observations)
    kept = sorted(rng.sample(range(total), total // 2))
    weights = "".join(f"{i}={rng.gauss(0, 1).hex()}\n" for i in kept)
    names = [f"L{i}" for i in range(labels)]
    text = f"#mdl#2#{len(kept)}\n#rdr#{len(PATTERNS)}/2/0\n{strings(PATTERNS)}"
    text += f"#qrk#{labels}\n{strings(names)}#qrk#{len(observations)}\n{strings(observations)}"
    return (text + weights).encode()


# ---- damage


def mutant(data: bytes, rng: random.Random) -> bytes:
    """A model with one to three changes."""
    changes = BINARY if data[:4] == b"lCRF" else TEXT
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(changes)(data, rng)
    return data


def change_bit(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    i = rng.randrange(len(data))
    return data[:i] + bytes([data[i] ^ 1 << rng.randrange(8)]) + data[i + 1 :]


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    i = rng.randrange(len(data) + 1)
    return data[:i] + rng.randbytes(rng.randint(1, 8)) + data[i + 4 :]


def change_number(data: bytes, rng: random.Random) -> bytes:
    i = 4 * rng.randrange(len(data) // 4 + 1)
    if rng.random() < 0.3:
        i = 4 * rng.randrange(12)  # the header
    value = rng.choice([*NUMBERS, len(data), rng.randrange(len(data) + 1)])
    return data[:i] + value.to_bytes(4, "little") + data[i + 4 :]


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def remove(data: bytes, rng: random.Random) -> bytes:
    i = rng.randrange(len(data) + 1)
    return data[:i] + data[i + rng.randint(1, 64) :]


def repeat(data: bytes, rng: random.Random) -> bytes:
    i = rng.randrange(len(data) + 1)
    return data[:i] + data[max(0, i - rng.randint(1, 64)) :]


def change_digits(data: bytes, rng: random.Random) -> bytes:
    places = [i for i, c in enumerate(data[:4000]) if 48 <= c < 58]
    if not places:
        return data
    i = rng.choice(places)
    new = str(rng.choice([*NUMBERS, 10**12, 10**30, -1])).encode()
    return data[:i] + new + data[i + rng.randint(1, 4) :]


def swap_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i] if rng.random() < 0.5 else b""
    return b"\n".join(lines)


BINARY: list[Mutate] = [change_bit, change_bytes, change_number, change_number, cut, remove, repeat]
TEXT: list[Mutate] = [
    change_bit,
    change_bytes,
    change_digits,
    change_digits,
    swap_lines,
    cut,
    remove,
    repeat,
]


# ---- use


def used(path: Path) -> str:
    """Load a file and label with it; how that ended."""
    try:
        model = trellis.load(path)
    except FormatError as error:
        if str(path) not in str(error):
            raise AssertionError(f"no file is named: {error}") from error
        return "refused"
    x: list[Any] = [("the", "N"), ("dog", "V")]
    if path.read_bytes()[:4] == b"lCRF":
        x = [["w[0]=é1", "bias"], {"w[1]=é2": 0.5}]
        Tagger().open(str(path))
    width = model.features_.spec.columns if hasattr(model.features_, "spec") else 2
    if width > 2:  # a changed pattern may ask for more columns
        x = [(*token, *[""] * (width - 2)) for token in x] if width < 1000 else []
    assert len(model.predict([x])[0]) == len(x)
    for table in model.predict_marginals([x]):
        assert np.isfinite(table).all()
    return "usable"


def bases() -> list[tuple[bytes, int]]:
    """Models, and how often each is damaged in comparison."""
    cases = [(crfsuite_model(s, 2 + s, 5 + 4 * s), 12) for s in range(4)]
    cases += [(crfpp_model(s, 2 + s), 11) for s in range(2)]
    cases += [(wapiti_model(s, 2 + s), 11) for s in range(2)]
    for file in sorted((MODELS / "crfsuite").glob("*.crfsuite")):
        cases.append((file.read_bytes(), 2))
    text = MODELS / "crfpp" / "chunk100.model.txt.gz"
    if text.exists():
        cases.append((gzip.decompress(text.read_bytes()), 1))
        cases.append(((MODELS / "wapiti" / "chunk100.model").read_bytes(), 1))
    return cases


def virtual_memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, ends, slowest = random.Random(options.seed), Counter[str](), 0.0
    models = bases()
    path = Path(tempfile.mkdtemp()) / "model"
    for data, _ in models:  # what the first use of anything takes is not a file's memory
        path.write_bytes(data)
        assert used(path) == "usable"
    for n in range(options.count):
        (data,) = rng.choices([m for m, _ in models], [w for _, w in models])
        data = mutant(data, rng)
        path.write_bytes(data)
        limit = virtual_memory() + 2 * len(data) + SPARE
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        began = time.perf_counter()
        try:
            ends[used(path)] += 1
        except BaseException:
            Path(f"{path}.bad").write_bytes(data)
            print(f"file {n}: {path}.bad", flush=True)
            raise
        seconds = time.perf_counter() - began
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        assert seconds < SECONDS, f"file {n} took {seconds:.1f} s"
        slowest = max(slowest, seconds)
        if n % 10_000 == 9_999:
            print(n + 1, dict(ends), f"slowest {slowest:.2f} s", flush=True)
    print(f"{options.count} files: {dict(ends)}, slowest {slowest:.3f} s", file=sys.stdout)


if __name__ == "__main__":
    main()
