"""Label probabilities of the core, compared with the same sums in NumPy."""

import pickle
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from vector_files import some_file, some_rows

from trellis import TextClassifier, _core, native
from trellis.embeddings.subword_rows import SubwordRows
from trellis.embeddings.texts.prediction import Predictor
from trellis.errors import InputError
from trellis.formats.fasttext import FastTextFile
from trellis.formats.quantization import QuantizedMatrix, quantize

LOSSES = ("softmax", "hs", "ns", "ova")
KINDS = ("dense", "strided", "codes", "norms", "odd", "pruned", "unaligned")
WORDS, BUCKET, LABELS, DIM = 40, 260, 300, 7
TEXTS = [
    ["w3", "é1", "日2", "unheard", "w3"],
    ["nothing", "of", "it"],
    [],
    [""],
    [f"{i}w{i % 7}" for i in range(300)],  # more rows than the core adds at a time
    ["</s>"],
    ["w\udcff3"],  # a byte that is not UTF-8
]


def labelled(loss: str, kind: str = "dense", labels: int = LABELS, **args: Any) -> FastTextFile:
    """Return a random classifier; ``kind`` is the memory layout of its input matrix."""
    file = some_file("supervised", DIM, WORDS, BUCKET)
    counts = np.sort(np.random.default_rng(2).integers(1, 1000, labels))[::-1]
    file = replace(
        file,
        args=file.args._replace(loss=loss, **args),
        labels=[b"__label__%d" % i for i in range(labels)],
        label_counts=counts,
        output=some_rows(labels, DIM, seed=3),
    )
    rows = np.asarray(file.input)
    if kind == "strided":
        return replace(file, input=np.hstack([rows, rows])[:, :DIM])
    if kind == "unaligned":
        shifted = np.frombuffer(b"." + rows.tobytes(), np.uint8)[1:]
        return replace(file, input=np.ndarray(rows.shape, np.float32, shifted))
    if kind == "pruned":
        order = np.random.default_rng(4).permutation(225)
        prune = np.stack([np.arange(0, 225) + 20, order], axis=1).astype(np.int32)
        coded = quantize(rows[: WORDS + 225], 3, random_state=0)
        return replace(file, input=coded, prune=prune)
    if kind == "dense":
        return file
    coded = quantize(rows, 3 if kind == "odd" else 2, norms=kind == "norms", random_state=0)
    output = quantize(np.asarray(file.output), 2, random_state=0) if labels >= 256 else file.output
    return replace(file, input=coded, output=output)


def dense(matrix: Any) -> Any:
    """Return a matrix as float64; decode it if it is quantised."""
    return np.float64(matrix.rows() if isinstance(matrix, QuantizedMatrix) else matrix)


def tree_paths(counts: Any) -> list[list[tuple[int, bool]]]:
    """Return the path from the root to each label: nodes, and whether it turns right there."""
    begin, node, right, _ = _core.huffman(counts)
    pairs = list(zip(node.tolist(), right.tolist(), strict=True))
    return [pairs[first:last] for first, last in pairwise(begin)]


def probabilities(file: FastTextFile, words: list[str]) -> Any:
    """Return the probability of each label by the definition; None for a text without rows."""
    args = file.args
    text = [word.encode("utf-8", "surrogateescape") for word in [*words, "</s>"]]
    rows = SubwordRows(file)
    ids = rows.ids(text)[1].tolist()
    if args.word_ngrams > 1:
        hashes = (
            _core.word_hashes(text).astype(np.int32).astype(object)
        )  # signed; Python integers do not overflow
        grams = []
        for i in range(len(text)):
            ngram_hash = hashes[i]
            for j in range(i + 1, min(len(text), i + args.word_ngrams)):
                ngram_hash = ngram_hash * 116049371 + hashes[j]
                grams.append(ngram_hash % 2**64 % args.bucket)
        ids += rows.bucket_rows(np.array(grams, np.int32))[0].tolist()
    if not ids:
        return None
    scores = dense(file.output) @ dense(file.input)[ids].mean(axis=0)
    if args.loss == "softmax":
        return softmax(scores) + 1e-5
    if args.loss != "hs":
        return expit(scores) + 1e-5
    return np.array(
        [
            np.prod(
                [expit(scores[node] if right else -scores[node]) + 1e-5 for node, right in path]
            )
            for path in tree_paths(file.label_counts)
        ]
    )


def check(answer: Any, p: Any, k: int, threshold: float) -> None:
    """Compare (label, probability) pairs with the probabilities of all labels."""
    if p is None:
        assert answer == []
        return
    best = np.sort(p)[::-1][:k]
    labels, probabilities = [label for label, _ in answer], [q for _, q in answer]
    np.testing.assert_allclose(probabilities, best[best >= threshold + 1e-5], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(probabilities, p[labels], rtol=1e-5, atol=1e-7)
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_follow_the_definition(loss: str, kind: str) -> None:
    file = labelled(loss, kind)
    expected = [probabilities(file, words) for words in TEXTS]
    for isa in native.available_isas():
        best_isa = native.isa()
        native.use_isa(isa)
        try:
            for k, threshold in ((1, 0.0), (5, 0.0), (LABELS, 0.0), (10**30, 0.004), (3, 0.9)):
                answers = Predictor(file).best(TEXTS, k, threshold)
                for answer, p in zip(answers, expected, strict=True):
                    check(answer, p, k, threshold)
        finally:
            native.use_isa(best_isa)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("args", [{"maxn": 0}, {"word_ngrams": 1}, {"word_ngrams": 4, "minn": 0}])
@pytest.mark.parametrize("labels", [1, 2, 9])
def test_ngrams_and_numbers_of_labels(loss: str, args: dict[str, int], labels: int) -> None:
    file = labelled(loss, labels=labels, **args)
    for words, answer in zip(TEXTS, Predictor(file).best(TEXTS, 4), strict=True):
        check(answer, probabilities(file, words), 4, 0.0)


def test_texts_without_rows() -> None:
    file = labelled("softmax", "pruned", maxn=0, word_ngrams=1)
    file = replace(file, words=[b"end", *file.words[1:]])
    assert Predictor(file).best([["unheard"], [], ["w3"]], 1)[:2] == [[], []]
    assert len(Predictor(file).best([["w3"]], 1)[0]) == 1
    assert Predictor(file).best([], 1) == []


def test_equal_probabilities_are_in_order() -> None:
    for loss in ("softmax", "ova"):
        file = labelled(loss)
        file = replace(file, output=np.zeros((LABELS, DIM), np.float32))
        assert [label for label, _ in Predictor(file).best([["w3"]], 5)[0]] == [0, 1, 2, 3, 4]


def test_threads_and_batches_give_the_same_bits() -> None:
    predictor = Predictor(labelled("hs", "norms"))
    texts = TEXTS * 40
    expected = predictor.best(texts, 3, 0.0, 1)
    assert predictor.best(texts, 3, 0.0, 4) == expected
    assert [predictor.best([text], 3)[0] for text in texts] == expected
    assert pickle.loads(pickle.dumps(predictor)).best(texts, 3) == expected


def test_lines_are_split_as_in_fasttext() -> None:
    predictor = Predictor(labelled("softmax"))
    words = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"\xc2\xa0h", b"</s>"]
    line = b" a b\tc\rd\ve\ff\0g \xc2\xa0h\nnot here"
    assert predictor.split(line, b"__label__") == (words, [])
    assert predictor.split(b"a </s> b\n", b"__label__") == ([b"a", b"</s>"], [])
    assert predictor.split(b"a  ", b"__label__") == ([b"a"], [])
    assert predictor.split(b"__label__7 __label__x w3", b"__label__") == ([b"w3"], [7])
    assert predictor.split(b"w3 a", b"w") == ([b"w3", b"a"], [])  # a known word is not a label
    (line_answer,) = predictor.best_of_lines([b"w3 __label__7 unheard\n"], b"__label__", 2)
    (answer,) = predictor.best([["w3", "unheard"]], 2)
    assert line_answer == [(label, float(np.float32(p))) for label, p in answer]


def test_counts_that_do_not_descend() -> None:
    file = labelled("hs")
    with pytest.raises(ValueError, match="descend"):
        Predictor(replace(file, label_counts=file.label_counts[::-1]))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"words": [b"a", b"a"]}, "word occurs twice"),
        ({"labels": [b"a"] * LABELS}, "label occurs twice"),
        ({"input": some_rows(WORDS, DIM)}, "fewer rows"),
        ({"input": some_rows(WORDS + BUCKET, DIM + 1)}, "dim floats"),
        ({"output": some_rows(3, DIM)}, "one row per label"),
        ({"label_counts": np.ones(2, np.int64)}, "one entry per label"),
    ],
)
def test_parts_of_wrong_sizes(change: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Predictor(replace(labelled("softmax"), **change))


@pytest.mark.parametrize(
    ("texts", "match"),
    [
        ([5], "text 0 is int"),
        (["fine", None], "text 1 is NoneType"),
        ([b"bytes"], "text 0 is bytes"),
        ([["a"], ["b", 3]], "text 1 has a word that is int"),
        (["a\ud800"], "text 0 has a str with lone surrogates"),
    ],
)
def test_invalid_texts(texts: Any, match: str) -> None:
    model = TextClassifier(4, n_jobs=1, epochs=1).fit(["good", "bad"], ["p", "n"])
    with pytest.raises(InputError, match=match):
        model.predict(texts)


def test_accepted_types_of_texts() -> None:
    model = TextClassifier(4, n_jobs=1, epochs=1, random_state=0).fit(["good", "bad"], ["p", "n"])
    expected = model.predict(["good", ["bad"]], 2)
    assert model.predict(("good", ("bad",)), np.int64(5), np.float32(0)) == expected
    assert model.predict((text for text in ["good", "bad"]), 10**30, 0) == expected
    assert model.predict([" good\u00a0"], 2) == expected[:1]  # split at Unicode white space
    assert pickle.loads(pickle.dumps(model)).predict(["good", "bad"], 2) == expected
