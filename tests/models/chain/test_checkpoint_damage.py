"""Checkpoints of other runs and damaged or forged checkpoints raise errors that name the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import DEV_X, DEV_Y, X, Y, fit_uninterrupted, fit_until, make_model

from trellis.errors import FormatError, InputError
from trellis.formats import native
from trellis.models.chain.checkpoint import Checkpoint

# ---- checkpoints of other runs


def make_checkpoint(name: str, path: Path, last: int = 3) -> Checkpoint:
    fit_until(make_model(name), Checkpoint(path), last)
    return Checkpoint(path, resume=True)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"l2": 2.0}, r"l2='auto', but this run has l2=2\.0"),
        ({"l1": 1.0}, r"l1=0\.0, but this run has l1=1\.0"),
        ({"solver": "gradient"}, "solver='lbfgs', but this run has solver='gradient'"),
        ({"solver": "arow"}, "solver='lbfgs', but this run has solver='arow'"),
        ({"constraints": "BIO"}, "constraints=None, but this run has constraints='BIO'"),
        ({"transitions": "seen"}, "transitions='all', but this run has transitions='seen'"),
        ({"solver_options": {"memory": 3}}, "solver_options"),
        ({"min_count": 2}, "min_count"),
        ({"label_weight": {"O": 2.0}}, "label_weight"),
    ],
)
def test_other_parameters(tmp_path: Path, other: dict[str, Any], what: str) -> None:
    checkpoint = make_checkpoint("lbfgs", tmp_path / "run.checkpoint")
    original = checkpoint.path.read_bytes()
    with pytest.raises(InputError, match=f"run.checkpoint was saved with .*{what}"):
        make_model("lbfgs", **other).fit(X, Y, checkpoint=checkpoint)
    assert checkpoint.path.read_bytes() == original


def test_other_data(tmp_path: Path) -> None:
    checkpoint = make_checkpoint("lbfgs", tmp_path / "run.checkpoint")
    swapped = [*Y[:-1], [("O" if label != "O" else "B-genre") for label in Y[-1]]]
    cut = [*X[:-1], [*X[-1][:-1], "another"]]
    for data in ((X, swapped), (cut, Y), (X[:-1], Y[:-1]), (X[::-1], Y[::-1]), (X + X, Y + Y)):
        with pytest.raises(
            InputError, match=r"run\.checkpoint was saved with different training data"
        ):
            make_model("lbfgs").fit(*data, checkpoint=checkpoint)
    with pytest.raises(InputError, match="different training data or features"):
        make_model("lbfgs", features=lambda x: [["bias", word] for word in x]).fit(
            X, Y, checkpoint=checkpoint
        )


def test_a_memm_cannot_resume_a_crf(tmp_path: Path) -> None:
    checkpoint = make_checkpoint("lbfgs", tmp_path / "run.checkpoint")
    with pytest.raises(InputError, match=r"run\.checkpoint"):
        make_model("memm").fit(X, Y, checkpoint=checkpoint)


def test_a_failed_resume_leaves_the_earlier_fit_unchanged(tmp_path: Path) -> None:
    checkpoint = make_checkpoint("lbfgs", tmp_path / "run.checkpoint")
    model = make_model("lbfgs", l2=7.0).fit(X[:10], Y[:10])
    weights = model.coef_.copy()
    with pytest.raises(InputError):
        model.fit(X, Y, checkpoint=checkpoint)
    np.testing.assert_array_equal(model.coef_, weights)


def test_damaged_files(tmp_path: Path) -> None:
    checkpoint = make_checkpoint("lbfgs", tmp_path / "run.checkpoint")
    intact = checkpoint.path.read_bytes()
    for offset in (0, 9, 100, len(intact) // 2, len(intact) - 1):
        flipped = bytearray(intact)
        flipped[offset] ^= 1
        for data in (flipped, intact[:offset]):
            checkpoint.path.write_bytes(data)
            with pytest.raises(FormatError, match=r"run\.checkpoint"):
                make_model("lbfgs").fit(X, Y, checkpoint=checkpoint)
            with pytest.raises(FormatError, match=r"run\.checkpoint"):
                checkpoint.parameters()


def test_a_model_file_is_not_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    fit_uninterrupted("lbfgs").save(path)
    with pytest.raises(FormatError, match=r"run\.checkpoint"):
        make_model("lbfgs").fit(X, Y, checkpoint=Checkpoint(path, resume=True))


def forgeries(array: Any) -> dict[str, Any]:
    """Return arrays with a wrong shape, dtype or content, to replace a saved one."""
    replacement = {
        "longer": np.concatenate([array, array]),
        "flat": array.reshape(-1)[:0],
        "bytes": np.frombuffer(b"abcdefgh", np.uint8),
    }
    if array.dtype == np.float64 and array.size:
        for name, value in (("nan", np.nan), ("infinite", np.inf)):
            replacement[name] = array.copy()
            replacement[name].reshape(-1)[-1] = value
    if array.dtype != np.float64:
        replacement["huge"] = np.full_like(array, np.iinfo(array.dtype).max)
        replacement["other"] = array.astype(np.float64) + 0.5
        if array.dtype == np.int64:
            replacement["negative"] = np.full_like(array, -1)
    replacement["deeper"] = array[None]
    return replacement


@pytest.mark.parametrize("name", ["lbfgs", "gradient", "sgd", "perceptron", "arow"])
def test_forged_files(tmp_path: Path, name: str) -> None:
    """Invalid arrays under a correct checksum: fit runs, or the error names the file."""
    fit: dict[str, Any] = {"dev": (DEV_X, DEV_Y)}
    path = tmp_path / "run.checkpoint"
    fit_until(make_model(name), Checkpoint(path), 3, **fit)
    _, meta, tensors = native.read(path)[:3]
    arrays = {key: np.array(value) for key, value in tensors.items()}
    problems = []
    cases = [(f"without {key}", {k: v for k, v in arrays.items() if k != key}) for key in arrays]
    cases += [
        (f"{key} {damage}", arrays | {key: replacement})
        for key, array in arrays.items()
        for damage, replacement in forgeries(array).items()
    ]
    for case, forged in cases:
        native.write(path, "checkpoint", meta, forged)
        try:
            model = make_model(name, max_iter=5).fit(
                X, Y, checkpoint=Checkpoint(path, resume=True), **fit
            )
        except (FormatError, InputError) as error:
            if "run.checkpoint" not in str(error):
                problems.append(f"{case}: does not name the file: {error}")
        except Exception as error:
            problems.append(f"{case}: {type(error).__name__}: {error}")
        else:
            if not np.isfinite(model.coef_).all():
                problems.append(f"{case}: weights that are not finite")
            if case.startswith("without state") or "nan" in case or "infinite" in case:
                problems.append(f"{case}: accepted")
    assert not problems, "\n".join(problems)


def test_forged_headers(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    fit_until(make_model("lbfgs"), Checkpoint(path), 3)
    _, meta, tensors = native.read(path)[:3]
    arrays = {key: np.array(value) for key, value in tensors.items()}
    for change in (
        {"parameters": None},
        {"parameters": []},
        {"parameters": "l2"},
        {"parameters": {"l2": 1.0}},
        {"data": None},
        {"since_best": None},
        {"since_best": "many"},
        {"since_best": [1]},
    ):
        native.write(path, "checkpoint", {**meta, **change}, arrays)
        with pytest.raises((FormatError, InputError), match=r"run\.checkpoint"):
            make_model("lbfgs").fit(X, Y, checkpoint=Checkpoint(path, resume=True))
    for name in meta:
        native.write(path, "checkpoint", {k: v for k, v in meta.items() if k != name}, arrays)
        with pytest.raises((FormatError, InputError), match=r"run\.checkpoint"):
            make_model("lbfgs").fit(X, Y, checkpoint=Checkpoint(path, resume=True))


def test_parameters_of_the_run_to_resume(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    fit_until(make_model("lbfgs with l1", l2=0.25), Checkpoint(path), 2)
    assert Checkpoint(path).parameters() == {}
    parameters = Checkpoint(path, resume=True).parameters()
    assert (float(parameters["l1"]), float(parameters["l2"])) == (0.4, 0.25)


@pytest.mark.parametrize("every", [0, -1, 1.5, "1", float("nan")])
def test_invalid_numbers_of_iterations(tmp_path: Path, every: Any) -> None:
    with pytest.raises(InputError, match="every"):
        Checkpoint(tmp_path / "run.checkpoint", every=every)


@pytest.mark.parametrize("value", ["run.checkpoint", Path("run.checkpoint"), object()])
def test_values_that_are_not_checkpoints(value: Any) -> None:
    with pytest.raises(InputError, match="checkpoint must be a Checkpoint"):
        make_model("lbfgs").fit(X, Y, checkpoint=value)


def test_a_path_may_be_a_string(tmp_path: Path) -> None:
    checkpoint = Checkpoint(os.fspath(tmp_path / "run.checkpoint"))
    make_model("lbfgs", max_iter=2).fit(X, Y, checkpoint=checkpoint)
    assert checkpoint.path == tmp_path / "run.checkpoint"


def test_best_weights_of_another_size_or_type(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    fit_until(make_model("lbfgs", early_stopping=2), Checkpoint(path), 3, dev=(DEV_X, DEV_Y))
    _, meta, tensors = native.read(path)[:3]
    arrays = {key: np.array(value) for key, value in tensors.items()}
    size = len(arrays["best_w"])
    for best_w in (np.zeros(size - 1), np.zeros(size, np.float32), np.zeros((size, 1))):
        native.write(path, "checkpoint", meta, {**arrays, "best_w": best_w})
        with pytest.raises(FormatError, match=f"best_w must be an array of {size} float64 numbers"):
            make_model("lbfgs", early_stopping=2).fit(
                X, Y, dev=(DEV_X, DEV_Y), checkpoint=Checkpoint(path, resume=True)
            )
