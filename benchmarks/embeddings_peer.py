"""Run one training of a peer, in the environment of the peers. The task and the result are JSON.

peers/bin/python benchmarks/embeddings_peer.py '{"tool": "gensim", "kind": "skipgram", …}'
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

RATES = {"skipgram": 0.025, "cbow": 0.05, "skipgram-hs": 0.025, "subwords": 0.025}


def run_gensim(task: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return words per second of each epoch, and the words with their vectors."""
    from gensim.models import FastText, Word2Vec
    from gensim.models.callbacks import CallbackAny2Vec

    seconds: list[float] = []

    class Clock(CallbackAny2Vec):  # type: ignore[misc]
        def on_epoch_begin(self, model: Any) -> None:
            seconds.append(-time.perf_counter())

        def on_epoch_end(self, model: Any) -> None:
            seconds[-1] += time.perf_counter()

    kind = task["kind"]
    tree = kind == "skipgram-hs"
    options = {"min_n": 3, "max_n": 6, "bucket": 2_000_000} if kind == "subwords" else {}
    model = (FastText if kind == "subwords" else Word2Vec)(
        corpus_file=task["path"],
        sg=int(kind != "cbow"),
        hs=int(tree),
        negative=0 if tree else 5,
        alpha=RATES[kind],
        vector_size=100,
        window=5,
        sample=1e-3,
        min_count=5,
        workers=task["threads"],
        epochs=task["epochs"],
        seed=task["seed"],
        callbacks=[Clock()],
        **options,
    )
    words = model.corpus_total_words
    speeds = [words / epoch_seconds for epoch_seconds in seconds]
    return {"words_per_second": speeds}, (model.wv.index_to_key, model.wv.vectors)


def run_fasttext(task: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the seconds of a training, including the dictionary, which the caller subtracts."""
    import fasttext

    kind = task["kind"]
    begin = time.perf_counter()
    if kind == "supervised":
        model = fasttext.train_supervised(
            task["path"], epoch=task["epochs"], thread=task["threads"], verbose=0
        )
        seconds = time.perf_counter() - begin
        texts, precision, _ = model.test(task["test"])
        return {"seconds": seconds, "precision": precision, "texts": texts}, None
    subwords = kind == "subwords"
    model = fasttext.train_unsupervised(
        task["path"],
        model="cbow" if kind == "cbow" else "skipgram",
        loss="hs" if kind == "skipgram-hs" else "ns",
        lr=RATES[kind],
        dim=100,
        ws=5,
        neg=5,
        t=1e-3,
        minCount=5,
        epoch=task["epochs"],
        thread=task["threads"],
        minn=3 if subwords else 0,
        maxn=6 if subwords else 0,
        bucket=2_000_000 if subwords else 0,
        verbose=0,
    )
    seconds = time.perf_counter() - begin
    if "out" not in task:
        return {"seconds": seconds}, None
    words = model.get_words()
    return {"seconds": seconds}, (words, np.array([model.get_word_vector(word) for word in words]))


def run_word2vec(task: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the seconds of the original C program, which the package word2vec installs."""
    kind = task["kind"]
    tree = kind == "skipgram-hs"
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "train": task["path"],
            "output": f"{folder}/vectors.bin",
            "binary": 1,
            "cbow": int(kind == "cbow"),
            "hs": int(tree),
            "negative": 0 if tree else 5,
            "alpha": RATES[kind],
            "size": 100,
            "window": 5,
            "sample": 1e-3,
            "min-count": 5,
            "threads": task["threads"],
            "iter": task["epochs"],
            "debug": 0,
        }
        arguments = [str(part) for item in options.items() for part in (f"-{item[0]}", item[1])]
        begin = time.perf_counter()
        subprocess.run([str(Path(sys.executable).with_name("word2vec")), *arguments], check=True)
        return {"seconds": time.perf_counter() - begin}, None


def predict_fasttext(task: dict[str, Any]) -> dict[str, Any]:
    """Return minimum seconds per text, one at a time and in a list, and the predictions."""
    import fasttext

    fasttext.FastText.eprint = lambda *_: None
    model, texts = fasttext.load_model(task["model"]), task["texts"]

    def alone() -> list[Any]:
        # not model.predict, which fails with NumPy 2
        return [model.f.predict(text + "\n", 1, 0.0, "strict") for text in texts]

    seconds: dict[str, float] = {}
    for name, call in (("alone", alone), ("list", lambda: model.predict(texts))):
        turns = []
        for _ in range(task["turns"]):
            begin = time.perf_counter()
            call()
            turns.append((time.perf_counter() - begin) / len(texts))
        seconds[name] = min(turns)
    return {**seconds, "answers": [predictions[0] for predictions in alone()]}


TOOLS = {"gensim": run_gensim, "fasttext": run_fasttext, "word2vec.c": run_word2vec}


def main() -> None:
    """Run the task and print its figures."""
    task = json.loads(sys.argv[1])
    if task["kind"] == "prediction":
        print(json.dumps(predict_fasttext(task)))
        return
    figures, vectors = TOOLS[task["tool"]](task)
    if vectors is not None and "out" in task:
        words, matrix = vectors
        np.savez(task["out"], words=np.array(words), matrix=np.asarray(matrix, np.float32))
    figures["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
