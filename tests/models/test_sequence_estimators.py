"""Run `check_sequence_estimator` on every model, solver and type of token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from estimator_checks import check_sequence_estimator
from scipy import sparse

import trellis
from trellis.errors import InputError
from trellis.features import Window, named
from trellis.models.chain.solvers import SOLVERS

WORDS = {"D": ["the", "a"], "N": ["dog", "cat", "Ærø"], "V": ["runs", "sees", "sleeps"]}


def sentences(seed: int = 0, n: int = 14) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    y = [[*"DNV" * 2][: int(rng.integers(2, 7))] for _ in range(n)]
    return [[WORDS[tag][rng.integers(len(WORDS[tag]))] for tag in tags] for tags in y], y


X, Y = sentences()
ALL = sorted({word for words in WORDS.values() for word in words})


def one_hot(x: list[str]) -> np.ndarray:
    return np.array([[float(word == column) for column in ALL] for word in x])


def words_and_ends(x: list[str]) -> list[list[str]]:
    return [[f"w={word}", f"end={word[-1:]}"] for word in x]


def tokens(x: list[str]) -> dict[str, Any]:
    """Return the same sentence as each type of sequence."""
    return {
        "words": x,
        "tuples": [(word, word[:1]) for word in x],
        "dicts": [{"w": word, "length": len(word), "title": word.istitle()} for word in x],
        "lists": words_and_ends(x),
        "arrays": one_hot(x),
        "sparse": sparse.csr_array(one_hot(x)),
    }


KINDS = list(tokens(X[0]))
UNSEEN = tokens(["Quite", "other", "words"])
MODELS = {
    "crf": (trellis.CRF(l2=0.1), {"l2": [0.1, 1.0]}),
    "memm": (trellis.MEMM(l2=0.1), {"l2": [0.1, 1.0]}),
    "hmm": (trellis.HMM(), {"smoothing": [0.1, 1.0]}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_models_with_every_type_of_token(name: str, kind: str) -> None:
    model, grid = MODELS[name]
    data = [tokens(x)[kind] for x in X]
    check_sequence_estimator(model, (data, Y), UNSEEN[kind], grid)


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers(solver: str) -> None:
    model = trellis.CRF(l2=0.1, solver=solver, max_iter=20, random_state=0)
    check_sequence_estimator(model, (X, Y), UNSEEN["words"], {"max_iter": [5, 20]})


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "features",
    [words_and_ends, Window(words=1), named(["w[0]", "suffix1[0]"])],
    ids=["function", "window", "spec"],
)
def test_features(name: str, features: Any) -> None:
    model, grid = MODELS[name]
    model = type(model)(**model.get_params() | {"features": features})
    check_sequence_estimator(model, (X, Y), UNSEEN["words"], grid)


@pytest.mark.parametrize(
    "parameters",
    [
        {"l1": 0.05},
        {"constraints": [("D", "V")]},
        {"states": "all", "transitions": "seen"},
        {"features": words_and_ends, "edge_features": words_and_ends},
        {"features": named(["w[0]"], edges=["w[0]"])},
        {"min_count": 2, "n_jobs": 2},
    ],
    ids=lambda p: "-".join(p),
)
@pytest.mark.parametrize("cls", [trellis.CRF, trellis.MEMM])
def test_settings(cls: Any, parameters: dict[str, Any]) -> None:
    model = cls(**({"l2": 0.1} | parameters))
    check_sequence_estimator(model, (X, Y), UNSEEN["words"], {"l2": [0.1, 1.0]})


# ---- invalid X


@pytest.mark.parametrize("make", [trellis.CRF, trellis.MEMM, trellis.HMM])
@pytest.mark.parametrize(
    "invalid",
    [
        [["a", 7]],
        [["a", {"b": 1}]],
        [[{"a": 1.0}, "b"]],
        [[{"a": float("nan")}, {"a": 1.0}]],
        [[{"a": float("inf")}, {"a": 1.0}]],
        [[{"a": [1, 2]}, {"a": 1.0}]],
        [[["a", 7], ["b"]]],
        [[7.5, 8]],
        [[None, "a"]],
        [7],
        [np.zeros(3)],
        [np.array([[1.0, np.nan], [0.0, 1.0]])],
        [np.zeros((2, 3)), np.zeros((2, 4))],
        [np.array([[b"a", b"b"], [b"c", b"d"]])],
    ],
    ids=lambda x: repr(x)[:30],
)
def test_invalid_sequences(make: Any, invalid: Any) -> None:
    y = [["P", "Q"]] * len(invalid)
    with pytest.raises(InputError):
        make().fit(invalid, y)


@pytest.mark.parametrize("make", [trellis.CRF, trellis.MEMM, trellis.HMM])
def test_arrays_of_another_width(make: Any) -> None:
    model = make().fit([np.eye(3)], [["P", "Q", "R"]])
    with pytest.raises(InputError, match="sequence 1 has 4 columns, expected 3"):
        model.predict([np.eye(3), np.eye(4)])


@pytest.mark.parametrize("make", [trellis.CRF, trellis.MEMM, trellis.HMM])
def test_other_tokens_than_in_training(make: Any) -> None:
    model = make().fit(X, Y)
    for kind in ("dicts", "lists", "arrays"):
        with pytest.raises(InputError):
            model.predict([UNSEEN[kind]])
    model = make().fit([one_hot(x) for x in X], Y)
    with pytest.raises(InputError):
        model.predict(X)
