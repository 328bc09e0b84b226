"""Spans of characters of a raw text, and the spans of tokens that they cover."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from trellis.data import files, tags
from trellis.errors import InputError

__all__ = ["find_token_spans", "span_error", "validate_span"]


def validate_span(span: Any, raw: str) -> tuple[int, int, str]:
    """Return (start, end, label) of a span; raise InputError if it is not inside the text.

    >>> validate_span({"start": 0, "end": 3, "label": "PER"}, "Ann sings")
    (0, 3, 'PER')
    >>> validate_span([0, 30, "PER"], "Ann sings")
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: span [0, 30, 'PER'] is not inside the 9 characters in 'Ann sings'
    """
    if isinstance(span, dict):
        start, end, label = (span.get(key) for key in ("start", "end", "label"))
    elif isinstance(span, list | tuple) and len(span) == 3:
        start, end, label = span
    else:
        raise span_error(span, "is neither {start, end, label} nor [start, end, label]", raw)
    if type(start) is not int or type(end) is not int or not isinstance(label, str) or not label:
        raise span_error(
            span, "must have integers start and end, and a label that is not empty", raw
        )
    if not 0 <= start < end <= len(raw):
        raise span_error(span, f"is not inside the {len(raw)} characters", raw)
    return start, end, label


def find_token_spans(
    raw: str,
    token_offsets: Sequence[tuple[int, int]],
    spans: Sequence[tuple[int, int, str]],
    span_texts: Sequence[Any],
) -> list[tags.Span]:
    """Convert spans (start, end, label) of characters to spans of tokens, in order.

    `token_offsets` has the start and end of each token, `span_texts` each span as text for errors.
    White space at the ends of a span is ignored.

    >>> token_offsets = [(0, 2), (3, 6), (7, 11), (11, 12)]
    >>> find_token_spans("In New York!", token_offsets, [(3, 11, "LOC")], ["[3, 11]"])
    [Span(label='LOC', start=1, end=3)]
    """
    starts, ends = [start for start, _ in token_offsets], [end for _, end in token_offsets]
    token_spans: list[tags.Span] = []
    for (start, end, label), span_text in zip(spans, span_texts, strict=True):
        # The span overlaps the tokens first, …, last - 1.
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        if first == last:
            raise span_error(span_text, "covers no token", raw)
        for token in (first, last - 1):
            if starts[token] < start or ends[token] > end:
                token_text = raw[starts[token] : ends[token]]
                raise span_error(span_text, f"cuts through {files.quote(token_text)}", raw)
        token_spans.append(tags.Span(label, first, last))
    # If any two spans overlap, then two neighbours in the order of their starts overlap.
    order = sorted(range(len(token_spans)), key=lambda i: token_spans[i].start)
    for before, after in pairwise(order):
        if token_spans[before].end > token_spans[after].start:
            raise span_error(span_texts[after], f"overlaps {span_texts[before]}", raw)
    return [token_spans[i] for i in order]


def span_error(span: Any, problem: str, raw: str) -> InputError:
    """Return the error for a wrong span of the text `raw`."""
    return InputError(f"span {span} {problem} in {files.quote(raw)}")
