"""Times of flooded input against plain input of the same size.

Flooded words have equal hashes under a hash without secret numbers (flooded_words.py). The ratio of
the times must be below 1.5 everywhere.

    python benchmarks/flooding.py --quick
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from flooded_words import flooded_words, plain_words
from sections import run_sections
from timing import Case, Table, milliseconds, ratio, time_alternating

import trellis
from trellis.formats import arpa, crfsuite
from trellis.formats.strings import pack_strings

MOST = 1.5  # the largest ratio
Task = Callable[[list[str], Path], Callable[[], Any]]


def _crf_predict(words: list[str], folder: Path) -> Callable[[], Any]:
    model = trellis.CRF(max_iter=3).fit([["a", "b"]] * 4, [["A", "B"]] * 4)
    return lambda: model.predict([words])


def _crf_fit(words: list[str], folder: Path) -> Callable[[], Any]:
    X = [[{w: 1.0} for w in words[k : k + 20]] for k in range(0, len(words), 20)]
    y = [["A", "B"] * (len(x) // 2) + ["A"] * (len(x) % 2) for x in X]
    return lambda: trellis.CRF(max_iter=1).fit(X, y)


def _word2vec(words: list[str], folder: Path) -> Callable[[], Any]:
    model = trellis.Word2Vec(vector_size=4, epochs=1, min_count=1, n_jobs=1, random_state=0)
    sentences = [words[k : k + 20] for k in range(0, len(words), 20)]
    return lambda: model.fit(sentences)


def _arpa(words: list[str], folder: Path) -> Callable[[], Any]:
    path = folder / "model.arpa"
    lines = "".join(f"-1\t{w}\n" for w in words)
    path.write_text(f"\\data\\\nngram 1={len(words)}\n\n\\1-grams:\n{lines}\n\\end\\\n")
    return lambda: arpa.read(path)


def _wapiti(words: list[str], folder: Path) -> Callable[[], Any]:
    path = folder / "model.wapiti"
    names = [f"u:{w}" for w in words]
    weights = "".join(f"{k}=0x1p-1\n" for k in range(0, 2 * len(names), 2))
    text = f"#mdl#2#{len(names)}\n#rdr#1/1/0\n9:u:%x[0,0],\n#qrk#2\n1:A,\n1:B,\n#qrk#{len(names)}\n"
    path.write_text(text + "".join(f"{len(n)}:{n},\n" for n in names) + weights)
    return lambda: trellis.load(path)


def _crfsuite(words: list[str], folder: Path) -> Callable[[], Any]:
    path = folder / "model.crfsuite"
    count = len(words)
    pairs = np.arange(4)
    parts = crfsuite.Parts(
        ["A", "B"],
        *pack_strings(words),
        *np.divmod(np.arange(2 * count), 2),
        np.ones(2 * count),
        *np.divmod(pairs, 2),
        np.ones(4),
    )
    path.write_bytes(b"".join(crfsuite.encode(parts)))
    return lambda: trellis.load(path)


TASKS: dict[str, Task] = {
    "CRF.predict, one sentence": _crf_predict,
    "CRF.fit": _crf_fit,
    "Word2Vec.fit": _word2vec,
    "ARPA, load": _arpa,
    "Wapiti model, load": _wapiti,
    "CRFsuite model, load": _crfsuite,
}


def _measured(count: int, repeats: int) -> Iterator[tuple[str, Any]]:
    words = {"flooded": flooded_words(count), "plain": plain_words(count)}
    for name, task in TASKS.items():
        with tempfile.TemporaryDirectory() as folder:
            cases = []
            for kind, texts in words.items():
                place = Path(folder, kind)
                place.mkdir()
                cases.append(Case(kind, task(texts, place)))
            yield name, time_alternating(cases, repeats)


def flooding(quick: bool) -> list[Table]:
    """Return the table of all tasks."""
    warnings.simplefilter("ignore")
    count, repeats = (10_000, 3) if quick else (80_000, 7)
    table = Table(f"{count} different words", ["task", "flooded ms", "plain ms", "ratio"])
    for name, times in _measured(count, repeats):
        flooded, plain = times["flooded"], times["plain"]
        table.add(name, milliseconds(flooded), milliseconds(plain), ratio(flooded, plain))
        table.keep(name, times)
        if flooded.median > MOST * plain.median:
            table.notes.append(f"{name}: flooded input takes more than {MOST} times as long")
    return [table]


if __name__ == "__main__":
    run_sections(__doc__ or "", ["trellis"], {"flooding": flooding})
