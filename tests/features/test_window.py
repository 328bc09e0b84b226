"""Built-in windows: names of templates, and attributes against the reference."""

import gzip
from collections.abc import Callable
from itertools import pairwise

import pytest
from corpus_files import find_corpus, needs_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import derived, extract, extract_edges
from scale import examples

from trellis.errors import InputError
from trellis.features import Field, Gazetteer, Part, Spec, Template
from trellis.features.window import Window, chunking, chunking_rich, default_spec, named, ner, pos

CORPUS = "chunking/conll2000.train.conll.gz"
SENTENCE = [("He", "PRP"), ("saw", "VBD"), ("New", "NNP"), ("York", "NNP")]


def one(kind: str, value: str, size: int = 0) -> str | None:
    """The attribute of a single field, by way of the extractor."""
    spec = Spec((Field(0, kind, size),), (Template("t", (Part(0, 0),), ("", "")),))
    rows = extract(spec, [value])
    return rows[0][0] if rows[0] else None


@pytest.mark.parametrize(
    ("kind", "size", "expected"),
    [
        ("value", 0, {"Éa": "Éa", "": ""}),
        ("lower", 0, {"ÉCOLE": "école", "ΣΑΣ": "σας", "İ": "i̇"}),
        ("ascii_lower", 0, {"ÉCOLE": "École"}),
        ("shape", 0, {"McDonald's": "XxXxxxxx'x", "B-52": "X-dd", "été": "xxx", "中国": "中国"}),
        ("short_shape", 0, {"McDonald's": "XxXx'x", "...": ".", "1999": "d", "aa11": "xd"}),
        ("prefix", 3, {"Paris": "Par", "abc": "abc", "ab": None, "été!": "été"}),
        ("suffix", 3, {"Paris": "ris", "abc": "abc", "ab": None, "": None}),
        ("lower_prefix", 2, {"PARIS": "pa", "İ": "i̇", "P": None}),
        ("lower_suffix", 2, {"PARIS": "is", "É": None}),
        ("digits", 0, {"123": "all", "٣": "all", "B-52": "some", "abc": None, "": None, "²": None}),
        (
            "case",
            0,
            {"IBM": "upper", "U.S.": "upper", "A": "upper", "it's": "lower", "Paris": "title"}
            | {
                "d'Artagnan": "mixed",
                "O'Neil": "mixed",
                "(Paris)": "title",
                "12": None,
                "中": None,
            },
        ),
        (
            "alnum",
            0,
            {"été": "alpha", "中": "alpha", "12": "digit", "B52": "alnum", "--": "punct"}
            | {"3.5": "other", "U.S.": "other", "": None},
        ),
        ("length", 4, {"": "0", "abc": "3", "abcd": "4", "abcdef": "4"}),
        ("first", 0, {"a": ""}),
        ("last", 0, {"a": ""}),
    ],
)
def test_each_kind_of_field(kind: str, size: int, expected: dict[str, str | None]) -> None:
    assert {value: one(kind, value, size) for value in expected} == expected


@given(st.text(max_size=8))
@settings(max_examples=examples(100), deadline=None)
def test_kinds_agree_with_each_other(value: str) -> None:
    shape = derived(Field(kind="shape"), value)
    assert shape is not None
    assert len(shape) == len(value)
    short = derived(Field(kind="short_shape"), value)
    assert all(a != b for a, b in pairwise(short))
    assert (derived(Field(kind="digits"), value) is None) == (not any(map(str.isdecimal, value)))
    assert (derived(Field(kind="case"), value) is None) == ("X" not in shape and "x" not in shape)
    assert derived(Field(kind="prefix", size=9), value) is None
    for size in range(1, len(value) + 1):
        both = [derived(Field(kind=k, size=size), value) for k in ("prefix", "suffix")]
        assert both == [value[:size], value[len(value) - size :]]


def test_no_attributes_outside_and_flags_at_the_ends() -> None:
    spec = named(["bias", "__BOS__", "__EOS__", "w[-1]|w[0]", "w[1]"])
    assert extract(spec, ["a", "b"]) == [
        ["bias", "__BOS__", "w[1]=b"],
        ["bias", "__EOS__", "w[-1]|w[0]=a|b"],
    ]
    assert extract(spec, ["a"]) == [["bias", "__BOS__", "__EOS__"]]
    assert extract(spec, []) == []


def test_columns_kinds_of_columns_and_edges() -> None:
    spec = named(["pos[-1]|w[0]", "pos.prefix1[0]"], columns=["pos"], edges=["pos[-1]|pos[0]"])
    assert extract(spec, SENTENCE)[:2] == [
        ["pos.prefix1[0]=P"],
        ["pos[-1]|w[0]=PRP|saw", "pos.prefix1[0]=V"],
    ]
    assert extract_edges(spec, SENTENCE)[:2] == [[], ["pos[-1]|pos[0]=PRP|VBD"]]


def test_the_longest_phrase_from_the_left_is_marked() -> None:
    cities = Gazetteer("city", (("New", "York"), ("york", "city", "hall"), ("new", "york", "city")))
    text = ["york", "New", "YORK", "new", "york", "city", "hall"]
    rows = extract(named(["city[0]"], gazetteers=[cities]), text)
    assert ["".join(row).removeprefix("city[0]=") for row in rows] == ["", *"BIBII", ""]


def test_a_gazetteer_with_case_and_another_column() -> None:
    exact = Gazetteer("noun", (("NNP", "NNP"), ("nnp",)), lower=False)
    spec = Spec(
        (Field(1, "gazetteer", pattern="noun"),),
        (Template("n", (Part(0, 0),), ("n=", "")), Template("m", (Part(1, 0),), ("m=", ""))),
        outside=(("NNP",), ("NNP",)),
        gazetteers=(exact,),
    )
    # the marks are those inside the sequence: outside there is no value
    assert extract(spec, SENTENCE) == [[], ["m=B"], ["n=B", "m=I"], ["n=I"]]


def test_chunking_has_the_names_of_crfsuite() -> None:
    rows = extract(chunking(), SENTENCE[:3])
    assert set(rows[0]) == {
        "__BOS__",
        *("w[0]=He", "w[1]=saw", "w[2]=New", "w[0]|w[1]=He|saw"),
        *("pos[0]=PRP", "pos[1]=VBD", "pos[2]=NNP", "pos[0]|pos[1]=PRP|VBD"),
        *("pos[1]|pos[2]=VBD|NNP", "pos[0]|pos[1]|pos[2]=PRP|VBD|NNP"),
    }
    assert "__EOS__" in rows[2]
    assert len(chunking().templates) == 21
    assert chunking().columns == 2


def test_rich_chunking_joins_words_with_the_tags_beside_them() -> None:
    plain, rich = extract(chunking(), SENTENCE), extract(chunking_rich(), SENTENCE)
    assert all(set(row) < set(more) for row, more in zip(plain, rich, strict=True))
    assert {*rich[1]} - {*plain[1]} == {
        *("bias", "w[-1]|w[1]=He|New", "w[0]|pos[0]=saw|VBD"),
        *("pos[-1]|w[0]=PRP|saw", "w[-1]|pos[0]=He|VBD"),
        *("w[0]|pos[1]=saw|NNP", "pos[0]|w[1]=VBD|New"),
    }


@pytest.mark.slow
@needs_corpus(CORPUS)
def test_chunking_counts_what_crfsuite_counts() -> None:
    text = gzip.decompress(find_corpus(CORPUS).read_bytes()).decode()
    spec, names, occurrences = chunking(), set(), 0
    for block in text.strip("\n").split("\n\n"):
        sentence = [tuple(line.split("\t")[:2]) for line in block.split("\n")]
        for row in extract(spec, sentence):
            names.update(row)
            occurrences += len(row)
    assert (len(names), occurrences) == (335_674, 3_808_439)


@pytest.mark.parametrize(
    "make", [chunking, chunking_rich, ner, pos, lambda: ner(["pos"], {"city": ["Paris"]})]
)
def test_templates_of_a_preset_have_distinct_names(make: object) -> None:
    spec = make()
    names = [t.name for t in spec.templates]
    assert len(set(names)) == len(names)
    assert all(t.literals[0].rstrip("=") == t.name for t in spec.templates)
    assert Spec.from_json(spec.to_json()) == spec


def ngrams(kind: str, n: int, first: int, last: int) -> set[str]:
    """Return the names of n neighbours whose positions lie between ``first`` and ``last``."""
    return {
        "|".join(f"{kind}[{i}]" for i in range(start, start + n))
        for start in range(first, last - n + 2)
    }


ENDS = {"bias", "__BOS__", "__EOS__"}
PRESETS = {
    "ner": {
        *ENDS,
        *("w[0]", "shape[0]", "digits[0]"),
        *ngrams("lower", 1, -4, 4),
        *ngrams("lower", 2, -2, 2),
        *ngrams("short_shape", 1, -3, 3),
        *ngrams("short_shape", 2, -1, 1),
        *ngrams("short_shape", 3, -1, 1),
        *ngrams("case", 1, -1, 1),
        *(f"lower_{affix}{n}[0]" for affix in ("prefix", "suffix") for n in range(1, 6)),
        *(f"lower_{affix}3[{i}]" for affix in ("prefix", "suffix") for i in (-1, 1)),
        *("lower[-1]|short_shape[0]", "short_shape[0]|lower[1]"),
    },
    "pos": {
        *ENDS,
        *("w[0]", "shape[0]", "digits[0]", "case[0]"),
        *ngrams("lower", 1, -2, 2),
        *ngrams("lower", 2, -1, 1),
        *ngrams("short_shape", 1, -1, 1),
        *(f"lower_prefix{n}[0]" for n in range(1, 5)),
        *(f"lower_suffix{n}[0]" for n in range(1, 6)),
        *("lower_suffix3[-1]", "lower_suffix3[1]", "lower_suffix3[-1]|lower_suffix3[0]"),
    },
    "auto": {
        *ENDS,
        *ngrams("w", 1, -2, 2),
        *ngrams("w", 2, -1, 1),
        *("lower[0]", "digits[0]"),
        *ngrams("shape", 1, -1, 1),
        *ngrams("case", 1, -1, 1),
        *(f"{affix}{n}[0]" for affix in ("prefix", "suffix") for n in range(1, 5)),
    },
}
COLUMN = {*ngrams("c1", 1, -2, 2), *ngrams("c1", 2, -2, 2)}


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (ner, PRESETS["ner"]),
        (lambda: ner(["c1"]), PRESETS["ner"] | COLUMN | ngrams("c1", 3, -1, 1)),
        (lambda: ner((), {"city": ["Rome"]}), PRESETS["ner"] | ngrams("city", 1, -1, 1)),
        (pos, PRESETS["pos"]),
        (lambda: default_spec("word"), PRESETS["auto"]),
        (lambda: default_spec(("word", "NN")), PRESETS["auto"] | COLUMN | ngrams("c1", 3, -2, 2)),
    ],
)
def test_the_templates_of_the_presets(make: Callable[[], Spec], names: set[str]) -> None:
    assert {template.name for template in make().templates} == names


def test_every_setting_of_a_window_changes_its_templates() -> None:
    changed = {
        "words": None,
        "lower": 2,
        "shape": None,
        "short_shape": 0,
        "digits": None,
        "case": 0,
        "alnum": 0,
        "prefixes": (),
        "suffixes": (7,),
        "affixes": 1,
        "lower_affixes": True,
        "bigrams": 2,
        "trigrams": 1,
        "position": False,
        "bias": False,
        "columns": ("pos", "x"),
        "column_window": 0,
        "column_bigrams": None,
        "column_trigrams": 1,
        "gazetteers": {"city": ["Rome"]},
        "gazetteer_window": 0,
        "clusters": {"topic": {"Rome": "7"}},
        "cluster_window": 0,
        "cluster_prefixes": (3,),
        "extra": ("w[0]|w[2]",),
        "edges": ("w[0]",),
    }
    assert changed.keys() == Window.__dataclass_fields__.keys()
    base = {"columns": ("pos",), "gazetteers": {"river": ["Po"]}}
    base["clusters"] = {"brown": {"Po": "0110"}}
    for setting, value in changed.items():
        assert Window(**base | {setting: value}).spec() != Window(**base).spec(), setting


def test_n_grams_stay_within_their_radius() -> None:
    off = dict.fromkeys(["lower", "shape", "digits", "case", "affixes", "words"])
    window = Window(**off, bigrams=2, trigrams=1, position=False, bias=False)
    assert [*window.names()] == [
        *("w[-2]|w[-1]", "w[-1]|w[0]", "w[0]|w[1]", "w[1]|w[2]"),
        "w[-1]|w[0]|w[1]",
    ]


def test_the_default_follows_the_first_token() -> None:
    assert default_spec("word") == Window().spec()
    assert default_spec(("word", "NN")) == Window(columns=("c1",)).spec()
    for wrong in ((), ("a", 1), 3, None):
        with pytest.raises(InputError, match="a token must be"):
            default_spec(wrong)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: named(["w"]), r"'w': expected field\[offset\], got 'w'"),
        (lambda: named(["w[0]|"]), r"expected field\[offset\], got ''"),
        (lambda: named(["w[a]"]), r"expected field\[offset\], got 'w\[a\]'"),
        (lambda: named(["stem[0]"]), r"'stem\[0\]': field 'stem' is unknown: must be one of w"),
        (
            lambda: named(["tag.lower[0]"], ["pos"]),
            "field 'tag.lower' is unknown: must be one of w, pos",
        ),
        (lambda: named(["test[0]"]), "field 'test' is unknown"),
        (lambda: named(["suffix[0]"]), "'suffix': size must be 1"),
        (lambda: named(["w[0]"], columns="pos"), "columns must be a list of names"),
        (lambda: named(["w[0]"], columns=["w"]), "distinct names"),
        (lambda: named(["w[0]"], columns=["suffix3"]), "distinct names"),
        (lambda: named(["w[0]"], ["a"], [Gazetteer("a", ())]), "distinct names"),
        (lambda: named(["a.lower[0]"], (), [Gazetteer("a", ())]), "field 'a.lower' is unknown"),
        (lambda: Window(words=-1), "words must be None or an integer of at least 0, got -1"),
        (lambda: Window(case=True), "case must be None or an integer of at least 0, got True"),
        (lambda: Window(shape="1"), "shape must be None or an integer of at least 0, got '1'"),
        (lambda: Window(prefixes=(0,)).spec(), "'prefix': size must be 1"),
        (lambda: Window(gazetteers={"g": "Paris"}).spec(), "'g' must be a list of phrases"),
        (lambda: Window(gazetteers={"g": [" "]}).spec(), "gazetteer 'g' has an empty phrase"),
    ],
)
def test_a_wrong_window_is_named(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
