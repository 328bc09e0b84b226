"""The replacement of gensim gives the same results as gensim on the same vectors."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_files import needs_corpus
from vector_files import MODELS, keyed_vectors, needs_data, some_rows, some_words

from trellis.compat.gensim.models import KeyedVectors
from trellis.compat.gensim.models.fasttext import load_facebook_vectors
from trellis.errors import FormatError, InputError, UnknownWordError

WORDS = some_words(60)
ROWS = some_rows(60, 7)
A, B, C, D = WORDS[3], WORDS[10], WORDS[20], WORDS[30]


@pytest.fixture
def v() -> KeyedVectors:
    vectors = KeyedVectors(7)
    vectors.add_vectors(WORDS, ROWS)
    return vectors


@pytest.fixture(scope="module")
def peer() -> Any:
    vectors = keyed_vectors()(7)
    vectors.add_vectors(WORDS, ROWS)
    return vectors


def agree(ours: Any, theirs: Any) -> None:
    """Compare lists of (word, score), arrays or numbers."""
    if isinstance(theirs, list):
        assert [w for w, _ in ours] == [w for w, _ in theirs]
        ours, theirs = [s for _, s in ours], [s for _, s in theirs]
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


VECTOR = some_rows(1, 7, seed=5)[0]
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("most_similar", (A,), {}),
    ("most_similar", ([A, B],), {"topn": 3}),
    ("most_similar", ([A, B], [C]), {"topn": 60}),
    ("most_similar", (), {"positive": [(A, 0.5), (B, 2.0)], "negative": [C, (D, -3.0)]}),
    ("most_similar", (A,), {"restrict_vocab": 12}),
    ("most_similar", (A,), {"clip_start": 20, "clip_end": 40}),
    ("most_similar", (A,), {"topn": None}),
    ("most_similar", (A,), {"topn": None, "restrict_vocab": 9}),
    ("most_similar", (VECTOR,), {}),
    ("most_similar", (ROWS[:3],), {}),
    ("most_similar", ([A, VECTOR], [3]), {}),
    ("most_similar", (5,), {}),
    ("most_similar_cosmul", ([A, B], [C]), {}),
    ("most_similar_cosmul", (A,), {"topn": None}),
    ("similar_by_word", (A, 4), {}),
    ("similar_by_key", (A,), {"restrict_vocab": 10}),
    ("similar_by_vector", (VECTOR,), {"topn": 5}),
    ("similarity", (A, B), {}),
    ("distance", (A, B), {}),
    ("distances", (A,), {}),
    ("distances", (VECTOR, [A, C, B]), {}),
    ("n_similarity", ([A, B], [C, D, B]), {}),
    ("get_vector", (A,), {}),
    ("get_vector", (A,), {"norm": True}),
    ("get_vector", (17,), {}),
    ("get_normed_vectors", (), {}),
    ("get_mean_vector", ([A, B, C],), {}),
    ("get_mean_vector", ([A, "zzz", VECTOR],), {"weights": [1.0, 2.0, -0.5]}),
    ("get_mean_vector", ([A, B],), {"pre_normalize": False, "post_normalize": True}),
]


@pytest.mark.filterwarnings("ignore:Call to deprecated")
@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_same_results_as_gensim(
    v: KeyedVectors, peer: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    agree(getattr(v, name)(*args, **kwargs), getattr(peer, name)(*args, **kwargs))


def test_same_ranks_and_names_as_gensim(v: KeyedVectors, peer: Any) -> None:
    for a, b in ((A, B), (B, C), (D, A)):
        assert v.rank(a, b) == peer.rank(a, b)
        assert v.closer_than(a, b) == peer.closer_than(a, b)
    assert v.index_to_key == peer.index_to_key
    assert v.key_to_index == peer.key_to_index
    assert np.array_equal(v.vectors, peer.vectors)
    assert v.vector_size == peer.vector_size
    assert v.get_index(A) == peer.get_index(A)
    assert v.get_index("zzz", 5) == peer.get_index("zzz", 5)
    assert v.most_similar_to_given(A, [B, C, D]) == peer.most_similar_to_given(A, [B, C, D])
    assert v.most_similar(A, topn=0) == v.most_similar_cosmul(A, topn=0) == []
    for key in (A, "zzz", 5, 60):
        assert v.has_index_for(key) == peer.has_index_for(key)
    for words in ([A, B, C], WORDS[:9], WORDS[30:]):
        assert v.doesnt_match(words) == peer.doesnt_match(words)
        agree(
            [(w, s) for s, w in v.rank_by_centrality(words)],
            [(w, s) for s, w in peer.rank_by_centrality(words)],
        )


def test_vectors_for_all(v: KeyedVectors, peer: Any) -> None:
    assert v.vectors_for_all([B, "zzz", A, B]).index_to_key == [B, A]
    agree(v.vectors_for_all([B, A]).vectors, peer.vectors_for_all([B, A]).vectors)


@needs_data
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("ignore_case", [False, True])
def test_same_evaluations_as_gensim(tmp_path: Path, zero: bool, ignore_case: bool) -> None:
    path = MODELS / "word2vec" / "wiki3mb.skipgram25.bin"
    ours = KeyedVectors.load_word2vec_format(path, binary=True)
    theirs = keyed_vectors().load_word2vec_format(path, binary=True)
    words = [w for w in ours.index_to_key[:200] if w.isascii()]
    lines = [f"{a}\t{b.upper()}\t{i % 7}" for i, (a, b) in enumerate(pairwise(words))]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("# a comment\n" + "\n".join([*lines, "no pair", "zzzz\tthe\t3"]) + "\n")
    options = {"case_insensitive": ignore_case, "dummy4unknown": zero}
    results = ours.evaluate_word_pairs(pairs, restrict_vocab=150, **options)
    expected = theirs.evaluate_word_pairs(str(pairs), restrict_vocab=150, **options)
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    questions = [" ".join(words[i : i + 4]) for i in range(0, 120, 3)]
    text = [
        ": one",
        *questions[:20],
        "three words only",
        ": two",
        *questions[20:],
        "zzzz the of and",
    ]
    (tmp_path / "questions.txt").write_text("\n".join(text) + "\n")
    accuracy, sections = ours.evaluate_word_analogies(tmp_path / "questions.txt", 1000, **options)
    expected = theirs.evaluate_word_analogies(str(tmp_path / "questions.txt"), 1000, **options)
    assert accuracy == pytest.approx(expected[0])
    assert sections == expected[1]


@needs_data
@needs_corpus("wordsim")
def test_evaluation_agrees_with_vectors(tmp_path: Path) -> None:
    v = KeyedVectors.load(MODELS / "word2vec" / "wiki3mb.skipgram25.bin")
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "".join(f"{a}\t{b}\t{i % 5}\n" for i, (a, b) in enumerate(pairwise(v.words[:99])))
    )
    pearson, spearman, unknown = v.evaluate_word_pairs(path)
    scores = v.evaluate_similarity(path)
    assert (pearson[0], spearman[0], unknown) == pytest.approx((scores.pearson, scores.spearman, 0))


@pytest.mark.parametrize("binary", [False, True])
def test_files_are_exchanged_with_gensim(
    v: KeyedVectors, peer: Any, binary: bool, tmp_path: Path
) -> None:
    path, back = tmp_path / "v", tmp_path / "w"
    v.save_word2vec_format(path, binary=binary, prefix="*")
    theirs = keyed_vectors().load_word2vec_format(path, binary=binary)
    assert theirs.index_to_key == ["*" + word for word in WORDS]
    assert np.array_equal(theirs.vectors, ROWS)
    peer.save_word2vec_format(str(back), binary=binary)
    ours = KeyedVectors.load_word2vec_format(back, binary=binary, limit=9)
    assert (ours.words, ours.matrix.tolist()) == (WORDS[:9], ROWS[:9].tolist())


def test_other_encodings_and_no_header(v: KeyedVectors, tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes("2 1\né 1\nû 2\n".encode("latin-1"))
    assert KeyedVectors.load_word2vec_format(tmp_path / "v", encoding="latin-1").words == ["é", "û"]
    v.save_word2vec_format(tmp_path / "g", write_header=False)
    assert KeyedVectors.load_word2vec_format(tmp_path / "g", no_header=True).words == WORDS


def test_counts_of_words(tmp_path: Path) -> None:
    v, peer = KeyedVectors(7), keyed_vectors()(7)
    for vectors in (v, peer):
        vectors.add_vectors(WORDS, ROWS)
        for i, word in enumerate(WORDS):
            vectors.set_vecattr(word, "count", 100 - i)
    v.save_word2vec_format(tmp_path / "v", tmp_path / "counts")
    again = KeyedVectors.load_word2vec_format(tmp_path / "v", tmp_path / "counts")
    theirs = keyed_vectors().load_word2vec_format(tmp_path / "v", str(tmp_path / "counts"))
    for word in WORDS:
        count = peer.get_vecattr(word, "count")
        assert again.get_vecattr(word, "count") == theirs.get_vecattr(word, "count") == count
    plain = keyed_vectors().load_word2vec_format(tmp_path / "v")
    ours = KeyedVectors.load_word2vec_format(tmp_path / "v")
    for word in WORDS:
        assert ours.get_vecattr(word, "count") == plain.get_vecattr(word, "count")


def test_vectors_are_added_as_in_gensim() -> None:
    v, peer = KeyedVectors(2), keyed_vectors()(2, count=3)
    for vectors in (v, peer):
        assert vectors.add_vector("a", [1, 0]) == 0
        assert vectors.add_vector("b", [0, 1]) == 1
        vectors.add_vector("c", [1, 1])
        vectors.add_vectors(["a", "d"], [[5, 5], [2, 1]])
        vectors["b"] = np.array([9.0, 9.0])
        vectors[["c", "e"]] = np.array([[3.0, 4.0], [1.0, 2.0]])
    assert v.index_to_key == peer.index_to_key
    assert v.vectors.tolist() == peer.vectors.tolist()
    peer.norms = None  # gensim does not reset its cached lengths itself
    agree(v.most_similar("c"), peer.most_similar("c"))
    v.unit_normalize_all()
    np.testing.assert_allclose(v.norms, 1, atol=1e-6)
    assert "b" in v
    assert 4 in v
    assert 5 not in v
    assert None not in v
    assert v[0].tolist() == v["a"].tolist()
    assert str(v) == "KeyedVectors<vector_size=2, 5 keys>"


def test_intersect_word2vec_format(tmp_path: Path) -> None:
    v = KeyedVectors(2)
    v.add_vectors(["a", "b"], [[1, 0], [0, 1]])
    (tmp_path / "v").write_text("2 2\nb 7 8\nz 1 1\n")
    v.intersect_word2vec_format(tmp_path / "v")
    assert v.vectors.tolist() == [[1, 0], [7, 8]]
    (tmp_path / "v").write_text("1 3\nb 7 8 9\n")
    with pytest.raises(InputError, match="expected 2"):
        v.intersect_word2vec_format(tmp_path / "v")


def test_saved_and_loaded(tmp_path: Path, peer: Any) -> None:
    v = KeyedVectors(7)
    v.add_vectors(WORDS, ROWS)
    v.save(tmp_path / "v.kv")
    again = KeyedVectors.load(tmp_path / "v.kv", mmap="r")
    assert isinstance(again, KeyedVectors)
    again["new"] = ROWS[0]  # this does not change the file
    assert len(KeyedVectors.load(tmp_path / "v.kv")) == 60
    peer.save(str(tmp_path / "theirs.kv"))
    assert KeyedVectors.load(tmp_path / "theirs.kv").most_similar(A) == v.most_similar(A)


@needs_data
def test_unseen_words_of_fasttext() -> None:
    v = load_facebook_vectors(MODELS / "fasttext" / "lee_fasttext_new.bin")
    assert "nights" in v
    assert not v.has_index_for("nights")
    assert v.most_similar("nights")
    assert v.similarity("nights", "night") > 0.5
    assert v.vectors_for_all(["nights"], allow_inference=True).words == ["nights"]


def test_stand_in_replaces_gensim() -> None:
    code = """
from trellis.compat import stand_in
stand_in("gensim")
import gensim
from gensim.models import KeyedVectors
from gensim.models.keyedvectors import KeyedVectors as Same
from gensim.models.fasttext import load_facebook_vectors
assert KeyedVectors is Same is gensim.models.KeyedVectors
print(KeyedVectors.__module__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "trellis.compat.gensim.models.keyedvectors"


def test_unknown_words(v: KeyedVectors) -> None:
    for call in (
        lambda: v.most_similar("zzz"),
        lambda: v.most_similar([A], ["zzz"]),
        lambda: v.most_similar_cosmul("zzz"),
        lambda: v.similarity(A, "zzz"),
        lambda: v.distances("zzz"),
        lambda: v.distances(A, ["zzz"]),
        lambda: v.rank(A, "zzz"),
        lambda: v.get_vector("zzz"),
        lambda: v.get_index("zzz"),
        lambda: v.get_vector(60),
        lambda: v.get_mean_vector(["zzz"], ignore_missing=False),
    ):
        with pytest.raises(KeyError, match="has no vector"):
            call()
    assert v.doesnt_match([A, B, "zzz", C]) == v.doesnt_match([A, B, C])
    with pytest.raises(UnknownWordError, match="colour"):
        v.get_vecattr(A, "colour")


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda v: v.most_similar(), "keys is empty"),
        (lambda v: v.most_similar([None]), "not a word"),
        (lambda v: v.most_similar([(A, 1.0, 2.0)]), "not a word"),
        (lambda v: v.most_similar(A, topn="3"), "topn"),
        (lambda v: v.most_similar(np.ones(3)), r"must be \(7,\)"),
        (lambda v: v.most_similar(A, clip_start=50, clip_end=40), "no words"),
        (lambda v: v.most_similar_cosmul([], [A]), "positive is empty"),
        (lambda v: v.distances(np.ones((2, 7))), r"must be \(7,\)"),
        (lambda v: v.get_mean_vector([]), "keys is empty"),
        (lambda v: v.get_mean_vector([A, B], [1.0]), "weights have shape"),
        (lambda v: v.n_similarity([], [A]), "keys is empty"),
        (lambda v: v.most_similar_to_given(A, []), "empty"),
        (lambda v: v.rank_by_centrality([]), "at least one word"),
        (lambda v: v.vectors_for_all(["zzz"]), "no word in keys"),
        (lambda v: v.save_word2vec_format("x", append=True), "not supported"),
        (lambda v: v.save_word2vec_format("x", binary=True, write_header=False), "header"),
        (lambda v: v.evaluate_word_pairs("x", encoding="latin-1"), "must be utf8"),
    ],
)
def test_invalid_input(v: KeyedVectors, call: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        call(v)


def test_invalid_files_and_vectors(v: KeyedVectors, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("zzz\tyyy\t3\n")
    with pytest.raises(InputError, match="no pair has vectors"):
        v.evaluate_word_pairs(path)
    with pytest.raises(FormatError, match="section"):
        v.evaluate_word_analogies(path)
    v.save_word2vec_format(path)
    for options, match in (
        ({"datatype": np.float16}, "float32"),
        ({"encoding": "klingon"}, "klingon"),
        ({"limit": 0}, "limit"),
    ):
        with pytest.raises(InputError, match=match):
            KeyedVectors.load_word2vec_format(path, **options)
    small = KeyedVectors(2)
    for bad in (0, -1, True, 2.5, None):
        with pytest.raises(InputError, match="vector"):
            KeyedVectors(bad)
    with pytest.raises(InputError, match="must have 2"):
        small.add_vectors(["a"], [[1, 2, 3]])
    with pytest.raises(InputError, match="must be a matrix of 2 rows"):
        small.add_vectors(["a", "b"], [[1, 2, 3]])
    with pytest.raises(InputError, match="keys must be a list of str"):
        small.add_vectors([3], [[1, 2]])
    with pytest.raises(InputError, match="no words"):
        small.most_similar(np.ones(2))
    small["a"] = np.ones(2)
    small.set_vecattr("a", "count", 3)
    with pytest.raises(InputError, match="have type int"):
        small.set_vecattr("a", "count", "many")
    with pytest.raises(InputError, match="similarity_function"):
        small.evaluate_word_analogies(path, similarity_function="most_similar_cosmul")
    (tmp_path / "counts").write_text("a b c\n")
    with pytest.raises(FormatError, match="line 1"):
        KeyedVectors.load_word2vec_format(path, tmp_path / "counts")
