"""Item 7: `cross_val_predict` of scikit-learn works with every sequence model."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import KFold, cross_val_predict

from trellis import CRF, HMM, MEMM, GraphCRF, GridCRF
from trellis.data import samples

X, Y = (part[:24] for part in samples.load("train", "music"))
EQUAL_X = [["a", "b"], ["b", "a"], ["a", "a"]] * 4
EQUAL_Y = [["A", "B"], ["B", "A"], ["A", "A"]] * 4
FOLDS = KFold(3, shuffle=True, random_state=0)


def neural_tagger() -> Any:
    pytest.importorskip("torch")
    from trellis import NeuralTagger

    return NeuralTagger(hidden=4, word_dim=4, epochs=1, random_state=0, device="cpu")


MODELS = {
    "crf": lambda: CRF(max_iter=5),
    "memm": lambda: MEMM(max_iter=5),
    "hmm": HMM,
    "neural": neural_tagger,
}


def predicted_by_hand(model: Any, sequences: Any, labels: Any) -> list[Any]:
    """Return the prediction for each sequence by the model of the other folds."""
    results: list[Any] = [None] * len(sequences)
    for train, test in FOLDS.split(sequences):
        fitted = copy.deepcopy(model)
        fitted.fit([sequences[i] for i in train], [labels[i] for i in train])
        for i, prediction in zip(test, fitted.predict([sequences[i] for i in test]), strict=True):
            results[i] = prediction
    return results


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("sequences", "labels"), [(X, Y), (EQUAL_X, EQUAL_Y)])
def test_of_models_of_sequences(name: str, sequences: Any, labels: Any) -> None:
    model = MODELS[name]()
    predictions = cross_val_predict(model, sequences, labels, cv=FOLDS)
    assert predictions.shape == (len(sequences),)
    assert predictions.tolist() == predicted_by_hand(model, sequences, labels)


@pytest.mark.parametrize("sizes", [(2, 3, 4), (3, 3, 3)])
def test_of_graphs(sizes: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    graphs = [
        (generator.normal(size=(n, 2)), [[i, i + 1] for i in range(n - 1)]) for n in sizes * 3
    ]
    labels = [(nodes[:, 0] > 0).astype(int) for nodes, _ in graphs]
    predictions = cross_val_predict(GraphCRF(max_iter=3), graphs, labels, cv=FOLDS)
    by_hand = predicted_by_hand(GraphCRF(max_iter=3), graphs, labels)
    assert [p.tolist() for p in predictions] == [p.tolist() for p in by_hand]


def test_of_grids() -> None:
    generator = np.random.default_rng(0)
    images = [generator.normal(size=(2, 3, 1)) for _ in range(6)]
    labels = [(image[..., 0] > 0).astype(int) for image in images]
    predictions = cross_val_predict(GridCRF(max_iter=3), images, labels, cv=FOLDS)
    by_hand = predicted_by_hand(GridCRF(max_iter=3), images, labels)
    assert [p.tolist() for p in predictions] == [p.tolist() for p in by_hand]


def test_predictions_are_lists_for_everything_else() -> None:
    predictions = CRF(max_iter=5).fit(EQUAL_X, EQUAL_Y).predict(EQUAL_X)
    assert isinstance(predictions, list)
    assert predictions == [list(labels) for labels in predictions]
    assert type(predictions[0]) is list
    assert repr(predictions) == repr([*predictions])
    assert pickle.loads(pickle.dumps(predictions)) == predictions
    assert np.array(predictions).shape == (12, 2)
    assert np.concatenate(predictions).shape == (24,)
    assert np.vstack([predictions, EQUAL_Y]).shape == (24, 2)
    assert np.mean(np.array(predictions) == np.array(EQUAL_Y)) > 0.5
