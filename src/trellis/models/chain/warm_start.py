"""Warm start: a fit that continues from the features, labels and weights of the previous one.

New data may bring new labels and features. Their weights start at 0; all others keep their values.
Without ``warm_start``, or before the first fit, these functions return an empty start.
"""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.features.vectorizer import FeatureMap, choose
from trellis.models.chain.labels import EncodedLabels, Label
from trellis.models.chain.weights import WeightLayout

__all__ = ["initial_classes", "initial_features", "initial_weights", "merge"]


def _continues(model: Any) -> bool:
    return bool(model.warm_start and hasattr(model, "coef_"))


def initial_features(model: Any, X: list[Any]) -> FeatureMap:
    """Return the feature map to learn from X."""
    if _continues(model):
        # Learning changes the map in place; the model must stay usable if fit fails.
        return copy.deepcopy(model.features_)  # type: ignore[no-any-return]
    return choose(model.features, model.edge_features, X)


def initial_classes(model: Any) -> list[Label]:
    """Return the labels that keep their numbers."""
    return model.classes_.tolist() if _continues(model) else []


def initial_weights(
    model: Any, layout: WeightLayout, labels: EncodedLabels
) -> tuple[WeightLayout, NDArray[np.float64]]:
    """Return the layout with all earlier weights added, and the first weights."""
    if not _continues(model):
        return layout, np.zeros(layout.size)
    index = {label: n for n, label in enumerate(labels.classes)}
    numbers = np.array([index[label] for label in model.classes_.tolist()], dtype=np.int64)
    return merge(model.layout_, model.coef_, numbers, layout)


def merge(
    old: WeightLayout, old_w: NDArray[np.float64], labels: NDArray[np.int64], new: WeightLayout
) -> tuple[WeightLayout, NDArray[np.float64]]:
    """Return a layout with the weights of two, and the weights; the earlier ones keep their values.

    ``labels[n]`` is the number in ``new`` of label n of ``old``.
    """
    old_keys = old.keys(labels, new.labels)
    new_keys = new.keys(np.arange(new.labels), new.labels)
    if len(old_keys) != len(new_keys):
        raise InputError(
            "an earlier model and its continuation must both have edge features or not"
        )
    keys = [np.union1d(a, b) for a, b in zip(old_keys, new_keys, strict=True)]
    edges = None if new.edge_begin is None else len(new.edge_begin) - 1
    layout = WeightLayout.from_keys(new.labels, len(new.state_begin) - 1, edges, keys)
    weights = [np.zeros(len(k)) for k in keys]
    # The split of old_w has an empty third part where there are no edge weights: not strict.
    for part, key, old_key, values in zip(weights, keys, old_keys, old.split(old_w), strict=False):
        part[np.searchsorted(key, old_key)] = values
    return layout, np.concatenate(weights)
