"""Two labels for each word at once: a factorial chain (Sutton, McCallum and Rohanimanesh 2007).

    class₁ — class₂ — class₃ …      the word class
      |        |        |
    chunk₁ — chunk₂ — chunk₃ …      begin, inside, outside of a noun phrase

Both layers are chains, and the two labels of a word are joined: what is known of one helps the other. Nodes
have a type, and a type has labels of its own. The words are CoNLL-2000's, the classes coarse, to be quick.

    python examples/factorial_chain.py [--data FOLDER] [--sentences 300]
"""  # noqa: E501

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from trellis import GraphCRF
from trellis.data import conll

DATA = Path(__file__).parents[2] / "shared" / "data" / "chunking"
CLASSES = {"N": "noun", "V": "verb", "J": "adjective", "D": "det", "I": "prep", "R": "adverb"}
_COLUMNS = 1 << 14  # features are hashed into so many


def read(path: Path, most: int) -> list[tuple[list[str], list[str], list[str]]]:
    """Words, coarse classes, and the noun phrases."""
    tokens, tags = conll.read(path)
    out = []
    for sentence, chunks in zip(tokens[:most], tags[:most], strict=True):
        words, classes = [t[0] for t in sentence], [CLASSES.get(t[1][0], "other") for t in sentence]
        out.append((words, classes, [c if c.endswith("-NP") else "O" for c in chunks]))
    return out


def features(words: list[str]) -> Any:
    """The word, its ending, its shape and its neighbours, hashed: the same for both layers."""
    rows, columns = [], []
    for i, word in enumerate(words):
        near = [words[j] if 0 <= j < len(words) else "" for j in (i - 1, i + 1)]
        names = [word.lower(), "…" + word[-3:], word[:1].isupper(), "<" + near[0], ">" + near[1]]
        for layer in (0, 1):
            for k, name in enumerate(names):
                rows.append(2 * i + layer)
                columns.append(_hash(f"{layer}{k}{name}"))
    shape = (2 * len(words), _COLUMNS)
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)


def _hash(text: str) -> int:
    """The same on every run, as Python's own is not."""
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) % 1_000_003
    return value % _COLUMNS


def graph(words: list[str], joined: bool) -> tuple[Any, ...]:
    """Nodes 2 i and 2 i + 1 are the class and the chunk of word i."""
    n = len(words)
    pairs = [(2 * i + k, 2 * i + 2 + k, k) for i in range(n - 1) for k in (0, 1)]
    pairs += [(2 * i, 2 * i + 1, 2) for i in range(n)] if joined else []
    edges = np.array([p[:2] for p in pairs], dtype=int).reshape(-1, 2)
    kinds = np.array([[p[2] == 1, p[2] == 2] for p in pairs], dtype=float).reshape(-1, 2)
    return (features(words), edges, kinds, np.arange(2 * n) % 2)


def main() -> None:
    """Two chains apart, and joined."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--sentences", type=int, default=300)
    chosen = options.parse_args()
    train = read(chosen.data / "conll2000.train.conll.gz", chosen.sentences)
    test = read(chosen.data / "conll2000.test.conll.gz", 300)
    y = [np.stack([c, k], axis=1).ravel() for _, c, k in train]
    truth = [np.stack([c, k], axis=1) for _, c, k in test]
    print(f"{'test labels right':20}{'class':>9}{'chunk':>9}{'both':>9}")
    for name, joined in (("two chains", False), ("factorial chain", True)):
        model = GraphCRF("likelihood", l2=0.5, max_iter=60)
        model.fit([graph(words, joined) for words, *_ in train], y)
        guess = model.predict([graph(words, joined) for words, *_ in test])
        right = np.concatenate(
            [own.reshape(-1, 2) == want for own, want in zip(guess, truth, strict=True)]
        )
        both = right.all(axis=1).mean()
        print(f"{name:20}{right[:, 0].mean():9.2%}{right[:, 1].mean():9.2%}{both:9.2%}", flush=True)


if __name__ == "__main__":
    main()
