"""Checks of sequence estimators. They follow scikit-learn's checks; samples are sequences."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from trellis.errors import InputError

Data = tuple[list[Any], list[list[Any]]]
METHODS = ("predict", "predict_marginals", "log_likelihood", "score", "sample", "predict_kbest")


def check_sequence_estimator(estimator: Any, data: Data, unseen: Any, grid: dict[str, Any]) -> None:
    """Run all checks on clones of an estimator.

    ``data`` are sequences that it can learn, ``unseen`` is a sequence of unknown features, and
    ``grid`` a parameter with two values to search.
    """
    X, y = data
    check_parameters(estimator)
    check_not_fitted(estimator, data)
    check_learns(estimator, data)
    check_no_mutation(estimator, data)
    check_fit_twice(estimator, data)
    check_pickle(estimator, data)
    check_clone(estimator, data)
    check_containers(estimator, data)
    check_model_selection(estimator, data, grid)
    check_pipeline(estimator, data)
    check_sample_weight(estimator, data)
    check_unseen(estimator, data, unseen)
    check_single_label(estimator, data)
    check_length_one(estimator, data)
    check_empty(estimator, data)
    check_invalid_y(estimator, X, y)


def length(x: Any) -> int:
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def is_equal(a: Any, b: Any) -> bool:
    """Compare nested lists, dicts, arrays and sparse matrices."""
    if sparse.issparse(a):
        return bool(sparse.issparse(b) and a.shape == b.shape and (a != b).nnz == 0)
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and np.array_equal(a, b)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(is_equal, a, b))
    return bool(a == b)


def call(model: Any, method: str, X: Any, y: Any) -> Any:
    extra = {"predict_kbest": (2,), "log_likelihood": (y,), "score": (y,)}.get(method, ())
    return getattr(model, method)(X, *extra)


def all_predictions(model: Any, data: Data) -> list[Any]:
    X, y = data
    return [model.predict(X), model.predict_marginals(X), model.log_likelihood(X, y)]


def check_parameters(estimator: Any) -> None:
    parameters = estimator.get_params()
    copy = clone(estimator)
    assert copy.get_params().keys() == parameters.keys()
    for name, value in parameters.items():
        copy.set_params(**{name: value})
        assert getattr(copy, name) is value
    default = type(estimator)()
    assert default.get_params().keys() == parameters.keys()
    assert type(estimator).__name__ in repr(estimator)
    with pytest.raises(ValueError, match="no_such_parameter"):
        copy.set_params(no_such_parameter=1)


def check_not_fitted(estimator: Any, data: Data) -> None:
    for method in METHODS:
        with pytest.raises(NotFittedError):
            call(clone(estimator), method, *data)


def check_learns(estimator: Any, data: Data) -> None:
    X, y = data
    model = clone(estimator)
    assert model.fit(X, y) is model
    assert sorted(model.classes_.tolist()) == sorted({label for labels in y for label in labels})
    labels = model.predict(X)
    assert [len(row) for row in labels] == [length(x) for x in X]
    assert model.score(X, y) > 0.8
    for table, row in zip(model.predict_marginals(X), labels, strict=True):
        assert table.shape == (len(row), len(model.classes_))
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
    likelihood = model.log_likelihood(X, y)
    assert likelihood.shape == (len(X),)
    assert (likelihood <= 1e-9).all()
    for row, best in zip(labels, model.predict_kbest(X, 2), strict=True):
        assert best[0].labels == row
    assert [len(drawn) for drawn in model.sample(X, n=3, random_state=0)] == [3] * len(X)


def check_no_mutation(estimator: Any, data: Data) -> None:
    original = deepcopy(data)
    model = clone(estimator)
    original_params = {name: deepcopy(value) for name, value in model.get_params().items()}
    model.fit(*data)
    for method in METHODS:
        call(model, method, *data)
    assert is_equal(list(data), list(original))
    for name, value in model.get_params().items():
        assert repr(value) == repr(original_params[name]) or value == original_params[name]


def check_fit_twice(estimator: Any, data: Data) -> None:
    """A second fit starts from the beginning, also after a fit to other data."""
    model, (X, y) = clone(estimator), data
    first = all_predictions(model.fit(X, y), data)
    assert is_equal(all_predictions(model.fit(X, y), data), first)
    half = len(X) // 2
    model.fit(X[:half], y[:half])
    assert is_equal(all_predictions(model.fit(X, y), data), first)


def check_pickle(estimator: Any, data: Data) -> None:
    assert repr(pickle.loads(pickle.dumps(estimator))) == repr(estimator)
    model = clone(estimator).fit(*data)
    expected = all_predictions(model, data)
    for copy in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
        assert is_equal(all_predictions(copy, data), expected)


def check_clone(estimator: Any, data: Data) -> None:
    fitted = clone(estimator).fit(*data)
    copy = clone(fitted)
    assert not [name for name in vars(copy) if name.endswith("_") and not name.startswith("_")]
    assert is_equal(all_predictions(copy.fit(*data), data), all_predictions(fitted, data))


def check_containers(estimator: Any, data: Data) -> None:
    """X and y may also be tuples or arrays of objects."""
    X, y = data
    expected = clone(estimator).fit(X, y).predict(X)
    objects = np.empty(len(X), dtype=object)
    objects[:] = X
    assert clone(estimator).fit(tuple(X), tuple(map(tuple, y))).predict(tuple(X)) == expected
    assert clone(estimator).fit(objects, y).predict(objects) == expected


def check_model_selection(estimator: Any, data: Data, grid: dict[str, Any]) -> None:
    X, y = data
    folds = KFold(2, shuffle=True, random_state=0)
    scores = cross_val_score(clone(estimator), X, y, cv=folds)
    assert scores.shape == (2,)
    assert ((scores > 0.3) & (scores <= 1)).all()
    search = GridSearchCV(clone(estimator), grid, cv=folds).fit(X, y)
    assert search.best_params_.keys() == grid.keys()
    assert len(search.predict(X)) == len(X)


def check_pipeline(estimator: Any, data: Data) -> None:
    X, y = data
    pipeline: Pipeline = make_pipeline(FunctionTransformer(list), clone(estimator)).fit(X, y)
    assert pipeline.predict(X) == clone(estimator).fit(X, y).predict(X)
    assert pipeline.score(X, y) > 0.8


def check_sample_weight(estimator: Any, data: Data) -> None:
    X, y = data
    model = clone(estimator).fit(X, y, sample_weight=np.ones(len(X)))
    assert is_equal(all_predictions(model, data), all_predictions(clone(estimator).fit(X, y), data))
    assert model.score(X, y, sample_weight=np.ones(len(X))) == pytest.approx(model.score(X, y))
    one = np.zeros(len(X))
    one[0] = 5.0
    assert model.score(X, y, sample_weight=one) == pytest.approx(model.score(X[:1], y[:1]))
    for invalid in (np.ones(len(X) + 1), -np.ones(len(X)), np.full(len(X), np.nan)):
        with pytest.raises(InputError):
            clone(estimator).fit(X, y, sample_weight=invalid)


def check_unseen(estimator: Any, data: Data, unseen: Any) -> None:
    X, y = data
    model = clone(estimator).fit(X, y)
    assert len(model.predict([unseen])[0]) == length(unseen)
    assert np.isfinite(model.predict_marginals([unseen])[0]).all()
    unknown_labels = [["never seen"] * len(row) for row in y]
    assert model.score(X, unknown_labels) == 0.0
    with pytest.raises(InputError, match="sequence 0, position 0"):
        model.log_likelihood(X, unknown_labels)


def check_single_label(estimator: Any, data: Data) -> None:
    X, y = data
    model = clone(estimator).fit(X, [["only"] * len(row) for row in y])
    assert model.predict(X) == [["only"] * len(row) for row in y]
    for table in model.predict_marginals(X):
        np.testing.assert_allclose(table, 1.0)
    np.testing.assert_allclose(model.log_likelihood(X, model.predict(X)), 0.0, atol=1e-9)


def check_length_one(estimator: Any, data: Data) -> None:
    X, y = data
    ones, labels = [x[:1] for x in X], [row[:1] for row in y]
    model = clone(estimator).fit(ones, labels)
    assert [len(row) for row in model.predict(ones)] == [1] * len(ones)
    assert len(model.predict(X)[0]) == length(X[0])
    assert len(clone(estimator).fit(X, y).predict(ones)) == len(ones)


def check_empty(estimator: Any, data: Data) -> None:
    X, y = data
    model = clone(estimator).fit(X, y)
    empty = X[0][:0]
    assert model.predict([]) == []
    assert model.predict_marginals([]) == []
    assert model.predict([empty]) == [[]]
    mixed = model.predict([empty, X[0], empty, X[1]])
    assert mixed == [[], *model.predict(X[:1]), [], *model.predict(X[1:2])]
    assert model.predict_marginals([empty])[0].shape == (0, len(model.classes_))
    assert model.predict_kbest([empty], 3)[0] == [([], 1.0)]
    assert model.sample([empty], n=2) == [[[], []]]
    assert model.log_likelihood([empty], [[]]).tolist() == [0.0]
    for invalid in ([], [empty], [X[0], empty]):
        with pytest.raises(InputError, match="empty"):
            clone(estimator).fit(
                invalid, [row[: length(x)] for x, row in zip(invalid, y, strict=False)]
            )


def check_invalid_y(estimator: Any, X: Any, y: Any) -> None:
    for invalid in (y[:-1], [*y, y[0]], [y[0][:-1], *y[1:]], "labels", 7, ["labels", *y[1:]]):
        with pytest.raises(InputError):
            clone(estimator).fit(X, invalid)
    model = clone(estimator).fit(X, y)
    for invalid in (y[:-1], [*y, y[0]], [y[0][:-1], *y[1:]]):
        with pytest.raises(InputError):
            model.score(X, invalid)
        with pytest.raises(InputError):
            model.log_likelihood(X, invalid)
    for sequences in ("text", 7, None):
        with pytest.raises(InputError):
            model.predict(sequences)
        with pytest.raises(InputError):
            clone(estimator).fit(sequences, y)
