"""`trellis train` gives the model of the library, for every data format and model."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Ran, tree, typed
from training import DEFAULTS, DEV, FEW, X, Y, same_weights, write

import trellis
from trellis import CRF, HMM, MEMM
from trellis.data import conll, jsonl, markup
from trellis.features import Window, chunking, ner, templates, wapiti

Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def expected() -> CRF:
    return CRF(max_iter=FEW, **DEFAULTS).fit(X, Y)


# ---- formats


def as_conllu(column: int) -> str:
    rows = []
    for x, y in zip(X, Y, strict=True):
        for n, (word, label) in enumerate(zip(x, y, strict=True), 1):
            row = [str(n), word, "_", "_", "_", "_", "0", "_", "_", "_"]
            row[column] = label
            rows.append("\t".join(row))
        rows.append("")
    return "\n".join(rows) + "\n"


def written(folder: Path, name: str) -> list[str]:
    """Write the corpus to a file; return the options that the command needs to read it."""
    path = folder / name
    if name.startswith("spans"):
        lines = []
        for x, y in zip(X, Y, strict=True):
            places = np.cumsum([0, *(len(word) + 1 for word in x)]).tolist()
            spans = [
                [places[start], places[end] - 1, label]
                for label, start, end in trellis.data.tags.spans(y, "BIO")
            ]
            lines.append(json.dumps({"text": " ".join(x), "spans": spans}))
        path.write_text("\n".join(lines))
    elif ".jsonl" in name or ".ndjson" in name:
        jsonl.write(path, X, Y)
    elif ".md" in name or name == "marked":
        markup.write(path, X, Y)
    elif name == "upos.conllu":
        path.write_text(as_conllu(3))
    elif name == "xpos.conllu":
        path.write_text(as_conllu(4))
        return ["--label", "xpos"]
    elif name == "front.conll":
        rows = [
            [(y, w, "x") for w, y in zip(*pair, strict=True)] for pair in zip(X, Y, strict=True)
        ]
        conll.write(path, rows, None)
        return ["--label", "0", "--columns", "1"]
    else:
        conll.write(path, X, Y)
    return ["--format", "conll"] if name == "odd.tagged" else []


NAMES = [
    "train.conll",
    "train.iob2",
    "TRAIN.TSV",
    "train.conll.gz",
    "train.conll.xz",
    "train",
    "odd.tagged",
    "front.conll",
    "train.jsonl",
    "train.ndjson",
    "train.jsonl.gz",
    "spans.jsonl",
    "train.md",
    "marked",
    "upos.conllu",
    "xpos.conllu",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_format_gives_the_same_model(
    run: Run, tmp_path: Path, name: str, expected: CRF
) -> None:
    options = written(tmp_path, name)
    ran = run("train", name, *options, "-o", "new.trellis", "--max-iter", FEW)
    assert (ran.code, ran.out) == (0, ""), ran.err
    same_weights(tmp_path / "new.trellis", expected)
    assert sorted(tree(tmp_path)) == sorted([name, "new.trellis"])


def test_the_format_of_an_unknown_suffix_is_detected_from_the_content(
    run: Run, tmp_path: Path
) -> None:
    """The first line that is not blank decides, also in a compressed file."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(b'\n \n {"tokens": ["a"], "tags": ["Q"]}\n'))
    assert run("train", "a.gz").code == 0
    assert trellis.load(tmp_path / "model.trellis").classes_.tolist() == ["Q"]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
@pytest.mark.parametrize("options", [[], ["--format", "conll"]], ids=typed)
def test_a_pipe_is_read_once(run: Run, tmp_path: Path, options: list[str]) -> None:
    """`trellis train <(zcat …)` reads all of a pipe, which cannot be read twice, or refuses it."""
    conll.write(tmp_path / "t.conll", X * 40, Y * 40)
    assert (tmp_path / "t.conll").stat().st_size > 1 << 18
    common = ["--max-iter", "1", "--jobs", "1", "-q"]
    assert run("train", "t.conll", "-o", "complete.trellis", *common).code == 0
    reader, writer = os.pipe()

    def feed() -> None:
        with os.fdopen(writer, "wb") as pipe, contextlib.suppress(BrokenPipeError):
            pipe.write((tmp_path / "t.conll").read_bytes())

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        ran = run("train", f"/dev/fd/{reader}", "-o", "new.trellis", *common, *options)
    finally:
        os.close(reader)
        thread.join()
    if options:
        assert ran.code == 0
    if ran.code == 0:
        assert tree(tmp_path)["new.trellis"] == tree(tmp_path)["complete.trellis"]
    else:
        assert "format must be specified" in ran.err


def test_several_files_are_one_corpus(run: Run, tmp_path: Path, expected: CRF) -> None:
    conll.write(tmp_path / "1.conll", X[:40], Y[:40])
    jsonl.write(tmp_path / "2.jsonl", X[40:70], Y[40:70])
    markup.write(tmp_path / "3.md", X[70:], Y[70:])
    assert run("train", "1.conll", "2.jsonl", "3.md", "--max-iter", FEW).code == 0
    same_weights(tmp_path / "model.trellis", expected)


def test_files_of_different_widths_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "1.conll").write_text("Rome B-place\n")
    (tmp_path / "2.conll").write_text("Rome NNP B-place\n")
    ran = run("train", "1.conll", "2.conll", "-q")
    assert ran.code == 1
    assert "2.conll" in ran.err
    assert "1.conll" in ran.err
    assert not (tmp_path / "model.trellis").exists()


# ---- models


@pytest.mark.parametrize(
    ("options", "model"),
    [
        ([], CRF()),
        (
            ["--model", "crf", "--l1", "0.2", "--l2", "0.3", "--max-iter", "20"],
            CRF(l1=0.2, l2=0.3, max_iter=20),
        ),
        (["--solver", "gradient", "--max-iter", "7"], CRF(solver="gradient", max_iter=7)),
        (["--max-iter", "9", "--min-count", "2"], CRF(max_iter=9, min_count=2)),
        (
            ["--states", "all", "--transitions", "seen", "--max-iter", "5"],
            CRF(states="all", transitions="seen", max_iter=5),
        ),
        (["--order", "2", "--max-iter", "6"], CRF(order=2, max_iter=6)),
        (["-m", "perceptron", "--order", "2"], CRF(solver="perceptron", order=2)),
        (["--transitions", "none"], CRF(transitions="none")),
        (["--constraints", "auto", "--max-iter", "5"], CRF(constraints="BIO", max_iter=5)),
        (["--constraints", "BIO", "--max-iter", "5"], CRF(constraints="BIO", max_iter=5)),
        (["-m", "memm", "--l2", "0.5"], MEMM(l2=0.5)),
        (["-m", "sgd", "--max-iter", "3"], CRF(solver="sgd", max_iter=3)),
        (["-m", "sgd", "--l2", "3", "--max-iter", "3"], CRF(solver="sgd", l2=3, max_iter=3)),
        (["-m", "perceptron"], CRF(solver="perceptron")),
        (["-m", "passive-aggressive"], CRF(solver="passive-aggressive")),
        (["-m", "arow"], CRF(solver="arow")),
        (["-m", "arow", "--seed", "7"], CRF(solver="arow", random_state=7)),
    ],
    ids=typed,
)
def test_every_kind_of_model(run: Run, tmp_path: Path, options: list[str], model: Any) -> None:
    write(tmp_path)
    ran = run("train", "train.conll", *options)
    assert ran.code == 0, ran
    expected = {k: v for k, v in DEFAULTS.items() if model.get_params()[k] != 7}
    loaded = same_weights(tmp_path / "model.trellis", model.set_params(**expected).fit(X, Y))
    assert loaded.constraints == model.constraints
    assert loaded.predict(DEV[0]) == model.predict(DEV[0])


@pytest.mark.parametrize("model", ["memm", "hmm", "neural"])
def test_order_is_for_crfs(run: Run, tmp_path: Path, model: str) -> None:
    write(tmp_path)
    ran = run("train", "train.conll", "-m", model, "--order", "2")
    assert ran.code == 1
    assert f"--order does not apply to --model {model}" in ran.err


def test_an_hmm(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    assert run("train", "train.conll", "--model", "hmm").code == 0
    loaded, model = trellis.load(tmp_path / "model.trellis"), HMM().fit(X, Y)
    assert isinstance(loaded, HMM)
    for name in ("start_", "transitions_", "emissions_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    assert loaded.predict(DEV[0]) == model.predict(DEV[0])


@pytest.mark.parametrize("labels", [["NOUN", "VERB"], ["O", "X"]])
def test_labels_without_a_scheme_are_scored_by_accuracy(
    run: Run, tmp_path: Path, labels: list[str]
) -> None:
    (tmp_path / "pos.conll").write_text("dog {}\nbarks {}\n".format(*labels))
    ran = run("train", "pos.conll", "--dev", "pos.conll", "--constraints", "auto")
    assert ran.code == 0, ran
    assert "dev accuracy 100.00" in ran.err
    assert trellis.load(tmp_path / "model.trellis").scoring == "accuracy"


# ---- features


CRFPP = "# words\nU00:%x[-1,0]\nU01:%x[0,0]\nU02:%x[0,0]/%x[1,0]\nB\n"
WAPITI = 'u:w=%X[0,0]\nu:caps=%t[0,0,"^\\u"]\nb\n'
EDGES = "U00:%x[0,0]\nB01:%x[0,0]\n"


@pytest.mark.parametrize("model", ["crf", "perceptron", "memm"])
@pytest.mark.parametrize(
    ("text", "parse"), [(CRFPP, templates.parse), (WAPITI, wapiti.parse)], ids=["crfpp", "wapiti"]
)
def test_templates_of_other_programs(
    run: Run, tmp_path: Path, text: str, parse: Any, model: str
) -> None:
    write(tmp_path)
    (tmp_path / "my.template").write_text(text)
    ran = run("train", "train.conll", "--template", "my.template", "-m", model)
    assert ran.code == 0, ran
    kind = MEMM if model == "memm" else CRF
    solver = "perceptron" if model == "perceptron" else "lbfgs"
    expected = kind(parse(text), solver=solver, **DEFAULTS).fit(X, Y)
    same_weights(tmp_path / "model.trellis", expected)


def test_templates_of_transitions(run: Run, tmp_path: Path) -> None:
    """Without a plain "B" line, bigram templates with observations still apply."""
    conll.write(tmp_path / "few.conll", X[:20], Y[:20])
    (tmp_path / "my.template").write_text(EDGES)
    assert run("train", "few.conll", "--template", "my.template").code == 0
    loaded = trellis.load(tmp_path / "model.trellis")
    alone = CRF(templates.parse("U00:%x[0,0]"), transitions="none").fit(X[:20], Y[:20])
    assert loaded.features_.names(edge=True) == list(
        dict.fromkeys(f"B01:{word}" for x in X[:20] for word in x[1:])
    )
    assert len(loaded.coef_) > len(alone.coef_)


def test_a_template_with_more_columns_than_the_data(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "my.template").write_text("U00:%x[0,1]\n")
    ran = run("train", "train.conll", "--template", "my.template", "-q")
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "2 columns" in ran.err
    assert not (tmp_path / "model.trellis").exists()


def test_template_errors_name_the_line(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    for text, message in (("U00:%x[0,0]\nU01:%x[0]\n", "line 2"), ('u:%x[0,0]\nu:%m[0,0,"("]', "")):
        (tmp_path / "my.template").write_text(text)
        ran = run("train", "train.conll", "--template", "my.template", "-q")
        assert ran.code == (1 if message else 0)
        assert message in ran.err


GAZETTEER = "\n".join(sorted({x[0] for x in X[:20]} | {"Joan Armatrading", "  "})) + "\n\n"


@pytest.mark.parametrize(
    ("options", "features"),
    [
        (["--features", "words"], None),
        (["--features", "ner"], ner((), {})),
        (["--gazetteer", "thing=my.list"], "window"),
        (["--gazetteer", "thing=my.list", "--features", "words"], "window"),
        (["--gazetteer", "thing=my.list", "--features", "ner"], "ner"),
    ],
    ids=typed,
)
def test_presets_and_gazetteers(
    run: Run, tmp_path: Path, options: list[str], features: Any
) -> None:
    write(tmp_path)
    (tmp_path / "my.list").write_text(GAZETTEER)
    lists = {"thing": [line for line in GAZETTEER.split("\n") if line.strip()]}
    known = {"window": Window(gazetteers=lists).spec(), "ner": ner((), lists)}
    spec = known[features] if isinstance(features, str) else features
    assert run("train", "train.conll", *options, "--max-iter", "10").code == 0
    expected = CRF(spec, max_iter=10, **DEFAULTS).fit(X, Y)
    loaded = same_weights(tmp_path / "model.trellis", expected)
    if "--gazetteer" in options:
        assert any("thing" in name for name in loaded.features_.names())
    assert loaded.predict(DEV[0]) == expected.predict(DEV[0])


def test_further_columns_are_features_except_with_features_words(run: Run, tmp_path: Path) -> None:
    tokens = [[(word, word[-1]) for word in x] for x in X]
    conll.write(tmp_path / "two.conll", tokens, Y)
    for options, model in (
        ([], CRF(Window(columns=("c1",)), max_iter=5)),
        (["--columns", "0"], CRF(max_iter=5)),
        (["--features", "words"], CRF(Window(), max_iter=5)),
        (["--features", "chunking"], CRF(chunking(), max_iter=5)),
    ):
        assert run("train", "two.conll", "--max-iter", "5", *options).code == 0
        words = options[:1] == ["--columns"]
        model.set_params(**DEFAULTS).fit(X if words else tokens, Y)
        same_weights(tmp_path / "model.trellis", model)
