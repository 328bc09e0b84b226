"""Warm start: fit continues from the features, labels and weights of the previous fit.

New data may have new labels and features. Their weights start at 0; all other weights keep their
values. Without ``warm_start``, or in the first fit, all features, labels and weights are new.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.features.joint import JointFeatures, NoFeatures, joint_functions
from trellis.features.vectorizer import FeatureMap, choose
from trellis.models.chain.labels import Label
from trellis.models.chain.weights import WeightLayout

__all__ = ["initial_classes", "initial_features", "initial_weights", "merge"]


def _has_earlier_fit(model: Any) -> bool:
    return bool(model.warm_start and hasattr(model, "coef_"))


def initial_features(model: Any, X: list[Any]) -> FeatureMap:
    """Return the feature map that fit extends with the features of X."""
    if _has_earlier_fit(model):
        # Learning changes the map in place. The copy protects the model if fit raises an error.
        features: FeatureMap = copy.deepcopy(model.features_)
        if isinstance(features, JointFeatures) != (model.joint is not None):
            raise InputError("warm_start: joint features must be used in both fits or in none")
        return features
    if model.joint is None:
        return choose(model.features, model.edge_features, X)
    base: FeatureMap = NoFeatures()
    if model.features is not None or model.edge_features is not None:
        base = choose(model.features, model.edge_features, X)
    return JointFeatures(base, joint_functions(model.joint))


def initial_classes(model: Any) -> list[Label]:
    """Return the labels of the earlier fit, which keep their numbers."""
    return model.classes_.tolist() if _has_earlier_fit(model) else []


def initial_weights(
    model: Any, layout: WeightLayout, classes: Sequence[Label]
) -> tuple[WeightLayout, NDArray[np.float64]]:
    """Return the layout with all earlier weights added, and the initial weights.

    Raise InputError if there is nothing to learn.
    """
    w0 = np.zeros(layout.size)
    if _has_earlier_fit(model):
        index = {label: n for n, label in enumerate(classes)}
        numbers = np.array([index[label] for label in model.classes_.tolist()], dtype=np.int64)
        layout, w0 = merge(model.layout_, model.coef_, numbers, layout)
    if layout.size == 0:
        raise InputError("no feature has a weight: X has no features, or min_count is too high")
    return layout, w0


def merge(
    old: WeightLayout, old_w: NDArray[np.float64], labels: NDArray[np.int64], new: WeightLayout
) -> tuple[WeightLayout, NDArray[np.float64]]:
    """Return the union of two layouts, and its weights: old ones keep their values, new ones are 0.

    ``labels[n]`` is the number in ``new`` of label n of ``old``.
    """
    before, now = (1 if trigram is None else 2 for trigram in (old.trigram, new.trigram))
    if before != now:
        raise InputError(f"warm_start: order was {before} in the earlier fit, but is {now} now")
    old_keys = old.keys(labels, new.n_labels)
    new_keys = new.keys(np.arange(new.n_labels), new.n_labels)
    if len(old_keys) != len(new_keys):
        raise InputError(
            "warm_start: edge features must be used in both fits or in none; "
            f"the earlier fit has {'them' if len(old_keys) > len(new_keys) else 'none'}"
        )
    keys = [np.union1d(*pair) for pair in zip(old_keys, new_keys, strict=True)]
    edges = None if new.edge_begin is None else len(new.edge_begin) - 1
    layout = WeightLayout.from_keys(new.n_labels, len(new.state_begin) - 1, edges, keys)
    layout = replace(layout, joint=new.joint)
    weights = [np.zeros(len(key)) for key in keys]
    states, bigrams, edge_weights, trigrams = old.split(old_w)
    # A layout has edge weights, trigram weights or neither: then the third part has no keys, and
    # zip ignores it.
    parts = (states, bigrams, np.concatenate([edge_weights, trigrams]))
    for part_weights, key, old_key, values in zip(weights, keys, old_keys, parts, strict=False):
        part_weights[np.searchsorted(key, old_key)] = values
    # The joint features of the earlier fit have the first numbers.
    joint = np.pad(old_w[old.linear :], (0, new.joint - old.joint))
    return layout, np.concatenate([*weights, joint])
