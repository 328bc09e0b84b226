"""Comparison with CRFsuite: the same features, losses, labels and probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_files import find_corpus, missing_corpus

import trellis
from trellis.data import conll
from trellis.features import chunking
from trellis.metrics import span_f1


def corpus(name: str) -> tuple[Any, Any]:
    file = f"chunking/conll2000.{name}.conll.gz"
    path = find_corpus(file)
    if not path.exists():
        pytest.skip(missing_corpus(file))
    return conll.read(path)


def attributes(x: Any) -> list[list[str]]:
    """The attributes of CRFsuite's chunking example: words and tags around each token."""
    sequence = []
    for t in range(len(x)):
        names = ["__BOS__"] * (t == 0) + ["__EOS__"] * (t == len(x) - 1)
        for column, name in enumerate(("w", "pos")):
            for width in (1, 2) if name == "w" else (1, 2, 3):
                for first in range(-2, 4 - width):
                    if name == "w" and width == 2 and first not in (-1, 0):
                        continue
                    offsets = range(first, first + width)
                    if t + first >= 0 and t + first + width <= len(x):
                        key = "|".join(f"{name}[{i}]" for i in offsets)
                        names.append(key + "=" + "|".join(x[t + i][column] for i in offsets))
        sequence.append(names)
    return sequence


class Peer:
    """One run of CRFsuite."""

    def __init__(self, path: Path, X: Any, y: Any, **parameters: Any) -> None:
        pycrfsuite = pytest.importorskip("pycrfsuite")
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False, params=parameters)
        for x, labels in zip(X, y, strict=True):
            trainer.append(x, labels)
        trainer.train(str(path))
        self.features = trainer.logparser.featgen_num_features
        self.losses = [entry["loss"] for entry in trainer.logparser.iterations]
        self.active = trainer.logparser.last_iteration["active_features"]
        self.tagger = pycrfsuite.Tagger()
        self.tagger.open(str(path))

    def marginals(self, x: Any, classes: Any) -> np.ndarray:
        self.tagger.set(x)
        known = self.tagger.labels()
        return np.array(
            [
                [self.tagger.marginal(c, t) if c in known else 0.0 for c in classes]
                for t in range(len(x))
            ]
        )


@pytest.fixture(scope="module")
def sample() -> tuple[Any, Any]:
    X, y = corpus("train")
    return [attributes(x) for x in X[:250]], y[:250]


@pytest.mark.parametrize("c2", [1.0, 0.1])
def test_the_same_loss_in_each_iteration(sample: Any, tmp_path: Path, c2: float) -> None:
    peer = Peer(tmp_path / "m", *sample, c1=0, c2=c2, max_iterations=20)
    losses: list[float] = []
    model = trellis.CRF(l2=2 * c2, transitions="seen", max_iter=20)
    model.fit(*sample, callback=lambda progress: losses.append(progress.loss))
    assert len(model.coef_) == peer.features
    np.testing.assert_allclose(losses, peer.losses, rtol=1e-4)


@pytest.mark.parametrize(
    ("crfsuite_options", "options"),
    [
        ({"feature.possible_transitions": True}, {"transitions": "all"}),
        ({"feature.possible_states": True}, {"transitions": "seen", "states": "all"}),
        ({"feature.minfreq": 3}, {"transitions": "seen", "min_count": 3}),
    ],
    ids=str,
)
def test_the_same_number_of_features(
    sample: Any, tmp_path: Path, crfsuite_options: Any, options: Any
) -> None:
    X, y = (part[:120] for part in sample)
    peer = Peer(tmp_path / "m", X, y, c1=0, c2=0.5, max_iterations=8, **crfsuite_options)
    model = trellis.CRF(l2=1.0, max_iter=8, **options).fit(X, y)
    assert len(model.coef_) == peer.features
    assert model.objective_ == pytest.approx(peer.losses[-1], rel=1e-4)


def test_the_same_labels_and_marginals_when_converged(sample: Any, tmp_path: Path) -> None:
    X, y = (part[:150] for part in sample)
    exact = {"epsilon": 1e-8, "period": 0}
    peer = Peer(tmp_path / "m", X, y, c1=0, c2=1.0, epsilon=1e-8, delta=0, max_iterations=2000)
    model = trellis.CRF(l2=2.0, transitions="seen", solver_options=exact).fit(X, y)
    assert model.objective_ == pytest.approx(peer.losses[-1], rel=1e-6)
    unseen = sample[0][150:]
    assert model.predict(unseen) == [peer.tagger.tag(x) for x in unseen]
    for x, table in zip(unseen[:20], model.predict_marginals(unseen[:20]), strict=True):
        np.testing.assert_allclose(table, peer.marginals(x, model.classes_), atol=1e-4)


def test_real_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = [
        [{f"a{a}": float(rng.uniform(0.1, 2)) for a in rng.choice(30, 4)} for _ in range(7)]
        for _ in range(40)
    ]
    y = [["PQR"[int(rng.integers(3))] for _ in x] for x in X]
    peer = Peer(tmp_path / "m", X, y, c1=0, c2=0.5, max_iterations=15)
    model = trellis.CRF(l2=1.0, transitions="seen", max_iter=15).fit(X, y)
    assert len(model.coef_) == peer.features
    assert model.objective_ == pytest.approx(peer.losses[-1], rel=1e-4)


@pytest.mark.parametrize("c2", [0.0, 0.1])
def test_l1_is_as_sparse_and_as_good(sample: Any, tmp_path: Path, c2: float) -> None:
    X, y = (part[:120] for part in sample)
    peer = Peer(tmp_path / "m", X, y, c1=0.5, c2=c2, max_iterations=300)
    model = trellis.CRF(l1=0.5, l2=2 * c2, transitions="seen", max_iter=300).fit(X, y)
    assert model.objective_ == pytest.approx(peer.losses[-1], rel=1e-3)
    assert len(model.coef_) < 0.3 * peer.features
    assert len(model.coef_) == pytest.approx(peer.active, rel=0.1)
    assert np.count_nonzero(model.coef_) == len(model.coef_)
    model.save(tmp_path / "model.trellis")
    weights = trellis.formats.native.read(tmp_path / "model.trellis").tensors["weights"]
    assert np.array_equal(weights, model.coef_)
    assert trellis.load(tmp_path / "model.trellis").predict(X) == model.predict(X)


def test_built_in_features_are_those_of_the_example(sample: Any) -> None:
    X, y = corpus("train")
    model = trellis.CRF(chunking(), l2=2.0, transitions="seen", max_iter=5).fit(X[:250], y[:250])
    expected = trellis.CRF(l2=2.0, transitions="seen", max_iter=5).fit(*sample)
    assert set(model.features_.names()) == set(expected.features_.names())
    assert len(model.coef_) == len(expected.coef_)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)


@pytest.mark.slow
def test_all_of_conll_2000() -> None:
    """The numbers are those of CRFsuite with 50 iterations and c2 = 1."""
    X, y = corpus("train")
    model = trellis.CRF(chunking(), l2=2.0, transitions="seen", max_iter=50).fit(X, y)
    assert len(model.coef_) == 452_755
    assert model.objective_ == pytest.approx(14279.6198, rel=1e-4)
    X, y = corpus("test")
    assert model.score(X, y) == pytest.approx(0.9587, abs=5e-4)
    assert span_f1(y, model.predict(X)) == pytest.approx(0.9342, abs=1e-3)
