"""Two labels per word at once: a factorial chain CRF (Sutton, McCallum and Rohanimanesh 2007).

    class₁ — class₂ — class₃ …      the word class
      |        |        |
    chunk₁ — chunk₂ — chunk₃ …      begin, inside, outside of a noun phrase

Both layers are chains. An edge joins the two labels of a word, so that each layer helps the other.
Each node has a type, and each type has its own set of labels. The words are those of CoNLL-2000;
the word classes are coarse, to be quick.

    python examples/factorial_chain.py [--data FOLDER] [--sentences 300]
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from trellis import GraphCRF
from trellis.data import conll

DATA = Path(__file__).parents[2] / "shared" / "data" / "chunking"
CLASSES = {"N": "noun", "V": "verb", "J": "adjective", "D": "det", "I": "prep", "R": "adverb"}
_COLUMNS = 1 << 14  # columns of the feature matrix; a hash chooses the column of a feature


def read(path: Path, count: int) -> list[tuple[list[str], list[str], list[str]]]:
    """Return words, coarse word classes and noun phrase tags of the first sentences."""
    tokens, tags = conll.read(path)
    sentences = []
    for sentence, chunks in zip(tokens[:count], tags[:count], strict=True):
        words = [token[0] for token in sentence]
        classes = [CLASSES.get(token[1][0], "other") for token in sentence]
        sentences.append(
            (words, classes, [chunk if chunk.endswith("-NP") else "O" for chunk in chunks])
        )
    return sentences


def features(words: list[str]) -> Any:
    """Return hashed features of both layers: the word, its suffix, its case and its neighbours."""
    rows, columns = [], []
    for i, word in enumerate(words):
        neighbours = [words[j] if 0 <= j < len(words) else "" for j in (i - 1, i + 1)]
        names = [word.lower(), "…" + word[-3:], word[:1].isupper(), "<" + neighbours[0]]
        names.append(">" + neighbours[1])
        for layer in (0, 1):
            for k, name in enumerate(names):
                rows.append(2 * i + layer)
                columns.append(_hash(f"{layer}{k}{name}"))
    shape = (2 * len(words), _COLUMNS)
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)


def _hash(text: str) -> int:
    """Return a hash that is the same in every run, unlike the built-in hash."""
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) % 1_000_003
    return value % _COLUMNS


def graph(words: list[str], joined: bool) -> tuple[Any, ...]:
    """Return the graph of a sentence: nodes 2i and 2i + 1 are the class and the chunk of word i."""
    n = len(words)
    pairs = [(2 * i + k, 2 * i + 2 + k, k) for i in range(n - 1) for k in (0, 1)]
    pairs += [(2 * i, 2 * i + 1, 2) for i in range(n)] if joined else []
    edges = np.array([p[:2] for p in pairs], dtype=int).reshape(-1, 2)
    edge_types = np.array([[p[2] == 1, p[2] == 2] for p in pairs], dtype=float).reshape(-1, 2)
    return (features(words), edges, edge_types, np.arange(2 * n) % 2)


def main() -> None:
    """Train two separate chains, then a factorial chain, and print their scores."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sentences", type=int, default=300)
    options = parser.parse_args()
    train = read(options.data / "conll2000.train.conll.gz", options.sentences)
    test = read(options.data / "conll2000.test.conll.gz", 300)
    y = [np.stack([classes, chunks], axis=1).ravel() for _, classes, chunks in train]
    truth = [np.stack([classes, chunks], axis=1) for _, classes, chunks in test]
    print(f"{'correct test labels':20}{'class':>9}{'chunk':>9}{'both':>9}")
    for name, joined in (("two chains", False), ("factorial chain", True)):
        model = GraphCRF("likelihood", l2=0.5, max_iter=60)
        model.fit([graph(words, joined) for words, *_ in train], y)
        predicted = model.predict([graph(words, joined) for words, *_ in test])
        pairs = zip(predicted, truth, strict=True)
        correct = np.concatenate([labels.reshape(-1, 2) == true for labels, true in pairs])
        both = correct.all(axis=1).mean()
        print(
            f"{name:20}{correct[:, 0].mean():9.2%}{correct[:, 1].mean():9.2%}{both:9.2%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
