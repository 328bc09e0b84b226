"""Item 16: the demo shows a tagger that works, on sentences that it has not seen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from trellis.app.cli.main import run_command
from trellis.data import samples, tags

ROOT = Path(__file__).parents[2]
SPLITS = ("train", "held_out", "unseen")
Corpus = tuple[list[list[str]], list[list[str]]]


def texts(X: Iterable[list[str]]) -> list[str]:
    """Sentences without capitals and punctuation."""
    return [" ".join(re.findall(r"\w+", " ".join(tokens).lower())) for tokens in X]


def wordings(corpus: Corpus) -> set[str]:
    """Sentences without capitals and punctuation, with the name of each slot for its words."""
    rows = []
    for tokens, labels in zip(*corpus, strict=True):
        words = list(tokens)
        for label, start, end in reversed(tags.spans(labels)):
            words[start:end] = [f"slot_{label}"]
        rows.append(words)
    return set(texts(rows))


def slots(corpus: Corpus) -> list[tuple[str, str]]:
    return [
        (span.label, " ".join(tokens[span.start : span.end]).lower())
        for tokens, labels in zip(*corpus, strict=True)
        for span in tags.spans(labels)
    ]


GENERATED = {split: samples.generate(split) for split in SPLITS}
HAND_WRITTEN = {split: samples.load(split) for split in ("train", "test")}
TRAINING = [HAND_WRITTEN["train"], GENERATED["train"]]


def test_no_test_sentence_is_in_training() -> None:
    known = {text for X, _ in TRAINING for text in texts(X)}
    for split in ("held_out", "unseen"):
        assert known.isdisjoint(texts(GENERATED[split][0])), split
    assert known.isdisjoint(texts(HAND_WRITTEN["test"][0]))


def test_no_generated_sentence_occurs_twice() -> None:
    generated = [text for X, _ in GENERATED.values() for text in texts(X)]
    assert len(generated) == len(set(generated)) > 2500


def test_no_unseen_pattern_is_in_training() -> None:
    known = wordings(TRAINING[0]) | wordings(TRAINING[1])
    assert known.isdisjoint(wordings(GENERATED["unseen"]))
    assert known.isdisjoint(wordings(HAND_WRITTEN["test"]))
    # Held-out sentences are of known patterns; some of these have many forms.
    held_out = wordings(GENERATED["held_out"])
    assert len(held_out & known) > len(held_out) / 2


def test_names_that_training_has_not_seen() -> None:
    """Otherwise a list of all names would be enough for the held-out sentences."""
    known = {slot for corpus in TRAINING for slot in slots(corpus)}
    for split in ("held_out", "unseen"):
        split_slots = slots(GENERATED[split])
        assert sum(slot not in known for slot in split_slots) / len(split_slots) > 0.1, split


def test_every_slot_is_in_training_and_in_the_held_out_sentences() -> None:
    every = {label for label, _ in slots(HAND_WRITTEN["train"])}
    assert len(every) == 29
    for split in ("train", "held_out"):
        assert {label for label, _ in slots(GENERATED[split])} == every


@pytest.mark.parametrize("split", SPLITS)
def test_domains_are_parts_of_the_corpus(split: str) -> None:
    parts = [samples.generate(split, domain) for domain in samples.DOMAINS]
    assert [tokens for X, _ in parts for tokens in X] == GENERATED[split][0]
    assert [labels for _, y in parts for labels in y] == GENERATED[split][1]
    assert min(len(X) for X, _ in parts) > 30


def test_a_caller_cannot_change_the_corpus() -> None:
    X, y = samples.generate("held_out", "music")
    X[0][0] = y[0][0] = "changed"
    assert samples.generate("held_out", "music")[0][0][0] != "changed"


def test_generated_sentences_read_like_sentences() -> None:
    X = GENERATED["train"][0]
    for line in texts(X):
        assert not re.search(r"\ba [aeio]|\ban (?!hour)[^aeiou]", line), line
    assert not any(re.search(r"[<>{}|]", token) for tokens in X for token in tokens)
    lower = sum(" ".join(tokens).islower() for tokens in X)
    assert 0.4 < lower / len(X) < 0.6


def test_the_corpus_is_small() -> None:
    files = (ROOT / "src" / "trellis" / "data" / "samples").rglob("*.txt")
    assert sum(file.stat().st_size for file in files) < 200_000


def test_the_demo_is_installed_with_byte_code() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^\$\(VENV\)/demo/installed:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    assert "-m compileall" in recipe[1] or "--no-compile" not in recipe[1]


@pytest.mark.slow
def test_the_demo_shows_a_tagger_that_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["demo", "-o", str(tmp_path)]) == 0
    scores = [float(score) for score in re.findall(r"F1 (\d+\.\d)", capsys.readouterr().out)]
    assert len(scores) == 2
    assert scores[0] >= 85
    assert scores[1] >= 80  # patterns that training does not contain
    for page in ("docs/data.md", "docs/cli.md"):  # they quote both scores
        quoted = re.findall(r"\b\d\d\.\d\b", (ROOT / page).read_text(encoding="utf-8"))
        for score in scores:
            assert any(abs(float(number) - score) < 1 for number in quoted), (page, score)
