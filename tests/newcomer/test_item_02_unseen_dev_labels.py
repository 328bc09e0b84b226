"""Item 2: development and test data may have labels that training has not seen."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from commands import Ran

from trellis import CRF, MEMM
from trellis.errors import InputError, UnseenLabelWarning
from trellis.models.chain.labels import count_unseen

Run = Callable[..., Ran]
X = [["a", "b", "c"], ["b", "c"]] * 5
Y = [["O", "B-X", "I-X"], ["B-X", "O"]] * 5
DEV = X[:2], [["O", "B-Z", "I-Z"], ["B-Z", "O"]]
SEEN = "3 of 5 labels do not occur in the training data and count as errors: 'B-Z' (2), 'I-Z' (1)"
TRAIN_TEXT = "a\tO\nb\tB-X\nc\tI-X\n\nb\tB-X\nc\tO\n\n" * 5
DEV_TEXT = "a\tO\nb\tB-Z\nc\tI-Z\n\nb\tB-Z\nc\tO\n\n"


def neural_tagger() -> Any:
    pytest.importorskip("torch")
    from trellis import NeuralTagger

    return NeuralTagger(hidden=4, word_dim=4, epochs=1, random_state=0, device="cpu")


MODELS = {
    "crf": lambda: CRF(max_iter=3),
    "memm": lambda: MEMM(max_iter=3),
    "spans": lambda: CRF(max_iter=3, scoring="span_f1"),
    "early": lambda: CRF(max_iter=3, early_stopping=1),
    "neural": neural_tagger,
}


@pytest.fixture
def files(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text(TRAIN_TEXT)
    (tmp_path / "dev.conll").write_text(DEV_TEXT)


@pytest.mark.parametrize("name", MODELS)
def test_fit_warns_once_and_counts_them_as_errors(name: str) -> None:
    model = MODELS[name]()
    with pytest.warns(UnseenLabelWarning) as caught:
        model.fit(X, Y, dev=DEV)
    assert [str(warning.message) for warning in caught] == [f"dev: {SEEN}"]
    assert caught[0].filename == __file__
    last = model.dev_scores_[-1][1]
    predicted = model.predict(DEV[0])
    pairs = zip(chain.from_iterable(predicted), chain.from_iterable(DEV[1]), strict=True)
    assert last <= sum(label == true for label, true in pairs) / 5
    assert model.classes_.tolist() == ["B-X", "I-X", "O"]


def test_no_warning_without_unseen_labels() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CRF(max_iter=2).fit(X, Y, dev=(X[:1], [["O", "I-X", "O"]]))
    assert count_unseen([[None, {"Q"}, "O"]], ["O"]) == ({}, 1)


@pytest.mark.parametrize("name", ["spans", "neural"])
def test_a_label_outside_of_the_scheme_names_dev(name: str) -> None:
    dev = X[:2], [["O", "O", "O"], ["Q", "O"]]
    problem = "dev: .*sequence 1, position 0: 'Q' is not a tag of scheme BIO"
    with pytest.warns(UnseenLabelWarning), pytest.raises(InputError, match=problem):
        MODELS[name]().fit(X, Y, dev=dev)


@pytest.mark.parametrize("options", [[], ["-m", "memm"], ["-m", "perceptron"], ["neural"]])
def test_train_says_so_in_one_line(run: Run, files: None, options: list[str]) -> None:
    if options == ["neural"]:
        pytest.importorskip("torch")
        options = ["--model", "neural", "--epochs", "1", "--hidden", "4", "--device", "cpu"]
    else:
        options = [*options, "--max-iter", "3"]
    ran = run("train", "train.conll", "--dev", "dev.conll", *options)
    assert ran.code == 0, ran
    assert ran.err.count("do not occur") == 1
    assert f"trellis: warning: dev.conll, line 2: {SEEN}\n" in ran.err
    assert "dev span F1 " in ran.err
    assert run("train", "train.conll", "--dev", "dev.conll", *options, "-q").err == ""


def test_eval_and_report_say_so(run: Run, files: None) -> None:
    assert run("train", "train.conll", "-q").code == 0
    warning = f"trellis: warning: dev.conll, line 2: {SEEN}\n"
    ran = run("eval", "model.trellis", "dev.conll")
    assert (ran.code, ran.err) == (0, warning)
    assert "Z" in ran.out
    ran = run("eval", "model.trellis", "dev.conll", "--json")
    assert json.loads(ran.out)["unseen_labels"] == {"B-Z": 2, "I-Z": 1}
    assert (
        json.loads(run("eval", "model.trellis", "train.conll", "--json").out)["unseen_labels"] == {}
    )
    ran = run("report", "model.trellis", "dev.conll")
    assert ran.err.startswith(warning)
    assert run("report", "model.trellis", "dev.conll", "-q").err == ""


@pytest.mark.parametrize("command", ["train", "eval"])
def test_a_label_that_is_no_tag_names_the_line(
    run: Run, files: None, tmp_path: Path, command: str
) -> None:
    run("train", "train.conll", "-q")
    (tmp_path / "odd.conll").write_text("a\tO\nb\tB-X\n\nb\tQ\n")
    arguments = {
        "train": ["train.conll", "--dev", "odd.conll", "-o", "new.trellis"],
        "eval": ["model.trellis", "odd.conll"],
    }
    ran = run(command, *arguments[command])
    problem = "trellis: odd.conll, line 4: label 'Q' is not a tag of scheme BIO"
    assert ran.code == 1
    assert ran.err.startswith(problem)
    assert not (tmp_path / "new.trellis").exists()
    assert run("report", "model.trellis", "odd.conll").code == 0


def test_the_warning_names_a_few_labels() -> None:
    unseen = count_unseen([[f"L{n}" for n in range(9)] + ["L1"]], ["O"])
    names = "'L1' (2), 'L0' (1), 'L2' (1), 'L3' (1), 'L4' (1) and 4 more"
    assert str(unseen).endswith(f"count as errors: {names}")


def test_other_warnings_of_a_command_are_one_line(
    run: Run, files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trellis.models.chain.labels.MANY_LABELS", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        ran = run("train", "train.conll", "--max-iter", 1, "-q")
    assert ran.err.startswith("trellis: warning: y has 3 different labels")
    assert ran.err.count("\n") == 1
