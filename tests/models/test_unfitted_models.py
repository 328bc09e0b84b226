"""Every method of a model that needs a fit raises NotFittedError before it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import trellis

NAMES = ("CRF", "MEMM", "HMM", "GraphCRF", "GridCRF", "LogisticRegression", "SoftmaxRegression")
# Methods of scikit-learn's base classes, and methods that work without a fit.
UNNEEDED = {"fit", "load", "from_parts", "get_params", "set_params", "get_metadata_routing"}
UNNEEDED |= {"read_corpus_layout", "set_feature_functions", "set_weights"}
UNNEEDED |= {"set_fit_request", "set_score_request", "set_predict_request", "fit_transform"}
X, Y = [["a", "b"], ["c"]], [["x", "y"], ["x"]]
GRAPHS = [(np.eye(2), [[0, 1]])]
IMAGES = [np.zeros((2, 2))]


def arguments_of(name: str, method: Any) -> list[Any]:
    """Return valid arguments: samples, labels, a number or a path."""
    samples: Any = {"GraphCRF": GRAPHS, "GridCRF": IMAGES}.get(name, X)
    labels: Any = {"GraphCRF": [["x", "y"]], "GridCRF": [np.zeros((2, 2))]}.get(name, Y)
    if name.endswith("Regression"):
        samples, labels = np.zeros((2, 1)), [0, 1]
    values = {"X": samples, "y": labels, "x": samples[0], "k": 2, "n": 2}
    parameters = inspect.signature(method).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in (2, 4)]
    return [values.get(parameter, "nowhere/model.file") for parameter in needed]


def list_methods() -> list[tuple[str, str]]:
    pairs = []
    for name in NAMES:
        model = getattr(trellis, name)()
        for method in dir(model):
            if method.startswith("_") or method in UNNEEDED or method.endswith("_request"):
                continue
            if not isinstance(getattr(type(model), method, None), property) and callable(
                getattr(model, method, None)
            ):
                pairs.append((name, method))
    return pairs


@pytest.mark.parametrize(("name", "method"), list_methods())
def test_methods_need_a_fit(name: str, method: str) -> None:
    call = getattr(getattr(trellis, name)(), method)
    with pytest.raises(NotFittedError, match=f"his {name} .*is not fitted yet"):
        call(*arguments_of(name, call))


@pytest.mark.parametrize("name", ["Word2Vec", "FastText", "TextClassifier"])
def test_methods_of_embeddings_need_a_fit(name: str, tmp_path: Path) -> None:
    model = getattr(trellis, name)()
    calls: dict[str, list[Any]] = {
        "save": [tmp_path / "m.trellis"],
        "save_fasttext": [tmp_path / "m.bin"],
        "predict": [["a"]],
        "quantize": [],
        "to_parts": [],
    }
    methods = [method for method in calls if hasattr(model, method)]
    assert len(methods) >= 2
    for method in methods:
        with pytest.raises(NotFittedError, match=f"his {name} .*is not fitted yet"):
            getattr(model, method)(*calls[method])
    assert not [*tmp_path.iterdir()]
