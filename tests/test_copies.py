"""Every estimator can be pickled and copied; the copy gives the same results."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import trellis
from trellis.data import samples
from trellis.embeddings.phrases import Phrases
from trellis.formats import arpa
from trellis.inference import graph
from trellis.models import files

X, Y = (part[:20] for part in samples.load("test", "calendar"))
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 3))
CLASSES = (ROWS[:, 0] > 0).astype(int)
NODES, EDGES = RNG.normal(size=(4, 2)), np.array([[0, 1], [1, 2], [2, 3]])
IMAGES = [RNG.normal(size=(4, 4, 2)) for _ in range(4)]
PIXELS = [(image[..., 0] > 0).astype(int) for image in IMAGES]
WORDS = [["a", "rose", "is", "a", "rose"]] * 50
EMISSIONS = np.log(RNG.dirichlet(np.ones(3), size=8))
ARPA = "\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<s>\n-1\t</s>\n-1\ta\n\n\\end\\\n"
SMALL = {"min_count": 1, "epochs": 1, "n_jobs": 1, "random_state": 0}


class Case(NamedTuple):
    """An estimator: how it is built and fitted, and a result to compare."""

    build: Callable[[Path], Any]
    fit: Callable[[Any], Any]
    use: Callable[[Any], Any]
    has_parameters: bool = True
    """True if `sklearn.base.clone` supports it."""


def _fit_sequences(model: Any) -> Any:
    return model.fit(X, Y)


def _predict_sequences(model: Any) -> Any:
    return model.predict(X)


def _decoder(folder: Path, **options: Any) -> Any:
    return trellis.CTCDecoder(["_", "a", " "], **options)


def _decode(decoder: Any) -> Any:
    return [(beam[0], beam.score) for beam in decoder.decode_beams(EMISSIONS)]


def _same(estimator: Any) -> Any:
    return estimator


CASES = {
    "CRF": Case(lambda _: trellis.CRF(max_iter=5), _fit_sequences, _predict_sequences),
    "MEMM": Case(lambda _: trellis.MEMM(max_iter=5), _fit_sequences, _predict_sequences),
    "HMM": Case(lambda _: trellis.HMM(), _fit_sequences, _predict_sequences),
    "LogisticRegression": Case(
        lambda _: trellis.LogisticRegression(),
        lambda model: model.fit(ROWS, CLASSES),
        lambda model: model.predict_proba(ROWS).tolist(),
    ),
    "SoftmaxRegression": Case(
        lambda _: trellis.SoftmaxRegression(),
        lambda model: model.fit(ROWS, CLASSES),
        lambda model: model.predict_proba(ROWS).tolist(),
    ),
    "NeuralTagger": Case(
        lambda _: trellis.NeuralTagger(hidden=3, word_dim=4, epochs=1, random_state=0),
        _fit_sequences,
        _predict_sequences,
    ),
    "GraphCRF": Case(
        lambda _: trellis.GraphCRF(max_iter=3),
        lambda model: model.fit([(NODES, EDGES)] * 2, [list("abab")] * 2),
        lambda model: [list(labels) for labels in model.predict([(NODES, EDGES)])],
    ),
    "GridCRF": Case(
        lambda _: trellis.GridCRF(),
        lambda model: model.fit(IMAGES, PIXELS),
        lambda model: [labels.tolist() for labels in model.predict(IMAGES)],
    ),
    "Word2Vec": Case(
        lambda _: trellis.Word2Vec(4, sample=0, **SMALL),
        lambda model: model.fit(WORDS),
        lambda model: model.vectors_["rose"].tolist(),
    ),
    "FastText": Case(
        lambda _: trellis.FastText(4, sample=0, **SMALL),
        lambda model: model.fit(WORDS),
        lambda model: [model.vectors_[word].tolist() for word in ("rose", "unseen")],
    ),
    "Vectors": Case(
        lambda _: trellis.FastText(4, sample=0, **SMALL).fit(WORDS).vectors_,
        _same,
        lambda vectors: [vectors[word].tolist() for word in ("rose", "unseen")],
        has_parameters=False,
    ),
    "TextClassifier": Case(
        lambda _: trellis.TextClassifier(4, **SMALL),
        lambda model: model.fit([["a", "b"], ["c"]] * 20, ["x", "y"] * 20),
        lambda model: model.predict([["a"], ["c"]]),
    ),
    "Phrases": Case(
        lambda _: Phrases(),
        lambda model: model.fit(WORDS),
        lambda model: list(model.transform(WORDS[:2])),
        has_parameters=False,
    ),
    "NGramModel": Case(
        lambda folder: arpa.read(folder / "lm.arpa"),
        _same,
        lambda model: model.score("a b"),
        has_parameters=False,
    ),
    "CTCDecoder": Case(_decoder, _same, _decode, has_parameters=False),
    "CTCDecoder with a language model": Case(
        lambda folder: _decoder(folder, lm=folder / "lm.arpa", hotwords=["aa"]),
        _same,
        _decode,
        has_parameters=False,
    ),
    "CTCDecoder with a lexicon": Case(
        lambda folder: _decoder(folder, lexicon=["a", "aa"], beam_width=5),
        _same,
        _decode,
        has_parameters=False,
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a language model."""
    (tmp_path / "lm.arpa").write_text(ARPA)
    return tmp_path


def _pickled(estimator: Any) -> Any:
    return pickle.loads(pickle.dumps(estimator))


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, _pickled])
@pytest.mark.parametrize("name", CASES)
def test_copies_give_the_same_results(folder: Path, name: str, make: Callable[[Any], Any]) -> None:
    case = CASES[name]
    unfitted = make(case.build(folder))
    fitted = case.fit(case.build(folder))
    expected = case.use(fitted)
    assert expected
    assert case.use(make(fitted)) == expected
    assert case.use(make(make(fitted))) == expected
    assert case.use(case.fit(unfitted)) == expected  # an unfitted copy can be fitted


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.has_parameters])
def test_clones_are_fitted_to_the_same_results(folder: Path, name: str) -> None:
    case = CASES[name]
    fitted = case.fit(case.build(folder))
    assert case.use(case.fit(clone(fitted))) == case.use(fitted)


def _use(name: str, estimator: Any) -> Any:
    return CASES[name].use(estimator)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(folder: Path, method: str) -> None:
    names = ["CRF", "SoftmaxRegression", "TextClassifier", "CTCDecoder with a language model"]
    fitted = {name: CASES[name].fit(CASES[name].build(folder)) for name in names}
    with multiprocessing.get_context(method).Pool(1) as pool:
        results = pool.starmap_async(_use, fitted.items()).get(timeout=200)
    assert results == [CASES[name].use(model) for name, model in fitted.items()]


def test_every_estimator_has_a_case() -> None:
    models = {path.rpartition(".")[2] for path in files.MODELS.values()}
    assert models <= CASES.keys()


def test_joblib(folder: Path) -> None:
    """The default backend of joblib starts processes and pickles the arguments."""
    names = ["CRF", "GraphCRF", "NeuralTagger", "FastText", "CTCDecoder with a language model"]
    fitted = {name: CASES[name].fit(CASES[name].build(folder)) for name in names}
    calls = (joblib.delayed(_use)(name, model) for name, model in fitted.items())
    results = joblib.Parallel(n_jobs=2, timeout=200)(calls)
    assert results == [CASES[name].use(model) for name, model in fitted.items()]
    joblib.dump(fitted, folder / "models.joblib")
    for name, model in joblib.load(folder / "models.joblib").items():
        assert CASES[name].use(model) == CASES[name].use(fitted[name])


def test_a_factor_graph(folder: Path) -> None:
    built = graph.FactorGraph.pairwise(RNG.normal(size=(3, 2)), [[0, 1], [1, 2]], np.eye(2))
    expected = graph.marginals(built, "exact").variables
    for make in (copy.copy, copy.deepcopy, _pickled):
        assert np.array_equal(graph.marginals(make(built), "exact").variables, expected)


def test_a_language_model_without_its_file(folder: Path) -> None:
    model = arpa.read(folder / "lm.arpa")
    (folder / "lm.arpa").unlink()
    assert copy.deepcopy(model).score("a") == model.score("a")
    with pytest.raises(trellis.errors.InputError, match=r"lm\.arpa no longer exists"):
        pickle.dumps(model)
