"""The labels of CTC networks: tables of parsed labels, and spellings against enumeration."""

import itertools

import pytest

from trellis.errors import InputError
from trellis.models.ctc.labels import LabelSet, Piece, read_labels


def start(text: str) -> Piece:
    return Piece(text, True, False)


def inner(text: str) -> Piece:
    return Piece(text, False, False)


def word(text: str) -> Piece:
    return Piece(text, True, True)


BLANK, SPACE = inner(""), inner(" ")
# labels, units, then the expected kind, blank, space and pieces
PARSED: list[tuple[list[str], str, str, int, int, list[Piece]]] = [
    (["", "a", "b"], "auto", "characters", 0, -1, [BLANK, inner("a"), inner("b")]),
    (["a", " ", "|", "_"], "auto", "characters", 3, 1, [inner("a"), SPACE, inner("|"), BLANK]),
    (["|", "a", "<PAD>"], "auto", "characters", 2, 0, [SPACE, inner("a"), BLANK]),
    # a separator of words makes longer labels characters; without it, they are words
    (["", "ch", " "], "auto", "characters", 0, 2, [BLANK, inner("ch"), SPACE]),
    ([" ", "ch", "_"], "auto", "characters", 2, 0, [SPACE, inner("ch"), BLANK]),
    (["", "ch", "a"], "auto", "words", 0, -1, [BLANK, word("ch"), word("a")]),
    (["", "ch", "a"], "characters", "characters", 0, -1, [BLANK, inner("ch"), inner("a")]),
    (["", "a", "b"], "words", "words", 0, -1, [BLANK, word("a"), word("b")]),
    (["", "a", "b"], "bpe", "bpe", 0, -1, [BLANK, inner("a"), inner("b")]),
    (["", "|", "a"], "words", "words", 0, -1, [BLANK, word("|"), word("a")]),
    # labels in brackets do not count as words
    (["[blank]", "<s>", "[UNK]", "a"], "auto", "characters", 0, -1,
     [BLANK, inner("<s>"), inner("⁇"), inner("a")]),
    (["<pad>", "<unk>", "go"], "auto", "words", 0, -1, [BLANK, word("⁇"), word("go")]),
    # the markers of pieces
    (["", "▁to", "▁", "day", "in▁", "▁on▁"], "auto", "bpe", 0, -1,
     [BLANK, start("to"), start(""), inner("day"), Piece("in", False, True), word("on")]),
    (["", "▁n", "n▁"], "auto", "bpe", 0, -1, [BLANK, start("n"), Piece("n", False, True)]),
    (["<unk>", "▁a", "_"], "auto", "bpe", 2, -1, [word("⁇"), start("a"), BLANK]),
    (["_", "##ing", "go", "x▁"], "auto", "bpe", 0, -1,
     [BLANK, inner("ing"), start("go"), start("x▁")]),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "units", "kind", "blank", "space", "pieces"), PARSED)
def test_parsed_labels(
    labels: list[str], units: str, kind: str, blank: int, space: int, pieces: list[Piece]
) -> None:
    expected = LabelSet(tuple(labels), tuple(pieces), kind, blank, space)
    assert read_labels(labels, None, units) == expected


@pytest.mark.parametrize(
    ("labels", "blank", "units", "message"),
    [
        (["", "a b", "c"], None, "words", "label 1 is 'a b': words cannot contain spaces"),
        (["", "a b", "▁c"], None, "auto", "label 1 is 'a b': bpe cannot contain spaces"),
        (["a", " "], 1, "auto", "label 1 cannot be both the blank and the separator of words"),
        (["a", "|"], 1, "auto", "label 1 cannot be both the blank and the separator of words"),
        (["a", "b"], 2, "auto", "blank is 2: must be 0 to 1"),
        (["a", "b"], -1, "auto", "blank is -1: must be 0 to 1"),
        (["<pad>", "[PAD]", "<blank>"], None, "auto", "labels 0 and 1 both look like the blank"),
        (["a", "<pad>", "[PAD]"], None, "auto", "labels 1 and 2 both look like the blank"),
        (["a", "b"], None, "auto", 'no label is "", <pad>'),
        (["a", "", "a"], None, "auto", "labels 0 and 2 are both 'a'"),
        (["a", ""], None, "letters", "units is 'letters': must be one of auto, characters"),
    ],
)
def test_invalid_labels(labels: list[str], blank: int | None, units: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("|", r"\|")):
        read_labels(labels, blank, units)


def test_the_blank_may_be_any_label() -> None:
    """It has no text, and the first and the last index are valid."""
    for blank in (0, 1, 2):
        parsed = read_labels(["x", "y", "z"], blank, "auto")
        assert parsed.blank == blank
        assert [i for i, piece in enumerate(parsed.pieces) if not piece.text] == [blank]


def enumerate_spellings(labels: LabelSet, text: str) -> list[tuple[int, ...]]:
    """Return every sequence of up to len(text) + 1 labels that spells a word."""
    count = len(labels.pieces)
    spellings = []
    for size in range(1, len(text) + 2):
        for indices in itertools.product(range(count), repeat=size):
            pieces = [labels.pieces[i] for i in indices]
            if labels.blank in indices or labels.space in indices:
                continue
            if "".join(piece.text for piece in pieces) != text:
                continue
            begins = [piece.starts for piece in pieces]
            if labels.units == "characters" or begins == [True] + [False] * (size - 1):
                spellings.append(indices)
    return spellings


@pytest.mark.parametrize(
    "labels",
    [
        ["", "a", "b", "ab", "aab", " "],
        ["", "▁a", "▁", "b", "ab", "a"],
        ["", "▁", "ab", "b", "▁b"],
        ["", "▁ab", "▁a", "b", "bb"],
        ["_", "##b", "a", "##ab", "aa"],
        ["", "aab", "ab", "ba"],
    ],
)
def test_spellings_are_the_shortest(labels: list[str]) -> None:
    parsed = read_labels(labels, None, "auto")
    for size in range(1, 5):
        for letters in itertools.product("ab", repeat=size):
            text = "".join(letters)
            spellings = enumerate_spellings(parsed, text)
            if not spellings:
                with pytest.raises(InputError, match=f"the labels cannot spell .* {text!r}"):
                    parsed.spell(text)
                continue
            spelling = parsed.spell(text)
            assert tuple(spelling) in spellings
            assert len(spelling) == min(map(len, spellings))


def test_the_letter_that_cannot_be_spelt() -> None:
    labels = read_labels(["", "a", "b"], None, "auto")
    with pytest.raises(InputError, match="cannot spell 'x' in the word 'abxa'"):
        labels.spell("abxa")
    with pytest.raises(InputError, match="cannot spell 'y' in the word 'y'"):
        labels.spell("y")
    assert labels.spell("") == []
    with pytest.raises(InputError, match="cannot spell ' ' in the word 'a b'"):
        read_labels(["", "a", "b", " "], None, "auto").spell("a b")


def test_of_equally_short_spellings_the_last_piece_is_the_longest() -> None:
    labels = read_labels(["", "a", "ba", "ab", " "], None, "auto")
    assert [labels.labels[i] for i in labels.spell("aba")] == ["a", "ba"]
