"""ARPA files for tests, and a simple back-off model to compare with the native one."""

from __future__ import annotations

from itertools import product

import numpy as np

Grams = dict[tuple[str, ...], tuple[float, float]]  # log10 p, back-off

GOOD = """\\data\\
ngram 1=5
ngram 2=3
ngram 3=1

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.25
-0.75\t</s>
-0.5\tblue\t-0.125
-1.0\tsky\t-0.0625

\\2-grams:
-0.25\t<s> blue\t-0.5
-0.125\tblue sky\t-0.375
-0.5\tsky </s>

\\3-grams:
-0.0625\t<s> blue sky

\\end\\
"""


def text_of(grams: Grams) -> str:
    """An ARPA file."""
    order = max(map(len, grams))
    levels = [[gram for gram in grams if len(gram) == n] for n in range(1, order + 1)]
    lines = ["\\data\\", *(f"ngram {n}={len(level)}" for n, level in enumerate(levels, 1))]
    for n, level in enumerate(levels, 1):
        lines += ["", f"\\{n}-grams:"]
        for gram in level:
            p, weight = grams[gram]
            lines.append(f"{p:.6f}\t{' '.join(gram)}" + (f"\t{weight:.6f}" if n < order else ""))
    return "\n".join([*lines, "", "\\end\\", ""])


def draw(rng: np.random.Generator, words: int, order: int, keep: float) -> Grams:
    """A model of random numbers: every gram's beginning and end are grams, too, as KenLM wants."""
    names = [f"w{n}" for n in range(words)]
    grams: Grams = {("<unk>",): (-2.5, 0.0), ("<s>",): (-99.0, -0.3), ("</s>",): (-1.0, 0.0)}
    for name in names:
        grams[(name,)] = (round(-rng.uniform(0.1, 4), 6), round(-rng.uniform(0, 1), 6))
    for n in range(2, order + 1):
        for gram in product(["<s>", "</s>", *names], repeat=n):
            inside = "<s>" not in gram[1:] and "</s>" not in gram[:-1]
            if inside and gram[:-1] in grams and gram[1:] in grams and rng.random() < keep:
                weight = round(-rng.uniform(0, 1), 6) if n < order and gram[-1] != "</s>" else 0.0
                grams[gram] = (round(-rng.uniform(0.1, 4), 6), weight)
    return grams


def plain_scores(
    grams: Grams, words: list[str], bos: bool = True, eos: bool = True
) -> list[tuple[float, int, bool]]:
    """p(w | h) of the longest h that the model has w after; the back-offs of all longer ones."""
    order = max(map(len, grams))
    history: tuple[str, ...] = ("<s>",) if bos else ()
    scores = []
    for word in [*words, *(["</s>"] if eos else [])]:
        known = word if (word,) in grams else "<unk>"
        context = history[-(order - 1) :] if order > 1 else ()
        score = 0.0
        while (*context, known) not in grams:
            score += grams.get(context, (0.0, 0.0))[1]
            context = context[1:]
        scores.append((score + grams[(*context, known)][0], len(context) + 1, known != word))
        history = (*history, known)
    return scores
