"""Word embeddings: trellis beside gensim (file mode), fastText and word2vec.c, same text, settings.

    python benchmarks/embeddings.py --quick                    10 MB of the text, some minutes
    python benchmarks/embeddings.py --only cbow supervised     the speed of one model, and texts
    python benchmarks/embeddings.py --only train quality       hours: 5 epochs, 3 seeds, all peers

100 dimensions, window 5, 5 negatives, sample 1e-3, min count 5, 2 threads. The peers live in an
environment of their own (requirements-embeddings.txt): TRELLIS_PEERS names its Python. The text is
the one of EMBEDDINGS_TEXT, or ../shared/data/text. Ours and the peers (those of EMBEDDINGS_PEERS)
take turns; speeds are of the epochs alone, without reading and counting the text.

"train" keeps the vectors of each training in trellis-embeddings, a folder among the temporary files
(of a quick run in quick within it), and trains what is not there, so it may be stopped at any time.
"quality" makes its table of those that are there. Delete the folder to train anew, or before
another text.
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
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from corpora import find
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
    "skipgram-own": {"shared_negatives": False},  # negatives of each pair's own
    "cbow": {"architecture": "cbow"},
    "skipgram-hs": {"loss": "hierarchical"},
    "subwords": {},
}
TOOLS = {  # of the speeds
    "skipgram": ("gensim", "fasttext", "word2vec.c"),
    "skipgram-own": ("gensim",),
    "cbow": ("gensim", "fasttext", "word2vec.c"),
    "skipgram-hs": ("gensim", "fasttext", "word2vec.c"),
    "subwords": ("gensim", "fasttext"),
}
PEERS_KIND = {"skipgram-own": "skipgram"}  # peers have no other
TRAININGS = [  # of the quality: the model, and who trains it
    *((kind, "ours") for kind in KINDS),
    *((kind, "gensim") for kind in KINDS if kind not in PEERS_KIND),
    ("subwords", "fasttext"),
]
SEEDS = (1, 2, 3)
TESTS = ("wordsim353.tsv", "men.tsv", "simlex999.tsv")


@cache
def text(quick: bool) -> Path:
    """The text as a plain file; 10 MB of it for a quick run."""
    given = os.environ.get("EMBEDDINGS_TEXT")
    if given and not quick:
        return Path(given)
    path = kept(quick) / ("wiki10.txt" if quick else "wiki100.txt")
    if not path.exists():
        with lzma.open(find("text/wiki100.txt.xz")) as file:
            path.write_bytes(file.read(10_000_000 if quick else -1))
    return path


def kept(quick: bool) -> Path:
    """The folder of what is made here."""
    folder = WORK / "quick" if quick else WORK
    folder.mkdir(parents=True, exist_ok=True)
    return folder


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
    """Words a second; of programs that do not tell, by the difference of one epoch and two."""
    kind = PEERS_KIND.get(kind, kind)
    if tool == "gensim":
        speeds: list[float] = peer(tool=tool, kind=kind, path=path, epochs=2)["words_per_second"]
        return max(speeds)
    one, two = (float(peer(tool=tool, kind=kind, path=path, epochs=n)["seconds"]) for n in (1, 2))
    return words / max(two - one, 1e-9)


def speed(kind: str, quick: bool) -> list[Table]:
    """Words a second of all sides, in turns."""
    path = text(quick)
    wanted = os.environ.get("EMBEDDINGS_PEERS", "gensim fasttext word2vec.c").split()
    tools = [tool for tool in TOOLS[kind] if tool in wanted]
    found: dict[str, list[float]] = {name: [] for name in ("ours", *tools)}
    for _ in range(3):
        model = ours(kind, path, 2, 1)
        found["ours"].append(model.words_per_second_)
        for tool in tools:
            found[tool].append(peer_speed(tool, kind, path, model.n_tokens_))
        print(kind, {name: round(values[-1]) for name, values in found.items()}, file=sys.stderr)
    table = Table(
        f"{kind}, words/s on {THREADS} threads, {path.name}, medians of 3 turns",
        ("side", "words/s", "best", "ours / this", "at best"),
    )
    own = found["ours"]
    for name, values in found.items():
        median, best = statistics.median(values), max(values)
        table.add(name, median, best, statistics.median(own) / median, max(own) / best)
    return [table]


def scores(vectors: Vectors) -> list[float]:
    """Spearman on the three lists, and the share of analogies that are right."""
    folder = find("wordsim")
    similar = [vectors.evaluate_similarity(folder / name).spearman for name in TESTS]
    analogies = vectors.evaluate_analogies(folder / "questions-words.txt", restrict=30_000)
    return [*similar, analogies.accuracy]


def train(quick: bool) -> list[Table]:
    """Five epochs of all models by all sides, seed after seed; those that are there stay."""
    table = Table("trainings", ("model", "side", "seed", "minutes"))
    for seed in SEEDS[:1] if quick else SEEDS:
        for kind, side in TRAININGS:
            out = kept(quick) / f"{side}-{kind}-{seed}.npz"
            if out.exists():
                continue
            part, begin = out.with_suffix(".part.npz"), time.perf_counter()
            if side == "ours":
                vectors = ours(kind, text(quick), 5, seed).vectors_
                np.savez(part, words=np.array(vectors.words), matrix=vectors.matrix)
            else:
                peer(tool=side, kind=kind, path=text(quick), epochs=5, seed=seed, out=part)
            part.rename(out)
            table.add(kind, side, seed, (time.perf_counter() - begin) / 60)
    return [table]


def quality(quick: bool) -> list[Table]:
    """Means of the scores over the seeds that have been trained."""
    table = Table(
        f"quality after 5 epochs of {text(quick).name}, means",
        ("model", "side", "seeds", "WordSim-353", "MEN", "SimLex-999", "analogies"),
    )
    for kind, side in sorted(TRAININGS, key=lambda each: list(KINDS).index(each[0])):
        found = []
        for path in sorted(kept(quick).glob(f"{side}-{kind}-[0-9].npz")):
            saved = np.load(path)
            found.append(scores(Vectors(saved["words"].tolist(), saved["matrix"])))
        if found:
            means = (f"{mean:.4f}" for mean in np.mean(found, axis=0))
            table.add(kind, side, len(found), *means)
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
    folder = find("models/fasttext")
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

    path = kept(False) / f"snips.{split}.txt"
    lines, label, words = [], "", []
    for line in [*files.lines(find(f"slots/snips.{split}.conll.gz")), ""]:
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
            "from trellis import Word2Vec; "
            f"m = Word2Vec(epochs=1, n_jobs={THREADS}, random_state=1, min_count={least}); "
            f"m.fit({str(path)!r}); "
            "own = next(line for line in open('/proc/self/status') if 'VmHWM' in line); "
            "peak = int(own.split()[1]) * 1024; "
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
            **{kind: partial(speed, kind) for kind in KINDS},
            "supervised": supervised,
            "prediction": prediction,
            "costs": costs,
            "train": train,
            "quality": quality,
        },
    )
