"""Modified Kneser-Ney smoothing in plain Python, from the definitions, for small texts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction

Gram = tuple[str, ...]
BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"


def count_ngrams(lines: Sequence[str], order: int) -> Counter[Gram]:
    """How often each n-gram of 1 to ``order`` words occurs, except <s> alone."""
    counts: Counter[Gram] = Counter()
    for line in lines:
        words = (BEGIN, *line.split(), END)
        for end in range(2, len(words) + 1):
            for begin in range(max(0, end - order), end):
                counts[words[begin:end]] += 1
    return counts


def adjust(counts: Counter[Gram], order: int) -> dict[Gram, int]:
    """Occurrences of the longest n-grams and of those after <s>; of others, the words before."""
    before = defaultdict(set)
    for gram in counts:
        before[gram[1:]].add(gram[0])
    return {
        gram: count if len(gram) == order or gram[0] == BEGIN else len(before[gram])
        for gram, count in counts.items()
    }


def last_grams(lines: Sequence[str], order: int) -> list[Gram]:
    """The last n-grams that lmplz counts, shorter than the order: in them it takes occurrences."""
    number = {BEGIN: 1, END: 2}
    rows = []
    for line in lines:
        words = [*[BEGIN] * (order - 1), *line.split(), END]
        for word in words:
            number.setdefault(word, len(number) + 1)
        rows += [tuple(words[i : i + order]) for i in range(len(words) - order + 1)]
    row = max(rows, key=lambda gram: [number[word] for word in reversed(gram)])
    grams = [row[order - n :] for n in range(1, order)]
    return [gram for gram in grams if BEGIN not in gram[1:]]


def discounts(
    grams: dict[Gram, int], fallback: Sequence[float] | None
) -> tuple[float, float, float, float] | None:
    """D(0), D(1), D(2) and D(3+)."""
    n = Counter(grams.values())
    try:
        y = Fraction(n[1], n[1] + 2 * n[2])
        amounts = [float(k - (k + 1) * y * Fraction(n[k + 1], n[k])) for k in (1, 2, 3)]
        if any(not 0 <= amount <= k for k, amount in enumerate(amounts, 1)):
            raise ZeroDivisionError
    except ZeroDivisionError:
        if fallback is None:
            return None
        amounts = list(fallback)
    return 0.0, amounts[0], amounts[1], amounts[2]


def estimate(
    lines: Sequence[str],
    order: int,
    prune: Sequence[int] | None = None,
    fallback: Sequence[float] | None = (0.5, 1.0, 1.5),
) -> dict[Gram, tuple[float, float]]:
    """Probability and back-off weight of each n-gram of the model."""
    prune = prune or [0] * order
    counts = count_ngrams(lines, order)
    adjusted = adjust(counts, order)
    levels = [{g: a for g, a in adjusted.items() if len(g) == n} for n in range(1, order + 1)]
    last = last_grams(lines, order)
    kept = {g for g in adjusted if counts[g] > prune[len(g) - 1] or g == (END,)}
    vocabulary = sum(len(g) == 1 for g in kept) + 1  # with <unk>
    probability: dict[Gram, float] = {}
    weight: dict[Gram, float] = {}
    for level in levels:
        amounts = discounts({g: counts[g] if g in last else a for g, a in level.items()}, fallback)
        assert amounts is not None
        members = defaultdict(list)
        for gram in level:
            members[gram[:-1]].append(gram)
        for context, grams in members.items():
            total = sum(level[gram] for gram in grams)
            removed = sum(
                amounts[min(level[gram], 3)] if gram in kept else level[gram] for gram in grams
            )
            weight[context] = removed / total
            for gram in kept.intersection(grams):
                base = (level[gram] - amounts[min(level[gram], 3)]) / total
                shorter = probability[gram[1:]] if len(gram) > 1 else 1 / vocabulary
                probability[gram] = base + weight[context] * shorter
    probability[UNKNOWN,] = weight[()] / vocabulary
    probability[BEGIN,] = 1.0
    # A context whose n-grams are all pruned has the weight 1, like one that never occurs.
    return {gram: (p, weight.get(gram, 1.0)) for gram, p in probability.items()}


def probability_of(model: dict[Gram, tuple[float, float]], context: Gram, word: str) -> float:
    """p(word | context), with back-off."""
    if (*context, word) in model:
        return model[(*context, word)][0]
    return model.get(context, (0.0, 1.0))[1] * probability_of(model, context[1:], word)


def parse_arpa(text: str) -> dict[Gram, tuple[float, float]]:
    """Probability and back-off weight of each n-gram of an ARPA file; without a weight, 1."""
    model = {}
    for line in text.split("\n"):
        fields = line.split("\t")
        if len(fields) > 1:
            weight = float(fields[2]) if len(fields) > 2 else 0.0
            model[tuple(fields[1].split(" "))] = (10.0 ** float(fields[0]), 10.0**weight)
    return model


def assert_close(
    model: dict[Gram, tuple[float, float]],
    expected: dict[Gram, tuple[float, float]],
    tolerance: float,
) -> None:
    """The same n-grams with the same numbers."""
    assert model.keys() == expected.keys()
    for gram, (p, weight) in expected.items():
        # ARPA files have 1e-99 in place of 0.
        assert math.isclose(model[gram][0], p, rel_tol=tolerance, abs_tol=1e-90), gram
        assert math.isclose(model[gram][1], weight, rel_tol=tolerance, abs_tol=1e-90), gram
