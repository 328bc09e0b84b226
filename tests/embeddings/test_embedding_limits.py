"""Embeddings: limits on both sides, exact small tables, stored settings, progress."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis import FastText, TextClassifier, Vectors, Word2Vec
from trellis.embeddings import evaluation, subword_rows, training
from trellis.embeddings.fasttext import _insert_word_rows
from trellis.embeddings.model import EmbeddingModel, check_counts
from trellis.embeddings.subword_rows import SubwordRows
from trellis.embeddings.training import Schedule, loss_arguments, seed_of
from trellis.embeddings.vocabulary import Vocabulary
from trellis.errors import InputError
from trellis.formats import fasttext as files
from trellis.formats import native
from trellis.formats.parts import store_strings

ONE = {"n_jobs": 1, "random_state": 0}
TEXT = [["a", "rose", "is", "a", "rose"], ["a", "dog"]]


# ---- seeds, schedules, progress


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64])
def test_seeds_that_are_too_large(seed: int) -> None:
    with pytest.raises(InputError, match=rf"random_state is {seed}: must be in 0..2\^63-1"):
        seed_of(seed)


def test_seeds() -> None:
    assert [seed_of(seed) for seed in (0, 1, 2**63 - 1, np.int64(7))] == [0, 1, 2**63 - 1, 7]
    rng = np.random.default_rng(3)
    assert seed_of(np.random.default_rng(3)) == int(rng.integers(2**63))
    assert seed_of(np.random.RandomState(3)) == np.random.RandomState(3).randint(2**31 - 1)
    assert seed_of(None) != seed_of(None)
    with pytest.raises(InputError, match="random_state"):
        seed_of(1.5)


class Corpus:
    """A corpus of chunks."""

    def __init__(self, *words_before: int) -> None:
        self.words_before = np.array(words_before, np.int64)

    def chunk_words(self) -> Any:
        return self.words_before


def test_slices_and_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 12.0, 14.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0])
    monkeypatch.setattr(training.time, "perf_counter", lambda: next(times))
    monkeypatch.setattr(training, "_SLICE", 10)
    calls: list[dict[str, Any]] = []
    progress: list[training.Progress] = []

    def step(**arguments: Any) -> tuple[float, float]:
        calls.append(arguments)
        return (3.0, 2.0) if arguments["first"] else (1.0, 4.0)

    history = training.train(
        step, Corpus(0, 4, 11, 12, 30, 35), Schedule(0.5, 0.25, 2), 7, 3, progress.append
    )
    assert [(call["first"], call["last"]) for call in calls] == [(0, 2), (2, 4), (4, 5)] * 2
    assert [call["seen"] for call in calls] == [0.0] * 3 + [35.0] * 3
    assert len({call["seed"] for call in calls}) == 2
    assert {call["total"] for call in calls} == {70.0}
    assert {(call["first_rate"], call["last_rate"]) for call in calls} == {(0.5, 0.25)}
    assert {(call["threads"], call["loss_every"]) for call in calls} == {(3, 1)}
    assert [p.epoch for p in progress] == [0] * 3 + [1] * 3
    assert {p.epochs for p in progress} == {2}
    np.testing.assert_allclose([p.fraction * 70 for p in progress], [11, 30, 35, 46, 65, 70])
    assert [p.loss for p in progress] == [0.25, 1.5, 1.5] * 2
    assert [p.words_per_second for p in progress[:3]] == [11 / 2, 30 / 4, 35 / 10]
    assert history.losses == [(1 + 3 + 3) / (4 + 2 + 2)] * 2
    assert history.words_per_second == 70 / (80 - 10)


@pytest.mark.parametrize(("words", "every"), [(9_999, 1), (20_000, 2), (639_999, 63), (10**7, 64)])
def test_the_loss_is_estimated_from_some_steps(words: int, every: int) -> None:
    def step(**arguments: Any) -> tuple[float, float]:
        assert arguments["loss_every"] == every
        return 0.0, 0.0

    history = training.train(step, Corpus(0, words), Schedule(1.0, 0.0, 1), 0, 1, None)
    assert np.isnan(history.losses).all()


def test_speed_of_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training.time, "perf_counter", lambda: 5.0)
    assert training._Clock().words_per_second(3.0) == 3.0 / 1e-9


def test_arguments_of_the_losses() -> None:
    counts = np.array([4, 3, 1], np.int64)
    for loss, number in (("negative", 0), ("hierarchical", 1), ("softmax", 2), ("ova", 3)):
        arguments = loss_arguments(loss, counts, 0.5, 9)
        assert arguments["loss"] == number
        assert arguments["negatives"] == (9 if loss == "negative" else 0)
        assert (arguments["noise"] is not None) == (loss == "negative")
        assert (arguments["path_node"] is not None) == (loss == "hierarchical")


def test_hot_nodes() -> None:
    hot = {"hot_nodes": 64, "hot_for": 32}
    for loss, n_jobs, expected in (
        ("hierarchical", 2, hot),
        ("hierarchical", 1, {}),
        ("negative", 2, {}),
        ("negative", 1, {}),
    ):
        assert Word2Vec(loss=loss, n_jobs=n_jobs)._hot_node_arguments() == expected


def test_frequent_words_are_omitted() -> None:
    model = Word2Vec(2, sample=0.01, min_count=1, epochs=1, **ONE)
    model.words_, model.counts_ = ["a", "b", "c"], np.array([899, 100, 1])
    p = 0.01 / np.array([0.899, 0.1, 0.001])
    np.testing.assert_allclose(model._keep_probabilities(), np.minimum(np.sqrt(p) + p, 1.0))
    model.sample = 0
    assert model._keep_probabilities().tolist() == [1.0, 1.0, 1.0]


# ---- counts and vocabularies


@pytest.mark.parametrize(
    ("counts", "minimum", "match"),
    [
        ([3, 3, 1], 1, None),
        ([0], 0, None),
        ([0], 1, "counts must be at least 1 and in descending order"),
        ([-1], 0, "counts must be at least 0"),
        ([1, 2], 0, "in descending order"),
        ([2**59, 2**59], 0, None),
        ([2**60, 2**59], 0, f"the sum of counts must be at most {2**60}"),
        ([2**62, 2**62, 2**62, 2**62], 0, "the sum of counts must be at most"),
    ],
)
def test_counts_of_files(counts: list[int], minimum: int, match: str | None) -> None:
    array = np.array(counts, np.int64)
    if match is None:
        check_counts(array, "counts", minimum)
        return
    with pytest.raises(InputError, match=match):
        check_counts(array, "counts", minimum)


def test_joined_vocabularies() -> None:
    old = Vocabulary(["c", "a"], np.array([5, 2]))
    new = Vocabulary(["b", "a", "e", "d"], np.array([4, 2, 3, 2]))
    words, counts = old.joined(new, 3)
    assert (words, counts.tolist()) == (["c", "a", "b", "e"], [5, 4, 4, 3])
    words, counts = old.with_pretrained(Vectors(["a", "z"], np.eye(2)), 2)
    assert (words, counts.tolist()) == (["c", "a", "z"], [5, 3, 1])
    assert old.with_pretrained(None, 7) is old
    with pytest.raises(InputError, match="pretrained has 2 dimensions: must have 3, as the model"):
        old.with_pretrained(Vectors(["a"], np.ones((1, 2))), 3)
    rows = np.zeros((2, 4), np.float32)
    old.copy_pretrained(Vectors(["z", "a"], np.array([[1, 2], [3, 4]])), rows)
    assert rows.tolist() == [[0, 0, 0, 0], [3, 4, 0, 0]]


def test_words_are_numbered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Word2Vec(4, min_count=1, sample=0, epochs=2, **ONE).fit(TEXT)
    monkeypatch.setattr("trellis.embeddings.vocabulary._STRINGS", 2)
    model = Word2Vec(4, min_count=1, sample=0, epochs=2, **ONE).fit(TEXT)
    assert model.words_ == expected.words_ == ["a", "rose", "dog", "is"]
    np.testing.assert_array_equal(model.input_, expected.input_)


@pytest.mark.parametrize(
    ("cls", "name", "inside", "outside"),
    [
        (Word2Vec, "vector_size", [1, 1 << 16], [0, (1 << 16) + 1]),
        (Word2Vec, "window", [1, 10_000], [0, 10_001]),
        (Word2Vec, "negatives", [1, 10_000], [0, 10_001]),
        (Word2Vec, "min_count", [1], [0]),
        (Word2Vec, "epochs", [1, 1 << 20], [0, (1 << 20) + 1]),
        (Word2Vec, "exponent", [-10.0, 10.0], [-10.5, 10.5]),
        (Word2Vec, "max_vocabulary", [1, None], [0]),
        (Word2Vec, "sample", [0.0, 2.0], [-0.1]),
        (Word2Vec, "alpha", [None, 0.5], [-0.1]),
        (Word2Vec, "min_alpha", [None, 0.0], [-0.1]),
        (Word2Vec, "shared_negatives", [True], [2]),
        (Word2Vec, "shrink_windows", [False], ["x"]),
        (Word2Vec, "architecture", ["cbow"], ["glove"]),
        (Word2Vec, "loss", ["hierarchical", "ova"], ["hs"]),
        (FastText, "minn", [0, 6], [-1, 7]),
        (FastText, "maxn", [0, 3, 64], [2, 65]),
        (FastText, "bucket", [1, 2**31 - 2**25], [0, 2**31 - 2**25 + 1]),
        (FastText, "ngrams", ["dictionary"], ["words"]),
        (TextClassifier, "word_ngrams", [1, 1 << 10], [0, (1 << 10) + 1]),
        (TextClassifier, "min_label_count", [1], [0]),
        (TextClassifier, "alpha", [0.0], [-0.1, None]),
        (TextClassifier, "loss", ["ova"], ["hs"]),
        (TextClassifier, "label_prefix", ["_"], ["", 3]),
        (TextClassifier, "bucket", [0], [-1]),
    ],
)
def test_limits_of_parameters(
    cls: type[EmbeddingModel], name: str, inside: list[Any], outside: list[Any]
) -> None:
    for value in inside:
        cls(**{name: value})._check_parameters()
    for value in outside:
        with pytest.raises(InputError, match=name):
            cls(**{name: value})._check_parameters()


def test_buckets_are_needed_for_ngrams() -> None:
    for options, valid in (
        ({"bucket": 0, "minn": 1, "maxn": 1}, False),
        ({"bucket": 0, "word_ngrams": 2}, False),
        ({"bucket": 0, "maxn": 0, "word_ngrams": 1}, True),
        ({"bucket": 1, "minn": 1, "maxn": 1}, True),
    ):
        if valid:
            TextClassifier(**options)._check_parameters()
            continue
        with pytest.raises(InputError, match="bucket is 0: must be at least 1, because n-grams"):
            TextClassifier(**options)._check_parameters()
    FastText(minn=5, maxn=0, bucket=0)._check_parameters()
    with pytest.raises(InputError, match="minn is 2 and maxn is 1: minn must be at most maxn"):
        FastText(minn=2, maxn=1)._check_parameters()
    FastText(minn=1, maxn=1)._check_parameters()


# ---- n-grams


def test_rows_of_words_and_ngrams() -> None:
    begin, row = _insert_word_rows(np.array([0, 2, 2, 3]), np.array([1, 0, 1], np.int32), 3)
    assert begin.tolist() == [0, 3, 4, 6]
    assert row.tolist() == [0, 4, 3, 1, 2, 4]


def test_ngrams_of_a_dictionary(tmp_path: Path) -> None:
    options: dict[str, Any] = {"ngrams": "dictionary", "minn": 2, "maxn": 2, "epochs": 1, **ONE}
    options["sample"] = 0
    text = [["ab"] * 3 + ["cb"] * 2]
    # counts: b> 5, <a and ab 3, <c and cb 2
    for bucket, min_count, ngrams in (
        (9, 1, ["b>", "<a", "ab", "<c", "cb"]),
        (2, 1, ["b>", "<a"]),
        (9, 3, ["<a", "ab", "b>"]),
        (1, 2, ["b>"]),
    ):
        model = FastText(4, bucket=bucket, min_count=min_count, **options).fit(text)
        assert model.ngrams_ == ngrams
        model.save(tmp_path / "m.trellis")
        again = FastText.load(tmp_path / "m.trellis")
        assert again.ngrams_ == ngrams
        for word in ("ab", "cb", "b", "zz", ""):
            np.testing.assert_array_equal(again.vector(word), model.vector(word))
        n_words = len(model.words_)
        rows = [n_words + ngrams.index(n) for n in ("<a", "ab", "b>") if n in ngrams] + [0]
        np.testing.assert_allclose(model.vector("ab"), model.input_[rows].mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(model.vectors_.matrix[0], model.vector("ab"), rtol=1e-6)
        assert not model.vector("zz").any()
    model.fit([["xy"] * 4])  # the n-grams of the new text
    assert model.ngrams_ == ["<x"]
    model.vector("xy")
    model.ngrams_ = ["xy"]  # the index belongs to the list
    assert model._ngram_index() == {"xy": 0}
    assert model._ngram_index() is model._ngram_index()
    options |= {"minn": 0, "maxn": 0}
    plain = FastText(4, min_count=1, **options)
    plain.fit(text).save(tmp_path / "plain.trellis")
    assert "ngrams.bytes" not in native.read(tmp_path / "plain.trellis").tensors
    assert FastText.load(tmp_path / "plain.trellis").words_ == ["ab", "cb"]
    with pytest.raises(InputError, match="ngrams is 'dictionary'"):
        plain.to_file()


def test_arguments_of_fasttext_files() -> None:
    for minn, maxn, bucket, expected in (
        (2, 3, 7, (2, 3, 7)),
        (2, 0, 7, (0, 0, 0)),
        (1, 1, 7, (1, 1, 7)),
    ):
        options: dict[str, Any] = {"minn": minn, "maxn": maxn, "bucket": bucket, "epochs": 3}
        vectors = FastText(3, min_count=1, window=4, negatives=6, sample=0.5, **options, **ONE)
        args = vectors.fit(TEXT).to_file().args
        assert (args.minn, args.maxn, args.bucket) == expected
        assert (args.dim, args.ws, args.epoch, args.min_count, args.neg, args.t) == (
            3,
            4,
            3,
            1,
            6,
            0.5,
        )
        again = FastText.from_file(vectors.to_file())
        assert (again.window, again.epochs, again.min_count, again.negatives) == (4, 3, 1, 6)
        assert again.n_tokens_ == 7
        assert (again.losses_, again.words_per_second_) == ([], 0.0)
        classifier = TextClassifier(
            3, negatives=7, word_ngrams=2 if maxn == 0 else 1, **options, **ONE
        )
        args = classifier.fit(["x y", "z"], ["b", "c"]).to_file().args
        expected_bucket = 7
        assert (args.minn, args.maxn, args.bucket) == (*expected[:2], expected_bucket)
        loaded = TextClassifier.from_file(classifier.to_file(), "__label__")
        assert (loaded.word_ngrams, loaded.negatives) == (args.word_ngrams, 7)
        assert (loaded.epochs, loaded.min_count, loaded.vector_size) == (3, 1, 3)
        assert (loaded.losses_, loaded.words_per_second_) == ([], 0.0)
    args = TextClassifier(3, bucket=9, epochs=1, **ONE).fit(["x"], ["b"]).to_file().args
    assert (args.bucket, args.word_ngrams, args.min_count, args.epoch) == (0, 1, 1, 1)


@pytest.mark.parametrize("value", [0, 1, 2])
def test_arguments_that_files_omit(value: int) -> None:
    rows = np.ones((1, 2), np.float32)
    for cls, model in ((FastText, "sg"), (TextClassifier, "supervised")):
        args = files.Args(
            dim=2,
            ws=value,
            epoch=value,
            min_count=value,
            neg=value,
            word_ngrams=value,
            loss="softmax" if model == "supervised" else "ns",
            model=model,
            bucket=0,
            minn=0,
            maxn=0,
        )
        labels = [b"__label__b"] if model == "supervised" else []
        file = files.FastTextFile(
            args, [b"a"], np.array([3]), labels, np.array([2] * len(labels)), 5, rows, rows
        )
        loaded: Any = cls.from_file(file)
        assert loaded.epochs == loaded.min_count == loaded.negatives == max(1, value)
        assert (loaded.window if model == "sg" else loaded.word_ngrams) == max(1, value)
        assert loaded.n_tokens_ == 5


def test_rows_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FastText(3, minn=1, maxn=3, bucket=20, min_count=1, sample=0, epochs=1, **ONE).fit(TEXT)
    words = [b"rose", b"", b"dog", b"unseen", b"a", b"is"]
    rows = SubwordRows(model.to_file())
    begin, ids = rows.ids(words)
    expected = np.stack(
        [
            model.input_[ids[first:last]].astype(np.float64).mean(axis=0)
            if last > first
            else np.zeros(3)
            for first, last in pairwise(begin)
        ]
    )
    for numbers, n_ids in ((1 << 22, 1 << 20), (1, 1), (6, 20), (3, 40), (12, 3)):
        monkeypatch.setattr(subword_rows, "_NUMBERS", numbers)
        monkeypatch.setattr(subword_rows, "_IDS", n_ids)
        np.testing.assert_allclose(rows.vectors(words), expected, rtol=1e-5, atol=1e-7)
        batches = [*rows._batches(words)]
        assert [word for _, batch in batches for word in batch] == words
        assert [first for first, _ in batches] == np.cumsum(
            [0, *(len(batch) for _, batch in batches[:-1])]
        ).tolist()
    # (4 + 2) · 3 n-grams of "rose", then 2 · 3, 5 · 3: more than 30
    monkeypatch.setattr(subword_rows, "_IDS", 30)
    assert [len(batch) for _, batch in rows._batches(words[:3])] == [3]
    monkeypatch.setattr(subword_rows, "_IDS", 23)
    assert [len(batch) for _, batch in rows._batches(words[:3])] == [2, 1]
    monkeypatch.setattr(subword_rows, "_IDS", 24)
    assert [len(batch) for _, batch in rows._batches(words[:3])] == [3]
    assert rows.vectors([]).shape == (0, 3)


def test_rows_of_a_pruned_file() -> None:
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    args = files.Args(dim=2, minn=1, maxn=1, bucket=6)

    def make(prune: Any) -> SubwordRows:
        file = files.FastTextFile(
            args, [b"a", b"b"], np.array([2, 1]), [], np.array([]), 3, rows, rows, prune
        )
        return SubwordRows(file)

    pruned = make(np.array([[4, 0], [1, 2], [3, 1]], np.int32))
    buckets = np.array([0, 1, 3, 4, 5], np.int32)
    row_numbers, has_row = pruned.bucket_rows(buckets)
    assert row_numbers.tolist() == [4, 3, 2]
    assert has_row.tolist() == [False, True, True, True, False]
    assert pruned.bucket_table().tolist() == [-1, 4, -1, 3, 2, -1]
    empty = make(np.zeros((0, 2), np.int32))
    row_numbers, has_row = empty.bucket_rows(buckets)
    assert (row_numbers.tolist(), has_row.tolist()) == ([], [False] * 5)
    np.testing.assert_array_equal(empty.vectors([b"b", b"zz"]), [rows[1], [0, 0]])
    full = make(None)
    assert full.bucket_table() is None
    assert full.bucket_rows(buckets)[0].tolist() == [2, 3, 5, 6, 7]


def test_quantised_models_are_not_trained() -> None:
    text = [[f"w{n}" for n in range(300)]] * 2
    model = FastText(4, minn=2, maxn=2, bucket=50, min_count=1, epochs=1, **ONE).fit(text)
    with pytest.raises(InputError, match="word is int: must be a str"):
        model.vector(3)  # type: ignore[arg-type]
    quantised = TextClassifier(4, epochs=1, **ONE).fit(text, ["x", "y"]).quantize()
    rows = quantised.input_
    assert rows.shape == (301, 4)
    np.testing.assert_array_equal(rows, quantised._input.rows(np.arange(301)))
    model._input = quantised._input
    with pytest.raises(InputError, match="a quantised model cannot be trained"):
        model.partial_fit(text)


# ---- the classifier


def test_scores_of_texts() -> None:
    model = TextClassifier(4, epochs=60, alpha=0.5, **ONE)
    model.fit(["sun", "rain"] * 20, ["good", "bad"] * 20)
    assert model.test(["sun", "rain"], ["good", "good"]) == (2, 0.5, 0.5)
    assert model.test(["sun", "rain"], [["good", "bad"], ["bad"]]) == (2, 1.0, 2 / 3)
    assert model.test(["sun"], ["good"], k=2) == (1, 0.5, 1.0)
    assert model.test(["sun"], ["good"], threshold=2.0) == (1, 0.0, 0.0)
    assert model.test([], []) == (0, 0.0, 0.0)
    assert model.test(["sun"], [[]]) == (1, 0.0, 0.0)
    assert model.predict(["sun"], 1, 0)[0][0].label == "good"
    assert len(model.predict(["sun"], np.int64(2), 0.0)[0]) == 2
    for k, threshold in ((0, 0.0), (-1, 0.0), (True, 0.0), (1.0, 0.0)):
        with pytest.raises(InputError, match="k "):
            model.predict(["sun"], k, threshold)  # type: ignore[arg-type]
    for threshold in (-0.1, float("nan"), "a"):
        with pytest.raises(InputError, match="threshold"):
            model.predict(["sun"], 1, threshold)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="texts is str"):
        model.predict("sun")
    assert model.predict(iter(["sun"]))[0][0].label == "good"


def test_scores_of_a_file(tmp_path: Path) -> None:
    model = TextClassifier(4, epochs=60, alpha=0.5, **ONE)
    model.fit(["sun", "rain"] * 20, ["good", "bad"] * 20)
    path = tmp_path / "test.txt"
    path.write_text("__label__good sun\nno label\n\n__label__bad __label__good rain\n")
    assert model.test(path) == (2, 1.0, 2 / 3)
    assert model.test([path, path]) == (4, 1.0, 2 / 3)


def test_rare_words_and_labels() -> None:
    texts, labels = ["a b", "a", "a c"], [["x"], ["x", "y"], ["x"]]
    model = TextClassifier(2, epochs=1, min_count=3, min_label_count=1, **ONE).fit(texts, labels)
    assert model.words_ == ["</s>", "a"]
    assert model.labels_ == ["x", "y"]
    assert model.label_counts_.tolist() == [3, 1]
    model = TextClassifier(2, epochs=1, min_label_count=3, **ONE).fit(texts, labels)
    assert model.labels_ == ["x"]
    with pytest.raises(InputError, match="min_label_count is 4: no label occurs so often"):
        TextClassifier(2, epochs=1, min_label_count=4, **ONE).fit(texts, labels)


def make_tensors(arrays: Any) -> native.Tensors:
    return native.Tensors(Path("a.trellis"), arrays)


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("label_counts", np.array([2, 0], np.int64), "label_counts must be at least 1"),
        ("label_counts", np.array([1, 2], np.int64), "label_counts must be .* in descending order"),
        ("counts", np.array([-1, -1, -1], np.int64), "counts must be at least 0"),
    ],
)
def test_counts_of_stored_models(name: str, value: Any, match: str) -> None:
    model = TextClassifier(2, epochs=1, **ONE).fit(["a", "b", "a"], ["x", "y", "x"])
    meta, tensors = model.to_parts()
    assert TextClassifier.from_parts(meta, make_tensors(tensors)).labels_ == ["x", "y"]
    with pytest.raises(InputError, match=match):
        TextClassifier.from_parts(meta, make_tensors({**tensors, name: value}))
    store_strings(tensors, "labels", [])
    with pytest.raises(InputError, match="labels is empty: a classifier needs at least one label"):
        TextClassifier.from_parts(meta, make_tensors(tensors))


def test_tables_of_models_that_are_not_fitted() -> None:
    for model in (Word2Vec(), FastText(), TextClassifier()):
        for name in ("input_", "output_"):
            with pytest.raises(Exception, match=r"not fitted|fit"):
                getattr(model, name)
    with pytest.raises(InputError, match=r"the file was written by fastText: use FastText\.load"):
        Word2Vec.from_file(None)  # type: ignore[arg-type]


# ---- evaluation


def test_ranks_of_equal_values() -> None:
    assert evaluation._ranks([5, 1, 5, 5, 2, 1]).tolist() == [5, 1.5, 5, 5, 3, 1.5]
    assert evaluation._correlation([1, 2, 3], [2, 4, 6]) == pytest.approx(1.0)
    assert evaluation._correlation([1, 2], [4, 3]) == pytest.approx(-1.0)
    for a, b in (([1], [1]), ([], []), ([1, 1], [1, 2]), ([1, 2], [3, 3])):
        assert np.isnan(evaluation._correlation(a, b))


def test_cosines() -> None:
    vectors = Vectors(["a", "b", "zero"], np.array([[3.0, 4.0], [5.0, 0.0], [0.0, 0.0]]))
    assert vectors.similarity("a", "b") == pytest.approx(0.6)
    assert vectors.similarity("a", "a") == pytest.approx(1.0)
    assert vectors.similarity("a", "zero") == 0.0
