"""Neighbours of words by their characters, from encoders trained on words and their lemmas.

The pairs of a word and its lemma ("walking", "walk") are the paraphrases. For words and lemmas that
were not in the training data, the example prints how often the lemma of a word is nearest to it
among all lemmas; then neighbours of words and of n-grams.

    python examples/character_neighbors.py [--data FOLDER] [--epochs N]

FOLDER holds ud-en-gum.{train,dev,test}.conllu.gz, Universal Dependencies' English GUM.
"""

import argparse
import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from trellis.nn.words import Charagram, CharCNN, CharRNN, WordEncoder, train_on_paraphrases

DATA = Path(__file__).parents[2] / "shared" / "data" / "pos"
CLASSES = {"NOUN", "VERB", "ADJ", "ADV"}
Pairs = list[tuple[str, str]]


def read_pairs(path: Path) -> Pairs:
    """Return the distinct pairs of a word and another lemma, in lower case."""
    pairs: dict[tuple[str, str], None] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            columns = line.split("\t")
            if len(columns) == 10 and columns[3] in CLASSES:
                word, lemma = columns[1].lower(), columns[2].lower()
                if word != lemma:
                    pairs[word, lemma] = None
    return list(pairs)


def remove_known(pairs: Pairs, known: Pairs) -> Pairs:
    """Return the pairs whose lemma is in none of the known pairs."""
    lemmas = {lemma for _, lemma in known}
    return [pair for pair in pairs if pair[1] not in lemmas]


def encoders() -> dict[str, WordEncoder]:
    """Return untrained encoders with vectors of similar sizes."""
    return {
        "Charagram, tanh": Charagram(200),
        "Charagram, relu": Charagram(200, activation="relu"),
        "CharCNN": CharCNN(30, widths=(2, 3, 4), filters=200),
        "CharCNN, highway": CharCNN(30, widths=(2, 3, 4), filters=200, highway=True),
        "CharRNN, GRU": CharRNN(30, 100, cell="gru"),
    }


def lemma_accuracy(encoder: WordEncoder, pairs: Pairs, lemmas: list[str]) -> float:
    """Return how often the lemma of a word is the nearest of the lemmas."""
    candidates = encoder.to_vectors(lemmas)
    queries = encoder.to_vectors([word for word, _ in pairs])
    matrix = queries[[word for word, _ in pairs]]
    best = candidates.nearest_each(matrix, k=1)
    right = [near[0].word == lemma for near, (_, lemma) in zip(best, pairs, strict=True)]
    return float(np.mean(right))


def compare(
    encoder: WordEncoder, pairs: Pairs, unseen: Pairs, lemmas: list[str], epochs: int
) -> tuple[float, float]:
    """Return the accuracy on unseen pairs before and after training."""
    torch.manual_seed(0)
    encoder.learn(Counter(text for pair in pairs for text in pair))
    before = lemma_accuracy(encoder, unseen, lemmas)
    settings = {"epochs": epochs, "learning_rate": 3e-3, "random_state": 0}
    train_on_paraphrases(encoder, pairs, learn=False, **settings)
    return before, lemma_accuracy(encoder, unseen, lemmas)


def main() -> None:
    """Train all encoders, and print accuracies and neighbours."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    pairs = read_pairs(arguments.data / "ud-en-gum.train.conllu.gz")
    others = [
        pair
        for part in ("dev", "test")
        for pair in read_pairs(arguments.data / f"ud-en-gum.{part}.conllu.gz")
    ]
    unseen = remove_known(list(dict.fromkeys(others)), pairs)
    lemmas = list(dict.fromkeys(lemma for _, lemma in pairs + unseen))
    print(f"{len(pairs):,} pairs, {len(unseen):,} unseen pairs, {len(lemmas):,} lemmas")
    trained = encoders()
    for name, encoder in trained.items():
        before, after = compare(encoder, pairs, unseen, lemmas, arguments.epochs)
        print(f"{name:18} lemma nearest: {before:.1%} untrained, {after:.1%} trained")
    words = list(dict.fromkeys(word for pair in pairs for word in pair))
    for word in ("unreachable", "rewriting", "happiest"):
        for name, encoder in trained.items():
            near = encoder.to_vectors(words).nearest(word, k=5)
            print(f"{word:12} {name:18} " + ", ".join(neighbor.word for neighbor in near))
    grams = trained["Charagram, tanh"]
    assert isinstance(grams, Charagram)
    for gram in ("ies>", "ing>", "est>", "<un"):
        near = grams.ngram_vectors().nearest(gram, k=6)
        print(f"{gram:6} " + "  ".join(neighbor.word for neighbor in near))


if __name__ == "__main__":
    main()
