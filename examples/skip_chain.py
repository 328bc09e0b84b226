"""Names that come again: a skip-chain CRF (Sutton and McCallum 2004).

A name that is clear in one place may be unclear in another of the same document. So besides the chain,
edges join each capitalised word to where it stood last, and have weights of their own for pairs of labels.
The graph has loops: learning and labelling are by tree-reweighted messages, and the plain chain, which has
none, is learnt exactly. The data are the Dutch news of CoNLL-2002, which say where a document begins; some
of them, to be quick. What the edges are for are names that come again, so these are also counted alone.

With edges to the last four places instead of one, messages were slow to settle.

    python examples/skip_chain.py [--data FOLDER] [--documents 12]
"""  # noqa: E501

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from trellis import GraphCRF
from trellis.data.tags import spans
from trellis.features import ner
from trellis.features.vectorizer import choose
from trellis.metrics import span_f1

DATA = Path(__file__).parents[2] / "shared" / "data" / "ner"


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
    last: dict[str, int] = {}
    for sentence in document:
        found += [(at + i, at + i + 1) for i in range(len(sentence) - 1)]
        kinds += [0.0] * (len(sentence) - 1)
        for i, (word, _) in enumerate(sentence):
            if skip and i > 0 and word[:1].isupper() and len(word) > 1:
                if word in last:
                    found.append((last[word], at + i))
                    kinds.append(1.0)
                last[word] = at + i
        at += len(sentence)
    return np.array(found, dtype=int).reshape(-1, 2), np.array(kinds).reshape(-1, 1)


def rows_of(batch: Any, columns: int, lengths: list[int]) -> list[Any]:
    """Features of each document as a sparse matrix."""
    rows = batch.rows
    value = np.ones(len(rows.id)) if rows.value is None else rows.value
    whole = sparse.csr_matrix((value, rows.id, rows.begin), shape=(len(rows), columns))
    ends = np.cumsum(lengths)
    return [whole[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def repeated_f1(truth: list[Any], guess: list[Any], graphs: list[Any]) -> tuple[float, int]:
    """F1 of the spans with a word that has a skip edge, and how many there are."""
    counts = np.zeros(3, dtype=int)
    for right, ours, (_, edges, kinds) in zip(truth, guess, graphs, strict=True):
        again = set(edges[kinds[:, 0] > 0].ravel().tolist())
        both = [
            {s for s in spans(tags) if again.intersection(range(s.start, s.end))}
            for tags in (right, ours)
        ]
        counts += [len(both[0] & both[1]), len(both[0]), len(both[1])]
    return 200.0 * counts[0] / max(1, counts[1] + counts[2]), int(counts[1])


def main() -> None:
    """Chain and skip-chain, side by side."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--documents", type=int, default=12)
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
    joined = [(None, *edges_of(d, skip=True)) for d in parts["testa"]]
    for name, skip in (("chain", False), ("skip-chain", True)):
        graphs = {
            part: [(m, *edges_of(d, skip)) for m, d in zip(matrices[part], docs, strict=True)]
            for part, docs in parts.items()
        }
        model = GraphCRF("trw" if skip else "likelihood", l2=2.0, max_iter=chosen.max_iter)
        model.fit(graphs["train"], truth["train"])
        guess = [own.tolist() for own in model.predict(graphs["testa"])]
        f1 = 100 * span_f1(truth["testa"], guess)
        again, count = repeated_f1(truth["testa"], guess, joined)
        print(f"{name:12} F1 {f1:.2f}, of {count} names that come again {again:.2f}", flush=True)


if __name__ == "__main__":
    main()
