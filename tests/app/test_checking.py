"""The parts of ``trellis check`` beside slower and simpler computations of the same facts."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.app.checking.characters import find_traits
from trellis.app.checking.findings import Corpus, find_all
from trellis.app.checking.schemes import Violations, choose_scheme
from trellis.app.checking.spelling import find_misspellings
from trellis.app.checking.survey import Survey, survey_file
from trellis.data import corpus, tags
from trellis.data.corpus import Columns

SPANNED = [scheme for scheme in tags.SCHEMES if scheme != "plain"]


def count_pairs(y: list[list[str]]) -> tuple[Counter[str], Counter[tuple[str | None, str | None]]]:
    labels = Counter(label for row in y for label in row)
    return labels, Counter(pair for row in y for pair in pairwise([None, *row, None]))


spans = st.lists(st.tuples(st.sampled_from(["x", "y-z"]), st.integers(1, 3), st.integers(0, 2)))


def make_tags(drawn: list[tuple[str, int, int]], scheme: str) -> list[str]:
    """Return the tags of spans (label, length, number of O before it)."""
    position, placed = 0, []
    for label, length, gap in drawn:
        position += gap
        placed.append((label, position, position + length))
        position += length
    return tags.from_spans(placed, position + 1, scheme)


@pytest.mark.parametrize("scheme", SPANNED)
@given(data=st.lists(spans, min_size=1, max_size=4))
def test_well_formed_tags_have_no_violations(
    scheme: str, data: list[list[tuple[str, int, int]]]
) -> None:
    counts = count_pairs([make_tags(drawn, scheme) for drawn in data])
    assert Violations(scheme, *counts).count == 0


@pytest.mark.parametrize("scheme", SPANNED)
@given(row=st.lists(st.sampled_from(["O", "B-x", "I-x", "E-x", "S-x", "B-y", "I-y", "L-x", "Q"])))
def test_violations_are_tags_that_a_round_trip_changes(scheme: str, row: list[str]) -> None:
    """Tags are well-formed if and only if they are the tags of their strict spans."""
    try:
        is_valid = tags.from_spans(tags.spans(row, scheme, strict=True), len(row), scheme) == row
    except ValueError:  # a letter that the scheme does not have
        is_valid = False
    assert (Violations(scheme, *count_pairs([row])).count == 0) == is_valid


@pytest.mark.parametrize("scheme", SPANNED)
def test_the_scheme_of_labels_with_a_mistake(scheme: str) -> None:
    drawn = [("x", 3, 0), ("x", 1, 0), ("y", 2, 0), ("x", 1, 1), ("y", 1, 0), ("y", 1, 0)]
    y = [make_tags(drawn, scheme)] * 9
    assert choose_scheme(*count_pairs(y)) == scheme
    assert choose_scheme(*count_pairs([*y, ["O", "b-x"], ["X-y"]])) == scheme


@pytest.mark.parametrize("row", [["NOUN", "VERB", "I"], ["O", "O"], [], ["B-NP", "VERB", "NOUN"]])
def test_labels_without_a_scheme(row: list[str]) -> None:
    assert choose_scheme(*count_pairs([row])) == "plain"


@pytest.mark.parametrize(
    ("labels", "suspects"),
    [
        ({"NN": 900, "NNS": 9, "NNP": 1, "VBD-TL": 90, "VBN-TL": 1}, []),
        ({"PROPN": 900, "PRON": 9, "CCONJ": 1, "SCONJ": 90}, []),
        ({"B-ARG1": 900, "B-ARG2": 1, "I-ARG1": 9}, []),
        ({"B-location": 900, "I-locaton": 1, "B-person": 1, "O": 9}, ["I-locaton"]),
        ({"B-location": 9, "B-locations": 8, "O": 9}, []),  # both are frequent
        ({"Street Name": 9, "StreetName": 90}, ["Street Name"]),
        ({"O": 9, "o": 10, "B-x": 1}, ["O"]),
        ({"B-PER": 30, "B-PRE": 3, "I-PER": 9, "B-PEN": 1}, ["B-PRE"]),
    ],
)
def test_misspellings(labels: dict[str, int], suspects: list[str]) -> None:
    scheme = "plain" if "NN" in labels or "PRON" in labels or "StreetName" in labels else "BIO"
    assert [entry.label for entry in find_misspellings(labels, scheme)] == suspects


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("plain", ()),
        ("New York", ()),
        ("", ("empty",)),
        (" \u00a0", ("empty",)),
        ("\u00e9", ("composed",)),
        ("e\u0301", ("decomposed",)),
        ("e\u0301\u00e9", ("decomposed",)),
        ("a\ufffdb", ("damaged",)),
        ("a\udce9", ("damaged",)),
        ("a\x01", ("invisible",)),
        ("\u0601", ()),  # an Arabic number sign, which is visible
    ],
)
def test_traits(text: str, traits: tuple[str, ...]) -> None:
    assert find_traits(text) == traits


words = st.lists(st.sampled_from("abc"), min_size=1, max_size=2)
sequences = st.lists(st.tuples(words, st.sampled_from("XY")), min_size=1, max_size=8)


def survey(rows: list[tuple[list[str], str]], name: str) -> Survey:
    lines = [line for x, label in rows for line in [*(f"{word} {label}" for word in x), ""]]
    result = Survey(name, "conll", 99)
    for sequence in corpus.iterate_numbered(lines, result.report, "conll"):
        result.add(sequence)
    return result


@given(first=sequences, second=sequences)
def test_duplicates_and_overlap_by_comparing_all_pairs(
    first: list[tuple[list[str], str]], second: list[tuple[list[str], str]]
) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for name, rows in (("a", first), ("b", second)):
        for n, (x, label) in enumerate(rows):
            same = [other for other in rows[:n] if other[0] == x]
            if same:
                counts["duplicates" if same[0][1] == label else "contradictions", name] += 1
        if name == "b":
            counts["overlap", name] = sum(any(x == y for y, _ in first) for x, _ in second)
    both = Corpus([survey(first, "a"), survey(second, "b")], "plain")
    counted: Counter[tuple[str, str]] = Counter()
    for finding in find_all(both):
        if finding.check in ("duplicates", "contradictions", "overlap"):
            counted[finding.check, finding.message[0]] = finding.total
            assert len(finding.examples) == finding.total
    assert +counts == counted


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    """About 40 bytes remain of a sequence, whatever its length."""

    def measure(count: int) -> int:
        path = tmp_path / f"{count}.conll"
        word = "of" * 100  # the file must be larger than the block that is read at a time
        rows = (f"{n % 50} B-X\n{word} O\n{n % 7} O\n\n" for n in range(count))
        path.write_text("".join(rows))
        tracemalloc.start()
        try:
            assert len(survey_file(path, None, Columns(), 3).lines) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert measure(8_000) - measure(4_000) < 4_000 * 60
