"""Item 17: ``verbose=`` shows progress everywhere, and printed explanations can be read."""

from __future__ import annotations

import html
import io
import itertools
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trellis
from trellis import CRF, HMM, MEMM, GraphCRF, GridCRF, TextClassifier, Word2Vec
from trellis.data import samples
from trellis.errors import InputError
from trellis.optim import display

X, Y = samples.load("train", "calendar")
X, Y = X[:30], Y[:30]
HIDDEN = [[None if label == "O" else label for label in row] for row in Y]
GRID = np.random.default_rng(0).normal(size=(4, 4, 2))


def fit_graph(verbose: bool) -> Any:
    pairs = np.array([[0, 1], [1, 2]])
    return GraphCRF(verbose=verbose).fit([(np.eye(3), pairs)], [[0, 1, 0]])


def fit_tagger(verbose: bool) -> Any:
    tagger = pytest.importorskip("trellis.nn.tagger")
    return tagger.NeuralTagger(epochs=3, hidden=4, device="cpu", verbose=verbose).fit(X, Y)


FITS: dict[str, Callable[[bool], Any]] = {
    "CRF": lambda verbose: CRF(verbose=verbose).fit(X, Y),
    "MEMM": lambda verbose: MEMM(verbose=verbose).fit(X, Y),
    "HMM": lambda verbose: HMM(verbose=verbose, random_state=0).fit(X, HIDDEN),
    "GraphCRF": fit_graph,
    "GridCRF": lambda verbose: GridCRF(verbose=verbose).fit([GRID], [np.eye(4, dtype=int)]),
    "Word2Vec": lambda verbose: Word2Vec(4, min_count=1, epochs=2, verbose=verbose).fit(X),
    "FastText": lambda verbose: trellis.FastText(
        4, min_count=1, epochs=2, bucket=100, verbose=verbose
    ).fit(X),
    "TextClassifier": lambda verbose: TextClassifier(4, epochs=2, min_count=1, verbose=verbose).fit(
        [["a", "b"], ["c"]], ["x", "y"]
    ),
    "NeuralTagger": fit_tagger,
}


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


class Notebook:
    """What ``IPython`` and its display functions do in a notebook, recorded."""

    def __init__(self) -> None:
        self.displays: list[list[dict[str, str]]] = []

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        states = [data]
        self.displays.append(states)

        def update(data: dict[str, str], *, raw: bool) -> None:
            assert raw
            states.append(data)

        return types.SimpleNamespace(update=update)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    recorded = Notebook()
    ipython: Any = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    module: Any = types.ModuleType("IPython.display")
    module.display = recorded.display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return recorded


@pytest.mark.parametrize("name", FITS)
def test_every_model_is_quiet_by_default(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    FITS[name](False)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", FITS)
def test_lines_in_a_log(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The first and the last state are printed; those between at most every two seconds."""
    FITS[name](True)
    out, err = capfd.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert 2 <= len(lines) <= 4
    assert all(line.startswith(f"{name}: ") for line in lines)
    assert all("loss" in line for line in lines)
    assert lines[-1].endswith(" s")


@pytest.mark.parametrize("name", FITS)
def test_a_bar_in_a_notebook(
    name: str, notebook: Notebook, capfd: pytest.CaptureFixture[str]
) -> None:
    FITS[name](True)
    assert capfd.readouterr() == ("", "")
    (states,) = notebook.displays
    assert states[-1]["text/plain"].startswith(f"{name}: ")
    assert states[-1]["text/html"].startswith('<progress value="1.0000"></progress>')
    assert "loss" in states[-1]["text/html"]


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    FITS["CRF"](True)
    assert "iteration" in screen.getvalue()
    assert "\x1b[?25h" in screen.getvalue()  # the cursor is shown again


def test_ipython_in_a_terminal_is_not_a_notebook(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: object())
    FITS["CRF"](True)
    assert notebook.displays == []
    assert capfd.readouterr().err.startswith("CRF: iteration 1 ")


def test_an_error_ends_the_display(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(progress: Any) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError):
        CRF(verbose=True).fit(X, Y, callback=stop)
    (states,) = notebook.displays
    assert 'value="1.0' not in states[-1]["text/html"]
    with pytest.raises(InputError):
        CRF(verbose=True).fit(X, [])
    assert len(notebook.displays) == 1  # nothing is drawn before the first iteration


def test_few_updates_are_sent_to_a_notebook(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0.0, 0.001)
    monkeypatch.setattr(display.time, "monotonic", lambda: next(clock))
    with display.show_progress("<b>", verbose=True) as draw:
        for n in range(1000):
            draw(n / 1000, f"step {n}")
    (states,) = notebook.displays
    assert 5 < len(states) < 20
    assert states[-1]["text/plain"].startswith("<b>: step 999")
    assert html.escape("<b>") in states[-1]["text/html"]


def test_verbose_changes_neither_the_model_nor_its_file(
    tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    files = []
    for verbose in (False, True):
        path = tmp_path / "model.trellis"
        CRF(verbose=verbose).fit(X, Y).save(path)
        files.append(path.read_bytes())
        assert trellis.load(path).verbose is False
    assert files[0] == files[1]


def test_the_development_score_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    CRF(verbose=True).fit(X, Y, dev=(X, Y))
    assert capfd.readouterr().err.splitlines()[-1].split("dev ")[1].startswith("100.00 ")


# ---- explanations


@pytest.fixture(scope="module")
def crf() -> CRF:
    return CRF(l2=0.1).fit(*samples.load("train", "calendar"))


def test_a_printed_explanation_has_ten_lines(crf: CRF) -> None:
    for x in ([], X[0][:1], X[0], max(samples.load("train")[0], key=len)):
        explanations = crf.explain(x)
        lines = str(explanations).splitlines()
        assert len(lines) <= 10
        assert max(map(len, lines)) <= 160
        for explanation in explanations:
            table = str(explanation).splitlines()
            assert len(table) <= 10
            assert max(map(len, table)) <= 100


def test_the_rows_are_the_least_certain_positions(crf: CRF) -> None:
    x = max(samples.load("train", "calendar")[0], key=len)
    explanations = crf.explain(x)
    head, *rows, last = str(explanations).splitlines()
    assert head.split()[:3] == ["token", "label", "p"]
    expected = sorted(explanations, key=lambda explanation: explanation.probability)[:8]
    assert [int(row.split()[0]) for row in rows] == sorted(e.position for e in expected)
    for row in rows:
        position, word, label, p, runner_up, p_runner_up, *_ = row.split()
        explanation = explanations[int(position)]
        assert (word, label) == (x[int(position)], explanation.label)
        assert runner_up == explanation.runner_up
        assert float(p) == pytest.approx(explanation.probability, abs=5e-4)
        assert float(p_runner_up) == pytest.approx(explanation.runner_up_probability, abs=5e-4)
        first = explanation.contributions[0]
        assert f"{first.difference:+.2f} {first.feature[:20]}" in row
    assert last.startswith(f"{len(x) - 8} other positions with p >= ")


def test_the_table_of_a_position_adds_up(crf: CRF) -> None:
    explanation = crf.explain(X[0])[2]
    head, columns, *rows = str(explanation).splitlines()
    assert head.startswith(f"position 2: {explanation.label} ")
    assert columns.split() == ["difference", "label", "runner-up", "feature"]
    total = sum(c.difference for c in explanation.contributions)
    assert sum(float(row.split()[0]) for row in rows) == pytest.approx(total, abs=0.005)
    assert rows[-1].endswith(f"{len(explanation.contributions) - 7} smaller contributions")


def test_repr_is_that_of_a_list(crf: CRF) -> None:
    explanations = crf.explain(X[0])
    assert repr(explanations) == repr(list(explanations))
    assert repr(explanations[0]).startswith("Explanation(position=0, label=")
    assert explanations == list(explanations)
    assert crf.explain([]) == []


def test_explanations_of_other_tokens() -> None:
    arrays = str(CRF().fit([np.eye(3)], [["a", "b", "c"]]).explain(np.eye(3)))
    assert arrays.splitlines()[0].split()[:2] == ["label", "p"]
    dicts = str(CRF().fit([[{"w": "a"}]], [["x"]]).explain([{"w": "a"}]))
    assert dicts.splitlines()[0].split()[:2] == ["label", "p"]
    tuples = str(CRF().fit([[("a", "N")]], [["x"]]).explain([("a", "N")]))
    assert tuples.splitlines()[1].split()[:3] == ["0", "a", "x"]
    odd = str(CRF().fit([["a\nb\u200b"]], [["x"]]).explain(["a\nb\u200b"]))
    assert len(odd.splitlines()) == 2
