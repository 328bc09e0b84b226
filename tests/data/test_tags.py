"""Spans in tags: against seqeval, conversion between all schemes, well-formed tags."""

from __future__ import annotations

import gzip
from itertools import product
from typing import Any

import numpy as np
import pytest
from corpus_files import find_corpus, needs_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis.data import tags
from trellis.data.tags import SCHEMES, Span
from trellis.errors import InputError

LABELS = ["X", "Y", "creative-work", ""]
PREFIXES = {
    "IOB1": "BI",
    "BIO": "BI",
    "IOE1": "IE",
    "IOE2": "IE",
    "BIOES": "BIES",
    "BILOU": "BILU",
}
PREFIXED = list(PREFIXES)

normally = settings(max_examples=examples(50), deadline=None)
often = settings(normally, max_examples=examples(150))
every_scheme = pytest.mark.parametrize("scheme", SCHEMES)
every_prefixed = pytest.mark.parametrize("scheme", PREFIXED)


def alphabet(letters: str) -> list[str]:
    return ["O", *(f"{p}-{x}" if x else p for p, x in product(letters, LABELS))]


def tags_of(scheme: str) -> list[str]:
    return ["O", *LABELS[:-1]] if scheme == "plain" else alphabet(PREFIXES[scheme])


def sequences(letters: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(alphabet(letters)), max_size=10)


@st.composite
def some_spans(draw: st.DrawFn, touching: bool = True) -> tuple[list[Span], int]:
    """Spans with gaps of any length between them, and the length of the sequence."""
    spans: list[Span] = []
    position = draw(st.integers(0, 2))
    for _ in range(draw(st.integers(0, 5))):
        label = draw(st.sampled_from(LABELS if touching else LABELS[:-1]))
        if not touching and spans and spans[-1][::2] == (label, position):
            position += 1
        end = position + draw(st.integers(1, 4))
        spans.append(Span(label, position, end))
        position = end + draw(st.integers(0, 2))
    return spans, max([position, *(span.end for span in spans)])


def from_seqeval(entities: list[tuple[str, int, int]]) -> list[Span]:
    """seqeval writes _ where a tag is a letter alone."""
    return [Span("" if label == "_" else label, start, end) for label, start, end in entities]


@often
@given(sequences("BIES"))
def test_lenient_is_seqeval(sequence: list[str]) -> None:
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    entities = [(x, start, last + 1) for x, start, last in seqeval.get_entities(sequence)]
    expected = from_seqeval(entities)
    for scheme in PREFIXED:  # without strict they are all read by the same rule
        assert tags.spans(sequence, scheme) == expected
    bilou = [tag.translate({ord("E"): "L", ord("S"): "U"}) for tag in sequence]
    assert tags.spans(bilou, "BILOU") == expected


@pytest.mark.parametrize("scheme", [s for s in PREFIXED if s != "IOE1"])
@often
@given(data=st.data())
def test_strict_is_seqeval(scheme: str, data: st.DataObject) -> None:
    sequence = data.draw(sequences(PREFIXES[scheme]))
    assert tags.spans(sequence, scheme, strict=True) == seqeval_strict(sequence, scheme)


@often
@given(sequences("IE"))
def test_strict_ioe1_is_seqeval_where_that_is_right(sequence: list[str]) -> None:
    """seqeval does not see an IOE1 span of one position after O or after another label."""
    for i, tag in enumerate(sequence):
        before = sequence[i - 1] if i else "O"
        if tag[0] == "E" and (before == "O" or before[1:] != tag[1:]):
            sequence[i] = "I" + tag[1:]
    assert tags.spans(sequence, "IOE1", strict=True) == seqeval_strict(sequence, "IOE1")


def seqeval_strict(sequence: list[str], scheme: str) -> list[Span]:
    module = pytest.importorskip("seqeval.scheme")
    kind = getattr(module, {"BIO": "IOB2", "BIOES": "IOBES"}.get(scheme, scheme))
    entities = module.Tokens(sequence, kind).entities
    return from_seqeval([(entity.tag, entity.start, entity.end) for entity in entities])


@every_scheme
@normally
@given(data=st.data())
def test_spans_survive_every_scheme(scheme: str, data: st.DataObject) -> None:
    expected, length = data.draw(some_spans(touching=scheme != "plain"))
    sequence = tags.from_spans(expected[::-1], length, scheme)
    assert len(sequence) == length
    assert tags.spans(sequence, scheme) == expected
    assert tags.spans(sequence, scheme, strict=True) == expected


@pytest.mark.parametrize("source", PREFIXED)
@pytest.mark.parametrize("target", PREFIXED)
@settings(normally, max_examples=examples(10))
@given(case=some_spans())
def test_convert_and_convert_back(source: str, target: str, case: tuple[list[Span], int]) -> None:
    sequence = tags.from_spans(*case, source)
    converted = tags.convert(sequence, source, target)
    assert converted == tags.from_spans(*case, target)
    assert tags.convert(converted, target, source) == sequence


@every_scheme
@often
@given(data=st.data())
def test_allowed_transitions_are_those_of_well_formed_tags(
    scheme: str, data: st.DataObject
) -> None:
    """Tags are well-formed if and only if their spans, lenient or strict, write them again."""
    labels = tags_of(scheme)
    ids = data.draw(st.lists(st.integers(0, len(labels) - 1), min_size=1, max_size=6))
    start, matrix, end = tags.allowed_transitions(labels, scheme)
    allowed = start[ids[0]] and end[ids[-1]] and matrix[ids[:-1], ids[1:]].all()
    sequence = [labels[i] for i in ids]
    strict = tags.from_spans(tags.spans(sequence, scheme, strict=True), len(ids), scheme)
    assert allowed == (tags.convert(sequence, scheme, scheme) == sequence)
    assert allowed == (strict == sequence)


def test_transitions_by_hand() -> None:
    labels = ["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y"]
    for scheme, names in {
        "BIOES": labels,
        "BILOU": [tag.translate({ord("E"): "L", ord("S"): "U"}) for tag in labels],
    }.items():
        start, matrix, end = tags.allowed_transitions(names, scheme)
        outside = [1, 1, 0, 0, 1, 1, 0, 0, 1]
        in_x, in_y = [0, 0, 1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1, 0]
        assert matrix.astype(int).tolist() == [
            *(outside, in_x, in_x, outside, outside, in_y, in_y, outside, outside)
        ]
        assert start.astype(int).tolist() == outside
        assert end.astype(int).tolist() == [1, 0, 0, 1, 1, 0, 0, 1, 1]
        assert {a.dtype for a in (start, matrix, end)} == {np.dtype(bool)}


def test_transitions_of_labels_in_any_order_and_none() -> None:
    labels = alphabet("BI")
    order = np.random.default_rng(0).permutation(len(labels))
    start, matrix, end = tags.allowed_transitions(labels, "BIO")
    shuffled = tags.allowed_transitions(np.array(labels)[order], "BIO")
    np.testing.assert_array_equal(shuffled.start, start[order])
    np.testing.assert_array_equal(shuffled.matrix, matrix[np.ix_(order, order)])
    np.testing.assert_array_equal(shuffled.end, end[order])
    assert [a.shape for a in tags.allowed_transitions([], "BIO")] == [(0,), (0, 0), (0,)]


@pytest.mark.parametrize(
    ("sequence", "lenient", "strict"),
    [
        ("", "", ""),
        ("O O", "", ""),
        ("I-X", "X01", ""),
        ("B-X I-Y", "X01 Y12", "X01"),
        ("B-X I-X I-Y I-X", "X02 Y23 X34", "X02"),
        ("I-X B-X I-X", "X01 X13", "X13"),
        ("O I-X I-X O B-X", "X13 X45", "X45"),
        ("B-X B-X", "X01 X12", "X01 X12"),
    ],
)
def test_bio_by_hand(sequence: str, lenient: str, strict: str) -> None:
    for expected, is_strict in ((lenient, False), (strict, True)):
        spans = tags.spans(sequence.split(), "BIO", strict=is_strict)
        assert [f"{label}{start}{end}" for label, start, end in spans] == expected.split()


def test_other_names_and_arrays() -> None:
    assert tags.spans(["B-X"], "IOB2", strict=True) == tags.spans(["B-X"], "BIO", strict=True)
    assert tags.convert(["B-X"], "IOB2", "IOBES") == ["S-X"]
    spans = tags.spans(np.array(["X", "X", "O"]), "plain")
    assert spans == [Span("X", 0, 2)]
    assert type(spans[0].label) is str


def test_plain() -> None:
    spans = tags.spans(["X", "X", "B-Y", "O", "Y"], "plain")
    assert spans == [("X", 0, 2), ("B-Y", 2, 3), ("Y", 4, 5)]
    assert tags.convert(["X", "X", "O"], "plain", "BIOES") == ["B-X", "E-X", "O"]
    assert tags.allowed_transitions(["X", "O"], "plain").matrix.all()


@every_prefixed
@normally
@given(case=some_spans())
def test_detect_what_was_written(scheme: str, case: tuple[list[Span], int]) -> None:
    """A set of tags may fit several schemes; the detected one reads the same spans from them."""
    spans, length = case
    sequence = tags.from_spans(spans, length, scheme)
    if spans:
        detected = tags.detect(sequence)
        tags.allowed_transitions(sequence, detected)  # or it would raise
        assert tags.spans(sequence, detected) == spans
        letters = {tag[0] for tag in sequence} - {"O"}
        if letters == set(PREFIXES[scheme]) and scheme not in ("IOB1", "IOE1"):
            assert detected == scheme


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ("O B-X I-X B-Y", "BIO"),
        ("O B-X", "BIO"),
        ("B I O", "BIO"),
        ("O I-X", "IOB1"),
        ("O I-X B-Y I-Y", "IOB1"),
        ("O I-X E-X", "IOE2"),
        ("O E-X", "IOE2"),
        ("O I-X I-Y E-Y", "IOE1"),
        ("O S-X", "BIOES"),
        ("B-X E-X", "BIOES"),
        ("O U-X", "BILOU"),
        ("B-X I-X L-X", "BILOU"),
        ("NOUN VERB X", "plain"),
        ("S NP -LRB- BE-HL", "plain"),
        ("O", "plain"),
    ],
)
def test_detect(labels: str, scheme: str) -> None:
    assert tags.detect(labels.split()) == scheme


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "labels is empty"),
        (["B-X", "L-X", "S-X"], "B, L, S"),
        (["B-X", "O", "PER"], "'B-X' has a prefix and 'PER' has none"),
        ("BIO", "'BIO'"),
        (7, "7"),
        ([["B-X"], ["O"]], r"label 0: \['B-X'\]"),
        (["O", ""], "label 1: ''"),
        (["O", None], "label 1: None"),
    ],
)
def test_undetectable(labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tags.detect(labels)


@every_prefixed
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("bad", ["PER", "X-PER", "", "-PER", "BI-PER", "b-PER", "O-PER", None, 3])
def test_not_a_tag(scheme: str, strict: bool, bad: Any) -> None:
    for sequence in (["O", bad, "O"], ["O", bad, [0]]):
        with pytest.raises(InputError, match=f"position 1: {bad!r} is not a tag"):
            tags.spans(sequence, scheme, strict)
    with pytest.raises(InputError, match=f"label 1: {bad!r} is not a tag of scheme {scheme}"):
        tags.allowed_transitions(["O", bad], scheme)


@every_scheme
def test_unhashable_tags_and_wrong_types(scheme: str) -> None:
    with pytest.raises(InputError, match=r"position 1: \['O'\] is not a tag"):
        tags.spans(["O", ["O"]], scheme)  # type: ignore[list-item]
    for bad in ("BIO", None, 3):
        with pytest.raises(InputError, match=f"must be a list, not {bad!r}"):
            tags.spans(bad, scheme)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=f"must be a list, not {bad!r}"):
            tags.allowed_transitions(bad, scheme)  # type: ignore[arg-type]


def test_strict_knows_only_its_letters() -> None:
    with pytest.raises(
        InputError, match=r"position 1: 'S-X' is not a tag of scheme BIO, expected .* B, I "
    ):
        tags.spans(["O", "S-X"], "BIO", strict=True)
    with pytest.raises(InputError, match="'E-X' is not a tag of scheme BILOU"):
        tags.spans(["E-X"], "BILOU", strict=True)


@pytest.mark.parametrize("bad", ["bio", "", None, ["BIO"], 1])
def test_unknown_scheme(bad: Any) -> None:
    for call in (
        lambda: tags.spans(["O"], bad),
        lambda: tags.Reader(bad),
        lambda: tags.from_spans([], 1, bad),
        lambda: tags.convert(["O"], "BIO", bad),
        lambda: tags.allowed_transitions(["O"], bad),
    ):
        with pytest.raises(InputError, match=r"is not one of IOB1, BIO, .* plain"):
            call()


@pytest.mark.parametrize(
    ("spans", "length", "scheme", "message"),
    [
        ([("X", 0, 2), ("Y", 1, 3)], 3, "BIO", "'X', start=0, end=2.*'Y', start=1, end=3.*overlap"),
        ([("X", 0, 3), ("Y", 1, 2)], 3, "BIO", "overlap"),
        ([("X", 1, 2), ("X", 1, 2)], 3, "BIO", "overlap"),
        ([("X", 1, 4)], 3, "BIO", "start=1, end=4.* outside of the 3 positions"),
        ([("X", -1, 2)], 3, "BIO", "start=-1"),
        ([("X", 2, 2)], 3, "BIO", "start=2, end=2.* is empty"),
        ([("X", 2, 1)], 3, "BIO", "start=2, end=1.* is empty"),
        ([("X", 0, 1), ("X", 1, 2)], 3, "plain", "end=1.*start=1.*touch"),
        ([("O", 0, 1)], 3, "plain", "'O' cannot be a label in scheme plain"),
        ([("", 0, 1)], 3, "plain", "'' cannot be a label"),
        ([(None, 0, 1)], 3, "BIO", "None cannot be a label"),
        ([("X", 0.0, 1.5)], 3, "BIO", r"\('X', 0.0, 1.5\) is not"),
        ([("X", 0)], 3, "BIO", r"\('X', 0\) is not a span: must be a label, a start and an end"),
        ([5], 3, "BIO", "5 is not a span"),
        (None, 3, "BIO", "spans must be a list, not None"),
        ([], -1, "BIO", "length .* not -1"),
        ([], 2.0, "BIO", "length .* not 2.0"),
    ],
)
def test_spans_that_cannot_be_written(spans: Any, length: Any, scheme: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tags.from_spans(spans, length, scheme)


@needs_corpus("ner")
def test_real_tags() -> None:
    """CoNLL-2002 Spanish: one I- that follows O; WNUT-17: labels with hyphens."""
    spanish = read_tags("ner/conll2002-es.testb.conll.gz")
    labels = sorted({tag for sequence in spanish for tag in sequence})
    assert tags.detect(labels) == "BIO"
    start, matrix, _ = tags.allowed_transitions(labels, "BIO")
    ids = [[labels.index(tag) for tag in sequence] for sequence in spanish]
    ill = [n for n, y in enumerate(ids) if not (start[y[0]] and matrix[y[:-1], y[1:]].all())]
    mended = [tags.convert(sequence, "BIO", "BIO") for sequence in spanish]
    assert len(ill) == 1
    assert [n for n in range(len(spanish)) if mended[n] != spanish[n]] == ill

    wnut = read_tags("ner/wnut17.dev.conll.gz")
    span_labels = {span.label for sequence in wnut for span in tags.spans(sequence)}
    assert "creative-work" in span_labels
    assert len(span_labels) == 6


def read_tags(name: str) -> list[list[str]]:
    with gzip.open(find_corpus(name), "rt", encoding="utf-8") as file:
        blocks = file.read().split("\n\n")
    rows = [[line.split("\t") for line in block.splitlines() if "\t" in line] for block in blocks]
    return [[row[-1] for row in block] for block in rows if block]


def test_the_reading_refuses_what_is_no_tag() -> None:
    with pytest.raises(InputError, match="label 1: 'X' is not a tag of scheme BIO, expected O, or"):
        tags.reading(["O", "X"], "BIO")
    with pytest.raises(
        InputError, match="label 0: '' is not a tag of scheme plain, expected a non"
    ):
        tags.reading([""], "plain")
    with pytest.raises(InputError, match="scheme 'x' is not one of"):
        tags.reading(["O"], "x")
    with pytest.raises(InputError, match="tags must be a list, not 'O'"):
        tags.reading("O", "BIO")
    assert tags.reading([], "BIO").labels == []
    assert tags.reading(["B", "I", "L-X", "U-X"], "IOB2").labels == ["", "X"]
    assert tags.reading(["X", "O", "X"], "plain").continues.tolist() == [
        [True, False, True],
        [False] * 3,
        [True, False, True],
    ]
