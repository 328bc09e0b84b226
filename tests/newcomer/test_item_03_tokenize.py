"""Tokens keep their combining marks, and emoji are not split."""

import unicodedata

import pytest

from trellis.data import jsonl, text


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("मुझे हिन्दी पसंद है।", ["मुझे", "हिन्दी", "पसंद", "है", "।"]),
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("น้ำดื่ม", ["น้ำ", "ดื่", "ม"]),
        ("שָׁלוֹם לְךָ", ["שָׁלוֹם", "לְךָ"]),
        (unicodedata.normalize("NFD", "Zoë Façade"), ["Zoe\u0308", "Fac\u0327ade"]),
        ("ok 👩\u200d👩\u200d👧!", ["ok", "👩\u200d👩\u200d👧", "!"]),
    ],
)
def test_scripts_with_marks(raw: str, tokens: list[str]) -> None:
    assert text.tokenize(raw) == tokens


def test_spans_of_words_with_marks_can_be_read() -> None:
    """The place was a span of six tokens: letters and marks."""
    X, y = jsonl.read(['{"text": "मैं दिल्ली में", "spans": [[4, 10, "PLACE"]]}'])
    assert X == [["मैं", "दिल्ली", "में"]]
    assert y == [["O", "B-PLACE", "O"]]
