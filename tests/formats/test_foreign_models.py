"""Models that other programs trained: their labels, their probabilities."""

from __future__ import annotations

import gzip
import json
import math
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_files import find_corpus, needs_corpus
from foreign_files import crfpp_model, wapiti_model

import trellis
from trellis import CRF
from trellis.compat.pycrfsuite import Tagger
from trellis.errors import FormatError, InputError
from trellis.features import chunking, templates
from trellis.features import wapiti as wapiti_patterns
from trellis.formats import crfpp, crfsuite, wapiti
from trellis.models import foreign
from trellis.models.foreign import save_crfsuite

MODELS = find_corpus("models")
CRFSUITE = sorted((MODELS / "crfsuite").glob("*.crfsuite"))
here = needs_corpus("models/crfsuite")


def rows_of(text: str) -> list[list[list[str]]]:
    """Sentences of tables."""
    blocks = text.split("\n\n")
    tables = [[r.split("\t") for r in b.split("\n") if r and r[:2] != "# "] for b in blocks]
    return [table for table in tables if table]


# ---- CRFsuite


@here
@pytest.mark.parametrize("path", CRFSUITE, ids=lambda p: p.stem)
def test_answers_of_crfsuite(path: Path) -> None:
    model, tagger = trellis.load(path), Tagger()
    tagger.open(str(path))
    classes = model.classes_.tolist()
    with gzip.open(path.with_suffix(".expected.jsonl.gz"), "rt") as file:
        lines = [json.loads(line) for line in file]
    X = [line["items"] for line in lines]
    assert model.predict(X) == [line["viterbi"] for line in lines]
    for line, table in zip(lines, model.predict_marginals(X), strict=True):
        tagger.set(line["items"])
        assert tagger.probability(line["viterbi"]) == pytest.approx(line["probability"], rel=1e-6)
        for t, due in enumerate(line["marginals"]):
            for label, p in due.items():
                assert table[t, classes.index(label)] == pytest.approx(p, abs=1e-8)
                assert tagger.marginal(label, t) == pytest.approx(p, abs=1e-8)


def made(names: list[str], rng: np.random.Generator) -> list[dict[str, float]]:
    """Random items: known and unknown attributes, values of any sign."""
    items = []
    for _ in range(int(rng.integers(1, 12))):
        some = rng.choice(len(names), int(rng.integers(0, 30)))
        item = {names[i]: 1.0 if rng.random() < 0.7 else float(rng.normal()) for i in some}
        items.append(item | {"never seen": 2.0})
    return items


def compared(path: Path, count: int, seed: int) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    theirs, ours, rng = pycrfsuite.Tagger(), Tagger(), np.random.default_rng(seed)
    theirs.open(str(path))
    ours.open(str(path))
    model = crfsuite.read(path)
    names = model.attributes.decoded("attribute")
    for _ in range(count):
        x = made(names, rng)
        assert ours.tag(x) == theirs.tag(x)
        for label in rng.choice(model.labels, 3):
            t = int(rng.integers(len(x)))
            assert abs(ours.marginal(label, t) - theirs.marginal(label, t)) < 1e-9
        y = rng.choice(model.labels, len(x)).tolist()
        assert ours.probability(y) == pytest.approx(theirs.probability(y), rel=1e-9, abs=1e-300)


@here
@pytest.mark.parametrize("path", CRFSUITE, ids=lambda p: p.stem)
def test_generated_inputs(path: Path) -> None:
    compared(path, 150, 0)


@here
@pytest.mark.slow
@pytest.mark.parametrize("path", CRFSUITE, ids=lambda p: p.stem)
def test_thousands_of_generated_inputs(path: Path) -> None:
    compared(path, 2500, 1)


@pytest.mark.parametrize("solver", ["lbfgs", "perceptron"])
def test_a_model_of_trellis_is_tagged_by_crfsuite(tmp_path: Path, solver: str) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    rng = np.random.default_rng(3)
    X = [[[f"w={rng.integers(40)}", f"s={rng.integers(9)}"] for _ in range(8)] for _ in range(60)]
    y = [[str("BIOX"[int(item[1][2:]) % 4]) for item in x] for x in X]
    model = CRF(solver=solver, max_iter=20).fit(X, y)
    save_crfsuite(model, tmp_path / "m.crfsuite")
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "m.crfsuite"))
    assert tagger.labels() == model.classes_.tolist()
    for x, labels, table in zip(X, model.predict(X), model.predict_marginals(X), strict=True):
        assert tagger.tag(x) == labels
        for t in range(len(x)):
            theirs = [tagger.marginal(label, t) for label in tagger.labels()]
            np.testing.assert_allclose(table[t], theirs, atol=1e-9)
    again = trellis.load(tmp_path / "m.crfsuite")
    assert again.predict(X) == model.predict(X)
    again.save(tmp_path / "m.trellis")
    assert trellis.load(tmp_path / "m.trellis").predict(X) == model.predict(X)


def test_features_of_templates_are_saved_by_name(tmp_path: Path) -> None:
    X, y = [[("New", "N"), ("York", "N"), ("is", "V")]], [["B", "I", "O"]]
    model = CRF(chunking(), l2=0.1).fit(X, y)
    save_crfsuite(model, tmp_path / "m")
    names = model.features_.names()
    rows = model.features_.find(X).rows
    items = [[names[i] for i in rows.id[a:b]] for a, b in pairwise(rows.begin)]
    assert trellis.load(tmp_path / "m").predict([items]) == y


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (trellis.HMM().fit([["a"]], [["x"]]), "not HMM"),
        (CRF(constraints="BIO").fit([["a"]], [["O"]]), "cannot store the constraints"),
        (CRF().fit([["a", "b"]], [[1, 2]]), "labels of type str, not 1"),
        (CRF(templates.parse("U:%x[0,0]\nB:%x[0,0]")).fit([["a", "b"]], [["x", "y"]]), "edge"),
    ],
)
def test_models_that_crfsuite_cannot_store(tmp_path: Path, model: Any, what: str) -> None:
    with pytest.raises(InputError, match=what):
        save_crfsuite(model, tmp_path / "m")


# ---- CRF++ and Wapiti


@here
def test_answers_of_crfpp(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_bytes(gzip.decompress((MODELS / "crfpp" / "chunk100.model.txt.gz").read_bytes()))
    model = trellis.load(path)
    text = gzip.decompress((MODELS / "crfpp" / "chunk100.expected.txt.gz").read_bytes()).decode()
    tables = rows_of(text)
    X = [[(row[0], row[1]) for row in table] for table in tables]
    classes = model.classes_.tolist()
    assert model.predict(X) == [[row[3].split("/")[0] for row in table] for table in tables]
    for table, marginals in zip(tables, model.predict_marginals(X), strict=True):
        for row, probabilities in zip(table, marginals, strict=True):
            for cell in row[4:]:
                label, _, p = cell.rpartition("/")
                assert probabilities[classes.index(label)] == pytest.approx(float(p), abs=2e-6)


@here
def test_answers_of_wapiti() -> None:
    model = trellis.load(MODELS / "wapiti" / "chunk100.model")
    tables = rows_of((MODELS / "wapiti" / "chunk100.expected.txt").read_text())
    X = [[(row[0], row[1]) for row in table] for table in tables]
    for table, marginals in zip(tables, model.predict_marginals(X), strict=True):
        assert model.classes_[marginals.argmax(axis=1)].tolist() == [row[3] for row in table]
        due = [float(row[4].rpartition("/")[2]) for row in table]
        np.testing.assert_allclose(marginals.max(axis=1), due, atol=2e-6)


def names_at(patterns: str, x: list[tuple[str, str]], t: int, parse: Any) -> list[tuple[str, bool]]:
    """What the templates make of a position, by the letter."""
    spec, marginals = parse(patterns), []
    for template in spec.templates:
        text = template.literals[0]
        for part, literal in zip(template.parts, template.literals[1:], strict=True):
            field, at = spec.fields[part.field], t + part.offset
            outside = spec.outside[at >= len(x)] if not 0 <= at < len(x) else None
            far = min(-at if at < 0 else at - len(x) + 1, len(outside or "")) - 1
            value = outside[far] if outside else x[at][field.column]
            if field.kind == "ascii_lower":
                value = value.lower()
            if field.kind == "test":
                value = field.match(value)
            text += value + literal
        marginals.append((text, template.edge))
    return marginals


def by_enumeration(x: Any, labels: int, weight: Any, names: Any) -> np.ndarray:
    """p(y_t = l) by summing over all labellings."""
    table, total = np.zeros((len(x), labels)), 0.0
    for path in product(range(labels), repeat=len(x)):
        score = 0.0
        for t, y in enumerate(path):
            for name, edge in names[t]:
                if not edge:
                    score += weight(name, y)
                elif t > 0:
                    score += weight(name, (path[t - 1], y))
        p = math.exp(score)
        total += p
        table[np.arange(len(x)), path] += p
    return table / total


SENTENCE = [("the", "N"), ("a/b", "V/X"), ("Dog", "N"), ("né", "V")]


@pytest.mark.parametrize("labels", [2, 3])
def test_crfpp_by_enumeration(tmp_path: Path, labels: int) -> None:
    path = tmp_path / "m"
    path.write_bytes(crfpp_model(1, labels))
    model = crfpp.read(path)
    cells = model.cells()

    def weight(name: str, y: Any) -> float:
        at = y if np.isscalar(y) else labels + y[0] * labels + y[1]
        return cells.get((name, at), 0.0)

    names = [names_at(model.templates, SENTENCE, t, templates.parse) for t in range(len(SENTENCE))]
    due = by_enumeration(SENTENCE, labels, weight, names)
    np.testing.assert_allclose(trellis.load(path).predict_marginals([SENTENCE])[0], due, atol=1e-12)


@pytest.mark.parametrize("labels", [2, 3])
def test_wapiti_by_enumeration(tmp_path: Path, labels: int) -> None:
    path = tmp_path / "m"
    path.write_bytes(wapiti_model(1, labels))
    model = wapiti.read(path)
    cells = model.cells()

    def weight(name: str, y: Any) -> float:
        at = y if np.isscalar(y) else labels + y[0] * labels + y[1]
        return cells.get((name, at), 0.0)

    parse = wapiti_patterns.parse
    names = [names_at(model.templates, SENTENCE, t, parse) for t in range(len(SENTENCE))]
    due = by_enumeration(SENTENCE, labels, weight, names)
    np.testing.assert_allclose(trellis.load(path).predict_marginals([SENTENCE])[0], due, atol=1e-12)


def test_names_that_match_several_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forged file could otherwise ask for many times the weights that it stores."""
    monkeypatch.setattr(foreign, "_EXTRA_WEIGHTS", 1)
    weights = foreign._NamedWeights(
        np.array([4, 7]), np.array([2, 1]), np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0])
    )
    repeated = foreign._repeat_for_attributes(weights, np.array([0, 1, 0, 0]))  # 7 weights
    assert repeated.weight.tolist() == [1, 2, 3, 1, 2, 1, 2]
    assert repeated.cell.tolist() == [0, 1, 0, 0, 1, 0, 1]
    assert repeated.size.tolist() == [2, 1, 2, 2]
    message = "so 8 weights are needed: at most 7 are allowed for the 3 weights of the file"
    with pytest.raises(FormatError, match=message):
        foreign._repeat_for_attributes(weights, np.array([0, 1, 0, 0, 1]))
    assert foreign._repeat_for_attributes(weights, np.array([0, 1])) is weights
