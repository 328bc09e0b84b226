"""Word embeddings: trellis beside gensim (file mode) and fastText, same text, same settings.

    python benchmarks/embeddings.py --quick                    10 MB of the text, some minutes
    python benchmarks/embeddings.py --only speed supervised
    python benchmarks/embeddings.py --only quality             hours: 5 epochs, 3 seeds, all peers

100 dimensions, window 5, 5 negatives, sample 1e-3, min count 5, 2 threads. The peers live in an
environment of their own (requirements-embeddings.txt): TRELLIS_PEERS names its Python. The text is
the one of EMBEDDINGS_TEXT, or ../shared/data/text. Ours and the peers take turns; speeds are of the
epochs alone, without reading and counting the text.
"""

from __future__ import annotations

import json
import lzma
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from crf_data import DATA
from sections import run_sections
from timing import Table, check_close

from trellis import FastText, TextClassifier, Vectors, Word2Vec
from trellis.compat import fasttext as compat
from trellis.embeddings import sources
from trellis.embeddings.vocabulary import Vocabulary

PEERS = os.environ.get("TRELLIS_PEERS", "peers/bin/python")
WORK = Path(tempfile.gettempdir()) / "trellis-embeddings"
THREADS = 2
KINDS: dict[str, dict[str, Any]] = {
    "skipgram": {},
    "skipgram, own negatives": {"shared_negatives": False},
    "cbow": {"architecture": "cbow"},
    "skipgram-hs": {"loss": "hierarchical"},
    "subwords": {},
}
TOOLS = {
    "skipgram": ("gensim", "fasttext"),
    "skipgram, own negatives": (),
    "cbow": ("gensim", "fasttext"),
    "skipgram-hs": ("gensim", "fasttext"),
    "subwords": ("gensim", "fasttext"),
}
TESTS = ("wordsim353.tsv", "men.tsv", "simlex999.tsv")


@cache
def text(quick: bool) -> Path:
    """The text as a plain file; 10 MB of it for a quick run."""
    given = os.environ.get("EMBEDDINGS_TEXT")
    if given and not quick:
        return Path(given)
    WORK.mkdir(exist_ok=True)
    path = WORK / ("wiki10.txt" if quick else "wiki100.txt")
    if not path.exists():
        with lzma.open(DATA / "text" / "wiki100.txt.xz") as file:
            path.write_bytes(file.read(10_000_000 if quick else -1))
    return path


def ours(kind: str, path: Path, epochs: int, seed: int) -> Any:
    """A trained model."""
    cls = FastText if kind == "subwords" else Word2Vec
    model = cls(epochs=epochs, n_jobs=THREADS, random_state=seed, **KINDS[kind])
    return model.fit(path)


def peer(**task: Any) -> dict[str, Any]:
    """What a peer's training gave."""
    script = Path(__file__).with_name("embeddings_peer.py")
    command = [PEERS, str(script), json.dumps({"threads": THREADS, "seed": 1, **task}, default=str)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{task}: {done.stderr[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def peer_speed(tool: str, kind: str, path: Path, words: int) -> float:
    """Words a second; of fastText by the difference of one epoch and two."""
    if tool == "gensim":
        return max(peer(tool=tool, kind=kind, path=path, epochs=2)["words_per_second"])
    one, two = (
        peer(tool=tool, kind=kind, path=path, epochs=epochs)["seconds"] for epochs in (1, 2)
    )
    return words / max(two - one, 1e-9)


def speed(quick: bool) -> list[Table]:
    """Words a second of all sides, in turns."""
    path, turns = text(quick), 2 if quick else 3
    table = Table(
        f"training, words/s on {THREADS} threads, {path.name}",
        ("model", "ours", "gensim", "fastText", "ours / gensim", "ours / fastText"),
    )
    for kind in KINDS:
        found: dict[str, list[float]] = {name: [] for name in ("ours", *TOOLS[kind])}
        for _ in range(turns):
            model = ours(kind, path, 2, 1)
            found["ours"].append(model.words_per_second_)
            for tool in TOOLS[kind]:
                found[tool].append(peer_speed(tool, kind, path, model.n_tokens_))
        median = {name: statistics.median(values) for name, values in found.items()}
        table.add(
            kind,
            median["ours"],
            *(median.get(tool) for tool in ("gensim", "fasttext")),
            *(
                median["ours"] / median[tool] if tool in median else None
                for tool in ("gensim", "fasttext")
            ),
        )
        table.notes.append(f"{kind}, best: { ({n: round(max(v)) for n, v in found.items()}) }")
    return [table]


def scores(vectors: Vectors) -> list[float]:
    """Spearman on the three lists, and the share of analogies that are right."""
    folder = DATA / "wordsim"
    similar = [vectors.evaluate_similarity(folder / name).spearman for name in TESTS]
    analogies = vectors.evaluate_analogies(folder / "questions-words.txt", restrict=30_000)
    return [*similar, analogies.accuracy]


def quality(quick: bool) -> list[Table]:
    """Five epochs, three seeds, all sides: means of the scores."""
    path, seeds = text(quick), (1,) if quick else (1, 2, 3)
    table = Table(
        f"quality after 5 epochs of {path.name}, mean of {len(seeds)} seeds",
        ("model", "side", "WordSim-353", "MEN", "SimLex-999", "analogies"),
    )
    for kind in KINDS:
        rows: dict[str, list[list[float]]] = {"ours": []}
        for seed in seeds:
            rows["ours"].append(scores(ours(kind, path, 5, seed).vectors_))
            for tool in TOOLS[kind]:
                out = WORK / f"{tool}-{kind}-{seed}.npz"
                peer(tool=tool, kind=kind, path=path, epochs=5, seed=seed, out=out)
                saved = np.load(out)
                vectors = Vectors(saved["words"].tolist(), saved["matrix"])
                rows.setdefault(tool, []).append(scores(vectors))
        for side, values in rows.items():
            table.add(kind, side, *np.mean(values, axis=0).round(4).tolist())
    return [table]


def supervised(quick: bool) -> list[Table]:
    """Text classification on the SNIPS intents, one thread."""
    files = {split: intents(split) for split in ("train", "test")}
    epochs = (20, 40)  # so many that the difference is time spent training
    table = Table("text classification, SNIPS intents", ("side", "P@1, 5 epochs", "words/s"))
    words = len(files["train"].read_text().split()) + files["train"].read_text().count("\n")
    model = TextClassifier(n_jobs=1, random_state=1).fit(files["train"])
    precision = model.test(files["test"]).precision
    fast = peer(
        tool="fasttext",
        kind="supervised",
        path=files["train"],
        test=files["test"],
        epochs=5,
        threads=1,
    )
    speeds: dict[str, list[float]] = {"ours": [], "fastText": []}
    for _ in range(3):
        model = TextClassifier(epochs=epochs[1], n_jobs=1, random_state=1).fit(files["train"])
        speeds["ours"].append(model.words_per_second_)
        one, two = (
            peer(
                tool="fasttext",
                kind="supervised",
                path=files["train"],
                test=files["test"],
                epochs=n,
                threads=1,
            )["seconds"]
            for n in epochs
        )
        speeds["fastText"].append(words * (epochs[1] - epochs[0]) / (two - one))
    table.add("ours", precision, statistics.median(speeds["ours"]))
    table.add("fastText", fast["precision"], statistics.median(speeds["fastText"]))
    return [table]


def prediction(quick: bool) -> list[Table]:
    """Microseconds a text, one at a time and in a list of 1,000, with fastText's language model."""
    folder = DATA / "models" / "fasttext"
    path = folder / "lid.176.ftz"
    cases = json.loads((folder / "expected.json").read_text())[path.name]["predictions"]
    texts = ([case["text"] for case in cases] * 1000)[:1000]
    face, model = compat.load_model(path), TextClassifier.load(path)
    calls = {
        "TextClassifier": (lambda: [model.predict([text]) for text in texts], model.predict),
        "the face": (lambda: [face.predict(text) for text in texts], face.predict),
    }
    found: dict[str, list[float]] = {}
    for _ in range(3 if quick else 7):
        fast = peer(kind="prediction", model=path, texts=texts, turns=5)
        for name in ("alone", "list"):
            found.setdefault(f"fastText {name}", []).append(1e6 * fast[name])
        for name, (alone, many) in calls.items():
            for way, call in (("alone", alone), ("list", lambda many=many: many(texts))):
                least = min(_seconds(call) for _ in range(5))
                found.setdefault(f"{name} {way}", []).append(1e6 * least / len(texts))
    for text, (p, label) in zip(texts, fast["answers"], strict=True):
        (own,), (chance,) = face.predict(text)
        check_close(f"{label} for {text!r}", chance if own == label else np.nan, p, 1e-6)
    table = Table(
        f"labels of texts, µs a text, {path.name}, {len(cases)} texts in turn",
        ("side", "one at a time", "list of 1,000", "fastText / ours, one", "list"),
    )
    median = {name: statistics.median(values) for name, values in found.items()}
    for side in (*calls, "fastText"):
        own = [median[f"{side} {way}"] for way in ("alone", "list")]
        theirs = [median[f"fastText {way}"] for way in ("alone", "list")]
        table.add(side, *own, *(b / a for a, b in zip(own, theirs, strict=True)))
    table.notes.append(f"least: { ({n: round(min(v), 1) for n, v in found.items()}) }")
    return [table]


def _seconds(call: Any) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def intents(split: str) -> Path:
    """The queries in fastText's form, in one random order."""
    from trellis.data import files

    WORK.mkdir(exist_ok=True)
    path = WORK / f"snips.{split}.txt"
    lines, label, words = [], "", []
    for line in [*files.lines(DATA / "slots" / f"snips.{split}.conll.gz"), ""]:
        if line.startswith("# intent = "):
            label = line.removeprefix("# intent = ")
        elif line and not line.startswith("# "):
            words.append(line.split("\t")[0])
        elif not line and words:
            lines.append(f"__label__{label} {' '.join(words)}")
            words = []
    np.random.default_rng(0).shuffle(lines)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def vocabulary(quick: bool) -> list[Table]:
    """Reading the text and counting its words."""
    table = Table("vocabulary", ("text", "MB", "types", "kept", "seconds"))
    path = text(quick)
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        corpus = sources.read(path, THREADS)
        words = Vocabulary.of(corpus, 5, None)
        seconds.append(time.perf_counter() - begin)
    megabytes = path.stat().st_size / 1e6
    table.add(path.name, megabytes, corpus.types, len(words.words), statistics.median(seconds))
    return [table]


def costs(quick: bool) -> list[Table]:
    """Time by words of text and by size of the vocabulary; peak memory beyond the tables."""
    table = Table(
        "costs, skip-gram, one epoch",
        ("text", "words", "vocabulary", "ns a word", "peak beyond tables, MB"),
    )
    whole = text(quick)
    size = whole.stat().st_size
    for part, least in ((0.25, 5), (0.5, 5), (1.0, 5), (1.0, 1), (1.0, 50)):
        path = WORK / "part.txt"
        with open(whole, "rb") as file:
            path.write_bytes(file.read(int(part * size)))
        code = (
            "import resource, sys; from trellis import Word2Vec; "
            f"m = Word2Vec(epochs=1, n_jobs={THREADS}, random_state=1, min_count={least}); "
            f"m.fit({str(path)!r}); "
            "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024; "
            "tables = m._input.nbytes + m._output.nbytes; "
            "print(m.n_tokens_, len(m.words_), m.words_per_second_, peak - tables)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        words, kept, rate, beyond = map(float, done.stdout.split())
        table.add(f"{part:.0%}", int(words), int(kept), 1e9 / rate, beyond / 1e6)
    return [table]


if __name__ == "__main__":
    run_sections(
        __doc__ or "",
        ("trellis", "numpy"),
        {
            "vocabulary": vocabulary,
            "speed": speed,
            "supervised": supervised,
            "prediction": prediction,
            "costs": costs,
            "quality": quality,
        },
    )
