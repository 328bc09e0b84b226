"""Calls that few programs make: one test for each line that no other quick test runs."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer

import trellis
from trellis.app.cli import typer_commands
from trellis.app.cli.ctc.emissions import read_labels
from trellis.app.cli.main import COMMANDS, run_command
from trellis.app.cli.options import DataOptions
from trellis.app.cli.typer_commands import build_group, run_typer
from trellis.app.model_files import read_labelled
from trellis.app.training import estimators
from trellis.app.training.best import constrain
from trellis.compat.fasttext import load_model
from trellis.data.corpus import Columns
from trellis.embeddings.model import EmbeddingModel
from trellis.embeddings.sources import read as read_corpus
from trellis.errors import FormatError, InputError
from trellis.features.cells.collector import read_cells
from trellis.features.joint import NoFeatures
from trellis.features.vectorizer import choose
from trellis.features.window import Window, named
from trellis.formats import gensim, quantization
from trellis.formats.quantization import quantize
from trellis.inference import graph
from trellis.models import ngrams
from trellis.optim import display
from trellis.plots.matrix_chart import _choose_shade, _format_number
from trellis.sequences import sequences

X, Y = [["the", "dog"], ["a", "cat"]] * 3, [["D", "N"]] * 6


@pytest.fixture(scope="module")
def texts() -> Any:
    return trellis.TextClassifier(2, epochs=1, n_jobs=1).fit(["a b", "c"], ["x", "y"])


# ---- graphs, n-grams, pictures, codes


def test_graphs_without_variables() -> None:
    empty = graph.FactorGraph([], [])
    for best in (graph.icm(empty), graph.alpha_expansion(empty)):
        assert (best.labels.tolist(), best.score) == ([], 0.0)


def test_lines_of_a_text_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"word{n} word{n % 3}" for n in range(50)]
    expected = ngrams.NGramTrainer(2, discount_fallback=True).train(lines)
    monkeypatch.setattr(ngrams, "_BLOCK", 64)
    blocks = [*ngrams._join_lines(lines)]
    assert b"".join(blocks).decode() == "".join(line + "\n" for line in lines)
    assert all(64 <= len(block) < 64 + 16 for block in blocks[:-1])
    trained = ngrams.NGramTrainer(2, discount_fallback=True).train(lines)
    assert trained.counts == expected.counts
    assert trained.score("word1 word1") == expected.score("word1 word1")


def test_errors_of_temporary_files_name_the_folder() -> None:
    ours, other = "folder/trellis-ngrams-1", "elsewhere/trellis-ngrams-1"
    with pytest.raises(OSError, match="No space") as info, ngrams._errors_name("folder"):
        raise OSError(28, "No space", ours)
    assert info.value.filename == "folder"
    with pytest.raises(OSError, match="No space") as info, ngrams._errors_name("folder"):
        raise OSError(28, "No space", other)
    assert info.value.filename == other


@pytest.mark.parametrize(
    ("value", "largest", "text"),
    [
        (1.234, 9.99, "1.23"),
        (1.234, 10.0, "1.2"),
        (-1.25, 99.9, "−1.2"),
        (1.6, 100.0, "2"),
        (np.inf, 1.0, "∞"),
        (-np.inf, 1.0, "−∞"),
    ],
)
def test_numbers_in_a_heat_map(value: float, largest: float, text: str) -> None:
    assert _format_number(value, largest) == text


def test_colours_of_a_heat_map() -> None:
    assert _choose_shade(0.0, 2.0) == ("blue", 0.0)
    assert _choose_shade(-2.0, 2.0) == ("red", 1.0)
    assert _choose_shade(1.0, 2.0) == ("blue", pytest.approx(0.5**0.7))
    assert _choose_shade(np.nan, 2.0) == ("soft", 0.35)


def test_codes_of_as_many_rows_as_a_sample_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are used without drawing random numbers."""
    rows = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    expected = quantize(rows, 2, random_state=0)
    for size, is_equal in ((300, True), (299, False)):
        monkeypatch.setattr(quantization, "_MAX_SAMPLE", size)
        codes = quantize(rows, 2, random_state=0).codes
        assert np.array_equal(codes, expected.codes) == is_equal


# ---- features


def test_the_map_without_features() -> None:
    features = NoFeatures.from_parts(*NoFeatures().to_parts(), None)
    assert (len(features), features.edges, features.names()) == (0, 0, [])


def test_literals_of_templates() -> None:
    features = choose(named(["w[0]", "w[-1]|w[0]"]), None, X)
    assert features.literals == [("w[0]=", ""), ("w[-1]|w[0]=", "|", "")]


def test_errors_of_joint_features_without_a_sequence() -> None:
    def fail(cells: Any) -> Any:
        raise error

    error = InputError("no memory")
    with pytest.raises(InputError, match=r"^no memory$"):
        read_cells(fail, [], 5, lambda sequence, cell: "cell")
    error = InputError("sequence {sequence}, position 3: a value", sequence=2)
    with pytest.raises(InputError, match=r"^sequence 7, cell 2 3: joint: a value$"):
        read_cells(fail, [], 5, lambda sequence, cell: f"cell {sequence} {cell}")
    with pytest.raises(InputError, match=r"^cell 2 3: joint: a value$"):
        read_cells(fail, [], None, lambda sequence, cell: f"cell {sequence} {cell}")


def test_surrogates_in_words() -> None:
    gazetteer = Window(gazetteers={"city": ["\ud800"]})
    with pytest.raises(InputError, match="the spec contains text with unpaired surrogates"):
        trellis.CRF(gazetteer).fit(X, Y)
    with pytest.raises(InputError, match="surrogate"):
        trellis.CRF().fit([[{"\ud800": 1.0}]], [["A"]])
    with pytest.raises(InputError, match=r"surrogate|UTF-8|Unicode"):
        read_corpus([["a", "\ud800"]], 1)


def test_a_sequence_that_is_a_number() -> None:
    with pytest.raises(InputError, match="sequence 1 must be a list of tokens, not int: 3"):
        sequences([["a"], 3])
    with pytest.raises(InputError, match=r"^sequence 1 must be a list of tokens, not object$"):
        sequences([["a"], object()])


def test_symbols_of_a_state_that_never_occurred() -> None:
    """All symbols have the same probability there; unknown symbols are never drawn."""
    model = trellis.HMM(emissions="categorical").fit([[3, 5, 8]] * 4, [["A", "B", "A"]] * 4)
    table = model.emission_.log_probabilities
    assert table.shape == (4, 2)
    table[:, 1] = -np.inf
    drawn = model.emission_.sample(np.ones(3000, np.int64), np.random.default_rng(0))
    symbols, counts = np.unique(drawn, return_counts=True)
    assert symbols.tolist() == [3, 5, 8]
    assert np.abs(counts - 1000).max() < 150


# ---- embeddings


def test_a_schedule_belongs_to_each_model() -> None:
    with pytest.raises(NotImplementedError):
        EmbeddingModel._schedule(trellis.Word2Vec(2))


def test_texts_with_surrogates(texts: Any) -> None:
    with pytest.raises(InputError, match=r"surrogate|UTF-8|Unicode"):
        texts.predict([["a", "\ud800"]])


def test_a_quantised_model_that_is_trained_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{n}" for n in rng.integers(300, size=5)) for _ in range(300)]
    labels = ["a" if line.count("1") > 2 else "b" for line in lines]
    model = trellis.TextClassifier(4, epochs=1, n_jobs=1, random_state=0).fit(lines, labels)
    path = tmp_path / "train.txt"
    path.write_text(
        "".join(f"__label__{y} {line}\n" for y, line in zip(labels, lines, strict=True))
    )
    plain = model.quantize(cutoff=280)
    again = model.quantize(cutoff=280, retrain=path)
    assert again.words_ == plain.words_
    assert not np.array_equal(again.output_, plain.output_)
    assert np.array_equal(plain.output_, model.output_)


def test_a_classifier_without_words(texts: Any, tmp_path: Path) -> None:
    """fastText returns no neighbours from a model without words."""
    path = tmp_path / "m.bin"
    texts.save_fasttext(path)
    loaded = load_model(str(path))
    assert len(loaded.get_nearest_neighbors("a", k=1)) == 1
    loaded._file = dataclasses.replace(loaded._file, words=[])
    assert loaded.get_nearest_neighbors("a") == []


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_tables_without_pyarrow(monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"reading needs pyarrow: pip install 'trellis\[arrow\]'"):
        read_corpus(f"a.{suffix}", 1)


def test_a_pickle_without_an_end() -> None:
    head = pickle.dumps([1.5], protocol=2)
    for data in (head[:-1], b"\x80\x02"):
        with pytest.raises(FormatError, match="pickle"):
            gensim._Machine(data).run()  # type: ignore[arg-type]


# ---- commands


def test_a_file_with_fewer_columns_than_the_model(tmp_path: Path) -> None:
    model = trellis.CRF(max_iter=1).fit([[("a", "b"), ("c", "d")]], [["X", "Y"]])
    path = tmp_path / "a.conll"
    path.write_text("a X\nc Y\n")
    options = DataOptions()
    with pytest.raises(FormatError, match="its tokens have 1 columns, but the model needs 2"):
        read_labelled(model, Path("m.trellis"), path, options)
    path.write_text("a b e X\nc d f Y\n")
    tokens, labels = read_labelled(model, Path("m.trellis"), path, options)
    assert (tokens, labels) == ([[("a", "b"), ("c", "d")]], [["X", "Y"]])
    assert options.layout == Columns()


def test_labels_of_emissions(tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    for text, expected in (
        ('["a", "b"]', ["a", "b"]),
        ('{"b": 1, "a": 0}', ["a", "b"]),
    ):
        path.write_text(text)
        assert list(read_labels(path)) == expected
    for text in ('{"a": 0, "b": 2}', '{"a": 0, "b": 0}', '{"a": "0"}', "[1]", "3"):
        path.write_text(text)
        with pytest.raises(FormatError, match=r"labels\.json"):
            read_labels(path)


def test_constraints_that_are_set_or_do_not_exist() -> None:
    data: Any = SimpleNamespace(y=[["O"]])
    options: Any = SimpleNamespace(constraints="BIO", quiet=True)
    assert constrain(options, data, "BIO") is options
    options.constraints = None
    assert constrain(options, data, "plain") is options


def test_a_neural_model_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trellis.nn.tagger.tagger", None)
    with pytest.raises(InputError, match=r"^--model neural: import of trellis\.nn\.tagger"):
        estimators._build_network(SimpleNamespace(), None, "BIO")  # type: ignore[arg-type]


def test_the_commands_of_a_group() -> None:
    group = build_group(COMMANDS)
    assert group.list_commands(None) == [*COMMANDS.commands]
    assert group.get_command(None, "nosuch") is None


def test_a_question_that_is_answered_with_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def abort(*arguments: Any, **options: Any) -> None:
        raise typer.Abort

    monkeypatch.setattr(typer_commands, "build_group", lambda *arguments: abort)
    with pytest.raises(KeyboardInterrupt):
        run_typer(COMMANDS, [])


def test_tokens_that_the_output_cannot_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trellis.CRF(max_iter=1).fit(X, Y).save("m.trellis")
    Path("a.jsonl").write_text('{"tokens": ["the"]}\n{"tokens": ["a\\tb"]}\n')
    assert run_command(["tag", "m.trellis", "a.jsonl", "--output", "conll"]) == 1
    assert capsys.readouterr().err.startswith("trellis: a.jsonl")


# ---- progress


class Recorded:
    """A display that records what it shows."""

    interval = 3600.0

    def __init__(self) -> None:
        self.shown: list[tuple[Any, str]] = []
        self.is_closed = False

    def update(self, fraction: float | None, text: str) -> None:
        self.shown.append((fraction, text))

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    recorded = Recorded()
    monkeypatch.setattr(display, "_choose_display", lambda title: recorded)
    return recorded


def fail_after(*states: tuple[float, str]) -> None:
    """Show states, and then raise an error inside of the progress display."""
    with display.show_progress("training", True) as draw:
        for state in states:
            draw(*state)
        raise KeyError


def test_the_last_state_is_shown_after_an_error(shown: Recorded) -> None:
    with pytest.raises(KeyError):
        fail_after((0.1, "one"), (0.2, "two"))  # the second one is too early to be shown
    assert shown.shown == [(0.1, "one"), (0.2, "two")]
    assert shown.is_closed


def test_a_state_is_not_shown_twice_after_an_error(shown: Recorded) -> None:
    with pytest.raises(KeyError):
        fail_after((0.1, "one"))
    assert shown.shown == [(0.1, "one")]


def test_the_end_is_shown_with_its_time(shown: Recorded) -> None:
    with display.show_progress("training", True) as draw:
        draw(None, "one")
    first, last = shown.shown
    assert first == (None, "one")
    assert last[0] == 1.0
    assert last[1].startswith("one  ")
    assert last[1].endswith(" s")
    with display.show_progress("training", True):
        pass
    assert len(shown.shown) == 2


def test_a_bar_on_a_terminal() -> None:
    terminal = display._Terminal("training")
    calls: list[Any] = []
    terminal.progress = SimpleNamespace(update=lambda task, **values: calls.append(values))
    for fraction in (None, 0.0, 0.25):
        terminal.update(fraction, "x")
    assert calls == [
        {"total": None, "completed": 0.0, "text": "x"},
        {"total": 1.0, "completed": 0.0, "text": "x"},
        {"total": 1.0, "completed": 0.25, "text": "x"},
    ]
