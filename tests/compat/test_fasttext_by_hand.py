"""fastText's model object on small models with known rows, without fastText or its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis import _core
from trellis.compat import fasttext
from trellis.compat.fasttext import arguments, util
from trellis.errors import InputError


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "train.txt"
    path.write_text("__label__x a b c\n__label__y a b c\n" * 6)
    return path


def make_words(texts: Path, **options: Any) -> Any:
    """Return word vectors: a = (4, 0), b = (0, 2), c = (3, 4), </s> = 0."""
    model = fasttext.train_unsupervised(
        str(texts), dim=2, epoch=1, t=1.0, minCount=1, maxn=0, thread=1, **options
    )
    rows = {"a": (4.0, 0.0), "b": (0.0, 2.0), "c": (3.0, 4.0)}
    matrix = np.array([rows.get(word, (0.0, 0.0)) for word in model.words], np.float32)
    model.set_matrices(matrix, model.get_output_matrix())
    return model


@pytest.fixture
def words(texts: Path) -> Any:
    return make_words(texts)


@pytest.fixture
def classifier(texts: Path) -> Any:
    return fasttext.train_supervised(str(texts), dim=3, epoch=1, thread=1)


def test_a_sentence_of_a_model_of_words_is_the_mean_of_unit_vectors(words: Any) -> None:
    np.testing.assert_allclose(words.get_sentence_vector("a b"), [0.5, 0.5])
    np.testing.assert_allclose(words.get_sentence_vector("a unknown c"), [0.8, 0.4], rtol=1e-6)
    empty = words.get_sentence_vector("unknown")
    assert (empty.tolist(), empty.dtype) == ([0.0, 0.0], np.float32)


def test_a_sentence_of_a_classifier_is_the_mean_of_rows(classifier: Any) -> None:
    expected = np.mean([classifier["a"], classifier["b"], classifier["</s>"]], axis=0)
    np.testing.assert_allclose(classifier.get_sentence_vector("a b"), expected, rtol=1e-5)
    with pytest.raises(InputError, match="get_sentence_vector"):
        classifier.get_sentence_vector("a\nb")


def test_rows_of_the_input_matrix(words: Any) -> None:
    count = len(words.words)
    for row, word in enumerate(words.words):
        assert words.get_input_vector(row).tolist() == words[word].tolist()
    for row in (-1, count):
        message = rf"ind is {row}: must be in 0..{count - 1}$"
        with pytest.raises(InputError, match=message):
            words.get_input_vector(row)
    assert "a" in words
    assert "unknown" not in words


def test_neighbours_and_analogies(words: Any) -> None:
    neighbours = words.get_nearest_neighbors("c", k=2)
    assert [word for _, word in neighbours] == ["b", "a"]
    np.testing.assert_allclose([score for score, _ in neighbours], [0.8, 0.6], rtol=1e-6)
    assert [word for _, word in words.get_nearest_neighbors("c", k=1)] == ["b"]
    ((score, word),) = words.get_analogies("a", "a", "b", k=1)
    assert (word, score) == ("c", pytest.approx(0.8))
    # a − b + c = (1, −1) + (0.6, 0.8): its neighbours exclude a, b and c
    ((score, word),) = words.get_analogies("a", "b", "c")
    assert (word, score) == ("</s>", 0.0)


def test_subwords(texts: Path) -> None:
    model = fasttext.train_unsupervised(
        str(texts), dim=2, epoch=1, t=1.0, minCount=1, minn=2, maxn=3, bucket=7, thread=1
    )
    n_words = len(model.words)
    names, rows = model.get_subwords("a")
    assert names == ["a", "<a", "<a>", "a>"]
    assert rows.tolist() == [model.get_word_id("a"), *map(model.get_subword_id, names[1:])]
    names, rows = model.get_subwords("d")
    assert names == ["<d", "<d>", "d>"]
    assert rows.tolist() == [*map(model.get_subword_id, names)]
    (hashed,) = _core.word_hashes([b"<a"]).tolist()
    assert model.get_subword_id("<a") == n_words + hashed % 7
    np.testing.assert_allclose(
        model.get_word_vector("d"),
        np.mean([model.get_input_vector(int(row)) for row in rows], axis=0),
        rtol=1e-6,
    )


def test_principal_components(words: Any) -> None:
    rows = words.get_input_matrix()
    centred = rows - rows.mean(axis=0)
    _, _, directions = np.linalg.svd(centred)
    expected = rows @ directions[:1].T
    reduced = util.reduce_model(words, 1)
    assert reduced is words
    assert words.get_dimension() == words.dim == 1
    np.testing.assert_allclose(abs(words.get_input_matrix()), abs(expected), atol=1e-5)
    for dim in (0, 2):
        message = rf"target_dim is {dim}: must be in 1..1$"
        with pytest.raises(InputError, match=message):
            util.reduce_model(words, dim)


def test_nearest_neighbour_of_a_matrix() -> None:
    vectors = np.array([[1.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 9.0]])
    query = np.array([1.0, 0.0])
    assert util.find_nearest_neighbor(query, vectors, {}) == 1  # the first of equal scores
    assert util.find_nearest_neighbor(query, vectors, {1, 2}) == 0
    scores = np.empty(4)
    assert util.find_nearest_neighbor(query, vectors, {1}, cossims=scores) == 2
    assert scores.tolist() == [1.0, 2.0, 2.0, 0.0]
    with pytest.raises(InputError, match="all 4 vectors are in ban_set"):
        util.find_nearest_neighbor(query, vectors, {0, 1, 2, 3})


def test_precision_and_recall_of_predictions() -> None:
    assert util.test([["a", "b"], ["c", "d"]], [["a"], ["c", "d", "e"]], k=2) == (0.75, 0.75)
    for gold, k, n_labels in (([[]], 1, 0), ([["a"]], 0, 1)):
        message = f"there are 1 predictions and {n_labels} labels, and k is {k}"
        with pytest.raises(InputError, match=message):
            util.test([["a"]], gold, k)


@pytest.mark.parametrize(("cores", "threads"), [(None, 1), (1, 1), (2, 1), (3, 2), (9, 8)])
def test_default_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, threads: int
) -> None:
    monkeypatch.setattr(arguments.os, "cpu_count", lambda: cores)
    assert arguments.count_threads() == threads


def test_only_retrain_trains_again(texts: Path) -> None:
    models = [
        fasttext.train_supervised(
            str(texts), dim=2, epoch=1, thread=1, bucket=400, minn=1, maxn=2, wordNgrams=2
        )
        for _ in range(3)
    ]
    models[0].quantize(cutoff=300)
    models[1].quantize(input=str(texts), cutoff=300)
    models[2].quantize(input=str(texts), cutoff=300, retrain=True, epoch=20, lr=1.0)
    rows = [np.array([model.get_input_vector(n) for n in range(300)]) for model in models]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert not np.allclose(rows[0], rows[2])


def test_positional_arguments() -> None:
    names = ("input", *arguments.SUPERVISED)
    values = (0, *{**arguments.SUPERVISED, "wordNgrams": 2}.values())
    path, read = arguments.read_arguments(arguments.SUPERVISED, values, {})
    assert path == 0
    assert [getattr(read, name) for name in names[1:]] == [*values[1:]]
    message = f"got {len(names) + 1} positional arguments: must be at most {len(names)}"
    with pytest.raises(TypeError, match=message):
        arguments.read_arguments(arguments.SUPERVISED, (*values, 0), {})
