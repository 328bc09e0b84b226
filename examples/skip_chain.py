"""Repeated names: a skip-chain CRF (Sutton and McCallum 2004).

A name may be easy to recognise in one sentence and hard in another sentence of the same document.
So, in addition to the chain, an edge joins each capitalised word to its previous occurrence. These
edges have separate weights for pairs of labels. The graph has loops: training and prediction use
tree-reweighted message passing. The plain chain has no loops and is trained exactly. The data are
Dutch news of CoNLL-2002, which has document boundaries. Only some documents are used, to be quick.
The edges are meant for repeated names, so the example also prints the score of repeated names.

Edges to the four previous occurrences are not used, because message passing converged slowly.

    python examples/skip_chain.py [--data FOLDER] [--documents 12]
"""

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
    """Yield the documents, each a list of sentences of (word, tag)."""
    sentences: list[list[tuple[str, str]]] = [[]]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            columns = line.rstrip("\n").split("\t")
            if line.startswith("# newdoc"):
                if any(sentences):
                    yield [sentence for sentence in sentences if sentence]
                sentences = [[]]
            elif len(columns) > 1:
                sentences[-1].append((columns[0], columns[-1]))
            elif sentences[-1]:
                sentences.append([])
    if any(sentences):
        yield [sentence for sentence in sentences if sentence]


def edges_of(document: list[list[tuple[str, str]]], skip: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return edges, shape (E, 2), and for each edge 1 if it is a skip edge, shape (E, 1)."""
    edges, is_skip, offset = [], [], 0
    previous: dict[str, int] = {}
    for sentence in document:
        edges += [(offset + i, offset + i + 1) for i in range(len(sentence) - 1)]
        is_skip += [0.0] * (len(sentence) - 1)
        for i, (word, _) in enumerate(sentence):
            if skip and i > 0 and word[:1].isupper() and len(word) > 1:
                if word in previous:
                    edges.append((previous[word], offset + i))
                    is_skip.append(1.0)
                previous[word] = offset + i
        offset += len(sentence)
    return np.array(edges, dtype=int).reshape(-1, 2), np.array(is_skip).reshape(-1, 1)


def rows_of(batch: Any, columns: int, lengths: list[int]) -> list[Any]:
    """Return the features of each document as a sparse matrix."""
    rows = batch.rows
    value = np.ones(len(rows.id)) if rows.value is None else rows.value
    matrix = sparse.csr_matrix((value, rows.id, rows.begin), shape=(len(rows), columns))
    ends = np.cumsum(lengths)
    return [matrix[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def repeated_f1(truth: list[Any], predicted: list[Any], graphs: list[Any]) -> tuple[float, int]:
    """Return the F1 of spans that contain a word with a skip edge, and their number."""
    counts = np.zeros(3, dtype=int)
    for true_tags, tags, (_, edges, is_skip) in zip(truth, predicted, graphs, strict=True):
        repeated = set(edges[is_skip[:, 0] > 0].ravel().tolist())
        true_spans, predicted_spans = (
            {span for span in spans(labels) if repeated.intersection(range(span.start, span.end))}
            for labels in (true_tags, tags)
        )
        correct = true_spans & predicted_spans
        counts += [len(correct), len(true_spans), len(predicted_spans)]
    return 200.0 * counts[0] / max(1, counts[1] + counts[2]), int(counts[1])


def main() -> None:
    """Train a chain and a skip-chain, and print their scores."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--max-iter", type=int, default=40)
    options = parser.parse_args()
    parts = {
        part: list(documents(options.data / f"conll2002-nl.{part}.conll.gz"))
        for part in ("train", "testa")
    }
    parts["train"] = parts["train"][: options.documents]
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
    truth = {
        part: [[tag for sentence in doc for _, tag in sentence] for doc in docs]
        for part, docs in parts.items()
    }
    tokens = sum(map(len, truth["train"]))
    print(f"{len(parts['train'])} documents of {tokens:,} tokens for training\n")
    skip_graphs = [(None, *edges_of(doc, skip=True)) for doc in parts["testa"]]
    for name, skip in (("chain", False), ("skip-chain", True)):
        graphs = {
            part: [
                (matrix, *edges_of(doc, skip))
                for matrix, doc in zip(matrices[part], docs, strict=True)
            ]
            for part, docs in parts.items()
        }
        model = GraphCRF("trw" if skip else "likelihood", l2=2.0, max_iter=options.max_iter)
        model.fit(graphs["train"], truth["train"])
        predicted = [labels.tolist() for labels in model.predict(graphs["testa"])]
        f1 = 100 * span_f1(truth["testa"], predicted)
        repeated, count = repeated_f1(truth["testa"], predicted, skip_graphs)
        print(f"{name:12} F1 {f1:.2f}, of {count} repeated names {repeated:.2f}", flush=True)


if __name__ == "__main__":
    main()
