"""`trellis tag` writes the labels of `predict`, for every input and output format."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Ran
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scale import examples

import trellis
from trellis import CRF, HMM, MEMM
from trellis.data import conll, jsonl, markup, samples, text

Run = Callable[..., Ran]
X, Y = samples.load("test", "calendar")
LINES = [
    re.sub(r"\[(.*?)\]\(.*?\)", r"\1", line)
    for paragraph in samples.paragraphs("calendar")[:12]
    for line in paragraph
]
AS_TEXT = [text.tokenize(line) for line in LINES]


def labelled_conll(out: str) -> tuple[Any, Any]:
    return conll.read(out.splitlines())


def labelled_jsonl(out: str) -> tuple[Any, Any]:
    return jsonl.read(out.splitlines())


def spans(y: list[str]) -> list[Any]:
    return trellis.data.tags.spans(y, "BIO")


# ---- input formats


def inputs(folder: Path) -> dict[str, tuple[bytes, list[list[str]]]]:
    """Write a file of each format; return the sequences that `predict` should get."""
    for name in ("x.conll", "x.jsonl", "x.md"):
        module = {"x.conll": conll, "x.jsonl": jsonl, "x.md": markup}[name]
        module.write(folder / name, X, Y)
    rows = [
        f"{n}\t{word}\t_\tX\t_\t_\t0\t_\t_\t_" if word else ""
        for x in X
        for n, word in [*enumerate(x, 1), (0, "")]
    ]
    files = {name: (folder / name).read_bytes() for name in ("x.conll", "x.jsonl", "x.md")}
    raw = "\n".join(json.dumps({"text": line, "id": n}) for n, line in enumerate(LINES))
    return {
        "text": ("\n".join(LINES).encode(), AS_TEXT),
        "tokens": ("\n".join(map(" ".join, X)).encode(), X),
        "conll": (files["x.conll"], X),
        "jsonl": (files["x.jsonl"], X),
        "raw jsonl": (raw.encode(), AS_TEXT),
        "markup": (files["x.md"], [text.tokenize(" ".join(x)) for x in X]),
        "conllu": ("\n".join(rows).encode(), X),
    }


SUFFIX = {
    "conll": ".conll",
    "jsonl": ".jsonl",
    "markup": ".md",
    "conllu": ".conllu",
    "text": ".txt",
}


@pytest.mark.parametrize(
    "kind", ["text", "tokens", "conll", "jsonl", "raw jsonl", "markup", "conllu"]
)
def test_every_format_in_and_out(run: Run, folder: Path, model: CRF, kind: str) -> None:
    data, tokens = inputs(folder)[kind]
    format = kind.removeprefix("raw ")
    expected = model.predict(tokens)
    (folder / "data").write_bytes(data)
    if format in SUFFIX:
        (folder / f"data{SUFFIX[format]}").write_bytes(data)
        (folder / f"packed{SUFFIX[format]}.gz").write_bytes(gzip.compress(data))
    for output, read in (("conll", labelled_conll), ("jsonl", labelled_jsonl)):
        common = ("tag", "model.trellis", "--output", output)
        piped = run(*common, "--format", format, stdin=data)
        assert (piped.code, piped.err) == (0, "")
        sequences, labels = read(piped.out)
        assert labels == expected
        if format == "conll" and output == "conll":  # the label of the input is kept as a column
            assert [[token[0] for token in x] for x in sequences] == tokens
            assert [[token[1] for token in x] for x in sequences] == Y
        else:
            assert sequences == tokens
        assert run(*common, "--format", format, "data").out == piped.out
        assert run(*common, "--format", format, "-", stdin=data).out == piped.out
        if format in SUFFIX:
            assert run(*common, f"data{SUFFIX[format]}").out == piped.out
            assert run(*common, f"packed{SUFFIX[format]}.gz").out == piped.out


@pytest.mark.parametrize(
    "kind", ["text", "tokens", "conll", "jsonl", "raw jsonl", "markup", "conllu"]
)
def test_inline_output_is_markup(run: Run, folder: Path, model: CRF, kind: str) -> None:
    data, tokens = inputs(folder)[kind]
    ran = run(
        "tag", "model.trellis", "--output", "inline", "--format", kind.split()[-1], stdin=data
    )
    raw = kind in ("text", "raw jsonl", "markup")
    sequences, labels = markup.read(ran.out.splitlines(), split=not raw)
    assert sequences == tokens
    assert [spans(y) for y in labels] == [spans(y) for y in model.predict(tokens)]


def test_default_output_formats(run: Run, folder: Path) -> None:
    data = inputs(folder)
    for kind, output in (
        ("text", "inline"),
        ("markup", "inline"),
        ("tokens", "conll"),
        ("conll", "conll"),
        ("conllu", "conll"),
        ("jsonl", "jsonl"),
    ):
        common = ("tag", "model.trellis", "--format", kind)
        default = run(*common, stdin=data[kind][0]).out
        assert default == run(*common, "--output", output, stdin=data[kind][0]).out


def test_a_model_of_columns_reads_columns_from_standard_input(run: Run, tmp_path: Path) -> None:
    (tmp_path / "two.conll").write_text("Rome NNP B-place\nsleeps VBZ O\n")
    assert run("train", "two.conll", "-o", "two.trellis").code == 0
    ran = run("tag", "two.trellis", stdin=b"Rome NNP\nsleeps VBZ\n\nRome NNP B-x y\n")
    assert ran.code == 1
    assert "line 4" in ran.err
    ran = run("tag", "two.trellis", stdin=b"Rome NNP\nsleeps VBZ\n\nRome NNP\n")
    assert ran == (0, "Rome\tNNP\tB-place\nsleeps\tVBZ\tO\n\nRome\tNNP\tB-place\n\n", "")


def test_extra_columns_are_kept(run: Run, folder: Path, model: CRF) -> None:
    rows = [[(word, str(n), "x y", "O") for n, word in enumerate(x)] for x in X]
    conll.write(folder / "wide.conll", rows, None)
    ran = run("tag", "model.trellis", "wide.conll")
    sequences, labels = labelled_conll(ran.out)
    assert sequences == rows
    assert labels == model.predict(X)
    turned = [[(n, "x y", word) for word, n, *_ in x] for x in rows]
    conll.write(folder / "turned.conll", turned, None)
    sequences, labels = labelled_conll(
        run("tag", "model.trellis", "turned.conll", "--columns", 2).out
    )
    assert (sequences, labels) == (turned, model.predict(X))
    assert (
        labels
        == labelled_conll(run("tag", "model.trellis", "turned.conll", "--columns", "-1").out)[1]
    )


def test_other_keys_of_an_object_are_kept(run: Run, folder: Path) -> None:
    lines = (
        b'{"id": 7, "text": "lunch at noon", "tags": ["x"]}\n{"tokens": ["lunch"], "by": ["me"]}\n'
    )
    first, second = map(
        json.loads, run("tag", "model.trellis", "--format", "jsonl", stdin=lines).out.splitlines()
    )
    assert (first["id"], first["text"]) == (7, "lunch at noon")
    assert first["tokens"] == ["lunch", "at", "noon"]
    assert len(first["tags"]) == 3
    assert second["by"] == ["me"]
    assert len(second["tags"]) == 1


def test_document_boundaries_are_kept(run: Run, folder: Path) -> None:
    data = b"-DOCSTART- O\n\nlunch O\n\n-DOCSTART- O\nat O\n"
    out = run("tag", "model.trellis", "--format", "conll", stdin=data).out
    assert [line.split("\t")[0] for line in out.split("\n") if line] == [
        *("-DOCSTART-", "lunch", "-DOCSTART-", "at")
    ]
    assert [len(block.split("\n")) for block in out.removesuffix("\n\n").split("\n\n")] == [1] * 4


# ---- blank lines and unusual text


TEXT = "lunch at noon\n\n   \n\nsee Ann (at 8) [sic] \\ # 1\n# no comment\n\n"


def test_blank_lines_of_text_keep_their_places(run: Run, folder: Path, model: CRF) -> None:
    lines = TEXT.split("\n")[:-1]
    tokens = [text.tokenize(line) for line in lines]
    out = run("tag", "model.trellis", stdin=TEXT.encode()).out.split("\n")
    assert out.pop() == ""
    assert len(out) == len(lines)
    assert [line for line in out if not line.strip()] == ["", "   ", "", ""]
    objects = run("tag", "model.trellis", "--output", "jsonl", stdin=TEXT.encode()).out.splitlines()
    assert [json.loads(line)["text"] for line in objects] == lines
    assert [json.loads(line)["tokens"] for line in objects] == tokens
    assert [json.loads(line)["tags"] for line in objects] == model.predict(tokens)


@pytest.mark.parametrize("options", [[], ["--kbest", "2"], ["--marginals"], ["--output", "conll"]])
def test_text_without_a_single_token(run: Run, folder: Path, options: list[str]) -> None:
    for data in (b"", b"\n", b" \n\n"):
        ran = run("tag", "model.trellis", *options, stdin=data)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.count("\n") == (0 if "conll" in options else data.count(b"\n"))


characters = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\n\r"))


@given(lines=st.lists(characters, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
def test_any_text_survives_inline_output(
    run: Run, folder: Path, model: CRF, lines: list[str]
) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    tokens = [
        text.tokenize(line.removeprefix("\ufeff") if n == 0 else line)
        for n, line in enumerate(lines)
    ]
    ran = run("tag", "model.trellis", "--format", "text", stdin=data)
    assert ran.code == 0
    marked = ran.out.split("\n")[:-1]
    assert len(marked) == len(lines)
    expected = model.predict(tokens)
    for line, x, y in zip(marked, tokens, expected, strict=True):
        if x:
            sequences, labels = markup.read([line])
            assert sequences == [x]
            assert spans(labels[0]) == spans(y)
        else:
            assert markup.read([line]) == ([], [])
    for output, read in (("jsonl", labelled_jsonl), ("conll", None)):
        out = run("tag", "model.trellis", "--format", "text", "--output", output, stdin=data).out
        if read is None:
            sequences, labels = conll.read(out.split("\n"), separator="\t")
            nonempty = [n for n, x in enumerate(tokens) if x]
            assert sequences == [tokens[n] for n in nonempty]
            assert labels == [expected[n] for n in nonempty]
        else:
            sequences, labels = jsonl.read(out.split("\n"))
            assert (sequences, labels) == (tokens, expected)


@given(
    x=st.lists(
        st.text(st.characters(blacklist_categories=["Cs"]), max_size=4), min_size=1, max_size=4
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40))
def test_any_tokens_survive_or_are_refused(
    run: Run, folder: Path, model: CRF, x: list[str]
) -> None:
    data = (json.dumps({"tokens": x}) + "\n").encode()
    expected = model.predict([x])
    ran = run("tag", "model.trellis", "--format", "jsonl", stdin=data)
    if ran.code == 0:
        assert jsonl.read(ran.out.split("\n")) == ([x], expected)
    else:
        assert "\0" in "".join(x)
    ran = run("tag", "model.trellis", "--format", "jsonl", "--output", "conll", stdin=data)
    if ran.code == 0:
        assert conll.read(ran.out.split("\n"), separator="\t") == ([x], expected)
    else:
        assert ran.err.count("\n") == 1
        assert "sequence" in ran.err or "line 1" in ran.err
        assert any(re.search(r"[\t\r\n\0]|^\s*$|^-DOCSTART-$", token) for token in x), ran.err


# ---- probabilities


@pytest.fixture(scope="module", params=["crf", "memm", "hmm"])
def trained(request: pytest.FixtureRequest) -> Any:
    kind = {"crf": CRF, "memm": MEMM, "hmm": HMM}[request.param]
    return kind().fit(*samples.load("train", "calendar"))


def test_marginals(run: Run, tmp_path: Path, trained: Any) -> None:
    trained.save(tmp_path / "m.trellis")
    conll.write(tmp_path / "x.conll", X, Y)
    classes = trained.classes_.tolist()
    tables, labels = trained.predict_marginals(X), trained.predict(X)
    objects = run("tag", "m.trellis", "x.conll", "--marginals", "--output", "jsonl").out
    for line, table, y in zip(objects.splitlines(), tables, labels, strict=True):
        output = json.loads(line)
        assert output["tags"] == y
        for row, chances in zip(output["marginals"], table, strict=True):
            expected = {c: p for c, p in zip(classes, chances.tolist(), strict=True) if p >= 1e-4}
            assert row == {c: round(p, 6) for c, p in expected.items()}
    rows, column = conll.read(
        run("tag", "m.trellis", "x.conll", "--marginals").out.splitlines(), label_column=-1
    )
    for x, ps, table, y in zip(rows, column, tables, labels, strict=True):
        assert [row[-1] for row in x] == y
        assert ps == [f"{row[classes.index(c)]:.6f}" for row, c in zip(table, y, strict=True)]


def test_marginals_inline(run: Run, folder: Path, model: CRF) -> None:
    """The probability of a span is the lowest probability of its labels."""
    data = "\n".join(LINES).encode()
    out = run("tag", "model.trellis", "--marginals", stdin=data).out.splitlines()
    classes = model.classes_.tolist()
    tables, labels = model.predict_marginals(AS_TEXT), model.predict(AS_TEXT)
    for line, table, y in zip(out, tables, labels, strict=True):
        expected = [
            f"{s.label} {min(table[t][classes.index(y[t])] for t in range(s.start, s.end)):.2f}"
            for s in spans(y)
        ]
        assert [label for paths in markup.read([line])[1] for label, *_ in spans(paths)] == expected


@pytest.mark.parametrize("k", [1, 3])
def test_kbest(run: Run, tmp_path: Path, trained: Any, k: int) -> None:
    trained.save(tmp_path / "m.trellis")
    few = X[:8]
    conll.write(tmp_path / "x.conll", few, Y[:8])
    best = trained.predict_kbest(few, k)
    common = ("tag", "m.trellis", "x.conll", "--kbest", k)
    objects = [json.loads(line) for line in run(*common, "--output", "jsonl").out.splitlines()]
    for output, paths in zip(objects, best, strict=True):
        assert output["tags"] == paths[0].labels
        assert output["kbest"] == [
            {"tags": path.labels, "probability": round(path.probability, 6)} for path in paths
        ]
    out = run(*common).out
    heads = [line.split(" ") for line in out.splitlines() if line.startswith("# ")]
    expected = [
        ["#", str(n), f"{path.probability:.6f}"]
        for paths in best
        for n, path in enumerate(paths, 1)
    ]
    assert heads == expected
    assert labelled_conll(out)[1] == [path.labels for paths in best for path in paths]
    lines = run(*common, "--output", "inline").out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [
        f"{path.probability:.4f}" for paths in best for path in paths
    ]


def test_kbest_with_marginals(run: Run, folder: Path, model: CRF) -> None:
    ran = run(
        "tag",
        "model.trellis",
        "--kbest",
        2,
        "--marginals",
        "--output",
        "jsonl",
        stdin=b"lunch at noon",
    )
    output = json.loads(ran.out)
    assert set(output) == {"text", "tokens", "tags", "marginals", "kbest"}
    assert len(output["kbest"]) == 2
    assert output["marginals"][0][output["tags"][0]] > 0


def test_kbest_of_more_than_all_labellings(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.conll").write_text("a O\n\nb B-x\n")
    assert run("train", "t.conll", "-q", "-o", "m").code == 0
    ran = run("tag", "m", "--kbest", 10, "--output", "jsonl", stdin=b"a b\n")
    best = json.loads(ran.out)["kbest"]
    assert len(best) == 4
    assert sum(paths["probability"] for paths in best) == pytest.approx(1, abs=1e-5)
