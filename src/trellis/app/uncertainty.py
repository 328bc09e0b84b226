"""The sequences of which a model is least certain: the most useful ones to label next."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.data.corpus import Sequence

__all__ = ["MEASURES", "Uncertain", "measure", "select"]

MEASURES = ("entropy", "margin")


class Uncertain(NamedTuple):
    """A sequence and its score; a higher score means that the model is less certain."""

    score: float
    order: int
    """−1, −2, … in the order of the input. With equal scores, the earlier sequence is preferred."""
    sequence: Sequence


def measure(model: Any, X: list[Any], name: str) -> NDArray[np.float64]:
    """Return the score of each sequence, shape (sequences,).

    ``entropy`` is H(y | x) in nats, divided by the number of tokens, because H and the cost of
    labelling a sequence both grow with its length. ``margin`` is 1 - p(best) + p(second best).
    """
    if name == "entropy":
        scores: NDArray[np.float64] = model.entropy(X) / np.maximum([len(x) for x in X], 1)
        return scores
    paths = model.predict_kbest(X, 2)
    margins = [
        path[0].probability - path[1].probability if len(path) > 1 else 1.0 for path in paths
    ]
    return 1.0 - np.array(margins)


def select(model: Any, batches: Iterable[list[Sequence]], count: int, name: str) -> list[Uncertain]:
    """Return the ``count`` sequences with the highest scores, highest first, in constant memory.

    Of sequences with equal tokens, only the first is returned. Empty sequences are ignored.
    """
    heap: list[Uncertain] = []
    members: set[tuple[Any, ...]] = set()  # the tokens of the sequences in the heap
    order = 0
    for batch in batches:
        nonempty = [sequence for sequence in batch if sequence.tokens]
        if not nonempty:
            continue
        scores = measure(model, [sequence.tokens for sequence in nonempty], name)
        for sequence, score in zip(nonempty, scores, strict=True):
            order -= 1
            entry = Uncertain(float(score), order, sequence)
            tokens = tuple(sequence.tokens)
            if tokens in members or (len(heap) == count and entry[:2] < heap[0][:2]):
                continue
            members.add(tokens)
            heapq.heappush(heap, entry)
            if len(heap) > count:
                members.remove(tuple(heapq.heappop(heap).sequence.tokens))
    return sorted(heap, reverse=True)
