"""A small corpus of requests to an assistant, with the slots in them marked: to try things out.

780 requests about travel, restaurants, music, a calendar and shopping, with 1628 slots of 29 kinds.
All were made up for this package, one by one: no user said them, no program filled them in, and
none comes from another corpus. Hotels, restaurants, artists and shops are mostly invented.

>>> [len(load(split)[0]) for split in ("train", "test", "all")]
[585, 195, 780]

A paragraph of a file is one way to ask for one thing, and whole paragraphs are either for training
or for the test: no request of the test repeats the frame of one that was learnt. That makes it hard
for its size. It is too small to rank models that are close: some slots are in the test only four
times.
"""

from importlib import resources

from trellis.data import markup
from trellis.errors import InputError

__all__ = ["DOMAINS", "load", "paragraphs"]

DOMAINS = ("travel", "restaurants", "music", "calendar", "shopping")
"""What the requests are about; a file each."""

_SPLITS = ("train", "test", "all")
_EVERY = 4


def load(
    split: str = "train", domain: str | None = None
) -> tuple[list[list[str]], list[list[str]]]:
    """``(X, y)`` of one part of the corpus, of all domains or of one; the tags are BIO.

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
        if split == "all" or (split == "test") == (number % _EVERY == 0)
    ]
    return markup.read(lines)


def paragraphs(domain: str) -> list[list[str]]:
    """The requests of a domain as mark-up, in paragraphs of those that say nearly the same.

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
