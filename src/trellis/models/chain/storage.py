"""The parts of a model file that all chain models have: parameters, labels and features."""

from typing import Any, TypeVar

from trellis.features.edges import EdgeFeatures
from trellis.features.extractor import TemplateFeatures
from trellis.features.joint import JointFeatures, NoFeatures, joint_functions
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

__all__ = [
    "read_chain",
    "read_features",
    "read_labels",
    "set_feature_functions",
    "store_chain",
    "store_labels",
]

ModelT = TypeVar("ModelT", bound=Any)

# The fitted feature map is stored instead of these parameters. n_jobs depends on the
# machine, and verbose on the user, not on the model.
_FUNCTIONS = ("features", "edge_features", "joint")
_NOT_STORED = (*_FUNCTIONS, "n_jobs", "verbose")


def store_chain(model: Any) -> Parts:
    """Return the metadata and the tensors of the parameters, the labels and the features."""
    feature_meta, feature_tensors = model.features_.to_parts()
    meta = store_labels(model)
    meta["features"] = {"kind": model.features_.kind, **feature_meta}
    return meta, {f"features.{name}": array for name, array in feature_tensors.items()}


def store_labels(model: Any) -> dict[str, Any]:
    """Return the metadata of the parameters and the labels."""
    return {
        "parameters": stored_parameters(model, _NOT_STORED),
        "classes": stored_labels(model.classes_.tolist()),
    }


def read_chain(cls: type[ModelT], meta: dict[str, Any], tensors: Tensors) -> ModelT:
    """Return a model with its parameters, ``classes_`` and ``features_``."""
    model = read_labels(cls, meta)
    model.features_ = read_features(meta, tensors)
    if isinstance(model.features_, JointFeatures):
        model.features_.classes = model.classes_.tolist()
    return model


def read_labels(cls: type[ModelT], meta: dict[str, Any]) -> ModelT:
    """Return a model with its parameters and ``classes_``."""
    model: ModelT = cls(**read_parameters(cls, meta, (*_FUNCTIONS, "verbose")))
    model.classes_ = as_array(read_classes(meta))
    return model


def read_features(meta: dict[str, Any], tensors: Tensors) -> FeatureMap:
    """Return the stored feature map of a model."""
    return _read_map(dict(meta["features"]), tensors_below(tensors, "features."))


def _read_map(meta: dict[str, Any], tensors: Tensors) -> FeatureMap:
    def strings(name: str) -> list[str]:
        data, ends = tensors[f"{name}.bytes"], tensors[f"{name}.ends"]
        return native.unpack_strings(data, ends, f"features.{name}")

    kind = meta.pop("kind", None)
    if kind == NoFeatures.kind:
        return NoFeatures()
    if kind == EdgeFeatures.kind:
        states, edges = (
            _read_map(dict(meta[name]), tensors_below(tensors, f"{name}."))
            for name in ("states", "edges")
        )
        return EdgeFeatures.from_maps(states, edges, meta, tensors)
    if kind == JointFeatures.kind:
        base = _read_map(dict(meta["base"]), tensors_below(tensors, "base."))
        return JointFeatures.from_base(base, meta, strings)
    features = from_parts(kind, meta, tensors, strings)
    if isinstance(features, TemplateFeatures):
        for field in features.spec.fields:
            field.check_linear()
    return features


def set_feature_functions(model: Any, **functions: Any) -> None:
    """Set the functions that compute features, which a model file cannot contain.

    A function is used only if the model has features of this kind: ``features`` if it has
    `ReadyFeatures`, ``edge_features`` and ``joint`` if it was trained with such functions. Other
    functions, and None, change nothing.
    """
    features, names = model.features_, list[str]()
    if isinstance(features, JointFeatures):
        names.append("joint")
        if functions.get("joint") is not None:
            features.functions = joint_functions(functions["joint"])
        features = features.base
    if isinstance(features, EdgeFeatures):
        if features.make is not None:
            names.append("edge_features")
            features.make = functions.get("edge_features") or features.make
        features = features.states
    if isinstance(features, ReadyFeatures):
        names.append("features")
        features.make = functions.get("features") or features.make
    settings = {name: functions.get(name) for name in names}
    model.set_params(**{name: value for name, value in settings.items() if value is not None})
