"""Parts of speech by HMM, MEMM and CRF: the same words, the same labels, three normalisers.

    HMM   p(x, y) = Πₜ p(yₜ | yₜ₋₁) p(xₜ | yₜ)                       counts
    MEMM  p(y | x) = Πₜ exp(w · φ(x, t, yₜ₋₁, yₜ)) / Z(x, t, yₜ₋₁)     a choice at each step
    CRF   p(y | x) = Πₜ exp(w · φ(x, t, yₜ₋₁, yₜ)) / Z(x)              a choice of the whole

First all three see the word alone. Then MEMM and CRF take what an HMM cannot: overlapping features
of the word and its neighbours. Strengths of smoothing and penalty are chosen on the development
part, the figures are of the test part.

    python examples/pos_models.py [--data FOLDER]

FOLDER holds ud-en-gum.{train,dev,test}.conllu.gz, Universal Dependencies' English GUM.
"""

import argparse
from pathlib import Path

from trellis import CRF, HMM, MEMM
from trellis.data import conllu
from trellis.features import named, pos
from trellis.metrics import accuracy

DATA = Path(__file__).parents[2] / "shared" / "data" / "pos"
STRENGTHS = (0.03, 0.1, 0.3, 1.0)
"""Added to the counts of the HMM; l2 of the others."""
WORD = named(["w[0]"])


def candidates() -> dict[str, list]:
    """Models by what they see, one for each strength."""
    return {
        "HMM, word": [HMM(smoothing=s) for s in STRENGTHS],
        "MEMM, word": [MEMM(WORD, l2=s) for s in STRENGTHS],
        "CRF, word": [CRF(WORD, l2=s) for s in STRENGTHS],
        "MEMM, pos()": [MEMM(pos(), l2=s) for s in STRENGTHS],
        "CRF, pos()": [CRF(pos(), l2=s) for s in STRENGTHS],
    }


def main() -> None:
    """Choose on dev, report on test."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, default=DATA, help="folder of the three files")
    folder = options.parse_args().data
    train, dev, test = (
        conllu.read(folder / f"ud-en-gum.{part}.conllu.gz") for part in ("train", "dev", "test")
    )
    known = {word for words in train[0] for word in words}
    unseen = [[word not in known for word in words] for words in test[0]]

    print(f"English GUM: {sum(map(len, train[0])):,} words to learn from, 17 labels\n")
    print("              strength    dev    test   test, unseen words")
    for name, models in candidates().items():
        scores = [accuracy(dev[1], model.fit(*train).predict(dev[0])) for model in models]
        best = scores.index(max(scores))
        guess = models[best].predict(test[0])
        right = accuracy(test[1], guess), accuracy(_only(test[1], unseen), _only(guess, unseen))
        print(f"{name:14}{STRENGTHS[best]:8g}{scores[best]:8.2%}{right[0]:8.2%}{right[1]:12.2%}")


def _only(y: list, wanted: list) -> list:
    """The labels at the positions that are wanted."""
    return [
        [label for label, keep in zip(own, mask, strict=True) if keep]
        for own, mask in zip(y, wanted, strict=True)
    ]


if __name__ == "__main__":
    main()
