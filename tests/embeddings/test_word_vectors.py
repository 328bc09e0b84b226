"""Vectors give the same results as NumPy, gensim and fastText."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples
from vector_files import (
    FASTTEXT,
    MODELS,
    WORD2VEC,
    fasttext,
    needs_data,
    read_by_gensim,
    some_rows,
    some_words,
)

import trellis
from trellis import _core, native
from trellis.embeddings.vectors import Neighbor, Vectors
from trellis.errors import InputError, UnknownWordError
from trellis.plots import scatter
from trellis.plots.shapes import estimate_width


def some_vectors(rows: int = 50, columns: int = 8) -> Vectors:
    return Vectors(some_words(rows), some_rows(rows, columns))


def cosines(v: Vectors, queries: Any) -> Any:
    unit = v.matrix / np.linalg.norm(v.matrix, axis=1, keepdims=True)
    return queries / np.linalg.norm(queries, axis=1, keepdims=True) @ unit.T


def agree(neighbors: list[Neighbor], expected: list[tuple[str, float]]) -> None:
    """Compare scores, and words unless two have nearly the same score."""
    assert len(neighbors) == len(expected)
    scores = np.array([score for _, score in expected])
    np.testing.assert_allclose([neighbor.score for neighbor in neighbors], scores, atol=1e-6)
    for neighbor, (word, score) in zip(neighbors[:-1], expected[:-1], strict=True):
        if (np.abs(scores - score) < 1e-6).sum() == 1:
            assert neighbor.word == word


def test_vectors_is_a_public_name() -> None:
    assert trellis.Vectors is Vectors


@settings(deadline=None, max_examples=examples(60))
@given(
    rows=st.integers(1, 130),
    columns=st.integers(1, 70),
    queries=st.integers(1, 80),
    k=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_search_is_exact(rows: int, columns: int, queries: int, k: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).integers(-3, 4, (rows, columns)).astype(np.float32)
    v = Vectors(some_words(rows), matrix, n_jobs=2)
    query_rows = some_rows(queries, columns, seed)
    scores, ids = v.search(query_rows, k)
    norms = np.linalg.norm(matrix.astype(float), axis=1)
    all_scores = query_rows.astype(float) @ matrix.T / np.where(norms > 0, norms, 1)
    best = -np.sort(-all_scores, axis=1)[:, :k]
    assert scores.shape == ids.shape == (queries, min(k, rows))
    np.testing.assert_allclose(scores, best, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(all_scores, ids, 1), best, atol=1e-5)
    assert all(len(set(rows)) == len(rows) for rows in ids.tolist())


@pytest.mark.parametrize("isa", native.available_isas())
@pytest.mark.parametrize("queries", [1, 5, 6, 33])
def test_instruction_sets_and_threads_give_the_same_rows(isa: str, queries: int) -> None:
    v = some_vectors(5000, 30)
    query_rows = some_rows(queries, 30, 1)
    best_isa = native.isa()
    v.n_jobs = 1
    scores, ids = v.search(query_rows, 7)
    try:
        native.use_isa(isa)
        for jobs in (1, 2, 5):
            v.n_jobs = jobs
            isa_scores, isa_ids = v.search(query_rows, 7)
            np.testing.assert_allclose(isa_scores, scores, atol=1e-5)
            assert np.array_equal(isa_ids, ids)
    finally:
        native.use_isa(best_isa)


@pytest.mark.parametrize("isa", native.available_isas())
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (700, 17), (5000, 30), (3000, 300)])
def test_rows_in_bytes_give_the_same_bits(isa: str, rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows)
    matrix = rng.standard_normal((rows, columns)).astype(np.float32)
    matrix *= 10.0 ** rng.integers(-12, 12, (rows, 1)).astype(np.float32)
    matrix[: rows // 9] = np.round(matrix[: rows // 9])  # some rows are all zeros
    matrix[rows // 2 :: 3] = matrix[rows // 3] * 1.0000002  # nearly equal rows
    matrix[::50, 0] *= 1e6  # one large entry: the bytes of the others are inaccurate
    scale = Vectors(some_words(rows), matrix)._search.scaled_rows()[1]
    queries = np.concatenate([matrix[-3:], rng.standard_normal((6, columns))]).astype(np.float32)
    queries *= np.array([1, 1e-30, 1e9, 1, 1e-2, 0, 1e-7, 900, 1e30], np.float32)[
        -len(queries) :, None
    ]
    best_isa = native.isa()
    try:
        native.use_isa(isa)
        coarse = coarse_rows(matrix, scale)
        for query, k in itertools.product(queries, (1, 10)):
            scores, ids = search(matrix, scale, query[None], k, None)
            coarse_scores, coarse_ids = search(matrix, scale, query[None], k, coarse)
            assert np.array_equal(coarse_scores, scores)
            assert np.array_equal(coarse_ids, ids)
    finally:
        native.use_isa(best_isa)


def coarse_rows(matrix: Any, scale: Any) -> tuple[Any, Any, Any]:
    rows, columns = matrix.shape
    code = np.empty((rows, (columns + 15) // 16 * 16), np.int8)
    step, error = np.empty(rows, np.float32), np.empty(rows, np.float32)
    _core.coarse_rows(matrix, scale, 2, code, step, error)
    exact = matrix.astype(np.float64) * scale[:, None].astype(np.float64)
    distance = np.linalg.norm(exact - step[:, None].astype(np.float64) * code[:, :columns], axis=1)
    assert (distance <= error).all()
    assert not code[:, columns:].any()
    return code, step, error


def search(matrix: Any, scale: Any, queries: Any, k: int, coarse: Any) -> tuple[Any, Any]:
    scores = np.empty((len(queries), k), np.float32)
    ids = np.empty((len(queries), k), np.int64)
    _core.nearest(matrix, scale, queries, 2, scores, ids, coarse)
    return scores, ids


def test_rows_in_bytes_are_computed_at_the_second_query() -> None:
    v = Vectors(some_words(20_000), some_rows(20_000, 60), n_jobs=2)
    first = v.nearest(v.words[5])
    assert v._search._coarse is None
    assert v.nearest(v.words[5]) == first
    assert v._search._coarse is not None
    assert v.nearest(v.words[5]) == first
    query_rows = some_rows(3, 60, 1)
    few = v.search(query_rows, 4, restrict=700)
    batch = v.search(np.tile(query_rows, (3, 1)), 4, restrict=700)
    np.testing.assert_allclose(few[0], batch[0][:3], rtol=1e-5)
    assert np.array_equal(few[1], batch[1][:3])


def test_which_queries_use_the_rows_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only few queries at a time, from the second call on, and only for large matrices."""
    used: list[bool] = []
    nearest = _core.nearest

    def spy(*arguments: Any) -> None:
        used.append(arguments[-1] is not None)
        nearest(*arguments)

    monkeypatch.setattr(_core, "nearest", spy)
    rows = (1 << 22) // (4 * 64)  # 4 MB: the smallest large matrix
    for count, expected in ((rows, [False, True, True, False]), (rows - 1, [False] * 4)):
        used.clear()
        v = Vectors(some_words(count), some_rows(count, 64), n_jobs=1)
        for queries in (1, 1, 2, 500):
            v.search(some_rows(queries, 64, 1), 3)
        assert used == expected


def test_rows_in_bytes_bad_input() -> None:
    matrix, scale = some_rows(5, 20), np.ones(5, np.float32)
    code, step, error = coarse_rows(matrix, scale)
    with pytest.raises(ValueError, match="code must be"):
        _core.coarse_rows(matrix, scale, 1, code[:, :16].copy(), step, error)
    with pytest.raises(ValueError, match="one entry per row"):
        _core.coarse_rows(matrix, scale[:4], 1, code, step, error)
    with pytest.raises(ValueError, match="coarse must have been"):
        search(matrix, scale, matrix[:1], 2, (code, step[:4], error))
    with pytest.raises(ValueError, match="coarse must have been"):
        search(matrix, scale, matrix[:1], 2, (code[:, :16].copy(), step, error))


@pytest.mark.parametrize("queries", [1, 40])
def test_equal_rows_are_in_order(queries: int) -> None:
    matrix = np.tile(some_rows(3, 5), (2000, 1))
    v = Vectors([str(i) for i in range(6000)], matrix, n_jobs=3)
    _, ids = v.search(np.tile(matrix[1], (queries, 1)), 4)
    assert ids.tolist() == [[1, 4, 7, 10]] * queries


def test_nearest_to_words_and_vectors() -> None:
    v = some_vectors()
    for word in v.words[:5]:
        scores = cosines(v, v[word][None])[0]
        order = [i for i in np.argsort(-scores) if v.words[i] != word][:10]
        agree(v.nearest(word), [(v.words[i], scores[i]) for i in order])
        with_itself = v.nearest(v[word], k=11)
        assert with_itself[0].word == word
        agree(with_itself[1:], [(v.words[i], scores[i]) for i in order])
    assert len(v.nearest(v.words[0], k=1000)) == 49
    batch = v.nearest_each(v.words[:40], k=3)
    for word, neighbors in zip(v.words, batch, strict=False):
        agree(neighbors, [(n.word, n.score) for n in v.nearest(word, k=3)])
    assert len(v.nearest_each(v.matrix[:4], k=2)) == 4
    assert v.nearest_each([]) == []


@needs_data
@pytest.mark.parametrize("name", [n for n in WORD2VEC if "glove" not in n])
def test_same_neighbors_as_gensim(name: str) -> None:
    v, peer = Vectors.load(MODELS / name), read_by_gensim(MODELS / name)
    words = v.words[5:45]
    for word, neighbors in zip(words, v.nearest_each(words), strict=True):
        agree(neighbors, peer.most_similar(word))
        agree(v.nearest(word), peer.most_similar(word))
    for a, b, c in zip(words, words[1:], words[2:], strict=False):
        agree(v.analogy(a, b, c, k=5), peer.most_similar([b, c], [a], topn=5))
        agree(v.nearest([a, b, c], k=5), peer.most_similar([a, b, c], topn=5))
        assert v.doesnt_match([a, b, c]) == peer.doesnt_match([a, b, c])
        assert v.similarity(a, b) == pytest.approx(peer.similarity(a, b), abs=1e-6)


@needs_data
@pytest.mark.parametrize("name", FASTTEXT)
def test_same_vectors_and_neighbors_as_fasttext(name: str) -> None:
    path = MODELS / "fasttext" / name
    v, peer = Vectors.load(path, errors="replace"), fasttext().load_model(str(path))
    assert v.words == peer.get_words(on_unicode_error="replace")
    unseen = ["zzzunseen", "неизвестноеслово", "日本語", "a", "hello, world"]
    for word in [w for w in v.words if "\ufffd" not in w][:300] + unseen:
        np.testing.assert_allclose(v[word], peer.get_word_vector(word), atol=1e-6)
    for word in ["zzzunseen", *v.words[10:20]]:
        if peer.get_word_vector(word).any():  # a zero vector has no nearest words
            near = peer.get_nearest_neighbors(word, 5, on_unicode_error="replace")
            agree(v.nearest(word, k=5), [(w, score) for score, w in near])


def test_words_and_rows() -> None:
    v = some_vectors(3, 2)
    assert (len(v), v.dim, list(v), v.words[0] in v, "no" in v) == (3, 2, v.words, True, False)
    assert repr(v) == "Vectors(3 words, 2 dimensions)"
    assert np.array_equal(v[v.words[1]], v.matrix[1])
    assert np.array_equal(v[v.words[::-1]], v.matrix[::-1])


def test_float32_in_c_order_is_not_copied() -> None:
    matrix = some_rows(3, 2)
    assert Vectors(list("abc"), matrix).matrix is matrix
    assert Vectors(list("abc"), matrix.astype(float)).matrix.dtype == np.float32


def test_unseen_words() -> None:
    v = some_vectors(3, 2)
    with pytest.raises(UnknownWordError, match="'no' has no vector"):
        v["no"]
    with pytest.raises(KeyError):
        v.nearest("no")
    with pytest.raises(UnknownWordError):
        v.analogy("no", *v.words[:2])
    v = Vectors(v.words, v.matrix, unseen=lambda word: np.full(2, len(word), np.float32))
    assert v["four"].tolist() == [4, 4]
    assert "four" not in v
    assert len(v.nearest("four")) == 3


def test_zero_vectors_have_cosine_zero() -> None:
    v = Vectors(list("ab"), [[0, 0], [1, 2]])
    assert v.similarity("a", "b") == 0
    assert v.nearest("b") == [Neighbor("a", 0.0)]


def test_giant_and_tiny_vectors() -> None:
    v = Vectors(list("abc"), np.array([[1e25, 0], [1e-30, 1e-30], [0, 1e25]], np.float32))
    assert v.nearest("a")[0].word == "b"
    assert v.nearest("a")[0].score == pytest.approx(0.5**0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("words", "matrix", "match"),
    [
        (["a"], [[1.0], [2.0]], r"matrix has shape \(2, 1\) for 1 words"),
        (["a", "b"], [1.0, 2.0], "for 2 words"),
        ([], np.zeros((0, 3)), "for 0 words"),
        (["a", "a"], [[1.0], [2.0]], "'a' twice"),
        (["a"], [["x"]], "matrix is not an array of numbers"),
    ],
)
def test_invalid_vectors(words: Any, matrix: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        Vectors(words, matrix)


def test_invalid_queries() -> None:
    v = some_vectors(3, 2)
    word = v.words[0]
    for query, match in [
        (lambda: v.nearest(word, k=0), "k is 0"),
        (lambda: v.nearest(word, k=1.5), "k must be an integer"),  # type: ignore[arg-type]
        (lambda: v.nearest([]), "query is an empty list"),
        (lambda: v.nearest(np.zeros(3)), r"shape \(1, 3\): must be \(queries, 2\)"),
        (lambda: v.nearest(np.array([np.nan, 0])), "NaN"),
        (lambda: v.nearest_each(word), "one word"),
        (lambda: v.nearest_each(np.zeros((2, 3), np.float32)), r"\(queries, 2\)"),
        (lambda: v.doesnt_match([]), "must be a list"),
        (lambda: v.doesnt_match(word), "must be a list"),
        (lambda: v.search(v.matrix, 1, restrict=0), "restrict is 0"),
        (lambda: v.project([]), "N at least 1"),
    ]:
        with pytest.raises(ValueError, match=match):
            query()
    bad = Vectors(list("ab"), [[1, 0], [np.nan, 0]])
    with pytest.raises(InputError, match="'b' contains NaN"):
        bad.nearest("a")


def test_project_returns_the_principal_components() -> None:
    v = some_vectors(30, 6)
    points = v.project()
    centred = v.matrix - v.matrix.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(points), np.abs(left[:, :2] * sizes[:2]), atol=1e-5)
    np.testing.assert_allclose(v.project(v.words[:7]), v.project(v.words[:7]))
    assert v.project(v.words[:1]).tolist() == [[0, 0]]
    assert Vectors(list("ab"), [[1], [2]]).project().shape == (2, 2)
    drawing = v.plot(v.words[:5], title="words")
    assert [s.tip.split(":")[0] for s in drawing.shapes if s.kind == "point"] == v.words[:5]
    assert "<svg" in drawing.svg()
    arrows = v.plot(v.words[:2], pairs=[(v.words[4], v.words[1]), (v.words[4], v.words[2])])
    names = [s.tip.split(":")[0] for s in arrows.shapes if s.kind == "point"]
    assert names == [v.words[n] for n in (0, 1, 4, 2)]
    tips = {s.tip for s in arrows.shapes if s.kind == "arrow"}
    assert tips == {f"{v.words[4]} → {v.words[n]}" for n in (1, 2)}
    for wrong in (["ab"], [("a", "b", "c")], [("a",)]):
        with pytest.raises(InputError, match=r"pairs\[0\] is .*: must be two words"):
            v.plot(pairs=wrong)  # type: ignore[arg-type]
    for options in ({"words": "ab"}, {"pairs": "ab"}):
        with pytest.raises(InputError, match="is the str 'ab': must be a list"):
            v.plot(**options)  # type: ignore[arg-type]


def test_arrows_between_points() -> None:
    drawing = scatter([[0, 0], [10, 0]], ["a", "b"], arrows=[("a", "b")], size=(300, 100))
    dots = [s for s in drawing.shapes if s.kind == "point"]
    line, head = (s for s in drawing.shapes if s.kind == "arrow")
    start, end = dots[0].x, dots[1].x
    assert line.points == ((start + 5, dots[0].y), (end - 5, dots[0].y))
    assert head.points[1] == line.points[1]
    for x, y in (head.points[0], head.points[2]):
        assert np.hypot(x - end + 5, y - dots[0].y) == pytest.approx(7, abs=0.02)
        assert np.arctan2(abs(y - dots[0].y), end - 5 - x) == pytest.approx(0.45, abs=0.01)
    assert head.points[0][1] + head.points[2][1] == pytest.approx(2 * dots[0].y)
    # An arrow is longer than its head and both gaps, 17 units. The scale is 1 unit per point.
    width = 24 + 24 + 100 + max(map(estimate_width, "abc")) + 8
    for distance, count in ((17.1, 2), (16.9, 0)):
        points = [[0, 0], [distance, 0], [100, 0]]
        near = scatter(points, ["a", "b", "c"], arrows=[("a", "b")], size=(width, 900))
        assert sum(s.kind == "arrow" for s in near.shapes) == count
    for wrong in ([("a", "z")], ["ab"], [("a",)]):
        with pytest.raises(InputError, match=r"arrows\[0\] is .*: must be two of the names"):
            scatter([[0, 0], [1, 1]], ["a", "b"], arrows=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("points", "names", "message"),
    [
        ([[0, 0]], ["a", "b"], "one row per name"),
        ([[0, 0, 0]], ["a"], "one row per name"),
        ([[0, np.nan]], ["a"], "must be finite"),
        (np.zeros((0, 2)), [], "names is empty"),
    ],
)
def test_points_that_cannot_be_drawn(points: Any, names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        scatter(points, names)


@pytest.mark.parametrize("wrong", [None, 3])
def test_neither_a_word_nor_a_list(wrong: Any) -> None:
    v = Vectors(["a", "b"], np.eye(2))
    for call in (v.nearest, v.__getitem__, lambda x: v.similarity("a", x)):
        with pytest.raises(InputError, match=f"{wrong} is not a word"):
            call(wrong)
    for words in (wrong, "ab"):
        with pytest.raises(InputError, match=r"words is .*: must be a list"):
            Vectors(words, np.eye(2))


def test_the_first_repeated_word_is_named() -> None:
    with pytest.raises(InputError, match="words contains 'b' twice: words must be distinct"):
        Vectors(["a", "b", "c", "b", "c"], np.ones((5, 1), np.float32))
