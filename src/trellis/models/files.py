"""Models as ``.trellis`` files: `save` writes one, `load` gives back a model of the right class.

`load` also reads the models of CRFsuite, CRF++ (as text) and Wapiti.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from trellis.errors import FormatError, InputError
from trellis.features.vectorizer import ReadyFeatures, from_parts
from trellis.formats import native
from trellis.formats.native import Contents, expect, finite
from trellis.models.chain.crf import CRF, LinearChainModel
from trellis.models.chain.foreign import load_foreign
from trellis.models.chain.hmm import HMM
from trellis.models.chain.labels import as_array, constraints_for
from trellis.models.chain.memm import MEMM
from trellis.models.chain.weights import WeightLayout
from trellis.models.graph.base import FieldModel
from trellis.models.graph.graph_crf import GraphCRF
from trellis.models.graph.grid_crf import GridCRF
from trellis.models.regression.logistic import LogisticRegression
from trellis.models.regression.softmax import SoftmaxRegression
from trellis.native import resolve_jobs

__all__ = [
    "chain_parts",
    "foreign",
    "from_contents",
    "load",
    "save",
    "stored_labels",
    "stored_parameters",
]

_KINDS: dict[str, type[Any]] = {
    "crf": CRF,
    "memm": MEMM,
    "hmm": HMM,
    "logistic": LogisticRegression,
    "softmax": SoftmaxRegression,
    "graph-crf": GraphCRF,
    "grid-crf": GridCRF,
}
_REGRESSIONS = ("logistic", "softmax")
_FIELDS = ("graph-crf", "grid-crf")
_HISTORY = ("losses", "dev_scores")
# the features are stored as what they have become; n_jobs says nothing of the model
_NOT_STORED = ("features", "edge_features", "n_jobs")
_LINEAR = {
    "weights": np.float64,
    "state_begin": np.int64,
    "state_label": np.uint16,
    "bigram": np.int32,
}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model. The file appears whole or not at all."""
    kind = next((k for k, cls in _KINDS.items() if type(model) is cls), None)
    if kind is None:
        raise InputError(f"cannot save a {type(model).__name__}: its kind has no file format")
    if kind in _REGRESSIONS:
        _save_regression(model, kind, path)
        return
    model._fitted()
    if kind in _FIELDS:
        _save_field(model, kind, path)
        return
    native.write(path, kind, *chain_parts(model, kind))


def chain_parts(model: Any, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file holds of a fitted model of chains: meta and tensors."""
    feature_meta, feature_tensors = model.features_.to_parts()
    meta = {
        "parameters": stored_parameters(model, _NOT_STORED),
        "classes": stored_labels(model.classes_.tolist()),
        "features": {"kind": model.features_.kind, **feature_meta},
    }
    tensors = {f"features.{name}": array for name, array in feature_tensors.items()}
    if kind == "hmm":
        for name in ("start", "transitions", "emissions"):
            tensors[name] = getattr(model, f"{name}_")
    else:
        meta["training"] = _training(model)
        tensors |= _linear_tensors(model)
    return meta, tensors


def _save_regression(model: Any, kind: str, path: str | os.PathLike[str]) -> None:
    check_is_fitted(model)
    if model.get_params().get("features") is not None:
        raise InputError("a model of joint features has a function in it, which no file can hold")
    meta = {
        "parameters": stored_parameters(model, _NOT_STORED),
        "classes": stored_labels(model.classes_.tolist()),
        "training": _training(model),
    }
    native.write(path, kind, meta, {"coef": model.coef_, "intercept": model.intercept_})


def _save_field(model: FieldModel, kind: str, path: str | os.PathLike[str]) -> None:
    meta = {
        "parameters": stored_parameters(model, _NOT_STORED),
        "classes": stored_labels(model.classes_.tolist()),
        "training": _training(model),
    }
    tensors: dict[str, Any] = {"coef": model.coef_, "intercept": model.intercept_}
    tensors["pairs"] = model.pair_coef_
    if model.allowed_ is not None:
        tensors["allowed"] = model.allowed_
    native.write(path, kind, meta, tensors)


def load(
    path: str | os.PathLike[str],
    *,
    features: Callable[[Any], Any] | None = None,
    edge_features: Callable[[Any], Any] | None = None,
    encoding: str = "utf-8",
) -> Any:
    """The model that a file holds; FormatError if the file is damaged or of no kind that is known.

    ``features`` and ``edge_features`` are the functions that the model was trained with, if it was:
    a file cannot hold them. ``encoding`` is that of the names in the models of other programs.
    """
    other = foreign(path, encoding)
    if other is not None:
        return other
    return from_contents(native.read(path), features, edge_features)


def foreign(path: str | os.PathLike[str], encoding: str = "utf-8") -> CRF | None:
    """The model of another program, or None if the file is not one."""
    return load_foreign(path, _head(path), encoding)


def from_contents(
    contents: Contents,
    features: Callable[[Any], Any] | None = None,
    edge_features: Callable[[Any], Any] | None = None,
) -> Any:
    """The model that a ``.trellis`` file holds, once all of its parts are known to fit."""
    path = contents.tensors.path
    if contents.kind not in _KINDS:
        raise FormatError(f"{path}: holds a model of kind {contents.kind!r}, which is unknown")
    try:
        model = _build(contents)
    except FormatError as error:
        text = str(error)
        raise error if text.startswith(str(path)) else FormatError(f"{path}: {text}") from None
    except (InputError, KeyError, TypeError, ValueError, IndexError) as error:
        raise FormatError(f"{path}: {error}") from None
    if isinstance(getattr(model, "features_", None), ReadyFeatures):
        model.features_.make = features or model.features_.make
        model.features_.make_edges = edge_features or model.features_.make_edges
        for name, value in (("features", features), ("edge_features", edge_features)):
            if value is not None:
                model.set_params(**{name: value})
    return model


def _head(path: str | os.PathLike[str]) -> bytes:
    """How a regular file begins: of anything else, `native.read` says what is wrong."""
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read(16)


def _training(model: Any) -> dict[str, Any]:
    record: dict[str, Any] = {
        "iterations": int(model.n_iter_),
        "objective": float(model.objective_),
        "converged": bool(model.converged_),
    }
    for name in _HISTORY:
        if hasattr(model, f"{name}_"):
            record[name] = [list(entry) for entry in getattr(model, f"{name}_")]
    return record


def _set_training(model: Any, training: Any) -> None:
    model.n_iter_, model.objective_ = int(training["iterations"]), float(training["objective"])
    model.converged_ = bool(training["converged"])
    if isinstance(model, LinearChainModel | FieldModel):
        for name in _HISTORY[: 1 if isinstance(model, FieldModel) else None]:
            entries = [(int(n), float(value)) for n, value in training.get(name, [])]
            setattr(model, f"{name}_", entries)


def stored_parameters(model: Any, left_out: Sequence[str]) -> dict[str, Any]:
    """The arguments of an estimator as JSON can hold them, but for some."""
    stored = {}
    for name, value in model.get_params(deep=False).items():
        if name in left_out or isinstance(value, np.random.Generator | np.random.RandomState):
            continue
        if isinstance(value, np.generic):
            value = value.item()
        if name == "constraints" and value is not None and not isinstance(value, str):
            value = [stored_labels(pair) for pair in value]
        if name == "label_weight" and value is not None:
            value = [[*stored_labels([k]), float(v)] for k, v in value.items()]
        stored[name] = list(value) if isinstance(value, tuple) else value
    return stored


def stored_labels(labels: Any) -> list[Any]:
    """Labels as JSON can hold them."""
    for label in labels:
        if not isinstance(label, str | int | float | bool):
            raise InputError(f"a file can hold labels that are str or numbers, not {label!r}")
    return list(labels)


def _linear_tensors(model: LinearChainModel) -> dict[str, Any]:
    layout, w = model.layout_, model.coef_
    tensors = {
        "weights": w,
        "state_begin": layout.state_begin,
        "state_label": layout.state_label,
        "bigram": layout.bigram,
    }
    if layout.edge_begin is not None and layout.edge_bigram is not None:
        tensors |= {"edge_begin": layout.edge_begin, "edge_bigram": layout.edge_bigram}
    return tensors


def _build(contents: Contents) -> Any:
    meta, tensors = contents.meta, contents.tensors
    model = _KINDS[contents.kind](**_checked_parameters(meta["parameters"], contents.kind))
    classes = meta["classes"]
    if not isinstance(classes, list) or not classes or len(set(classes)) != len(classes):
        raise InputError("classes must be a list of distinct labels")
    if contents.kind in _REGRESSIONS:
        return _build_regression(model, stored_labels(classes), contents)
    model.classes_ = as_array(tuple(stored_labels(classes)))
    if contents.kind in _FIELDS:
        return _build_field(model, contents)
    model.features_ = _features(contents)
    if contents.kind == "hmm":
        return _build_hmm(model, contents)
    for name in ("weights", "state_begin", "bigram"):
        expect(tensors, name, _LINEAR[name], (None,))
    model.coef_ = finite(tensors, "weights")
    edges: list[Any] = [None, None]
    if "edge_begin" in tensors:
        edges = [
            expect(tensors, "edge_begin", np.int64, (model.features_.edges + 1,)),
            expect(tensors, "edge_bigram", np.int32, (None,)),
        ]
    layout = WeightLayout(
        len(classes),
        expect(tensors, "state_begin", np.int64, (len(model.features_) + 1,)),
        expect(tensors, "state_label", np.uint16, (None,)),
        expect(tensors, "bigram", np.int32, (None,)),
        *edges,
    )
    if layout.size != len(model.coef_):
        raise InputError(f"{layout.size} weights expected, {len(model.coef_)} found")
    if np.any(np.diff(layout.bigram) <= 0):
        raise InputError("bigrams must ascend")
    layout.native  # noqa: B018  checks all ranges
    keys = layout.state_attribute * len(classes) + layout.state_label
    if np.any(np.diff(keys) <= 0):
        raise InputError("the labels of an attribute must ascend")
    model.layout_ = layout
    constraints_for(model.constraints, classes)
    _set_training(model, meta["training"])
    return model


def _checked_parameters(stored: Any, kind: str) -> dict[str, Any]:
    known = _KINDS[kind]().get_params(deep=False)
    if not isinstance(stored, dict) or not stored.keys() <= known.keys():
        raise InputError("parameters: unknown names")
    parameters: dict[str, Any] = dict(stored)
    constraints = parameters.get("constraints")
    if isinstance(constraints, list):
        parameters["constraints"] = [tuple(pair) for pair in constraints]
    resolve_jobs(parameters.get("n_jobs"))
    if parameters.get("label_weight") is not None:
        parameters["label_weight"] = dict(map(tuple, parameters["label_weight"]))
    return parameters


def _features(contents: Contents) -> Any:
    meta = dict(contents.meta["features"])
    prefix = "features."
    own = {k.removeprefix(prefix): v for k, v in contents.tensors.items() if k.startswith(prefix)}

    def strings(name: str) -> list[str]:
        return native.unpack_strings(own[f"{name}.bytes"], own[f"{name}.ends"], f"features.{name}")

    return from_parts(meta.pop("kind", None), meta, own, strings)


def _build_hmm(model: HMM, contents: Contents) -> HMM:
    labels, tensors = len(model.classes_), contents.tensors
    expect(tensors, "start", np.float64, (labels,))
    expect(tensors, "transitions", np.float64, (labels, labels))
    model.start_ = finite(tensors, "start")
    model.transitions_ = finite(tensors, "transitions")
    for p in (model.start_, model.transitions_):
        if (p < 0).any() or not np.allclose(p.sum(axis=-1), 1.0, atol=1e-6):
            raise InputError("start and transitions must be probabilities")
    emissions = expect(tensors, "emissions", np.float64, (len(model.features_) + 1, labels))
    if np.isnan(emissions).any() or (emissions > 0).any():
        raise InputError("emissions must be logarithms of probabilities")
    model.emissions_, model.log_likelihoods_ = emissions, []
    return model


def _build_regression(model: Any, classes: list[Any], contents: Contents) -> Any:
    rows = 1 if contents.kind == "logistic" else len(classes)
    if contents.kind == "logistic" and len(classes) > 2:
        raise InputError(f"a logistic regression has two classes, not {len(classes)}")
    expect(contents.tensors, "coef", np.float64, (rows, None))
    expect(contents.tensors, "intercept", np.float64, (rows,))
    model.classes_ = np.array(classes)
    model.coef_ = finite(contents.tensors, "coef")
    model.intercept_ = finite(contents.tensors, "intercept")
    model.n_features_in_ = model.coef_.shape[1]
    _set_training(model, contents.meta["training"])
    return model


def _build_field(model: FieldModel, contents: Contents) -> FieldModel:
    labels, tensors = len(model.classes_), contents.tensors
    expect(tensors, "coef", np.float64, (labels, None))
    expect(tensors, "intercept", np.float64, (labels,))
    expect(tensors, "pairs", np.float64, (None, labels, labels))
    model.coef_, model.intercept_ = finite(tensors, "coef"), finite(tensors, "intercept")
    model.pair_coef_, model.allowed_ = finite(tensors, "pairs"), None
    if len(model.pair_coef_) == 0:
        raise InputError("pairs have no weights, not even for the constant")
    if "allowed" in tensors:
        model.allowed_ = expect(tensors, "allowed", np.bool_, (None, labels))
    model._check()
    _set_training(model, contents.meta["training"])
    return model
