"""Item 8: five small things, each with its test."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import Ran

from trellis import CRF, HMM, MEMM, FastText, GraphCRF
from trellis.app.terminal import make_console, print_status, show, show_progress
from trellis.errors import TrainingWarning

Run = Callable[..., Ran]
INTENTS = "__label__dog it barks\n__label__cat it purrs\n" * 60


# ---- `similarity --test` uses the vectors of unseen words


@pytest.fixture
def subwords(tmp_path: Path) -> FastText:
    sentences = [["walking", "walked", "talking", "talked"]] * 50
    options = {"min_count": 1, "bucket": 100, "epochs": 1, "random_state": 0, "n_jobs": 1}
    with pytest.warns(TrainingWarning):  # all words are too frequent: the rows stay random
        model = FastText(8, **options).fit(sentences)
    model.save(tmp_path / "words.trellis")
    model.save_fasttext(tmp_path / "words.bin")
    pairs = [("walking", "walked", 9), ("talker", "talked", 5), ("walk", "talk", 2)]
    (tmp_path / "pairs").write_text("".join(f"{a} {b} {n}\n" for a, b, n in pairs))
    return model


@pytest.mark.parametrize("name", ["words.trellis", "words.bin"])
def test_similarity_uses_vectors_of_unseen_words(subwords: FastText, run: Run, name: str) -> None:
    scores = json.loads(run("similarity", name, "--test", "pairs", "--json").out)
    assert (scores["pairs"], scores["skipped"]) == (3, 0)
    pairs = [("walking", "walked"), ("talker", "talked"), ("walk", "talk")]
    units = [[subwords.vector(word) for word in pair] for pair in pairs]
    cosines = [u @ v / np.linalg.norm(u) / np.linalg.norm(v) for u, v in units]
    assert scores["pearson"] == pytest.approx(np.corrcoef(cosines, [9, 5, 2])[0, 1], abs=1e-5)


def test_similarity_with_restrict_skips_words_after_the_first_n(
    subwords: FastText, run: Run
) -> None:
    out = run("similarity", "words.bin", "--test", "pairs", "--restrict", 4, "--json").out
    assert json.loads(out)["skipped"] == 2


# ---- `classify` prints probabilities of at most 1


@pytest.mark.parametrize("as_json", [False, True])
def test_classify_prints_probabilities_of_at_most_1(
    run: Run, tmp_path: Path, as_json: bool
) -> None:
    (tmp_path / "intents.txt").write_text(INTENTS)
    options = ["--dim", "4", "--min-count", "1", "--epochs", "500", "--alpha", "2", "-q"]
    assert run("embed", "intents.txt", "-o", "m.bin", "--supervised", *options).code == 0
    flags = ["--json"] if as_json else []
    ran = run("classify", "m.bin", *flags, stdin=b"it barks\nit purrs\n")
    lines = ran.out.splitlines()
    if as_json:
        values = [json.loads(line)["labels"][0]["probability"] for line in lines]
    else:
        values = [float(line.split("\t")[1]) for line in lines]
    assert values == [1.0, 1.0]  # the classifier is certain: fastText prints 1.00001


# ---- `log_likelihood` of an impossible labelling is -inf


def test_log_likelihood_of_a_labelling_that_breaks_the_constraints() -> None:
    X, y = [["a", "b", "c"]] * 2, [["B-X", "I-X", "O"], ["O", "O", "B-X"]]
    impossible = ["O", "I-X", "O"]
    for model in (CRF(constraints="BIO"), MEMM(constraints="BIO")):
        values = model.fit(X, y).log_likelihood([[], X[0], X[0]], [[], impossible, y[0]])
        assert values[:2].tolist() == [0.0, -math.inf]
        assert -math.inf < values[2] < 0


def test_log_likelihood_of_a_sequence_without_a_possible_labelling() -> None:
    hmm = HMM(smoothing=0, transition_smoothing=0)
    hmm.fit([["a", "b"], ["c", "d"]], [["A", "B"], ["C", "D"]])
    # p(a, d) = 0: after A comes B, which never has the symbol d.
    values = hmm.log_likelihood([["a", "d"], ["a", "b"]], [["A", "D"], ["A", "B"]])
    assert values.tolist() == [-math.inf, 0.0]
    assert hmm.log_likelihood([["a", "d"]], [["A", None]]).tolist() == [-math.inf]


def test_log_likelihood_of_a_label_that_the_type_of_a_node_forbids() -> None:
    nodes, edges = np.ones((2, 1)), [[0, 1]]
    sample = (nodes, edges, None, [0, 1])
    crf = GraphCRF().fit([sample] * 2, [["a", "b"]] * 2)
    assert crf.log_likelihood([sample], [["b", "b"]]).tolist() == [-math.inf]
    assert crf.log_likelihood([sample], [["a", "b"]])[0] == pytest.approx(0.0)


# ---- `python -m trellis`


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--version"], 0, "trellis "),
        (["tag", "none.trellis"], 1, "trellis: none.trellis: No such file or directory\n"),
        (["nosuch"], 2, "Usage: python -m trellis [OPTIONS] COMMAND"),
    ],
)
def test_python_m_trellis(arguments: list[str], code: int, text: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trellis", *arguments]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == code
    assert text in (ran.stdout or ran.stderr)


# ---- rich mark-up in messages is printed as it is

HOSTILE = "a [plot] [/bold] [red]x[/red] [link=x] :cat: \\[y]"


def test_messages_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_status(HOSTILE)
    show(HOSTILE)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (f"{HOSTILE}\n", f"{HOSTILE}\n")


def test_tables_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table(HOSTILE, title=HOSTILE, box=None)
    table.add_row(HOSTILE)
    show(table)
    assert capsys.readouterr().out.count(HOSTILE) == 3


def test_progress_is_printed_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("trellis.app.terminal._PIPED_WIDTH", 300)
    with show_progress(HOSTILE) as update:
        update(0.5, HOSTILE)
    assert capsys.readouterr().err.count(HOSTILE) >= 2
    assert make_console().width == 300


def test_commands_print_names_and_labels_as_they_are(
    run: Run, tmp_path: Path, refused: Callable[..., str], misused: Callable[..., str]
) -> None:
    (tmp_path / "[plot].conll").write_text("a\t[/x]\nb\t:cat:\n\n" * 2)
    ran = run("train", "[plot].conll", "-o", "[m].trellis")
    assert "[m].trellis:" in ran.err
    out = run("eval", "[m].trellis", "[plot].conll").out
    assert "[m].trellis on [plot].conll" in out
    assert "[/x]" in out
    assert ":cat:" in out
    out = run("inspect", "[m].trellis").out
    assert "labels: :cat: [/x]" in out
    refused("tag", "[plot]", names=["[plot]: No such file"])
    assert "--columns is '[plot]'" in misused("tag", "model.trellis", "--columns", "[plot]")


def test_an_extra_in_a_message_is_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    few = [["wake", "me", "at", "seven"]] * 3, [["O", "O", "O", "B-time"]] * 3
    monkeypatch.setattr("trellis.app.cli.demo.samples.load", lambda split: few)
    assert "pip install trellis[plot]" in run("demo", "-o", "demo").out
