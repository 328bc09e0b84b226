"""Draw the pictures of the model pages: ``python docs/pictures.py`` writes SVG files here.

The other pictures come from the examples: label_bias.py, partial_labels.py, segmentation.py,
spoken_digits.py, and from ``trellis demo``.
"""

from pathlib import Path

import numpy as np

from trellis import CRF, LogisticRegression, SoftmaxRegression, Vectors
from trellis.inference import chain, ctc
from trellis.plots import Drawing, ctc_lattice, curves, lattice, model_graph, prefix_tree

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
    pairs = [("man", "woman"), ("king", "queen"), ("prince", "princess")]
    return Vectors(names, rows).plot(names, pairs=pairs)


def sentence() -> Drawing:
    """The trellis of a sentence, with log α."""
    X = [["Ann", "lives", "in", "New", "York"], ["Bob", "left", "Rome"]]
    y = [["B-PER", "O", "O", "B-LOC", "I-LOC"], ["B-PER", "O", "B-LOC"]]
    crf = CRF(constraints="BIO").fit(X, y)
    tokens, gold = ["Ann", "left", "New", "Rome"], ["B-PER", "O", "B-LOC", "I-LOC"]
    return crf.plot(tokens, gold, numbers="alpha")


def ctc_table() -> Drawing:
    """The forward table of CTC for random probabilities, with the best alignment."""
    table = ctc.forward(RANDOM, [1, 2, 2])
    path = ctc.align(RANDOM, [1, 2, 2]).labels.tolist()
    return ctc_lattice(table.alpha, table.symbols.tolist(), ["–", "c", "a", "t"], path)


def prefixes() -> Drawing:
    """A beam search of five frames."""
    beams = [
        [(h.labels, h.log_prob) for h in ctc.beam_search(RANDOM[:t], beam_width=4, k=4)]
        for t in range(1, 6)
    ]
    return prefix_tree(beams, ["–", "c", "a", "t"])


RANDOM = np.log(np.random.default_rng(0).dirichlet([1.0] * 4, size=9))
TOKENS = ["I", "have", "a", "pen"]
PICTURES = {
    "plot_sentence": sentence,
    "plot_ctc_lattice": ctc_table,
    "plot_prefix_tree": prefixes,
    "plot_independent": lambda: model_graph("independent", TOKENS, title="Independent softmax"),
    "plot_memm": lambda: model_graph("memm", TOKENS, title="MEMM"),
    "plot_crf": lambda: model_graph("crf", TOKENS, title="CRF"),
    "plot_skip_chain": lambda: model_graph(
        "skip-chain", ["Bob", "saw", "Bob"], skips=[(0, 2)], title="Skip-chain CRF"
    ),
    "logistic": logistic,
    "softmax": softmax,
    "casino": casino,
    "emissions": emission_scores,
    "words": words,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        draw().save(FOLDER / f"{name}.svg")
