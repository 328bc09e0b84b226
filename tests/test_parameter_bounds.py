"""The bounds of every parameter, against a written table: accepted at the bound, refused beyond it.

Parameters are validated before the data. So with data that are refused, the error names the
parameter if and only if its value is invalid.
"""

import math
from typing import Any

import numpy as np
import pytest

import trellis
from trellis.errors import InputError
from trellis.models.chain.checkpoint import Checkpoint

INF = math.inf
GRAPH = {"l2": (0.0, INF), "l1": (0.0, INF), "tol": (0.0, INF), "max_iter": (1, INF)}
GRAPH |= {"max_sweeps": (1, 100_000), "random_state": (0, INF)}
LINEAR = {"l2": (0.0, INF), "l1": (0.0, INF), "min_count": (0.0, INF)}
LINEAR |= {"max_iter": (0, INF), "early_stopping": (1, INF), "random_state": (0, INF)}
EMBEDDING: dict[str, tuple[float, float]] = {
    "vector_size": (1, 65_536),
    "negatives": (1, 10_000),
    "min_count": (1, INF),
    "epochs": (1, 1_048_576),
    "exponent": (-10.0, 10.0),
}
WORD2VEC = {**EMBEDDING, "window": (1, 10_000), "max_vocabulary": (1, INF), "sample": (0.0, INF)}
WORD2VEC |= {"alpha": (0.0, INF), "min_alpha": (0.0, INF)}
SUBWORDS = {"minn": (0, 64), "maxn": (0, 64), "bucket": (0, 2**31 - 2**25)}
BOUNDS: dict[str, dict[str, tuple[float, float]]] = {
    "CRF": LINEAR,
    "MEMM": LINEAR,
    "HMM": {
        "smoothing": (0.0, INF),
        "transition_smoothing": (0.0, INF),
        "max_iter": (1, INF),
        "n_mixtures": (1, INF),
        "min_variance": (1e-12, INF),
        "random_state": (0, INF),
    },
    "GraphCRF": GRAPH,
    "GridCRF": GRAPH,
    "Word2Vec": WORD2VEC,
    "FastText": WORD2VEC | SUBWORDS,
    "TextClassifier": EMBEDDING
    | SUBWORDS
    | {"word_ngrams": (1, 1024), "min_label_count": (1, INF), "alpha": (0.0, INF)},
    "NeuralTagger": {
        **dict.fromkeys(["word_dim", "char_dim", "char_hidden", "hidden"], (1, 2**31 - 1)),
        "layers": (1, 64),
        **dict.fromkeys(["epochs", "batch_size", "patience"], (1, INF)),
        **dict.fromkeys(["word_dropout", "weight_decay", "learning_rate", "clip"], (0.0, INF)),
        "random_state": (0, INF),
    },
}
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "CRF": {
        "solver": ("lbfgs", "sgd", "perceptron", "passive-aggressive", "arow"),
        "states": ("seen", "all"),
        "transitions": ("seen", "all", "none"),
        "scoring": ("accuracy", "span_f1", "sequence_accuracy"),
    },
    "MEMM": {"solver": ("lbfgs",)},
    "HMM": {
        "emissions": ("categorical", "gaussian", "mixture", "poisson"),
        "covariance": ("diagonal", "full", "tied", "spherical"),
    },
    "GraphCRF": {
        "objective": ("likelihood", "pseudolikelihood", "trw", "bethe", "perceptron", "ssvm"),
        "inference": ("auto", "exact", "bp", "trw", "expansion", "cut", "icm"),
    },
    "Word2Vec": {
        "architecture": ("skipgram", "cbow"),
        "loss": ("negative", "hierarchical", "softmax", "ova"),
    },
    "FastText": {"ngrams": ("hashed", "dictionary"), "combine": ("mean", "sum")},
    "TextClassifier": {"loss": ("softmax", "negative", "hierarchical", "ova")},
    "NeuralTagger": {
        "encoder": ("lstm", "cnn"),
        "head": ("crf", "softmax", "memm"),
        "optimizer": ("adamw", "sgd"),
        "schedule": ("constant", "linear", "cosine"),
        "precision": ("bf16", "fp16"),
        "char_cell": ("lstm", "gru"),
    },
}
FLAGS = {
    "GraphCRF": ("symmetric", "fit_intercept"),
    "GridCRF": ("symmetric", "fit_intercept", "directed", "contrast"),
    "Word2Vec": ("shared_negatives", "shrink_windows"),
    "FastText": ("shared_negatives", "shrink_windows"),
    "NeuralTagger": ("lowercase",),
}


def error_of(name: str, **parameters: Any) -> str:
    """Return the message of a fit with these parameters and with data that are refused."""
    if name == "NeuralTagger":
        pytest.importorskip("torch")
    model = getattr(trellis, name)(**parameters)
    data: tuple[Any, ...] = ("text", [])
    if name in ("Word2Vec", "FastText", "TextClassifier"):
        data = ([],)
    elif name == "NeuralTagger":
        data = ([[3]], [["x"]])  # it counts the sequences first
    with pytest.raises(InputError) as info:
        model.fit(*data)
    return str(info.value)


def list_pairs(table: dict[str, Any]) -> list[Any]:
    return [(name, parameter) for name, row in table.items() for parameter in row]


@pytest.mark.parametrize(("name", "parameter"), list_pairs(BOUNDS))
def test_bounds(name: str, parameter: str) -> None:
    low, high = BOUNDS[name][parameter]
    is_integer = isinstance(low, int)
    # The other bound of n-grams, and bucket=0, must not interfere.
    also = {"minn": {"maxn": 64}, "maxn": {"minn": 0}, "bucket": {"maxn": 0}}.get(parameter, {})

    def error(value: Any) -> str:
        message = error_of(name, **{parameter: value, **also})
        return message.replace("early_stopping needs a development set", "")

    assert parameter not in error(low)
    if parameter == "random_state":
        assert parameter in error(-1)
        assert parameter in error("seed")
        return
    below = low - 1 if is_integer else math.nextafter(low, -INF)
    invalid: list[Any] = [below, "1", math.nan, *([1.5, True] if is_integer else [INF])]
    if high < INF:
        assert parameter not in error(high)
        invalid.append(high + 1 if is_integer else math.nextafter(high, INF))
    for value in invalid:
        assert parameter in error(value), value


@pytest.mark.parametrize(("name", "parameter"), list_pairs(CHOICES))
def test_choices(name: str, parameter: str) -> None:
    values = CHOICES[name][parameter]
    for value in values:
        assert f"{parameter} must" not in error_of(name, **{parameter: value})
    message = error_of(name, **{parameter: "nosuch"})
    assert "'nosuch'" in message
    for value in values:
        assert value in message


@pytest.mark.parametrize(("name", "parameter"), list_pairs(FLAGS))
def test_flags(name: str, parameter: str) -> None:
    for value in (True, False, 0, 1, np.True_):
        assert parameter not in error_of(name, **{parameter: value})
    for value in (2, -1, "yes", None, 1.0):
        assert f"{parameter} must be True or False" in error_of(name, **{parameter: value})


@pytest.mark.parametrize("name", ["GraphCRF", "GridCRF"])
def test_damping_is_below_one(name: str) -> None:
    for value in (0, 0.5, math.nextafter(1.0, 0.0), np.float32(0.25)):
        assert "damping" not in error_of(name, damping=value)
    for value in (1, math.nextafter(0.0, -1.0), math.nan, "0.5", None):
        assert "damping must be at least 0 and below 1" in error_of(name, damping=value)


def test_dropout_is_below_one() -> None:
    for value in (0, 0.5, math.nextafter(1.0, 0.0)):
        assert "dropout" not in error_of("NeuralTagger", dropout=value)
    for value in (1, -1e-9, math.nan, "0.5", True):
        message = f"dropout must be at least 0 and below 1, not {value!r}"
        assert message in error_of("NeuralTagger", dropout=value)


def test_depth_of_the_convolutions() -> None:
    assert "layers" not in error_of("NeuralTagger", encoder="cnn", layers=16)
    assert "layers" not in error_of("NeuralTagger", encoder="lstm", layers=17)
    assert "supports at most 16" in error_of("NeuralTagger", encoder="cnn", layers=17)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("CRF", {"l1": 0.1, "solver": "sgd"}, "l1 > 0 needs solver='lbfgs'"),
        ("CRF", {"label_weight": [1]}, "label_weight must be a dict or None"),
        ("CRF", {"solver_options": 3}, "solver_options must be a dict or None"),
        ("CRF", {"constraints": "nosuch"}, "nosuch"),
        ("CRF", {"n_jobs": 0}, "n_jobs"),
        ("HMM", {"n_jobs": 0}, "n_jobs"),
        ("HMM", {"tol": INF}, "tol"),
        ("HMM", {"tol": "0"}, "tol"),
        ("HMM", {"n_states": 1.5}, "n_states"),
        ("GraphCRF", {"n_jobs": 0}, "n_jobs"),
        ("GraphCRF", {"l1": 0.1, "objective": "ssvm"}, "l1 is 0.1: must be 0 with objective"),
        ("FastText", {"minn": 4, "maxn": 3}, "minn is 4 and maxn is 3"),
        ("FastText", {"bucket": 0}, "bucket is 0: must be at least 1"),
        ("TextClassifier", {"word_ngrams": 2, "bucket": 0}, "bucket is 0: must be at least 1"),
        ("TextClassifier", {"maxn": 2, "bucket": 0}, "bucket is 0: must be at least 1"),
        ("TextClassifier", {"label_prefix": ""}, "label_prefix is '': must be a non-empty str"),
        ("TextClassifier", {"label_prefix": 3}, "label_prefix is 3: must be a non-empty str"),
        ("NeuralTagger", {"words": "cnn"}, "words must be a tuple"),
        ("NeuralTagger", {"words": ()}, "words must be a tuple"),
        ("NeuralTagger", {"column": 1.5}, "column must be an integer or a str"),
        ("NeuralTagger", {"constraints": "BIO", "head": "memm"}, "constraints need head='crf'"),
        ("NeuralTagger", {"constraints": "nosuch"}, "nosuch"),
        ("NeuralTagger", {"scoring": "nosuch"}, "nosuch"),
        ("NeuralTagger", {"n_jobs": 0}, "n_jobs"),
        ("NeuralTagger", {"device": "nosuch"}, "device must be cpu, cuda or cuda:0"),
        ("NeuralTagger", {"device": "meta"}, "device must be cpu, cuda or cuda:0"),
    ],
)
def test_other_values_that_are_refused(name: str, parameters: dict[str, Any], message: str) -> None:
    assert message in error_of(name, **parameters)


@pytest.mark.parametrize(
    ("name", "parameters", "word"),
    [
        ("CRF", {"l1": 0.0, "solver": "sgd"}, "l1"),
        ("CRF", {"l1": 0.1, "solver": "lbfgs"}, "l1"),
        ("HMM", {"tol": -1.0}, "tol"),
        ("GraphCRF", {"l1": 0.0, "objective": "ssvm"}, "l1"),
        ("FastText", {"minn": 4, "maxn": 0}, "minn"),
        ("FastText", {"minn": 3, "maxn": 3}, "minn"),
        ("FastText", {"maxn": 0, "bucket": 0}, "bucket"),
        ("TextClassifier", {"bucket": 0}, "bucket"),
        ("NeuralTagger", {"constraints": "BIO", "head": "crf"}, "constraints"),
        ("NeuralTagger", {"clip": None}, "clip"),
    ],
)
def test_pairs_that_are_accepted(name: str, parameters: dict[str, Any], word: str) -> None:
    assert word not in error_of(name, **parameters)


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize("name", ["LogisticRegression", "SoftmaxRegression"])
def test_bounds_of_the_regressions(name: str) -> None:
    """They read the data first, as scikit-learn does."""
    X, y = np.array([[0.0], [1.0], [0.5]]), [0, 1, 1]

    def fit(**parameters: Any) -> Any:
        return getattr(trellis, name)(**parameters).fit(X, y)

    for parameter in ("l2", "l1", "tol"):
        fit(**{parameter: 0.0}, max_iter=2)
        for value in (-5e-324, INF, math.nan, "1"):
            with pytest.raises(InputError, match=f"{parameter} must be"):
                fit(**{parameter: value})
    for value in (1.5, "1", True):
        with pytest.raises(InputError, match="max_iter must be an integer"):
            fit(max_iter=value)
    for solver in ("newton", "gradient"):
        fit(solver=solver, max_iter=2)
        with pytest.raises(InputError, match="solver must be 'lbfgs' if l1 > 0"):
            fit(solver=solver, l1=0.1)
    with pytest.raises(InputError, match="solver must be one of lbfgs, newton, gradient, not 'x'"):
        fit(solver="x")
    with pytest.raises(InputError, match="y has only one class, 1: training needs two"):
        getattr(trellis, name)().fit(X, [1, 1, 1])


def test_steps_between_checkpoints() -> None:
    assert Checkpoint("path", every=1).every == 1
    for value in (0, 1.5, "1", True):
        with pytest.raises(InputError, match="every"):
            Checkpoint("path", every=value)
