"""The replacement of sklearn-crfsuite: the estimator, its attributes and its pickles."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from trellis.compat.sklearn_crfsuite import CRF, metrics, scorers
from trellis.compat.sklearn_crfsuite.utils import flatten

X = [[{"w": w, "cap": w.istitle()} for w in s.split()] for s in ("Ann left Rome", "Bob saw Oslo")]
Y = [["PER", "O", "LOC"]] * 2


def original() -> Any:
    pytest.importorskip("pycrfsuite")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("sklearn_crfsuite")
    assert not module.CRF.__module__.startswith("trellis")
    return module


def test_same_arguments_as_the_original() -> None:
    theirs = inspect.signature(original().CRF.__init__).parameters
    ours = inspect.signature(CRF.__init__).parameters
    assert [(p.name, p.default) for p in ours.values()] == [
        (p.name, p.default) for p in theirs.values()
    ]


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "ap", "pa", "arow"])
def test_same_model_as_the_original(algorithm: str) -> None:
    options = {"algorithm": algorithm, "max_iterations": 20, "all_possible_transitions": True}
    ours, theirs = CRF(**options).fit(X, Y), original().CRF(**options).fit(X, Y)
    assert ours.classes_ == theirs.classes_
    assert ours.predict(X).tolist() == theirs.predict(X).tolist()
    assert ours.score(X, Y) == theirs.score(X, Y)
    if algorithm == "lbfgs":  # the others shuffle by C's rand(), which may have been used
        assert ours.attributes_ == theirs.attributes_
        assert ours.size_ == theirs.size_
        assert ours.num_attributes_ == theirs.num_attributes_
        assert ours.transition_features_ == pytest.approx(theirs.transition_features_, abs=1e-4)
        assert ours.state_features_ == pytest.approx(theirs.state_features_, abs=1e-4)
        table = ours.predict_marginals(X)[0]
        for marginals, expected in zip(table, theirs.predict_marginals(X)[0], strict=True):
            assert marginals == pytest.approx(expected, abs=1e-4)


def test_attributes_before_fit() -> None:
    crf = CRF()
    for name in ("tagger_", "classes_", "size_", "num_attributes_", "attributes_"):
        assert getattr(crf, name) is None
    assert crf.state_features_ is crf.transition_features_ is None
    with pytest.raises(AttributeError, match="not fitted"):
        crf.predict(X)
    with pytest.raises(ValueError, match="both X_dev and y_dev"):
        crf.fit(X, Y, X)


def test_holdout_scores_are_printed(capsys: Any) -> None:
    crf = CRF(max_iterations=3, verbose=True).fit(X, Y, X, Y)
    printed = capsys.readouterr().out
    assert "Iter 3 " in printed
    assert "Acc(item/seq)=" in printed
    assert "Precision" in printed
    assert crf.training_log_.last_iteration["num"] == 3


def test_grid_search_and_clones() -> None:
    grid = {"c2": [0.01, 10.0]}
    search = GridSearchCV(CRF(), grid, cv=2, scoring=scorers.flat_accuracy)
    search.fit(X * 4, Y * 4)
    assert search.best_params_ == {"c2": 0.01}
    assert clone(CRF(c1=0.5)).c1 == 0.5


def test_pickles_and_files(tmp_path: Path) -> None:
    crf = CRF(c2=0.1).fit(X, Y)
    assert crf.modelfile.name is not None
    again = pickle.loads(pickle.dumps(crf))
    assert again.predict(X).tolist() == crf.predict(X).tolist()
    name = crf.modelfile.name
    crf.fit(X, Y)
    assert not Path(name).exists()  # fit deletes the temporary file of the first model
    path = str(tmp_path / "m.crfsuite")
    CRF(model_filename=path, c2=0.1).fit(X, Y)
    assert CRF(model_filename=path).predict(X).tolist() == again.predict(X).tolist()


def test_load_pickles_of_the_original(tmp_path: Path) -> None:
    theirs = original().CRF(c2=0.1).fit(X, Y, X, Y)
    (tmp_path / "p").write_bytes(pickle.dumps(theirs))
    code = f"""
import pickle
from trellis.compat import stand_in
stand_in()
crf = pickle.load(open({str(tmp_path / "p")!r}, "rb"))
assert type(crf).__module__ == "trellis.compat.sklearn_crfsuite.estimator"
print(crf.predict({X!r}).tolist(), crf.c2, crf.training_log_.last_iteration["num"] > 1)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{theirs.predict(X).tolist()} 0.1 True"


def test_metrics() -> None:
    a, b = [["x", "z", "y"], ["x", "x"]], [["y", "z", "y"], ["x", "y"]]
    assert metrics.flat_accuracy_score(a, b) == 0.6
    assert metrics.flat_precision_score(a, b, average="micro") == 0.6
    assert metrics.flat_recall_score(a, b, average="micro") == 0.6
    assert metrics.flat_f1_score(a, b, average="macro") == pytest.approx(2 / 3)
    assert metrics.flat_fbeta_score(a, b, beta=1, average="macro") == pytest.approx(2 / 3)
    assert "accuracy" in metrics.flat_classification_report(a, b)
    assert metrics.sequence_accuracy_score(a, b) == 0
    assert metrics.sequence_accuracy_score(a, np.array(a, dtype=object)) == 1
    assert metrics.sequence_accuracy_score([], []) == 0
    assert flatten(a) == ["x", "z", "y", "x", "x"]
