"""Parts of speech by HMM, MEMM and CRF: three models of the same words and labels.

    HMM   p(x, y) = Πₜ p(yₜ | yₜ₋₁) p(xₜ | yₜ)                       counts
    MEMM  p(y | x) = Πₜ exp(w · φ(x, t, yₜ₋₁, yₜ)) / Z(x, t, yₜ₋₁)     normalised at each step
    CRF   p(y | x) = Πₜ exp(w · φ(x, t, yₜ₋₁, yₜ)) / Z(x)              normalised over the sequence

First, all three models see only the word. Then the MEMM and the CRF get overlapping features of the
word and its neighbours, which an HMM cannot use. The strength of smoothing or penalty is chosen on
the development set; the scores are those of the test set.

    python examples/pos_models.py [--data FOLDER]

FOLDER holds ud-en-gum.{train,dev,test}.conllu.gz, Universal Dependencies' English GUM.
"""

import argparse
from pathlib import Path
from typing import Any

from trellis import CRF, HMM, MEMM
from trellis.data import conllu
from trellis.features import named, pos
from trellis.metrics import accuracy

DATA = Path(__file__).parents[2] / "shared" / "data" / "pos"
SMOOTHING = (0.0001, 0.001, 0.01, 0.1)
L2 = (0.03, 0.1, 0.3)
WORD = named(["w[0]"])


def candidates() -> dict[str, dict[float, Any]]:
    """Return the models by name, and then by strength of smoothing or penalty."""
    return {
        "HMM, word": {s: HMM(smoothing=s) for s in SMOOTHING},
        "MEMM, word": {s: MEMM(WORD, l2=s, max_iter=300) for s in L2},
        "CRF, word": {s: CRF(WORD, l2=s, max_iter=300) for s in L2},
        "MEMM, pos()": {s: MEMM(pos(), l2=s, max_iter=100) for s in L2},
        "CRF, pos()": {s: CRF(pos(), l2=s, max_iter=100) for s in L2},
    }


def main() -> None:
    """Choose the strength on the development set, and print the scores on the test set."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the three files")
    folder = parser.parse_args().data
    train, dev, test = (
        conllu.read(folder / f"ud-en-gum.{part}.conllu.gz") for part in ("train", "dev", "test")
    )
    known = {word for words in train[0] for word in words}
    unseen = [[word not in known for word in words] for words in test[0]]

    print(f"English GUM: {sum(map(len, train[0])):,} words for training, 17 labels\n")
    print("              strength    dev    test   test, unseen words")
    for name, models in candidates().items():
        scores = {s: accuracy(dev[1], m.fit(*train).predict(dev[0])) for s, m in models.items()}
        best = max(scores, key=scores.__getitem__)
        predicted = models[best].predict(test[0])
        total = accuracy(test[1], predicted)
        of_unseen = accuracy(_select(test[1], unseen), _select(predicted, unseen))
        numbers = f"{best:8g}{scores[best]:8.2%}{total:8.2%}{of_unseen:12.2%}"
        print(f"{name:14}{numbers}", flush=True)


def _select(y: list, masks: list) -> list:
    """Return the labels at the positions where the mask is True."""
    return [
        [label for label, keep in zip(labels, mask, strict=True) if keep]
        for labels, mask in zip(y, masks, strict=True)
    ]


if __name__ == "__main__":
    main()
