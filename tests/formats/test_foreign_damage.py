"""Damaged models of other programs are refused, or can be used: none crashes, hangs or swells."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from foreign_files import crfpp_model, crfsuite_model, mutant, used, wapiti_model

import trellis
from trellis.errors import FormatError

MAKERS = {"crfsuite": crfsuite_model, "crfpp": crfpp_model, "wapiti": wapiti_model}


@pytest.mark.parametrize("kind", MAKERS)
def test_mutants(tmp_path: Path, kind: str) -> None:
    rng, ends = random.Random(kind), Counter[str]()
    whole = MAKERS[kind](1, 3)
    for n in range(1200):
        path = tmp_path / f"{n % 2}"
        path.write_bytes(mutant(whole, rng))
        ends[used(path)] += 1
    assert ends["refused"] > 600
    assert ends["usable"] > 20  # a changed weight is a model as well


@pytest.mark.parametrize("kind", MAKERS)
def test_cut_short(tmp_path: Path, kind: str) -> None:
    whole, path = MAKERS[kind](), tmp_path / "m"
    for part in range(60):
        path.write_bytes(whole[: len(whole) * part // 60])
        with pytest.raises(FormatError, match=str(path)):
            trellis.load(path)


TEXT = crfpp_model().decode()
WAPITI = wapiti_model().decode()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (TEXT.replace("version: 100", "version: 101"), "version 101"),
        (TEXT.replace("maxid: ", "maxid: 9"), "maxid"),
        (TEXT.replace("maxid: ", "maxid: 99999999999"), "maxid"),
        (TEXT.replace("cost-factor: 1", "cost-factor: nan"), "cost-factor"),
        (TEXT.replace("cost-factor: 1\n", ""), "cost-factor"),
        (TEXT.replace("L1\n", "L0\n"), "labels"),
        (TEXT.replace("\n0 B\n", "\n1 B\n"), "do not fit"),
        (TEXT.replace("U00:né", "U00:the"), "the same name"),
        (TEXT.replace("U00:né", "U77:né"), "none of the"),
        (TEXT.replace("U00:%x[-1,0]", "U00:%x[-1]"), "expected %x"),
        (TEXT[:-6] + "\nx\n", "not a number"),
        (TEXT + "1e999\n", "weights"),
        (WAPITI.replace("#mdl#2", "#mdl#0"), "kind 0"),
        (WAPITI.replace("#rdr#4", "#rdr#3"), "expected #qrk#"),
        (WAPITI.replace("1:*,", "2:*,", 1), "length"),
        (WAPITI.replace("2:L1,", "2:L0,"), "labels"),
        (WAPITI.replace("=0x", "=x", 1), "not the number of a weight"),
        (WAPITI + "999999=0x1p0\n", "weights"),
        (WAPITI.replace("u:w=the", "x:w=the"), "begin with u, b"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "bad.model"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=f"bad.model: .*{what}"):
        trellis.load(path)
