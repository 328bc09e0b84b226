"""Label bias: three models learn the same noisy automaton, and one of them ignores its input.

        ┌── 1:r ── 2:i ──┐        every word is rib or rob, equally often;
    0 ──┤                ├── 3:b  a state shows its letter, and sometimes one of the other
        └── 4:r ── 5:o ──┘        three

The label of a letter is its state (Lafferty, McCallum and Pereira 2001). State 1 has only one
successor. The MEMM normalises each step over the successors of a state, so that the observation
makes no difference: p(2 | 1, o) = p(2 | 1, i) = 1. The middle letter, the only one that
distinguishes the words, has no effect. The first letter decides, and it is r in both words. The HMM
and the CRF score complete paths, where a wrong letter lowers the score.

    python examples/label_bias.py [label_bias.svg]
"""

import sys
from itertools import pairwise

import numpy as np

from trellis import CRF, HMM, MEMM
from trellis.features import named
from trellis.metrics import accuracy, sequence_accuracy
from trellis.plots import curves

LETTERS = "ribo"
SHOWS = {"1": "r", "2": "i", "3": "b", "4": "r", "5": "o"}
WORDS = {"rib": ["0", "1", "2", "3"], "rob": ["0", "4", "5", "3"]}
ARROWS = {arrow for path in WORDS.values() for arrow in pairwise(path)}
FORBIDDEN = [(a, b) for a in "012345" for b in "012345" if (a, b) not in ARROWS]
NOISE = [n / 32 for n in range(8)]
"""Probability of each wrong letter. The paper has 1/32."""


def draw(words: int, noise: float, rng: np.random.Generator) -> tuple[list, list]:
    """Draw letters and states; a state shows each wrong letter with probability ``noise``."""
    y = [list(WORDS.values())[word] for word in rng.integers(2, size=words)]
    is_wrong = rng.random((words, 3)) < 3 * noise
    wrong_letters = rng.integers(3, size=(words, 3))
    X = []
    for path, wrong_here, replacements in zip(y, is_wrong, wrong_letters, strict=True):
        word = ["^"]
        for state, wrong, n in zip(path[1:], wrong_here, replacements, strict=True):
            letter = SHOWS[state]
            word.append(LETTERS.replace(letter, "")[n] if wrong else letter)
        X.append(word)
    return X, y


def models() -> dict:
    """Return three models with the same observation, a letter, and the same arrows."""
    settings = {"features": named(["w[0]"]), "l2": 1e-3, "constraints": FORBIDDEN}
    return {"CRF": CRF(**settings), "MEMM": MEMM(**settings), "HMM": HMM(smoothing=1e-3)}


def errors(noise: float, seed: int) -> tuple[dict, dict]:
    """Return the fitted models, and the fractions of wrong words and wrong letters of each."""
    rng = np.random.default_rng(seed)
    train, (X, y) = draw(2000, noise, rng), draw(5000, noise, rng)
    fitted = {name: model.fit(*train) for name, model in models().items()}
    rates = {}
    for name, model in fitted.items():
        predicted = model.predict(X)
        letters = accuracy([path[1:] for path in y], [path[1:] for path in predicted])
        rates[name] = (1 - sequence_accuracy(y, predicted), 1 - letters)
    return fitted, rates


def main() -> None:
    """Train the models at several levels of noise, then print and draw their error rates."""
    print("2,000 words for training, 5,000 for testing; each wrong letter has probability 1/32\n")
    fitted, rates = errors(1 / 32, seed=1)
    print("        wrong words  wrong letters   p(its path | rib)  p(its path | rob)")
    for name, (words, letters) in rates.items():
        p = [np.exp(fitted[name].log_likelihood([["^", *w]], [WORDS[w]])) for w in WORDS]
        print(f"{name:8}{words:11.1%}{letters:15.1%}{p[0].item():20.3f}{p[1].item():19.3f}")
    print(f"{'optimum':8}{2 / 32:11.1%}{2 / 32 * 2 / 3:15.1%}    (2 of 3 letters are uncertain)")
    print("\nThe MEMM always predicts the more frequent word of its training data.")

    series = {name: [] for name in ("CRF", "MEMM", "HMM")}
    for noise in NOISE:
        for name, (words, _) in errors(noise, seed=2)[1].items():
            series[name].append((100 * noise, 100 * words))
    series["optimum"] = [(100 * noise, 200 * noise) for noise in NOISE]
    if len(sys.argv) > 1:
        title = "rib or rob? Words read wrongly"
        axes = ("probability of each wrong letter, %", "wrong words, %")
        curves(series, *axes, title, dashed=["optimum"]).save(sys.argv[1])


if __name__ == "__main__":
    main()
