"""Word2Vec: compared with a plain reference and with the optimum; vocabulary, files, errors."""

import gzip
import lzma
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax
from sklearn.exceptions import NotFittedError

import trellis
from trellis import Word2Vec, _core
from trellis.data import Corpus, conll
from trellis.embeddings.training import Progress
from trellis.errors import FormatError, InputError, TrainingWarning

PLAIN = {"min_count": 1, "sample": 0, "shrink_windows": False, "n_jobs": 1, "random_state": 3}
ARCHITECTURES = ("skipgram", "cbow")
LOSSES = ("negative", "hierarchical", "softmax", "ova")


def topics(sentences: int = 400, seed: int = 0) -> list[list[str]]:
    """Return text of two topics that share only one word, "the"."""
    rng = np.random.default_rng(seed)
    words = [[f"{topic}{i}" for i in range(8)] for topic in "ab"]
    return [["the", *rng.choice(words[n % 2], 8).tolist()] for n in range(sentences)]


def first_tables(model: Word2Vec) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return V and W as `fit` initialises them."""
    rows = _core.embedding_table(len(model.words_), model.vector_size)
    dim = model.vector_size
    _core.fill_table(rows, 0, len(rows), dim, 1.0 / dim, model.random_state, 1)
    start = rows[:, :dim].astype(np.float64)
    assert np.abs(start).max() <= 1.0 / dim
    assert start.std() == pytest.approx(1.0 / dim / np.sqrt(3), rel=0.3)
    return start, np.zeros_like(start)


def reference(model: Word2Vec, text: list[list[str]]) -> tuple[NDArray[np.float64], ...]:
    """Train without random words by the equations; all words of a sentence are different.

    Hierarchical softmax updates the nodes of a path, one-vs-all and softmax the rows of all words.
    """
    v, w = first_tables(model)
    index = {word: i for i, word in enumerate(model.words_)}
    begin, node, right, _ = _core.huffman(model.counts_)
    n_words = len(index)
    alpha = {"skipgram": 0.025, "cbow": 0.05}[model.architecture]
    assert sum(map(len, text)) < 8192  # the learning rate is constant within a chunk
    for sentence in text:
        ids = [index[word] for word in sentence]
        for i, word in enumerate(ids):
            near = ids[max(0, i - model.window) : i] + ids[i + 1 : i + 1 + model.window]
            path, label = np.arange(n_words), np.arange(n_words) == word
            if model.loss == "hierarchical":
                path = node[begin[word] : begin[word + 1]]
                label = right[begin[word] : begin[word + 1]]
            hidden = v[near] if model.architecture == "skipgram" else v[near].mean(axis=0)[None]
            scores = hidden @ w[path].T
            p = softmax(scores, axis=1) if model.loss == "softmax" else expit(scores)
            g = alpha * (label - p)
            change = g @ w[path]
            w[path] += g.T @ hidden
            v[near] += change
    return v, w


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("loss", ["hierarchical", "softmax", "ova"])
def test_against_reference(architecture: str, window: int, loss: str) -> None:
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(30)]
    text = [rng.permutation(words)[: rng.integers(2, 25)].tolist() for _ in range(60)]
    model = Word2Vec(
        20, window=window, architecture=architecture, loss=loss, epochs=1, **PLAIN
    ).fit(text)
    v, w = reference(model, text)
    np.testing.assert_allclose(model.input_, v, atol=1e-5)
    np.testing.assert_allclose(model.output_, w, atol=1e-5)


def pair_counts(model: Word2Vec, text: list[list[str]]) -> NDArray[np.float64]:
    """Return how often word j is next to word i, (words, words)."""
    index = {word: i for i, word in enumerate(model.words_)}
    counts = np.zeros((len(index), len(index)))
    for sentence in text:
        for a, b in pairwise(sentence):
            counts[index[a], index[b]] += 1
            counts[index[b], index[a]] += 1
    return counts


def test_softmax_reaches_the_optimum() -> None:
    rng = np.random.default_rng(0)
    chain = rng.dirichlet(np.ones(5) * 2, 5)
    state, sentence = 0, []
    for _ in range(400):
        state = int(rng.choice(5, p=chain[state]))
        sentence.append(f"w{state}")
    text = [sentence[i : i + 50] for i in range(0, 400, 50)]
    model = Word2Vec(2, window=1, loss="softmax", epochs=2000, alpha=0.05, min_alpha=0.0, **PLAIN)
    model.fit(text)
    counts = pair_counts(model, text)

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        v, w = parameters.reshape(2, 5, 2)
        log_p = log_softmax(v @ w.T, axis=1)
        g = (np.exp(log_p) * counts.sum(axis=1, keepdims=True) - counts) / counts.sum()
        gradient = np.stack([g @ w, g.T @ v])
        return -float((counts * log_p).sum() / counts.sum()), gradient.ravel()

    best = min(
        minimize(loss, rng.normal(size=20), jac=True, method="L-BFGS-B").fun for _ in range(5)
    )
    model_loss = loss(np.stack([model.input_, model.output_]).astype(np.float64).ravel())[0]
    chance = loss(np.zeros(20))[0]
    assert chance - best > 0.05  # there is something to learn
    assert model_loss - best < 0.005 * (chance - best)
    assert model.loss_ == pytest.approx(best, abs=0.05)  # an estimate from a part of the steps


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tree_probabilities_sum_to_one(architecture: str) -> None:
    model = Word2Vec(8, architecture=architecture, loss="hierarchical", **PLAIN).fit(topics())
    begin, node, right, _ = _core.huffman(model.counts_)
    sign = np.where(right == 1, 1.0, -1.0)
    steps = np.log(expit(model.input_.astype(np.float64) @ model.output_[node].T * sign))
    log_p = np.add.reduceat(steps, begin[:-1], axis=1)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("shared", [True, False])
def test_learns_topics(architecture: str, loss: str, shared: bool) -> None:
    model = Word2Vec(
        16, architecture=architecture, loss=loss, shared_negatives=shared, epochs=20, alpha=0.1,
        min_count=1, sample=0, n_jobs=1, random_state=0,
    ).fit(topics())  # fmt: skip
    for word in ("a0", "b3"):
        topics_of_neighbors = {neighbor.word[0] for neighbor in model.vectors_.nearest(word, 5)}
        assert topics_of_neighbors == {word[0]}
    assert model.losses_[-1] < model.losses_[0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_one_thread_gives_the_same_bits(architecture: str, loss: str) -> None:
    def tables(seed: int) -> tuple[NDArray[np.float32], ...]:
        model = Word2Vec(
            12, architecture=architecture, loss=loss, min_count=1, epochs=2, n_jobs=1,
            random_state=seed,
        ).fit(topics())  # fmt: skip
        return model.input_, model.output_

    assert all(map(np.array_equal, tables(5), tables(5)))
    assert not np.array_equal(tables(5)[0], tables(6)[0])


def test_training_with_two_threads() -> None:
    model = Word2Vec(16, epochs=4, alpha=0.1, min_count=1, sample=0, n_jobs=2, random_state=0)
    model.fit(topics(8000))
    assert {neighbor.word[0] for neighbor in model.vectors_.nearest("a0", 5)} == {"a"}
    tree = Word2Vec(16, loss="hierarchical", epochs=4, min_count=1, n_jobs=2, random_state=0)
    assert {n.word[0] for n in tree.fit(topics(8000)).vectors_.nearest("a0", 5)} == {"a"}


def test_equal_sources_give_equal_vectors(tmp_path: Path) -> None:
    text = topics(50)
    lines = "\n".join(map(" ".join, text)) + "\n"
    files = {"t.txt": lines.encode(), "t.gz": gzip.compress(lines.encode())}
    files["t.xz"] = lzma.compress(lines.encode())
    options: dict[str, Any] = {**PLAIN, "epochs": 1}
    expected = Word2Vec(8, **options).fit(text).input_
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        assert np.array_equal(Word2Vec(8, **options).fit(tmp_path / name).input_, expected)
    assert np.array_equal(Word2Vec(8, **options).fit(iter(text)).input_, expected)
    half = len(lines) // 2 + lines[len(lines) // 2 :].index("\n") + 1
    for name, part in (("1.txt", lines[:half]), ("2.txt", lines[half:])):
        (tmp_path / name).write_text(part)
    model = Word2Vec(8, **options).fit([tmp_path / "1.txt", tmp_path / "2.txt"])
    assert model.n_tokens_ == sum(map(len, text))


def test_zstd(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    text = topics(50)
    compressed = zstandard.compress("".join(" ".join(s) + "\n" for s in text).encode())
    (tmp_path / "t.zst").write_bytes(compressed)
    options: dict[str, Any] = {**PLAIN, "epochs": 1}
    expected = Word2Vec(8, **options).fit(text).input_
    assert np.array_equal(Word2Vec(8, **options).fit(tmp_path / "t.zst").input_, expected)
    (tmp_path / "t.zst").write_bytes(compressed + compressed)  # two frames
    assert Word2Vec(8, **options).fit(tmp_path / "t.zst").n_tokens_ == 2 * sum(map(len, text))
    for damaged in (compressed[:-9], compressed[:20] + b"x" * 40, compressed + b"more"):
        (tmp_path / "t.zst").write_bytes(damaged)
        with pytest.raises(FormatError, match=r"t\.zst"):
            Word2Vec(8, **options).fit(tmp_path / "t.zst")


def test_arrow_columns(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    text = topics(50)
    table = pyarrow.table({"text": [" ".join(s) for s in text], "words": text})
    parquet.write_table(table, tmp_path / "t.parquet")
    options: dict[str, Any] = {**PLAIN, "epochs": 1}
    expected = Word2Vec(8, **options).fit(text).input_
    for source in (table, tmp_path / "t.parquet"):
        for column in ("text", "words"):
            rows = Word2Vec(8, **options).fit(source, column=column).input_
            assert np.array_equal(rows, expected)
    with pytest.raises(InputError, match="'nothing'"):
        Word2Vec().fit(table, column="nothing")


def test_vocabulary() -> None:
    text = [["b", "a", "c"], ["b", "a"], ["b"]] * 3
    model = Word2Vec(4, **{**PLAIN, "min_count": 4}).fit(text)
    assert model.words_ == ["b", "a"]
    assert model.counts_.tolist() == [9, 6]
    with pytest.warns(TrainingWarning, match="nothing was learnt"):
        assert Word2Vec(4, max_vocabulary=1, **PLAIN).fit(text).words_ == ["b"]
    assert Word2Vec(4, **PLAIN).fit([["b", "a", "a", "b", "é"]]).words_ == ["a", "b", "é"]


def test_progress() -> None:
    reports: list[Progress] = []
    Word2Vec(4, epochs=3, **PLAIN).fit(topics(20), callback=reports.append)
    assert [p.epoch for p in reports] == [0, 1, 2]
    assert reports[-1].fraction == 1.0
    assert all(p.words_per_second > 0 for p in reports)

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Word2Vec(4, **PLAIN).fit(topics(20), callback=stop)


@pytest.mark.parametrize("loss", LOSSES)
def test_partial_fit_adds_words(loss: str) -> None:
    model = Word2Vec(8, loss=loss, epochs=3, **{**PLAIN, "min_count": 3}).fit(topics())
    before = dict(zip(model.words_, model.counts_.tolist(), strict=True))
    vectors = model.vectors_
    model.set_params(alpha=1e-12, epochs=1)
    model.partial_fit([["new", "a0", "rare"], ["new", "b0"], ["new"]])
    after = dict(zip(model.words_, model.counts_.tolist(), strict=True))
    assert after == {**before, "new": 3, "a0": before["a0"] + 1, "b0": before["b0"] + 1}
    assert model.counts_.tolist() == sorted(model.counts_.tolist(), reverse=True)
    for word in before:
        np.testing.assert_allclose(model.vectors_[word], vectors[word], atol=1e-6)
    assert np.abs(model.vectors_["new"]).max() <= 1 / 8
    assert len(model.losses_) == 4


def test_partial_fit_without_fit() -> None:
    assert np.array_equal(
        Word2Vec(4, **PLAIN).partial_fit(topics(20)).input_,
        Word2Vec(4, **PLAIN).fit(topics(20)).input_,
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_files(tmp_path: Path, loss: str) -> None:
    model = Word2Vec(8, loss=loss, **PLAIN).fit(topics(50))
    model.save(tmp_path / "m.trellis")
    for loaded in (Word2Vec.load(tmp_path / "m.trellis"), trellis.load(tmp_path / "m.trellis")):
        assert type(loaded) is Word2Vec
        assert loaded.words_ == model.words_
        assert np.array_equal(loaded.input_, model.input_)
        assert loaded.losses_ == model.losses_
    loaded.set_params(random_state=3, n_jobs=1)
    a = loaded.partial_fit(topics(20, seed=9)).input_
    assert np.array_equal(a, model.partial_fit(topics(20, seed=9)).input_)


def test_invalid_files(tmp_path: Path) -> None:
    from trellis.formats import native

    model = Word2Vec(8, **PLAIN).fit(topics(50))
    meta, tensors = model.to_parts()
    path = tmp_path / "m.trellis"
    for change in (
        {"input": tensors["input"][:-1].copy()},
        {"output": tensors["output"] * np.nan},
        {"counts": tensors["counts"][::-1].copy()},
        {"words.ends": tensors["words.ends"][:-1].copy()},
    ):
        native.write(path, "word2vec", meta, {**tensors, **change})
        with pytest.raises(FormatError, match=r"m\.trellis"):
            Word2Vec.load(path)
    native.write(path, "word2vec", {**meta, "parameters": {"no_such": 1}}, tensors)
    with pytest.raises(FormatError, match="unknown"):
        Word2Vec.load(path)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"vector_size": 0}, "vector_size"),
        ({"window": 0}, "window"),
        ({"window": 2.5}, "window"),
        ({"negatives": 0}, "negatives"),
        ({"architecture": "glove"}, "glove"),
        ({"loss": "hinge"}, "hinge"),
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"sample": "much"}, "sample"),
        ({"epochs": 0}, "epochs"),
        ({"min_count": True}, "min_count"),
        ({"max_vocabulary": 0}, "max_vocabulary"),
        ({"shared_negatives": "no"}, "shared_negatives"),
        ({"random_state": -1}, "random_state"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_invalid_parameters(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Word2Vec(**options).fit(topics(5))


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ([], "no words"),
        ([[]], "no words"),
        (5, "int"),
        (["no/such/file"], "no such file"),
        ("no/such/file", "no such file"),
        ([["a", 3]], "sequence 0, position 1"),
        ([["a"], "b c"], "sequence 1"),
        ([["a\ud800"]], "surrogates"),
        ([["a"], ["b"]], "min_count"),
    ],
)
def test_invalid_sources(source: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        Word2Vec().fit(source)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(b"caf\xe9 " * 9)
    with pytest.raises(FormatError, match="not UTF-8"):
        Word2Vec().fit(tmp_path / "t.txt")


def test_not_fitted(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        _ = Word2Vec().vectors_
    with pytest.raises(NotFittedError):
        Word2Vec().save(tmp_path / "m.trellis")


@pytest.mark.parametrize(
    ("options", "last"),
    [
        ({}, 0.0025),
        ({"architecture": "cbow"}, 0.005),
        ({"architecture": "cbow", "alpha": 0.1}, 0.01),
        ({"loss": "hierarchical"}, 1e-4),
        ({"min_alpha": 0.02}, 0.02),
        ({"min_alpha": 0.5}, 0.025),
    ],
)
def test_last_learning_rate(options: dict[str, Any], last: float, monkeypatch: Any) -> None:
    from trellis.embeddings import word2vec as module

    schedules = []
    original_train = module.train

    def train(step: Any, corpus: Any, schedule: Any, *args: Any) -> Any:
        schedules.append(schedule)
        return original_train(step, corpus, schedule, *args)

    monkeypatch.setattr(module, "train", train)
    Word2Vec(2, epochs=1, **PLAIN, **options).fit([["a", "b"]])
    assert schedules[0].last == pytest.approx(last)


def test_a_corpus_of_shards(tmp_path: Path) -> None:
    X = topics(60)
    conll.write(tmp_path / "a.conll", X, [["O"] * len(x) for x in X])
    shards = Corpus.text(tmp_path / "a.conll", shard=300)
    assert len(shards.shards) > 5
    model = Word2Vec(**PLAIN, epochs=1).fit(shards)
    expected = Word2Vec(**PLAIN, epochs=1).fit(X)
    np.testing.assert_array_equal(model.vectors_.matrix, expected.vectors_.matrix)
