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
    parts = {p: conllu.read(folder / f"ud-en-gum.{p}.conllu.gz") for p in ("train", "dev", "test")}
    (X_dev, y_dev), (X_test, y_test) = parts["dev"], parts["test"]
    known = {word for x in parts["train"][0] for word in x}
    unseen = [[word not in known for word in x] for x in X_test]

    print(f"English GUM, {sum(map(len, parts['train'][0])):,} words to learn from, 17 labels\n")
    print("              strength    dev   test   unseen words")
    for name, models in candidates().items():
        dev = [accuracy(y_dev, m.fit(*parts["train"]).predict(X_dev)) for m in models]
        best = dev.index(max(dev))
        guess = models[best].predict(X_test)
        rare = accuracy(_only(y_test, unseen), _only(guess, unseen))
        test = accuracy(y_test, guess)
        print(f"{name:14}{STRENGTHS[best]:8g}{dev[best]:8.2%}{test:8.2%}{rare:11.2%}", flush=True)


def _only(y: list, wanted: list) -> list:
    """The labels at the positions that are wanted."""
    return [
        [label for label, keep in zip(own, mask, strict=True) if keep]
        for own, mask in zip(y, wanted, strict=True)
    ]


if __name__ == "__main__":
    main()
