"""Transition only: parts of the models that have no ``to_parts`` and ``from_parts`` yet.

To be deleted when models/chain, embeddings and nn/tagger have these methods.
"""

import os
from typing import Any

import numpy as np

from trellis.errors import InputError
from trellis.features.vectorizer import ReadyFeatures, from_parts
from trellis.formats import native
from trellis.formats.native import Contents, expect, finite
from trellis.formats.parts import (
    read_classes,
    read_parameters,
    read_training,
    stored_labels,
    stored_parameters,
    training_record,
)
from trellis.models.chain.crf import CRF
from trellis.models.chain.decoding import as_array
from trellis.models.chain.hmm import HMM
from trellis.models.chain.labels import constraints_for
from trellis.models.chain.linear import LinearChainModel
from trellis.models.chain.memm import MEMM
from trellis.models.chain.weights import WeightLayout

_NOT_STORED = ("features", "edge_features", "n_jobs")
_LINEAR = {"weights": np.float64, "state_begin": np.int64, "bigram": np.int32}


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
        meta["training"] = training_record(model, ("losses", "dev_scores"))
        tensors |= _linear_tensors(model)
    return meta, tensors


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


def build_chain(contents: Contents) -> Any:
    """Build a model of chains."""
    meta, tensors = contents.meta, contents.tensors
    cls = {"crf": CRF, "memm": MEMM, "hmm": HMM}[contents.kind]
    model = cls(**read_parameters(cls, meta))
    classes = read_classes(meta)
    model.classes_ = as_array(tuple(classes))
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
    read_training(model, meta, ("losses", "dev_scores"))
    return model


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


def build_model(contents: Contents, features: Any) -> Any:
    """Build a model of a kind whose class has no ``from_parts`` yet."""
    if contents.kind in ("crf", "memm", "hmm"):
        return build_chain(contents)
    if contents.kind == "neural-tagger":
        from trellis.nn.tagger import files as tagger_files

        return tagger_files.from_contents(contents, features=features)
    from trellis.embeddings import files as vector_files
    from trellis.embeddings import model_files
    from trellis.embeddings.vectors import Vectors

    if contents.kind == "vectors":
        words, matrix, unseen = vector_files.from_contents(contents)
        return Vectors(words, matrix, unseen=unseen)
    return model_files.from_contents(contents)


def from_contents(contents: Contents, features: Any = None, edge_features: Any = None) -> Any:
    """Build a model and set its functions."""
    model = build_model(contents, features)
    if isinstance(getattr(model, "features_", None), ReadyFeatures):
        model.features_.make = features or model.features_.make
        model.features_.make_edges = edge_features or model.features_.make_edges
        for name, value in (("features", features), ("edge_features", edge_features)):
            if value is not None:
                model.set_params(**{name: value})
    return model


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a model of chains."""
    kinds: dict[Any, str] = {CRF: "crf", MEMM: "memm", HMM: "hmm"}
    if type(model) not in kinds:
        raise InputError(f"cannot save a {type(model).__name__}: its kind has no file format")
    model._fitted()
    kind = kinds[type(model)]
    native.write(path, kind, *chain_parts(model, kind))
