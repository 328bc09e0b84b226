"""Ready features as python-crfsuite reads them; arrays and sparse matrices; which map is chosen."""

import copy
import json
import pickle
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples
from scipy import sparse

from trellis.errors import InputError
from trellis.features.edges import EdgeFeatures
from trellis.features.extractor import TemplateFeatures
from trellis.features.rows import SparseRows
from trellis.features.vectorizer import (
    ArrayFeatures,
    ReadyFeatures,
    choose,
    from_parts,
)
from trellis.features.window import Window, named
from trellis.formats.strings import unpack_strings

texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3
) | st.sampled_from(["a", "b"])
numbers = (
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60) | st.booleans()
)
names_only = st.lists(texts, max_size=4) | st.sets(texts, max_size=4)
values = st.recursive(
    numbers | texts,
    lambda inner: names_only | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
tokens = names_only | st.dictionaries(texts, values, max_size=4)
ready = st.lists(st.lists(tokens, max_size=4), max_size=3)


def entries(rows: SparseRows, names: list[str]) -> list[list[tuple[str, float]]]:
    weights = [1.0] * len(rows.id) if rows.value is None else rows.value.tolist()
    pairs = [(names[i], v) for i, v in zip(rows.id, weights, strict=True)]
    return [pairs[a:b] for a, b in pairwise(rows.begin)]


def rebuilt(features: Any, **changed: Any) -> Any:
    """The map after a round trip through the parts of a model file, some of them changed."""
    meta, tensors = features.to_parts()
    tensors |= changed

    def strings(name: str) -> list[str]:
        return unpack_strings(tensors[f"{name}.bytes"], tensors[f"{name}.ends"], name)

    return from_parts(features.kind, json.loads(json.dumps(meta)), tensors, strings)


@given(ready, ready)
@settings(max_examples=examples(150), deadline=None)
def test_ready_features_are_those_of_python_crfsuite(X: Any, others: Any) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")

    def peer(sequences: Any) -> list[dict[str, float]]:
        return [item for x in sequences for item in pycrfsuite.ItemSequence(x).items()]

    features = ReadyFeatures()
    batch = features.learn(X)
    # items() is a list of dicts: of an attribute that occurs twice it has the last value
    assert [dict(row) for row in entries(batch.rows, features.names())] == peer(X)
    assert batch.lengths.tolist() == [len(x) for x in X]
    known = features.names()
    assert len(set(known)) == len(known) == len(features)
    rows = [dict(row) for row in entries(features.find(others).rows, known)]
    assert rows == [{n: v for n, v in item.items() if n in known} for item in peer(others)]


def test_a_name_that_occurs_twice_counts_twice() -> None:
    features = ReadyFeatures()
    X = [[{"a": {"b": 0.5}, "a:b": 2, "a:": 1}, ["x", "x"], {"a": ["b", "b"]}]]
    batch = features.learn(X)
    assert entries(batch.rows, features.names()) == [
        [("a:b", 0.5), ("a:b", 2.0), ("a:", 1.0)],
        [("x", 1.0), ("x", 1.0)],
        [("a:b", 1.0), ("a:b", 1.0)],
    ]


def test_values_are_omitted_if_all_are_one() -> None:
    features = ReadyFeatures()
    assert features.learn([[["a", "b"], {"c": "d", "e": True, "f": 1}]]).rows.value is None
    assert features.find([[{"c": "d", "unknown": 7}]]).rows.value is None
    rows = features.find([[{"a": False, "e": 1.5}]]).rows
    assert entries(rows, features.names()) == [[("a", 0.0), ("e", 1.5)]]


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5), Fraction(1, 2), np.array(0.5)])
def test_objects_with_float_are_numbers(value: Any) -> None:
    assert entries(ReadyFeatures().learn([[{"a": value}]]).rows, ["a"]) == [[("a", 0.5)]]


def test_numpy_text_and_truth() -> None:
    features = ReadyFeatures()
    X = [[{"a": np.str_("é"), "b": np.bool_(True), "c": np.int64(3), "t": ("u", "v")}]]
    got = entries(features.learn(X).rows, features.names())
    assert got == [[("a:é", 1.0), ("b", 1.0), ("c", 3.0), ("t:u", 1.0), ("t:v", 1.0)]]


deep: Any = 1.0
for _ in range(100):
    deep = {"a": deep}


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("word", "ready features expected, got a str"),
        (5, "not int"),
        (None, "not NoneType"),
        ({"a": float("nan")}, "a is not finite"),
        ({"a": {"b": float("inf")}}, "a:b is not finite"),
        ({"a": -np.inf}, "a is not finite"),
        ({"a": 10**400}, "the value of a"),
        ({"a": None}, "the value of a .*NoneType"),
        ({"a": b"\xff"}, "the value of a .*bytes"),
        ({"a": 1j}, "the value of a .*complex"),
        ({"a": "\ud800"}, "the value of a"),
        ({"a": [1]}, "must be a str.* int"),
        ({"a": [["b"]]}, "must be a str.* list"),
        ({1: "a"}, "must be a str.* int"),
        ([1], "must be a str.* int"),
        ({b"\xff"}, "must be a str.* bytes"),
        (["a\udfff"], "surrogate"),
        ([{"a": 1}], "must be a str.* dict"),
        (deep, "nested too deeply"),
    ],
)
@pytest.mark.parametrize("method", ["learn", "find"])
def test_a_bad_ready_feature_is_named(token: Any, message: str, method: str) -> None:
    with pytest.raises(InputError, match=f"^sequence 1, position 2: .*{message}"):
        getattr(ReadyFeatures(), method)([[["a"]], [["a"], {"b": 1}, token]])


@pytest.mark.parametrize("X", [None, 5, "ab", iter([])])
@pytest.mark.parametrize("make", [ReadyFeatures, lambda: ReadyFeatures(list), ArrayFeatures])
def test_sequences_must_be_a_list(X: Any, make: Any) -> None:
    with pytest.raises(InputError):
        make().learn(X)


@pytest.mark.parametrize("x", [None, 5, "ab"])
def test_a_sequence_must_be_a_list(x: Any) -> None:
    with pytest.raises(InputError, match="sequence 1"):
        ReadyFeatures().learn([[["a"]], x])


def neighbours(sequence: Any) -> list[list[str]]:
    return [[f"{a}>{b}"] for a, b in pairwise(["", *sequence])]


def test_functions_return_features_of_positions_and_transitions() -> None:
    states = ReadyFeatures(lambda x: [{"w": w, "n": len(w)} for w in x])
    features = EdgeFeatures(states, make=neighbours)
    batch = features.learn([["ab", "c"], [], ["c"], ["ab", "c", "ab"]])
    assert features.has_edges
    # into the first position, they are attributes of the label
    assert features.names() == ["w:ab", "n", "w:c", "start:>ab", "start:>c"]
    assert features.names(edge=True) == ["ab>c", "c>ab"]
    assert [[name for name, _ in row] for row in entries(batch.rows, features.names())] == [
        ["w:ab", "n", "start:>ab"], ["w:c", "n"], ["w:c", "n", "start:>c"],
        ["w:ab", "n", "start:>ab"], ["w:c", "n"], ["w:ab", "n"],
    ]  # fmt: skip
    assert batch.edges is not None
    assert len(batch.rows) == len(batch.edges) == 6
    assert entries(batch.edges, ["ab>c", "c>ab"]) == [
        [], [("ab>c", 1.0)], [], [], [("ab>c", 1.0)], [("c>ab", 1.0)],
    ]  # fmt: skip
    known = features.find([["c", "c"], ["c", "ab"]])
    assert known.edges is not None
    assert known.edges.begin.tolist() == [0, 0, 0, 0, 1]
    assert (len(features), features.edges) == (5, 2)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([["a"]], "1 positions for sequence 1, which has 2"),
        ([], "0 positions for sequence 1, which has 2"),
        ([["a"]] * 3, "3 positions for sequence 1, which has 2"),
        (None, "sequence 1 must be a list"),
        (iter([["a"], ["b"]]), "sequence 1 must be a list"),
        ([["a"], 5], "sequence 1, position 1: .*int"),
    ],
)
@pytest.mark.parametrize("edge", [False, True])
def test_what_a_function_returns_is_checked(made: Any, message: str, edge: bool) -> None:
    def wrong(x: Any) -> Any:
        return made if len(x) == 2 else [["a"]] * len(x)

    features: Any = EdgeFeatures(ReadyFeatures(), make=wrong) if edge else ReadyFeatures(wrong)
    X: Any = [[["x"]], [["x"], ["y"]]]
    features.learn(X[:1])
    for method in (features.learn, features.find):
        with pytest.raises(
            InputError, match=("edge_features: .*" if edge else "^") + ".*" + message
        ):
            method(X)


def test_what_a_function_raises_is_passed_on() -> None:
    with pytest.raises(ZeroDivisionError):
        ReadyFeatures(lambda x: [1 / 0]).learn([["a"]])


@given(ready, ready, st.data())
@settings(max_examples=examples(50), deadline=None)
def test_keep_store_and_pickle_ready_features(X: Any, others: Any, data: st.DataObject) -> None:
    features = ReadyFeatures()
    features.learn(X)
    names = features.names()
    ids = data.draw(st.lists(st.sampled_from(range(len(names))), unique=True)) if names else []
    features.keep(np.array(ids, np.int32), np.array([], np.int32))
    assert features.names() == [names[i] for i in ids]
    for other in (rebuilt(features), pickle.loads(pickle.dumps(features)), copy.deepcopy(features)):
        assert other.names() == features.names()
        known = other.names()
        rows = entries(other.find(others).rows, known)
        assert rows == entries(features.find(others).rows, known)


def test_a_file_cannot_store_functions() -> None:
    features = ReadyFeatures(lambda x: [["a"]] * len(x))
    features.learn([["x", "y"]])
    loaded = rebuilt(features)
    assert loaded.names() == ["a"]
    with pytest.raises(InputError, match="features=function"):
        loaded.find([["x"]])


def test_repeated_names_in_a_file() -> None:
    features = ReadyFeatures()
    features.learn([[["a"]]])
    data = np.frombuffer(b"aa", np.uint8)
    with pytest.raises(InputError, match="repeated"):
        rebuilt(features, **{"names.bytes": data, "names.ends": np.array([0, 1, 2])})


# ---- arrays

MATRICES = [
    np.array([[1.0, 0.0, -2.0], [0.0, 0.0, 0.0]]),
    np.array([[0.0, 0.5, 0.0]]),
    np.zeros((0, 3)),
    np.array([[3.0, 4.0, 5.0]]),
]


def dense(rows: SparseRows, columns: int) -> Any:
    assert rows.value is not None
    out = np.zeros((len(rows), columns))
    for r, (a, b) in enumerate(pairwise(rows.begin)):
        np.add.at(out[r], rows.id[a:b], rows.value[a:b])
    return out


@pytest.mark.parametrize(
    "form",
    [
        np.asarray,
        np.asfortranarray,
        lambda x: x.astype(np.float32),
        lambda x: (x * 2).astype(np.int8) / np.float32(2),
        *(getattr(sparse, f"{f}_array") for f in ("csr", "csc", "coo", "lil", "dok")),
        sparse.csr_matrix,
    ],
)
def test_arrays_and_sparse_matrices_are_read_alike(form: Any) -> None:
    features = ArrayFeatures()
    batch = features.learn([form(x) for x in MATRICES])
    assert batch.lengths.tolist() == [2, 1, 0, 1]
    assert batch.rows.begin.tolist() == [0, 2, 2, 3, 6]  # zeros are no entries
    assert np.array_equal(dense(batch.rows, 3), np.vstack(MATRICES))
    assert (len(features), features.names(), features.names(edge=True)) == (3, ["0", "1", "2"], [])
    again = features.find([form(MATRICES[3])])
    assert np.array_equal(dense(again.rows, 3), MATRICES[3])


def test_entries_that_are_stored_zeros_or_stored_twice() -> None:
    zero = sparse.csr_array(([0.0, 2.0], [0, 1], [0, 2]), shape=(1, 3))
    twice = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 3))
    rows = ArrayFeatures().learn([zero, twice]).rows
    assert np.array_equal(dense(rows, 3), [[0.0, 2.0, 0.0], [0.0, 3.0, 0.0]])
    assert rows.begin[1] == 1


def test_a_three_dimensional_array_is_a_list_of_sequences() -> None:
    X = np.arange(12.0).reshape(2, 3, 2)
    assert np.array_equal(dense(ArrayFeatures().learn(X).rows, 2), X.reshape(6, 2))


@given(st.data())
@settings(max_examples=examples(50), deadline=None)
def test_kept_columns_are_renumbered(data: st.DataObject) -> None:
    features = ArrayFeatures()
    features.learn(MATRICES)
    kept = [0, 1, 2]
    for _ in range(2):
        ids = data.draw(st.permutations(range(len(kept))).map(lambda p: p[: len(p) // 2 + 1]))
        features.keep(np.array(ids, np.int32), np.array([], np.int32))
        kept = [kept[i] for i in ids]
    want = np.vstack(MATRICES)[:, kept]
    for same in (features, rebuilt(features), pickle.loads(pickle.dumps(features))):
        assert same.names() == [str(c) for c in kept]
        assert np.array_equal(dense(same.find(MATRICES).rows, len(kept)), want)


def test_no_sequences() -> None:
    features = ArrayFeatures()
    assert len(features) == 0
    assert features.names() == []
    assert len(features.learn([]).rows) == 0
    assert len(ReadyFeatures().learn([]).rows) == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_array])
@pytest.mark.parametrize("at", [(0, 0), (0, 1), (1, 0), (3, 0)])
def test_where_a_value_is_not_finite(value: float, form: Any, at: tuple[int, int]) -> None:
    i, t = at
    X = [x.copy() for x in MATRICES]
    X[i][t, 1] = value
    with pytest.raises(InputError, match=f"sequence {i}, position {t}: .*not finite"):
        ArrayFeatures().learn([form(x) for x in X])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 4)), "4 columns, expected 3"),
        (np.zeros((2, 0)), "0 columns, expected 3"),
        (sparse.csr_array((2, 2)), "2 columns, expected 3"),
        (np.zeros(3), "shape"),
        (np.zeros((1, 1, 3)), "shape"),
        ([[1.0, 2.0, 3.0]], "shape"),
        (None, "shape"),
        (np.array([["a", "b", "c"]]), ""),
        (np.array([[1j, 0, 0]]), ""),
        (np.array([[None, 1, 2]]), ""),
    ],
)
def test_a_bad_array_is_named(x: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"sequence 4.*{message}"):
        ArrayFeatures().learn([*MATRICES, x])


def test_arrays_must_be_learned_first() -> None:
    with pytest.raises(InputError, match="before learn"):
        ArrayFeatures().find(MATRICES)


@pytest.mark.parametrize(
    ("columns", "kept"),
    [(2, [0, 2]), (2, [-1]), ("2", [0]), (None, [0]), (2, [[0]])],
)
def test_columns_of_a_damaged_file(columns: Any, kept: Any) -> None:
    with pytest.raises(InputError, match="array features"):
        from_parts("array", {"columns": columns}, {"kept": np.array(kept, np.int32)}, None)


# ---- which map


@pytest.mark.parametrize(
    ("X", "kind"),
    [
        ([["a", "b"]], "templates"),
        ([[], ["a"]], "templates"),
        ([[("a", "NN")]], "templates"),
        ([], "templates"),
        ([[]], "templates"),
        ([[{"a": 1}]], "ready"),
        ([[["a"]]], "ready"),
        ([[], [{"a"}]], "ready"),
        (MATRICES, "array"),
        ([np.zeros((0, 3)), np.zeros((1, 3))], "array"),
        ([sparse.csr_array((1, 3))], "array"),
    ],
)
def test_the_kind_of_sequences_chooses_the_map(X: Any, kind: str) -> None:
    assert choose(None, None, X).kind == kind


def test_the_features_argument_chooses_the_map() -> None:
    spec, window = named(["w[0]"]), Window(words=0)
    for features, made in ((spec, spec), (window, window.spec())):
        templates = choose(features, None, [])
        assert isinstance(templates, TemplateFeatures)
        assert templates.spec == made
    columns = choose(None, None, [[], [("a", "NN", "x")]])
    assert isinstance(columns, TemplateFeatures)
    assert columns.spec.columns == 3
    ready = choose(neighbours, list, [["a"]])
    assert isinstance(ready, EdgeFeatures)
    assert isinstance(ready.states, ReadyFeatures)
    assert (ready.states.make, ready.make, ready.edge_map) == (neighbours, list, None)
    assert choose(None, list, [[{"a": 1}]]).has_edges
    for edges in (spec, window):
        templates = choose(window, edges, [])
        assert isinstance(templates, EdgeFeatures)
        assert isinstance(templates.states, TemplateFeatures)
        assert isinstance(templates.edge_map, TemplateFeatures)
        assert templates.edge_map.spec == (spec if edges is spec else window.spec())
        assert templates.make is None
    assert isinstance(choose(None, list, MATRICES).states, ArrayFeatures)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("features", "edge_features", "X"),
    [
        (5, None, []),
        ("w[0]", None, []),
        (["w[0]"], None, []),
        (lambda x, i: [], None, []),
        (Window(), lambda x, i: [], []),
        (None, "abc", [[{"a": 1}]]),
        (list, 5, [[{"a": 1}]]),
        (None, None, 5),
        (None, None, [5]),
        (None, None, [{"a": 1}]),
        (None, None, [[("a", 1)]]),
        (None, None, [[()]]),
    ],
)
def test_bad_choices(features: Any, edge_features: Any, X: Any) -> None:
    with pytest.raises(InputError):
        choose(features, edge_features, X)


@pytest.mark.parametrize("kind", [None, "", "template", 5])
def test_an_unknown_kind_in_a_file(kind: Any) -> None:
    with pytest.raises(InputError, match="unknown kind of features"):
        from_parts(kind, {}, {}, None)
