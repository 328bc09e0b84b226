"""Why a tagger chose a label: the parts of the score of the label and of the runner-up."""

from collections.abc import Callable
from typing import Any

from trellis.inference.chain import Scores
from trellis.models.chain.inspection import Contribution, FeatureContributions

__all__ = ["split_scores"]


def split_scores(
    tagger: Any, x: Any, scores: Scores, chosen: list[int]
) -> Callable[[int, tuple[int, int]], list[Contribution]]:
    """Return a function of a position and two labels that splits their scores into parts.

    The parts are the network, the features of the linear part of a hybrid, the start and the end
    of the sequence, and the transitions from and to the chosen labels of the neighbours. For each
    of the two labels, the parts sum to its score, given the labels of the neighbours.
    """
    arrays: Any = scores
    unary, matrix, start, end = arrays.unary[0], arrays.transition, arrays.start, arrays.end
    classes, last = tagger.classes_, len(chosen) - 1
    linear = None if tagger.linear_ is None else FeatureContributions(tagger.linear_, x, chosen)
    factor = tagger.alpha_ / tagger.temperature_

    def split(t: int, labels: tuple[int, int]) -> list[Contribution]:
        features = [] if linear is None else linear.features_at(t, labels)
        parts = [
            c._replace(chosen=factor * c.chosen, runner_up=factor * c.runner_up) for c in features
        ]
        sums = (sum(c.chosen for c in parts), sum(c.runner_up for c in parts))
        network = [float(unary[t, y]) - total for y, total in zip(labels, sums, strict=True)]
        parts.append(Contribution("network", 1.0, *network))
        if t == 0 and start is not None:
            parts.append(Contribution("start", 1.0, *(float(start[y]) for y in labels)))
        if t == last and end is not None:
            parts.append(Contribution("end", 1.0, *(float(end[y]) for y in labels)))
        if t > 0:
            previous_label = chosen[t - 1]
            values = (float(matrix[previous_label, y]) for y in labels)
            parts.append(Contribution(f"transition:into {classes[previous_label]}", 1.0, *values))
        if t < last:
            next_label = chosen[t + 1]
            values = (float(matrix[y, next_label]) for y in labels)
            parts.append(Contribution(f"transition:out of {classes[next_label]}", 1.0, *values))
        return sorted(parts, key=lambda c: -abs(c.difference))

    return split
