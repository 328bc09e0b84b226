"""Messages and limits of the commands that few users reach, by calls of the functions."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from commands import Ran

from trellis import CRF, MEMM
from trellis.app import model_files
from trellis.app.checking import survey
from trellis.app.cli import main as command
from trellis.app.cli.compare import _predict
from trellis.app.cli.ctc.emissions import read_labels
from trellis.app.cli.tag import _split_batches
from trellis.app.report.evaluation import Evaluation, _find_word
from trellis.app.streams import reopen_closed
from trellis.app.tag_output import Labelled, make_writer
from trellis.app.terminal import check_writable
from trellis.app.training.data import name_file_in_errors
from trellis.app.training.estimators import _build_network
from trellis.app.training.features import _read_template
from trellis.app.training.tuning import search
from trellis.data.corpus import Sequence
from trellis.errors import FormatError, InputError

Run = Callable[..., Ran]


def make_sequence(n: int) -> Sequence:
    return Sequence(["a"] * n, ["a"] * n, 1, None, None)


def test_batches_have_a_token_more_for_each_sequence() -> None:
    sequences = [make_sequence(n) for n in (2, 2, 5, 0, 1)]
    batches = [[len(s.tokens) for s in batch] for batch in _split_batches(sequences, 6)]
    assert batches == [[2, 2], [5], [0, 1]]
    batches = [[len(s.tokens) for s in batch] for batch in _split_batches(sequences, 7)]
    assert batches == [[2, 2, 5], [0, 1]]
    assert not [*_split_batches([], 1)]


def test_marginals_at_the_limit_are_written() -> None:
    write = make_writer(["a", "b", "c"], "jsonl")
    marginals = np.array([[0.9998, 1e-4, 0.99e-4]])
    text = write(Labelled(make_sequence(1), ["a"], marginals, None))
    assert '"marginals": [{"a": 0.9998, "b": 0.0001}]' in text


def test_other_models_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SimpleNamespace(describe=lambda: SimpleNamespace(columns=None))
    with pytest.raises(InputError, match="m: this model needs features computed in Python"):
        model_files.count_token_columns(model, Path("m"))

    def fail(path: Path) -> None:
        raise ImportError("PyTorch is needed: pip install trellis[torch]")

    monkeypatch.setattr(model_files, "load", fail)
    with pytest.raises(InputError, match=r"^m: PyTorch is needed: pip install"):
        model_files.open_sequence_model(Path("m"))
    with pytest.raises(InputError, match="model is a int, expected a sequence model"):
        Evaluation.of(7, [], [])


def test_labels_that_are_not_strings(tmp_path: Path) -> None:
    path = tmp_path / "data.conll"
    path.write_text("a\t1\nb\t2\n\n")
    model = CRF().fit([["a", "b"]], [[1, 2]])
    model.save(tmp_path / "m.trellis")
    ran_options = SimpleNamespace(data=path, reading=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trellis.app.cli.compare.read_labelled", lambda *_: ([["a"]], [["1"]]))
        with pytest.raises(InputError, match=r"m.trellis: the labels of the model are not strings"):
            _predict(model, tmp_path / "m.trellis", ran_options)


def test_memory_errors_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: list[str]) -> int:
        raise MemoryError

    monkeypatch.setattr(command, "_dispatch", fail)
    assert command.run_command(["tag"]) == 1
    assert capsys.readouterr().err == "trellis: not enough memory\n"


def test_lists_of_labels(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    for content, labels in (
        ("7\n", ["7"]),
        ('"a"\n', ['"a"']),
        ("a\n\nb\n", ["a", "", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ('{"a": 1, "b": 0}', ["b", "a"]),
    ):
        path.write_text(content)
        assert read_labels(path) == labels
    for content, problem in (
        ('{"a": 0, "b": 0}', "must be 0 to 1, each of them once: 'b' has 0 again"),
        ('{"a": 0, "b": 2}', "'b' has 2"),
        ('{"a": 0, "b": -1}', "'b' has -1"),
        ('{"a": true, "b": 1}', "'a' has True"),
        ("[1]", "must contain a list of labels, or an object of labels and indices"),
    ):
        path.write_text(content)
        with pytest.raises(FormatError, match=f"{problem}$"):
            read_labels(path)
    for content, problem in (("a\n", "not JSON: "), ("7\n", "must contain a list of labels")):
        (tmp_path / "labels.json").write_text(content)
        with pytest.raises(FormatError, match=problem):
            read_labels(tmp_path / "labels.json")


def test_words_of_tokens() -> None:
    for token, word in (
        ("Rome", "Rome"),
        (("Rome", "NNP"), "Rome"),
        ((), "3"),
        (["word=Rome", "other"], "Rome"),
        (["word=a=b", "other"], "a=b"),
        (["w"], "3"),
        ({"word": 7}, "3"),
        (np.zeros(2), "3"),
    ):
        assert _find_word(token, 3) == word


def test_a_full_cache_of_tokens_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["plain", "wo\u200brd", "other", "\ufeffx", "plain", "wo\u200brd"]

    def traits() -> list[tuple[str, ...]]:
        inspector = survey.Survey.__new__(survey.Survey)
        inspector._plain, inspector._cache = set(), {}
        return [inspector._inspect(word) for word in words], inspector

    expected, _ = traits()
    monkeypatch.setattr(survey, "_MAX_CACHED_TOKENS", 2)
    names, inspector = traits()
    assert names == expected
    assert len(inspector._plain) + len(inspector._cache) == 2


def test_files_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(dir: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("trellis.app.terminal.tempfile.TemporaryFile", fail)
    with pytest.raises(InputError, match=r"out.x: cannot be written: Permission denied"):
        check_writable(tmp_path / "out.x")


def test_errors_of_a_sequence_name_its_file() -> None:
    paths, sizes = [Path("a"), Path("b")], [2, 3]
    for index, message in ((1, "a: sequence 1 is bad"), (2, "b: sequence 0 is bad")):
        with pytest.raises(InputError) as info, name_file_in_errors(paths, sizes):
            raise InputError("sequence {sequence} is bad", sequence=index)
        assert str(info.value) == f"{message} (counted from 0)"
    with pytest.raises(InputError) as info, name_file_in_errors(paths, sizes):
        raise InputError("sequence {sequence} is bad", sequence=5)
    assert str(info.value) == "sequence 5 is bad"
    with pytest.raises(InputError, match=r"^no sequence$"), name_file_in_errors(paths, sizes):
        raise InputError("no sequence")


def test_templates_without_a_template(tmp_path: Path) -> None:
    path = tmp_path / "template"
    path.write_text("# only a comment\n")
    with pytest.raises(FormatError, match="template: the file contains no template"):
        _read_template(path)


def test_models_that_cannot_be_tuned() -> None:
    X, y = [["a"]] * 9, [["x"]] * 9
    for solver in ("perceptron", "passive-aggressive", "arow"):
        with pytest.raises(InputError, match=f"--tune cannot be used with solver {solver}, which"):
            next(search(CRF(solver=solver), X, y, 1, 0))
    assert next(search(MEMM(), X, y, 1, 0)).l1 == MEMM().l1


def test_closed_streams_are_opened_as_the_null_device(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr("trellis.app.streams.os.dup2", lambda *a: calls.append(a))
    monkeypatch.setattr("trellis.app.streams.os.close", lambda *a: calls.append(a))
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.StringIO())
    reopen_closed()
    assert not calls


def test_columns_that_a_model_needs() -> None:
    features = SimpleNamespace(values_of_column=lambda n: [["Rome", "Paris"], []][n])
    linear = SimpleNamespace(features_=features)
    expected = (
        "the model needs 2 columns for each token{}: write one token per line, with tabs between "
        "the columns, and an empty line after each sequence, such as 'Rome\\tcolumn1'"
    )
    for layout, names in (
        (None, ""),
        (SimpleNamespace(token=None), ""),
        (SimpleNamespace(token=(1, 3, 4)), " (columns 1, 3 of its training data)"),
    ):
        model = SimpleNamespace(
            corpus_layout_=layout, describe=lambda: SimpleNamespace(linear=linear)
        )
        assert model_files.describe_columns(model, 2) == expected.format(names)


@pytest.mark.parametrize("patience", [None, 3])
def test_patience_of_a_network(patience: int | None) -> None:
    pytest.importorskip("torch")
    network = SimpleNamespace(set_options=dict)
    options: Any = SimpleNamespace(
        network=network, patience=patience, constraints=None, seed=1, jobs=1
    )
    tagger = _build_network(options, None, "BIO")
    assert tagger.patience == (type(tagger)().patience if patience is None else 3)
    assert (tagger.random_state, tagger.n_jobs) == (1, 1)
