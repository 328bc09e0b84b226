"""Graph models as parts: metadata and tensors, and their validation."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import (
    Estimator,
    Parts,
    read_classes,
    read_training,
    stored_labels,
    stored_parameters,
    training_record,
)
from trellis.models.chain.labels import as_array
from trellis.models.graph.cliques import CliqueShape, check_table_sizes
from trellis.models.graph.samples import Doubles

__all__ = ["read_fitted", "to_parts"]

_NOT_STORED = ("n_jobs", "verbose")  # they depend on the machine and on the user
_HISTORIES = ("losses",)


class Fitted(Estimator, Protocol):
    """The attributes of a fitted graph model."""

    classes_: NDArray[Any]
    coef_: Doubles
    intercept_: Doubles
    pair_coef_: Doubles
    clique_coef_: dict[str, Doubles]
    allowed_: NDArray[np.bool_] | None


def to_parts(model: Fitted) -> Parts:
    """Return the metadata and the tensors of a fitted model."""
    meta = {
        "parameters": stored_parameters(model, _NOT_STORED),
        "classes": stored_labels(model.classes_.tolist()),
        "training": training_record(model, _HISTORIES),
    }
    tensors: dict[str, NDArray[Any]] = {
        "coef": model.coef_,
        "intercept": model.intercept_,
        "pairs": model.pair_coef_,
    }
    if model.allowed_ is not None:
        tensors["allowed"] = model.allowed_
    if model.clique_coef_:  # a model without cliques has the same bytes as in 0.1.0
        meta["cliques"] = list(model.clique_coef_)
        for i, weights in enumerate(model.clique_coef_.values()):
            tensors[f"cliques.{i}"] = weights
    return meta, tensors


def read_fitted(model: Fitted, meta: dict[str, Any], tensors: Tensors) -> None:
    """Set the fitted attributes; raise InputError if a part is missing or invalid."""
    model.classes_ = as_array(tuple(read_classes(meta)))
    n_labels = len(model.classes_)
    expect(tensors, "coef", np.float64, (n_labels, None))
    expect(tensors, "intercept", np.float64, (n_labels,))
    expect(tensors, "pairs", np.float64, (None, n_labels, n_labels))
    model.coef_, model.intercept_ = finite(tensors, "coef"), finite(tensors, "intercept")
    model.pair_coef_, model.allowed_ = finite(tensors, "pairs"), None
    if len(model.pair_coef_) == 0:
        raise InputError("pairs is empty: the weights of the constant edge feature are needed")
    if "allowed" in tensors:
        model.allowed_ = expect(tensors, "allowed", np.bool_, (None, n_labels))
    _read_cliques(model, meta, tensors, n_labels)
    read_training(model, meta, _HISTORIES)


def _read_cliques(model: Fitted, meta: dict[str, Any], tensors: Tensors, n_labels: int) -> None:
    names = meta.get("cliques", [])
    is_list = isinstance(names, list) and all(isinstance(name, str) and name for name in names)
    if not is_list or names != sorted(set(names)):
        raise InputError("cliques must be a sorted list of distinct names that are not empty")
    expected = {f"cliques.{i}" for i in range(len(names))}
    stored = {name for name in tensors if name.startswith("cliques.")}
    if stored != expected:
        raise InputError(
            f"there are {len(names)} names of cliques and tensors {', '.join(sorted(stored))}"
        )
    model.clique_coef_ = {}
    for i, name in enumerate(names):
        tensor = f"cliques.{i}"
        n_axes = tensors[tensor].ndim
        if n_axes < 3 or len(tensors[tensor]) == 0:
            raise InputError(
                f"tensor {tensor!r} has shape {tensors[tensor].shape}: must be (features, labels, "
                "…, labels), with a feature and two nodes or more"
            )
        check_table_sizes((CliqueShape(name, n_axes - 1, 1),), n_labels)
        expect(tensors, tensor, np.float64, (None, *(n_labels,) * (n_axes - 1)))
        model.clique_coef_[name] = finite(tensors, tensor)
