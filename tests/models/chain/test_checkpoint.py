"""Interrupted training resumes with the same bits as an uninterrupted run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import (
    DEV_X,
    DEV_Y,
    MODELS,
    NEVER,
    X,
    Y,
    assert_same_bits,
    fit_uninterrupted,
    fit_until,
    make_model,
)

from trellis import CRF
from trellis.data import atomic
from trellis.errors import InputError
from trellis.formats import native
from trellis.models.chain.checkpoint import Checkpoint
from trellis.optim.result import Progress

# ---- the same bits


@pytest.mark.parametrize("name", MODELS)
def test_stopped_once(tmp_path: Path, name: str) -> None:
    expected = fit_uninterrupted(name)
    last = expected.n_iter_
    assert last > 3
    for stop in sorted({1, 2, last // 2, last - 1, last}):
        path = tmp_path / f"{stop}.checkpoint"
        first = make_model(name)
        checkpoint = Checkpoint(path, every=NEVER)
        assert fit_until(first, checkpoint, stop) == [*range(1, stop + 1)]
        assert first.losses_ == expected.losses_[:stop]
        if stop < last:
            assert checkpoint.iteration == stop
            assert path.exists()
        seen: list[int] = []
        second = make_model(name).fit(
            X,
            Y,
            callback=lambda p, seen=seen: seen.append(p.iteration),
            checkpoint=Checkpoint(path, every=NEVER, resume=True),
        )
        assert_same_bits(second, expected)
        if path.exists():
            assert seen == [*range(stop + 1, last + 1)]


@pytest.mark.parametrize("name", MODELS)
def test_stopped_after_each_iteration(tmp_path: Path, name: str) -> None:
    expected = fit_uninterrupted(name)
    path = tmp_path / "run.checkpoint"
    for stop in range(1, 9):
        checkpoint = Checkpoint(path, every=NEVER, resume=True)
        model = make_model(name)
        seen = fit_until(model, checkpoint, stop)
        assert seen == ([stop] if stop <= expected.n_iter_ else [])
        assert model.losses_ == expected.losses_[:stop]
    assert_same_bits(make_model(name).fit(X, Y, checkpoint=Checkpoint(path, resume=True)), expected)


@pytest.mark.parametrize("name", MODELS)
def test_a_crash_resumes_from_the_last_save(tmp_path: Path, name: str) -> None:
    """The callback raises an error; halt() is not called."""

    def crash(progress: Progress) -> None:
        if progress.iteration == 4:
            raise MemoryError

    for every in (1, 2, 3):
        path = tmp_path / f"{every}.checkpoint"
        with pytest.raises(MemoryError):
            make_model(name).fit(X, Y, callback=crash, checkpoint=Checkpoint(path, every=every))
        resumed = Checkpoint(path, resume=True)
        seen: list[int] = []
        model = make_model(name).fit(
            X, Y, callback=lambda p, seen=seen: seen.append(p.iteration), checkpoint=resumed
        )
        assert seen[0] == 3 // every * every + 1
        assert_same_bits(model, fit_uninterrupted(name))


@pytest.mark.parametrize("name", MODELS)
def test_saving_does_not_change_the_result(tmp_path: Path, name: str) -> None:
    for every in (1, None):
        checkpoint = Checkpoint(tmp_path / "run.checkpoint", every=every)
        assert_same_bits(make_model(name).fit(X, Y, checkpoint=checkpoint), fit_uninterrupted(name))
        assert 1 <= checkpoint.iteration <= fit_uninterrupted(name).n_iter_
        assert checkpoint.path.exists()
        checkpoint.remove()
        assert not checkpoint.path.exists()
        checkpoint.remove()


@pytest.mark.parametrize("name", MODELS)
def test_resuming_a_finished_run_changes_nothing(tmp_path: Path, name: str) -> None:
    """Resuming from the checkpoint of a finished run does not change the result."""
    path = tmp_path / "run.checkpoint"
    make_model(name).fit(X, Y, checkpoint=Checkpoint(path, every=1))
    assert_same_bits(
        make_model(name).fit(X, Y, checkpoint=Checkpoint(path, resume=True)),
        fit_uninterrupted(name),
    )
    assert_same_bits(
        make_model(name).fit(X, Y, checkpoint=Checkpoint(path, resume=True)),
        fit_uninterrupted(name),
    )


@pytest.mark.parametrize("name", ["lbfgs", "lbfgs with l1", "gradient", "arow", "memm"])
def test_max_iter_may_be_raised(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.checkpoint"
    make_model(name, max_iter=4).fit(X, Y, checkpoint=Checkpoint(path, every=1))
    longer = make_model(name, max_iter=7).fit(X, Y, checkpoint=Checkpoint(path, resume=True))
    assert_same_bits(longer, fit_uninterrupted(name, max_iter=7))


@pytest.mark.parametrize("name", MODELS)
def test_threads_and_seeds_may_change(tmp_path: Path, name: str) -> None:
    """The state replaces the seed, and the number of threads does not change the bits."""
    path = tmp_path / "run.checkpoint"
    fit_until(make_model(name, n_jobs=1), Checkpoint(path), 3)
    resumed = make_model(name, n_jobs=2, random_state=99)
    assert_same_bits(
        resumed.fit(X, Y, checkpoint=Checkpoint(path, resume=True)), fit_uninterrupted(name)
    )


def test_without_a_file_training_starts_from_the_beginning(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "run.checkpoint", resume=True, every=NEVER)
    assert checkpoint.parameters() == {}
    assert_same_bits(
        make_model("lbfgs").fit(X, Y, checkpoint=checkpoint), fit_uninterrupted("lbfgs")
    )
    assert not checkpoint.path.exists()


def test_without_resume_an_existing_file_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    path.write_bytes(b"rubbish")
    checkpoint = Checkpoint(path, every=5)
    assert_same_bits(
        make_model("lbfgs").fit(X, Y, checkpoint=checkpoint), fit_uninterrupted("lbfgs")
    )
    assert native.read(path, kind="checkpoint").meta["parameters"]["l2"] == "'auto'"


@pytest.mark.parametrize("name", ["lbfgs", "perceptron"])
def test_sample_weights(tmp_path: Path, name: str) -> None:
    weights = np.linspace(0.5, 2.0, len(X))
    expected = make_model(name).fit(X, Y, weights)
    path = tmp_path / "run.checkpoint"
    fit_until(make_model(name), Checkpoint(path), 3, sample_weight=weights)
    assert_same_bits(
        make_model(name).fit(X, Y, weights, checkpoint=Checkpoint(path, resume=True)), expected
    )
    with pytest.raises(InputError, match="different training data"):
        make_model(name).fit(X, Y, weights[::-1], checkpoint=Checkpoint(path, resume=True))
    with pytest.raises(InputError, match="different training data"):
        make_model(name).fit(X, Y, checkpoint=Checkpoint(path, resume=True))


def test_a_warm_start_can_be_resumed(tmp_path: Path) -> None:
    def warm() -> CRF:
        return make_model("lbfgs", warm_start=True, max_iter=6).fit(X[:20], Y[:20])

    expected = warm().fit(X, Y)
    path = tmp_path / "run.checkpoint"
    fit_until(warm(), Checkpoint(path), 3)
    assert_same_bits(warm().fit(X, Y, checkpoint=Checkpoint(path, resume=True)), expected)
    with pytest.raises(InputError, match="different training data"):
        make_model("lbfgs", max_iter=6).fit(X, Y, checkpoint=Checkpoint(path, resume=True))


# ---- development data and early stopping


@pytest.mark.parametrize("name", ["lbfgs with l1", "gradient", "perceptron"])
@pytest.mark.parametrize("every", [1, 3])
def test_dev_scores_are_resumed(tmp_path: Path, name: str, every: int) -> None:
    fit = {"dev": (DEV_X, DEV_Y), "dev_every": every}
    expected = fit_uninterrupted(name, **fit)
    assert [n for n, _ in expected.dev_scores_] == [*range(every, expected.n_iter_ + 1, every)]
    for stop in (1, 3, 4):
        path = tmp_path / f"{stop}.checkpoint"
        fit_until(make_model(name), Checkpoint(path), stop, **fit)
        assert_same_bits(
            make_model(name).fit(X, Y, checkpoint=Checkpoint(path, resume=True), **fit), expected
        )


@pytest.mark.parametrize(
    ("name", "patience", "every"),
    [
        ("lbfgs", 2, 1),
        ("lbfgs", 1, 2),
        ("lbfgs with l1", 2, 2),
        ("gradient", 2, 1),
        ("sgd", 2, 1),
        ("perceptron", 2, 1),
        ("passive-aggressive", 2, 1),
        ("arow", 1, 1),
        ("memm", 2, 1),
    ],
)
def test_early_stopping_is_resumed(tmp_path: Path, name: str, patience: int, every: int) -> None:
    """The run is interrupted before, at and after the best score, and between two scores."""
    fit = {"dev": (DEV_X, DEV_Y), "dev_every": every}
    parameters = {"early_stopping": patience, "scoring": "span_f1"}
    expected = fit_uninterrupted(name, **parameters, **fit)
    last, best = len(expected.losses_), expected.n_iter_
    assert expected.dev_scores_[-1][0] == last - last % every
    for stop in range(1, last + 1):
        path = tmp_path / f"{stop}.checkpoint"
        fit_until(make_model(name, **parameters), Checkpoint(path, every=NEVER), stop, **fit)
        resumed = make_model(name, **parameters)
        assert_same_bits(
            resumed.fit(X, Y, checkpoint=Checkpoint(path, resume=True), **fit), expected
        )
    assert 1 <= best <= last


@pytest.mark.parametrize("name", ["lbfgs", "arow"])
def test_dev_scores_that_only_fall(tmp_path: Path, name: str) -> None:
    """The best weights are older than the checkpoint; the run ends much later."""
    shuffled = [labels[::-1] for labels in DEV_Y]
    fit = {"dev": (DEV_X, shuffled), "dev_every": 1}
    parameters = {"early_stopping": 4}
    expected = make_model(name, **parameters).fit(X, Y, **fit)
    assert expected.n_iter_ < len(expected.losses_)
    for stop in range(1, len(expected.losses_) + 1):
        path = tmp_path / f"{stop}.checkpoint"
        fit_until(make_model(name, **parameters), Checkpoint(path), stop, **fit)
        resumed = make_model(name, **parameters).fit(
            X, Y, checkpoint=Checkpoint(path, resume=True), **fit
        )
        assert_same_bits(resumed, expected)


# ---- the file


def test_the_file_is_complete_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    seen: list[int] = []

    def check_file(progress: Progress) -> None:
        if progress.iteration > 1:
            contents = native.read(path, kind="checkpoint")
            seen.append(len(contents.tensors["losses"]))
        assert [p.name for p in tmp_path.iterdir()] == [path.name] * (progress.iteration > 1)

    make_model("lbfgs").fit(X, Y, callback=check_file, checkpoint=Checkpoint(path, every=1))
    assert seen == [*range(1, len(seen) + 1)]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised, the earlier checkpoint is unchanged, and there is no other file."""
    path = tmp_path / "run.checkpoint"
    calls: list[int] = []

    def fail_when_full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) >= 5:  # two calls per save: the file and its folder
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", fail_when_full)
    with pytest.raises(OSError, match="No space left"):
        make_model("lbfgs").fit(X, Y, checkpoint=Checkpoint(path, every=1))
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    resumed = Checkpoint(path, resume=True)
    assert native.read(path).tensors["losses"][-1, 0] == 2
    assert_same_bits(make_model("lbfgs").fit(X, Y, checkpoint=resumed), fit_uninterrupted("lbfgs"))


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises((OSError, InputError), match="nosuch"):
        make_model("lbfgs").fit(X, Y, checkpoint=Checkpoint(tmp_path / "nosuch" / "run.checkpoint"))


def test_without_every_saving_takes_a_twentieth_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trellis.models.chain import checkpoint as module

    now, times, write = 0.0, [], native.write

    def clock() -> float:
        return now

    def write_slowly(*arguments: Any) -> None:
        nonlocal now
        times.append(now)
        now += 1.0
        write(*arguments)

    def iterate(_progress: Progress) -> None:
        nonlocal now
        now += 2.0

    monkeypatch.setattr(module.time, "monotonic", clock)
    monkeypatch.setattr(native, "write", write_slowly)
    make_model("lbfgs").fit(X, Y, callback=iterate, checkpoint=Checkpoint(tmp_path / "c"))
    assert times[0] == 2.0
    assert all(after - before >= 20.0 for before, after in pairwise(times))
    assert 2 < len(times) <= 1 + now / 20
