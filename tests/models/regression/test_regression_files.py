"""Regressions as ``.trellis`` files."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import trellis
from trellis import LogisticRegression, SoftmaxRegression
from trellis.errors import FormatError, InputError
from trellis.formats import native

X = np.random.default_rng(0).normal(size=(60, 4))
TWO = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
THREE = np.digitize(X[:, 2], [-0.5, 0.5])


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (LogisticRegression(l2=0.3), TWO),
        (LogisticRegression(fit_intercept=False, solver="newton"), TWO),
        (SoftmaxRegression(l1=0.2), THREE),
        (SoftmaxRegression(), TWO),
    ],
)
def test_a_loaded_model_equals_the_saved_one(model, y, tmp_path: Path) -> None:
    path = tmp_path / "model.trellis"
    model.fit(X, y).save(path)
    again = trellis.load(path)
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.classes_, model.classes_)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.objective_ == model.objective_


def test_models_that_cannot_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "model.trellis"
    with pytest.raises(NotFittedError):
        LogisticRegression().save(path)
    joint = SoftmaxRegression(features=lambda x, y: [f"{x}{y}"]).fit(["a", "b"], ["A", "B"])
    with pytest.raises(InputError, match="function"):
        joint.save(path)
    assert not path.exists()


@pytest.mark.parametrize(
    "forged",
    [
        {"coef": np.ones((2, 4))},
        {"coef": np.ones((1, 4), dtype=np.float32)},
        {"coef": np.full((1, 4), np.nan)},
        {"intercept": np.ones(2)},
    ],
)
def test_forged_files(forged, tmp_path: Path) -> None:
    path = tmp_path / "model.trellis"
    LogisticRegression().fit(X, TWO).save(path)
    kind, meta, tensors, _ = native.read(path)
    native.write(path, kind, meta, {k: np.array(v) for k, v in (tensors | forged).items()})
    with pytest.raises(FormatError, match=r"model\.trellis"):
        trellis.load(path)
