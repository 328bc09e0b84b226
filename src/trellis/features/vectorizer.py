"""Choose the feature map for the setting ``features`` and the type of the tokens."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.features.arrays import ArrayFeatures
from trellis.features.edges import EdgeFeatures
from trellis.features.extractor import TemplateFeatures
from trellis.features.ready import FeatureFunction, ReadyFeatures
from trellis.features.rows import FeatureMap
from trellis.features.spec import Spec
from trellis.features.window import Window, default_spec

__all__ = ["ArrayFeatures", "FeatureMap", "ReadyFeatures", "choose", "from_parts"]


def choose(features: Any, edge_features: Any, X: Any) -> FeatureMap:
    """Return the map for a spec, a window or a function; for None, choose by the type of X."""
    if edge_features is not None:
        return _add_edges(choose(features, None, X), edge_features)
    if isinstance(features, Window):
        features = features.spec()
    if isinstance(features, Spec):
        return TemplateFeatures(features)
    if callable(features):
        _check_arguments(features, "features")
        return ReadyFeatures(features)
    if features is not None:
        is_name = isinstance(features, str)
        raise InputError(
            "features must be None, a Spec, a Window or a function of a sequence, "
            f"not {features!r:.60}"
            + ("; for a set of features with a name, see trellis.features.named" * is_name)
        )
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of sequences, not {type(X).__name__}")
    first = next((x for x in X if _count_positions(x)), None)
    if hasattr(first, "shape") or (first is None and any(hasattr(x, "shape") for x in X)):
        return ArrayFeatures()
    token = first[0] if first is not None else ""
    _check_token(token)
    if isinstance(token, str | tuple):
        return TemplateFeatures(default_spec(token))
    return ReadyFeatures()


def _add_edges(states: FeatureMap, edge_features: Any) -> EdgeFeatures:
    """Return a map that adds features of transitions: of templates, or of a function."""
    if isinstance(edge_features, Window):
        edge_features = edge_features.spec()
    if isinstance(edge_features, Spec):
        return EdgeFeatures(states, TemplateFeatures(edge_features))
    if not callable(edge_features):
        raise InputError(
            "edge_features must be None, a Spec, a Window or a function of a sequence, "
            f"not {type(edge_features).__name__}"
        )
    _check_arguments(edge_features, "edge_features")
    return EdgeFeatures(states, make=edge_features)


def _check_arguments(function: FeatureFunction, name: str) -> None:
    """Raise InputError unless one sequence is enough as argument of the function.

    A function with more arguments computes joint features, and belongs to another parameter.
    """
    try:
        inspect.signature(function).bind(None)
    except ValueError:
        return  # a function of an extension module has no signature
    except TypeError as error:
        raise InputError(
            f"{name} must be a function of a sequence, which returns the features of each "
            f"position ({function!r:.60}: {error}); a function of (x, i, previous, label) is "
            "joint=, as in CRF(joint=f)"
        ) from None


def from_parts(
    kind: Any, meta: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], strings: Any
) -> FeatureMap:
    """Build the map of a kind from its parts."""
    maps: dict[Any, Any] = {
        map_class.kind: map_class for map_class in (TemplateFeatures, ReadyFeatures, ArrayFeatures)
    }
    if kind not in maps:
        raise InputError(f"unknown kind of features: {kind!r}")
    features: FeatureMap = maps[kind].from_parts(meta, tensors, strings)
    if kind == ReadyFeatures.kind and meta.get("made_edges"):  # a file of version 0.1.0
        edges = ReadyFeatures.from_parts({}, {}, lambda name: strings(f"edge_{name}"))
        return EdgeFeatures.without_start(features, edges)
    return features


def _check_token(token: Any) -> None:
    """Raise InputError for bytes and numbers, which are neither text nor features of a token."""
    problem = f"a token must be a str, a tuple of str, or features, not {type(token).__name__}"
    if isinstance(token, bytes):
        raise InputError(f"{problem}: decode it to str")
    item = token[0] if isinstance(token, list) and token else token
    if isinstance(item, int | float | np.number | np.ndarray):
        contents = " of numbers" if item is not token else ""
        raise InputError(
            f"{problem}{contents}: write np.array(x) for each sequence x of vectors, or str(token) "
            "if numbers are names"
        )


def _count_positions(x: Any) -> int:
    if isinstance(x, str | bytes | dict) or not (hasattr(x, "__len__") or hasattr(x, "shape")):
        raise InputError(f"a sequence must be a list of tokens, not {type(x).__name__}")
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)
