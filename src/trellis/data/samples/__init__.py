"""A small corpus for examples and tests: requests to an assistant, with marked slots.

It has 780 requests about travel, restaurants, music, a calendar and shopping, with 1628 slots of 29
types. All were written by hand for this package: none comes from users, from a program or from
another corpus. Hotels, restaurants, artists and shops are mostly invented.

>>> [len(load(split)[0]) for split in ("train", "test", "all")]
[585, 195, 780]

A paragraph of a file has requests with nearly the same wording. A complete paragraph is either in
"train" or in "test", so no test request repeats the wording of a training request. That makes the
corpus difficult for its size. It is too small to rank similar models: some slots occur only four
times in "test".
"""

from importlib import resources

from trellis.data import markup
from trellis.errors import InputError

__all__ = ["DOMAINS", "load", "paragraphs"]

DOMAINS = ("travel", "restaurants", "music", "calendar", "shopping")
"""The topics of the requests; each has a file."""

_SPLITS = ("train", "test", "all")
_TEST_EVERY = 4  # every fourth paragraph is in "test"


def load(
    split: str = "train", domain: str | None = None
) -> tuple[list[list[str]], list[list[str]]]:
    """Return ``(X, y)`` of a split, for one domain or (None) for all; the tags are BIO.

    Every fourth paragraph of a file is in "test", and the others are in "train"; "all" is both.

    >>> X, y = load("test", "travel")
    >>> print(*X[0])
    How long is the ferry from Split to Hvar ?
    >>> print(*y[0])
    O O O O B-transport O B-origin O B-destination O
    """
    if split not in _SPLITS:
        raise InputError(f"split {split!r} is not one of {', '.join(_SPLITS)}")
    lines = [
        line
        for name in (DOMAINS if domain is None else (domain,))
        for number, paragraph in enumerate(paragraphs(name), 1)
        for line in paragraph
        if split == "all" or (split == "test") == (number % _TEST_EVERY == 0)
    ]
    return markup.read(lines)


def paragraphs(domain: str) -> list[list[str]]:
    """Return the paragraphs of a domain: lists of requests with similar wording, as markup.

    >>> for line in paragraphs("travel")[6][:2]:
    ...     print(line)
    upgrade me to [business](travel_class)
    Can I upgrade to [first class](travel_class) with my points?
    """
    if domain not in DOMAINS:
        raise InputError(f"domain {domain!r} is not one of {', '.join(DOMAINS)}")
    file = resources.files(__name__) / f"{domain}.txt"
    blocks: list[list[str]] = [[]]
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line:
            blocks.append([])
        elif not line.startswith("# "):
            blocks[-1].append(line)
    return [paragraph for paragraph in blocks if paragraph]
