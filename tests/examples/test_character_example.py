"""The experiment on encoders of characters, on a few words."""

import gzip
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).parents[2] / "examples"
STEMS = ["walk", "talk", "jump", "play", "burn", "mix", "hunt", "climb"]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import character_neighbors

    return character_neighbors


def test_pairs_of_words_and_lemmas(example: Any, tmp_path: Path) -> None:
    rows = [
        ("Dogs", "dog", "NOUN"), ("bark", "bark", "VERB"), ("dogs", "dog", "NOUN"),
        ("Went", "go", "VERB"), ("us", "we", "PRON"),
    ]  # fmt: skip
    lines = [f"{n}\t{w}\t{lemma}\t{c}" + "\t_" * 6 for n, (w, lemma, c) in enumerate(rows)]
    path = tmp_path / "words.conllu.gz"
    path.write_bytes(gzip.compress(("# text\n" + "\n".join(lines) + "\n\n").encode()))
    pairs = example.read_pairs(path)
    assert pairs == [("dogs", "dog"), ("went", "go")]
    known = [("gone", "go")]
    assert example.remove_known(pairs, known) == [("dogs", "dog")]


def test_training_finds_lemmas(example: Any) -> None:
    pairs = [(stem + end, stem) for stem in STEMS for end in ("ing", "ed", "s")]
    unseen, lemmas = [("talker", "talk"), ("jumper", "jump")], [*STEMS, "park", "kiss"]
    encoder = example.encoders()["Charagram, tanh"]
    before, after = example.compare(encoder, pairs, unseen, lemmas, 40)
    assert 0 <= before <= 1
    assert after == 1.0
    assert example.lemma_accuracy(encoder, [("parked", "burn")], lemmas) == 0.0
    assert len(example.encoders()) == 5
