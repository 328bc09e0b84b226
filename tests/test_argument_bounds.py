"""The bounds of the arguments of functions and methods, against a written table.

The value at a bound gives a result. The next value gives an error that names the argument.
`test_parameter_bounds.py` is the same for the parameters of models.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import trellis
from trellis import metrics
from trellis.embeddings.huffman import HuffmanTree
from trellis.embeddings.phrases import Phrases
from trellis.embeddings.vectors import cluster_words
from trellis.errors import TrellisError
from trellis.formats.quantization import quantize
from trellis.inference import chain, ctc, graph
from trellis.models.ngrams import MAX_ORDER, NGramTrainer
from trellis.optim import block_frank_wolfe, gradient_ascent, lbfgs, newton
from trellis.optim.sgd import SampleLosses, sgd

TAGS = [["B-D", "O"]] * 6
X, Y = [["the", "dog"], ["a", "cat"]] * 3, [["D", "N"]] * 6
UNARY = np.array([[0.5, -0.5], [1.0, 0.0], [0.0, 0.25]])
TRANSITION = np.array([[0.1, 0.2], [0.3, -0.4]])
LOG_PROBS = np.log(np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]))
TEXTS = [["a", "b", "c"], ["a", "b"], ["b", "c"]] * 4


def square(w: Any, gradient: Any) -> float:
    gradient[:] = w - 1.0
    return float((w - 1.0) @ (w - 1.0)) / 2


def sample_square(i: int, w: Any, gradient: Any) -> float:
    gradient[:] = w - i
    return float((w[0] - i) ** 2) / 2


def oracle(i: int, w: Any) -> tuple[Any, float]:
    psi = np.array([2.0])
    return (psi, 1.0) if 1.0 - w @ psi > 0 else (np.zeros(1), 0.0)


@functools.cache
def crf() -> Any:
    return trellis.CRF(max_iter=3).fit(X, Y)


@functools.cache
def hmm() -> Any:
    return trellis.HMM(emissions="categorical").fit(X, Y)


@functools.cache
def vectors() -> Any:
    rows = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    return trellis.Vectors([f"w{n}" for n in range(300)], rows)


@functools.cache
def classifier() -> Any:
    return trellis.TextClassifier(2, epochs=1, n_jobs=1).fit(["a b", "c"], ["x", "y"])


@functools.cache
def decoder() -> Any:
    return trellis.CTCDecoder(["", " ", "a"])


@functools.cache
def words() -> Any:
    return trellis.Word2Vec(2, min_count=1, epochs=1, n_jobs=1, loss="softmax", sample=0).fit(TEXTS)


def pair() -> Any:
    tables = [((0,), [0.0, 1.0]), ((1,), [0.5, 0.0]), ((0, 1), [[0.2, 0.0], [0.0, 0.3]])]
    return graph.FactorGraph([2, 2], tables)


class Bound(NamedTuple):
    """A call with one argument, and the range of the argument."""

    call: Callable[[Any], Any]
    low: float
    high: float | None = None
    """None if there is no upper bound."""


def run_lbfgs(**options: Any) -> Any:
    return lbfgs(square, np.zeros(2), **options)


def run_sgd(sequences: int = 2, **options: Any) -> Any:
    return sgd(SampleLosses(sample_square), sequences, np.zeros(1), l2=1.0, **options)


def run_frank_wolfe(**options: Any) -> Any:
    return block_frank_wolfe(oracle, 2, 1, random_state=0, **options)


BOUNDS: dict[str, Bound] = {
    # optimisers
    "lbfgs memory": Bound(lambda v: run_lbfgs(memory=v), 1, 10_000),
    "lbfgs max_linesearch": Bound(lambda v: run_lbfgs(max_linesearch=v), 1, 10_000),
    "lbfgs max_iter": Bound(lambda v: run_lbfgs(max_iter=v), 0),
    "lbfgs period": Bound(lambda v: run_lbfgs(period=v), 0),
    "lbfgs epsilon": Bound(lambda v: run_lbfgs(epsilon=v, max_iter=9), 0.0),
    "lbfgs delta": Bound(lambda v: run_lbfgs(delta=v, max_iter=9), 0.0),
    "lbfgs l1": Bound(lambda v: run_lbfgs(l1=v), 0.0),
    "gradient max_iter": Bound(lambda v: gradient_ascent(square, np.zeros(2), max_iter=v), 0),
    "gradient tolerance": Bound(
        lambda v: gradient_ascent(square, np.zeros(2), tolerance=v, max_iter=5), 0.0
    ),
    "newton max_iter": Bound(
        lambda v: newton(square, lambda w: np.eye(2), np.zeros(2), max_iter=v), 0
    ),
    "newton tolerance": Bound(
        lambda v: newton(square, lambda w: np.eye(2), np.zeros(2), tolerance=v), 0.0
    ),
    "sgd sequences": Bound(lambda v: run_sgd(v, max_iter=1, random_state=0), 1),
    "sgd max_iter": Bound(lambda v: run_sgd(max_iter=v, random_state=0), 1),
    "sgd eta": Bound(lambda v: run_sgd(max_iter=1, eta=v, random_state=0), 1e-12),
    "sgd delta": Bound(lambda v: run_sgd(max_iter=1, delta=v, random_state=0), 0.0),
    "frank-wolfe max_iter": Bound(lambda v: run_frank_wolfe(max_iter=v), 1),
    "frank-wolfe tolerance": Bound(lambda v: run_frank_wolfe(tolerance=v), 0.0),
    # chains
    "kbest k": Bound(lambda v: chain.kbest(UNARY, TRANSITION, k=v), 1),
    "sample n": Bound(lambda v: chain.sample(UNARY, TRANSITION, n=v, random_state=0), 1),
    "CRF kbest k": Bound(lambda v: crf().predict_kbest(X, v), 1),
    "CRF sample n": Bound(lambda v: crf().sample(X, v, random_state=0), 1),
    "CRF top n": Bound(lambda v: crf().top_features(v), 0),
    "HMM length": Bound(lambda v: hmm().generate(v, random_state=0), 1),
    "HMM n": Bound(lambda v: hmm().generate(2, v, random_state=0), 1),
    "min_probability": Bound(lambda v: _spans(v), 0.0, 1.0),
    # graphs
    "bp damping": Bound(lambda v: graph.belief_propagation(pair(), damping=v), 0.0),
    "bp tolerance": Bound(lambda v: graph.belief_propagation(pair(), tolerance=v, max_iter=9), 0.0),
    "bp max_iter": Bound(lambda v: graph.belief_propagation(pair(), max_iter=v), 0, 2**40 - 1),
    "mean field max_iter": Bound(lambda v: graph.mean_field(pair(), max_iter=v), 0),
    "exact n": Bound(lambda v: graph.exact_sample(pair(), n=v, random_state=0), 1),
    "gibbs n": Bound(lambda v: _gibbs(n=v), 1),
    "gibbs burn_in": Bound(lambda v: _gibbs(burn_in=v), 0),
    "gibbs thin": Bound(lambda v: _gibbs(thin=v), 1),
    "gibbs chains": Bound(lambda v: _gibbs(chains=v), 1),
    # CTC
    "beam_width": Bound(lambda v: ctc.beam_search(LOG_PROBS, beam_width=v), 1),
    "beams k": Bound(lambda v: ctc.beam_search(LOG_PROBS, k=v), 1),
    "ctc lengths": Bound(lambda v: ctc.greedy(LOG_PROBS[None], lengths=[v]), 1, 2),
    "ctc blank": Bound(lambda v: ctc.greedy(LOG_PROBS, blank=v), 0, 2),
    "decoder beam_width": Bound(
        lambda v: trellis.CTCDecoder(["", " ", "a"], beam_width=v).decode(LOG_PROBS), 1
    ),
    "decoder k": Bound(lambda v: decoder().decode_beams(LOG_PROBS, k=v), 1),
    # embeddings
    "nearest k": Bound(lambda v: vectors().nearest("w0", v), 1),
    "analogy k": Bound(lambda v: vectors().analogy("w0", "w1", "w2", v), 1),
    "search k": Bound(lambda v: vectors().search(vectors().matrix[:2], v), 1),
    "clusters": Bound(lambda v: cluster_words(vectors(), v), 1),
    "quantize dsub": Bound(lambda v: quantize(vectors().matrix, v), 1, 3),
    "predict k": Bound(lambda v: classifier().predict(["a"], k=v), 1),
    "predict threshold": Bound(lambda v: classifier().predict(["a"], threshold=v), 0.0),
    "predict_words k": Bound(lambda v: words().predict_words(["a"], v), 1),
    "huffman depth": Bound(lambda v: HuffmanTree(["a", "b", "c"], np.array([3, 2, 1])).draw(v), 0),
    "phrases min_count": Bound(lambda v: Phrases(min_count=v).fit(TEXTS), 1),
    # language models, metrics
    "order": Bound(lambda v: NGramTrainer(v), 1, MAX_ORDER),
    "decimals": Bound(lambda v: NGramTrainer(2, decimals=v), 1, 15),
    "bootstrap": Bound(lambda v: metrics.paired_bootstrap(TAGS, TAGS, TAGS, n_samples=v), 1),
    "confidence": Bound(
        lambda v: metrics.paired_bootstrap(TAGS, TAGS, TAGS, n_samples=9, confidence=v), 0.0, 1.0
    ),
}


def _spans(value: float) -> Any:
    model = trellis.CRF(max_iter=3).fit(X, TAGS)
    return model.predict_spans(X, scheme="BIO", min_probability=value)


def _gibbs(**options: Any) -> Any:
    return graph.gibbs(pair(), **({"n": 2, "burn_in": 1, "random_state": 0} | options))


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds(name: str) -> None:
    call, low, high = BOUNDS[name]
    is_integer = isinstance(low, int)
    assert call(low) is not None
    refused = [low - 1 if is_integer else math.nextafter(low, -math.inf), math.nan, "1"]
    if high is not None:
        assert call(high) is not None
        refused.append(high + 1 if is_integer else math.nextafter(high, math.inf))
    for value in refused:
        with pytest.raises(TrellisError):
            call(value)
