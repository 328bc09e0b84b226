"""Real emission matrices with recorded texts and losses."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pytest
from corpus_files import find_corpus, needs_corpus
from decode_oracles import prefix_search

from trellis.inference import ctc

DATA = find_corpus("ctc")
NAMES = ["iam.line", "iam.word", "bentham.0", "bentham.1", "bentham.2", "libri"]

pytestmark = needs_corpus("ctc")


def emissions(entry: dict[str, Any]) -> np.ndarray:
    """Return the log-probabilities (T, V)."""
    raw = gzip.decompress((DATA / entry["file"]).read_bytes()).decode()
    if entry["file"].endswith(".json.gz"):
        x = np.array(json.loads(raw), dtype=np.float64)
    else:
        rows = [line.rstrip(";").split(";") for line in raw.split()]
        x = np.array(rows, dtype=np.float64)
    assert x.shape == (entry["frames"], entry["classes"])
    return x - np.logaddexp.reduce(x, axis=1, keepdims=True)


@pytest.fixture(params=NAMES)
def entry(request: pytest.FixtureRequest) -> dict[str, Any]:
    return json.loads((DATA / "meta.json").read_text(encoding="utf-8"))[request.param]


def spell(entry: dict[str, Any], labels: np.ndarray) -> str:
    return "".join(entry["labels"][v] for v in labels)


def target(entry: dict[str, Any], text: str) -> list[int]:
    return [entry["labels"].index(letter) for letter in text]


def test_greedy(entry: dict[str, Any]) -> None:
    hypothesis = ctc.greedy(emissions(entry), blank=entry["blank_index"])
    # The recorded text has no spaces before the first letter.
    assert spell(entry, hypothesis.labels).strip() == entry["greedy"].strip()


def test_losses(entry: dict[str, Any]) -> None:
    x, blank = emissions(entry), entry["blank_index"]
    for name, text in (("ground_truth", entry["ground_truth"]), ("greedy", entry["greedy"])):
        loss = ctc.loss(x, target(entry, text), blank=blank)
        assert loss == pytest.approx(entry[f"ctc_loss_of_{name}"], rel=1e-9)


def test_beam_search_is_at_least_as_probable(entry: dict[str, Any]) -> None:
    x, blank = emissions(entry), entry["blank_index"]
    best = ctc.beam_search(x, blank=blank, beam_width=200)[0]
    exact = -ctc.loss(x, best.labels, blank=blank)
    assert exact >= -entry["ctc_loss_of_greedy"] - 1e-9
    assert exact - 0.25 < best.log_prob <= exact + 1e-9, "a beam of 200 loses little of the mass"


def test_beam_search_agrees_with_the_simple_search(entry: dict[str, Any]) -> None:
    x, blank = emissions(entry), entry["blank_index"]
    hypotheses = ctc.beam_search(x, blank=blank, beam_width=10, k=10)
    want = prefix_search(x, blank, 10)
    assert [tuple(hypothesis.labels.tolist()) for hypothesis in hypotheses] == [
        labels for labels, _ in want
    ]
    np.testing.assert_allclose(
        [hypothesis.log_prob for hypothesis in hypotheses], [score for _, score in want], rtol=1e-9
    )


def test_alignment_of_the_truth(entry: dict[str, Any]) -> None:
    x, blank = emissions(entry), entry["blank_index"]
    wanted = target(entry, entry["ground_truth"])
    alignment = ctc.align(x, wanted, blank=blank)
    assert alignment.score <= -entry["ctc_loss_of_ground_truth"] + 1e-9
    assert alignment.score == pytest.approx(x[np.arange(len(x)), alignment.labels].sum())
    for label, start, end in zip(wanted, alignment.starts, alignment.ends, strict=True):
        assert (alignment.labels[start:end] == label).all()
    taken = sum(alignment.ends - alignment.starts)
    assert taken == (alignment.labels != blank).sum()
    shares = ctc.posterior(x, wanted, blank=blank)
    path_share = shares[np.arange(len(x)), alignment.labels]
    assert np.median(path_share) > 0.5, "the best path goes where the mass is"


def test_alignment_of_the_greedy_labels(entry: dict[str, Any]) -> None:
    """The best path of the greedy labels is the greedy path itself."""
    x, blank = emissions(entry), entry["blank_index"]
    path = ctc.greedy(x, blank=blank)
    alignment = ctc.align(x, path.labels, blank=blank)
    along = x[np.arange(len(x)), alignment.labels]
    assert along.tolist() == x.max(axis=1).tolist()  # some frames have two best labels
    assert alignment.score == pytest.approx(path.log_prob, rel=1e-12)
    assert ((alignment.starts <= path.frames) & (path.frames < alignment.ends)).all()
