"""A corpus for examples and tests: requests to an assistant, with marked slots.

The requests are about travel, restaurants, music, a calendar and shopping, with slots of 29 types.
All were written for this package: none comes from users or from another corpus. Hotels,
restaurants, artists and shops are mostly invented. The corpus has two parts.

`load` returns 780 requests that were written one by one:

>>> [len(load(split)[0]) for split in ("train", "test", "all")]
[585, 195, 780]

A paragraph of a file has requests with nearly the same wording. A complete paragraph is either in
"train" or in "test", so no test request repeats the wording of a training request. That makes this
part difficult for its size. It is too small to rank similar models: some slots occur only four
times in "test".

`generate` returns requests drawn from patterns, such as ``How long is the [{event}](event)?``:

>>> [len(generate(split)[0]) for split in ("train", "held_out", "unseen")]
[1944, 481, 292]

"held_out" has the patterns of "train" with other values, and "unseen" has other patterns.
"""

import re
from functools import cache
from importlib import resources
from itertools import product

from trellis.data import markup
from trellis.data.samples import generator
from trellis.data.samples.generator import Draw, Template, parse
from trellis.errors import InputError

__all__ = ["DOMAINS", "generate", "load", "paragraphs"]

DOMAINS = ("travel", "restaurants", "music", "calendar", "shopping")
"""The topics of the requests; each has a file."""

_SPLITS = ("train", "test", "all")
_GENERATED_SPLITS = ("train", "held_out", "unseen")
_TEST_EVERY = 4  # every fourth paragraph is in "test", or in "unseen"
_DRAWS = {"train": 4, "held_out": 1, "unseen": 2}  # requests per pattern
_TRIES = 10  # draws for each new request: a draw may repeat an earlier request
_SLOT = re.compile(r"\[([^\]]*)\]\((\w+)\)")

Corpus = tuple[list[list[str]], list[list[str]]]


def load(split: str = "train", domain: str | None = None) -> Corpus:
    """Return ``(X, y)`` of a split, for one domain or (None) for all; the tags are BIO.

    Every fourth paragraph of a file is in "test", and the others are in "train"; "all" is both.

    >>> X, y = load("test", "travel")
    >>> print(*X[0])
    How long is the ferry from Split to Hvar ?
    >>> print(*y[0])
    O O O O B-transport O B-origin O B-destination O
    """
    _check(split, _SPLITS)
    return markup.read(_lines(split, DOMAINS if domain is None else (domain,)))


def generate(split: str = "train", domain: str | None = None) -> Corpus:
    """Return ``(X, y)`` of requests drawn from patterns; they are the same in every call.

    "train"
        Four requests of each pattern in three of four paragraphs.
    "held_out"
        One more request of each of these patterns. None of them is in "train" or in
        ``load("train")``, with or without capitals. Every fourth name is reserved: it occurs here
        and in "unseen", but not in "train".
    "unseen"
        Two requests of each pattern in every fourth paragraph. These patterns are not in "train".

    >>> X, y = generate("held_out", "music")
    >>> print(*X[0])
    play small hours by kofi lindgren , please
    >>> print(*y[0])
    O B-track I-track O B-artist I-artist O O
    """
    _check(split, _GENERATED_SPLITS)
    if domain is not None:
        _check_domain(domain)
    names = DOMAINS if domain is None else (domain,)
    return markup.read([line for name in names for line in _generate_all()[split, name]])


def paragraphs(domain: str) -> list[list[str]]:
    """Return the paragraphs of a domain: lists of requests with similar wording, as markup.

    >>> for line in paragraphs("travel")[6][:2]:
    ...     print(line)
    upgrade me to [business](travel_class)
    Can I upgrade to [first class](travel_class) with my points?
    """
    _check_domain(domain)
    return _read_paragraphs(f"{domain}.txt")


def _lines(split: str, domains: tuple[str, ...]) -> list[str]:
    return [
        line
        for name in domains
        for number, paragraph in enumerate(paragraphs(name), 1)
        for line in paragraph
        if split == "all" or (split == "test") == (number % _TEST_EVERY == 0)
    ]


def _check(split: str, splits: tuple[str, ...]) -> None:
    if split not in splits:
        raise InputError(f"split {split!r} is not one of {', '.join(splits)}")


def _check_domain(domain: str) -> None:
    if domain not in DOMAINS:
        raise InputError(f"domain {domain!r} is not one of {', '.join(DOMAINS)}")


def _read_lines(name: str) -> list[str]:
    return (resources.files(__name__) / name).read_text(encoding="utf-8").splitlines()


def _read_paragraphs(name: str) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for line in _read_lines(name):
        if not line:
            blocks.append([])
        elif not line.startswith("# "):
            blocks[-1].append(line)
    return [paragraph for paragraph in blocks if paragraph]


@cache
def _generate_all() -> dict[tuple[str, str], list[str]]:
    """Return the requests of each split and domain, as markup."""
    lists = generator.parse_lists(_read_lines("patterns/values.txt"))
    known = {_words(line) for split in ("train", "test") for line in _lines(split, DOMAINS)}
    # The wordings of test requests are excluded from "train" and "held_out"; the wordings of
    # training requests are excluded from "unseen".
    wordings = {split: {_wording_of(line) for line in _lines(split, DOMAINS)} for split in _SPLITS}
    requests: dict[tuple[str, str], list[str]] = {}
    for split, domain in product(_GENERATED_SPLITS, DOMAINS):
        excluded = wordings["train" if split == "unseen" else "test"]
        requests[split, domain] = lines = []
        for number, patterns in enumerate(_read_paragraphs(f"patterns/{domain}.txt"), 1):
            if (split == "unseen") == (number % _TEST_EVERY == 0):
                for pattern in patterns:
                    # One seed per pattern: a new pattern does not change requests of the others.
                    seed = f"{split} {domain} {pattern}"
                    draw = Draw(lists, seed=seed, reserved=split != "train")
                    lines += _draw_unseen(draw, parse(pattern), _DRAWS[split], known, excluded)
        if split == "train":
            wordings["train"].update(map(_wording_of, lines))
    return requests


def _draw_unseen(
    draw: Draw, template: Template, n: int, known: set[str], excluded: set[str]
) -> list[str]:
    """Return n requests that are neither ``known`` nor ``excluded``, and add them to ``known``.

    A pattern with few variants may give fewer requests.
    """
    requests: list[str] = []
    for _ in range(_TRIES * n):
        line = draw.request(template)
        if len(requests) < n and _words(line) not in known and _wording_of(line) not in excluded:
            known.add(_words(line))
            requests.append(line)
    return requests


def _words(line: str) -> str:
    """Return the words of a line of markup, without capitals and punctuation."""
    return _normalize(_SLOT.sub(r"\1", line))


def _wording_of(line: str) -> str:
    """Return the words of a line of markup, with the names of the slots in place of their words."""
    return _normalize(_SLOT.sub(r"SLOT_\2", line))


def _normalize(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
