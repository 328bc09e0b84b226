"""The labels of training samples: known, unknown (None), or one of several (a set)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.models.chain.labels import encode_for_training
from trellis.models.graph.losses import Targets, has_known_neighbours
from trellis.models.graph.samples import Doubles, Samples, Scores, labels_of_types

__all__ = ["check_targets", "count_correct", "encode_targets", "restrict_labels"]

_NEED_LABELS = ("perceptron", "ssvm")  # they compare with the score of one correct labelling


def encode_targets(
    y: Any, samples: Samples, weights: Doubles
) -> tuple[tuple[Any, ...], NDArray[np.bool_] | None, Targets]:
    """Return the classes, the labels of each node type, and the targets of training."""
    encoded = encode_for_training(y, np.diff(samples.node_begin))
    labels, allowed = encoded.label.astype(np.int64), encoded.allowed
    types = None
    if samples.types is not None:
        is_possible = labels[:, None] == np.arange(len(encoded.classes))
        types = labels_of_types(samples.types, is_possible if allowed is None else allowed)
        allowed = None if allowed is None else allowed & types[samples.types]
    if allowed is None:
        return encoded.classes, types, Targets(labels, weights)
    # The label of a node is also known if its type has only one label.
    is_single = allowed.sum(axis=1) == 1
    labels = np.where(is_single, allowed.argmax(axis=1), -1)
    return encoded.classes, types, Targets(labels, weights, None if is_single.all() else allowed)


def check_targets(objective: str, samples: Samples, targets: Targets) -> None:
    """Raise InputError if the objective cannot learn from these labels."""
    if targets.allowed is None:
        return
    if objective in _NEED_LABELS:
        node = int(np.argmin(targets.labels))
        sample = int(np.searchsorted(samples.node_begin, node, side="right")) - 1
        raise InputError(
            f"sequence {{sequence}}, position {node - samples.node_begin[sample]} has no known "
            f"label: objective={objective!r} needs a label for every node; use 'likelihood' or "
            "'trw'",
            sequence=sample,
        )
    is_informative = ~targets.allowed.all(axis=1) & has_known_neighbours(samples, targets.labels)
    if objective == "pseudolikelihood" and not is_informative.any():
        raise InputError(
            "objective='pseudolikelihood' uses the labelled nodes whose neighbours are all "
            "labelled, and y has none: use 'likelihood' or 'trw'"
        )


def restrict_labels(
    samples: Samples, scores: Scores, allowed: NDArray[np.bool_]
) -> tuple[Scores, NDArray[np.bool_]]:
    """Return the scores of the labellings that y allows, and whether each sample has one.

    The scores of a node without any possible label are not restricted.
    """
    is_impossible = ~np.any(allowed & (scores.unary > -np.inf), axis=1)
    is_possible = np.ones(len(samples), dtype=np.bool_)
    is_possible[samples.sample_of_nodes()[is_impossible]] = False
    return scores.restricted(allowed | np.expand_dims(is_impossible, 1)), is_possible


def count_correct(predicted: NDArray[Any], labels: Any) -> tuple[int, int]:
    """Return how many predictions are correct, and how many labels are known at least in part."""
    array = np.asarray(labels)
    if array.dtype.kind != "O":
        return int(np.sum(predicted == array)), predicted.size
    known = [
        (guess, label)
        for guess, label in zip(predicted.ravel().tolist(), array.ravel().tolist(), strict=True)
        if label is not None
    ]
    is_correct = (
        guess in label if isinstance(label, set | frozenset) else guess == label
        for guess, label in known
    )
    return sum(is_correct), len(known)
