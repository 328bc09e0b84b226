"""A corpus to train on from the command line, and what the library makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import trellis
from trellis.app.cli.main import run_command
from trellis.data import conll, samples

X, Y = samples.load("train", "music")
DEV = samples.load("test", "music")
KNOWN = {label for own in Y for label in own}
DEV_X = [x for x, y in zip(*DEV, strict=True) if KNOWN.issuperset(y)]
DEV_Y = [y for y in DEV[1] if KNOWN.issuperset(y)]
FEW = 8
DEFAULTS = {"scoring": "span_f1", "random_state": 0}


def write(folder: Path) -> None:
    conll.write(folder / "train.conll", X, Y)
    conll.write(folder / "dev.conll", DEV_X, DEV_Y)


def same_weights(path: Path, model: Any) -> Any:
    """The model of a file, which must have learnt what this one did."""
    found = trellis.load(path)
    assert type(found) is type(model)
    assert found.classes_.tolist() == model.classes_.tolist()
    assert found.features_.names() == model.features_.names()
    np.testing.assert_array_equal(found.coef_, model.coef_)
    assert found.losses_ == model.losses_
    assert found.dev_scores_ == model.dev_scores_
    assert (found.n_iter_, found.converged_) == (model.n_iter_, model.converged_)
    return found


def trained_on(times: int, folder: Path, *options: str) -> Path:
    """A folder with the samples, some times over, and the model of them."""
    sequences, labels = samples.load("train")
    conll.write(folder / "train.conll", sequences * times, labels * times)
    paths = [str(folder / "train.conll"), "-o", str(folder / "whole.trellis")]
    assert run_command(["train", *paths, "-q", *options]) == 0
    return folder
