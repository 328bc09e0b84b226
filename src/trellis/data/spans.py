"""Spans of the characters of a raw text, and of the tokens that they cover."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from trellis.data import files, tags
from trellis.errors import InputError

__all__ = ["checked", "covered", "misplaced"]


def checked(span: Any, raw: str) -> tuple[int, int, str]:
    """Start, end and label of a span, whichever way it is written, if it lies inside the text.

    >>> checked({"start": 0, "end": 3, "label": "PER"}, "Ann sings")
    (0, 3, 'PER')
    >>> checked([0, 30, "PER"], "Ann sings")
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: span [0, 30, 'PER'] is not inside the 9 characters in 'Ann sings'
    """
    if isinstance(span, dict):
        start, end, label = (span.get(key) for key in ("start", "end", "label"))
    elif isinstance(span, list | tuple) and len(span) == 3:
        start, end, label = span
    else:
        raise misplaced(span, "is neither {start, end, label} nor [start, end, label]", raw)
    if type(start) is not int or type(end) is not int or not isinstance(label, str) or not label:
        raise misplaced(span, "needs two integers and a label", raw)
    if not 0 <= start < end <= len(raw):
        raise misplaced(span, f"is not inside the {len(raw)} characters", raw)
    return start, end, label


def covered(
    raw: str,
    places: Sequence[tuple[int, int]],
    spans: Sequence[tuple[int, int, str]],
    written: Sequence[Any],
) -> list[tags.Span]:
    """The spans of tokens, in order, that spans (start, end, label) of characters make.

    `places` says where the tokens start and end; `written` is how errors show each span. White
    space at the edges of a span does not matter.

    >>> covered("In New York!", [(0, 2), (3, 6), (7, 11), (11, 12)], [(3, 11, "LOC")], ["[3, 11]"])
    [Span(label='LOC', start=1, end=3)]
    """
    starts, ends = [start for start, _ in places], [end for _, end in places]
    found: list[tags.Span] = []
    for (start, end, label), shown in zip(spans, written, strict=True):
        first, last = bisect_right(ends, start), bisect_left(starts, end)  # tokens that it touches
        if first == last:
            raise misplaced(shown, "covers no token", raw)
        for token in (first, last - 1):
            if starts[token] < start or ends[token] > end:
                cut = raw[starts[token] : ends[token]]
                raise misplaced(shown, f"cuts through {files.shown(cut)}", raw)
        found.append(tags.Span(label, first, last))
    order = sorted(range(len(found)), key=lambda i: found[i].start)
    for before, after in pairwise(order):
        if found[before].end > found[after].start:
            raise misplaced(written[after], f"overlaps {written[before]}", raw)
    return [found[i] for i in order]


def misplaced(span: Any, what: str, raw: str) -> InputError:
    """The error that says what is wrong with a span of a text."""
    return InputError(f"span {span} {what} in {files.shown(raw)}")
