"""Calls of the library in which every allocation of the native core fails once.

Each entry of `CALLS` is a function of a folder. It prepares models and files, and returns a call
without arguments. The call must return the same value each time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import trellis
from trellis.compat.pycrfsuite import Tagger
from trellis.features import Window, named
from trellis.formats import arpa
from trellis.inference import chain, ctc, graph
from trellis.models.foreign import save_crfsuite

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / name) for name in ("fixtures", "formats", "models/ctc")]

import decoder_oracles  # noqa: E402
import foreign_files  # noqa: E402
import write  # noqa: E402

Call = Callable[[], Any]
JOBS = 2  # the pool takes part


def sentences(dicts: bool = False) -> list[Any]:
    return write.as_dicts(write.SENTENCES) if dicts else write.SENTENCES


def weights(model: Any) -> list[Any]:
    return [model.coef_, model.losses_, model.features_.names()]


# ---- chains

FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "lbfgs": ("CRF", {"max_iter": 4}),
    "lbfgs with l1": ("CRF", {"max_iter": 4, "l1": 0.3}),
    "gradient": ("CRF", {"max_iter": 3, "solver": "gradient"}),
    "sgd": ("CRF", {"max_iter": 3, "solver": "sgd"}),
    "perceptron": ("CRF", {"max_iter": 3, "solver": "perceptron"}),
    "passive-aggressive": ("CRF", {"max_iter": 3, "solver": "passive-aggressive"}),
    "arow": ("CRF", {"max_iter": 3, "solver": "arow"}),
    "window": ("CRF", {"max_iter": 2, "features": Window(gazetteers={"city": ["Rome"]})}),
    "edges": ("CRF", {"max_iter": 2, "features": named(["w[0]"], edges=["w[-1]|w[0]"])}),
    "memm": ("MEMM", {"max_iter": 3}),
}


def fit_chain(name: str, dicts: bool = False) -> Call:
    kind, parameters = FITS[name]
    model = getattr(trellis, kind)(random_state=3, n_jobs=JOBS, **parameters)
    return lambda: weights(model.fit(sentences(dicts), write.TAGS))


def fit_hmm(folder: Path) -> Call:
    def call() -> Any:
        model = trellis.HMM().fit(write.SENTENCES, write.TAGS)
        return [
            model.predict(write.NEW_SENTENCES),
            model.log_likelihood(write.SENTENCES, write.TAGS),
        ]

    return call


def use_chain(name: str) -> Call:
    """Return a call of everything that a fitted model of a chain computes."""
    model = write.make_chain(name).set_params(n_jobs=JOBS)
    X = write.as_dicts(write.NEW_SENTENCES) if write.CHAINS[name][2] else write.NEW_SENTENCES

    def call() -> Any:
        values = [
            model.predict(X),
            model.predict_marginals(X),
            model.predict_kbest(X, 3),
            model.log_likelihood(X, write.NEW_TAGS),
            model.sample(X, 2, random_state=0),
        ]
        if hasattr(model, "explain"):
            values.append(model.explain(X[0]))
        return values

    return call


def save_chain(folder: Path) -> Call:
    model, path = write.make_chain("crf"), folder / "saved.trellis"
    model.save(path)
    before = path.read_bytes()

    def call() -> Any:
        try:
            model.save(path)
        finally:
            assert path.read_bytes() == before, "the earlier file has changed"
            assert list(folder.iterdir()) == [path], "a temporary file is left"
        return path.read_bytes()

    return call


def load_chain(name: str) -> Callable[[Path], Call]:
    def prepare(folder: Path) -> Call:
        path = folder / "model.trellis"
        write.make_chain(name).save(path)
        before = path.read_bytes()

        def call() -> Any:
            try:
                return trellis.load(path).predict(write.NEW_SENTENCES)
            finally:
                assert path.read_bytes() == before, "the file has changed"

        return call

    return prepare


# ---- files of other programs


def load_foreign(name: str) -> Callable[[Path], Call]:
    def prepare(folder: Path) -> Call:
        path = folder / "model"
        path.write_bytes(getattr(foreign_files, f"{name}_model")())
        x = [("the", "N"), ("dog", "V/X"), ("né", "N")]
        ready = [{f"w[0]={word}": 1.0 for word, _ in x}]

        def call() -> Any:
            model = trellis.load(path)
            return [model.classes_, model.predict([ready if name == "crfsuite" else x])]

        return call

    return prepare


def tag_crfsuite(folder: Path) -> Call:
    path = folder / "model.crfsuite"
    save_crfsuite(write.make_chain("crf-dicts"), path)
    items = [[[f"w:{word}"] for word in words] for words in write.NEW_SENTENCES]

    def call() -> Any:
        tagger = Tagger()
        tagger.open(str(path))
        return [[tagger.tag(words), tagger.probability(tagger.tag(words))] for words in items]

    return call


def load_arpa(folder: Path) -> Call:
    path = folder / "model.arpa"
    path.write_text(decoder_oracles.ARPA, encoding="utf-8")

    def call() -> Any:
        model = arpa.read(path)
        return [model.counts, model.words(), model.full_scores("a b ab c")]

    return call


# ---- word vectors

SMALL: dict[str, Any] = {"epochs": 2, "min_count": 1, "random_state": 0, "n_jobs": 1}
TOKENS = [text.split() for text in write.TEXTS[:4]]


def fit_words(make: Callable[[], Any]) -> Call:
    def call() -> Any:
        vectors = make().fit(TOKENS).vectors_
        return [vectors[list(write.WORDS)], vectors.nearest("cat", 2)]

    return call


def fit_classifier(folder: Path) -> Call:
    def call() -> Any:
        model = trellis.TextClassifier(4, epochs=2, min_count=1, random_state=0, n_jobs=1)
        return model.fit(write.TEXTS[:4], write.CLASSIFIED[:4]).predict(write.TEXTS[:4], k=2)

    return call


def load_words(folder: Path) -> Call:
    path = folder / "words.bin"
    trellis.FastText(4, bucket=20, sample=0, **SMALL).fit(TOKENS).save_fasttext(path)

    def call() -> Any:
        vectors = trellis.Vectors.load(path)
        return [vectors["cat"], vectors.nearest("dog", 2)]

    return call


# ---- regression, CTC, graphs


def fit_softmax(folder: Path) -> Call:
    def call() -> Any:
        model = trellis.SoftmaxRegression(l2=3.0).fit(write.ROWS, write.THREE_CLASSES)
        return [model.coef_, model.predict_proba(write.ROWS)]

    return call


def infer_chain(folder: Path) -> Call:
    rng = np.random.default_rng(0)
    unary = [rng.normal(size=(length, 3)) for length in (1, 4, 7, 300)]
    transition = rng.normal(size=(3, 3))

    def call() -> Any:
        arguments = (unary, transition)
        marginals = chain.marginals(*arguments, n_jobs=JOBS)
        return [
            chain.log_partition(*arguments, n_jobs=JOBS),
            marginals.unary,
            marginals.pairwise,
            chain.viterbi(*arguments, n_jobs=JOBS),
            chain.kbest(*arguments, k=3, n_jobs=JOBS),
            chain.expected_counts(*arguments, n_jobs=JOBS),
        ]

    return call


def emissions(frames: int = 8) -> np.ndarray:
    return decoder_oracles.draw_emissions(np.random.default_rng(1), (frames, 4))


def infer_ctc(folder: Path) -> Call:
    batch = np.stack([emissions(), emissions()[::-1]])

    def call() -> Any:
        return [
            ctc.loss(batch, [[1, 2], [3]], n_jobs=JOBS),
            ctc.posterior(batch, [[1, 2], [3]], n_jobs=JOBS),
            ctc.align(batch, [[1, 2], [3]]),
            ctc.greedy(batch),
            ctc.beam_search(batch, beam_width=4),
        ]

    return call


def decode_words(folder: Path) -> Call:
    path = folder / "model.arpa"
    path.write_text(decoder_oracles.ARPA, encoding="utf-8")
    scores = emissions(12)

    def call() -> Any:
        decoder = trellis.CTCDecoder(decoder_oracles.LETTERS, lm=arpa.read(path), hotwords=["ab"])
        stream = decoder.stream()
        return [
            decoder.decode_beams(scores),
            stream.feed(scores[:5]),
            stream.feed(scores[5:]),
            stream.finish(),
        ]

    return call


def decode_vocabulary(folder: Path) -> Call:
    decoder = trellis.CTCDecoder(decoder_oracles.LETTERS, vocabulary=["a", "b", "ab"])
    batch = [emissions(6), emissions(9)]
    return lambda: [decoder.decode_batch(batch), decoder.decode_beams_batch(batch)]


def fit_graph(folder: Path) -> Call:
    def call() -> Any:
        model = trellis.GraphCRF(l2=0.1, max_iter=3).fit(write.GRAPHS, write.GRAPH_LABELS)
        return [model.predict(write.GRAPHS), model.predict_marginals(write.GRAPHS)]

    return call


def infer_graph(folder: Path) -> Call:
    rng = np.random.default_rng(2)
    unary, tables = rng.normal(size=(6, 3)), rng.normal(size=(6, 3, 3))
    edges = [[i, (i + 1) % 6] for i in range(6)]

    def call() -> Any:
        model = graph.FactorGraph.pairwise(unary, edges, tables)
        return [
            graph.exact_marginals(model),
            graph.exact_best(model),
            graph.exact_sample(model, n=3, random_state=0),
            graph.belief_propagation(model, max_iter=5),
            graph.max_product(model, max_iter=5),
            graph.tree_reweighted(model, max_iter=5),
            graph.mean_field(model),
            graph.icm(model),
            graph.alpha_expansion(model),
            graph.gibbs(model, n=5, burn_in=2, random_state=0),
        ]

    return call


def infer_grid(folder: Path) -> Call:
    rng = np.random.default_rng(3)
    unary, table = rng.normal(size=(5, 6, 2)), rng.normal(size=(2, 2))

    def call() -> Any:
        return [
            graph.grid_marginals(unary, table, table).unary,
            graph.grid_best(unary, table, table).labels,
        ]

    return call


# A decoder keeps its search memory for later calls, so the memory in use depends on the calls.
CACHES = {"ctc vocabulary"}
CALLS: dict[str, Callable[[Path], Call]] = {
    **{f"fit {name}": lambda _, name=name: fit_chain(name) for name in FITS},
    "fit ready features": lambda _: fit_chain("lbfgs", dicts=True),
    "fit hmm": fit_hmm,
    **{f"use {name}": lambda _, name=name: use_chain(name) for name in write.CHAINS},
    "save": save_chain,
    **{f"load {name}": load_chain(name) for name in ("crf-window", "crf-edges", "memm", "hmm")},
    **{f"load {name}": load_foreign(name) for name in ("crfsuite", "crfpp", "wapiti")},
    "tag with a CRFsuite file": tag_crfsuite,
    "load arpa": load_arpa,
    "fit word2vec": lambda _: fit_words(lambda: trellis.Word2Vec(4, sample=0, **SMALL)),
    "fit fasttext": lambda _: fit_words(lambda: trellis.FastText(4, bucket=20, sample=0, **SMALL)),
    "fit text classifier": fit_classifier,
    "load word vectors": load_words,
    "fit softmax": fit_softmax,
    "chain inference": infer_chain,
    "ctc inference": infer_ctc,
    "ctc word decoder": decode_words,
    "ctc vocabulary": decode_vocabulary,
    "fit graph": fit_graph,
    "graph inference": infer_graph,
    "grid inference": infer_grid,
}
