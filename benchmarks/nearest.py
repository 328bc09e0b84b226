"""Compare nearest neighbours among 1,000,000 × 300 vectors, and files of vectors, with gensim.

    python benchmarks/nearest.py
    python benchmarks/nearest.py --only search --quick

Both search the same matrix exactly, with two threads. The results are compared before timing.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from gensim.models import KeyedVectors
from sections import run_sections
from timing import Case, Table, Timing, WrongResultError, milliseconds, ratio, time_alternating

from trellis import Vectors

ROWS, COLUMNS, K = 1_000_000, 300, 10
BATCHES = (64, 1000)


def make_vectors(rows: int) -> tuple[Vectors, KeyedVectors]:
    """Return vectors of trellis and of gensim with the same matrix."""
    matrix = np.random.default_rng(0).standard_normal((rows, COLUMNS), dtype=np.float32)
    ours = Vectors([f"w{i}" for i in range(rows)], matrix, n_jobs=2)
    peer = KeyedVectors(COLUMNS)
    peer.vectors, peer.index_to_key, peer.key_to_index = matrix, ours.words, ours.index
    peer.fill_norms()
    return ours, peer


def check(ours: Vectors, peer: KeyedVectors) -> None:
    """Raise unless the results agree, for single queries and for a batch."""
    words = ours.words[7:4000:400]
    for word, batch in zip(words, ours.nearest_each(words, K), strict=True):
        theirs = peer.most_similar(word, topn=K)
        for neighbors in (ours.nearest(word, K), batch):
            pairs = zip(neighbors, theirs, strict=True)
            errors = [abs(neighbor.score - score) for neighbor, (_, score) in pairs]
            if max(errors) > 1e-6 or {n.word for n in neighbors} != {w for w, _ in theirs}:
                raise WrongResultError(f"{word}: ours {neighbors}, gensim {theirs}")


def search_section(quick: bool) -> list[Table]:
    """Time single queries and batches."""
    rows = ROWS // 10 if quick else ROWS
    ours, peer = make_vectors(rows)
    check(ours, peer)
    cases = [
        Case("gensim, one", lambda: peer.most_similar("w5", topn=K)),
        Case("ours, one", lambda: ours.nearest("w5", K)),
    ]
    sizes = {"gensim, one": 1, "ours, one": 1}
    for size in BATCHES:
        name = f"ours, {size} at once"
        sizes[name] = size
        cases.append(Case(name, lambda n=size: ours.nearest_each(ours.words[:n], K), max_repeats=3))
    times = time_alternating(cases, 5 if quick else 9, pause=0.02)
    table = Table(
        f"The {K} nearest of {rows:,} x {COLUMNS}, two threads, ms per query",
        ("", "ms", "gensim / this", "at minima"),
    )
    table.keep("search", times)
    per_query = {
        name: Timing(t.median / sizes[name], t.minimum / sizes[name], t.repeats)
        for name, t in times.items()
    }
    gensim = per_query["gensim, one"]
    for name, timing in per_query.items():
        table.add(
            name, milliseconds(timing), ratio(gensim, timing), ratio(gensim, timing, "minimum")
        )
    return [table]


def files_section(quick: bool) -> list[Table]:
    """Time the loading of word2vec's two formats."""
    rows = 2_000 if quick else 20_000
    ours, _ = make_vectors(rows)
    table = Table(f"Reading {rows:,} x {COLUMNS}, ms", ("", "gensim", "ours", "ratio", "at minima"))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("v.txt", "v.bin"):
            path = Path(folder) / name
            ours.save(path)
            theirs = KeyedVectors.load_word2vec_format(path, binary=name == "v.bin")
            if not np.array_equal(theirs.vectors, Vectors.load(path).matrix):
                raise WrongResultError(f"{name}: trellis and gensim read different vectors")
            cases = [
                Case(
                    "gensim",
                    lambda p=path: KeyedVectors.load_word2vec_format(p, binary=p.suffix == ".bin"),
                    max_repeats=2,
                ),
                Case("ours", lambda p=path: Vectors.load(p)),
            ]
            times = time_alternating(cases, 5)
            table.keep(name, times)
            table.add(
                "text" if name == "v.txt" else "binary",
                milliseconds(times["gensim"]),
                milliseconds(times["ours"]),
                ratio(times["gensim"], times["ours"]),
                ratio(times["gensim"], times["ours"], "minimum"),
            )
    return [table]


if __name__ == "__main__":
    run_sections(
        __doc__, ("trellis", "numpy", "gensim"), {"search": search_section, "files": files_section}
    )
