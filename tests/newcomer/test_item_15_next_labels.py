"""Item 15: what to label next, unknown labels and weights in files, comparing two models."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Ran

import trellis
from trellis import CRF, metrics
from trellis.data import conll, corpus, jsonl, markup, samples

Run = Callable[..., Ran]

X, Y = samples.load("test", "calendar")


# ---- trellis tag --uncertain


def enumerate_paths(model: CRF, x: list[Any]) -> list[float]:
    """Return the probabilities of all labellings of a sequence, largest first."""
    paths = [list(path) for path in product(model.classes_.tolist(), repeat=len(x))]
    return sorted(np.exp(model.log_likelihood([x] * len(paths), paths)), reverse=True)


@pytest.mark.parametrize("by", ["entropy", "margin"])
def test_the_least_certain_sequences(run: Run, tmp_path: Path, by: str) -> None:
    """The order and the scores are those of an enumeration of all labellings."""
    rows = [["a", "b"], ["b", "b", "a"], ["a"], ["c", "d"], ["d", "a", "a"], ["b"]]
    model = CRF().fit(rows[:3], [["X", "Y"], ["Y", "Y", "X"], ["Y"]])
    model.save(tmp_path / "m.trellis")
    expected = []
    for x in rows:
        p = np.array(enumerate_paths(model, x))
        entropy = -float(np.sum(p * np.log(p))) / len(x)
        expected.append((entropy if by == "entropy" else 1 - p[0] + p[1], x))
    expected.sort(reverse=True)
    text = "".join(" ".join(x) + "\n" for x in rows).encode()
    ran = run(
        *("tag", "m.trellis", "--format", "tokens", "--output", "jsonl"),
        *("--uncertain", 4, "--by", by),
        stdin=text,
    )
    assert (ran.code, ran.err) == (0, "")
    entries = [json.loads(line) for line in ran.out.splitlines()]
    assert [entry["tokens"] for entry in entries] == [x for _, x in expected[:4]]
    for entry, (score, x) in zip(entries, expected, strict=False):
        assert entry["uncertainty"] == pytest.approx(score, abs=1e-6)
        assert entry["tags"] == model.predict([x])[0]


@pytest.mark.parametrize("name", ["next.conll", "next.md", "next.jsonl"])
def test_the_output_is_a_corpus_for_training(run: Run, folder: Path, name: str) -> None:
    output = {"conll": "conll", "md": "inline", "jsonl": "jsonl"}[name.split(".")[1]]
    markup.write(folder / "pool.md", X, Y)
    ran = run("tag", "model.trellis", "pool.md", "--uncertain", 3, "--output", output, "-o", name)
    assert (ran.code, ran.out) == (0, "")
    sequences, labels = corpus.read(folder / name)
    model = trellis.load(folder / "model.trellis")
    scores = model.entropy(X) / [len(x) for x in X]
    assert sequences == [X[n] for n in np.argsort(-scores)[:3]]
    assert labels == model.predict(sequences)
    assert run("train", name, "-o", "new.trellis", "-q").code == 0
    assert run("check", name).code == 0
    if name != "next.jsonl":
        assert (folder / name).read_text().startswith("# uncertainty = ")


def test_equal_sequences_are_selected_once(run: Run, folder: Path) -> None:
    ran = run("tag", "model.trellis", "--uncertain", 9, stdin=b"lunch at noon\n" * 5 + b"\nnoon\n")
    assert ran.out.count("# uncertainty") == 2
    columns = run("tag", "model.trellis", "test.conll", "test.conll", "--uncertain", 500)
    assert columns.out.count("# uncertainty") == len({tuple(x) for x in X})


def test_wrong_options_of_uncertain(refused: Any, misused: Any) -> None:
    refused("tag", "model.trellis", "test.conll", "--uncertain", 2, "--by", "luck", names=["--by"])
    assert "--kbest" in misused("tag", "model.trellis", "test.conll", "--uncertain=2", "--kbest=2")


@pytest.mark.parametrize("kind", [CRF, trellis.MEMM, trellis.HMM])
def test_entropy_of_each_model(kind: Any) -> None:
    model = kind().fit([["a", "b"], ["b"]], [["X", "Y"], ["X"]])
    p = np.array(enumerate_paths(model, ["b", "a"]))
    assert model.entropy([["b", "a"], []]) == pytest.approx([-np.sum(p * np.log(p)), 0.0])


# ---- trellis train --unknown, --alternatives, --weight


FILES = {
    "a.conll": "# weight = 3\nAnn\tB-PER\nsings\t?\n\nBob\tB-PER|B-ORG\nsleeps\tO\n",
    "b.conll": "# weight = 3\nAnn B-PER\nsings ?\n\nBob B-PER|B-ORG\nsleeps O\n",
    "a.jsonl": '{"tokens": ["Ann", "sings"], "tags": ["B-PER", "?"], "weight": 3}\n'
    '{"tokens": ["Bob", "sleeps"], "tags": ["B-PER|B-ORG", "O"]}\n',
    "a.conllu": "# weight = 3\n# text = Ann sings\n"
    "1\tAnn\t_\tB-PER\t_\t_\t0\troot\t_\t_\n2\tsings\t_\t?\t_\t_\t0\troot\t_\t_\n\n"
    "1\tBob\t_\tB-PER|B-ORG\t_\t_\t0\troot\t_\t_\n2\tsleeps\t_\tO\t_\t_\t0\troot\t_\t_\n",
}
OPTIONS = ("--unknown", "?", "--alternatives", "|", "--weight", "weight")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("model", ["crf", "memm", "hmm"])
def test_training_with_unknown_labels_and_weights(
    run: Run, tmp_path: Path, name: str, model: str
) -> None:
    """The model is that of the library for None, sets and sample_weight."""
    (tmp_path / name).write_text(FILES[name])
    assert run("train", name, *OPTIONS, "-m", model, "-q") == (0, "", "")
    trained = trellis.load(tmp_path / "model.trellis")
    expected = trellis.load(tmp_path / "model.trellis")
    sequences = [["Ann", "sings"], ["Bob", "sleeps"]]
    y = [["B-PER", None], [{"B-PER", "B-ORG"}, "O"]]
    expected.fit(sequences, y, [3.0, 1.0])
    assert trained.classes_.tolist() == ["B-ORG", "B-PER", "O"]
    for a, b in zip(
        trained.predict_marginals(sequences), expected.predict_marginals(sequences), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    unweighted = expected.fit(sequences, y).predict_marginals(sequences)[1]
    assert not np.array_equal(trained.predict_marginals(sequences)[1], unweighted)


@pytest.mark.parametrize(
    ("content", "options", "names"),
    [
        ("# weight = x\na O\n", ["--weight", "weight"], ["a.conll, line 1", "weight is 'x'"]),
        ("a O\n\n# weight = -1\na O\n", ["--weight", "weight"], ["a.conll, line 3", "'-1'"]),
        ("a O\n\n# weight = nan\na O\n", ["--weight", "weight"], ["a.conll, line 3", "'nan'"]),
        ("# weight = 2\na O\nb\n", ["--weight", "weight"], ["a.conll, line 3", "1 columns"]),
        ("# weight = 2\n", ["--weight", "weight"], ["a.conll", "no sequence"]),
        ("a ?\n", ["--unknown", "?"], ["no label is known"]),
        ("a |\n", ["--alternatives", "|", "--unknown", "x"], ["a.conll", "'|'"]),
        ("a O\n\nb ?\nc X\n", ["--unknown", "?", "-m", "perceptron"], ["perceptron"]),
        ("a O\nb ?\n", ["--unknown", "?", "--tune", "2"], ["--unknown", "--tune"]),
        (
            "a O\n\nb ?\nc X\n",
            ["--unknown", "?", "--dev", "a.conll"],
            ["a.conll, sequence 2, token 1"],
        ),
        ("a O\n", ["--unknown", ""], ["--unknown must not be empty"]),
    ],
)
def test_wrong_weights_and_labels(
    refused: Any, folder: Path, content: str, options: list[str], names: list[str]
) -> None:
    (folder / "a.conll").write_text(content)
    refused("train", "a.conll", *options, names=names)


def test_an_unknown_label_that_does_not_occur(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("a X\nb ?\n\na O\n")
    warning = "trellis: warning: a.conll: no label is '_', the value of --unknown"
    assert warning in run("train", "a.conll", "--unknown", "_").err
    assert run("train", "a.conll", "--unknown", "_", "-q").err == ""
    assert "warning" not in run("train", "a.conll", "--unknown", "?").err


def test_a_json_weight_must_be_a_number(refused: Any, folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"tokens": ["a"], "tags": ["O"], "weight": true}\n')
    refused("train", "a.jsonl", "--weight", "weight", names=["a.jsonl, line 1", "True"])


def test_check_ignores_unknown_labels(run: Run, tmp_path: Path) -> None:
    rows = "Ann B-X\nLee I-X\nRoe I-X\nis O\n\n" * 9 + "Ann ?\nLee I-X\n"
    (tmp_path / "a.conll").write_text(rows)
    assert run("check", "a.conll", "--unknown", "?").code == 0
    assert run("check", "a.conll").code == 1


# ---- trellis compare


@pytest.fixture
def models(folder: Path) -> Path:
    """Two models in the folder: a.trellis is worse than b.trellis."""
    train, labels = conll.read(folder / "train.conll")
    CRF(max_iter=6).fit(train, labels).save(folder / "a.trellis")
    CRF(l2=0.1).fit(train, labels).save(folder / "b.trellis")
    return folder


def test_compare_reports_the_scores_of_both_models(run: Run, models: Path) -> None:
    ran = run("compare", "a.trellis", "b.trellis", "test.conll", "--json", "--samples", 500)
    assert (ran.code, ran.err) == (0, "")
    record = json.loads(ran.out)
    predicted = {name: trellis.load(models / f"{name}.trellis").predict(X) for name in "ab"}
    for metric, function in (
        ("accuracy", metrics.accuracy),
        ("span_f1", metrics.span_f1),
        ("sequence_accuracy", metrics.sequence_accuracy),
    ):
        scores = record["scores"][metric]
        for name in "ab":
            assert scores[name] == pytest.approx(function(Y, predicted[name]))
        assert scores["difference"] == pytest.approx(scores["b"] - scores["a"])
        assert scores["low"] <= scores["difference"] <= scores["high"]
    agreement = record["agreement"]
    assert sum(agreement.values()) - agreement["neither_but_equal"] == sum(map(len, X))
    right = agreement["both"] + agreement["only_b"]
    assert right / sum(map(len, X)) == pytest.approx(record["scores"]["accuracy"]["b"])
    first = record["examples"][0]
    n = first["sequence"] - 1
    assert (first["tokens"], first["true"]) == (X[n], Y[n])
    assert (first["a"], first["b"]) == (predicted["a"][n], predicted["b"][n])
    assert first["a"] != first["b"]
    assert run("compare", "a.trellis", "b.trellis", "test.conll", "--json", "--samples", 500) == ran


def test_compare_prints_tables(run: Run, models: Path) -> None:
    ran = run("compare", "a.trellis", "b.trellis", "test.conll", "--examples", 2)
    lines = ran.out.splitlines()
    assert lines[:2] == ["a: a.trellis", "b: b.trellis"]
    assert lines[4].split() == ["a", "b", "b", "-", "a", "95", "%", "interval", "p"]
    assert [line[:8] for line in lines[5:8]] == ["token ac", "span F1 ", "sequence"]
    assert sum(line.startswith("sequence ") and line[9:].isdigit() for line in lines) == 2
    plain = run("compare", "a.trellis", "a.trellis", "test.conll")
    assert "1.0000" in plain.out
    assert "differ most" not in plain.out


def test_compare_labels_without_a_scheme(run: Run, tmp_path: Path) -> None:
    y = [["N" if label == "O" else "V" for label in labels] for labels in Y]
    conll.write(tmp_path / "pos.conll", X, y)
    CRF(max_iter=2).fit(X, y).save(tmp_path / "a.trellis")
    CRF().fit(X, y).save(tmp_path / "b.trellis")
    ran = run("compare", "a.trellis", "b.trellis", "pos.conll")
    assert (ran.code, "span F1" in ran.out) == (0, False)
    assert "](N)" in ran.out


def test_compare_models_with_other_columns(run: Run, tmp_path: Path) -> None:
    wide = [[(word, word[:1]) for word in x] for x in X]
    conll.write(tmp_path / "wide.conll", wide, Y)
    CRF().fit(X, Y).save(tmp_path / "a.trellis")
    CRF().fit(wide, Y).save(tmp_path / "b.trellis")
    assert run("compare", "a.trellis", "b.trellis", "wide.conll").code == 0


def test_wrong_input_of_compare(refused: Any, models: Path) -> None:
    refused("compare", "a.trellis", "b.trellis", "nosuch", names=["nosuch"])
    refused("compare", "a.trellis", "test.conll", "test.conll", names=["test.conll"])
    refused("compare", "a.trellis", "b.trellis", "/dev/stdin", names=["/dev/stdin", "copy"])


def test_compare_starts_without_rich(models: Path) -> None:
    code = (
        "import sys; from trellis.estimator import run_without_sklearn; run_without_sklearn();"
        "from trellis.app.cli.main import run_command; run_command(sys.argv[1:]);"
        "print([m for m in ('rich', 'typer', 'sklearn', 'torch') if m in sys.modules])"
    )
    arguments = ["compare", "a.trellis", "b.trellis", "train.conll", "--samples", "9"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=models,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_jsonl_weights_are_kept_by_tag(run: Run, folder: Path) -> None:
    """A selected object keeps its other keys."""
    jsonl.write(folder / "pool.jsonl", X[:3], Y[:3])
    text = (folder / "pool.jsonl").read_text().replace('{"tokens"', '{"weight": 2, "tokens"')
    (folder / "pool.jsonl").write_text(text)
    ran = run("tag", "model.trellis", "pool.jsonl", "--uncertain", 1)
    assert json.loads(ran.out)["weight"] == 2
