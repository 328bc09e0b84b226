"""The features and weights of a CRFsuite model, without the class `CRF`.

The replacement for python-crfsuite uses them to tag. It does not use `CRF`, because that class
imports scikit-learn, which takes a second and 80 MB.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.errors import FormatError, InputError
from trellis.features.vectorizer import ReadyFeatures
from trellis.formats import crfsuite
from trellis.models.chain.weights import WeightLayout, check_label_count

__all__ = ["ChainWeights", "read_weights"]


class ChainWeights(NamedTuple):
    """The features and the weights from which the scores of a sequence are computed."""

    features: ReadyFeatures
    layout: WeightLayout
    weights: NDArray[np.float64]
    """(weights,), in the order of the layout."""


def read_weights(model: crfsuite.Model) -> ChainWeights:
    """Return the features and weights of a model from an untrusted file; validate all indices."""
    if not model.labels:
        raise FormatError("the model has no labels")
    counts = np.bincount(model.state_attribute, minlength=len(model.attributes.begin))
    layout = WeightLayout(
        len(model.labels),
        np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
        model.state_label,
        (model.before * len(model.labels) + model.after).astype(np.int32),
    )
    try:
        features = ReadyFeatures.from_bytes(*model.attributes)
    except InputError as error:
        raise FormatError(f"attributes: {error}") from None
    weights = np.concatenate([model.state_weight, model.bigram_weight])
    check_label_count(len(model.labels), len(weights))
    layout.native  # noqa: B018  validates all indices of the layout
    return ChainWeights(features, layout, weights)
