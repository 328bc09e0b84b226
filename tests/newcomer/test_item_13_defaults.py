"""Item 13: the default l2 is chosen from the size of the data, and --tune is fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis
from trellis import CRF, MEMM
from trellis.app.cli.main import run_command
from trellis.app.training import penalty_path, tuning
from trellis.app.training.penalty_path import PenaltyPath, read_path_data
from trellis.app.training.tuning import search, select_l2, split_folds
from trellis.data import conll, samples
from trellis.errors import FormatError, InputError
from trellis.formats import native
from trellis.models.chain.labels import count_known, encode
from trellis.models.chain.parameters import automatic_l2, choose_l2

X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"], ["a", "dog", "naps"]]
Y = [["DET", "NOUN", "VERB"]] * 4


# ---- the formula


def test_the_strength_grows_with_tokens_and_falls_with_labels() -> None:
    assert automatic_l2(300_000, 10) == 0.2
    assert automatic_l2(300_000, 20) == 0.1
    assert automatic_l2(123_456, 7) == 0.1176


def test_the_strength_has_limits() -> None:
    assert automatic_l2(3_000 * 4, 4) == automatic_l2(1, 4) == automatic_l2(0, 1) == 0.02
    assert automatic_l2(3_030, 1) == 0.0202
    assert automatic_l2(150_000, 1) == automatic_l2(10**9, 2) == 1.0
    assert automatic_l2(148_500, 1) == 0.99


def test_only_positions_that_restrict_their_label_count() -> None:
    lengths = np.array([3, 2])
    known = encode([["A", "B", "A"], ["B", "B"]], lengths)
    assert count_known(known, lengths, None) == 5
    assert count_known(known, lengths, np.array([2.0, 0.5])) == 7
    partial = encode([["A", None, {"A", "B"}], [{"B", "C"}, "C"]], lengths)
    assert count_known(partial, lengths, None) == 4
    assert count_known(partial, lengths, np.array([1.0, 10.0])) == 22


def test_an_explicit_strength_is_used_unchanged() -> None:
    labels = encode(Y, np.array([3] * 4))
    assert choose_l2(0.7, labels, np.array([3] * 4), None) == 0.7
    assert choose_l2(0, labels, np.array([3] * 4), None) == 0.0
    assert choose_l2("auto", labels, np.array([3] * 4), None) == 0.02


@pytest.mark.parametrize("cls", [CRF, MEMM])
def test_the_default_is_automatic(cls: Any) -> None:
    assert cls().l2 == "auto"
    model, explicit = cls().fit(X, Y), cls(l2=0.02).fit(X, Y)
    assert (model.l2, model.l2_, explicit.l2_) == ("auto", 0.02, 0.02)
    assert np.array_equal(model.coef_, explicit.coef_)
    assert model.describe().settings == {"solver": "lbfgs, l2 = 0.02"}


def test_sample_weights_count_as_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trellis.models.chain.parameters.TOKENS_PER_LABEL", 10)
    repeated, weighted = CRF().fit(X * 2, Y * 2), CRF().fit(X, Y, [2] * 4)
    assert repeated.l2_ == weighted.l2_ == 0.8
    assert CRF().fit(X, Y).l2_ == 0.4


@pytest.mark.parametrize("wrong", ["Auto", "", None, -1.0, float("nan"), [1], np.array([1.0, 2.0])])
def test_other_values_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="l2 must be"):
        CRF(l2=wrong).fit(X, Y)


def test_the_chosen_strength_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "model.trellis"
    CRF().fit(X, Y).save(path)
    loaded = trellis.load(path)
    assert (loaded.l2, loaded.l2_) == ("auto", 0.02)
    CRF(l2=0.5).fit(X, Y).save(path)
    assert (trellis.load(path).l2_, native.read(path).meta["training"].get("l2")) == (0.5, None)


@pytest.mark.parametrize("wrong", [-1, "x", None, "auto"])
def test_a_file_with_a_wrong_strength_is_refused(tmp_path: Path, wrong: Any) -> None:
    path = tmp_path / "model.trellis"
    model = CRF().fit(X, Y)
    meta, tensors = model.to_parts()
    native.write(path, "crf", {**meta, "training": {**meta["training"], "l2": wrong}}, tensors)
    with pytest.raises(FormatError, match="l2 must be"):
        trellis.load(path)


# ---- the path of penalties


def test_a_path_gives_the_models_of_single_trainings() -> None:
    X, y = samples.generate("train", "calendar")
    X, y = X[:120], y[:120]
    model = CRF(solver_options={"delta": 0.0, "epsilon": 1e-6})
    path = PenaltyPath(model, read_path_data(model, X, y), range(80), range(80, 120))
    for l2 in (1.0, 0.1):
        path.move(l1=0.0, l2=l2)
        single = CRF(l2=l2, solver_options=model.solver_options).fit(X[:80], y[:80])
        assert path.predict() == single.predict(X[80:])
    assert model.solver_options == {"delta": 0.0, "epsilon": 1e-6}


def test_a_path_starts_from_the_last_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[Any] = []
    solve = penalty_path.solve

    def record(model: Any, problem: Any, w0: Any, *rest: Any) -> Any:
        starts.append((w0.copy(), problem.l1, problem.l2, model.solver_options))
        return solve(model, problem, w0, *rest)

    monkeypatch.setattr(penalty_path, "solve", record)
    path = PenaltyPath(CRF(), read_path_data(CRF(), X, Y), [0, 1], [2])
    path.move(0.0, 1.0)
    weights = path.model.coef_.copy()
    path.move(0.5, 0.25)
    assert not starts[0][0].any()
    assert np.array_equal(starts[1][0], weights)
    assert [start[1:] for start in starts] == [
        (0.0, 1.0, {"delta": 1e-3}),
        (0.5, 0.25, {"delta": 1e-3}),
    ]


def test_features_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def words(x: list[str]) -> list[list[str]]:
        calls.append(1)
        return [[word] for word in x]

    trials = list(search(CRF(words), X, Y, 4, 0))
    assert len(trials) == 4
    assert len(calls) == len(X)  # of three folds and four values


def test_a_path_of_an_memm_and_of_edge_features() -> None:
    def words(x: list[str]) -> list[list[str]]:
        return [[word] for word in x]

    for model in (MEMM(), CRF(words, edge_features=words), CRF(solver="sgd")):
        data = read_path_data(model, X, Y)
        path = PenaltyPath(model, data, [0, 1, 3], [2])
        path.move(0.0, 0.1)
        assert path.predict() == [["DET", "NOUN", "VERB"]]


def test_unlabelled_sequences_can_be_held_out() -> None:
    data = read_path_data(CRF(), X[:2], Y[:2], X[2:])
    path = PenaltyPath(CRF(), data, [0, 1], [3, 2])
    path.move(0.0, 0.1)
    assert path.predict() == [["DET", "NOUN", "VERB"]] * 2
    assert len(data.labels.label) == 6


def test_an_error_of_the_constraints_names_the_sequence() -> None:
    with pytest.raises(trellis.errors.TrellisError, match="sequence 1"):
        read_path_data(CRF(constraints="BIO"), [["a"], ["b"]], [["B-X"], ["I-X"]])


# ---- the search


def test_the_values_of_a_search() -> None:
    assert select_l2(0.1, 1) == [0.1]
    assert select_l2(0.1, 2) == [0.3, 0.1]
    assert select_l2(0.1, 3) == [0.3, 0.1, 0.03333]
    assert select_l2(1.0, 8) == [27.0, 11.84, 5.196, 2.28, 1.0, 0.4387, 0.1925, 0.08443]
    assert select_l2(0.001, 5) == [0.009, 0.003, 0.001]


def test_each_sequence_is_held_out_once() -> None:
    splits = split_folds(10, seed=1)
    assert sorted(np.concatenate([held_out for _, held_out in splits])) == list(range(10))
    for train, held_out in splits:
        assert sorted([*train, *held_out]) == list(range(10))
        assert len(held_out) >= 3


def test_the_search_stops_without_improvement(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.5, 0.5, 0.6, 0.6, 0.6, 0.55, 0.9, 0.9])
    monkeypatch.setattr(tuning, "score", lambda *_: next(scores))
    trials = list(search(CRF(), X, Y, 8, 0, dev=(X, Y)))
    assert [trial.score for trial in trials] == [0.5, 0.5, 0.6, 0.6, 0.6, 0.55]


def test_a_search_on_a_development_set(capsys: pytest.CaptureFixture[str]) -> None:
    dev = [["the", "dog", "naps"]], [["DET", "NOUN", "OTHER"]]
    trials = list(search(CRF(), X, Y, 2, 0, dev))
    assert [(trial.l1, trial.l2, round(trial.score, 4)) for trial in trials] == [
        (0.0, 0.06, 0.6667),
        (0.0, 0.02, 0.6667),
    ]


def test_a_search_needs_a_penalty() -> None:
    with pytest.raises(InputError, match="--tune tries values around --l2, which must be above 0"):
        next(search(CRF(l2=0), X, Y, 2, 0))
    with pytest.raises(InputError, match="--tune cannot be used with solver arow"):
        next(search(CRF(solver="arow"), X, Y, 2, 0))
    with pytest.raises(InputError, match="--tune needs at least 3 sequences, the data have 2"):
        next(search(CRF(), X[:2], Y[:2], 2, 0))


def test_the_command_tunes_on_the_development_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    conll.write("train.conll", X, Y)
    assert run_command(["train", "train.conll", "--dev", "train.conll", "--tune", "2"]) == 0
    printed = capsys.readouterr().err
    assert "chosen by the development set: l1=0       l2=0.06    100.00" in printed
    assert trellis.load("model.trellis").l2 == 0.06
    assert run_command(["train", "train.conll"]) == 0
    assert trellis.load("model.trellis").l2 == "auto"
