"""The sentences of a report: trellises of instructive ones, and those known least."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.app.report import html
from trellis.app.report.case import Case
from trellis.app.report.html import Part
from trellis.data.tags import Span
from trellis.plots import lattice

__all__ = ["examples", "worst"]

_LENGTHS = ((5, 16), (2, 30), (1, 60))  # the first that any sequence has
_LOOKED_AT = 400
_WORST = 8
_COLOURS = 6


class Found(NamedTuple):
    """A sequence with its two best labellings."""

    n: int
    right: bool
    kinds: int
    """How many kinds of spans it has."""
    best: list[str]
    second: list[str] | None
    p: tuple[float, float]
    near: bool
    """Whether the second best is right."""


class _Wish(NamedTuple):
    title: str
    fits: Callable[[Found], bool]
    rank: Callable[[Found], Any]
    """The larger, the better."""


_WISHES = (
    _Wish("Right, but in doubt", lambda f: f.right, lambda f: f.p[1]),
    _Wish("Wrong", lambda f: not f.right, lambda f: (f.near, f.p[1])),
    _Wish(
        "Right and sure",
        lambda f: f.right,
        lambda f: (min(f.kinds, 3), round(f.p[0], 1), len(f.best)),
    ),
)


def examples(case: Case, count: int) -> Iterator[Part]:
    """Trellises of sequences that show what the model does, chosen by `_WISHES` in turn."""
    chosen = _chosen(case, count)
    if not chosen:
        return
    order = sorted(range(len(case.labels)), key=lambda n: case.place(case.labels[n]))
    names = [case.labels[n] for n in order]
    body = ""
    for title, found in chosen:
        p = case.model.predict_marginals([case.X[found.n]])[0][:, order]
        words, gold = case.words(found.n), case.y[found.n]
        drawing = lattice(words, names, p, found.best, found.second, gold)
        chances = f"The best path has probability {found.p[0]:.3f}"
        chances += f", the second best {found.p[1]:.3f}." if found.second else "."
        body += (
            f"<h3>{html.text(title)}</h3><p class='soft'>{html.text(chances)} "
            f"Sequence {found.n}.</p>{html.figure(drawing)}"
        )
    lead = (
        "Every label at every token, as dark as it is probable; a labelling is a path from left to "
        "right. Labels below 1 % everywhere are left out."
    )
    yield "trellises", "Through the trellis", lead, body


def _chosen(case: Case, count: int) -> list[tuple[str, Found]]:
    left = _looked_at(case) if count > 0 else []
    chosen: list[tuple[str, Found]] = []
    wishes = cycle(_WISHES)
    while left and len(chosen) < count:
        wish = next(wishes)
        if fitting := [found for found in left if wish.fits(found)]:
            chosen.append((wish.title, max(fitting, key=wish.rank)))
            left.remove(chosen[-1][1])
    return chosen


def _looked_at(case: Case) -> list[Found]:
    """Sequences of a length that can be drawn, right and wrong ones from all over the data."""
    for low, high in _LENGTHS:
        fitting = [n for n, labels in enumerate(case.y) if low <= len(labels) <= high]
        if fitting:
            break
    some: list[int] = []
    for right in (True, False):
        own = [n for n in fitting if (case.y[n] == case.guess[n]) == right]
        some += own[:: 1 + len(own) // _LOOKED_AT]
    paths = case.model.predict_kbest([case.X[n] for n in some], 2)
    return [_found(case, n, two) for n, two in zip(some, paths, strict=True)]


def _found(case: Case, n: int, paths: Sequence[Any]) -> Found:
    labels = [[str(label) for label in path.labels] for path in paths]
    chances = [path.probability for path in paths]
    kinds = {span.label for span in case.spans(case.y[n])}
    return Found(
        n,
        labels[0] == case.y[n],
        len(kinds),
        labels[0],
        labels[1] if len(labels) > 1 else None,
        (chances[0], chances[1] if len(chances) > 1 else 0.0),
        labels[-1] == case.y[n],
    )


def worst(case: Case) -> Iterator[Part]:
    """The sequences whose right labels have the lowest likelihood."""
    values = _likelihoods(case)
    order = np.argsort(values, kind="stable")[:_WORST].tolist()
    wrong = [n for n in order if case.y[n] != case.guess[n]]
    if not wrong:
        return
    body = "".join(_sentence(case, n, float(values[n])) for n in wrong)
    lead = "Where the right labels are least likely: what they are, and what was predicted."
    yield "worst", "Worst sentences", lead, body


def _likelihoods(case: Case) -> NDArray[np.float64]:
    """Log p(right labels | x): −∞ where one of them is none of the model's labels."""
    known = set(case.labels)
    values = np.full(len(case.y), -np.inf)
    there = [n for n, labels in enumerate(case.y) if known.issuperset(labels)]
    if there:
        pairs = [case.X[n] for n in there], [case.raw[n] for n in there]
        values[there] = case.model.log_likelihood(*pairs)
    return values


def _sentence(case: Case, n: int, value: float) -> str:
    words = case.words(n)
    gold, guess = case.spans(case.y[n]), case.spans(case.guess[n])
    if case.scheme == "plain":  # all tokens have labels: only those that differ are of interest
        gold, guess = _differing(gold, guess), _differing(guess, gold)
    rows = [("right", gold, set(gold)), ("predicted", guess, set(gold))]
    written = "".join(
        f'<div class="row"><span>{name}</span><div>{_marked(case, words, spans, right)}</div></div>'
        for name, spans, right in rows
    )
    head = f"Sequence {n} · log p(right labels) = {html.number(value, 1)}"
    if unknown := sorted({*case.y[n]} - {*case.labels}):
        head += f", for the model does not know {', '.join(unknown)}"
    return f'<div class="sentence"><div class="soft">{html.text(head)}</div>{written}</div>'


def _differing(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    return [own for own, other in zip(spans, others, strict=True) if own != other]


def _marked(case: Case, words: Sequence[str], spans: Sequence[Span], right: set[Span]) -> str:
    """The words, with coloured spans and their labels; dashed those that are not right."""
    pieces, at = [], 0
    for span in spans:
        pieces += [_words(words[at : span.start])] if span.start > at else []
        colour = case.kinds.index(span.label) % _COLOURS
        kind = f"c{colour}" if span in right else f"c{colour} wrong"
        label = f"<small>{html.text(span.label)}</small>" if span.label else ""
        inside = _words(words[span.start : span.end])
        pieces.append(f'<mark class="{kind}">{inside}{label}</mark>')
        at = span.end
    pieces += [_words(words[at:])] if at < len(words) else []
    return " ".join(pieces)


def _words(words: Sequence[str]) -> str:
    return " ".join(f"<bdi>{html.text(word)}</bdi>" for word in words)
