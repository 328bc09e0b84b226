"""The language model of the CTC examples is normalised, and the examples run."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from trellis.formats import arpa

pytest.importorskip("torch")
pytest.importorskip("jiwer")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def strings(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import digit_strings

    return digit_strings


def test_dates(strings) -> None:  # type: ignore[no-untyped-def]
    days = strings.dates(np.random.default_rng(0), 500)
    assert all(len(day) == 8 and day.isdigit() for day in days)
    assert all("01" <= day[:2] <= "31" and "01" <= day[2:4] <= "12" for day in days)
    assert {day[4:6] for day in days} == {"19", "20"}
    others = strings.dates(np.random.default_rng(0), 500, without=days[:250])
    assert not set(others) & set(days[:250])


def test_the_probabilities_of_all_words_sum_to_one(strings, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "dates.arpa"
    days = strings.dates(np.random.default_rng(1), 300)
    strings.write_arpa(path, [list(day) for day in days], order=4)
    lm = arpa.read(path)
    assert lm.order == 4
    words = [*"0123456789", "<unk>"]
    for history in ([], ["2"], ["2", "5"], ["9", "9", "9", "9"], *map(list, product("12", "09"))):
        ends = [lm.full_scores([*history, word], eos=False)[-1].log10 for word in words]
        ends.append(lm.full_scores(history)[-1].log10)
        assert np.power(10.0, ends).sum() == pytest.approx(1.0, abs=1e-5)
    new_dates = strings.dates(np.random.default_rng(2), 100, without=days)
    perplexity = np.mean([lm.perplexity(list(day)) for day in new_dates])
    assert perplexity < 5 < np.mean([lm.perplexity(list(reversed(day))) for day in new_dates])


@pytest.mark.slow
def test_handwritten_digits(tmp_path: Path) -> None:
    figure = tmp_path / "figure.svg"
    script = EXAMPLES / "handwritten_digits.py"
    result = subprocess.run(
        [sys.executable, script, "--steps", "4", "--strings", "3", "--figure", figure],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    for name in ("greedy", "beam", "beam + language model"):
        assert f"\n{name} " in result.stdout
    ElementTree.parse(figure)
