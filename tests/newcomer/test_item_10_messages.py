"""Item 10: messages say what is wrong, where, and what to do."""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Ran
from sklearn.base import clone

from trellis import (
    CRF,
    HMM,
    MEMM,
    FastText,
    GraphCRF,
    GridCRF,
    LogisticRegression,
    SoftmaxRegression,
    TextClassifier,
    Word2Vec,
)
from trellis.errors import InputError

Run = Callable[..., Ran]
ROWS = "café\tB-food\nis\tO\nopen\tO\n\n"


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str, str | bytes], None]:
    def write(name: str, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)

    return write


# ---- encodings


@pytest.mark.parametrize(("encoding", "guess"), [("cp1252", "cp1252"), ("utf-16", "utf-16")])
def test_bytes_that_are_not_utf_8(
    run: Run, folder: Path, files: Any, encoding: str, guess: str
) -> None:
    files("a.conll", (ROWS * 3).encode(encoding))
    for command in (
        ["train", "a.conll", "-o", "new.trellis"],
        ["train", "train.conll", "--dev", "a.conll", "-o", "new.trellis"],
        ["eval", "model.trellis", "a.conll"],
        ["report", "model.trellis", "a.conll"],
        ["tag", "model.trellis", "a.conll"],
        ["convert", "a.conll", "b.jsonl"],
    ):
        ran = run(*command)
        assert ran.code == 1
        hint = f"pass it: encoding='{guess}', or --encoding {guess} in commands\n"
        assert ran.err.startswith("trellis: a.conll, line 1: not utf-8: "), command
        assert ran.err.endswith(hint)
    option = ["--encoding", encoding]
    assert run("train", "a.conll", "--dev", "a.conll", "-q", "-o", "n.trellis", *option).code == 0
    ran = run("eval", "n.trellis", "a.conll", "--json", *option)
    assert json.loads(ran.out)["accuracy"] == 1.0
    assert "café\tB-food\tB-food" in run("tag", "n.trellis", "a.conll", *option).out
    assert run("report", "n.trellis", "a.conll", *option).code == 0
    assert run("convert", "a.conll", "b.conll", "-q", *option).code == 0
    assert (folder / "b.conll").read_text() == ROWS * 3


def test_standard_input_and_gazetteers_have_the_encoding(run: Run, files: Any) -> None:
    files("a.conll", (ROWS * 3).encode("cp1252"))
    files("food.txt", "café\n".encode("cp1252"))
    options = ["--encoding", "cp1252", "--gazetteer", "food=food.txt"]
    assert run("train", "a.conll", "-q", *options).code == 0
    text = "café is open\n".encode("cp1252")
    assert "[café](food)" in run("tag", "model.trellis", "--encoding", "cp1252", stdin=text).out
    assert "food" in run("inspect", "model.trellis", "--top", 100).out


def test_an_encoding_that_does_not_exist(misused: Callable[..., str]) -> None:
    for command in (["tag", "model.trellis"], ["eval", "model.trellis", "test.conll"]):
        assert "--encoding is 'nosuch'" in misused(*command, "--encoding", "nosuch")


# ---- CSV and JSON arrays

CSV = "word,pos,label\nAnn,NNP,B-person\nsings,VBZ,O\n"
ARRAY = '[{"tokens": ["a"], "tags": ["O"]}]'


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", CSV, "the file is CSV: separate the columns by tabs instead of ','"),
        ("a.data", CSV, "the file is CSV: separate the columns by tabs instead of ','"),
        ("a.csv", CSV.replace(",", ";"), "separate the columns by tabs instead of ';'"),
        ("a.json", ARRAY, "the file is a JSON array: write JSON lines instead, one object per"),
        ("a.jsonl", ARRAY, "the file is a JSON array: write JSON lines instead, one object per"),
        ("a.json", json.dumps(json.loads(ARRAY), indent=1), "the file is a JSON array"),
        ("a.json", '{\n"tokens": ["a"]}', "the file is JSON with objects of several lines"),
        ("a.json", '{"tokens": ["a"],\n"tags": ["O"]}', "JSON with objects of several lines"),
    ],
)
def test_other_formats_are_named(
    refused: Callable[..., str], files: Any, name: str, content: str, problem: str
) -> None:
    files(name, content)
    for command in (
        ["train", name],
        ["eval", "model.trellis", name],
        ["report", "model.trellis", name],
        ["convert", name, "b.conll"],
    ):
        refused(*command, names=[f"{name}: {problem}"] if problem[0] == "t" else [name, problem])
    if name == "a.csv":
        refused("tag", "model.trellis", name, names=["a.csv: CSV is not read: write one token"])
    elif name == "a.json":
        refused("tag", "model.trellis", name, names=[problem])


@pytest.mark.parametrize(
    "text", ["1,5 B-X\n2,5 O\n", ",\tO\na\tO\n", "[\tO\n", '["\tO\n', "x\tO\n{\tO\n"]
)
def test_tokens_with_commas_and_brackets_are_data(run: Run, files: Any, text: str) -> None:
    files("a.conll", text)
    assert run("train", "a.conll", "-q").code == 0


def test_conllu_is_detected(run: Run, files: Any) -> None:
    files("a.txt", "# text = a\n1\ta\ta\tX\tY\t_\t_\t_\t_\t_\n\n" * 2)
    assert run("train", "a.txt", "-q").code == 0
    assert json.loads(run("inspect", "model.trellis", "--json").out)["labels"] == ["X"]


# ---- data and models exchanged


def test_a_data_file_as_a_model(refused: Callable[..., str]) -> None:
    for command in (["tag"], ["eval"], ["report"]):
        refused(
            *command,
            "test.conll",
            "model.trellis",
            names=["test.conll: the content is text, not a .trellis file; the model comes first"],
        )
    refused("inspect", "test.conll", names=["test.conll: the content is text"])
    refused("classify", "test.conll", names=["test.conll: the content is text"])


def test_a_model_as_data(refused: Callable[..., str]) -> None:
    for command in (
        ["train", "model.trellis", "-o", "new.trellis"],
        ["train", "train.conll", "--dev", "model.trellis", "-o", "new.trellis"],
        ["eval", "model.trellis", "model.trellis"],
        ["report", "model.trellis", "model.trellis"],
        ["tag", "model.trellis", "model.trellis"],
    ):
        refused(*command, names=["model.trellis: the file is a model, expected data"])
    names = ["model.trellis: the file is a model: --to must be trellis or crfsuite, not conll"]
    refused("convert", "model.trellis", "a.conll", names=names)


# ---- IOB1 with constraints

IOB1 = "Ann\tI-PER\nsings\tO\n\nBob\tI-PER\nLee\tB-PER\n\n"


def test_iob1_points_to_convert(run: Run, files: Any) -> None:
    files("a.conll", IOB1)
    for scheme in ("BIO", "BILOU", "auto"):
        ran = run("train", "a.conll", "--constraints", scheme)
        target = "BIO" if scheme == "auto" else scheme
        assert "a.conll: sequence 0, position 0: 'I-PER' must not be" in ran.err
        hint = f"such as IOB1, convert them: `trellis convert FROM TO --scheme {target}`"
        assert hint in ran.err
        assert run("convert", "a.conll", "b.conll", "--scheme", target, "-q").code == 0
        assert run("train", "b.conll", "--constraints", target, "-q").code == 0


def test_convert_repairs_labels_that_look_like_the_scheme(
    run: Run, files: Any, tmp_path: Path
) -> None:
    files("a.conll", IOB1)
    assert run("convert", "a.conll", "b.conll", "--scheme", "BIO", "-q").code == 0
    lines = (tmp_path / "b.conll").read_text().splitlines()
    labels = [line.split("\t")[1] for line in lines if line]
    assert labels == ["B-PER", "O", "B-PER", "B-PER"]
    assert run("convert", "a.conll", "c.conll", "-q").code == 0
    assert (tmp_path / "c.conll").read_text() == IOB1


def test_pairs_as_constraints_have_no_scheme() -> None:
    with pytest.raises(InputError, match=r"under the constraints of the model$"):
        CRF(constraints=[("A", "B")]).fit([["x", "y"]], [["A", "B"]])


# ---- names of parameters


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (CRF, {"c1": 1}, "CRF() has no parameter 'c1': write l1"),
        (CRF, {"c2": 1}, "CRF() has no parameter 'c2': write l2, which is twice c2"),
        (MEMM, {"c1": 0.1, "l2": 1}, "MEMM() has no parameter 'c1': write l1"),
        (MEMM, {"l22": 1}, "MEMM() has no parameter 'l22': did you mean l2?"),
        (CRF, {"feature": 1}, "CRF() has no parameter 'feature': did you mean features?"),
        (CRF, {"L2": 1}, "CRF() has no parameter 'L2': did you mean l2?"),
        (CRF, {"xyz": 1}, "CRF() has no parameter 'xyz': the parameters are features, edge_"),
        (CRF, {"algorithm": "l2sgd"}, "CRF() has no parameter 'algorithm': write solver"),
        (CRF, {"all_possible_transitions": True}, 'write transitions="all"'),
        (HMM, {"c2": 1}, "HMM() has no parameter 'c2': the parameters are features, smoothing"),
        (HMM, {"smooting": 1}, "HMM() has no parameter 'smooting': did you mean smoothing?"),
        (GraphCRF, {"C": 1}, "GraphCRF() has no parameter 'C': write l2, which is 1 / C"),
        (GridCRF, {"contrasts": 1}, "GridCRF() has no parameter 'contrasts': did you mean"),
        (LogisticRegression, {"C": 1}, "LogisticRegression() has no parameter 'C': write l2"),
        (SoftmaxRegression, {"c1": 1}, "SoftmaxRegression() has no parameter 'c1': write l1"),
        (Word2Vec, {"size": 1}, "Word2Vec() has no parameter 'size': write vector_size"),
        (Word2Vec, {"dim": 1}, "Word2Vec() has no parameter 'dim': write vector_size"),
        (FastText, {"hs": 1}, "FastText() has no parameter 'hs': write loss=\"hierarchical\""),
        (CRF, {"dim": 1}, "CRF() has no parameter 'dim': the parameters are"),
        (FastText, {"buckets": 1}, "FastText() has no parameter 'buckets': did you mean bucket?"),
        (TextClassifier, {"epoch": 1}, "TextClassifier() has no parameter 'epoch': did you mean"),
    ],
)
def test_a_wrong_name_of_a_parameter(model: Any, arguments: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        model(**arguments)
    assert message in str(caught.value)


def test_of_the_neural_tagger() -> None:
    pytest.importorskip("torch")
    from trellis import NeuralTagger

    with pytest.raises(TypeError, match=r"NeuralTagger\(\) has no parameter 'lr': write learning_"):
        NeuralTagger(lr=1)
    with pytest.raises(TypeError, match="but no parameter can be passed so"):
        NeuralTagger(("embedding",))  # type: ignore[misc]


def test_arguments_without_a_name() -> None:
    with pytest.raises(TypeError, match=r"CRF\(\) got 2 arguments without a name, but only feat"):
        CRF(None, 1.0)  # type: ignore[misc]


def test_a_subclass_is_named() -> None:
    class Tagger(CRF):
        """A class of the user."""

    with pytest.raises(TypeError, match=r"^Tagger\(\) has no parameter 'c1'"):
        Tagger(c1=1)


def test_constructors_are_those_of_scikit_learn() -> None:
    assert list(inspect.signature(CRF).parameters)[:3] == ["features", "edge_features", "joint"]
    model = CRF(l2=3.0, solver="sgd")
    assert clone(model).get_params() == model.get_params()
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    assert repr(model) == "CRF(l2=3.0, solver='sgd')"
