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
    intact = MAKERS[kind](1, 3)
    for n in range(1200):
        path = tmp_path / f"{n % 2}"
        path.write_bytes(mutant(intact, rng))
        ends[used(path)] += 1
    assert ends["refused"] > 600
    assert ends["usable"] > 20  # a changed weight is a model as well


@pytest.mark.parametrize("kind", MAKERS)
def test_truncated_files(tmp_path: Path, kind: str) -> None:
    intact, path = MAKERS[kind](), tmp_path / "m"
    for part in range(60):
        path.write_bytes(intact[: len(intact) * part // 60])
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
        (TEXT.replace("\n0 B\n", "\n1 B\n"), "contradict maxid"),
        (TEXT.replace("U00:né", "U00:the"), "the same name"),
        (TEXT.replace("U00:né", "U77:né"), "none of the"),
        (TEXT.replace("U00:%x[-1,0]", "U00:%x[-1]"), "expected %x"),
        (TEXT[:-6] + "\nx\n", "not a finite number"),
        (TEXT + "1e999\n", "expected a weight"),
        (WAPITI.replace("#mdl#2", "#mdl#0"), "kind 0"),
        (WAPITI.replace("#rdr#4", "#rdr#3"), "expected #qrk#"),
        (WAPITI.replace("1:*,", "2:*,", 1), "length"),
        (WAPITI.replace("2:L1,", "2:L0,"), "labels"),
        (WAPITI.replace("=0x", "=x", 1), "not the number of a weight"),
        (WAPITI + "999999=0x1p0\n", "weights"),
        (WAPITI.replace("u:w=the", "x:w=the"), "start with u, b"),
    ],
)
def test_error_messages(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "bad.model"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=f"bad.model: .*{what}"):
        trellis.load(path)


def test_a_binary_model_of_crfpp(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(bytes([100, 0, 0, 0, 0, 0, 0, 0]) + bytes(6) + b"\xf0?" + bytes(40))
    with pytest.raises(
        FormatError,
        match=r"model: binary CRF\+\+ .* train with crf_learn -t, .* writes the model as text",
    ):
        trellis.load(path)


@pytest.mark.parametrize(
    ("line", "what"),
    [("1e999", "number"), ("0x1p99999", "number"), ("nan", "number"), ("1 2", "number")],
)
@pytest.mark.parametrize("kind", ["crfpp", "wapiti"])
def test_invalid_weights(tmp_path: Path, kind: str, line: str, what: str) -> None:
    text = MAKERS[kind]().decode()
    head, _, last = text.rstrip("\n").rpartition("\n")
    path = tmp_path / "bad"
    path.write_text(f"{head}\n{last.partition('=')[0] + '=' if '=' in last else ''}{line}\n")
    with pytest.raises(FormatError, match=f"bad: .*{what}"):
        trellis.load(path)


def test_a_name_with_many_partial_matches_is_rejected_quickly(tmp_path: Path) -> None:
    """Six values between slashes and then a # that is not there: 60 over 5 ways to fail."""
    text = f"U00:{'%x[0,0]/' * 6}%x[0,0]#"
    body = f"version: 100\ncost-factor: 1\nmaxid: 1\nxsize: 1\n\nA\n\n{text}\n\n0 U00:{'/' * 600}\n"
    path = tmp_path / "bad"
    path.write_text(f"{body}\n0.5\n")
    with pytest.raises(FormatError, match="none of the"):
        trellis.load(path)
