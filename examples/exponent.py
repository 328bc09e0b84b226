"""Which random words should negative sampling draw? word2vec draws w with p(w) ∝ count(w)^¾.

With exponent 0 all words are equally likely, with 1 they are as likely as in the text. The example
trains skip-gram with several exponents on the same text, with several seeds, and prints how well
the cosines agree with human judgements (Spearman's correlation in percent).

    python examples/exponent.py [--data FOLDER] [--lines N] [--seeds N] [--figure FILE]

FOLDER holds text/wiki100.txt.xz, running text with one paragraph per line, and wordsim/men.tsv and
wordsim/wordsim353.tsv, pairs of words with scores.
"""

import argparse
import lzma
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from trellis import Word2Vec
from trellis.plots import Drawing, curves

DATA = Path(__file__).parents[2] / "shared" / "data"
EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
FILES = {"MEN": "men.tsv", "WordSim-353": "wordsim353.tsv"}


def read_text(path: Path, lines: int) -> list[list[str]]:
    """Return the words of the first lines of a compressed text, in lower case."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [line.lower().split() for line in islice(file, lines)]


def measure(
    text: list[list[str]],
    files: dict[str, Path],
    exponents: Sequence[float],
    seeds: Sequence[int],
    **settings: Any,
) -> dict[str, np.ndarray]:
    """Return Spearman's correlation with each file in percent, (exponents, seeds)."""
    scores = {name: np.zeros((len(exponents), len(seeds))) for name in files}
    for i, exponent in enumerate(exponents):
        for j, seed in enumerate(seeds):
            model = Word2Vec(exponent=exponent, random_state=seed, **settings).fit(text)
            for name, path in files.items():
                scores[name][i, j] = 100 * model.vectors_.evaluate_similarity(path).spearman
    return scores


def draw(scores: dict[str, np.ndarray], exponents: Sequence[float]) -> Drawing:
    """Draw the mean over the seeds for each exponent."""
    series = {
        name: list(zip(exponents, values.mean(axis=1).tolist(), strict=True))
        for name, values in scores.items()
    }
    return curves(series, x="exponent", y="Spearman's correlation, %")


def show(scores: dict[str, np.ndarray], exponents: Sequence[float]) -> str:
    """Return a table of means and standard deviations over the seeds."""
    lines = ["exponent" + "".join(f"{name:>16}" for name in scores)]
    for i, exponent in enumerate(exponents):
        cells = (f"{v[i].mean():9.2f} ± {v[i].std():.2f}" for v in scores.values())
        lines.append(f"{exponent:8.2f}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    """Train, print the table, and write the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--lines", type=int, default=60_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    text = read_text(arguments.data / "text" / "wiki100.txt.xz", arguments.lines)
    print(f"{sum(map(len, text)):,} words")
    files = {name: arguments.data / "wordsim" / file for name, file in FILES.items()}
    scores = measure(text, files, EXPONENTS, range(arguments.seeds), n_jobs=1)
    print(show(scores, EXPONENTS))
    if arguments.figure:
        draw(scores, EXPONENTS).save(arguments.figure)


if __name__ == "__main__":
    main()
