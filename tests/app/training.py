"""A corpus for tests of `trellis train`, and comparison with the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import trellis
from trellis.app.cli.main import run_command
from trellis.data import conll, samples

X, Y = samples.load("train", "music")
DEV = samples.load("test", "music")
KNOWN = {label for labels in Y for label in labels}
DEV_X = [x for x, y in zip(*DEV, strict=True) if KNOWN.issuperset(y)]
DEV_Y = [y for y in DEV[1] if KNOWN.issuperset(y)]
FEW = 8
DEFAULTS = {"scoring": "span_f1", "random_state": 0}


def write(folder: Path) -> None:
    conll.write(folder / "train.conll", X, Y)
    conll.write(folder / "dev.conll", DEV_X, DEV_Y)


def same_weights(path: Path, model: Any) -> Any:
    """Load a model and check that it has the same weights as ``model``."""
    loaded = trellis.load(path)
    assert type(loaded) is type(model)
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.features_.names() == model.features_.names()
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert loaded.losses_ == model.losses_
    assert loaded.dev_scores_ == model.dev_scores_
    assert (loaded.n_iter_, loaded.converged_) == (model.n_iter_, model.converged_)
    return loaded


def trained_on(times: int, folder: Path, *options: str) -> Path:
    """Train on the samples, repeated ``times`` times, and return the folder of the model."""
    sequences, labels = samples.load("train")
    conll.write(folder / "train.conll", sequences * times, labels * times)
    paths = [str(folder / "train.conll"), "-o", str(folder / "complete.trellis")]
    assert run_command(["train", *paths, "-q", *options]) == 0
    return folder
