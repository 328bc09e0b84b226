"""Compare word embeddings of trellis, gensim (file mode), fastText and word2vec.c on one text.

    python benchmarks/embeddings.py --quick                    10 MB of the text, a few minutes
    python benchmarks/embeddings.py --only cbow supervised     CBOW and text classification only
    python benchmarks/embeddings.py --only train quality       hours: 5 epochs, 3 seeds, all peers

All trainings use 100 dimensions, window 5, 5 negatives, sample 1e-3, min count 5 and 2 threads. The
peers need another
environment (requirements-embeddings.txt): TRELLIS_PEERS is the path of its Python, EMBEDDINGS_PEERS
selects peers. EMBEDDINGS_TEXT is the path of the text; the default is the corpus wiki100. trellis
and the peers take turns. Speeds are those of the epochs, without reading and counting the text.

"train" saves the vectors of each training in the temporary folder trellis-embeddings (with --quick,
in its subfolder quick) and skips trainings that are saved already, so it can be interrupted at any
time. "quality" makes its table from the saved vectors. Delete the folder to train again, or before
you use another text.
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
    "skipgram-own": {"shared_negatives": False},  # separate negatives for each pair
    "cbow": {"architecture": "cbow"},
    "skipgram-hs": {"loss": "hierarchical"},
    "subwords": {},
}
TOOLS = {  # peers of the speed sections
    "skipgram": ("gensim", "fasttext", "word2vec.c"),
    "skipgram-own": ("gensim",),
    "cbow": ("gensim", "fasttext", "word2vec.c"),
    "skipgram-hs": ("gensim", "fasttext", "word2vec.c"),
    "subwords": ("gensim", "fasttext"),
}
PEERS_KIND = {"skipgram-own": "skipgram"}  # peers always draw negatives for each pair
TRAININGS = [  # (model, side) of each training of the quality section
    *((kind, "ours") for kind in KINDS),
    *((kind, "gensim") for kind in KINDS if kind not in PEERS_KIND),
    ("subwords", "fasttext"),
]
SEEDS = (1, 2, 3)
TESTS = ("wordsim353.tsv", "men.tsv", "simlex999.tsv")


@cache
def text(quick: bool) -> Path:
    """Return the path of the uncompressed text; of its first 10 MB for a quick run."""
    user_path = os.environ.get("EMBEDDINGS_TEXT")
    if user_path and not quick:
        return Path(user_path)
    path = work_folder(quick) / ("wiki10.txt" if quick else "wiki100.txt")
    if not path.exists():
        with lzma.open(find("text/wiki100.txt.xz")) as file:
            path.write_bytes(file.read(10_000_000 if quick else -1))
    return path


def work_folder(quick: bool) -> Path:
    """Return the folder for texts and saved vectors."""
    folder = WORK / "quick" if quick else WORK
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def train_ours(kind: str, path: Path, epochs: int, seed: int) -> Any:
    """Train a model of trellis."""
    cls = FastText if kind == "subwords" else Word2Vec
    model = cls(epochs=epochs, n_jobs=THREADS, random_state=seed, **KINDS[kind])
    return model.fit(path)


def run_peer(**task: Any) -> dict[str, Any]:
    """Run a training in the environment of the peers; return its figures."""
    script = Path(__file__).with_name("embeddings_peer.py")
    command = [PEERS, str(script), json.dumps({"threads": THREADS, "seed": 1, **task}, default=str)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the peer failed at {task}: {done.stderr[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def peer_speed(tool: str, kind: str, path: Path, words: int) -> float:
    """Return words per second; for programs that do not report it, from 1 and 2 epochs."""
    kind = PEERS_KIND.get(kind, kind)
    if tool == "gensim":
        figures = run_peer(tool=tool, kind=kind, path=path, epochs=2)
        return float(max(figures["words_per_second"]))
    one, two = (
        float(run_peer(tool=tool, kind=kind, path=path, epochs=n)["seconds"]) for n in (1, 2)
    )
    return words / max(two - one, 1e-9)


def speed(kind: str, quick: bool) -> list[Table]:
    """Measure words per second of all sides in turns."""
    path = text(quick)
    selected = os.environ.get("EMBEDDINGS_PEERS", "gensim fasttext word2vec.c").split()
    tools = [tool for tool in TOOLS[kind] if tool in selected]
    speeds: dict[str, list[float]] = {name: [] for name in ("ours", *tools)}
    for _ in range(3):
        model = train_ours(kind, path, 2, 1)
        speeds["ours"].append(model.words_per_second_)
        for tool in tools:
            speeds[tool].append(peer_speed(tool, kind, path, model.n_tokens_))
        print(kind, {name: round(values[-1]) for name, values in speeds.items()}, file=sys.stderr)
    table = Table(
        f"{kind}, words/s on {THREADS} threads, {path.name}, medians of 3 turns",
        ("side", "words/s", "best", "ours / this", "at best"),
    )
    ours = speeds["ours"]
    for name, values in speeds.items():
        median, best = statistics.median(values), max(values)
        table.add(name, median, best, statistics.median(ours) / median, max(ours) / best)
    return [table]


def scores(vectors: Vectors) -> list[float]:
    """Return the Spearman correlations on three lists, and the accuracy of analogies."""
    folder = find("wordsim")
    similar = [vectors.evaluate_similarity(folder / name).spearman for name in TESTS]
    analogies = vectors.evaluate_analogies(folder / "questions-words.txt", restrict=30_000)
    return [*similar, analogies.accuracy]


def train(quick: bool) -> list[Table]:
    """Train five epochs of all models by all sides, for each seed; skip saved trainings."""
    table = Table("trainings", ("model", "side", "seed", "minutes"))
    for seed in SEEDS[:1] if quick else SEEDS:
        for kind, side in TRAININGS:
            out = work_folder(quick) / f"{side}-{kind}-{seed}.npz"
            if out.exists():
                continue
            part, begin = out.with_suffix(".part.npz"), time.perf_counter()
            if side == "ours":
                vectors = train_ours(kind, text(quick), 5, seed).vectors_
                np.savez(part, words=np.array(vectors.words), matrix=vectors.matrix)
            else:
                run_peer(tool=side, kind=kind, path=text(quick), epochs=5, seed=seed, out=part)
            part.rename(out)
            table.add(kind, side, seed, (time.perf_counter() - begin) / 60)
    return [table]


def quality(quick: bool) -> list[Table]:
    """Compute the mean scores over the seeds that have been trained."""
    table = Table(
        f"quality after 5 epochs of {text(quick).name}, means",
        ("model", "side", "seeds", "WordSim-353", "MEN", "SimLex-999", "analogies"),
    )
    for kind, side in sorted(TRAININGS, key=lambda training: list(KINDS).index(training[0])):
        seed_scores = []
        for path in sorted(work_folder(quick).glob(f"{side}-{kind}-[0-9].npz")):
            saved = np.load(path)
            seed_scores.append(scores(Vectors(saved["words"].tolist(), saved["matrix"])))
        if seed_scores:
            means = (f"{mean:.4f}" for mean in np.mean(seed_scores, axis=0))
            table.add(kind, side, len(seed_scores), *means)
    return [table]


def supervised(quick: bool) -> list[Table]:
    """Measure text classification on the SNIPS intents with one thread."""
    files = {split: intents(split) for split in ("train", "test")}
    epochs = (20, 40)  # the difference of both times excludes the reading of the text
    table = Table("text classification, SNIPS intents", ("side", "P@1, 5 epochs", "words/s"))
    words = len(files["train"].read_text().split()) + files["train"].read_text().count("\n")
    model = TextClassifier(n_jobs=1, random_state=1).fit(files["train"])
    precision = model.test(files["test"]).precision
    task = {"tool": "fasttext", "kind": "supervised", "threads": 1}
    task |= {"path": files["train"], "test": files["test"]}
    fast = run_peer(**task, epochs=5)
    speeds: dict[str, list[float]] = {"ours": [], "fastText": []}
    for _ in range(3):
        model = TextClassifier(epochs=epochs[1], n_jobs=1, random_state=1).fit(files["train"])
        speeds["ours"].append(model.words_per_second_)
        one, two = (run_peer(**task, epochs=n)["seconds"] for n in epochs)
        speeds["fastText"].append(words * (epochs[1] - epochs[0]) / (two - one))
    table.add("ours", precision, statistics.median(speeds["ours"]))
    table.add("fastText", fast["precision"], statistics.median(speeds["fastText"]))
    return [table]


def prediction(quick: bool) -> list[Table]:
    """Measure µs per text, one at a time and in a list of 1,000, for language identification."""
    folder = find("models/fasttext")
    path = folder / "lid.176.ftz"
    cases = json.loads((folder / "expected.json").read_text())[path.name]["predictions"]
    texts = ([case["text"] for case in cases] * 1000)[:1000]
    replacement, model = compat.load_model(path), TextClassifier.load(path)
    calls = {
        "TextClassifier": (lambda: [model.predict([text]) for text in texts], model.predict),
        "replacement": (
            lambda: [replacement.predict(text) for text in texts],
            replacement.predict,
        ),
    }
    times: dict[str, list[float]] = {}
    for _ in range(3 if quick else 7):
        fast = run_peer(kind="prediction", model=path, texts=texts, turns=5)
        for name in ("alone", "list"):
            times.setdefault(f"fastText {name}", []).append(1e6 * fast[name])
        for name, (alone, many) in calls.items():
            for mode, call in (("alone", alone), ("list", lambda many=many: many(texts))):
                fastest = min(_seconds(call) for _ in range(5))
                times.setdefault(f"{name} {mode}", []).append(1e6 * fastest / len(texts))
    for text, (p, label) in zip(texts, fast["answers"], strict=True):
        (our_label,), (our_p,) = replacement.predict(text)
        check_close(f"{label} for {text!r}", our_p if our_label == label else np.nan, p, 1e-6)
    table = Table(
        f"labels of texts, µs per text, {path.name}, {len(cases)} texts in turn",
        ("side", "one at a time", "list of 1,000", "fastText / ours, one", "list"),
    )
    median = {name: statistics.median(values) for name, values in times.items()}
    for side in (*calls, "fastText"):
        medians = [median[f"{side} {mode}"] for mode in ("alone", "list")]
        theirs = [median[f"fastText {mode}"] for mode in ("alone", "list")]
        table.add(side, *medians, *(b / a for a, b in zip(medians, theirs, strict=True)))
    table.notes.append(f"minima: { ({n: round(min(v), 1) for n, v in times.items()}) }")
    return [table]


def _seconds(call: Any) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def intents(split: str) -> Path:
    """Write the queries as a file for fastText, in a fixed random order; return its path."""
    from trellis.data import files

    path = work_folder(False) / f"snips.{split}.txt"
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
    """Measure the time to read the text and to count its words."""
    table = Table("vocabulary", ("text", "MB", "types", "vocabulary", "seconds"))
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
    """Measure time per word for several texts and vocabularies, and memory beyond the tables."""
    table = Table(
        "costs, skip-gram, one epoch",
        ("text", "words", "vocabulary", "ns per word", "peak beyond tables, MB"),
    )
    source = text(quick)
    size = source.stat().st_size
    for part, min_count in ((0.25, 5), (0.5, 5), (1.0, 5), (1.0, 1), (1.0, 50)):
        path = WORK / "part.txt"
        with open(source, "rb") as file:
            path.write_bytes(file.read(int(part * size)))
        code = (
            "from trellis import Word2Vec; "
            f"m = Word2Vec(epochs=1, n_jobs={THREADS}, random_state=1, min_count={min_count}); "
            f"m.fit({str(path)!r}); "
            "line = next(line for line in open('/proc/self/status') if 'VmHWM' in line); "
            "peak = int(line.split()[1]) * 1024; "
            "tables = m._input.nbytes + m._output.nbytes; "
            "print(m.n_tokens_, len(m.words_), m.words_per_second_, peak - tables)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        words, vocabulary_size, rate, memory = map(float, done.stdout.split())
        table.add(f"{part:.0%}", int(words), int(vocabulary_size), 1e9 / rate, memory / 1e6)
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
