"""Label bias: three models learn the same noisy automaton, and one of them cannot listen.

        ┌── 1:r ── 2:i ──┐        every word is rib or rob, one as often as the other;
    0 ──┤                ├── 3:b  a state shows its own letter, and now and then one of
        └── 4:r ── 5:o ──┘        the other three

The letters say the word, the label of a letter is its state (Lafferty, McCallum and Pereira 2001).
From state 1 there is one way on. The MEMM gives each step's probability to the states that may
follow, all of it, whatever is seen: p(2 | 1, o) = p(2 | 1, i) = 1. So the middle letter, the only
one that tells the words apart, changes nothing; the first letter decides, and it is r in both. The
HMM and the CRF weigh whole paths, and there the wrong letter costs.

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
"""Probabilities of each wrong letter; the paper's is 1/32."""


def draw(words: int, noise: float, rng: np.random.Generator) -> tuple[list, list]:
    """Letters and states; a state shows each letter that is not its own with probability noise."""
    y = [list(WORDS.values())[word] for word in rng.integers(2, size=words)]
    slips = rng.random((words, 3)) < 3 * noise
    others = rng.integers(3, size=(words, 3))
    X = []
    for path, slip, other in zip(y, slips, others, strict=True):
        own = [SHOWS[state] for state in path[1:]]
        letters = zip(own, slip, other, strict=True)
        X.append(["^", *(LETTERS.replace(a, "")[n] if wrong else a for a, wrong, n in letters)])
    return X, y


def models() -> dict:
    """The same observation, a letter, and the same arrows for each."""
    seen = {"features": named(["w[0]"]), "l2": 1e-3, "constraints": FORBIDDEN}
    return {"CRF": CRF(**seen), "MEMM": MEMM(**seen), "HMM": HMM(smoothing=1e-3)}


def errors(noise: float, seed: int) -> tuple[dict, dict]:
    """Fitted models, and for each the shares of wrong words and wrong letters."""
    rng = np.random.default_rng(seed)
    train, (X, y) = draw(2000, noise, rng), draw(5000, noise, rng)
    fitted = {name: model.fit(*train) for name, model in models().items()}
    found = {}
    for name, model in fitted.items():
        guess = model.predict(X)
        letters = accuracy([path[1:] for path in y], [path[1:] for path in guess])
        found[name] = (1 - sequence_accuracy(y, guess), 1 - letters)
    return fitted, found


def main() -> None:
    """Learn at several levels of noise, print, draw."""
    print("2,000 words to learn from, 5,000 to label; each wrong letter with probability 1/32\n")
    fitted, found = errors(1 / 32, seed=1)
    print("        wrong words  wrong letters   p(its path | rib)  p(its path | rob)")
    for name, (words, letters) in found.items():
        sure = [np.exp(fitted[name].log_likelihood([["^", *w]], [WORDS[w]])) for w in WORDS]
        print(f"{name:8}{words:11.1%}{letters:15.1%}{sure[0].item():20.3f}{sure[1].item():19.3f}")
    print(f"{'at best':8}{2 / 32:11.1%}{2 / 32 * 2 / 3:15.1%}    (2 of the 3 letters are in doubt)")
    print("\nThe MEMM says the commoner word of its training data, whatever it reads.")

    series = {name: [] for name in ("CRF", "MEMM", "HMM")}
    for noise in NOISE:
        for name, (words, _) in errors(noise, seed=2)[1].items():
            series[name].append((100 * noise, 100 * words))
    series["at best"] = [(100 * noise, 200 * noise) for noise in NOISE]
    if len(sys.argv) > 1:
        title = "rib or rob? Words read wrongly"
        axes = ("probability of each wrong letter, %", "wrong words, %")
        curves(series, *axes, title, dashed=["at best"]).save(sys.argv[1])


if __name__ == "__main__":
    main()
