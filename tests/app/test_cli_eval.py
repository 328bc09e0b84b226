"""`trellis eval`, `inspect`, `report`, `convert` and `demo` agree with the library."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Ran, tree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scale import examples

import trellis
from trellis import CRF, HMM, MEMM, metrics
from trellis.data import conll, corpus, jsonl, markup, samples, tags
from trellis.features import named

Run = Callable[..., Ran]
X, Y = samples.load("test", "calendar")


def entry(score: Any) -> dict[str, Any]:
    return dict(score._asdict())


def close(value: Any, expected: Any) -> bool:
    """Compare numbers that were written as JSON with those of the library, bit by bit."""
    return bool(json.loads(json.dumps(expected)) == value)


# ---- eval


@pytest.mark.parametrize("kind", [CRF, MEMM, HMM])
def test_scores_are_those_of_the_metrics(run: Run, tmp_path: Path, kind: Any) -> None:
    model = kind().fit(*samples.load("train", "calendar"))
    model.save(tmp_path / "m.trellis")
    conll.write(tmp_path / "x.conll", X, Y)
    ran = run("eval", "m.trellis", "x.conll", "--json")
    assert ran.code == 0
    assert ran.err.startswith("trellis: warning: x.conll, line 279: 3 of 314 labels do not occur")
    output = json.loads(ran.out)
    predicted = model.predict(X)
    expected = metrics.span_scores(Y, predicted)
    assert (output["model"], output["data"], output["scheme"]) == ("m.trellis", "x.conll", "BIO")
    assert output["accuracy"] == metrics.accuracy(Y, predicted)
    assert output["sequence_accuracy"] == metrics.sequence_accuracy(Y, predicted)
    assert close(output["micro"], entry(expected.micro))
    assert close(output["macro"], entry(expected.macro))
    assert close(output["per_label"], {k: entry(v) for k, v in expected.per_label.items()})
    assert output["micro"]["f1"] == metrics.span_f1(Y, predicted)


def test_confusions_are_the_largest(run: Run, folder: Path, model: CRF) -> None:
    labels, matrix = metrics.confusion(Y, model.predict(X))
    wrong = {(labels[a], labels[b]): int(n) for (a, b), n in np.ndenumerate(matrix) if a != b and n}
    every = json.loads(
        run("eval", "model.trellis", "test.conll", "--json", "--confusions", 10**6).out
    )
    assert {(c["true"], c["predicted"]): c["count"] for c in every["confusions"]} == wrong
    counts = [c["count"] for c in every["confusions"]]
    assert counts == sorted(counts, reverse=True)
    for count in (0, 3):
        ran = run("eval", "model.trellis", "test.conll", "--json", "--confusions", count)
        assert json.loads(ran.out)["confusions"] == every["confusions"][:count]


def test_the_worst_come_first(run: Run, folder: Path, model: CRF) -> None:
    output = json.loads(run("eval", "model.trellis", "test.conll", "--json", "--worst", 10**6).out)
    predicted = model.predict(X)
    known = set(model.classes_.tolist())
    wrong = [n for n, y in enumerate(Y) if y != predicted[n] and known.issuperset(y)]
    assert sorted(entry["sequence"] for entry in output["worst"]) == [n + 1 for n in wrong]
    means = [entry["log_likelihood"] / len(entry["tokens"]) for entry in output["worst"]]
    assert means == sorted(means)
    for entry in output["worst"]:
        n = entry["sequence"] - 1
        assert (entry["tokens"], entry["true"], entry["predicted"]) == (X[n], Y[n], predicted[n])
        assert entry["log_likelihood"] == pytest.approx(model.log_likelihood([X[n]], [Y[n]])[0])
    none = json.loads(run("eval", "model.trellis", "test.conll", "--json", "--worst", 0).out)
    assert none["worst"] == []


def test_tables_have_the_same_numbers_as_json(run: Run, folder: Path, model: CRF) -> None:
    ran = run("eval", "model.trellis", "test.conll")
    assert ran.code == 0
    predicted = model.predict(X)
    scores = metrics.span_scores(Y, predicted)
    for name, entry in [
        *scores.per_label.items(),
        ("micro", scores.micro),
        ("macro", scores.macro),
    ]:
        numbers = [f"{100 * v:.2f}" for v in (entry.precision, entry.recall, entry.f1)]
        row = rf"^{re.escape(name)} +{' +'.join(map(re.escape, numbers))} +{entry.support}\s*$"
        assert re.search(row, ran.out, re.MULTILINE), name
    assert f"token accuracy {100 * metrics.accuracy(Y, predicted):.2f}" in ran.out
    assert "\x1b" not in ran.out


def test_labels_without_a_tagging_scheme(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pos.conll").write_text("the DET\ndog NOUN\nbarks VERB\n\na DET\ncat NOUN\n")
    assert run("train", "pos.conll", "-q").code == 0
    (tmp_path / "test.conll").write_text("the DET\ncat VERB\n\nbarks VERB\n")
    output = json.loads(run("eval", "model.trellis", "test.conll", "--json").out)
    y = [["DET", "VERB"], ["VERB"]]
    predicted = trellis.load(tmp_path / "model.trellis").predict([["the", "cat"], ["barks"]])
    expected = metrics.label_report(y, predicted)
    assert output["scheme"] == "plain"
    assert close(output["per_label"], {k: entry(v) for k, v in expected.per_label.items()})
    assert close(output["micro"], entry(expected.micro))


def test_a_label_that_the_model_never_saw(run: Run, folder: Path) -> None:
    """The label counts as wrong and is listed as a confusion."""
    (folder / "odd.conll").write_text("lunch B-nosuch\nat O\n\nnoon O\n")
    output = json.loads(run("eval", "model.trellis", "odd.conll", "--json").out)
    assert output["per_label"]["nosuch"] == {
        "precision": 0.0,
        "recall": 0.0,
        "f1": 0.0,
        "support": 1,
    }
    assert "B-nosuch" in {c["true"] for c in output["confusions"]}
    assert run("eval", "model.trellis", "odd.conll").code == 0
    assert run("report", "model.trellis", "odd.conll", "-q") == (0, "", "")


def test_a_perfect_model(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.conll").write_text("lunch O\nnoon B-time\n\n" * 9)
    assert run("train", "t.conll", "-q").code == 0
    output = json.loads(run("eval", "model.trellis", "t.conll", "--json").out)
    assert output["micro"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 9}
    assert (output["confusions"], output["worst"], output["accuracy"]) == ([], [], 1.0)
    assert run("eval", "model.trellis", "t.conll").code == 0


def test_other_columns_and_formats(run: Run, folder: Path) -> None:
    expected = json.loads(run("eval", "model.trellis", "test.conll", "--json").out)
    expected.pop("data")
    rows = [[(y, "x", w) for w, y in zip(*pair, strict=True)] for pair in zip(X, Y, strict=True)]
    conll.write(folder / "turned.tsv", rows, None)
    conll.write(folder / "wide.conll", [[(w, "x") for w in x] for x in X], Y)
    jsonl.write(folder / "x.jsonl", X, Y)
    markup.write(folder / "x.md", X, Y)
    for arguments in (
        ["turned.tsv", "--columns", "2", "--label", "0"],
        ["wide.conll"],
        ["wide.conll", "--columns", "0"],
        ["x.jsonl"],
        ["x.md"],
    ):
        output = json.loads(run("eval", "model.trellis", *arguments, "--json").out)
        output.pop("data")
        assert output == expected


def test_brackets_in_file_names_are_not_markup(run: Run, folder: Path) -> None:
    """Rich would read ``[red]`` in a printed string as a colour."""
    (folder / "[red]test.conll").write_bytes((folder / "test.conll").read_bytes())
    ran = run("eval", "model.trellis", "[red]test.conll")
    assert ran.code == 0
    assert ran.out.startswith("model.trellis on [red]test.conll: ")


# ---- inspect


def test_inspect_lists_what_is_in_the_file(run: Run, folder: Path, model: CRF) -> None:
    output = json.loads(run("inspect", "model.trellis", "--json", "--top", 5).out)
    assert output["bytes"] == (folder / "model.trellis").stat().st_size
    assert output["model"] == "CRF"
    assert output["labels"] == model.classes_.tolist()
    assert (output["attributes"], output["weights"]) == (len(model.features_), len(model.coef_))
    assert (output["iterations"], output["loss"]) == (model.n_iter_, model.objective_)
    assert output["losses"] == [list(entry) for entry in model.losses_]
    assert output["parameters"]["l2"] == 0.1
    assert output["features"] == [dict(w._asdict()) for w in model.top_features(5)]
    scores = model.transition_scores()
    weights = [entry["weight"] for entry in output["transitions"]]
    assert weights == sorted(weights, reverse=True)
    assert len(weights) == 10
    assert (weights[0], weights[-1]) == (scores.max(), scores.min())
    labels = model.classes_.tolist()
    for entry in output["transitions"]:
        assert (
            scores[labels.index(entry["before"]), labels.index(entry["after"])] == entry["weight"]
        )


def test_inspect_one_label(run: Run, folder: Path, model: CRF) -> None:
    output = json.loads(
        run("inspect", "model.trellis", "--json", "--label", "B-time", "--top", 3).out
    )
    assert output["features"] == [dict(w._asdict()) for w in model.top_features(3, "B-time")]
    assert {entry["label"] for entry in output["features"]} == {"B-time"}
    assert json.loads(run("inspect", "model.trellis", "--json", "--top", 0).out)["features"] == []


@pytest.mark.parametrize("kind", [CRF, MEMM, HMM])
def test_inspect_in_tables(run: Run, tmp_path: Path, kind: Any) -> None:
    model = kind().fit(*samples.load("train", "calendar"))
    model.save(tmp_path / "m.trellis")
    ran = run("inspect", "m.trellis")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(kind.__name__)
    assert f"{len(model.classes_)} labels, {len(model.features_):,} attributes" in ran.out
    assert "\x1b" not in ran.out
    output = json.loads(run("inspect", "m.trellis", "--json").out)
    assert output["model"] == kind.__name__


def test_inspect_shows_features_of_transitions(run: Run, tmp_path: Path) -> None:
    X, y = samples.load("train", "calendar")
    model = CRF(named(["w[0]"], edges=["w[0]"]), max_iter=5).fit(X, y)
    model.save(tmp_path / "m.trellis")
    output = json.loads(run("inspect", "m.trellis", "--json", "--top", 4).out)
    want = [weight._asdict() for weight in model.top_edge_features(4)]
    assert output["edge_features"] == want
    one = json.loads(run("inspect", "m.trellis", "--json", "--label", "B-time").out)
    assert {entry["after"] for entry in one["edge_features"]} == {"B-time"}
    assert len(one["edge_features"]) == 10
    text = run("inspect", "m.trellis", "--top", 2).out
    table = text[text.index("top features of transitions") :].split("\n")
    assert table[1].split() == ["from", "to", "feature", "weight"]
    first = model.top_edge_features(1)[0]
    cells = [first.before, first.after, first.feature, f"{first.weight:+.3f}"]
    assert table[2].split() == cells
    assert text.index("top features of each label") < text.index("top features of transitions")


def test_commands_with_a_model_of_order_2(run: Run, tmp_path: Path) -> None:
    model = CRF(order=2, max_iter=10).fit(X, Y)
    model.save(tmp_path / "m.trellis")
    output = json.loads(run("inspect", "m.trellis", "--json", "--top", 3).out)
    assert output["parameters"]["order"] == 2
    weights = model.trigrams_
    assert output["trigrams"] == [t._asdict() for t in weights[:3] + weights[-3:]]
    text = run("inspect", "m.trellis", "--top", 2).out
    assert "three labels in a row" in text
    table = text.split("three labels in a row")[1]
    assert table.split()[:4] == ["first", "second", "third", "weight"]
    conll.write(tmp_path / "data.conll", X[:5], Y[:5])
    score = json.loads(run("eval", "m.trellis", "data.conll", "--json").out)
    assert score["accuracy"] == metrics.accuracy(Y[:5], model.predict(X[:5]))
    tagged = run("tag", "m.trellis", "data.conll", "--decode", "marginal")
    assert [line.split()[-1] for line in tagged.out.split("\n") if line] == [
        label for labels in model.predict(X[:5], decode="marginal") for label in labels
    ]
    assert run("report", "m.trellis", "data.conll", "-o", "report.html").code == 0
    assert "Transitions" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_inspect_without_features_of_transitions(run: Run, folder: Path, model: CRF) -> None:
    output = json.loads(run("inspect", "model.trellis", "--json").out)
    assert "edge_features" not in output
    assert "features of transitions" not in run("inspect", "model.trellis").out


def test_json_contains_no_infinities_or_nan(run: Run, tmp_path: Path) -> None:
    """Forbidden transitions have weight -∞, which JSON cannot represent."""
    X, y = samples.load("train", "calendar")
    CRF(constraints="BIO", max_iter=3).fit(X, y).save(tmp_path / "m.trellis")
    HMM(smoothing=0.0).fit(X, y).save(tmp_path / "hmm.trellis")
    conll.write(tmp_path / "t.conll", X, y)

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    for model in ("m.trellis", "hmm.trellis"):
        for arguments in (["inspect", model, "--top", "50"], ["eval", model, "t.conll"]):
            ran = run(*arguments, "--json")
            assert ran.code == 0, ran
            json.loads(ran.out, parse_constant=refuse)
    assert run("inspect", "m.trellis").code == 0


# ---- report


def test_report_writes_the_page_of_the_library(run: Run, folder: Path) -> None:
    ran = run("report", "model.trellis", "test.conll", "-o", "page.html")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.splitlines()[-1].startswith("page.html: ")
    page = (folder / "page.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    f1 = metrics.span_f1(Y, trellis.load(folder / "model.trellis").predict(X))
    assert f"{100 * f1:.1f}" in page
    first = tree(folder)["page.html"]
    assert run("report", "model.trellis", "test.conll", "-o", "page.html", "-q") == (0, "", "")
    assert tree(folder)["page.html"] == first


# ---- convert


def test_conversion_and_back_is_lossless(run: Run, folder: Path) -> None:
    for arguments in (
        ["a.jsonl", "b.conll"],
        ["a.conll.gz", "b.conll"],
        ["a.ndjson", "b.md.xz", "b.conll"],
    ):
        here = "test.conll"
        for name in arguments:
            ran = run("convert", here, name)
            assert (ran.code, ran.out) == (0, ""), ran
            assert ran.err == f"{name}: {len(X)} sequences, {sum(map(len, X)):,} tokens\n"
            here = name
        assert (folder / "b.conll").read_bytes() == (folder / "test.conll").read_bytes()


def test_compressed_by_file_name(run: Run, folder: Path) -> None:
    assert run("convert", "test.conll", "a.jsonl.gz", "-q") == (0, "", "")
    assert (folder / "a.jsonl.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert jsonl.read(folder / "a.jsonl.gz") == (X, Y)


def test_formats_chosen_by_options(run: Run, folder: Path) -> None:
    assert run("convert", "test.conll", "odd", "--to", "markup").code == 0
    assert run("convert", "odd", "odd2", "--from", "markup", "--to", "jsonl").code == 0
    sequences, labels = jsonl.read(folder / "odd2")
    assert [tags.spans(y, "BIO") for y in labels] == [
        tags.spans(y, "BIO") for y in markup.read(folder / "odd")[1]
    ]
    assert sequences == markup.read(folder / "odd")[0]


def test_converting_a_file_onto_itself(run: Run, folder: Path) -> None:
    assert run("convert", "test.conll", "test.conll", "--scheme", "BILOU").code == 0
    assert conll.read(folder / "test.conll") == (X, [tags.convert(y, "BIO", "BILOU") for y in Y])


def test_columns_are_chosen(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Rome NNP x B-place\nsleeps VBZ y O\n")
    assert run("convert", "a.conll", "b.conll", "--columns", "0", "--label", "1").code == 0
    assert (tmp_path / "b.conll").read_text() == "Rome\tNNP\nsleeps\tVBZ\n\n"
    assert run("convert", "a.conll", "c.jsonl").code == 0
    assert jsonl.read(tmp_path / "c.jsonl") == (
        [[("Rome", "NNP", "x"), ("sleeps", "VBZ", "y")]],
        [["B-place", "O"]],
    )


@pytest.mark.parametrize("scheme", [s for s in tags.SCHEMES if s != "plain"])
def test_schemes(run: Run, folder: Path, scheme: str) -> None:
    assert run("convert", "test.conll", "a.jsonl", "--scheme", scheme).code == 0
    expected = [tags.convert(y, "BIO", scheme) for y in Y]
    assert jsonl.read(folder / "a.jsonl") == (X, expected)
    assert run("convert", "a.jsonl", "b.conll", "--scheme", "BIO").code == 0
    assert conll.read(folder / "b.conll") == (X, Y)


def test_other_names_of_schemes(run: Run, folder: Path) -> None:
    """IOB2 is another name of BIO, so BIO data stay unchanged."""
    assert run("convert", "test.conll", "a.conll", "--scheme", "IOB2").code == 0
    assert (folder / "a.conll").read_bytes() == (folder / "test.conll").read_bytes()
    assert run("convert", "test.conll", "a.conll", "--scheme", "IOBES").code == 0
    assert conll.read(folder / "a.conll")[1] == [tags.convert(y, "BIO", "BIOES") for y in Y]


def test_markup_with_another_scheme(run: Run, folder: Path) -> None:
    assert run("convert", "test.conll", "a.conll", "--scheme", "BILOU").code == 0
    assert run("convert", "a.conll", "a.md").code == 0
    assert run("convert", "test.conll", "b.md").code == 0
    assert (folder / "a.md").read_bytes() == (folder / "b.md").read_bytes()


word = st.text(st.characters(whitelist_categories=["L", "N", "P", "S"]), min_size=1, max_size=6)
label = st.sampled_from(["O", "B-a", "B-b-c", "B-ä"])
sequence = st.lists(st.tuples(word, label), min_size=1, max_size=5)


@given(data=st.lists(sequence, min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
def test_any_corpus_survives_a_round_trip(run: Run, tmp_path: Path, data: Any) -> None:
    X, y = ([[pair[k] for pair in x] for x in data] for k in (0, 1))
    jsonl.write(tmp_path / "a.jsonl", X, y)
    before = corpus.read(tmp_path / "a.jsonl")
    assert before == (X, y)
    ran = run("convert", "a.jsonl", "b.conll", "-q")
    assert ran == (0, "", "")
    assert run("convert", "b.conll", "c.jsonl", "-q").code == 0
    if "-DOCSTART-" not in {x[0] for x in X}:
        assert corpus.read(tmp_path / "c.jsonl") == before
    assert run("convert", "a.jsonl", "d.md", "-q").code == 0
    assert markup.read(tmp_path / "d.md", split=True) == before


# ---- demo


@pytest.mark.slow
def test_the_demo(run: Run, tmp_path: Path) -> None:
    ran = run("demo", "-o", "sub/demo")
    assert (ran.code, ran.err) == (0, "")
    names = sorted(tree(tmp_path / "sub" / "demo"))
    assert names[:4] == ["dev.conll", "model.trellis", "report.html", "train.conll"]
    assert all(name.startswith("trellis.") for name in names[4:])  # a picture
    assert "\x1b" not in ran.out
    model = trellis.load(tmp_path / "sub" / "demo" / "model.trellis")
    X, y = samples.generate("held_out")
    assert f"F1 {100 * metrics.span_f1(y, model.predict(X)):.1f} " in ran.out
