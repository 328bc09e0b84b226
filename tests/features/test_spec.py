"""Specs and their JSON: every mistake is an error that names it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.errors import FormatError, InputError
from trellis.features.spec import KINDS, ORIGINS, Clusters, Field, Gazetteer, Part, Spec, Template

checked = settings(max_examples=examples(100), deadline=None)
SIZED = ("prefix", "suffix", "lower_prefix", "lower_suffix", "length", "cluster_prefix")
STRINGS = st.text(max_size=4)


@st.composite
def fields(draw: st.DrawFn, gazetteers: list[Gazetteer], clusters: list[Clusters]) -> Field:
    lists = {"gazetteer": gazetteers, "cluster": clusters, "cluster_prefix": clusters}
    kind = draw(st.sampled_from([k for k in KINDS if lists.get(k, [k])]))
    column = 0 if kind in ("first", "last") else draw(st.integers(0, 5))
    size = draw(st.integers(1, 9)) if kind in SIZED else 0
    pattern = draw(st.sampled_from(["", "^a", "[0-9]+$"])) if kind in ("test", "match") else ""
    if kind in lists:
        pattern = draw(st.sampled_from(lists[kind])).name
    return Field(column, kind, size, pattern)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    phrases = st.lists(st.lists(STRINGS, min_size=1, max_size=3).map(tuple), max_size=3).map(tuple)
    names = draw(st.lists(STRINGS, unique=True, max_size=2))
    gazetteers = [Gazetteer(n, draw(phrases), draw(st.booleans())) for n in names]
    tables = draw(st.lists(STRINGS, unique=True, max_size=2))
    clusters = [
        Clusters(n, *draw(st.sampled_from([((), ()), (("a", "b"), ("0", "0"))]))) for n in tables
    ]
    made = draw(st.lists(fields(gazetteers, clusters), min_size=1, max_size=4))
    part = st.builds(
        Part, st.integers(-3, 3), st.integers(0, len(made) - 1), st.sampled_from(ORIGINS)
    )
    templates = []
    for _ in range(draw(st.integers(0, 4))):
        parts = draw(st.lists(part, max_size=3))
        literals = draw(st.lists(STRINGS, min_size=len(parts) + 1, max_size=len(parts) + 1))
        templates.append(
            Template(draw(STRINGS), tuple(parts), tuple(literals), draw(st.booleans()))
        )
    values = st.lists(STRINGS, min_size=1, max_size=3).map(tuple)
    outside = draw(st.none() | st.tuples(values, values))
    return Spec(tuple(made), tuple(templates), outside, tuple(gazetteers), tuple(clusters))


@given(specs())
@checked
def test_json_gives_the_same_spec(spec: Spec) -> None:
    again = Spec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec
    assert hash(again) == hash(spec)


def test_identical_templates_are_kept_once() -> None:
    bias, other = Template("first", (), ("b",)), Template("o", (), ("o",))
    again, edge = Template("again", (), ("b",)), Template("e", (), ("b",), edge=True)
    assert Spec((), (bias, other, again, edge)).templates == (bias, other, edge)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "stem"}, "kind is 'stem': must be one of"),
        ({"column": -1}, "column must be 0 to .*, got -1"),
        ({"column": True}, "column must be int, got True"),
        ({"column": "0"}, "column must be int, got '0'"),
        ({"kind": "prefix"}, "'prefix': size must be 1 to .*, got 0"),
        ({"kind": "suffix", "size": 2**31}, "size must be"),
        ({"column": 2**16}, "column must be 0 to 65535"),
        ({"column": 2**31 - 1}, "column must be 0 to 65535"),
        ({"kind": "lower", "size": 2}, "'lower' has no size, got 2"),
        ({"kind": "lower", "pattern": "a"}, "'lower' has no pattern, got 'a'"),
        ({"kind": "test", "pattern": "(a"}, r"pattern '\(a' is not a regular expression"),
        ({"kind": "last", "column": 1}, "reads no column, got column=1"),
    ],
)
def test_a_wrong_field_is_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Field(**arguments)


WORD = Template("w", (Part(0, 0),), ("w=", ""))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Part(0, 0, "end"), "origin must be one of .*'end'"),
        (lambda: Part(2**31, 0), "offset must be within"),
        (lambda: Template("t", (Part(0, 0),), ("t=",)), "'t' has 1 parts and 1 literals"),
        (lambda: Template("t", [], ("t=",)), r"parts must be tuple, got \[\]"),
        (lambda: Template("t", (), (1,)), "literals of template 't': item 0 must be str, got 1"),
        (lambda: Spec((), (WORD,)), "'w' refers to field 0, but there are 0 fields"),
        (lambda: Spec((Field(),), (WORD, "u")), "templates: item 1 must be Template, got 'u'"),
        (lambda: Spec((Field(),), (), (("a",),)), "outside must be None or"),
        (lambda: Spec((Field(),), (), (("a",), ())), "the values after must be"),
        (lambda: Spec((Field(),), (), (("a",), (1,))), "outside values after: item 0"),
        (lambda: Spec((Field(kind="gazetteer", pattern="x"),), ()), "refers to gazetteer 'x'"),
        (lambda: Gazetteer("g", ((),)), "gazetteer 'g' has an empty phrase"),
        (lambda: Gazetteer("g", ("ab",)), "phrases of gazetteer 'g': item 0"),
        (lambda: Spec((), (), None, (Gazetteer("g", ()),) * 2), "have the same name"),
    ],
)
def test_a_wrong_spec_is_named(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def word_json() -> dict[str, object]:
    return Spec((Field(),), (WORD,), (("a",), ("b",)), (Gazetteer("g", (("x",),)),)).to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fields": None}, "features: fields: expected a list, got None"),
        ({"fields": [3]}, r"features: fields\[0\]: expected an object, got 3"),
        ({"fields": [{"colour": 1}]}, r"fields\[0\]: unknown key 'colour'"),
        ({"fields": [{"column": 1.5}]}, r"fields\[0\]: Field: column must be int, got 1.5"),
        ({"fields": []}, "features: template 'w' refers to field 0"),
        ({"templates": [{"name": "w", "parts": []}]}, r"templates\[0\]: key 'literals' is missing"),
        (
            {"templates": [{"name": "w", "parts": [{}], "literals": []}]},
            r"parts\[0\]: key 'offset' is missing",
        ),
        ({"outside": [["a"], [["b"]]]}, "outside values after: item 0"),
        ({"outside": "ab"}, "outside must be None or"),
        ({"gazetteers": [{"name": "g", "phrases": [[[]]]}]}, r"gazetteers\[0\]: phrase"),
        ({"version": 1}, "features: unknown key 'version'"),
    ],
)
def test_wrong_json_is_named(change: dict[str, object], message: str) -> None:
    Spec.from_json(word_json())
    with pytest.raises(FormatError, match=message):
        Spec.from_json(word_json() | change)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(["fields", "templates", "outside", "gazetteers"]), JSON)
@checked
def test_any_json_is_a_spec_or_a_format_error(key: str, value: object) -> None:
    try:
        Spec.from_json(word_json() | {key: value})
    except FormatError as error:
        assert str(error).startswith("features: ")  # noqa: PT017  some values are right


def test_only_an_object_is_a_spec() -> None:
    with pytest.raises(FormatError, match=r"features: expected an object, got \[\]"):
        Spec.from_json([])
