"""The native extractor against its definition, spelled out in `reference`."""

import copy
import json
import pickle
import random
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import Token, derived, extract, extract_edges
from scale import examples

from trellis.errors import InputError
from trellis.features import Clusters, Field, Gazetteer, Part, Spec, Template
from trellis.features.extractor import TemplateFeatures, derive
from trellis.features.rows import FeatureBatch, SparseRows
from trellis.features.spec import KINDS, ORIGINS
from trellis.features.window import named, pos
from trellis.formats.strings import unpack_strings

Sequences = list[list[Token]]

# Case, digits and length that depend on more than one byte: sharp s, dotted I, a letter that is
# neither upper nor lower case, final sigma, Arabic and superscript digits, a combining accent.
ODD = ["ß", "İ", "ǅ", "ǆ", "ΑΣ", "É", "é", "e\u0301", "٣", "²", "中国", "𝔸1", "ſ", "\x00", "\u00ad"]
WORDS = [
    "",
    "a",
    "A",
    "b",
    "New",
    "York",
    "new",
    "NEW",
    "B-52",
    "1999",
    "3.5",
    "...",
    "O'Neil",
    *ODD,
]
SEPARATORS = "\ue000\ue001\ue002"  # in no token, so that the name of an attribute shows its parts

words = st.sampled_from(WORDS) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=SEPARATORS), max_size=4
)
sized = st.builds(
    Field,
    st.integers(0, 1),
    st.sampled_from(["prefix", "suffix", "lower_prefix", "lower_suffix", "length"]),
    st.integers(1, 4),
)
plain = st.builds(
    Field,
    st.integers(0, 1),
    st.sampled_from(
        ["value", "lower", "ascii_lower", "shape", "short_shape", "digits", "case", "alnum"]
    ),
)
regular = st.builds(
    Field,
    st.integers(0, 1),
    st.sampled_from(["test", "match", "ascii_lower_match"]),
    st.just(0),
    st.sampled_from(["^[A-Z]", "[0-9]+", "", r"\w.?", "É|İ", "$"]),
)
positional = st.builds(Field, st.just(0), st.sampled_from(["first", "last"]))
looked_up = st.builds(
    Field, st.integers(0, 1), st.just("gazetteer"), st.just(0), st.sampled_from(["g", "h"])
)
clustered = st.builds(Field, st.integers(0, 1), st.just("cluster"), st.just(0), st.just("c"))
clustered_prefix = st.builds(
    Field, st.integers(0, 1), st.just("cluster_prefix"), st.integers(1, 3), st.just("c")
)
tables = st.lists(st.sampled_from(WORDS), unique=True, max_size=6).map(
    lambda words: (Clusters("c", tuple(words), tuple(f"{n:03b}" for n in range(len(words)))),)
)
phrases = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(tuple), max_size=6)
gazetteers = st.tuples(
    *(st.builds(Gazetteer, st.just(n), phrases.map(tuple), st.booleans()) for n in ("g", "h"))
)


@st.composite
def templates(draw: st.DrawFn, fields: int) -> Template:
    part = st.builds(Part, st.integers(-3, 3), st.integers(0, fields - 1), st.sampled_from(ORIGINS))
    parts = tuple(draw(st.lists(part, max_size=3)))
    before, between, after = [*SEPARATORS]
    literals = [draw(st.sampled_from("UV")) + before, *[between] * (len(parts) - 1)]
    return Template("t", parts, tuple(literals + [after] * bool(parts)), draw(st.booleans()))


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    field = plain | sized | regular | positional | looked_up | clustered | clustered_prefix
    fields = tuple(draw(st.lists(field, min_size=1, max_size=5)))
    made = tuple(draw(st.lists(templates(len(fields)), max_size=6)))
    side = st.lists(words, min_size=1, max_size=3).map(tuple)
    return Spec(
        fields, made, draw(st.none() | st.tuples(side, side)), draw(gazetteers), draw(tables)
    )


def sequences(columns: int) -> st.SearchStrategy[Sequences]:
    token: st.SearchStrategy[Token] = st.tuples(*[words] * columns)
    if columns == 1:
        token = token | words
    return st.lists(st.lists(token, max_size=5), max_size=4)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Spec, Sequences, Sequences]:
    spec = draw(specs())
    return spec, draw(sequences(spec.columns)), draw(sequences(spec.columns))


def without_bigram(spec: Spec) -> Spec:
    """The label bigram itself is no attribute: a model has weights for it anyway."""
    kept = tuple(t for t in spec.templates if t.parts or not t.edge)
    return Spec(spec.fields, kept, spec.outside, spec.gazetteers, spec.clusters)


def expected(spec: Spec, X: Sequences, edge: bool = False) -> list[list[str]]:
    read = extract_edges if edge else extract
    return [names for x in X for names in read(without_bigram(spec), x)]


def spelled(rows: SparseRows, names: list[str]) -> list[list[str]]:
    return [[names[i] for i in rows.id[a:b]] for a, b in pairwise(rows.begin)]


def same(a: FeatureBatch, b: FeatureBatch) -> bool:
    pairs: list[tuple[Any, Any]] = [
        (a.lengths, b.lengths),
        (a.rows.begin, b.rows.begin),
        (a.rows.id, b.rows.id),
    ]
    assert (a.edges is None) == (b.edges is None)
    if a.edges is not None and b.edges is not None:
        pairs += [(a.edges.begin, b.edges.begin), (a.edges.id, b.edges.id)]
    return all(np.array_equal(*pair) for pair in pairs)


def rebuilt(features: TemplateFeatures, **changed: Any) -> TemplateFeatures:
    """The map after a round trip through the parts of a model file, some of them changed."""
    meta, tensors = features.to_parts()
    tensors |= changed

    def strings(name: str) -> list[str]:
        return unpack_strings(tensors[f"{name}.bytes"], tensors[f"{name}.ends"], name)

    return TemplateFeatures.from_parts(json.loads(json.dumps(meta)), tensors, strings)


@given(problems())
@settings(max_examples=examples(150), deadline=None)
@example((named(["__BOS__", "__EOS__", "w[0]"]), [[], ["a"], []], [[]]))
def test_learn_and_find_are_the_definition(problem: tuple[Spec, Sequences, Sequences]) -> None:
    spec, X, others = problem
    features = TemplateFeatures(spec)
    batch = features.learn(X)
    assert batch.lengths.tolist() == [len(x) for x in X]
    assert (batch.edges is not None) == features.has_edges
    for edge, rows in ((False, batch.rows), (True, batch.edges)):
        if rows is None:
            continue
        names = features.names(edge)
        assert len(names) == (features.edges if edge else len(features))
        assert len(set(names)) == len(names)
        assert spelled(rows, names) == expected(spec, X, edge)
        # numbered in the order of their first occurrence
        assert names == [*dict.fromkeys(n for row in expected(spec, X, edge) for n in row)]
    known_batch = features.find(others)
    for edge, rows in ((False, known_batch.rows), (True, known_batch.edges)):
        if rows is not None:
            known = features.names(edge)
            want = [[n for n in row if n in known] for row in expected(spec, others, edge)]
            assert spelled(rows, known) == want


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=examples(60), deadline=None)
def test_keep_store_and_pickle(
    problem: tuple[Spec, Sequences, Sequences], chance: random.Random
) -> None:
    spec, X, others = problem
    features = TemplateFeatures(spec)
    features.learn(X)
    ids, edge_ids = (
        [i for i in range(n) if chance.random() < 0.5] for n in (len(features), features.edges)
    )
    names, edge_names = features.names(), features.names(edge=True)
    features.keep(np.array(ids, np.int32), np.array(edge_ids, np.int32))
    assert features.names() == [names[i] for i in ids]
    assert features.names(edge=True) == [edge_names[i] for i in edge_ids]
    known = features.names()
    want = [[n for n in row if n in known] for row in expected(spec, others)]
    assert spelled(features.find(others).rows, known) == want
    for other in (
        rebuilt(features),
        pickle.loads(pickle.dumps(features)),
        copy.deepcopy(features),
    ):
        assert other.spec == spec
        assert other.names() == features.names()
        assert other.names(edge=True) == features.names(edge=True)
        assert same(other.find(X + others), features.find(X + others))
        # new attributes get the next numbers, in the copy and in the original
        assert same(other.learn(others), copy.deepcopy(features).learn(others))


@pytest.mark.parametrize(
    "kind", [k for k, kind in KINDS.items() if not (kind.positional or kind.named)]
)
def test_each_kind_on_one_and_two_code_points(kind: str) -> None:
    size = 2 if kind.endswith(("fix", "length")) else 0
    field = Field(0, kind, size, "[A-Zé]" if kind in ("test", "match", "ascii_lower_match") else "")
    features = TemplateFeatures(Spec((field,), (Template("t", (Part(0, 0),), ("", "")),)))
    points = [
        *map(chr, range(0x590)),
        *(chr(c) for c in range(0x590, 0x30000, 97) if not 0xD800 <= c < 0xE000),
    ]
    values = [*points, *(a + b for a in "aA1.é" for b in points[:300]), ""]
    got = spelled(features.learn([values]).rows, features.names())
    assert got == [[] if (v := derived(field, value)) is None else [v] for value in values]


@given(plain | sized | regular, words)
@settings(max_examples=examples(100), deadline=None)
def test_derive_is_the_same_function_in_python(field: Field, value: str) -> None:
    assert derive(field, value) == derived(field, value)


@pytest.fixture(scope="module")
def text() -> Sequences:
    """Enough positions for several threads, in sequences of very different lengths."""
    chance = random.Random(1)
    lengths = [1, 2000, 0, 3, *(chance.randrange(60) for _ in range(150))]
    return [
        [chance.choice(WORDS) + chance.choice(["", "s", "É"]) for _ in range(n)] for n in lengths
    ]


def test_long_text_is_the_definition_for_any_number_of_threads(text: Sequences) -> None:
    features = TemplateFeatures(pos())
    learned = features.learn(text)
    one = features.find(text)
    assert same(learned, one)
    assert spelled(one.rows, features.names()) == expected(pos(), text)
    for threads in (2, 3, 100):
        assert same(features.find(text, threads), one)
    edges = TemplateFeatures(named(["w[0]"], edges=["shape[0]", "w[-1]|case[0]"]))
    edges.learn(text[:20])
    few = edges.find(text)
    assert few.edges is not None
    assert all(same(edges.find(text, threads), few) for threads in (2, 3))


def test_many_python_threads_at_once(text: Sequences) -> None:
    features = TemplateFeatures(pos())
    features.learn(text[::2])
    one = features.find(text)
    with ThreadPoolExecutor(4) as pool:
        assert all(same(b, one) for b in pool.map(lambda n: features.find(text, n), [1, 2, 3] * 3))


def test_overlapping_phrases_from_left_to_right_the_longest_wins() -> None:
    cities = Gazetteer(
        "city", (("new",), ("new", "york"), ("york", "city"), ("York", "City", "Hall"))
    )
    features = TemplateFeatures(named(["city[0]"], gazetteers=[cities]))
    batch = features.learn([["NEW", "york", "City", "hall", "York", "city", "hall", "new", "york"]])
    marks = [row[0][-1] if row else "-" for row in spelled(batch.rows, features.names())]
    assert "".join(marks) == "BI--BIIBI"


def test_templates_with_the_same_text_share_attributes() -> None:
    """The bag of words of CRF++: one attribute for a word, wherever in the window it is."""
    bag = tuple(Template(f"U{k}", (Part(k, 0),), ("w:", "")) for k in (-1, 0, 1))
    features = TemplateFeatures(Spec((Field(),), bag))
    batch = features.learn([["a", "b", "a"]])
    assert features.names() == ["w:a", "w:b"]
    assert spelled(batch.rows, features.names()) == [
        ["w:a", "w:b"],
        ["w:a", "w:b", "w:a"],
        ["w:b", "w:a"],
    ]


def test_edge_and_state_templates_with_the_same_text_differ() -> None:
    features = TemplateFeatures(named(["w[0]"], edges=["w[0]"]))
    batch = features.learn([["a", "b"], ["c"]])
    assert (features.names(), features.names(edge=True)) == (
        ["w[0]=a", "w[0]=b", "w[0]=c"],
        ["w[0]=b"],
    )
    assert batch.edges is not None
    assert batch.edges.begin.tolist() == [0, 0, 1, 1]


def test_empty_input() -> None:
    features = TemplateFeatures(Spec((), ()))
    batch = features.learn([["a"], ["b", "c"]])
    assert (len(features), batch.rows.begin.tolist()) == (0, [0, 0, 0, 0])
    assert len(TemplateFeatures(pos()).learn([]).rows) == 0
    assert len(TemplateFeatures(pos()).find([["a", "b"]]).rows) == 2


ONE = named(["w[0]"])
TWO = named(["w[0]", "pos[0]"], columns=["pos"])


@pytest.mark.parametrize(
    ("spec", "token", "message"),
    [
        (ONE, 7, "must be a str or a tuple of str, not int"),
        (ONE, None, "not NoneType"),
        (ONE, b"a", "not bytes"),
        (ONE, ["a"], "not list"),
        (ONE, {"w": "a"}, "not dict"),
        (ONE, (), "need 1 columns, this token has 0"),
        (ONE, (1,), "column 0 must be a str, not int"),
        (ONE, "\ud800", "surrogates"),
        (TWO, "a", "need 2 columns, this token has 1"),
        (TWO, ("a",), "need 2 columns, this token has 1"),
        (TWO, ("a", None), "column 1 must be a str, not NoneType"),
        (TWO, (b"a", "b"), "column 0 must be a str, not bytes"),
        (TWO, ("a", "x\udfff"), "column 1"),
    ],
)
@pytest.mark.parametrize("method", ["learn", "find"])
def test_a_bad_token_is_named(spec: Spec, token: Any, message: str, method: str) -> None:
    good: Token = ("a", "b")
    features = TemplateFeatures(spec)
    with pytest.raises(InputError, match=f"^sequence 1, position 2: .*{re.escape(message)}"):
        getattr(features, method)([[good], [good, good, token]])
    assert len(features) == 0  # an error leaves no partly learned attributes
    features.learn([[good]])
    assert features.names() == [n for row in expected(spec, [[good]]) for n in row]


@pytest.mark.parametrize("X", [None, 5, "ab", {"a": 1}, iter([["a"]]), np.array([["a"]])])
@pytest.mark.parametrize("method", ["learn", "find"])
def test_sequences_must_be_a_list(X: Any, method: str) -> None:
    with pytest.raises(InputError, match="X must be a list of sequences"):
        getattr(TemplateFeatures(ONE), method)(X)


@pytest.mark.parametrize("x", [None, 5, "ab", {"a"}, iter(["a"])])
def test_a_sequence_must_be_a_list(x: Any) -> None:
    with pytest.raises(InputError, match=f"sequence 1 must be a list.*{type(x).__name__}"):
        TemplateFeatures(ONE).learn([["a"], x])


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_must_be_positive(threads: int) -> None:
    with pytest.raises(InputError, match="threads"):
        TemplateFeatures(ONE).find([["a"]], threads)


def test_an_interrupt_while_learning_leaves_no_token_without_its_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(field: Field, value: str) -> str:
        raise KeyboardInterrupt

    features = TemplateFeatures(named(["lower[0]"]))
    with monkeypatch.context() as patch:
        patch.setattr("trellis.features.extractor.derive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            features.learn([["É"]])
    batch = features.learn([["Ê", "É", "È"]])
    assert spelled(batch.rows, features.names()) == expected(features.spec, [["Ê", "É", "È"]])


def uint32(*numbers: int) -> Any:
    return np.array(numbers, np.uint32)


def repeated_word(features: TemplateFeatures) -> dict[str, Any]:
    _, tensors = features.to_parts()
    data, ends = tensors["words.bytes"], tensors["words.ends"]
    return {
        "words.bytes": np.concatenate([data, data]),
        "words.ends": np.concatenate([ends, ends[1:] + ends[-1]]),
    }


def fewer_values(features: TemplateFeatures) -> dict[str, Any]:
    _, tensors = features.to_parts()
    return {"values.bytes": tensors["values.bytes"][:0], "values.ends": tensors["values.ends"][:1]}


NONE = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: {"keys": uint32(0)}, "size"),
        (lambda f: {"keys": uint32(0, 999, NONE)}, "a value is out of range"),
        (lambda f: {"keys": uint32(9, 0, NONE)}, "template index is out of range"),
        (lambda f: {"edge_keys": uint32(NONE, 0, NONE)}, "template index is out of range"),
        (lambda f: {"keys": uint32(0, 0, NONE, 0, 0, NONE)}, "repeated"),
        (lambda f: {"keys": uint32(0, NONE, NONE)}, "keys"),  # the template has one part
        (lambda f: {"keys": uint32(0, 0, 0)}, "keys"),
        (lambda f: {"keys": uint32(1, NONE, 0)}, "keys"),
        (repeated_word, "repeated"),
        (fewer_values, "keys|values"),
    ],
)
def test_parts_of_a_damaged_file(change: Callable[[Any], dict[str, Any]], message: str) -> None:
    features = TemplateFeatures(named(["w[0]", "w[-1]|w[0]"], edges=["w[0]"]))
    features.learn([["a", "b"]])
    with pytest.raises(InputError, match=message):
        rebuilt(features, **change(features))
