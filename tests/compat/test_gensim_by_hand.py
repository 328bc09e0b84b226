"""The replacement of gensim on vectors that can be checked by hand; gensim is not needed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis.compat.gensim.models import KeyedVectors
from trellis.compat.gensim.models.fasttext import load_facebook_vectors
from trellis.errors import FormatError, InputError, UnknownWordError

#: angles of 0, 30, 90 and 180 degrees, and lengths 2, 1, 3 and 1
WORDS = ["east", "East-north", "north", "west"]
ANGLES = np.radians([0, 30, 90, 180])
ROWS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1) * np.array([[2], [1], [3], [1]])


@pytest.fixture
def v() -> KeyedVectors:
    vectors = KeyedVectors(2)
    vectors.add_vectors(WORDS, ROWS)
    return vectors


def test_keys_and_rows(v: KeyedVectors) -> None:
    assert [v.get_index(key) for key in ("east", "west", 0, 3)] == [0, 3, 0, 3]
    assert v.get_index("none", 7) == 7
    assert [v.has_index_for(key) for key in ("east", "west", "none", 0, 3)] == [1, 1, 0, 1, 1]
    assert (0 in v, 3 in v, 4 in v, -1 in v, "none" in v, 1.0 in v) == (1, 1, 0, 0, 0, 0)
    for key in ("none", 4, -1):
        with pytest.raises(UnknownWordError, match="has no vector"):
            v.get_index(key)
    np.testing.assert_allclose(v.get_vector("north", norm=True), [0, 1], atol=1e-7)
    np.testing.assert_allclose(v.get_vector(2), [0, 3], atol=1e-6)
    np.testing.assert_allclose(v.norms, [2, 1, 3, 1], rtol=1e-6)
    assert str(v) == "KeyedVectors<vector_size=2, 4 keys>"


def test_distances(v: KeyedVectors) -> None:
    cosines = np.cos(ANGLES)
    np.testing.assert_allclose(v.distances("east"), 1 - cosines, atol=1e-6)
    np.testing.assert_allclose(v.distances("east", ["west", "north"]), [2, 1], atol=1e-6)
    assert v.distance("east", "north") == pytest.approx(1.0)
    assert v.closer_than("east", "west") == ["East-north", "north"]
    assert v.closer_than("west", "east") == ["East-north", "north"]
    assert v.closer_than("north", "west") == ["East-north"]
    assert v.closer_than("east", "East-north") == []
    assert v.rank("east", "west") == 3
    assert v.rank("east", "East-north") == 1
    # the vectors are not scaled before the mean: (2, 3) / 2 and (-1, 0)
    assert v.n_similarity(["east", "north"], ["west"]) == pytest.approx(-2 / np.sqrt(13))
    with pytest.raises(InputError, match=r"the vector has shape \(3,\): must be \(2,\)"):
        v.distances([1, 2, 3])


def test_centrality(v: KeyedVectors, caplog: pytest.LogCaptureFixture) -> None:
    words = ["east", "north", "west"]
    unit = v.rank_by_centrality(words)
    assert [word for _, word in unit] == ["north", "west", "east"] or unit[0][1] == "north"
    np.testing.assert_allclose([score for score, _ in unit], [1, 0, 0], atol=1e-6)
    # the sum is (1, 3), the products 2, 9 and -1, divided by the length of the sum
    scores = v.rank_by_centrality(words, use_norm=False)
    assert [word for _, word in scores] == ["north", "east", "west"]
    np.testing.assert_allclose(
        [s for s, _ in scores], np.array([9, 2, -1]) / np.sqrt(10), rtol=1e-5
    )
    assert v.doesnt_match(["east", "East-north", "west"]) == "west"
    assert caplog.messages == []
    v.rank_by_centrality(["east", "none"])
    assert caplog.messages == ["words without vectors are ignored: ['none']"]
    for words_ in ("east", []):
        with pytest.raises(InputError, match="must be a list of at least one word"):
            v.rank_by_centrality(words_)


def test_pairs(v: KeyedVectors, tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    path.write_text(
        "# a comment\t1\nEAST\tnorth\t1\neast\twest\t0\neast\teast-north\t2\nnone\twest\t9\n"
        "east\twest\nx\ty\tz\na\teast\twest\t1\n"
    )
    pearson, spearman, unknown = v.evaluate_word_pairs(path)
    cosines = [0, -1, np.cos(np.radians(30))]
    assert pearson[0] == pytest.approx(np.corrcoef([1, 0, 2], cosines)[0, 1], rel=1e-5)
    assert spearman[0] == pytest.approx(1.0)
    assert unknown == 25.0
    pearson, spearman, unknown = v.evaluate_word_pairs(path, dummy4unknown=True)
    assert pearson[0] == pytest.approx(np.corrcoef([1, 0, 2, 9], [*cosines, 0])[0, 1], rel=1e-5)
    assert unknown == 25.0
    pearson, _, unknown = v.evaluate_word_pairs(path, case_insensitive=False, dummy4unknown=True)
    assert unknown == 75.0
    path.write_text("a,b,1\neast,north,1\neast,west,2\n")
    assert v.evaluate_word_pairs(path, delimiter=",")[2] == pytest.approx(100 / 3)
    assert v.evaluate_word_pairs(path, ",", restrict_vocab=3, dummy4unknown=True)[2] == (
        pytest.approx(200 / 3)
    )
    path.write_text("a\tb\t1\n")
    with pytest.raises(InputError, match="no pair has vectors for both words"):
        v.evaluate_word_pairs(path)
    with pytest.raises(InputError, match="encoding is 'latin-1': must be utf8"):
        v.evaluate_word_pairs(path, encoding="latin-1")


def test_analogies(tmp_path: Path) -> None:
    # a is to b as c is to d: b − a + c = d
    rows = {
        "man": [1, 0, 0],
        "woman": [1, 1, 0],
        "king": [1, 0, 1],
        "queen": [1, 1, 1],
        "x": [-1, 0, 0],
    }
    vectors = KeyedVectors(3)
    vectors.add_vectors([*rows], np.array([*rows.values()]))
    path = tmp_path / "questions"
    path.write_text(
        ": first one \nMan woman king queen\nman woman king x\nman none king queen\nman woman\n"
        ":not a section\n: second\nking queen man woman\n"
    )
    right, wrong = ("MAN", "WOMAN", "KING", "QUEEN"), ("MAN", "WOMAN", "KING", "X")
    last, unknown = ("KING", "QUEEN", "MAN", "WOMAN"), ("MAN", "NONE", "KING", "QUEEN")
    accuracy, sections = vectors.evaluate_word_analogies(path)
    assert accuracy == pytest.approx(2 / 3)
    assert sections == [
        {"section": "first one", "correct": [right], "incorrect": [wrong]},
        {"section": "second", "correct": [last], "incorrect": []},
        {"section": "Total accuracy", "correct": [right, last], "incorrect": [wrong]},
    ]
    accuracy, sections = vectors.evaluate_word_analogies(path, dummy4unknown=True)
    assert accuracy == 0.5
    assert sections[0]["incorrect"] == [wrong, unknown]
    accuracy, sections = vectors.evaluate_word_analogies(path, restrict_vocab=4)
    assert (accuracy, sections[0]["incorrect"]) == (1.0, [])
    accuracy, sections = vectors.evaluate_word_analogies(path, case_insensitive=False)
    assert sections[0]["correct"] == []
    assert sections[1]["correct"] == [("king", "queen", "man", "woman")]
    path.write_text(": none\n")
    assert vectors.evaluate_word_analogies(path)[0] == 0.0
    path.write_text("\n: none\n")
    with pytest.raises(FormatError, match="line 1: a section such as ': capitals' is missing"):
        vectors.evaluate_word_analogies(path)
    with pytest.raises(InputError, match="similarity_function must be 'most_similar', not 'x'"):
        vectors.evaluate_word_analogies(path, similarity_function="x")


def test_new_and_replaced_vectors(v: KeyedVectors) -> None:
    v.add_vectors(["north", "south", "south"], [[9, 9], [0, -2], [5, 5]])
    np.testing.assert_allclose(v["north"], [0, 3], atol=1e-6)
    assert v["south"].tolist() == [0, -2]
    v.add_vectors(["north", "up"], [[0, 4], [1, 1]], {"count": [7, 8]}, replace=True)
    assert v["north"].tolist() == [0, 4]
    assert [v.get_vecattr(word, "count") for word in ("east", "north", "up")] == [0, 7, 8]
    v.add_vectors(["north", "down"], [[0, 5], [1, 2]], {"count": [9, 10]})
    assert v["north"].tolist() == [0, 4]
    assert [v.get_vecattr(word, "count") for word in ("north", "down")] == [7, 10]
    v.distances("north")  # the search is prepared again after a change
    assert v.add_vector("north", [-4, 0]) == 2
    np.testing.assert_allclose(v.distances("north", ["west"]), [0], atol=1e-6)
    v["north"] = [0, 4]
    np.testing.assert_allclose(v.distances("north", ["west"]), [1], atol=1e-6)
    v.unit_normalize_all()
    np.testing.assert_allclose(v.norms, np.ones(len(v)), rtol=1e-6)
    v.vectors[2] = [-1, 0]
    v.fill_norms()
    v.fill_norms(force=True)
    np.testing.assert_allclose(v.distances("north", ["west"]), [0], atol=1e-6)
    before = v.matrix.copy()
    before.flags.writeable = False
    v.matrix = v._buffer = before
    v["east"] = [0, 7]
    assert v["east"].tolist() == [0, 7]
    assert before[0].tolist() == [1, 0]


def test_capacity_grows_by_half() -> None:
    vectors = KeyedVectors(1)
    capacities = []
    for n in range(12):
        vectors.add_vector(str(n), [n])
        capacities.append(len(vectors._buffer))
    assert capacities == [1, 2, 3, 4, 6, 6, 9, 9, 9, 13, 13, 13]
    assert vectors.vectors[:, 0].tolist() == [*range(12)]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda v: KeyedVectors(0), "vector_size must be at least 1, not 0"),
        (lambda v: KeyedVectors(True), "vector_size must be an integer, not True"),
        (lambda v: KeyedVectors(2.0), r"vector_size must be an integer, not 2\.0"),  # type: ignore[arg-type]
        (lambda v: KeyedVectors(2, dtype=np.float64), "dtype must be float32, not"),
        (lambda v: v.add_vectors(["a"], [[1, 2, 3]]), "weights has 3 columns: must have 2"),
        (lambda v: v.add_vectors(["a", "b"], [[1, 2, 3]]), "must be a matrix of 2 rows of numbers"),
        (lambda v: v.add_vectors([3], [[1, 2]]), "keys must be a list of str"),
        (lambda v: v.get_vecattr("east", "none"), "attr is 'none': no word has this attribute"),
        (lambda v: v.most_similar([("east", 1, 2)]), "is not a word, a vector, or a"),
        (lambda v: v.vectors_for_all(["none"]), "no word in keys has a vector"),
        (lambda v: v.save_word2vec_format("f", append=True), "fvocab and append are not supported"),
        (
            lambda v: v.save_word2vec_format("f", total_vec=3),
            "total_vec must be None or the number",
        ),
        (lambda v: v.save_word2vec_format("f", None, True, None, False), "write_header is False"),
        (lambda v: v.load_word2vec_format("f", encoding="x-y"), "Python has no such encoding"),
        (lambda v: v.load_word2vec_format("f", datatype=np.float64), "must be float32"),
        (
            lambda v: load_facebook_vectors("f", encoding="latin-1"),
            "encoding is 'latin-1': must be",
        ),
    ],
)
def test_invalid_calls(v: KeyedVectors, call: Any, match: str) -> None:
    with pytest.raises((InputError, UnknownWordError), match=match):
        call(v)


def test_attributes_of_words(v: KeyedVectors, caplog: pytest.LogCaptureFixture) -> None:
    v.set_vecattr("north", "tag", "N")
    assert v.get_vecattr("north", "tag") == "N"
    v.set_vecattr("north", "n", 3)
    v.add_vector("new", [1, 1])
    assert v.get_vecattr("new", "n") == 0
    v.set_vecattr("new", "n", 4)
    assert [v.get_vecattr(word, "n") for word in ("east", "north", "new")] == [0, 3, 4]
    with caplog.at_level(logging.WARNING), pytest.raises(InputError, match="val is 'x': must have"):
        v.set_vecattr("new", "n", "x")


def test_files(v: KeyedVectors, tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    v.save_word2vec_format(path, total_vec=4, prefix="p_")
    assert path.read_text().splitlines()[0] == "4 2"
    again = KeyedVectors.load_word2vec_format(path)
    assert again.words == [f"p_{word}" for word in WORDS]
    np.testing.assert_allclose(again.matrix, ROWS, atol=1e-6)
    assert [int(again.get_vecattr(word, "count")) for word in again.words] == [4, 3, 2, 1]
    v.save_word2vec_format(path, write_header=False)
    assert path.read_text().startswith("east 2")
    v.save_word2vec_format(path, binary=True)
    assert KeyedVectors.load_word2vec_format(path, limit=2).words == WORDS[:2]
    path.write_bytes("2 1\né 1\né 2\n".encode("latin-1"))
    latin = KeyedVectors.load_word2vec_format(path, encoding="latin-1")
    assert (latin.words, latin.matrix.tolist()) == (["é"], [[1.0]])
    counts = tmp_path / "counts"
    v.set_vecattr("east", "count", 5)
    v.save_word2vec_format(path, counts)
    assert counts.read_text().splitlines()[:2] == ["east 5", "East-north 0"]
    assert int(KeyedVectors.load_word2vec_format(path, counts).get_vecattr("east", "count")) == 5
    counts.write_text("east 5\nwest\n")
    with pytest.raises(FormatError, match="line 2 must be a word and its count"):
        KeyedVectors.load_word2vec_format(path, counts)
    path.write_text("1 3\neast 1 2 3\n")
    with pytest.raises(InputError, match="vectors have 3 dimensions, expected 2"):
        v.intersect_word2vec_format(path)
    path.write_text("2 2\nwest 5 6\nnone 7 8\n")
    v.intersect_word2vec_format(path)
    assert v["west"].tolist() == [5, 6]
    assert "none" not in v
    subset = v.vectors_for_all(["west", "none", "west", "east"])
    assert subset.words == ["west", "east"]


def test_an_index_answers_instead_of_the_search() -> None:
    class Indexer:
        def most_similar(self, vector: np.ndarray, count: int) -> list[Any]:
            return [("from the index", vector.tolist(), count)]

    vectors = KeyedVectors(2)
    vectors.add_vectors(["a", "b"], [[3, 4], [1, 0]])
    ((name, vector, count),) = vectors.most_similar("a", topn=7, indexer=Indexer())
    assert (name, count) == ("from the index", 7)
    np.testing.assert_allclose(vector, [0.6, 0.8], rtol=1e-6)
    assert len(vectors.most_similar("a", topn=None, indexer=Indexer())) == 2
    assert vectors.most_similar("a", topn=0, indexer=Indexer()) == []


def test_norms_are_computed_again_if_forced() -> None:
    vectors = KeyedVectors(2)
    vectors.add_vectors(["a", "b", "c"], [[1, 0], [2, 0], [0, 3]])
    assert vectors.most_similar("a", topn=1)[0][0] == "b"
    vectors.vectors[1:] = [[0, 2], [3, 0]]
    vectors.fill_norms()
    vectors.fill_norms(force=True)
    assert vectors.most_similar("a", topn=1) == [("c", 1.0)]
