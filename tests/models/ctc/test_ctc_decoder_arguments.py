"""Invalid arguments of CTCDecoder raise errors that name the argument."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoder_oracles import LETTERS

from trellis import CTCDecoder
from trellis.errors import FormatError, InputError
from trellis.models.ctc.labels import read_labels
from trellis.models.ctc.language_model import Lexicon, read_lexicon

GOOD = np.log(np.full((5, 4), 0.25))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "label"),
        ("ab ", "labels"),
        (None, "labels"),
        ([1, 2, 3], "label"),
        (["", "a", "a", " "], "'a'"),
        (["", "", "a"], "labels 0 and 1 are both ''"),
        (["a", "b", " "], "blank"),
    ],
)
def test_labels_rejected(labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        CTCDecoder(labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blank": 4}, "blank is 4"),
        ({"blank": -1}, "blank is -1"),
        ({"blank": "x"}, "blank"),
        ({"units": "syllables"}, "'syllables'"),
        ({"beam_width": 0}, "beam_width is 0"),
        ({"beam_width": 1.5}, "beam_width"),
        ({"alpha": np.nan}, "alpha is nan"),
        ({"alpha": "much"}, "alpha"),
        ({"beta": np.inf}, "beta is inf"),
        ({"hotword_weight": np.nan}, "hotword_weight is nan"),
        ({"unk_score_offset": np.nan}, "unk_score_offset is nan"),
        ({"token_min_logp": np.nan}, "token_min_logp is nan"),
        ({"beam_prune_logp": np.nan}, "beam_prune_logp is nan"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"hotwords": 7}, "hotwords"),
        ({"hotwords": [7]}, "hotwords contains 7"),
        ({"hotwords": "one"}, "hotwords"),
        ({"lexicon": 7}, "lexicon"),
        ({"lexicon": ["a", 7]}, "lexicon"),
        ({"lexicon": []}, "lexicon"),
        ({"lm": 7}, "lm"),
    ],
)
def test_options_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        CTCDecoder(LETTERS, **options)


EMISSIONS = [
    (np.zeros((5, 3)), "3"),
    (np.zeros(4), "shape (4,)"),
    (np.zeros((0, 4)), "empty"),
    (np.zeros((5, 4), int), "int64"),
    (np.where(np.eye(5, 4) > 0, np.nan, GOOD), "frame 0, label 0 is nan"),
    (np.where(np.arange(5)[:, None] == 3, np.inf, GOOD), "frame 3, label 0 is inf"),
    ("text", "log_probs"),
    (np.full((5, 4), 0.25), "log_probs are probabilities, every frame sums to 1"),
]


@pytest.mark.parametrize(("x", "message"), EMISSIONS, ids=[m for _, m in EMISSIONS])
def test_emissions_rejected(x: Any, message: str) -> None:
    decoder = CTCDecoder(LETTERS)
    for call in (decoder.decode, decoder.decode_beams, lambda x: decoder.align(x, "a")):
        with pytest.raises(InputError, match=re.escape(message)):
            call(x)


def test_the_row_of_a_batch_is_named() -> None:
    decoder = CTCDecoder(LETTERS)
    bad = GOOD.copy()
    bad[2, 1] = np.nan
    for call in (decoder.decode_batch, decoder.decode_beams_batch):
        with pytest.raises(InputError, match=r"sequence 2: log_probs of frame 2, label 1 is nan"):
            call([GOOD, GOOD, bad])
        with pytest.raises(InputError, match=r"sequence 1"):
            call([GOOD, GOOD[:, :3]])


def test_k() -> None:
    decoder = CTCDecoder(LETTERS)
    for k in (0, -1, 1.5, "all"):
        with pytest.raises(InputError, match="k "):
            decoder.decode_beams(GOOD, k=k)
    assert 1 <= len(decoder.decode_beams(GOOD, k=10**12)) <= 100


def test_lengths() -> None:
    decoder = CTCDecoder(LETTERS)
    batch = np.stack([GOOD, GOOD])
    assert len(decoder.decode_batch(batch, lengths=[5, 2])) == 2
    for lengths in ([5], [5, 6], [5, 0], [5.0, 2.0], "52"):
        with pytest.raises(InputError, match="length"):
            decoder.decode_batch(batch, lengths=lengths)


def test_missing_or_invalid_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        CTCDecoder(LETTERS, lm=tmp_path / "none.arpa")
    with pytest.raises(FileNotFoundError):
        CTCDecoder(LETTERS, lexicon=tmp_path / "none.txt")
    (tmp_path / "broken.arpa").write_text("\\data\\\nngram 1=one\n")
    with pytest.raises(FormatError, match=r"broken\.arpa, line 2"):
        CTCDecoder(LETTERS, lm=tmp_path / "broken.arpa")


def test_words_that_cannot_be_spelt(tmp_path: Path) -> None:
    """Such words are never returned. A lexicon of only such words raises an error."""
    (tmp_path / "capitals.txt").write_text("A\nAB\nCAB\n")
    with pytest.raises(InputError, match="'A'"):
        CTCDecoder(LETTERS, lexicon=tmp_path / "capitals.txt")
    with pytest.raises(InputError, match="'cab'"):
        CTCDecoder(LETTERS, lexicon=["cab"])
    beams = CTCDecoder(LETTERS, lexicon=["cab", "b", "ba"]).decode_beams(GOOD, k=100)
    assert {word for beam in beams for word in beam.text.split()} == {"b", "ba"}


def test_a_lexicon_with_spellings(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("alpha\ta b\nbeta\tb a\nbeta\tb b\n")
    p = np.full((6, 4), 0.01)
    p[np.arange(6), [2, 0, 1, 3, 1, 2]] = 0.97
    beams = CTCDecoder(LETTERS, lexicon=path).decode(np.log(p))
    assert beams == "beta alpha"


SPELT = {"ab": [LETTERS.index("a"), LETTERS.index("b")]}
SPELT["baa"] = [SPELT["ab"][1], *2 * SPELT["ab"][:1]]


def read_words(lexicon: Path) -> Lexicon | None:
    return read_lexicon(lexicon, read_labels(LETTERS, 0, "characters"))


def test_lines_of_a_lexicon(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("\nab\n  \nb\n")
    assert read_words(path) == Lexicon(["ab", "b"], None)
    for line in ("\ta b", "  \ta b", "a b", "a b\ta b"):
        path.write_text(f"ab\n{line}\n")
        with pytest.raises(FormatError, match="must be one word without spaces"):
            read_words(path)
    path.write_text("ab\nbaa\tb a a\n")
    assert read_words(path) == Lexicon(["ab", "baa"], [SPELT["ab"], SPELT["baa"]])
    labels = read_labels(["_", "a", "|"], 0, "characters")
    for unit in "_|":
        with pytest.raises(FormatError, match=f"'{re.escape(unit)}' is the blank or the word sep"):
            read_lexicon([f"a\ta {unit}"], labels)
    path.write_text("ab\na\ta x\n")
    with pytest.raises(FormatError, match="'x' is not a label"):
        read_words(path)
