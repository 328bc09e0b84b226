"""The native parts of embeddings: corpus, subwords, tree, random draws; compared with Python."""

import heapq
import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from corpus_files import find_corpus, needs_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis import Word2Vec, _core
from trellis.embeddings import sources

EXPECTED = find_corpus("models/fasttext/expected.json")


def words_of(corpus: _core.Corpus, min_count: int = 1, max_words: int = 0) -> dict[str, int]:
    """Return the count of each frequent word of a corpus."""
    letters, ends, counts, _ = corpus.common_words(min_count, max_words)
    text = letters.tobytes()
    return {
        text[ends[i] : ends[i + 1]].decode(): int(count) for i, count in enumerate(counts.tolist())
    }


TEXT = st.lists(st.sampled_from(["a", "b", "ü", "word", " ", "  ", "\t", "\n", "\r\n", "\0"]))


@settings(max_examples=examples(200), deadline=None)
@given(TEXT, st.lists(st.integers(0, 60), max_size=5), st.integers(1, 3))
def test_text_added_in_pieces(parts: list[str], cuts: list[int], threads: int) -> None:
    text = "".join(parts).encode()
    corpus = _core.Corpus(threads)
    bounds = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    for begin, end in pairwise(bounds):
        corpus.add_text(text[begin:end])
    corpus.finish()
    expected = Counter(text.decode().replace("\0", " ").split())
    assert words_of(corpus) == expected
    assert corpus.words == sum(expected.values())
    order = sorted(expected, key=lambda w: (-expected[w], w.encode()))
    assert list(words_of(corpus)) == order
    assert list(words_of(corpus, 2)) == [w for w in order if expected[w] >= 2]
    assert list(words_of(corpus, 1, 2)) == order[:2]


def test_lines_and_chunks() -> None:
    lines = [f"w{i % 50} w{i % 7} x" for i in range(20_000)]
    for threads in (1, 2, 3):
        corpus = _core.Corpus(threads)
        corpus.add_text("\n".join([*lines, ""]).encode())
        corpus.finish()
        assert corpus.lines == 20_000
        before = corpus.chunk_words()
        assert before[-1] == corpus.words == 60_000
        sizes = np.diff(before)
        assert sizes.max() <= 8192 + 1024
        assert (sizes[:-1].min() >= 8192) or threads > 1
        assert (sizes % 3 == 0).all()  # chunks end at line ends


def test_one_long_line() -> None:
    corpus = _core.Corpus(2)
    for _ in range(10):
        corpus.add_text(b"a b c d " * 5000)
    corpus.finish()
    assert words_of(corpus) == dict.fromkeys("abcd", 50_000)
    assert np.diff(corpus.chunk_words()).max() <= 8192 + 1024


def test_end_words() -> None:
    corpus = _core.Corpus(1, True)
    corpus.add_text(b"a b\n\nc\nd")
    corpus.finish()
    assert words_of(corpus) == {"</s>": 3, "a": 1, "b": 1, "c": 1, "d": 1}


def test_large_corpus_in_a_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus in a temporary file gives the same bits as one in memory."""
    rng = np.random.default_rng(0)
    text = [rng.choice(list("abcdefgh"), 20).tolist() for _ in range(3000)]
    options = {"min_count": 1, "epochs": 2, "n_jobs": 1, "random_state": 0}
    expected = Word2Vec(8, **options).fit(text).input_
    monkeypatch.setattr(sources, "_IN_MEMORY", 10_000)
    assert np.array_equal(Word2Vec(8, **options).fit(text).input_, expected)


def test_invalid_corpus_input() -> None:
    with pytest.raises(ValueError, match="threads"):
        _core.Corpus(0)
    corpus = _core.Corpus(1)
    corpus.add_text(b"a b a")
    corpus.finish()
    with pytest.raises(RuntimeError, match="finished"):
        corpus.add_text(b"c")
    with pytest.raises(ValueError, match="one number per type"):
        corpus.number(np.zeros(5, np.int32))
    with pytest.raises(ValueError, match="-1"):
        corpus.number(np.array([0, -7], np.int32))


def fnv(text: bytes) -> int:
    """Return fastText's hash of a text: FNV-1a with signed bytes."""
    result = 2166136261
    for byte in text:
        signed = byte - 256 if byte > 127 else byte
        result = ((result ^ (signed & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
    return result


@settings(max_examples=examples(200), deadline=None)
@given(st.text(max_size=8), st.integers(0, 4), st.integers(0, 6), st.integers(1, 5000))
def test_subwords(word: str, minn: int, maxn: int, bucket: int) -> None:
    word = word.encode("utf-8", "ignore").decode()
    bracketed = f"<{word}>"
    expected = [
        bracketed[i : i + n]
        for i in range(len(bracketed))
        for n in range(max(minn, 1), maxn + 1)
        if i + n <= len(bracketed) and not (n == 1 and i in (0, len(bracketed) - 1))
    ]
    assert _core.subwords(word, minn, maxn) == expected
    begin, ids = _core.subword_ids([word, "</s>", word.encode()], minn, maxn, bucket)
    buckets = [fnv(gram.encode()) % bucket for gram in expected]
    assert ids.tolist() == buckets * 2
    assert begin.tolist() == [0, len(buckets), len(buckets), 2 * len(buckets)]
    assert _core.word_hashes([word]).tolist() == [fnv(word.encode())]


@needs_corpus("models/fasttext")
def test_same_subwords_as_fasttext() -> None:
    for name, model in json.loads(EXPECTED.read_text()).items():
        args = model["args"]
        if args["maxn"] == 0 or name.endswith(".ftz"):
            continue
        for word, (_, rows) in model["subwords"].items():
            _, ids = _core.subword_ids([word], args["minn"], args["maxn"], args["bucket"])
            grams = [row for row in rows if row >= model["nwords"]]
            assert (ids + model["nwords"]).tolist() == grams


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40))
def test_tree_is_optimal(counts: list[int]) -> None:
    counts.sort(reverse=True)
    begin, node, right, child = _core.huffman(np.array(counts, np.int64))
    lengths = np.diff(begin)
    heap = list(counts)
    heapq.heapify(heap)
    cost = 0
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        cost += joined
        heapq.heappush(heap, joined)
    assert int(lengths @ np.array(counts)) == cost  # no binary tree has a lower cost
    words = len(counts)
    for word in range(words):  # follow the path from the root
        position = 2 * words - 2
        for i in reversed(range(begin[word], begin[word + 1])):
            assert position - words == node[i]
            position = child[2 * node[i] + right[i]]
        assert position == word


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50).filter(lambda w: sum(w) > 1e-3))
def test_alias_cells(weights: list[float]) -> None:
    cells = _core.alias_cells(np.array(weights)).reshape(-1, 2)
    stays = (cells[:, 0].astype(np.float64) + 1) / 2**32
    p = stays.copy()
    np.add.at(p, cells[:, 1], 1 - stays)
    expected = np.array(weights) / sum(weights)
    np.testing.assert_allclose(p / len(p), expected, atol=1e-8)


def test_invalid_table_input() -> None:
    with pytest.raises(ValueError, match="descend"):
        _core.huffman(np.array([1, 2]))
    with pytest.raises(ValueError, match="finite"):
        _core.alias_cells(np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="above 0"):
        _core.alias_cells(np.array([0.0, 0.0]))
    with pytest.raises(ValueError, match="bucket"):
        _core.subword_ids(["a"], 1, 2, 0)
    with pytest.raises(ValueError, match="word 1"):
        _core.subword_ids(["a", 5], 1, 2, 3)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="dim"):
        _core.embedding_table(3, 0)
    table = _core.embedding_table(3, 5)
    with pytest.raises(ValueError, match="begin and end are out of range"):
        _core.fill_table(table, 0, 4, 5, 1.0, 0, 1)
    with pytest.raises(ValueError, match="begin and row do not fit the table"):
        _core.row_means(
            table, np.array([0, 1]), np.array([3], np.int32), np.zeros((1, 5), np.float32), 1
        )


def test_invalid_trainer_arguments() -> None:
    table = _core.embedding_table(3, 5)
    _core.fill_table(table, 0, 3, 5, 1.0, 0, 1)
    noise = _core.alias_cells(np.ones(3))
    valid = {
        "input": table,
        "output": table,
        "vocabulary": 3,
        "rows_begin": None,
        "row": None,
        "keep": None,
        "noise": noise,
        "path_begin": None,
        "path_node": None,
        "path_right": None,
        "loss": 0,
        "cbow": False,
        "shared": True,
        "window": 5,
        "negatives": 5,
        "shrink": True,
    }
    _core.EmbeddingTrainer(**valid)
    begin, row = np.array([0, 1, 2, 3]), np.array([0, 1, 3], np.int32)
    for change in (
        {"vocabulary": 4},
        {"window": 0},
        {"negatives": -1},
        {"loss": 7},
        {"loss": 1},
        {"noise": None},
        {"noise": np.full(6, 9, np.uint32)},
        {"rows_begin": begin, "row": row},
        {"rows_begin": begin[:2], "row": row[:1]},
        {"keep": np.zeros(2, np.uint32)},
        {"output": np.zeros((3, 5), np.float32)},
        {"hot_for": 0},
        {"hot_nodes": -1},
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            _core.EmbeddingTrainer(**{**valid, **change})
