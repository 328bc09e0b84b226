"""The parts of a model file that all chain models have: parameters, labels and features."""

from collections.abc import Callable
from typing import Any, TypeVar

from trellis.features.vectorizer import FeatureMap, ReadyFeatures, from_parts
from trellis.formats import native
from trellis.formats.native import Tensors
from trellis.formats.parts import (
    Parts,
    read_classes,
    read_parameters,
    stored_labels,
    stored_parameters,
    tensors_below,
)
from trellis.models.chain.labels import as_array

__all__ = ["read_chain", "set_feature_functions", "store_chain"]

ModelT = TypeVar("ModelT", bound=Any)

# The fitted feature map is stored instead of features and edge_features. n_jobs depends on the
# machine, not on the model.
_NOT_STORED = ("features", "edge_features", "n_jobs")


def store_chain(model: Any) -> Parts:
    """Return the metadata and the tensors of the parameters, the labels and the features."""
    feature_meta, feature_tensors = model.features_.to_parts()
    meta = {
        "parameters": stored_parameters(model, _NOT_STORED),
        "classes": stored_labels(model.classes_.tolist()),
        "features": {"kind": model.features_.kind, **feature_meta},
    }
    return meta, {f"features.{name}": array for name, array in feature_tensors.items()}


def read_chain(cls: type[ModelT], meta: dict[str, Any], tensors: Tensors) -> ModelT:
    """Return a model with its parameters, ``classes_`` and ``features_``."""
    model: ModelT = cls(**read_parameters(cls, meta))
    model.classes_ = as_array(read_classes(meta))
    model.features_ = _read_features(dict(meta["features"]), tensors_below(tensors, "features."))
    return model


def _read_features(meta: dict[str, Any], tensors: Tensors) -> FeatureMap:
    def strings(name: str) -> list[str]:
        data, ends = tensors[f"{name}.bytes"], tensors[f"{name}.ends"]
        return native.unpack_strings(data, ends, f"features.{name}")

    return from_parts(meta.pop("kind", None), meta, tensors, strings)


def set_feature_functions(model: Any, **functions: Callable[[Any], Any] | None) -> None:
    """Set ``features`` and ``edge_features`` of a model that was trained with such functions.

    Other models do not change.
    """
    if not isinstance(model.features_, ReadyFeatures):
        return
    model.features_.make = functions.get("features") or model.features_.make
    model.features_.make_edges = functions.get("edge_features") or model.features_.make_edges
    model.set_params(**{name: value for name, value in functions.items() if value is not None})
