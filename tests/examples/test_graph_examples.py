"""The graphs of the examples are correct, and pair weights improve the accuracy."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_files import find_corpus, needs_corpus

from trellis import GraphCRF, GridCRF
from trellis.inference import chain
from trellis.models.graph.samples import Shape

EXAMPLES = Path(__file__).parents[2] / "examples"
NUCLEI = find_corpus("segmentation/nuclei64.npz")


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.mark.usefixtures("examples")
def test_a_factorial_chain_is_a_chain_of_pairs_of_labels() -> None:
    """Layers of 2 and 3 labels give the same result as a chain with the 6 pairs as labels."""
    import factorial_chain

    rng = np.random.default_rng(20261116)
    words = ["Dogs", "chase", "the", "cat"]
    graph = factorial_chain.graph(words, joined=True)
    model = GraphCRF(l2=0.5, max_iter=3)
    y = np.array(["a", "x", "b", "y", "a", "z", "b", "x"])  # classes a b, chunks x y z
    model.fit([graph, factorial_chain.graph(words[:2], joined=True)], [y, y[:4]])
    model.coef_ = rng.normal(size=model.coef_.shape)
    model.pair_coef_ = rng.normal(size=model.pair_coef_.shape)
    fields = model._collect([graph])
    w = np.concatenate([model.coef_, model.intercept_[:, None]], axis=1)
    shape = Shape(5, w.shape[1], 3)
    unary, (tables,) = fields.scores(
        np.concatenate([w.ravel(), model.pair_coef_.ravel()]), shape, model.allowed_
    )
    table = {tuple(e): t for e, t in zip(fields.edges.tolist(), tables, strict=True)}
    states = list(product((0, 1), (2, 3, 4)))
    node_scores = [
        [unary[2 * i, a] + unary[2 * i + 1, b] + table[2 * i, 2 * i + 1][a, b] for a, b in states]
        for i in range(4)
    ]
    steps = [
        [
            [table[2 * i, 2 * i + 2][a, c] + table[2 * i + 1, 2 * i + 3][b, d] for c, d in states]
            for a, b in states
        ]
        for i in range(3)
    ]
    expected = chain.marginals(np.array(node_scores), np.array(steps))
    p = model.predict_marginals([graph])[0]
    for i in range(4):
        for label in (0, 1):
            probability = expected.unary[i, [a == label for a, _ in states]].sum()
            assert p[2 * i, label] == pytest.approx(probability, abs=1e-10)
    best = chain.viterbi(np.array(node_scores), np.array(steps)).labels
    labels = [model.classes_[k] for state in best for k in states[state]]
    assert model.predict([graph])[0].tolist() == labels


@pytest.mark.usefixtures("examples")
def test_skip_edges_join_a_name_to_its_previous_occurrence() -> None:
    import skip_chain

    document = [
        [("Vandaag", "O"), ("zag", "O"), ("Jan", "B-PER"), ("De", "B-PER"), ("Smet", "I-PER")],
        [("Jan", "B-PER"), ("lachte", "O")],
        [("Ook", "O"), ("Smet", "B-PER"), ("zag", "O"), ("Jan", "B-PER")],
    ]
    edges, is_skip = skip_chain.edges_of(document, skip=True)
    # the first word of a sentence has no skip edge
    assert edges[is_skip[:, 0] == 1].tolist() == [[4, 8], [2, 10]]
    chain_edges = [[0, 1], [1, 2], [2, 3], [3, 4], [5, 6], [7, 8], [8, 9], [9, 10]]
    assert edges[is_skip[:, 0] == 0].tolist() == chain_edges
    assert skip_chain.edges_of(document, skip=False)[0].tolist() == chain_edges
    graph = [(None, edges, is_skip)]
    correct = [[tag for sentence in document for _, tag in sentence]]
    assert skip_chain.repeated_f1(correct, correct, graph) == (100.0, 4)
    wrong = [[*correct[0][:10], "O"]]
    assert skip_chain.repeated_f1(correct, wrong, graph) == (pytest.approx(600 / 7), 4)


@pytest.mark.usefixtures("examples")
def test_pair_weights_help_on_shapes() -> None:
    import segmentation

    rng = np.random.default_rng(20261116)
    y = [segmentation.shape(rng, 48) for _ in range(4)]
    X = [(labels + rng.normal(size=labels.shape))[..., None] for labels in y]
    crf = GridCRF(symmetric=True, directed=False, max_iter=30)
    unary, joint, *_ = segmentation.compare((X[:2], y[:2]), (X[2:], y[2:]), crf)
    assert joint > unary + 8.0


@pytest.mark.usefixtures("examples")
def test_threshold_is_fitted() -> None:
    import segmentation

    dark = [np.array([[10.0, 200.0], [20.0, 90.0]])], [np.array([[1, 0], [1, 0]])]
    assert segmentation.threshold(dark, dark) == 100.0


@pytest.mark.usefixtures("examples")
@needs_corpus("segmentation/nuclei64.npz")
def test_pair_weights_help_on_nuclei() -> None:
    """On these images the Bethe approximation of the likelihood reached only 44 % of the pixels."""
    import segmentation

    data = np.load(NUCLEI)
    masks = np.unpackbits(data["masks"], axis=1).reshape(-1, 64, 64).astype(int)
    rows = np.flatnonzero((data["kind"] == 0) & ~data["is_test"].astype(bool))[:6]
    X = [segmentation.colour_features(data["images"][i] / 255.0) for i in rows]
    crf = GridCRF(contrast=True, symmetric=True, max_iter=15).fit(X, [masks[i] for i in rows])
    assert crf.report_ is not None
    assert crf.report_.train_score > crf.report_.alone_score


@pytest.mark.usefixtures("examples")
def test_letters_with_cliques_of_three() -> None:
    """Short words have no clique; the scores of a clique are those of its three letters."""
    import ocr_letters

    graphs = [ocr_letters.triples(np.eye(5)[:n]) for n in (1, 2, 3, 5)]
    assert [len(graph[4]) for graph in graphs] == [0, 0, 1, 3]
    assert graphs[-1][4].tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    model = GraphCRF(max_iter=2).fit(graphs, [[0], [0, 1], [0, 1, 0], [1, 0, 1, 0, 1]])
    model.clique_coef_["cliques"][0, 1, 0, 0] = 1e3
    assert model.predict(graphs[2:3])[0].tolist() == [1, 0, 0]
