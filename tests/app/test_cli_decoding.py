"""`trellis tag` and `eval` with --decode and thresholds write what the library predicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Ran

from trellis import CRF, metrics
from trellis.app.cli import evaluate, tag
from trellis.app.cli.declarations import UsageError
from trellis.app.decoding import predict_labels
from trellis.data import conll, samples, tags

Run = Callable[..., Ran]
X, Y = samples.load("test", "calendar")


def read_labels(out: str) -> Any:
    return conll.read(out.splitlines())[1]


@pytest.mark.parametrize("decode", ["viterbi", "marginal", "mbr"])
def test_decoders(run: Run, folder: Path, model: CRF, decode: str) -> None:
    expected = model.predict(X, decode=decode)
    ran = run("tag", "model.trellis", "test.conll", "--decode", decode)
    assert ran.code == 0, ran.err
    assert read_labels(ran.out) == expected
    output = json.loads(
        run("eval", "model.trellis", "test.conll", "--decode", decode, "--json").out
    )
    assert output["micro"]["f1"] == metrics.span_f1(Y, expected)
    assert output["accuracy"] == metrics.accuracy(Y, expected)
    assert "min_probability" not in output


def test_decoders_differ(model: CRF) -> None:
    assert model.predict(X, decode="mbr") != model.predict(X)


def test_thresholds(run: Run, folder: Path, model: CRF) -> None:
    precisions = []
    for limit in (0.2, 0.5, 0.9):
        spans = model.predict_spans(X, min_probability=limit)
        expected = [
            tags.from_spans([s[:3] for s in row], len(x)) for row, x in zip(spans, X, strict=True)
        ]
        assert predict_labels(model, X, "viterbi", limit) == expected
        ran = run("tag", "model.trellis", "test.conll", "--min-probability", limit)
        assert read_labels(ran.out) == expected
        arguments = ("eval", "model.trellis", "test.conll", "--min-probability", limit)
        output = json.loads(run(*arguments, "--json").out)
        assert output["min_probability"] == limit
        assert output["micro"]["f1"] == metrics.span_f1(Y, expected)
        precisions.append(output["micro"]["precision"])
        assert f"with a probability of at least {limit:.4f}" in run(*arguments).out
    assert precisions == sorted(precisions)
    assert precisions[0] < precisions[2]


def test_eval_chooses_a_threshold(run: Run, folder: Path, model: CRF) -> None:
    spans = model.predict_spans(X, min_probability=0.01)
    for option, value, keywords in (
        ("--min-precision", 0.97, {"min_precision": 0.97}),
        ("--best-f", 1, {"beta": 1.0}),
        ("--best-f", 3, {"beta": 3.0}),
    ):
        chosen = metrics.choose_threshold(Y, spans, **keywords)
        output = json.loads(run("eval", "model.trellis", "test.conll", option, value, "--json").out)
        assert output["min_probability"] == chosen.min_probability
        assert output["micro"]["precision"] == pytest.approx(chosen.precision)
        assert output["micro"]["recall"] == pytest.approx(chosen.recall)
    assert evaluate._LEAST_PROBABILITY == 0.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tag", "m", "--min-probability", "0.5", "--decode", "mbr"], "--decode or --marginals"),
        (["tag", "m", "--min-probability", "0.5", "--marginals"], "--decode or --marginals"),
        (["tag", "m", "--kbest", "2", "--decode", "mbr"], "--kbest cannot be used with --decode"),
        (["tag", "m", "--kbest", "2", "--min-probability", "0.5"], "--kbest cannot be used with"),
        (["eval", "m", "x", "--min-precision", "0.5", "--best-f", "1"], "use one of"),
        (["eval", "m", "x", "--min-probability", "0.5", "--best-f", "1"], "use one of"),
        (["eval", "m", "x", "--min-probability", "0.5", "--decode", "mbr"], "--decode cannot be"),
        (["eval", "m", "x", "--best-f", "1", "--decode", "marginal"], "--decode cannot be used"),
        (["tag", "m", "--min-probability", "1.5"], "less than or equal to 1"),
        (["eval", "m", "x", "--min-precision", "-1"], "greater than or equal to 0"),
    ],
)
def test_options_that_contradict_each_other(run: Run, arguments: Any, message: str) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert message in " ".join(ran.err.replace("│", " ").split())


def test_wrong_values(refused: Callable[..., str], folder: Path) -> None:
    for command in ("tag", "eval"):
        refused(command, "model.trellis", "test.conll", "--decode", "x", names=["--decode", "'x'"])
    refused(
        "tag", "model.trellis", "test.conll", "-u", "--decode", "mbr",
        names=["--decode mbr chooses the labels of many sequences together", "--min-probability"],
    )  # fmt: skip
    CRF(max_iter=2).fit([["a", "b"]], [["N", "V"]]).save(folder / "pos.trellis")
    (folder / "x.conll").write_text("a\tN\n\n")
    refused(
        "tag", "pos.trellis", "x.conll", "--min-probability", 0.5,
        names=["the model has no label O: --min-probability needs one"],
    )  # fmt: skip


def test_options_as_values() -> None:
    assert (
        tag.Options(Path("m")).decode == evaluate.Options(Path("m"), Path("x")).decode == "viterbi"
    )
    with pytest.raises(UsageError):
        tag.Options(Path("m"), min_probability=0.0, decode="mbr")
    with pytest.raises(UsageError):
        evaluate.Options(Path("m"), Path("x"), min_probability=0.0, best_f=0.0)
