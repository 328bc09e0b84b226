"""The replacement of pycrfsuite: training, compared with python-crfsuite in a new process.

The original shuffles with C's rand(), so its online algorithms are reproducible only in a new
process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trellis.compat.pycrfsuite import ItemSequence, Tagger, Trainer, online
from trellis.compat.pycrfsuite.shuffle import CRand

THEIRS = """
import json, sys
import pycrfsuite
assert not pycrfsuite.__name__.startswith("trellis")
settings = json.load(sys.stdin)
trainer = pycrfsuite.Trainer(settings["algorithm"], settings["params"], verbose=False)
for x, y, group in settings["data"]:
    trainer.append(x, y, group)
trainer.train(settings["path"], holdout=settings["holdout"])
json.dump(trainer.logparser.log, sys.stdout)
"""


def data(seed: int = 0, sequences: int = 30, values: bool = False) -> list[Any]:
    """Return (items, labels, group) of sequences with a pattern and noise, in five groups."""
    rng, examples = np.random.default_rng(seed), []
    for i in range(sequences):
        labels = [str("BIO"[int(rng.integers(3))]) for _ in range(int(rng.integers(1, 9)))]
        x: list[Any] = []
        for label in labels:
            hint = label if rng.random() < 0.8 else "BIO"[int(rng.integers(3))]
            item = {"hint": hint, "w": f"{rng.integers(20)}", "bias": True}
            if values:
                item |= {"size": float(rng.normal()), "none": 0.0}
            x.append(item)
        examples.append((x, labels, i % 5))
    return examples


def train_both(
    tmp_path: Path, algorithm: str, params: Any, examples: list[Any], holdout: int
) -> tuple[Any, Any]:
    """Train with trellis and with the original; return both logs and both models."""
    pytest.importorskip("pycrfsuite")
    trainer = Trainer(algorithm, params, verbose=False)
    for x, y, group in examples:
        trainer.append(x, y, group)
    trainer.train(str(tmp_path / "ours"), holdout=holdout)
    settings = {"algorithm": algorithm, "params": params, "data": examples, "holdout": holdout}
    settings["path"] = str(tmp_path / "theirs")
    done = subprocess.run(
        [sys.executable, "-c", THEIRS],
        input=json.dumps(settings),
        capture_output=True,
        text=True,
        check=True,
    )
    models = []
    for name in ("ours", "theirs"):
        tagger = Tagger()
        tagger.open(str(tmp_path / name))
        models.append(tagger.info())
    assert trainer.logparser is not None
    return (trainer.logparser.log, json.loads(done.stdout)), models


def without_times(log: list[str]) -> list[str]:
    return [re.sub(r"(econds required.*: )[0-9.]+", r"\1", line) for line in log]


def assert_similar(models: Any, tolerance: float) -> None:
    """Compare the weights of two models."""
    ours, theirs = models
    assert list(ours.labels) == list(theirs.labels)
    assert list(ours.attributes) == list(theirs.attributes)
    for kind in ("state_features", "transitions"):
        a, b = getattr(ours, kind), getattr(theirs, kind)
        assert a.keys() == b.keys()
        for key, value in a.items():
            assert value == pytest.approx(b[key], abs=tolerance), key


@pytest.mark.parametrize("holdout", [-1, 2])
@pytest.mark.parametrize(
    ("algorithm", "params"),
    [
        ("lbfgs", {"c2": 0.3, "max_iterations": 12}),
        ("ap", {"max_iterations": 5}),
        ("pa", {"max_iterations": 5}),
        ("pa", {"max_iterations": 5, "type": 2, "c": 0.4, "averaging": 0, "error_sensitive": 0}),
        ("pa", {"max_iterations": 4, "type": 0, "epsilon": 0.5}),
        ("arow", {"max_iterations": 5, "variance": 0.5, "gamma": 2}),
        ("l2sgd", {"max_iterations": 14, "c2": 0.5, "calibration.samples": 7}),
        # no feature is left: the losses count the wrong labels of a model without weights
        ("ap", {"max_iterations": 3, "feature.minfreq": 100}),
        ("pa", {"max_iterations": 3, "feature.minfreq": 100}),
        ("arow", {"max_iterations": 3, "feature.minfreq": 100}),
        ("l2sgd", {"max_iterations": 3, "feature.minfreq": 100}),
    ],
)
def test_same_messages_and_weights(
    tmp_path: Path, algorithm: str, params: Any, holdout: int
) -> None:
    logs, models = train_both(tmp_path, algorithm, params, data(), holdout)
    assert without_times(logs[0]) == without_times(logs[1])
    assert_similar(models, 1.5e-6)


@pytest.mark.parametrize(
    "params",
    [
        {"c2": 0.1},
        {"c2": 0.1, "linesearch": "Backtracking"},
        {"c1": 0.5, "c2": 0.1},
        {"feature.minfreq": 2},
        {"feature.possible_states": 1, "feature.possible_transitions": 1},
        {"feature.possible_states": 1, "feature.possible_transitions": 1, "feature.minfreq": 3},
        {"feature.minfreq": -1.0},
    ],
)
def test_same_features_and_optimum(tmp_path: Path, params: Any) -> None:
    logs, models = train_both(tmp_path, "lbfgs", params, data(1, values=True), -1)
    counts = [[line for line in log if "Number of features" in line] for log in logs]
    assert counts[0] == counts[1]
    assert_similar(models, 2e-3 if "c1" in params else 2e-4)


@pytest.mark.parametrize("algorithm", ["lbfgs", "ap", "pa", "arow"])
def test_training_without_data(tmp_path: Path, algorithm: str) -> None:
    logs, models = train_both(tmp_path, algorithm, {}, [], -1)
    assert without_times(logs[0]) == without_times(logs[1])
    assert_similar(models, 0)


def test_rand() -> None:
    """Compare with the first numbers of glibc's rand() without a seed."""
    random = CRand()
    assert [next(random) for _ in range(5)] == [
        1804289383,
        846930886,
        1681692777,
        1714636915,
        1957747793,
    ]


def test_same_parameters_as_the_original() -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    for name in ("lbfgs", "l2sgd", "ap", "pa", "arow"):
        ours, theirs = Trainer(name).get_params(), pycrfsuite.Trainer(name).get_params()
        assert list(ours.items()) == list(theirs.items())
        assert [type(v) for v in ours.values()] == [type(v) for v in theirs.values()]
    for parameter in Trainer("lbfgs").params():
        assert Trainer("lbfgs").help(parameter)


def test_invalid_parameters() -> None:
    trainer = Trainer(verbose=False)
    with pytest.raises(ValueError, match="algorithm='foo'"):
        trainer.select("foo")
    with pytest.raises(ValueError, match="type='crf2d'"):
        trainer.select("lbfgs", "crf2d")
    with pytest.raises(ValueError, match="not found: foo"):
        trainer.set("foo", 1)
    with pytest.raises(ValueError, match="c2 must be a number, not 'x'"):
        trainer.set("c2", "x")
    with pytest.raises(ValueError, match="not found: c9"):
        trainer.help("c9")
    trainer.set("max_iterations", "10")
    assert trainer.get("max_iterations") == 10


def test_invalid_data(tmp_path: Path) -> None:
    trainer = Trainer(verbose=False)
    with pytest.raises(ValueError, match=r"\|x\| = 1, \|y\| = 2"):
        trainer.append([["a"]], ["x", "y"])
    with pytest.raises(TypeError, match="label must be a str, not 1"):
        trainer.append([["a"]], [1])
    with pytest.raises(ValueError, match="position 0"):
        trainer.append(["a"], ["x"])
    trainer.append([["a\0b"]], ["x"])
    with pytest.raises(ValueError, match="NUL"):
        trainer.train(str(tmp_path / "m"))
    trainer.clear()
    trainer.append([], [])
    trainer.append(ItemSequence([["a"], ["b"]]), ["x", b"y"])
    trainer.train("")
    assert not [*tmp_path.iterdir()]
    trainer.train(str(tmp_path / "m"))
    with Tagger().open(str(tmp_path / "m")) as tagger:
        assert tagger.tag([["a"], ["b"]]) == ["x", "y"]


def test_messages_are_printed(tmp_path: Path, capsys: Any) -> None:
    trainer = Trainer("ap", {"max_iterations": 2})
    trainer.append([["a"], ["b"]], ["x", "y"], 0)
    trainer.append([["a"]], ["x"], 1)
    trainer.train(str(tmp_path / "m"), holdout=1)
    printed = capsys.readouterr().out
    assert "0....1....2....3" in printed
    assert "***** Iteration #2 *****" in printed
    assert "Item accuracy: 1 / 1 (1.0000)" in printed
    assert trainer.logparser is not None
    last = trainer.logparser.last_iteration
    assert last is not None
    assert last["num"] == 2
    assert last["scores"]["y"].precision is None
    assert last["item_accuracy_float"] == 1.0


def test_a_loss_of_exactly_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only AROW stops if the mean loss is equal to epsilon."""
    sent: list[str] = []
    parameters = {"epsilon": 0.5, "max_iterations": 3}
    task: Any = SimpleNamespace(
        parameters=parameters,
        train=SimpleNamespace(lengths=[1, 1]),
        layout=SimpleNamespace(size=1),
        send=sent.append,
        evaluate=lambda w: None,
        send_end=lambda started: None,
    )
    epoch = online._Epoch(1.0, np.ones(1), np.ones(1))
    for epsilon, strict, epochs in ((0.5, True, 3), (0.5, False, 1), (0.51, True, 1)):
        parameters["epsilon"] = epsilon
        online._run_epochs(task, lambda: epoch, strict=strict)
        assert sum("Iteration #" in text for text in sent) == epochs
        sent.clear()
    rules: list[bool] = []
    monkeypatch.setattr(online, "_run_epochs", lambda *_, strict: rules.append(strict))
    monkeypatch.setattr(online, "_create_learner", lambda task: (None,) * 4)
    task.send_parameters = lambda *_: None
    parameters |= {"type": 1, "variance": 1.0}
    for train in (online.train_perceptron, online.train_passive_aggressive, online.train_arow):
        train(task)
    assert rules == [True, True, False]
