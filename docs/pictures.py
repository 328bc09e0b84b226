"""Draw the pictures of the model pages: ``python docs/pictures.py`` writes SVG files here.

The other pictures come from the examples: label_bias.py, partial_labels.py, segmentation.py,
spoken_digits.py, and from ``trellis demo``.
"""

from pathlib import Path

import numpy as np

from trellis import LogisticRegression, SoftmaxRegression, Vectors
from trellis.inference import chain
from trellis.plots import Drawing, curves, lattice

FOLDER = Path(__file__).parent


def logistic() -> Drawing:
    """p(1 | x) of the example on the page, for two strengths of the penalty."""
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    hours = np.linspace(0, 3, 61)
    series = {}
    for l2 in (0.1, 1.0):
        p = LogisticRegression(l2=l2).fit(X, y).predict_proba(hours[:, None])[:, 1]
        series[f"l2 = {l2:g}"] = list(zip(hours.tolist(), p.tolist(), strict=True))
    return curves(series, x="hours of work", y="p(passed)")


def softmax() -> Drawing:
    """The probabilities of three classes, for the example on the page."""
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["low", "low", "mid", "high"])
    model = SoftmaxRegression(l2=0.1).fit(X, y)
    values = np.linspace(0, 3, 61)
    p = model.predict_proba(values[:, None])
    series = {
        str(label): list(zip(values.tolist(), p[:, k].tolist(), strict=True))
        for k, label in enumerate(model.classes_)
    }
    return curves(series, x="x", y="p(y | x)")


def casino() -> Drawing:
    """The posterior probability of the loaded die in the occasionally dishonest casino."""
    stay = np.array([[0.95, 0.05], [0.10, 0.90]])
    faces = np.array([[1 / 6] * 6, [0.1, 0.1, 0.1, 0.1, 0.1, 0.5]])
    rng = np.random.default_rng(7)
    dice = np.zeros(120, dtype=int)
    for t in range(1, len(dice)):
        dice[t] = rng.choice(2, p=stay[dice[t - 1]])
    rolls = np.array([rng.choice(6, p=faces[die]) for die in dice])
    start = np.array([0.0, -np.inf])
    p = chain.marginals(np.log(faces[:, rolls].T), np.log(stay), start).unary[:, 1]
    positions = range(1, len(dice) + 1)
    series = {
        "p(loaded die | rolls)": list(zip(positions, p.tolist(), strict=True)),
        "the die that was used": list(zip(positions, dice.astype(float).tolist(), strict=True)),
    }
    return curves(series, x="roll", dashed=["the die that was used"])


def emission_scores() -> Drawing:
    """A CRF layer over emissions: the best path differs from the best label at each step."""
    labels = ["O", "B", "I"]
    emissions = np.array([[1.0, 0.9, 1.2], [0.3, 0.2, 1.5], [1.5, 0.2, 0.4], [0.2, 1.0, 0.8]])
    transition = np.zeros((3, 3))
    transition[0, 2] = -np.inf
    start = np.array([0.0, 0.0, -np.inf])
    p = chain.marginals(emissions, transition, start).unary
    path = [labels[k] for k in chain.viterbi(emissions, transition, start).labels]
    return lattice(["Ann", "Lee", "left", "Rome"], labels, p, path)


def words() -> Drawing:
    """Word vectors in the plane in which they differ most."""
    names = ["king", "queen", "man", "woman", "prince", "princess"]
    rows = [[3, 1, 0.1], [3, 3, 0.1], [1, 1, 0.2], [1, 3, 0.2], [2.2, 1, 1.4], [2.2, 3, 1.4]]
    return Vectors(names, rows).plot(names)


PICTURES = {
    "logistic": logistic,
    "softmax": softmax,
    "casino": casino,
    "emissions": emission_scores,
    "words": words,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        draw().save(FOLDER / f"{name}.svg")
