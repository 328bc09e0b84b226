"""Arguments of the wrong kind: a text and a number in the place of a list, shapes and types alone.

A check such as ``isinstance(X, str) or not hasattr(X, "__len__")`` has two halves, and each input
here meets only one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import trellis
from trellis.embeddings.huffman import HuffmanTree
from trellis.embeddings.phrases import Phrases
from trellis.errors import TrellisError
from trellis.models.ngrams import NGramTrainer
from trellis.models.regression.joint import check_candidates
from trellis.plots import curves, emissions, factor_graph, heat_map, model_graph, scatter

X, Y = [["the", "dog"], ["a", "cat"]] * 3, [["D", "N"]] * 6
GRAPH = (np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([[0, 1], [1, 2]]))
IMAGE = np.zeros((2, 3, 2))
P = np.log(np.full((2, 3), 1 / 3))


def features(x: Any, y: Any) -> dict[str, float]:
    return {f"{x}{y}": 1.0}


def joint(**options: Any) -> Any:
    return trellis.SoftmaxRegression(features=features, **options)


def graph_crf(**options: Any) -> Any:
    return trellis.GraphCRF(max_iter=2, **options)


def grid_crf() -> Any:
    return trellis.GridCRF(max_iter=2)


def decoder(**options: Any) -> Any:
    return trellis.CTCDecoder(["", " ", "a"], **options)


CALLS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "X of a CRF": (lambda v: trellis.CRF().fit(v, Y), ["text", b"text", 3, {"a": 1}, {"a"}]),
    "y of a CRF": (lambda v: trellis.CRF().fit(X, v), ["text", 3, {"a": 1}, [["D"]], [3] * 6]),
    "dev": (lambda v: trellis.CRF().fit(X, Y, dev=v), ["ab", 3, (X,), (X, Y, Y), {"X": X}]),
    "callback": (lambda v: trellis.CRF().fit(X, Y, callback=v), [3, "f"]),
    "constraints": (
        lambda v: trellis.CRF(constraints=v).fit(X, Y),
        [3, "XYZ", ["DN"], [("D",)], [["D", "N"]], [("D", "N", "N")]],
    ),
    "solver_options": (lambda v: trellis.CRF(solver_options=v).fit(X, Y), [{"nosuch": 1}]),
    "sample_weight": (
        lambda v: trellis.CRF(max_iter=1).fit(X, Y, sample_weight=v),
        ["text", 3, [1.0] * 5, [[1.0]] * 6, [1.0] * 5 + [-1.0], [1.0] * 5 + [np.inf]],
    ),
    "known": (
        lambda v: trellis.HMM().fit(X, Y).predict_marginals(X, known=v),
        [3, "text", [["D"]] * 6, [["Q", None]] * 6, [[None, set()]] * 6],
    ),
    "sequences of vectors": (
        lambda v: trellis.HMM(n_states=2, emissions="gaussian").fit(v),
        [[np.zeros((2, 0))], [np.zeros((2, 1, 1))], [np.array([["a"]])]],
    ),
    "sequences of symbols": (
        lambda v: trellis.HMM(n_states=2, emissions="categorical").fit(v),
        [[[True, False]], [[1.5, 2.5]], [np.zeros((2, 2, 1), int)]],
    ),
    "X of a graph model": (
        lambda v: graph_crf().fit(v, [["a", "b", "a"]]),
        ["text", {"a": 1}, 3, [3], ["ab"], [()], [(*GRAPH, None, None, None, None, None)]],
    ),
    "nodes": (
        lambda v: graph_crf().fit([(v, GRAPH[1])], [["a", "b", "a"]]),
        [np.zeros((0, 2)), np.zeros(3), np.zeros((3, 1, 1)), "text", sparse.csr_array((0, 2))],
    ),
    "edges": (
        lambda v: graph_crf().fit([(GRAPH[0], v)], [["a", "b", "a"]]),
        [
            np.zeros((2, 3), int), np.zeros(2, int), np.zeros((2, 2)), "text",
            [[0, 3]], [[-1, 0]], [[1, 1]],
        ],
    ),
    "edge features": (
        lambda v: graph_crf().fit([(*GRAPH, v)], [["a", "b", "a"]]),
        [np.zeros((3, 1)), np.zeros(2), "text"],
    ),
    "node types": (
        lambda v: graph_crf().fit([(*GRAPH, None, v)], [["a", "b", "a"]]),
        [[0, 1], [[0, 0, 0]], [0.0, 1.0, 0.0], [0, 0, -1], "text"],
    ),
    "y of a graph model": (
        lambda v: graph_crf().fit([GRAPH], v),
        ["text", 3, [["a", "b"]], [["a", "b", "a"]] * 2, [3]],
    ),
    "X of a grid model": (
        lambda v: grid_crf().fit(v, [np.zeros((2, 3), int)]),
        ["text", b"text", 3, [np.zeros((0, 3, 2))], [np.zeros((2, 0, 2))]],
    ),
    "y of a grid model": (
        lambda v: grid_crf().fit([IMAGE], v),
        ["text", 3, [np.zeros((3, 2), int)], [np.zeros((2, 3), int)] * 2],
    ),
    "images of several widths": (
        lambda v: grid_crf().fit(v, [np.zeros((2, 3), int)] * 2),
        [[IMAGE, np.zeros((2, 3, 3))]],
    ),
    "objects": (lambda v: joint().fit(v, [0]), ["text", 3, []]),
    "candidates": (lambda v: check_candidates(v, 1), ["text", 3, [], ["ab"], [3], [{"a"}], [[]]]),
    "classes": (lambda v: joint().fit(["a"], ["x"], candidates=v), ["text", 3, [["y"]], [[]]]),
    "text of an n-gram model": (
        lambda v: NGramTrainer(2, discount_fallback=True).train(v),
        [b"text", 3, [3]],
    ),
    "prune": (lambda v: NGramTrainer(2, prune=v), ["1", -1, [], [0, 0, 0], [1, 0], [0, 1.5]]),
    "discount_fallback": (
        lambda v: NGramTrainer(2, discount_fallback=v), ["abc", [], [0.5] * 4, [2.0], ["a"]]
    ),
    "sentences of phrases": (lambda v: Phrases().fit(v), ["text", 3, []]),
    "sentences": (
        lambda v: trellis.Word2Vec(2, min_count=1).fit(v), ["nosuch.txt", b"text", 3, [], [3]]
    ),
    "texts": (
        lambda v: trellis.TextClassifier(2).fit(v, ["x", "y"]), [3, "ab", b"ab", ["a"], [3, 4], []]
    ),
    "counts of a tree": (
        lambda v: HuffmanTree(["a", "b"], v),
        [[1.0, 2.0], [1], [[1, 2]], [-1, 2]],
    ),
    "words of a tree": (lambda v: HuffmanTree(v, [1] * len(v)), [[], ["a", "a"]]),
    "words": (lambda v: trellis.Vectors(v, [[1.0], [2.0]]), ["ab", 3, ["a"], ["a", "a"]]),
    "rows of vectors": (
        lambda v: trellis.Vectors(["a", "b"], v),
        [[1.0, 2.0], [[1.0]], np.zeros((2, 0))],
    ),
    "hotwords": (lambda v: decoder(hotwords=v), ["a", 3, [3]]),
    "lexicon": (lambda v: decoder(lexicon=v), [3, [3], ["b"]]),
    "vocabulary": (lambda v: decoder(vocabulary=v), ["a", 3, [3]]),
    "labels of a decoder": (
        lambda v: trellis.CTCDecoder(v), ["ab", 3, ["a", "a"], ["a", 3], ["a", "b"]]
    ),
    "a batch": (lambda v: decoder().decode_batch(v), ["text", 3, {}, P, [P[None]], [P[:, :2]]]),
    "a heat map": (
        lambda v: heat_map(v, ["a"], ["b"]), [[1.0], [[1.0, 2.0]], [[np.nan]], np.zeros((1, 1, 1))]
    ),
    "curves": (
        lambda v: curves({"a": v}, "x", "y"), [[], [(1.0,)], [(1.0, 2.0, 3.0)], [(0, np.nan)]]
    ),
    "emissions": (
        lambda v: emissions(v, ["a", "b", "c"]), [P[0], P[:, :2], P[None], np.full((2, 3), np.nan)]
    ),
    "a path": (lambda v: emissions(P, ["a", "b", "c"], v), [[0], [[0, 1]], [0, 3], [0, -1]]),
    "arrows": (
        lambda v: scatter(np.eye(2), ["a", "b"], arrows=[v]), ["ab", ("a",), ("a", "b", "a"), "a"]
    ),
    "tokens of a picture": (lambda v: model_graph("crf", v), ["text", []]),
    "factors of a picture": (
        lambda v: factor_graph({"a": (0, 0), "b": (1, 0)}, [v]), [(), ("c",), ("a", "c")]
    ),
    "arrows of a picture": (
        lambda v: factor_graph({"a": (0, 0), "b": (0, 0), "c": (1, 0)}, [], [v]),
        [("a",), ("a", "c", "b"), ("a", "b"), ("a", "d")],
    ),
}  # fmt: skip
CASES = [(name, n) for name, (_, values) in CALLS.items() for n in range(len(values))]


@pytest.mark.parametrize(("name", "n"), CASES)
def test_wrong_kinds(name: str, n: int) -> None:
    call, values = CALLS[name]
    with pytest.raises(TrellisError) as info:
        call(values[n])
    assert len(str(info.value)) > 15
