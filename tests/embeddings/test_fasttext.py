"""FastText: rows of n-grams, training and files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from test_word2vec import topics

import trellis
from trellis import FastText, Word2Vec, _core
from trellis.errors import InputError

PLAIN = {"min_count": 1, "sample": 0, "shrink_windows": False, "n_jobs": 1, "random_state": 3}
SMALL = {"bucket": 500, "minn": 2, "maxn": 4}


def rows_of(model: FastText, word: str) -> list[int]:
    _, ids = _core.subword_ids([word], model.minn, model.maxn, model.bucket)
    return [model.words_.index(word), *(len(model.words_) + ids).tolist()]


def first_rows(model: FastText) -> NDArray[np.float64]:
    dim, count = model.vector_size, len(model.words_) + model.bucket
    table = _core.embedding_table(count, dim)
    _core.fill_table(table, 0, count, dim, 1.0 / dim, model.random_state, 1)
    return table[:, :dim].astype(np.float64)


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
@pytest.mark.parametrize("combine", ["mean", "sum"])
@pytest.mark.parametrize("loss", ["hierarchical", "ova"])
def test_against_reference(architecture: str, combine: str, loss: str) -> None:
    """Train on words whose n-grams are all different; these losses draw no random words."""
    sentence = ["abc", "defg", "hijkl", "mno", "pqrs", "tuvwx"]
    model = FastText(
        10, architecture=architecture, loss=loss, combine=combine, window=2, epochs=1, minn=3,
        maxn=4, bucket=100_003, **PLAIN,
    ).fit([sentence])  # fmt: skip
    v, w = first_rows(model), np.zeros((6, 10))
    begin, node, right, _ = _core.huffman(model.counts_)
    rows = [rows_of(model, word) for word in sentence]
    alpha = {"skipgram": 0.025, "cbow": 0.05}[architecture]
    for i, word in enumerate(sentence):
        near = [j for j in range(i - 2, i + 3) if 0 <= j < 6 and j != i]
        number = model.words_.index(word)
        steps = slice(begin[number], begin[number + 1])
        path, label = np.arange(6), np.arange(6) == number
        if loss == "hierarchical":
            path, label = node[steps], right[steps]
        groups = [rows[j] for j in near]
        n_words = 1
        if architecture == "cbow":
            n_words, groups = len(groups), [[row for group in groups for row in group]]
        if combine == "sum":
            hidden = np.array([v[group].sum(axis=0) / n_words for group in groups])
        else:
            hidden = np.array([v[group].mean(axis=0) for group in groups])
        g = alpha * (label - expit(hidden @ w[path].T))
        change = g @ w[path]
        w[path] += g.T @ hidden
        for group, group_change in zip(groups, change, strict=True):
            np.add.at(v, group, group_change)
    np.testing.assert_allclose(model.input_, v, atol=1e-6)
    np.testing.assert_allclose(model.output_, w, atol=1e-6)


def test_vectors_are_means_of_rows() -> None:
    model = FastText(8, **SMALL, **PLAIN).fit(topics(50))
    for word in model.words_:
        expected = model.input_[rows_of(model, word)].mean(axis=0)
        np.testing.assert_allclose(model.vectors_[word], expected, atol=1e-6)
        np.testing.assert_allclose(model.vector(word), expected, atol=1e-6)
    _, ids = _core.subword_ids(["a0b0"], 2, 4, 500)
    expected = model.input_[len(model.words_) + ids].mean(axis=0)
    np.testing.assert_allclose(model.vectors_["a0b0"], expected, atol=1e-6)
    assert "a0b0" not in model.vectors_


def test_unseen_words_are_near_similar_words() -> None:
    rng = np.random.default_rng(0)
    stems = {"kati": ["kati", "katib", "katim"], "rovo": ["rovo", "rovob", "rovom"]}
    text = [rng.choice(stems[s], 6).tolist() for s in ("kati", "rovo") for _ in range(300)]
    model = FastText(16, minn=3, maxn=4, bucket=2000, epochs=10, alpha=0.1, **PLAIN).fit(text)
    assert model.vectors_.nearest(model.vector("katiz"), 3)[0].word.startswith("kati")
    assert model.vectors_.nearest(model.vector("rovoz"), 3)[0].word.startswith("rovo")
    assert (
        model.vector("qq") == 0
    ).all() or model.bucket  # its n-grams can share a bucket with others


def test_no_ngrams_is_word2vec() -> None:
    plain = Word2Vec(8, **PLAIN).fit(topics(50))
    without = FastText(8, maxn=0, min_alpha=None, **PLAIN).fit(topics(50))
    assert np.array_equal(plain.input_, without.input_)
    assert np.array_equal(plain.vectors_.matrix, without.vectors_.matrix)
    assert (without.vector("never") == 0).all()


def test_dictionary_of_ngrams(tmp_path: Path) -> None:
    model = FastText(8, ngrams="dictionary", minn=2, maxn=3, bucket=10, **PLAIN).fit(topics(50))
    assert len(model.ngrams_) == 10
    assert model.ngrams_[:2] == ["<b", "<a"] or "<t" in model.ngrams_
    assert model.input_.shape == (len(model.words_) + 10, 8)
    grams = [model.ngrams_.index(g) for g in _core.subwords("the", 2, 3) if g in model.ngrams_]
    rows = [model.words_.index("the"), *(len(model.words_) + i for i in grams)]
    np.testing.assert_allclose(model.vector("the"), model.input_[rows].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(model.vectors_["the"], model.vector("the"), atol=1e-6)
    model.save(tmp_path / "m.trellis")
    loaded = FastText.load(tmp_path / "m.trellis")
    assert loaded.ngrams_ == model.ngrams_
    np.testing.assert_allclose(loaded.vectors_.matrix, model.vectors_.matrix, atol=1e-6)
    with pytest.raises(InputError, match="dictionary"):
        model.save_fasttext(tmp_path / "m.bin")


def test_several_threads() -> None:
    model = FastText(16, epochs=4, alpha=0.1, min_count=1, n_jobs=2, random_state=0, bucket=5000)
    model.fit(topics(8000))
    assert {neighbor.word[0] for neighbor in model.vectors_.nearest("a0", 5)} == {"a"}
    assert np.isfinite(model.input_).all()


@pytest.mark.parametrize("loss", ["negative", "hierarchical", "softmax"])
def test_files(tmp_path: Path, loss: str) -> None:
    model = FastText(8, loss=loss, architecture="cbow", **SMALL, **PLAIN).fit(topics(50))
    model.save(tmp_path / "m.trellis")
    model.save_fasttext(tmp_path / "m.bin")
    for path in (tmp_path / "m.trellis", tmp_path / "m.bin"):
        for loaded in (FastText.load(path), trellis.load(path)):
            assert type(loaded) is FastText
            assert loaded.words_ == model.words_
            assert np.array_equal(loaded.input_, model.input_)
            assert np.array_equal(loaded.output_, model.output_)
            np.testing.assert_allclose(loaded.vector("a0b"), model.vector("a0b"), atol=1e-7)
            assert (loaded.loss, loaded.architecture) == (loss, "cbow")
    with pytest.raises(InputError, match="FastText"):
        Word2Vec.load(tmp_path / "m.bin")


def test_partial_fit_adds_words(tmp_path: Path) -> None:
    model = FastText(8, **SMALL, **PLAIN).fit(topics(50))
    model.save(tmp_path / "m.trellis")
    before = {word: model.vector(word) for word in [*model.words_, "other"]}
    model = FastText.load(tmp_path / "m.trellis").set_params(alpha=1e-12, random_state=0)
    model.partial_fit([["brand", "new"]] * 3)
    assert {"brand", "new"} <= set(model.words_)
    assert len(model.input_) == len(model.words_) + 500
    for word, vector in before.items():
        np.testing.assert_allclose(model.vector(word), vector, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"minn": 5, "maxn": 3}, "minn"),
        ({"bucket": 0}, "bucket"),
        ({"bucket": -1}, "bucket"),
        ({"maxn": 1000}, "maxn"),
        ({"ngrams": "some"}, "ngrams"),
    ],
)
def test_invalid_parameters(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        FastText(**options).fit(topics(5))


def test_word_must_be_a_str() -> None:
    model = FastText(4, **SMALL, **PLAIN).fit(topics(5))
    with pytest.raises(InputError, match="int"):
        model.vector(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("ngrams", ["hashed", "dictionary"])
def test_partial_fit_changes_vectors_of_unseen_words(ngrams: str) -> None:
    text = [["the", "cat", "purrs"], ["the", "dog", "barks"]] * 50
    options = {"min_count": 1, "epochs": 2, "bucket": 500, "n_jobs": 1, "random_state": 0}
    model = FastText(8, ngrams=ngrams, **options).fit(text)
    before = model.vector("purring")
    model.partial_fit([["the", "purring", "bird"]] * 40)
    assert not np.array_equal(model.vector("purring"), before)
    for word in ("purring", "bird", "cat"):
        np.testing.assert_allclose(model.vector(word), model.vectors_[word], atol=1e-6)
