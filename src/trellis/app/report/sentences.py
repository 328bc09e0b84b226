"""Sentences of a report: trellises of instructive examples, and the worst predictions."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.app.report import html
from trellis.app.report.evaluation import Evaluation
from trellis.app.report.html import Part
from trellis.data.tags import Span
from trellis.plots import lattice
from trellis.plots.interactive import embed, modules_once, sentence_payload

__all__ = ["render_trellises", "render_worst"]

# Smallest and largest number of tokens of a drawn sequence. The first range that contains a
# sequence is used.
_LENGTHS = ((5, 16), (2, 30), (1, 60))
_MAX_CANDIDATES = 400  # computing the two best paths of more sequences would be slow
_WORST = 8  # sentences shown
_COLOURS = 6  # CSS classes c0 to c5 in html.py


class Candidate(NamedTuple):
    """A sequence that may be drawn, with its two best labellings."""

    n: int
    """Index of the sequence."""
    correct: bool
    span_labels: int
    """Number of different span labels."""
    best: list[str]
    second: list[str] | None
    probabilities: tuple[float, float]
    """The probabilities of the best and of the second best labelling."""
    second_is_correct: bool


class _Example(NamedTuple):
    title: str
    accepts: Callable[[Candidate], bool]
    rank: Callable[[Candidate], Any]
    """The candidate with the largest rank is drawn."""


_EXAMPLES = (
    _Example("Correct, but uncertain", lambda c: c.correct, lambda c: c.probabilities[1]),
    _Example(
        "Wrong",
        lambda c: not c.correct,
        lambda c: (c.second_is_correct, c.probabilities[1]),
    ),
    _Example(
        "Correct and certain",
        lambda c: c.correct,
        lambda c: (min(c.span_labels, 3), round(c.probabilities[0], 1), len(c.best)),
    ),
)


def render_trellises(evaluation: Evaluation, count: int) -> Iterator[Part]:
    """Yield trellises of ``count`` instructive sequences, chosen by `_EXAMPLES` in turn."""
    titled_examples = _choose_examples(evaluation, count)
    if not titled_examples:
        return
    labels = evaluation.labels
    order = sorted(range(len(labels)), key=lambda n: evaluation.sort_key(labels[n]))
    names = [labels[n] for n in order]
    body = ""
    for title, example in titled_examples:
        n, (best, second) = example.n, example.probabilities
        marginals = evaluation.model.predict_marginals([evaluation.X[n]])[0][:, order]
        paths = example.best, example.second, evaluation.y[n]
        drawing = lattice(evaluation.words(n), names, marginals, *paths)
        figure = _make_interactive(evaluation, n, html.figure(drawing))
        text = f"The best path has probability {best:.3f}"
        text += f", the second best {second:.3f}." if example.second else "."
        body += (
            f"<h3>{html.text(title)}</h3><p class='soft'>{html.text(text)} "
            f"Sequence {n}.</p>{figure}"
        )
    scripts = modules_once() if _has_label_scores(evaluation.model) else ""
    introduction = (
        "Every label at every token; a darker circle is more probable. A labelling is a path from "
        "left to right. Labels with a probability below 1 % at every token are omitted. "
        "Click a circle to pin or forbid its label: the rest is labelled again."
    )
    yield "trellises", "Trellises", introduction, body + scripts


def _make_interactive(evaluation: Evaluation, n: int, figure: str) -> str:
    """Return the lattice of sequence n; the figure is for readers without JavaScript."""
    if not _has_label_scores(evaluation.model):
        return figure
    facts = {"name": f"Sequence {n}", "gold": evaluation.y[n]}
    scores = evaluation.model.scores([evaluation.X[n]])
    payload = sentence_payload(evaluation.words(n), evaluation.labels, scores, **facts)
    return embed(payload, figure, f"sequence-{n}")


def _has_label_scores(model: Any) -> bool:
    """Return whether ``model.scores`` has a column for each label, which the page needs.

    A model of the user may have no scores, and those of second order have columns for label pairs.
    """
    return hasattr(model, "scores") and getattr(model, "order", 1) == 1


def _choose_examples(evaluation: Evaluation, count: int) -> list[tuple[str, Candidate]]:
    candidates = _find_candidates(evaluation) if count > 0 else []
    titled_examples: list[tuple[str, Candidate]] = []
    examples = cycle(_EXAMPLES)
    while candidates and len(titled_examples) < count:
        example = next(examples)
        if matches := [candidate for candidate in candidates if example.accepts(candidate)]:
            titled_examples.append((example.title, max(matches, key=example.rank)))
            candidates.remove(titled_examples[-1][1])
    return titled_examples


def _find_candidates(evaluation: Evaluation) -> list[Candidate]:
    """Return correct and wrong sequences that are short enough to draw."""
    for min_length, max_length in _LENGTHS:
        indices_in_range = [
            n for n, y in enumerate(evaluation.y) if min_length <= len(y) <= max_length
        ]
        if indices_in_range:
            break
    indices: list[int] = []
    for is_correct in (True, False):
        group = [
            n
            for n in indices_in_range
            if (evaluation.y[n] == evaluation.predicted[n]) == is_correct
        ]
        # A step larger than 1 takes the candidates from all parts of the data.
        indices += group[:: 1 + len(group) // _MAX_CANDIDATES]
    paths = evaluation.model.predict_kbest([evaluation.X[n] for n in indices], 2)
    return [_make_candidate(evaluation, n, pair) for n, pair in zip(indices, paths, strict=True)]


def _make_candidate(evaluation: Evaluation, n: int, paths: Sequence[Any]) -> Candidate:
    labels = [[str(label) for label in path.labels] for path in paths]
    probabilities = [path.probability for path in paths]
    true_labels = evaluation.y[n]
    return Candidate(
        n=n,
        correct=labels[0] == true_labels,
        span_labels=len({span.label for span in evaluation.spans(true_labels)}),
        best=labels[0],
        second=labels[1] if len(labels) > 1 else None,
        probabilities=(probabilities[0], probabilities[1] if len(probabilities) > 1 else 0.0),
        second_is_correct=labels[-1] == true_labels,
    )


def render_worst(evaluation: Evaluation) -> Iterator[Part]:
    """Yield the wrong sequences whose true labels have the lowest likelihood."""
    log_likelihoods = _compute_log_likelihoods(evaluation)
    order = np.argsort(log_likelihoods, kind="stable")[:_WORST].tolist()
    wrong_sequences = [n for n in order if evaluation.y[n] != evaluation.predicted[n]]
    if not wrong_sequences:
        return
    body = "".join(
        _render_sentence(evaluation, n, float(log_likelihoods[n])) for n in wrong_sequences
    )
    introduction = "The sentences whose true labels are least likely, with the predicted labels."
    yield "worst", "Worst sentences", introduction, body


def _compute_log_likelihoods(evaluation: Evaluation) -> NDArray[np.float64]:
    """log p(true labels | x), shape (sequences,). It is −∞ if the model does not know a label."""
    model_labels = set(evaluation.labels)
    values = np.full(len(evaluation.y), -np.inf)
    known_sequences = [
        n for n, labels in enumerate(evaluation.y) if model_labels.issuperset(labels)
    ]
    if known_sequences:
        X, y = (
            [evaluation.X[n] for n in known_sequences],
            [evaluation.raw[n] for n in known_sequences],
        )
        values[known_sequences] = evaluation.model.log_likelihood(X, y)
    return values


def _render_sentence(evaluation: Evaluation, n: int, log_likelihood: float) -> str:
    words = evaluation.words(n)
    true_spans, predicted_spans = (
        evaluation.spans(evaluation.y[n]),
        evaluation.spans(evaluation.predicted[n]),
    )
    if evaluation.scheme == "plain":  # every token has a label: show only the differences
        true_spans, predicted_spans = (
            _select_differing(true_spans, predicted_spans),
            _select_differing(predicted_spans, true_spans),
        )
    rows = "".join(
        f'<div class="row"><span>{name}</span><div>'
        f"{_mark_spans(evaluation, words, spans, set(true_spans))}</div></div>"
        for name, spans in (("true", true_spans), ("predicted", predicted_spans))
    )
    head = f"Sequence {n} · log p(true labels) = {html.number(log_likelihood, 1)}"
    if unknown_labels := sorted({*evaluation.y[n]} - {*evaluation.labels}):
        head += f", because the model does not know {', '.join(unknown_labels)}"
    return f'<div class="sentence"><div class="soft">{html.text(head)}</div>{rows}</div>'


def _select_differing(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    return [span for span, other_span in zip(spans, others, strict=True) if span != other_span]


def _mark_spans(
    evaluation: Evaluation, words: Sequence[str], spans: Sequence[Span], correct: set[Span]
) -> str:
    """Return HTML of the words with coloured spans and labels; wrong spans are dashed."""
    pieces, position = [], 0
    for span in spans:
        pieces += [_escape(words[position : span.start])] if span.start > position else []
        colour = evaluation.span_labels.index(span.label) % _COLOURS
        css_class = f"c{colour}" if span in correct else f"c{colour} wrong"
        label = f"<small>{html.text(span.label)}</small>" if span.label else ""
        span_html = _escape(words[span.start : span.end])
        pieces.append(f'<mark class="{css_class}">{span_html}{label}</mark>')
        position = span.end
    pieces += [_escape(words[position:])] if position < len(words) else []
    return " ".join(pieces)


def _escape(words: Sequence[str]) -> str:
    """Return words as HTML. Without <bdi>, right-to-left words would reorder the sentence."""
    return " ".join(f"<bdi>{html.text(word)}</bdi>" for word in words)
