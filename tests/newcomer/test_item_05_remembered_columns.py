"""Item 5: a model remembers the columns of its training data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Ran, process

import trellis
from trellis import CRF, HMM
from trellis.data.corpus import Layout
from trellis.errors import FormatError
from trellis.formats import native

Run = Callable[..., Ran]
WORDS = ["Ann", "sings", "Bob", "reads"]
COARSE = ["PROPN", "VERB", "PROPN", "VERB"]
FINE = ["NNP", "VBZ", "NNP", "VBZ"]


@pytest.fixture
def corpora(tmp_path: Path) -> None:
    """The same words as conllu, and as conll with five columns."""
    cells = [*zip(WORDS, COARSE, FINE, strict=True)]
    text = "".join(
        f"{n}\t{w}\t{w.lower()}\t{u}\t{x}\t_\t_\t_\t_\t_\n" for n, (w, u, x) in enumerate(cells, 1)
    )
    (tmp_path / "a.conllu").write_text(f"{text}\n" * 3)
    rows = "".join(f"{n}\t{w}\t{u}\t{x}\t_\n" for n, (w, u, x) in enumerate(cells, 1))
    (tmp_path / "a.conll").write_text(f"{rows}\n" * 3)


def accuracy(ran: Ran) -> float:
    assert ran.code == 0, ran
    return float(json.loads(ran.out)["accuracy"])


@pytest.mark.parametrize(
    "options", [[], ["-m", "memm"], ["-m", "hmm"], ["-m", "perceptron"], ["neural"]]
)
def test_every_model_evaluates_the_column_it_was_trained_on(
    run: Run, corpora: None, tmp_path: Path, options: list[str]
) -> None:
    if options == ["neural"]:
        pytest.importorskip("torch")
        options = ["--model", "neural", "--epochs", "30", "--device", "cpu", "--dropout", "0"]
    assert run("train", "a.conllu", "--label", "xpos", "-q", *options).code == 0
    layout = trellis.load(tmp_path / "model.trellis").corpus_layout_
    assert layout == Layout("conllu", label="xpos")
    assert accuracy(run("eval", "model.trellis", "a.conllu", "--json")) == 1.0
    assert accuracy(run("eval", "model.trellis", "a.conllu", "--label", "xpos", "--json")) == 1.0
    for command in ("eval", "report"):
        ran = run(command, "model.trellis", "a.conllu", "--label", "upos")
        assert ran.code == 1
        assert ran.err == (
            "trellis: a.conllu: --label is upos, but the model was trained with --label xpos, "
            "which is used if the option is omitted\n"
        )


def test_of_the_default_column(run: Run, corpora: None, tmp_path: Path) -> None:
    assert run("train", "a.conllu", "-q").code == 0
    assert trellis.load(tmp_path / "model.trellis").corpus_layout_ == Layout("conllu", label="upos")
    assert accuracy(run("eval", "model.trellis", "a.conllu", "--json")) == 1.0
    assert (
        "trained with --label upos"
        in run("eval", "model.trellis", "a.conllu", "--label", "xpos").err
    )


CHOSEN = ["--columns", "1", "--label", "3"]


def test_of_columns(run: Run, corpora: None, tmp_path: Path) -> None:
    assert run("train", "a.conll", "-q", *CHOSEN).code == 0
    layout = trellis.load(tmp_path / "model.trellis").corpus_layout_
    assert layout == Layout("conll", (1,), 3, 5)
    assert accuracy(run("eval", "model.trellis", "a.conll", "--json")) == 1.0
    assert accuracy(run("eval", "model.trellis", "a.conll", "--json", *CHOSEN)) == 1.0
    # The words of another layout are in another column.
    rows = "".join(f"{x} {w}\n" for w, x in zip(WORDS, FINE, strict=True))
    (tmp_path / "other.conll").write_text(rows)
    ran = run("eval", "model.trellis", "other.conll")
    assert ran.code == 1
    assert ran.err == (
        "trellis: other.conll: its rows have 2 columns, but 5 in the training data, where column 3 "
        "was the label: choose the column with --label, which counts from 0, or from the end with "
        "-1\n"
    )
    assert accuracy(run("eval", "model.trellis", "other.conll", "--label", "0", "--json")) == 1.0


def test_another_column_with_other_labels(run: Run, corpora: None) -> None:
    assert run("train", "a.conll", "-q", *CHOSEN).code == 0
    ran = run("eval", "model.trellis", "a.conll", "--columns", "1", "--label", "2")
    assert ran.code == 1
    assert ran.err == (
        "trellis: a.conll: 12 of 12 labels are not those of the model, which was trained with "
        "--label 3: the label column may be wrong\n"
    )


def test_labels_of_another_format(run: Run, corpora: None, tmp_path: Path) -> None:
    assert run("train", "a.conllu", "--label", "xpos", "-q").code == 0
    rows = "".join(f"{w} {u}\n" for w, u in zip(WORDS, COARSE, strict=True))
    (tmp_path / "upos.conll").write_text(rows)
    ran = run("eval", "model.trellis", "upos.conll")
    assert "4 of 4 labels are not those of the model" in ran.err


def test_a_tagged_file_is_not_compared_with_itself(run: Run, corpora: None) -> None:
    assert run("train", "a.conll", "-q").code == 0
    assert run("tag", "model.trellis", "a.conll", "-o", "tagged.conll").code == 0
    ran = run("eval", "model.trellis", "tagged.conll")
    assert "its rows have 6 columns, but 5 in the training data" in ran.err


def test_tag_reads_the_columns_of_the_training_data(
    run: Run, corpora: None, tmp_path: Path
) -> None:
    assert run("train", "a.conll", "-q", *CHOSEN).code == 0
    expected = trellis.load(tmp_path / "model.trellis").predict([WORDS])[0]
    assert expected == FINE
    complete = (tmp_path / "a.conll").read_text().split("\n\n")[0].split("\n")
    without_label = ["\t".join(cells[:3] + cells[4:]) for cells in map(str.split, complete)]
    for lines in (complete, without_label, WORDS):
        data = "\n".join(lines).encode()
        ran = run("tag", "model.trellis", "--format", "conll", "--output", "conll", stdin=data)
        assert [line.split("\t")[-1] for line in ran.out.splitlines() if line] == FINE
    ran = run("tag", "model.trellis", "a.conll", "--columns", "2", "--output", "jsonl")
    assert json.loads(ran.out.splitlines()[0])["tokens"] == COARSE


@pytest.mark.parametrize(
    ("layout", "count", "width", "columns"),
    [
        (Layout("conll", (0, 1), 2, 3), 2, 3, (0, 1)),
        (Layout("conll", (0, 1), 2, 3), 2, 2, (0, 1)),
        (Layout("conll", (0, 1), 2, 3), 2, 7, (0, 1)),
        (Layout("conll", (1, 3), 2, 5), 2, 5, (1, 3)),
        (Layout("conll", (1, 3), 2, 5), 2, 4, (1, 2)),  # without the label
        (Layout("conll", (1, 3), 2, 5), 1, 4, (1,)),
        (Layout("conll", (1, 3), 2, 5), 2, 2, (0, 1)),
        (Layout("conllu", label="upos"), 1, 3, (0,)),
    ],
)
def test_token_columns(layout: Layout, count: int, width: int, columns: tuple[int, ...]) -> None:
    assert layout.token_columns(count, width) == columns


def test_a_pipe(run: Run, corpora: None, tmp_path: Path) -> None:
    assert run("train", "a.conllu", "--label", "xpos", "-q").code == 0
    data = (tmp_path / "a.conllu").read_bytes()
    ran = process("eval", "model.trellis", "/dev/stdin", "--json", folder=tmp_path, stdin=data)
    assert accuracy(ran) == 1.0


def test_a_model_of_the_library_has_no_columns(run: Run, corpora: None, tmp_path: Path) -> None:
    model = CRF().fit([WORDS], [COARSE])
    model.save(tmp_path / "library.trellis")
    assert trellis.load(tmp_path / "library.trellis").corpus_layout_ is None
    assert "corpus" not in native.read(tmp_path / "library.trellis").meta
    ran = run("eval", "library.trellis", "a.conllu", "--label", "xpos", "--json")
    assert accuracy(ran) == 0.0  # no check, as for older files


@pytest.mark.parametrize("model", [CRF, HMM])
def test_fit_forgets_the_columns(run: Run, corpora: None, tmp_path: Path, model: Any) -> None:
    assert run("train", "a.conllu", "-q", "-m", model.kind).code == 0
    loaded = trellis.load(tmp_path / "model.trellis")
    assert loaded.fit([WORDS], [FINE]).corpus_layout_ is None
    copied = trellis.load(tmp_path / "model.trellis")
    copied.save(tmp_path / "copy.trellis")
    assert trellis.load(tmp_path / "copy.trellis").corpus_layout_ == copied.corpus_layout_


@pytest.mark.parametrize(
    "corpus",
    [
        7,
        [],
        {},
        {"format": "csv"},
        {"format": 1},
        {"format": "conll", "label": [1]},
        {"format": "conll", "token": "ab"},
        {"format": "conll", "token": [-1]},
        {"format": "conll", "token": [1.5], "label": 0},
        {"format": "conll", "token": [10**9]},
        {"format": "conll", "width": True},
        {"format": "conll", "other": 1},
    ],
)
def test_forged_columns_are_refused(tmp_path: Path, corpus: Any) -> None:
    meta, tensors = CRF().fit([WORDS], [FINE]).to_parts()
    native.write(tmp_path / "forged.trellis", "crf", meta | {"corpus": corpus}, tensors)
    with pytest.raises(FormatError, match=r"forged\.trellis: "):
        trellis.load(tmp_path / "forged.trellis")
