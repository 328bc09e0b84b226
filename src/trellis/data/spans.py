"""Spans of characters of a raw text, and the spans of tokens that they cover."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from trellis.data import files, tags
from trellis.errors import InputError

__all__ = ["checked", "covered", "misplaced"]


def checked(span: Any, raw: str) -> tuple[int, int, str]:
    """Return (start, end, label) of a span; raise InputError if it is not inside the text.

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
        raise misplaced(
            span, "must have integers start and end, and a label that is not empty", raw
        )
    if not 0 <= start < end <= len(raw):
        raise misplaced(span, f"is not inside the {len(raw)} characters", raw)
    return start, end, label


def covered(
    raw: str,
    places: Sequence[tuple[int, int]],
    spans: Sequence[tuple[int, int, str]],
    written: Sequence[Any],
) -> list[tags.Span]:
    """Convert spans (start, end, label) of characters to spans of tokens, in order.

    `places` has the start and end of each token. `written` has each span as text for errors.
    White space at the ends of a span is ignored.

    >>> covered("In New York!", [(0, 2), (3, 6), (7, 11), (11, 12)], [(3, 11, "LOC")], ["[3, 11]"])
    [Span(label='LOC', start=1, end=3)]
    """
    starts, ends = [start for start, _ in places], [end for _, end in places]
    token_spans: list[tags.Span] = []
    for (start, end, label), shown in zip(spans, written, strict=True):
        # The span touches the tokens first, …, last - 1.
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        if first == last:
            raise misplaced(shown, "covers no token", raw)
        for token in (first, last - 1):
            if starts[token] < start or ends[token] > end:
                cut = raw[starts[token] : ends[token]]
                raise misplaced(shown, f"cuts through {files.shown(cut)}", raw)
        token_spans.append(tags.Span(label, first, last))
    # In the order of their starts, only neighbouring spans can overlap.
    order = sorted(range(len(token_spans)), key=lambda i: token_spans[i].start)
    for before, after in pairwise(order):
        if token_spans[before].end > token_spans[after].start:
            raise misplaced(written[after], f"overlaps {written[before]}", raw)
    return [token_spans[i] for i in order]


def misplaced(span: Any, problem: str, raw: str) -> InputError:
    """Return the error for a wrong span of the text `raw`."""
    return InputError(f"span {span} {problem} in {files.shown(raw)}")
