"""Item 4: flat sentences, arrays of strings, Series, DataFrames and generators as X and y."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from trellis import CRF, HMM, MEMM, GraphCRF
from trellis.errors import InputError
from trellis.sequences import label_lists, sequences

X = [["the", "dog", "barks"], ["cats", "sleep"], ["the", "cat", "sleeps"]]
Y = [["D", "N", "V"], ["N", "V"], ["D", "N", "V"]]
PAIRS = [[(word, word[-1:]) for word in x] for x in X]
EQUAL_X, EQUAL_Y = [X[0], X[2]], [Y[0], Y[2]]


def neural_tagger() -> Any:
    pytest.importorskip("torch")
    from trellis import NeuralTagger

    return NeuralTagger(hidden=4, word_dim=4, epochs=1, random_state=0, device="cpu")


MODELS: dict[str, Callable[[], Any]] = {
    "crf": lambda: CRF(max_iter=20),
    "memm": lambda: MEMM(max_iter=20),
    "hmm": HMM,
    "neural": neural_tagger,
}


class Series:
    """The part of a Series of pandas by which it is recognised; pandas need not be installed."""

    iloc = None

    def __init__(self, values: Any) -> None:
        self.values = list(values)
        self.shape = (len(self.values),)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def tolist(self) -> list[Any]:
        return self.values

    def __getitem__(self, label: Any) -> Any:
        raise KeyError(label)  # the labels of rows need not be 0, 1, …


class Frame:
    """The part of a DataFrame of pandas by which it is recognised."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = list(columns)
        self.data = columns
        self.shape = (len(next(iter(columns.values()))), len(columns))

    @property
    def iloc(self) -> Any:
        class Rows:
            def __getitem__(_, key: Any) -> Series:  # noqa: N805
                return Series(self.data[self.columns[key[1]]])

        return Rows()

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def to_numpy(self) -> Any:
        return np.array([*zip(*self.data.values(), strict=True)])


def frames(pandas_frame: Any, pairs: Any) -> list[Any]:
    return [pandas_frame({"word": [w for w, _ in x], "end": [e for _, e in x]}) for x in pairs]


# (name, X, y as functions because generators can be read once, the plain X, the plain y)
ACCEPTED: list[tuple[str, Callable[[], Any], Callable[[], Any], Any, Any]] = [
    ("generators", lambda: (x for x in X), lambda: (y for y in Y), X, Y),
    ("iterators of tokens", lambda: map(iter, X), lambda: map(iter, Y), X, Y),
    ("tuples", lambda: tuple(map(tuple, X)), lambda: tuple(map(tuple, Y)), X, Y),
    ("arrays", lambda: [*map(np.array, X)], lambda: [*map(np.array, Y)], X, Y),
    (
        "arrays of objects",
        lambda: [np.array(x, dtype=object) for x in X],
        lambda: [np.array(y, dtype=object) for y in Y],
        X,
        Y,
    ),
    ("one array of lists", lambda: np.array([*X, []], dtype=object)[:3], lambda: Y, X, Y),
    ("one array", lambda: np.array(EQUAL_X), lambda: np.array(EQUAL_Y), EQUAL_X, EQUAL_Y),
    ("arrays of columns", lambda: [*map(np.array, PAIRS)], lambda: Y, PAIRS, Y),
    (
        "one array of columns",
        lambda: np.array([PAIRS[0], PAIRS[2]]),
        lambda: EQUAL_Y,
        [PAIRS[0], PAIRS[2]],
        EQUAL_Y,
    ),
    ("Series of lists", lambda: Series(X), lambda: Series(Y), X, Y),
    ("Series of tokens", lambda: [*map(Series, X)], lambda: [*map(Series, Y)], X, Y),
    ("DataFrames", lambda: frames(Frame, PAIRS), lambda: Y, PAIRS, Y),
    ("DataFrames of a column", lambda: [Frame({"w": x}) for x in X], lambda: Y, X, Y),
    ("values of a dict", lambda: {1: X[0], 2: X[1]}.values(), lambda: Y[:2], X[:2], Y[:2]),
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("make_x", "make_y", "plain_x", "plain_y"),
    [case[1:] for case in ACCEPTED],
    ids=[case[0] for case in ACCEPTED],
)
def test_plain_meanings_are_accepted(
    model: str, make_x: Any, make_y: Any, plain_x: Any, plain_y: Any
) -> None:
    expected = MODELS[model]().fit(plain_x, plain_y)
    fitted = MODELS[model]().fit(make_x(), make_y())
    assert fitted.classes_.tolist() == expected.classes_.tolist()
    assert fitted.predict(make_x()) == expected.predict(plain_x)
    marginals = fitted.predict_marginals(make_x()), expected.predict_marginals(plain_x)
    assert all(np.array_equal(a, b) for a, b in zip(*marginals, strict=True))
    assert fitted.predict_kbest(make_x(), 2) == expected.predict_kbest(plain_x, 2)
    assert fitted.sample(make_x(), random_state=0) == expected.sample(plain_x, random_state=0)
    assert fitted.score(make_x(), make_y()) == expected.score(plain_x, plain_y)
    likelihoods = expected.log_likelihood(plain_x, plain_y)
    assert np.array_equal(fitted.log_likelihood(make_x(), make_y()), likelihoods)
    known = [[None] * len(x) for x in plain_x]
    assert fitted.predict(make_x(), known=(k for k in known)) == expected.predict(plain_x)


def test_inspection_of_generators() -> None:
    spans = [["O", "B-X", "I-X"], ["B-X", "O"], ["O", "B-X", "O"]]
    model = CRF().fit(X, spans)
    assert model.predict_spans(x for x in X) == model.predict_spans(X)
    assert model.explain(np.array(X[0])) == model.explain(X[0])
    assert model.explain(iter(X[0])) == model.explain(X[0])


@pytest.mark.parametrize("model", ["crf", "memm", "neural"])
def test_a_development_set_of_generators(model: str) -> None:
    histories = [
        MODELS[model]().fit(X, Y, dev=dev).dev_scores_
        for dev in ((X, Y), ((x for x in X), (y for y in Y)), (map(np.array, X), map(np.array, Y)))
    ]
    assert len(histories[0]) > 0
    assert histories[1:] == histories[:1] * 2


SINGLE = "X is one sequence, not a list of sequences: for a single sequence, write [X]"
TEXTS = "X is a list of texts: must be a list of token lists; write [trellis.data.text.tokenize("
PAIRED = "y must have a list of labels for each sequence; for a single sequence, write [X] and [y]"
REFUSED: list[tuple[str, Any, Any, str]] = [
    ("a sentence", X[0], Y[0], SINGLE),
    ("an array of words", np.array(X[0]), np.array(Y[0]), SINGLE),
    ("a Series of words", Series(X[0]), Series(Y[0]), SINGLE),
    ("dicts of one sentence", [{"w": "a"}, {"w": "b"}], ["A", "B"], SINGLE),
    ("texts", ["the dog barks", "cats"], Y[:2], TEXTS),
    ("a text", "the dog barks", Y[:1], "for a text, write [trellis.data.text.tokenize(X)]"),
    ("tuples of one sentence", PAIRS[0], Y[0], f"sequence 0 must be a list, not 'D': {PAIRED}"),
    ("a vector per sequence", np.eye(3), Y, "X is one array of shape (3, 3), not a list of"),
    ("an array of symbols", np.array([1, 6, 6]), [Y[0]], SINGLE),
    ("a list of symbols", [1, np.int64(6), 6], [Y[0]], SINGLE),
    ("a list of numbers", [0.5, np.float32(1.5), 2.0], [Y[0]], SINGLE),
    ("a later number", [X[0], 1.5], Y[:2], "sequence 1 must be a list of tokens, not float: 1.5"),
    ("flat numbers", X, [0, 1, 1], f"labels of sequence 0 must be a list, not 0: {PAIRED}"),
    ("labels as text", X[:1], ["DNV"], f"labels of sequence 0 must be a list, not 'DNV': {PAIRED}"),
    ("labels as a set", X[1:2], [{"N", "V"}], "labels of sequence 0 must be a list, not set"),
    ("a dict", {"a": X[0]}, Y[:1], "X must be a list of sequences, not dict"),
    ("sets", [{"a", "b"}], [["N", "V"]], "sequence 0 must be a list of tokens, not a set"),
    ("None", None, Y, "X must be a list of sequences, not NoneType"),
    ("no labels", X, 3, "y must be a list of label lists, not int"),
    ("a later text", [X[0], "cats sleep"], Y[:2], "sequence 1 must be a list of tokens, not str"),
    ("bytes", [[b"a", b"b"]], [["N", "V"]], "not bytes"),
    (
        "a DataFrame",
        Frame({"sentence": [1, 1], "word": ["a", "b"]}),
        Y[:1],
        "X is a DataFrame with the columns sentence, word: must be a list of sequences. If a "
        "column numbers the sequences, group by it: [rows['word'].tolist() for _, rows in",
    ),
    (
        "a DataFrame of labels",
        X[:1],
        Frame({"label": Y[0]}),
        "y is a DataFrame with the columns label: must be a list of label lists",
    ),
    (
        "a GroupBy",
        type("GroupBy", (), {"ngroups": 1, "__iter__": lambda self: iter([])})(),
        Y[:1],
        "X is a GroupBy of pandas, whose items are pairs of a key and a frame: write [rows['word']",
    ),
    (
        "DataFrames of text and numbers",
        [Frame({"word": ["a", "b"], "length": [1, 1]})],
        [["N", "V"]],
        "sequence 0 is a DataFrame with columns of text and of other values",
    ),
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("sentences", "labels", "message"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_other_meanings_are_refused_with_a_hint(
    model: str, sentences: Any, labels: Any, message: str
) -> None:
    if model == "neural" and message == "not bytes":
        message = "b'a' has no word in column 0"
    with pytest.raises(InputError, match=re.escape(message)):
        MODELS[model]().fit(sentences, labels)


@pytest.mark.parametrize("model", MODELS)
def test_predictions_refuse_a_sentence(model: str) -> None:
    fitted = MODELS[model]().fit(X, Y)
    for method in ("predict", "predict_marginals", "sample"):
        with pytest.raises(InputError, match=re.escape(SINGLE)):
            getattr(fitted, method)(X[0])
    with pytest.raises(InputError, match=re.escape(PAIRED)):
        fitted.score(X, Y[0])
    with pytest.raises(InputError, match=r"write \[X\] and \[known\]"):
        fitted.predict(X, known=[None, None, "D"])


@pytest.mark.parametrize("vectors", [[[[0.5, 1.0], [1.0, 0.5]]], [[np.ones(2), np.ones(2)]]])
def test_lists_of_vectors_are_refused_with_a_hint(vectors: Any) -> None:
    with pytest.raises(InputError, match=re.escape("write np.array(x) for each sequence")):
        CRF().fit(vectors, [["N", "V"]])


@pytest.mark.parametrize(
    ("x", "kind"), [([1, 2], "int"), ([0.5, 1], "float"), ([[1.0], [2.0]], "list of numbers")]
)
def test_lists_of_numbers_are_refused_with_a_hint(x: Any, kind: str) -> None:
    message = f"or features, not {kind}: write np.array(x) for each sequence x of vectors, or str"
    with pytest.raises(InputError, match=re.escape(message)):
        CRF().fit([x], [["N", "V"]])


def test_numeric_frames_and_arrays_are_features() -> None:
    arrays = [np.array([[0.5, 1.0], [1.0, 0.5]]), np.array([[0.0, 2.0]])]
    tables = [Frame({"a": [*x[:, 0]], "b": [*x[:, 1]]}) for x in arrays]
    y = [["N", "V"], ["V"]]
    assert np.array_equal(CRF().fit(tables, y).coef_, CRF().fit(arrays, y).coef_)


def test_a_function_gets_the_objects_of_the_user() -> None:
    series = [Series(x) for x in X]
    received: list[Any] = []

    def features(x: Any) -> list[list[str]]:
        received.append(x)
        return [[word] for word in x]

    model = CRF(features).fit(series, Y)
    assert all(x in series for x in received)
    assert model.predict(series) == CRF(features).fit(X, Y).predict(X)
    # A str is a sequence of characters there.
    letters = CRF(lambda word: [[letter] for letter in word]).fit(["ab", "ba"], [[0, 1], [1, 0]])
    assert letters.predict(["ba"]) == [[1, 0]]


def test_graphs() -> None:
    ring = (np.eye(3), [[0, 1], [1, 2]])
    labels = ["a", "b", "a"]
    by_list = GraphCRF().fit([ring] * 2, [labels] * 2)
    by_generator = GraphCRF().fit((g for g in [ring] * 2), (y for y in [labels] * 2))
    assert np.array_equal(by_list.coef_, by_generator.coef_)
    with pytest.raises(InputError, match=re.escape("for a single graph, write [X] and [y]")):
        GraphCRF().fit(ring, labels)


def test_lists_are_not_copied() -> None:
    assert sequences(X) is X
    assert label_lists(Y) is Y


def test_the_real_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"sentence": [7, 7, 7, 9, 9], "word": X[0] + X[1], "tag": Y[0] + Y[1]})
    with pytest.raises(InputError, match="X is a DataFrame with the columns sentence, word, tag"):
        CRF().fit(table, Y[:2])
    groups = [rows for _, rows in table.groupby("sentence", sort=False)]
    expected = CRF().fit(X[:2], Y[:2]).coef_
    columns = [rows[["word"]] for rows in groups]
    lists = pandas.Series([rows["tag"].tolist() for rows in groups])
    assert np.array_equal(CRF().fit(columns, lists).coef_, expected)
    series = [rows["word"] for rows in groups]
    tags = [rows["tag"] for rows in groups]
    assert np.array_equal(CRF().fit(series, tags).coef_, expected)
    with pytest.raises(InputError, match=re.escape(SINGLE)):
        CRF().fit(table["word"], table["tag"])
