"""Template files of CRF++ and Wapiti give the same attributes as those programs."""

import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from corpus_files import find_corpus, needs_corpus
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import extract, extract_edges
from scale import examples

from trellis.errors import FormatError, InputError
from trellis.features import templates, wapiti
from trellis.features.spec import Field, Part, Spec, Template, ascii_lower
from trellis.inference import chain

MODELS = find_corpus("models")
needs_data = needs_corpus("models")
checked = settings(max_examples=examples(100), deadline=None)
SENTENCE = [("He", "PRP"), ("saw", "VBD"), ("Paris", "NNP")]


def training_sentences() -> list[list[tuple[str, ...]]]:
    text = (MODELS / "crfpp" / "chunk100.train.conll").read_text(encoding="utf-8")
    return [
        [tuple(line.split("\t")[:-1]) for line in block.split("\n")]
        for block in text.strip("\n").split("\n\n")
    ]


# --- CRF++


def test_a_template_file_gives_names_as_crfpp_writes_them() -> None:
    spec = templates.parse(
        "# comment\n\nU00:%x[-2,0]\nU01:%x[0,0]/%x[1,1]!\nUbias\nB\nB01:%x[-1,1]>%x[0,1]\n"
    )
    assert [t.name for t in spec.templates] == ["U00", "U01", "Ubias", "B", "B01"]
    assert extract(spec, SENTENCE) == [
        ["U00:_B-2", "U01:He/VBD!", "Ubias"],
        ["U00:_B-1", "U01:saw/NNP!", "Ubias"],
        ["U00:He", "U01:Paris/_B+1!", "Ubias"],
    ]
    assert extract_edges(spec, SENTENCE) == [[], ["B", "B01:PRP>VBD"], ["B", "B01:VBD>NNP"]]
    assert spec.columns == 2


def test_every_distance_outside_has_a_distinct_value() -> None:
    spec = templates.parse("U0:%x[-9,0]\nU1:%x[6,0]")
    assert extract(spec, ["a"]) == [["U0:_B-9", "U1:_B+6"]]


def test_lines_without_a_colon_give_a_bag_of_words() -> None:
    spec = templates.parse("U%x[-1,0]\nU%x[1,0]")
    assert extract(spec, ["a", "b", "a"])[1] == ["Ua", "Ua"]


def test_windows_line_ends_and_a_path(tmp_path: Path) -> None:
    file = tmp_path / "template"
    file.write_bytes(b"U00:%x[0,0]\r\n\r\nB\r\n")
    assert templates.parse(file) == templates.parse("U00:%x[0,0]\nB")


@needs_data
def test_crfpp_has_the_same_feature_strings_in_its_model() -> None:
    folder = MODELS / "crfpp"
    spec = templates.parse(folder / "chunk100.template")
    counts: Counter[str] = Counter()
    for sentence in training_sentences():
        for row in extract(spec, sentence) + extract_edges(spec, sentence):
            counts.update(row)
    blocks = gzip.decompress((folder / "chunk100.model.txt.gz").read_bytes()).decode().split("\n\n")
    expected = {line.split(" ", 1)[1] for line in blocks[3].split("\n")}
    assert len(expected) > 4000
    assert {name for name, n in counts.items() if n >= 2} == expected  # trained with -f 2
    assert templates.render(spec) == blocks[2] + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("U0:%x[0,0]\nX1:%x[0,0]", r"template, line 2: .* start with U or B, got 'X1:%x\[0,0\]'"),
        ("U0:%x[0]", r"template, line 1: expected %x\[row,column\] at '%x\[0\]'"),
        ("U0:%x[0,-1]", r"line 1: expected .* at '%x\[0,-1\]'"),
        ("U0:%x[a,0]/b", r"line 1: expected .* at '%x\[a,0\]/b'"),
        ("U0:%m[0,0]", r"expected .* at '%m"),
        ("U0:100%", r"expected .* at '%'"),
        ("U0:%x[0,0]%x[", r"expected .* at '%x\['"),
        ("U0:%x[1001,0]", r"line 1: row 1001 is out of range"),
        ("U0:%x[-99999999999,0]", r"line 1: expected"),
        (" U0:%x[0,0]", r"start with U or B"),
    ],
)
def test_a_wrong_template_file_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        templates.parse(text)


@pytest.mark.parametrize("parse", [templates.parse, wapiti.parse])
def test_a_file_that_is_not_utf8(tmp_path: Path, parse: object) -> None:
    file = tmp_path / "latin1.txt"
    file.write_bytes("U:été".encode("latin-1"))
    with pytest.raises(FormatError, match=r"latin1.txt: not UTF-8"):
        parse(file)


LITERALS = st.text(
    st.characters(exclude_characters="%\r\n", exclude_categories=("Cs",)), max_size=5
)


@st.composite
def template_lines(draw: st.DrawFn) -> str:
    line = draw(st.sampled_from("UB")) + draw(LITERALS)
    for _ in range(draw(st.integers(0, 3))):
        line += f"%x[{draw(st.integers(-5, 5))},{draw(st.integers(0, 3))}]" + draw(LITERALS)
    return line


@given(st.lists(template_lines(), unique=True, max_size=6))
@checked
def test_render_inverts_parse(lines: list[str]) -> None:
    text = "".join(line + "\n" for line in lines)
    assert templates.render(templates.parse(text)) == text


@given(st.text(st.sampled_from('UB%x[]-,01 :#\n\rb*tm"\\'), max_size=40))
@checked
@pytest.mark.parametrize("parse", [templates.parse, wapiti.parse])
def test_any_text_is_a_spec_or_a_format_error(parse: object, text: str) -> None:
    try:
        spec = parse(text)
    except FormatError as error:
        assert "line " in str(error)  # noqa: PT017  most texts are wrong, some are not
    else:
        assert isinstance(spec, Spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (Spec((Field(kind="shape"),), (Template("t", (Part(0, 0),), ("U", "")),)), "kind 'shape'"),
        (Spec((Field(),), (Template("t", (Part(0, 0, "last"),), ("U", "")),)), "absolute"),
        (Spec((), (Template("t", (), ("bias",)),)), "literals"),
        (Spec((), (Template("t", (), ("U",), edge=True),)), "literals"),
        (Spec((), (Template("t", (), ("U%",)),)), "literals"),
        (Spec((), (Template("t", (), ("U",)),)), "outside of a sequence are None"),
    ],
)
def test_render_rejects_what_crfpp_cannot_express(spec: Spec, message: str) -> None:
    with pytest.raises(InputError, match=message):
        templates.render(spec)


# --- Wapiti


def test_a_pattern_file_gives_names_as_wapiti_writes_them() -> None:
    spec = wapiti.parse(
        "U:%x[ 0,0]/%X[-1,0]  # a comment\n"
        "*\n"
        'b:%t[0,0,"\\u"]:%m[+1,1,"^.?.?"]\n'
        'u:%M[@-1,0,"^\\u"]%x[@1,1]%x[@0,0]%x[@4,0]%X[-7,0]'
    )
    assert extract(spec, SENTENCE)[1] == ["u:saw/he", "*", "u:pPRP_x-1_x+1_x-#"]
    assert extract_edges(spec, SENTENCE) == [[], ["*", "b:false:NN"], ["*", "b:true:_x"]]
    assert extract(spec, SENTENCE)[2][0] == "u:Paris/saw"


def test_upper_case_commands_lower_only_ascii() -> None:
    assert extract(wapiti.parse("u:%X[0,0]"), ["ÉCOLE"]) == [["u:École"]]
    assert ascii_lower("NOËL") == "noËl"


@needs_data
def test_wapiti_has_no_other_observations_in_its_model() -> None:
    spec = wapiti.parse(MODELS / "wapiti" / "chunk100.pattern")
    names = {n for s in training_sentences() for row in extract(spec, s) for n in row}
    _, observations, _ = wapiti_model()
    assert len(observations) == 2013
    assert {*observations} <= names  # trained with -c: observations without weights were dropped


@needs_data
def test_wapiti_computes_the_same_marginals() -> None:
    spec = wapiti.parse(MODELS / "wapiti" / "chunk100.pattern")
    labels, observations, weights = wapiti_model()
    n, at = len(labels), 0
    unary, edge = defaultdict(lambda: np.zeros(n)), defaultdict(lambda: np.zeros((n, n)))
    for name in observations:  # the weights of labels, then of pairs of labels
        if name[0] in "u*":
            unary[name], at = weights[at : at + n], at + n
        if name[0] in "b*":
            edge[name], at = weights[at : at + n * n].reshape(n, n), at + n * n
    expected = (MODELS / "wapiti" / "chunk100.expected.txt").read_text(encoding="utf-8")
    for block in expected.strip().split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n")[1:]]
        sentence = [tuple(row[:2]) for row in rows]
        scores = np.array([sum(unary[a] for a in names) for names in extract(spec, sentence)])
        edges = [sum(edge[a] for a in names) for names in extract_edges(spec, sentence)[1:]]
        ours = chain.marginals(scores, np.array(edges)).unary
        for p, row in zip(ours, rows, strict=True):
            label, _, value = row[-1].rpartition("/")
            assert p[labels.index(label)] == pytest.approx(float(value), abs=1e-6)


def wapiti_model() -> tuple[list[str], list[str], np.ndarray]:
    """Labels, observations and weights of a text model."""
    text = (MODELS / "wapiti" / "chunk100.model").read_text(encoding="utf-8")
    blocks = [block.split("\n") for block in text.split("#qrk#")[1:]]
    labels, observations = (
        [line.split(":", 1)[1][:-1] for line in block[1 : int(block[0]) + 1]] for block in blocks
    )
    weights = np.zeros(len(observations) * len(labels) * (len(labels) + 1))
    for line in blocks[1][len(observations) + 1 :]:
        if line:
            index, _, value = line.partition("=")
            weights[int(index)] = float.fromhex(value)
    return labels, observations, weights


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("u:a\nx:%x[0,0]", r"pattern, line 2: .* start with u, b or \*, got 'x:%x\[0,0\]'"),
        ("u:%y[0,0]", r"line 1: expected .* at '%y\[0,0\]'"),
        ("u:%x[*1,0]", r"line 1: expected .* at '%x\[\*1,0\]'"),
        ("u:%x[0,-1]", r"expected .* at"),
        ('u:%x[0,0,"a"]', r"line 1: %x takes no regular expression"),
        ("u:%m[0,0]", r"line 1: %m takes a regular expression"),
        ('u:%t[0,0,"a]', r"expected .* at"),
        ('u:%t[0,0,"a**"]', r"line 1: 'a\*\*' is not a regular expression of Wapiti"),
        ('u:%t[0,0,"*"]', r"not a regular expression of Wapiti"),
        ('u:%t[0,0,"^?"]', r"not a regular expression of Wapiti"),
    ],
)
def test_a_wrong_pattern_file_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        wapiti.parse(text)


def test_a_single_backslash_is_an_error() -> None:
    with pytest.raises(FormatError, match="not a regular expression of Wapiti"):
        wapiti.regex("a\\")


# A character of an expression, what it stands for in the alphabet below, and how often.
ALPHABET = "aB7-é. "
CHARACTERS = {
    ".": ALPHABET,
    "a": "a",
    "\\.": ".",
    "\\-": "-",
    "\\a": "aB",
    "\\A": "7-é. ",
    "\\d": "7",
    "\\l": "a",
    "\\L": "B7-é. ",
    "\\u": "B",
    "\\p": "-.",
    "\\P": "aB7é ",
    "\\s": " ",
    "\\w": "aB7",
    "\\W": "-é. ",
    "^": "",
    "$": "",
}
ITEMS = st.lists(st.tuples(st.sampled_from([*CHARACTERS][:-2]), st.sampled_from(["", "*", "?"])))


def ends(items: list[tuple[str, str]], text: str, at: int) -> Iterator[int]:
    """Where matches at a position may end, those that Wapiti prefers first."""
    if not items:
        yield at
        return
    (character, times), rest = items[0], items[1:]
    one = at < len(text) and text[at] in CHARACTERS[character]
    if times == "*":  # none, or one and then any number again
        yield from ends(rest, text, at)
        if one:
            yield from ends(items, text, at + 1)
    elif times == "?":
        if one:
            yield from ends(rest, text, at + 1)
        yield from ends(rest, text, at)
    elif one:
        yield from ends(rest, text, at + 1)


@given(
    ITEMS.filter(lambda x: len(x) < 6), st.text(ALPHABET, max_size=6), st.booleans(), st.booleans()
)
@example([("$", ""), ("^", "")], "a", False, False)
@checked
def test_expressions_match_as_wapiti_matches(
    items: list[tuple[str, str]], text: str, first: bool, last: bool
) -> None:
    pattern = "^" * first + "".join(c + times for c, times in items) + "$" * last
    starts = [0] if first else range(len(text) + 1)
    matches = ((s, e) for s in starts for e in ends(items, text, s) if not last or e == len(text))
    match = next(matches, None)
    expected = "" if match is None else text[slice(*match)]
    regex = wapiti.regex(pattern)
    assert Field(kind="match", pattern=regex).match(text) == expected
    assert Field(kind="test", pattern=regex).match(text) == str(match is not None).lower()
