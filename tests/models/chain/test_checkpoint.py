"""Training that stops and goes on: the same bits as without a stop; and what is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import DEV_X, DEV_Y, MODELS, NEVER, X, Y, made, same, stopped, whole

from trellis import CRF
from trellis.errors import InputError
from trellis.formats import atomic, native
from trellis.models.chain.checkpoint import Checkpoint
from trellis.optim.result import Progress

# ---- the same bits


@pytest.mark.parametrize("name", MODELS)
def test_stopped_once(tmp_path: Path, name: str) -> None:
    expected = whole(name)
    last = expected.n_iter_
    assert last > 3
    for at in sorted({1, 2, last // 2, last - 1, last}):
        path = tmp_path / f"{at}.checkpoint"
        first = made(name)
        checkpoint = Checkpoint(path, every=NEVER)
        assert stopped(first, checkpoint, at) == [*range(1, at + 1)]
        assert first.losses_ == expected.losses_[:at]
        if at < last:
            assert checkpoint.iteration == at
            assert path.exists()
        seen: list[int] = []
        second = made(name).fit(
            X,
            Y,
            callback=lambda p, seen=seen: seen.append(p.iteration),
            checkpoint=Checkpoint(path, every=NEVER, resume=True),
        )
        same(second, expected)
        if path.exists():
            assert seen == [*range(at + 1, last + 1)]


@pytest.mark.parametrize("name", MODELS)
def test_stopped_after_each_iteration(tmp_path: Path, name: str) -> None:
    expected = whole(name)
    path = tmp_path / "run.checkpoint"
    for at in range(1, 9):
        checkpoint = Checkpoint(path, every=NEVER, resume=True)
        model = made(name)
        seen = stopped(model, checkpoint, at)
        assert seen == ([at] if at <= expected.n_iter_ else [])
        assert model.losses_ == expected.losses_[:at]
    same(made(name).fit(X, Y, checkpoint=Checkpoint(path, resume=True)), expected)


@pytest.mark.parametrize("name", MODELS)
def test_a_crash_goes_back_to_the_last_state(tmp_path: Path, name: str) -> None:
    """An error at any moment, and not a halt that is asked for."""

    def crash(progress: Progress) -> None:
        if progress.iteration == 4:
            raise MemoryError

    for every in (1, 2, 3):
        path = tmp_path / f"{every}.checkpoint"
        with pytest.raises(MemoryError):
            made(name).fit(X, Y, callback=crash, checkpoint=Checkpoint(path, every=every))
        later = Checkpoint(path, resume=True)
        seen: list[int] = []
        model = made(name).fit(
            X, Y, callback=lambda p, seen=seen: seen.append(p.iteration), checkpoint=later
        )
        assert seen[0] == 3 // every * every + 1
        same(model, whole(name))


@pytest.mark.parametrize("name", MODELS)
def test_saving_changes_nothing(tmp_path: Path, name: str) -> None:
    for every in (1, None):
        checkpoint = Checkpoint(tmp_path / "run.checkpoint", every=every)
        same(made(name).fit(X, Y, checkpoint=checkpoint), whole(name))
        assert 1 <= checkpoint.iteration <= whole(name).n_iter_
        assert checkpoint.path.exists()
        checkpoint.remove()
        assert not checkpoint.path.exists()
        checkpoint.remove()


@pytest.mark.parametrize("name", MODELS)
def test_going_on_from_the_end_is_the_end(tmp_path: Path, name: str) -> None:
    """What is left in place when training ends is not harmful."""
    path = tmp_path / "run.checkpoint"
    made(name).fit(X, Y, checkpoint=Checkpoint(path, every=1))
    same(made(name).fit(X, Y, checkpoint=Checkpoint(path, resume=True)), whole(name))
    same(made(name).fit(X, Y, checkpoint=Checkpoint(path, resume=True)), whole(name))


@pytest.mark.parametrize("name", ["lbfgs", "lbfgs with l1", "gradient", "arow", "memm"])
def test_the_limit_may_be_raised(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.checkpoint"
    made(name, max_iter=4).fit(X, Y, checkpoint=Checkpoint(path, every=1))
    longer = made(name, max_iter=7).fit(X, Y, checkpoint=Checkpoint(path, resume=True))
    same(longer, whole(name, max_iter=7))


@pytest.mark.parametrize("name", MODELS)
def test_threads_and_seeds_may_change(tmp_path: Path, name: str) -> None:
    """The state says how to go on; the same bits come from any number of threads."""
    path = tmp_path / "run.checkpoint"
    stopped(made(name, n_jobs=1), Checkpoint(path), 3)
    later = made(name, n_jobs=2, random_state=99)
    same(later.fit(X, Y, checkpoint=Checkpoint(path, resume=True)), whole(name))


def test_without_a_file_training_begins(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "run.checkpoint", resume=True, every=NEVER)
    assert checkpoint.parameters() == {}
    same(made("lbfgs").fit(X, Y, checkpoint=checkpoint), whole("lbfgs"))
    assert not checkpoint.path.exists()


def test_without_resume_an_earlier_state_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    path.write_bytes(b"rubbish")
    checkpoint = Checkpoint(path, every=5)
    same(made("lbfgs").fit(X, Y, checkpoint=checkpoint), whole("lbfgs"))
    assert native.read(path, kind="checkpoint").meta["parameters"]["l2"] == "1.0"


@pytest.mark.parametrize("name", ["lbfgs", "perceptron"])
def test_with_weights_of_sequences(tmp_path: Path, name: str) -> None:
    weights = np.linspace(0.5, 2.0, len(X))
    expected = made(name).fit(X, Y, weights)
    path = tmp_path / "run.checkpoint"
    stopped(made(name), Checkpoint(path), 3, sample_weight=weights)
    same(made(name).fit(X, Y, weights, checkpoint=Checkpoint(path, resume=True)), expected)
    with pytest.raises(InputError, match="other training data"):
        made(name).fit(X, Y, weights[::-1], checkpoint=Checkpoint(path, resume=True))
    with pytest.raises(InputError, match="other training data"):
        made(name).fit(X, Y, checkpoint=Checkpoint(path, resume=True))


def test_a_warm_start_is_part_of_it(tmp_path: Path) -> None:
    def warm() -> CRF:
        return made("lbfgs", warm_start=True, max_iter=6).fit(X[:20], Y[:20])

    expected = warm().fit(X, Y)
    path = tmp_path / "run.checkpoint"
    stopped(warm(), Checkpoint(path), 3)
    same(warm().fit(X, Y, checkpoint=Checkpoint(path, resume=True)), expected)
    with pytest.raises(InputError, match="other training data"):
        made("lbfgs", max_iter=6).fit(X, Y, checkpoint=Checkpoint(path, resume=True))


# ---- development data and early stopping


@pytest.mark.parametrize("name", ["lbfgs with l1", "gradient", "perceptron"])
@pytest.mark.parametrize("every", [1, 3])
def test_scores_go_on(tmp_path: Path, name: str, every: int) -> None:
    fit = {"dev": (DEV_X, DEV_Y), "dev_every": every}
    expected = whole(name, **fit)
    assert [n for n, _ in expected.dev_scores_] == [*range(every, expected.n_iter_ + 1, every)]
    for at in (1, 3, 4):
        path = tmp_path / f"{at}.checkpoint"
        stopped(made(name), Checkpoint(path), at, **fit)
        same(made(name).fit(X, Y, checkpoint=Checkpoint(path, resume=True), **fit), expected)


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
def test_early_stopping_goes_on(tmp_path: Path, name: str, patience: int, every: int) -> None:
    """Stopped before and after the best score, at it, and between scores."""
    fit = {"dev": (DEV_X, DEV_Y), "dev_every": every}
    own = {"early_stopping": patience, "scoring": "span_f1"}
    expected = whole(name, **own, **fit)
    last, best = len(expected.losses_), expected.n_iter_
    assert expected.dev_scores_[-1][0] == last - last % every
    for at in range(1, last + 1):
        path = tmp_path / f"{at}.checkpoint"
        stopped(made(name, **own), Checkpoint(path, every=NEVER), at, **fit)
        later = made(name, **own)
        same(later.fit(X, Y, checkpoint=Checkpoint(path, resume=True), **fit), expected)
    assert 1 <= best <= last


@pytest.mark.parametrize("name", ["lbfgs", "arow"])
def test_a_score_that_falls_from_the_start(tmp_path: Path, name: str) -> None:
    """The best weights are from before the checkpoint, and the run ends long after it."""
    shuffled = [own[::-1] for own in DEV_Y]
    fit = {"dev": (DEV_X, shuffled), "dev_every": 1}
    own = {"early_stopping": 4}
    expected = made(name, **own).fit(X, Y, **fit)
    assert expected.n_iter_ < len(expected.losses_)
    for at in range(1, len(expected.losses_) + 1):
        path = tmp_path / f"{at}.checkpoint"
        stopped(made(name, **own), Checkpoint(path), at, **fit)
        later = made(name, **own).fit(X, Y, checkpoint=Checkpoint(path, resume=True), **fit)
        same(later, expected)


# ---- the file


def test_the_file_is_whole_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    seen: list[int] = []

    def look(progress: Progress) -> None:
        if progress.iteration > 1:
            contents = native.read(path, kind="checkpoint")
            seen.append(len(contents.tensors["losses"]))
        assert [p.name for p in tmp_path.iterdir()] == [path.name] * (progress.iteration > 1)

    made("lbfgs").fit(X, Y, callback=look, checkpoint=Checkpoint(path, every=1))
    assert seen == [*range(1, len(seen) + 1)]


def test_a_disk_that_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes out, the earlier state stays, and nothing else is left."""
    path = tmp_path / "run.checkpoint"
    done: list[int] = []

    def full(descriptor: int) -> None:
        done.append(descriptor)
        if len(done) >= 5:  # two for each state: the file, and its folder
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        made("lbfgs").fit(X, Y, checkpoint=Checkpoint(path, every=1))
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    later = Checkpoint(path, resume=True)
    assert native.read(path).tensors["losses"][-1, 0] == 2
    same(made("lbfgs").fit(X, Y, checkpoint=later), whole("lbfgs"))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises((OSError, InputError), match="nosuch"):
        made("lbfgs").fit(X, Y, checkpoint=Checkpoint(tmp_path / "nosuch" / "run.checkpoint"))


def test_without_a_number_saving_takes_little_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trellis.models.chain import checkpoint as module

    now, times, write = 0.0, [], native.write

    def clock() -> float:
        return now

    def slow(*arguments: Any) -> None:
        nonlocal now
        times.append(now)
        now += 1.0
        write(*arguments)

    def iterate(_progress: Progress) -> None:
        nonlocal now
        now += 2.0

    monkeypatch.setattr(module.time, "monotonic", clock)
    monkeypatch.setattr(native, "write", slow)
    made("lbfgs").fit(X, Y, callback=iterate, checkpoint=Checkpoint(tmp_path / "c"))
    assert times[0] == 2.0
    assert all(after - before >= 20.0 for before, after in pairwise(times))
    assert 2 < len(times) <= 1 + now / 20
