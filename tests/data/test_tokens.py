"""Tokens of raw text in many scripts, normal forms, emoji, and hostile text."""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis import _core
from trellis.data import text
from trellis.errors import InputError

# A sentence in each script. Tokens are separated by spaces, or by | where the text has no space.
SENTENCES = {
    "Latin": "Zoë’s café isn't open|, l’été col·lecció|: m² H₂O|!",
    "Greek": "Θέλω ένα τραπέζι για δύο|, παρακαλώ|.",
    "Cyrillic": "Я хочу чай|, м’ята і п'ять яблук|.",
    "Armenian": "Ես ջուր եմ ուզում|։",
    "Georgian": "მე წყალი მინდა|.",
    "Hebrew": "שָׁלוֹם לְכֻלָּם|, צה״ל צה\"ל פרופ' כהן|!",
    "Arabic": "أُرِيدُ كُوبًا مِنَ الشَّايِ|، ٣٫٥ شُكْرًا|؟",
    "Persian": "نمی\u200cخواهم چای بنوشم|.",
    "Syriac": "ܫܠܳܡܳܐ ܥܠܰܝܟܽܘܢ|.",
    "Thaana": "އަހަރެން ފެން ބޯން|.",
    "Ethiopic": "ውሃ እፈልጋለሁ|።",
    "Devanagari": "मुझे दिल्ली का १० रुपये का टिकट चाहिए|।",
    "Bengali": "আমি ঢাকায় চা খাই|।",
    "Gurmukhi": "ਮੈਂ ਪਾਣੀ ਪੀਂਦਾ ਹਾਂ|।",
    "Gujarati": "હું પાણી પીઉં છું|.",
    "Odia": "ମୁଁ ପାଣି ପିଏ|।",
    "Tamil": "எனக்கு தண்ணீர் வேண்டும்|.",
    "Telugu": "నాకు నీళ్ళు కావాలి|.",
    "Kannada": "ನನಗೆ ನೀರು ಬೇಕು|.",
    "Malayalam": "എനിക്ക് വെള്ളം വേണം|.",
    "Sinhala": "මට ශ්\u200dරී ලංකාවේ තේ ඕනේ|.",
    "Thai": "ผ|ม|ดื่|ม|น้ำ ๒ แ|ก้|ว",
    "Lao": "ຂ້|ອ|ຍ|ດື່|ມ|ນ້ຳ",
    "Khmer": "ខ្ញុំ|ទៅ|ភ្នំ|ពេ|ញ|។",
    "Myanmar": "ကျွ|န်|တော် မ|န္တ|လေး|ကို သွား|မ|ယ်|။",
    "Tibetan": "ང|་|ཆུ|་|འཐུང|།",
    "Mongolian": "ᠪᠢ ᠤᠰᠤ ᠤᠤᠭᠤᠨ\u180eᠠ|᠃",
    "Javanese": "ꦲꦏ꧀ꦱꦫ ꦗꦮ|꧉",
    "Cherokee": "ᎣᏏᏲ ᎠᎹ|.",
    "Hangul": "저는 서울에서 물을 마셔요|.",
    "Han": "我|要|两|张|去|北|京|的|票|，|100|元|。",
    "Japanese": "私|は|水|と|コーヒー|と|ｶﾞﾑ|を|買|う|。",
    "Bopomofo": "ㄨㄛˇ ㄏㄠˇ|。",
}


def split(marked: str) -> list[str]:
    return re.split("[ |]", marked)


@pytest.mark.parametrize("script", SENTENCES)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_scripts(script: str, form: Any) -> None:
    marked = unicodedata.normalize(form, SENTENCES[script])
    raw, tokens = marked.replace("|", ""), split(marked)
    assert text.tokenize(raw) == tokens
    assert [raw[begin:end] for begin, end in text.offsets(raw)] == tokens


EMOJI = [
    "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}",
    "\N{THUMBS UP SIGN}\U0001f3fd",
    "\N{HEAVY BLACK HEART}\ufe0f",
    "\N{HEAVY BLACK HEART}\ufe0f\u200d\N{FIRE}",
    "\U0001f1f3\U0001f1f1",
    "1\ufe0f\u20e3",
    "#\ufe0f\u20e3",
    "\N{WAVING BLACK FLAG}\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
]


@pytest.mark.parametrize("emoji", EMOJI, ids=ascii)
def test_an_emoji_is_one_token(emoji: str) -> None:
    assert text.tokenize(emoji) == [emoji]
    assert text.tokenize(f"so!{emoji} {emoji}\N{GRINNING FACE}") == [
        "so",
        "!",
        emoji,
        emoji,
        "\N{GRINNING FACE}",
    ]


@settings(max_examples=examples(500), deadline=None)
@given(st.text("azAZ_'09. ,:;-\"\t\n\x1c\x00@/") | st.text(st.characters(max_codepoint=127)))
def test_tokens_of_ascii_text_are_those_of_the_first_release(raw: str) -> None:
    first_release = re.compile(r"\w+(?:['’]\w+)*|\S")
    assert text.tokenize(raw) == first_release.findall(raw)
    assert text.offsets(raw) == [match.span() for match in first_release.finditer(raw)]


@settings(max_examples=examples(500), deadline=None)
@given(st.text() | st.text("eé\u0301\u0327が한ק\u05bc\u2260 ;\u037e'\u1fef", max_size=12))
def test_normal_forms_have_the_same_tokens(raw: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, raw) for form in ("NFC", "NFD"))
    tokens = text.tokenize(composed)
    assert text.tokenize(decomposed) == [unicodedata.normalize("NFD", x) for x in tokens]


def test_all_decomposed_characters_are_one_token_if_the_composed_one_is() -> None:
    for point in range(0xA0, sys.maxunicode + 1):
        character = chr(point)
        decomposed = unicodedata.normalize("NFD", character)
        if decomposed == character or 0xAC00 <= point <= 0xD7A3:
            continue
        for before, after in (("", ""), ("a", "a"), ("1", "1")):
            counts = {
                len(text.tokenize(before + middle + after)) for middle in (character, decomposed)
            }
            assert len(counts) == 1, hex(point)


def test_white_space_is_that_of_str_and_the_zero_width_space() -> None:
    points = [chr(point) for point in range(sys.maxunicode + 1)]
    white = {c for c in points if c.isspace()}
    assert {c for c in points if not _core.tokens(c)} == white | {"\u200b"}


# --- hostile text -------------------------------------------------------------------------------


def test_lone_surrogates_and_controls_are_tokens() -> None:
    assert text.tokenize("a\ud800b\udfff \x00\uffff") == [
        "a",
        "\ud800",
        "b",
        "\udfff",
        "\x00",
        "\uffff",
    ]
    assert text.tokenize("\ud83d\udc69") == ["\ud83d", "\udc69"]  # not a pair: str has code points
    assert text.offsets("\U0010ffff\ud800") == [(0, 1), (1, 2)]


@pytest.mark.parametrize("run", ["\u0301", "\u200d", "\u17d2", "\U000e0020", "\u00ad"])
def test_long_runs_of_ignored_characters(run: str) -> None:
    """If the time were quadratic, each of these texts would take hours."""
    n = 1_000_000
    assert text.tokenize(run * n) == [run * n]
    assert text.tokenize("a'" + run * n) == ["a", "'" + run * n]
    assert text.tokenize("a'" + run * n + "b") == ["a'" + run * n + "b"]
    assert len(text.tokenize("a''" * (n // 10))) == 3 * (n // 10)
    assert len(text.tokenize(f"a'{run}" * (n // 10) + "!")) == 3


def test_long_runs_of_flags() -> None:
    assert text.tokenize("\U0001f1e6" * 100_001) == ["\U0001f1e6" * 2] * 50_000 + ["\U0001f1e6"]


@pytest.mark.parametrize("function", [text.tokenize, text.offsets])
@pytest.mark.parametrize("wrong", [None, 5, b"a b", ["a b"], bytearray(b"a")], ids=repr)
def test_what_is_not_text(function: Any, wrong: Any) -> None:
    with pytest.raises(InputError, match=f"text must be a str, not {type(wrong).__name__}"):
        function(wrong)


def test_subclasses_of_str() -> None:
    class Text(str):
        __slots__ = ()

        def __len__(self) -> int:
            return 1000

    tokens = text.tokenize(Text("two words"))
    assert tokens == ["two", "words"]
    assert [type(token) for token in tokens] == [str, str]
    assert type(text.tokenize(Text("word"))[0]) is str
