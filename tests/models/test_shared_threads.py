"""Eight threads share fitted estimators, decoders and vectors, and get the serial results.

`make sanitize` runs these tests under ThreadSanitizer, which reports data races in the native core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from scale import examples

import trellis
from trellis.formats import arpa
from trellis.inference import chain, ctc, graph

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "fixtures"), str(TESTS / "models" / "ctc")]

import decoder_oracles  # noqa: E402
import write  # noqa: E402

Call = Callable[[], Any]
THREADS = 8


def plain(value: Any) -> Any:
    """Return a value that compares bit by bit."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def assert_serial_results(calls: list[Call]) -> None:
    """Run all calls in each of the threads, each from another first call, and compare."""
    expected = [plain(call()) for call in calls]
    barrier = Barrier(THREADS)

    def work(thread: int) -> None:
        barrier.wait()
        for step in range(examples(5) * len(calls)):
            n = (thread + step) % len(calls)
            assert plain(calls[n]()) == expected[n]

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(work, thread) for thread in range(THREADS)]:
            future.result()


@pytest.mark.parametrize("name", write.CHAINS)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_models_of_chains(name: str, n_jobs: int, tmp_path: Path) -> None:
    model = write.make_chain(name).set_params(n_jobs=n_jobs)
    X = write.as_dicts(write.NEW_SENTENCES) if write.CHAINS[name][2] else write.NEW_SENTENCES
    path = tmp_path / "model.trellis"
    model.save(path)
    calls: list[Call] = [
        lambda: model.predict(X),
        lambda: model.predict_marginals(X),
        lambda: model.predict_kbest(X, 3),
        lambda: model.log_likelihood(X, write.NEW_TAGS),
        lambda: model.sample(X, 2, random_state=0),
        lambda: model.save(path),
        lambda: trellis.load(path).predict(X),
        lambda: sorted(model.features_.names()),
    ]
    if name != "hmm":
        calls += [lambda: model.explain(X[0]), lambda: model.top_features(5)]
    assert_serial_results(calls)


def test_other_models() -> None:
    models = write.make_other()
    vectors = models["word2vec"].vectors_
    subwords = models["fasttext"]
    assert_serial_results(
        [
            lambda: models["logistic"].predict_proba(write.ROWS),
            lambda: models["softmax"].predict_proba(write.ROWS),
            lambda: models["graph-crf"].predict_marginals(write.GRAPHS),
            lambda: models["grid-crf"].predict(write.IMAGES),
            lambda: models["classifier"].predict(write.TEXTS[:4], k=2),
            lambda: vectors.nearest("cat", 3),
            lambda: vectors.nearest_each(["cat", "dog"], 3),
            lambda: vectors["dog"],
            lambda: subwords.vector("catdog"),
            lambda: subwords.vectors_.nearest("cat", 2),
        ]
    )


def test_fits_share_data() -> None:
    def fit(**parameters: Any) -> Call:
        return lambda: (
            trellis.CRF(random_state=0, **parameters).fit(write.SENTENCES, write.TAGS).coef_
        )

    assert_serial_results(
        [
            fit(n_jobs=1),
            fit(n_jobs=2),
            fit(solver="sgd", max_iter=4),
            fit(solver="arow", max_iter=4),
        ]
    )


def test_decoders(tmp_path: Path) -> None:
    path = tmp_path / "model.arpa"
    path.write_text(decoder_oracles.ARPA, encoding="utf-8")
    language = arpa.read(path)
    scores = decoder_oracles.draw_emissions(np.random.default_rng(1), (12, 4))
    decoder = trellis.CTCDecoder(decoder_oracles.LETTERS, lm=language, hotwords=["ab"])

    def stream() -> Any:
        reader = decoder.stream()
        return [reader.feed(scores[:5]), reader.feed(scores[5:]), reader.finish(3)]

    assert_serial_results(
        [
            lambda: decoder.decode(scores),
            lambda: decoder.decode_beams(scores),
            lambda: decoder.decode_batch([scores, scores[::-1]]),
            lambda: decoder.align(scores, "a b"),
            lambda: language.full_scores("a b ab"),
            stream,
        ]
    )


def test_inference() -> None:
    rng = np.random.default_rng(2)
    unary = [rng.normal(size=(length, 3)) for length in (1, 4, 7, 40)]
    transition = rng.normal(size=(3, 3))
    frames = decoder_oracles.draw_emissions(rng, (2, 8, 4))
    tables = rng.normal(size=(6, 3, 3))
    ring = graph.FactorGraph.pairwise(
        rng.normal(size=(6, 3)), [[i, (i + 1) % 6] for i in range(6)], tables
    )
    assert_serial_results(
        [
            lambda: chain.marginals(unary, transition, n_jobs=2).unary,
            lambda: chain.marginals(unary, transition, n_jobs=2).pairwise,
            lambda: chain.kbest(unary, transition, k=3, n_jobs=2),
            lambda: chain.expected_counts(unary, transition, n_jobs=2),
            lambda: ctc.posterior(frames, [[1, 2], [3]], n_jobs=2),
            lambda: ctc.beam_search(frames, beam_width=4),
            lambda: graph.exact_marginals(ring),
            lambda: graph.exact_best(ring),
            lambda: graph.belief_propagation(ring, max_iter=5),
            lambda: graph.gibbs(ring, n=5, burn_in=2, random_state=0).labels,
        ]
    )
