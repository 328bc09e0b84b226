"""The keyed hash of the native tables: its values, its spread, and its absence from results."""

import importlib.util
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trellis import _core


def load_words():
    """Return benchmarks/flooded_words.py, loaded by its path."""
    path = Path(__file__).resolve().parent.parent / "benchmarks" / "flooded_words.py"
    spec = importlib.util.spec_from_file_location("benchmarks_flooded_words", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


flooded_words, plain_hash = load_words().flooded_words, load_words().plain_hash

MASK = (1 << 64) - 1
# A table is at most half full. Random hashes of 50,000 keys give runs of about 60 used slots.
LONGEST_RUN = 250


def mix(a, b):
    """Return the high and the low half of a product, combined by exclusive or."""
    return (a * b & MASK) ^ (a * b >> 64)


def hash_bytes(text, keys):
    """Return the hash as cpp/core/base/keyed_hash.hpp defines it, written on slices."""
    left, right, inner, outer = keys
    h, rest = right, text
    while len(rest) > 16:
        h = mix(int.from_bytes(rest[:8], "little") ^ left, int.from_bytes(rest[8:16], "little") ^ h)
        rest = rest[16:]
    n = len(text)
    if n >= 8:
        a = rest[:8] if len(rest) > 8 else text[-8:]
        b = text[-8:]
    elif n >= 4:
        a, b = text[:4], text[-4:]
    else:
        a = bytes([text[-1], text[n // 2], text[0]]) if text else b""
        b = b""
    a, b = int.from_bytes(a, "little"), int.from_bytes(b, "little")
    return mix(mix(a ^ left, b ^ h) ^ inner, outer ^ n)


def hash_key(key, keys):
    """Return the hash of integers: one product for each pair, the last one padded with 0."""
    h, right, _, _ = keys
    for k in range(0, len(key), 2):
        low, high = [*key[k : k + 2], 0][:2]
        h = mix(h ^ (low | high << 32), right)
    return h ^ h >> 29


def random_keys(seed):
    return np.random.default_rng(seed).integers(0, 1 << 64, 4, dtype=np.uint64)


@pytest.mark.parametrize("size", range(70))
def test_hash_of_bytes_is_that_of_the_python_implementation(size):
    """All sizes, so that every branch and every overlap of words is compared."""
    draw = np.random.default_rng(size)
    for seed in range(5):
        text, keys = draw.bytes(size), random_keys(seed)
        assert _core.hash_bytes(text, keys) == hash_bytes(text, [int(k) for k in keys])


@pytest.mark.parametrize("size", range(1, 14))
def test_hash_of_keys_is_that_of_the_python_implementation(size):
    """Keys of all sizes up to more than three blocks."""
    draw = np.random.default_rng(size)
    for seed in range(5):
        key, keys = draw.integers(0, 1 << 32, size, dtype=np.uint32), random_keys(seed)
        want = hash_key([int(k) for k in key], [int(k) for k in keys])
        assert _core.hash_key(key, keys) == want


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 9, 16, 17, 33])
def test_each_bit_changes_half_of_the_hash(size):
    """Avalanche: over many keys, each input bit flips each output bit with probability 1/2."""
    draw = np.random.default_rng(size)
    flips = np.zeros((size * 8, 64))
    rounds = 400
    for seed in range(rounds):
        text, keys = draw.bytes(size), random_keys(seed)
        before = _core.hash_bytes(text, keys)
        for bit in range(size * 8):
            changed = bytearray(text)
            changed[bit // 8] ^= 1 << bit % 8
            difference = before ^ _core.hash_bytes(bytes(changed), keys)
            flips[bit] += [difference >> k & 1 for k in range(64)]
    share = flips / rounds
    assert abs(share.mean() - 0.5) < 0.02
    assert np.abs(share - 0.5).max() < 0.15  # six standard deviations


def test_flooded_words_collide_without_keys():
    """The words of the other tests are what they claim to be."""
    words = flooded_words(1000)
    assert len(set(words)) == 1000
    assert {plain_hash(w.encode()) for w in words} == {0}


def test_flooded_words_have_short_runs():
    """Names, words and n-grams: a lookup probes few slots."""
    words = flooded_words(50_000)
    vocabulary = _core.Vocabulary()
    vocabulary.learn([[words]])
    assert vocabulary.longest_run < LONGEST_RUN
    corpus = _core.Corpus(1)
    corpus.add_sentences([words], 0)
    corpus.finish()
    assert corpus.longest_run < LONGEST_RUN
    reader = _core.ArpaReader()
    lines = "".join(f"-1\t{w}\n" for w in words)
    reader.feed(f"\\data\\\nngram 1={len(words)}\n\n\\1-grams:\n{lines}\n\\end\\\n".encode())
    assert reader.finish().longest_run < LONGEST_RUN


def longest_run(hashes):
    """Return the longest run of used slots in a table that is at most half full."""
    size = 1 << (2 * len(hashes) - 1).bit_length()
    used = np.zeros(size, bool)
    for h in hashes:
        k = h & size - 1
        while used[k]:
            k = (k + 1) & size - 1
        used[k] = True
    ends = np.flatnonzero(~used)
    return int(np.diff(np.append(ends, ends[0] + size)).max()) - 1


def chosen_pairs():
    """Yield sets of keys: those of one slot under fixed constants, and regular ones."""
    grid = itertools.product(range(2000), range(2000))
    same = []
    for a, b in grid:
        h = mix(0x9E3779B97F4A7C15 ^ (a | b << 32), 0xD1B54A32D192ED03)
        if (h ^ h >> 29) & 0x1FF == 0:
            same.append((a, b))
    yield same
    yield [(a, 0) for a in range(8000)]
    yield [(0, b) for b in range(8000)]
    yield [(a << 19, b << 26) for a, b in itertools.product(range(128), range(64))]
    yield [(a, b) for a in range(90) for b in range(90)]


def test_chosen_integer_keys_have_short_runs():
    """Keys of pairs, as (context, word) of n-grams, for several secret numbers."""
    for pairs in chosen_pairs():
        assert len(pairs) > 5000
        for seed in range(8):
            keys = random_keys(seed)
            hashes = [_core.hash_key(np.array(p, np.uint32), keys) for p in pairs]
            assert longest_run(hashes) < LONGEST_RUN


PROGRAM = """
import hashlib, pathlib, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
import trellis
from trellis import CRF, Word2Vec, FastText, _core
folder = pathlib.Path(sys.argv[1])
draw = np.random.default_rng(0)
X = [[f"w{k}" for k in draw.integers(0, 60, 8)] for _ in range(40)]
y = [["AB"[int(t[1:]) % 2] for t in s] for s in X]
ready = [[{"w": t, "n": 0.5} for t in s] for s in X]
CRF(max_iter=5).fit(X, y).save(folder / "a")
CRF(max_iter=5).fit(ready, y).save(folder / "b")
settings = dict(vector_size=8, epochs=1, min_count=1, n_jobs=1, random_state=0)
# The files of embeddings contain the time of the training: their content is compared.
for model in (Word2Vec(**settings), FastText(bucket=100, **settings)):
    model.fit(X).save(folder / "c")
    vectors = trellis.load(folder / "c").vectors_
    print(vectors.words, hashlib.sha256(vectors.vectors.tobytes()).hexdigest())
    (folder / "c").unlink()
names = [b"x", b"y", b"x", b"y", b"y"]
begin = np.arange(5)
print(_core.repeated(np.frombuffer(b"".join(names), np.uint8), begin, np.ones(5, np.int64)))
for file in sorted(folder.iterdir()):
    print(file.name, hashlib.sha256(file.read_bytes()).hexdigest())
"""


def test_files_do_not_depend_on_the_seed(tmp_path):
    """Models, vocabularies and the reported repetition are the same bytes for several seeds."""
    outputs = set()
    for seed in ["1", "2", "another", None]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        environment = {k: v for k, v in os.environ.items() if k != "TRELLIS_HASH_SEED"}
        if seed is not None:
            environment["TRELLIS_HASH_SEED"] = seed
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(folder)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0, run.stderr
        outputs.add(run.stdout)
    assert len(outputs) == 1, outputs
    assert outputs.pop().splitlines()[2] == "2"


def test_crfsuite_dictionary_has_the_layout_of_linear_probing():
    """The layout of CRFsuite's dictionary is fixed: the first free slot from the hash on."""
    names = [f"name{k}" for k in range(3000)]
    data = "".join(names).encode()
    ends = np.cumsum([0] + [len(n) for n in names])
    written = _core.make_cqdb(np.frombuffer(data, np.uint8), ends).tobytes()
    at = 24
    for table in range(256):
        offset, slots = np.frombuffer(written, "<u4", 2, at + 8 * table)
        cells = np.frombuffer(written, "<u4", 2 * slots, offset).reshape(-1, 2)
        want = np.zeros_like(cells)
        for h, record in sorted((c for c in cells.tolist() if c[1]), key=lambda c: c[1]):
            k = (h >> 8) % slots
            while want[k][1]:
                k = (k + 1) % slots
            want[k] = h, record
        assert (cells == want).all()
