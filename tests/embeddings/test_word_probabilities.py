"""p(w_o | w_i) of every loss by its equation, the Huffman tree, sums of rows, and warnings."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples
from scipy.special import expit
from sklearn.exceptions import NotFittedError
from test_word2vec import topics

import trellis
from trellis import FastText, TextClassifier, Word2Vec, _core
from trellis.embeddings.huffman import HuffmanTree
from trellis.embeddings.word2vec import WordProbability
from trellis.errors import InputError, TrainingWarning, UnknownWordError

PLAIN: dict[str, Any] = {"min_count": 1, "sample": 0, "n_jobs": 1, "random_state": 3}
SMALL: dict[str, Any] = {"bucket": 50, "minn": 2, "maxn": 3, **PLAIN}
LOSSES = ("negative", "hierarchical", "softmax", "ova")


# ---- p(w_o | w_i)


def expected_probabilities(model: Word2Vec, hidden: np.ndarray) -> np.ndarray:
    """Return p of each word by its equation, one word at a time."""
    scores = model.output_.astype(np.float64) @ hidden
    if model.loss == "ova":
        return expit(scores)
    if model.loss != "hierarchical":
        return np.exp(scores) / np.exp(scores).sum()
    begin, node, right, _ = _core.huffman(model.counts_)
    p = []
    for first, last in pairwise(begin):
        sign = np.where(right[first:last] == 1, 1.0, -1.0)
        p.append(np.prod(expit(sign * scores[node[first:last]])))
    return np.array(p)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_probabilities_follow_the_equations(loss: str, architecture: str) -> None:
    model = Word2Vec(6, loss=loss, architecture=architecture, alpha=0.05, **PLAIN).fit(topics(60))
    for words in (["a1"], ["a1", "the", "b2"]):
        hidden = np.mean([model.input_[model.words_.index(word)] for word in words], axis=0)
        expected = expected_probabilities(model, hidden.astype(np.float64))
        p = model.output_probabilities(words)
        np.testing.assert_allclose(p, expected, rtol=1e-6)
        assert p.dtype == np.float64
        assert np.ptp(expected) > 1e-3  # the words differ
        if loss != "ova":
            assert p.sum() == pytest.approx(1.0)
        best = model.predict_words(words, k=3)
        order = np.argsort(-expected)[:3]
        assert [word for word, _ in best] == [model.words_[i] for i in order]
        np.testing.assert_allclose([p for _, p in best], expected[order], rtol=1e-6)
    np.testing.assert_array_equal(
        model.output_probabilities("a1"), model.output_probabilities(["a1"])
    )
    assert isinstance(best[0], WordProbability)
    assert len(model.predict_words("the")) == 10
    assert len(model.predict_words("the", k=99)) == len(model.words_)


@pytest.mark.parametrize("loss", ["hierarchical", "softmax", "ova"])
def test_probabilities_are_learnt(loss: str) -> None:
    """After x there is y three times and z once; before y and z there is always x."""
    text = [["x", "y"], ["x", "y"], ["x", "y"], ["x", "z"]] * 50
    model = Word2Vec(4, loss=loss, window=1, epochs=60, alpha=0.2, min_alpha=0.001, **PLAIN)
    p = dict(zip(model.fit(text).words_, model.output_probabilities("x"), strict=True))
    assert p["y"] == pytest.approx(0.75, abs=0.05)
    assert p["z"] == pytest.approx(0.25, abs=0.05)
    assert p["x"] < 0.05


def test_equal_probabilities_are_in_the_order_of_the_vocabulary() -> None:
    with pytest.warns(TrainingWarning):
        model = Word2Vec(4, **PLAIN).fit([["c"], ["a"], ["b"], ["c"]])
    assert [word for word, _ in model.predict_words("a", k=2)] == ["c", "a"]
    assert model.predict_words("a", k=1)[0].probability == pytest.approx(1 / 3)


@pytest.mark.parametrize("combine", ["mean", "sum"])
@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
@pytest.mark.parametrize("ngrams", ["hashed", "dictionary"])
def test_hidden_vectors_of_fasttext(combine: str, architecture: str, ngrams: str) -> None:
    model = FastText(
        6, combine=combine, architecture=architecture, ngrams=ngrams, loss="softmax", alpha=0.1,
        **SMALL,
    ).fit(topics(60))  # fmt: skip
    words = ["the", "a1b2"]  # the second is not in the text
    groups = [model._rows_of(word).astype(np.float64) for word in words]
    assert len(groups[0]) > 1
    assert len(groups[0]) != len(groups[1])
    if combine == "sum":
        hidden = sum(group.sum(axis=0) for group in groups) / 2
    elif architecture == "cbow":
        hidden = np.concatenate(groups).mean(axis=0)
    else:
        hidden = sum(group.mean(axis=0) for group in groups) / 2
    expected = expected_probabilities(model, hidden)
    np.testing.assert_allclose(model.output_probabilities(words), expected, rtol=1e-6)
    one = model.vector("a1b2").astype(np.float64)
    np.testing.assert_allclose(
        model.output_probabilities("a1b2"), expected_probabilities(model, one), rtol=1e-5
    )


def test_invalid_contexts() -> None:
    model = Word2Vec(4, **PLAIN).fit(topics(20))
    with pytest.raises(UnknownWordError, match="'never' has no vector"):
        model.predict_words(["the", "never"])
    with pytest.raises(InputError, match="words is an empty list: must contain at least one word"):
        model.predict_words([])
    for k in (0, -1, 1.5, "many"):
        with pytest.raises(InputError, match="k"):
            model.predict_words("the", k=k)
    with pytest.raises(NotFittedError):
        Word2Vec().predict_words("the")
    with pytest.raises(NotFittedError):
        Word2Vec(loss="hierarchical").huffman_tree()
    dictionary = FastText(4, ngrams="dictionary", **SMALL).fit(topics(20))
    with pytest.raises(UnknownWordError, match="'qqq' has no vector: the model knows no part of"):
        dictionary.predict_words(["the", "qqq"])


# ---- the Huffman tree


def test_tree_of_a_model(tmp_path: Path) -> None:
    model = Word2Vec(6, loss="hierarchical", **PLAIN).fit(topics(60))
    tree = model.huffman_tree()
    assert tree.words == model.words_
    begin, node, right, child = _core.huffman(model.counts_)
    for i, word in enumerate(model.words_):
        steps = slice(begin[i], begin[i + 1])
        assert tree.path(word) == node[steps][::-1].tolist()
        assert tree.code(word) == "".join(map(str, right[steps][::-1].tolist()))
        position = len(tree.words) - 2 + len(tree.words)  # follow the code from the root
        for bit in tree.code(word):
            position = tree.children[position - len(tree.words), int(bit)]
        assert position == i
    assert tree.depth == max(len(tree.code(word)) for word in tree.words)
    np.testing.assert_array_equal(tree.children.ravel(), child)
    model.save(tmp_path / "m.trellis")
    loaded = trellis.load(tmp_path / "m.trellis")
    assert str(loaded.huffman_tree()) == str(tree)
    with pytest.raises(InputError, match="loss is 'ova': only loss='hierarchical' has a tree"):
        Word2Vec(4, loss="ova", **PLAIN).fit(topics(20)).huffman_tree()


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=24), st.integers(0, 5))
def test_codes(counts: list[int], seed: int) -> None:
    counts = sorted(counts, reverse=True)
    words = [f"w{i}" for i in range(len(counts))]
    tree = HuffmanTree(words, counts)
    codes = [tree.code(word) for word in words]
    assert sum(2.0 ** -len(code) for code in codes) == 1.0  # Kraft: the code is complete
    assert not any(a != b and b.startswith(a) for a in codes for b in codes)  # and prefix-free
    p = np.array(counts) / sum(counts)
    bits = float(-(p * np.log2(p)).sum())
    assert bits <= tree.mean_depth + 1e-12
    assert tree.mean_depth < bits + 1  # Shannon's bounds
    assert tree.mean_depth == pytest.approx(sum(p * [len(code) for code in codes]))
    scores = np.random.default_rng(seed).normal(size=len(words) - 1)
    log_p = tree.log_probabilities(scores)
    for word, code, value in zip(words, codes, log_p, strict=True):
        signs = [1 if bit == "1" else -1 for bit in code]
        expected = np.prod(expit(np.array(signs, float) * scores[tree.path(word)]))
        assert np.exp(value) == pytest.approx(expected)
    assert np.exp(log_p).sum() == pytest.approx(1.0)


def test_drawing_of_a_tree() -> None:
    tree = HuffmanTree(list("abcd"), [6, 4, 2, 1])
    assert repr(tree) == "HuffmanTree(4 words, depth 3)"
    lines = tree.draw().splitlines()
    assert lines == [
        "2 (13)",
        "├─0─ a (6)",
        "└─1─ 1 (7)",
        "     ├─0─ 0 (3)",
        "     │    ├─0─ d (1)",
        "     │    └─1─ c (2)",
        "     └─1─ b (4)",
    ]
    assert str(tree).splitlines() == lines
    assert tree.draw(0) == "2 (13): 4 words"
    assert tree.draw(2).splitlines()[-2:] == ["     ├─0─ 0 (3): 2 words", "     └─1─ b (4)"]
    assert tree.draw(3).splitlines() == lines
    deep = HuffmanTree([f"w{i}" for i in range(9)], [2**i for i in range(8, -1, -1)])
    assert deep.depth == 8
    assert "2 (15): 4 words" in str(deep)  # five levels below the root
    assert "w4 (16)" in str(deep)
    assert "w5" not in str(deep)
    left_first = HuffmanTree(["a", "b", "c"], [2, 2, 2]).draw().splitlines()
    assert left_first == [
        "1 (6)",
        "├─0─ a (2)",
        "└─1─ 0 (4)",
        "     ├─0─ c (2)",
        "     └─1─ b (2)",
    ]


def test_tree_of_one_word() -> None:
    tree = HuffmanTree(["a"], [3])
    assert (tree.path("a"), tree.code("a"), tree.depth, tree.mean_depth) == ([], "", 0, 0.0)
    assert tree.draw() == "a (3)"
    assert tree.log_probabilities([]).tolist() == [0.0]
    assert HuffmanTree(["a", "b"], [0, 0]).mean_depth == 0.0


@pytest.mark.parametrize(
    ("words", "counts", "match"),
    [
        ([], [], "words is empty or contains a word twice"),
        (["a", "a"], [2, 1], "words is empty or contains a word twice"),
        (["a", "b"], [2], r"shape \(1,\): must be 2 integers, one for each word"),
        (["a", "b"], [2.0, 1.0], "counts has dtype float64"),
        (["a", "b"], [1, 2], "in descending order"),
        (["a", "b"], [1, -2], "in descending order"),
    ],
)
def test_invalid_trees(words: list[str], counts: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        HuffmanTree(words, counts)


def test_invalid_arguments_of_a_tree() -> None:
    tree = HuffmanTree(["a", "b"], [2, 1])
    for call in (tree.path, tree.code):
        with pytest.raises(UnknownWordError, match="'c' is not in the tree"):
            call("c")
    with pytest.raises(InputError, match="depth"):
        tree.draw(-1)
    with pytest.raises(InputError, match=r"scores has shape \(2,\): must be \(1,\)"):
        tree.log_probabilities([0.0, 0.0])


# ---- sums of rows


@pytest.mark.parametrize("ngrams", ["hashed", "dictionary"])
def test_sums_of_rows(ngrams: str, tmp_path: Path) -> None:
    model = FastText(5, combine="sum", ngrams=ngrams, **SMALL).fit(topics(40))
    assert FastText(5).combine == "mean"
    for word in (*model.words_, "a0b0"):
        rows = model._rows_of(word)
        assert len(rows) > 1
        np.testing.assert_allclose(model.vector(word), rows.sum(axis=0), atol=1e-5)
        np.testing.assert_allclose(model.vectors_[word], rows.sum(axis=0), atol=1e-5)
    model.save(tmp_path / "m.trellis")
    loaded = FastText.load(tmp_path / "m.trellis")
    assert loaded.combine == "sum"
    assert model.to_parts()[0]["parameters"]["combine"] == "sum"
    mean = FastText(5, ngrams=ngrams, **SMALL).fit(topics(40))
    assert "combine" not in mean.to_parts()[0]["parameters"]  # as in files of 0.1.0
    mean.save(tmp_path / "mean.trellis")
    assert FastText.load(tmp_path / "mean.trellis").combine == "mean"
    np.testing.assert_allclose(loaded.vectors_.matrix, model.vectors_.matrix, atol=1e-5)
    if ngrams == "hashed":
        for export in (model.to_file, lambda: model.save_fasttext(tmp_path / "m.bin")):
            with pytest.raises(InputError, match="combine is 'sum': fastText's files can only sto"):
                export()
    assert not (tmp_path / "m.bin").exists()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_sum_without_ngrams_is_word2vec(architecture: str, shared: bool) -> None:
    options = {"architecture": architecture, "shared_negatives": shared, **PLAIN}
    plain = Word2Vec(8, **options).fit(topics(50))
    summed = FastText(8, maxn=0, min_alpha=None, combine="sum", **options).fit(topics(50))
    np.testing.assert_allclose(plain.input_, summed.input_, atol=1e-4)
    np.testing.assert_allclose(plain.output_, summed.output_, atol=1e-4)
    np.testing.assert_allclose(plain.vectors_.matrix, summed.vectors_.matrix, atol=1e-4)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_sums_learn_topics(architecture: str, shared: bool) -> None:
    model = FastText(
        16, combine="sum", architecture=architecture, shared_negatives=shared, epochs=20,
        alpha=0.05, **SMALL,
    ).fit(topics())  # fmt: skip
    for word in ("a0", "b3"):
        assert {near.word[0] for near in model.vectors_.nearest(word, 5)} == {word[0]}


# ---- n-grams


def test_vectors_of_ngrams() -> None:
    hashed = FastText(5, **SMALL).fit(topics(40))
    grams = hashed.ngram_vectors()
    assert set(grams.words) == {g for w in hashed.words_ for g in _core.subwords(w, 2, 3)}
    for gram in ("<t", "he>"):
        ids = _core.subword_ids(["the"], 2, 3, 50)[1]
        row = len(hashed.words_) + ids[_core.subwords("the", 2, 3).index(gram)]
        np.testing.assert_array_equal(grams[gram], hashed.input_[row])
    assert hashed.ngram_vectors(["zz", "<t", "zz"]).words == ["zz", "<t"]
    dictionary = FastText(5, ngrams="dictionary", **SMALL).fit(topics(40))
    grams = dictionary.ngram_vectors()
    assert set(grams.words) == set(dictionary.ngrams_)
    row = len(dictionary.words_) + dictionary.ngrams_.index("<t")
    np.testing.assert_array_equal(grams["<t"], dictionary.input_[row])
    assert dictionary.ngram_vectors(["zz", "<t"]).words == ["<t"]


def test_invalid_ngrams() -> None:
    hashed = FastText(5, **SMALL).fit(topics(20))
    with pytest.raises(InputError, match="ngrams is the str 'the': must be a list"):
        hashed.ngram_vectors("the")
    for ngram in ("t", "<the", 3):
        with pytest.raises(InputError, match="is not an n-gram: must be a str of 2 to 3 char"):
            hashed.ngram_vectors(["<t", ngram])  # type: ignore[list-item]
    with pytest.raises(InputError, match="no n-gram has a row"):
        FastText(5, maxn=0, **PLAIN).fit(topics(20)).ngram_vectors()
    dictionary = FastText(5, ngrams="dictionary", **SMALL).fit(topics(20))
    with pytest.raises(InputError, match="no n-gram has a row"):
        dictionary.ngram_vectors(["zz"])
    with pytest.raises(NotFittedError):
        FastText().ngram_vectors()


# ---- warnings


@pytest.mark.parametrize("cls", [Word2Vec, FastText])
def test_text_without_pairs(cls: type[Word2Vec]) -> None:
    options = {"bucket": 50} if cls is FastText else {}
    with pytest.warns(TrainingWarning, match="nothing was learnt: no sentence has two words"):
        model = cls(4, **options, **PLAIN).fit([["a"], ["b"]])
    assert np.isnan(model.losses_).all()
    assert np.isfinite(model.input_).all()
    with pytest.warns(TrainingWarning, match="with min_count=1 and sample=0; a sentence must be"):
        model.partial_fit([["a"]])
    model.partial_fit([["a", "b"]])  # no warning


def test_warnings_name_the_line_of_the_user() -> None:
    with pytest.warns(TrainingWarning) as caught:
        Word2Vec(4, **PLAIN).fit([["a"], ["b"]])
    assert caught[0].filename == __file__
    model = TextClassifier(2, min_count=5, n_jobs=1, random_state=0)
    with pytest.warns(TrainingWarning, match="nothing was learnt: no text has") as caught:
        model.fit(["a a a a a", "b"], [[], ["x"]])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("loss", ["softmax", "ova"])
def test_divergence(loss: str) -> None:
    with (
        pytest.warns(TrainingWarning, match=r"the loss is (nan|inf): training diverged; choose al"),
    ):
        model = Word2Vec(4, loss=loss, alpha=1e30, **PLAIN).fit(topics(50))
    assert not np.isfinite(model.losses_).all()
