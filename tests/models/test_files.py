"""Chain models as files: a loaded model equals the saved one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from labellings import edge_part, random_data, state_part
from scipy import sparse
from sklearn.exceptions import NotFittedError

import trellis
from trellis.errors import InputError
from trellis.features import Window, named
from trellis.formats import native
from trellis.models.chain.solvers import SOLVERS

WORDS = [["the", "dog", "barks"], ["a", "cat"], ["Ærø", "", "日本"]]
TAGS = [["D", "N", "V"], ["D", "N"], ["N", "V", "N"]]
ROWS = [np.arange(12.0).reshape(4, 3) % 5, np.ones((2, 3))]
ROW_TAGS = [["P", "Q", "R", "P"], ["Q", "P"]]


def lengths(x: Any) -> Any:
    return [{"length": len(word)} for word in x]


def pairs(x: Any) -> Any:
    return [[f"before={a}"] for a in ["", *x[:-1]]]


KINDS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "words": ({}, WORDS, TAGS),
    "window": ({"features": Window(gazetteers={"city": ["Paris"]})}, WORDS, TAGS),
    "edges": ({"features": named(["w[0]"], edges=["w[0]", "w[-1]|w[0]"])}, WORDS, TAGS),
    "tuples": ({}, [[(w, w[:1]) for w in x] for x in WORDS], TAGS),
    "dicts": ({}, [[{"w": w, "n": len(w), "yes": True} for w in x] for x in WORDS], TAGS),
    "lists": ({}, [[["b", f"w={w}"] for w in x] for x in WORDS], TAGS),
    "arrays": ({}, ROWS, ROW_TAGS),
    "sparse": ({}, [sparse.csr_matrix(x) for x in ROWS], ROW_TAGS),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.trellis"


def assert_same(ours: Any, theirs: Any, X: Any, y: Any) -> None:
    assert type(ours) is type(theirs)
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    assert ours.predict(X) == theirs.predict(X)
    assert np.array_equal(ours.log_likelihood(X, y), theirs.log_likelihood(X, y))
    for a, b in zip(ours.predict_marginals(X), theirs.predict_marginals(X), strict=True):
        assert np.array_equal(a, b)
    assert ours.features_.names() == theirs.features_.names()


# ---- round trips


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [trellis.CRF, trellis.MEMM, trellis.HMM])
def test_round_trip(make: Any, kind: str, path: Path) -> None:
    parameters, X, y = KINDS[kind]
    model = make(**parameters).fit(X, y)
    model.save(path)
    loaded = trellis.load(path)
    assert_same(loaded, model, X, y)
    again = path.with_name("again.trellis")
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("solver", SOLVERS)
def test_round_trip_of_each_solver(solver: str, path: Path) -> None:
    model = trellis.CRF(solver=solver, random_state=0, max_iter=3).fit(WORDS, TAGS)
    model.save(path)
    loaded = trellis.load(path)
    assert_same(loaded, model, WORDS, TAGS)
    assert loaded.get_params() == model.get_params()
    assert (loaded.n_iter_, loaded.objective_) == (model.n_iter_, model.objective_)


@pytest.mark.parametrize(
    "parameters",
    [
        {"constraints": [("N", "D"), ("V", "V")]},
        {"label_weight": {"N": 2.0}},
        {"solver_options": {"epsilon": 1e-3}, "l2": np.float64(0.5), "max_iter": np.int64(3)},
        {"l1": 0.3},
        {"random_state": np.random.default_rng(0)},
        {"random_state": 7, "warm_start": True},
        {"states": "all", "transitions": "none"},
    ],
    ids=" ".join,  # the names: a generator has no fixed text, which pytest-xdist needs
)
def test_parameters_are_restored(parameters: dict[str, Any], path: Path) -> None:
    model = trellis.CRF(**parameters).fit(WORDS, TAGS)
    model.save(path)
    loaded = trellis.load(path)
    assert_same(loaded, model, WORDS, TAGS)
    for name, value in parameters.items():
        if not isinstance(value, np.random.Generator):
            assert getattr(loaded, name) == value


def test_feature_functions_are_passed_to_load(path: Path) -> None:
    model = trellis.CRF(lengths, edge_features=pairs).fit(WORDS, TAGS)
    model.save(path)
    assert_same(trellis.load(path, features=lengths, edge_features=pairs), model, WORDS, TAGS)
    with pytest.raises(InputError, match=r"trellis.load\(path, features=function\)"):
        trellis.load(path).predict(WORDS)
    with pytest.raises(InputError, match="edge_features=function"):
        trellis.load(path, features=lengths).predict(WORDS)


@pytest.mark.parametrize("labels", [[3, 1, 2], [True, False, True], [0.5, -1.0, 2.0]])
def test_labels_that_are_numbers(labels: list[Any], path: Path) -> None:
    X, y = [["a", "b", "c"]] * 3, [labels] * 3
    model = trellis.CRF(l2=0.01).fit(X, y)
    model.save(path)
    predicted = trellis.load(path).predict(X)
    assert predicted == y
    assert type(predicted[0][0]) is type(labels[0])


def test_labels_that_cannot_be_saved(path: Path) -> None:
    model = trellis.CRF().fit([["a", "b"]], [[("N", 1), ("V", 2)]])
    with pytest.raises(InputError, match="cannot be saved"):
        model.save(path)
    assert not path.exists()


@pytest.mark.parametrize("make", [trellis.CRF, trellis.MEMM, trellis.HMM])
def test_only_fitted_models_are_saved(make: Any, path: Path) -> None:
    with pytest.raises(NotFittedError):
        make().save(path)
    assert not path.exists()


def test_a_subclass_has_no_file_format(path: Path) -> None:
    class Mine(trellis.CRF):
        pass

    with pytest.raises(InputError, match="Mine"):
        Mine().fit(WORDS, TAGS).save(path)


def test_a_missing_file(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        trellis.load(path)


def test_weights_of_zero_are_not_stored(path: Path) -> None:
    X, y = random_data(0, 3, [5] * 20, attributes=40)
    X = [state_part(x) for x in X]
    small = trellis.CRF(l1=3.0).fit(X, y)
    small.save(path)
    stored = native.read(path).tensors
    assert np.count_nonzero(stored["weights"]) == len(stored["weights"])
    trellis.CRF(l2=0.1).fit(X, y).save(path.with_name("large"))
    assert path.stat().st_size < path.with_name("large").stat().st_size / 2


def test_edge_models_with_functions_keep_their_weights(path: Path) -> None:
    X, y = random_data(3, 3, [4, 5, 2], edge_attributes=3)
    model = trellis.CRF(state_part, edge_features=edge_part).fit(X, y)
    model.save(path)
    loaded = trellis.load(path, features=state_part, edge_features=edge_part)
    assert np.array_equal(loaded.coef_, model.coef_)
    assert_same(loaded, model, X, y)
