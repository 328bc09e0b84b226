"""The corpus that comes with the package: its size, its slots, and a split that leaks nothing."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from zlib import crc32

import pytest

from trellis.data import markup, samples, tags
from trellis.errors import InputError

SLOTS = {
    *("origin", "destination", "airline", "travel_class", "transport", "hotel"),
    *("date", "time", "duration", "party_size", "location", "person", "event", "rating"),
    *("restaurant", "cuisine", "dish", "artist", "track", "album", "playlist", "genre"),
    *("product", "brand", "colour", "size", "quantity", "price", "store"),
}


def patterns(lines: list[str]) -> set[str]:
    """Requests in lower case, with every slot replaced by its name."""
    texts = set()
    for tokens, labels in zip(*markup.read(lines), strict=True):
        words = [token.lower() for token in tokens]
        for label, start, end in reversed(tags.spans(labels)):
            words[start:end] = [f"[{label}]"]
        texts.add(" ".join(words))
    return texts


def counted(y: list[list[str]]) -> Counter[str]:
    return Counter(span.label for labels in y for span in tags.spans(labels))


PARAGRAPHS = {domain: samples.paragraphs(domain) for domain in samples.DOMAINS}


def test_size() -> None:
    X, y = samples.load("all")
    assert len(X) == len(y) >= 500
    counts = counted(y)
    assert set(counts) == SLOTS
    assert len(SLOTS) >= 12
    assert {slot: count for slot, count in counts.items() if count < 12} == {}


def test_every_slot_is_learnt() -> None:
    assert set(counted(samples.load("train")[1])) == SLOTS
    assert set(counted(samples.load("test")[1])) <= SLOTS


@pytest.mark.parametrize("domain", samples.DOMAINS)
def test_every_domain_is_in_both_splits(domain: str) -> None:
    train, test, complete = (samples.load(split, domain) for split in ("train", "test", "all"))
    assert len(complete[0]) >= 130
    assert len(PARAGRAPHS[domain]) >= 45
    assert 0.2 < len(test[0]) / len(complete[0]) < 0.3
    assert len(train[0]) + len(test[0]) == len(complete[0])
    assert complete == markup.read([*chain.from_iterable(PARAGRAPHS[domain])])
    assert all(1 <= len(paragraph) <= 4 for paragraph in PARAGRAPHS[domain])


def test_splits_are_disjoint_and_complete() -> None:
    train, test, complete = (
        Counter(zip(map(tuple, X), map(tuple, y), strict=True))
        for X, y in map(samples.load, ("train", "test", "all"))
    )
    assert not train & test
    assert train + test == complete
    assert {sequence for sequence, count in complete.items() if count > 1} == set()


def test_one_domain_is_a_part_of_all() -> None:
    for split in ("train", "test", "all"):
        tokens, labels = samples.load(split)
        parts = [samples.load(split, domain) for domain in samples.DOMAINS]
        assert tokens == [*chain.from_iterable(part[0] for part in parts)]
        assert labels == [*chain.from_iterable(part[1] for part in parts)]


def test_every_fourth_paragraph_is_for_the_test() -> None:
    texts = samples.load("test", "travel")
    assert texts == markup.read([*chain.from_iterable(PARAGRAPHS["travel"][3::4])])


def test_no_pattern_is_in_two_paragraphs() -> None:
    """So none is in both splits: a model cannot recognise a test request by its wording."""
    places: dict[str, list[str]] = {}
    for domain, paragraphs in PARAGRAPHS.items():
        for number, lines in enumerate(paragraphs, 1):
            for pattern in patterns(lines):
                places.setdefault(pattern, []).append(f"{domain} {number}")
    assert {pattern: where for pattern, where in places.items() if len(where) > 1} == {}


def test_lines_are_normalised_markup() -> None:
    """No white space at the edges of lines and slots, or twice in a row."""
    for lines in chain.from_iterable(PARAGRAPHS.values()):
        for line in lines:
            assert line == " ".join(line.split())
            assert "[ " not in line
            assert " ]" not in line


def test_requests_differ_in_length_and_case() -> None:
    lines = [*chain.from_iterable(chain.from_iterable(PARAGRAPHS.values()))]
    lower = sum(line[line[0] == "["].islower() for line in lines)
    assert 0.35 < lower / len(lines) < 0.65
    lengths = [len(tokens) for tokens in samples.load("all")[0]]
    assert min(lengths) <= 3
    assert max(lengths) >= 25
    bare = sum("[" not in line for line in lines)
    assert 0.02 < bare / len(lines) < 0.1


@pytest.mark.parametrize("split", ["dev", "TRAIN", "", None, 1])
def test_unknown_splits(split: object) -> None:
    with pytest.raises(InputError, match=rf"split {split!r} is not one of train, test, all"):
        samples.load(split)  # type: ignore[arg-type]


@pytest.mark.parametrize("domain", ["weather", "Travel", "", "../samples/travel", 0])
def test_unknown_domains(domain: object) -> None:
    with pytest.raises(InputError, match=r"is not one of travel, restaurants, music, calendar, sh"):
        samples.load("all", domain)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"domain {domain!r}"):
        samples.paragraphs(domain)  # type: ignore[arg-type]


@pytest.mark.parametrize("split", ["train", "held_out", "unseen"])
def test_generated_requests_are_unchanged(split: str) -> None:
    """Published scores on the samples depend on every request, and on the split it is in."""
    requests = samples._generate_all()
    summary = {
        domain: (len(lines), crc32("\n".join(lines).encode()))
        for (name, domain), lines in requests.items()
        if name == split
    }
    assert (
        summary
        == {
            "train": {
                "travel": (408, 832496238),
                "restaurants": (364, 2310494669),
                "music": (360, 1021412116),
                "calendar": (416, 3940307938),
                "shopping": (396, 2381811187),
            },
            "held_out": {
                "travel": (101, 1504952019),
                "restaurants": (89, 4192404257),
                "music": (90, 3910913846),
                "calendar": (103, 1375736185),
                "shopping": (98, 2756202446),
            },
            "unseen": {
                "travel": (62, 3821677928),
                "restaurants": (56, 3939833880),
                "music": (56, 3216996047),
                "calendar": (64, 4171941403),
                "shopping": (54, 2449586091),
            },
        }[split]
    )
