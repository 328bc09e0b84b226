"""Names that come again: a skip-chain CRF (Sutton and McCallum 2004).

A name that is clear in one place may be unclear in another of the same document. So besides the chain,
edges join the places where the same capitalised word stands, and have weights of their own for pairs of
labels. The graph has loops: learning and labelling are by belief propagation. The data are the Dutch
news of CoNLL-2002, which say where a document begins; some of them, to be quick.

    python examples/skip_chain.py [--data FOLDER] [--documents 60]
"""  # noqa: E501

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from trellis import GraphCRF
from trellis.features import ner
from trellis.features.vectorizer import choose
from trellis.metrics import span_f1

DATA = Path(__file__).parents[2] / "shared" / "data" / "ner"
_MOST_APART = 1


def documents(path: Path) -> Iterator[list[list[tuple[str, str]]]]:
    """Sentences of (word, tag), document by document."""
    sentences: list[list[tuple[str, str]]] = [[]]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            columns = line.rstrip("\n").split("\t")
            if line.startswith("# newdoc"):
                if any(sentences):
                    yield [s for s in sentences if s]
                sentences = [[]]
            elif len(columns) > 1:
                sentences[-1].append((columns[0], columns[-1]))
            elif sentences[-1]:
                sentences.append([])
    if any(sentences):
        yield [s for s in sentences if s]


def edges_of(document: list[list[tuple[str, str]]], skip: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of places, and for each 1 if it is a skip edge."""
    found, kinds, at = [], [], 0
    seen: dict[str, list[int]] = {}
    for sentence in document:
        found += [(at + i, at + i + 1) for i in range(len(sentence) - 1)]
        kinds += [0.0] * (len(sentence) - 1)
        for i, (word, _) in enumerate(sentence):
            if skip and i > 0 and word[:1].isupper() and len(word) > 1:
                before = seen.setdefault(word, [])
                found += [(other, at + i) for other in before[-_MOST_APART:]]
                kinds += [1.0] * len(before[-_MOST_APART:])
                before.append(at + i)
        at += len(sentence)
    return np.array(found, dtype=int).reshape(-1, 2), np.array(kinds).reshape(-1, 1)


def rows_of(batch: Any, columns: int, lengths: list[int]) -> list[Any]:
    """Features of each document as a sparse matrix."""
    rows = batch.rows
    value = np.ones(len(rows.id)) if rows.value is None else rows.value
    whole = sparse.csr_matrix((value, rows.id, rows.begin), shape=(len(rows), columns))
    ends = np.cumsum(lengths)
    return [whole[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def main() -> None:
    """Chain and skip-chain, side by side."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--documents", type=int, default=60)
    options.add_argument("--max-iter", type=int, default=40)
    chosen = options.parse_args()
    parts = {
        part: list(documents(chosen.data / f"conll2002-nl.{part}.conll.gz"))
        for part in ("train", "testa")
    }
    parts["train"] = parts["train"][: chosen.documents]
    spec, matrices = None, {}
    for part, docs in parts.items():
        words = [[word for word, _ in sentence] for doc in docs for sentence in doc]
        if spec is None:
            spec = choose(ner(), None, words)
            batch = spec.learn(words)
        else:
            batch = spec.find(words, 2)
        lengths = [sum(map(len, doc)) for doc in docs]
        matrices[part] = rows_of(batch, len(spec), lengths)
    truth = {p: [[t for s in d for _, t in s] for d in docs] for p, docs in parts.items()}
    tokens = sum(map(len, truth["train"]))
    print(f"{len(parts['train'])} documents of {tokens:,} tokens to learn from\n")
    for name, skip in (("chain", False), ("skip-chain", True)):
        graphs = {
            part: [(m, *edges_of(d, skip)) for m, d in zip(matrices[part], docs, strict=True)]
            for part, docs in parts.items()
        }
        model = GraphCRF("bethe", l2=0.5, max_iter=chosen.max_iter, max_sweeps=15, inference="bp")
        model.fit(graphs["train"], truth["train"])
        guess = [own.tolist() for own in model.predict(graphs["testa"])]
        skips = sum(int(g[2].sum()) for g in graphs["testa"])
        f1 = 100 * span_f1(truth["testa"], guess)
        print(f"{name:12} F1 {f1:.2f}   ({skips} skip edges in test)", flush=True)


if __name__ == "__main__":
    main()
