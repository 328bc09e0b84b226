"""`report`: one HTML page, without external files, about a model and its predictions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import trellis
from trellis.app.report import html
from trellis.app.report.evaluation import Evaluation
from trellis.app.report.html import Part
from trellis.app.report.sentences import render_trellises, render_worst
from trellis.metrics import Scores, accuracy, sequence_accuracy
from trellis.models.description import Description
from trellis.plots import curves, heat_map

__all__ = ["report"]

_MODEL_NAMES = {
    "CRF": "conditional random field",
    "MEMM": "maximum entropy Markov model",
    "HMM": "hidden Markov model",
    "NeuralTagger": "neural network over words and characters",
}
# Sizes of the sections before the reader unfolds them: each fills about one screen.
_SCORE_ROWS = 20
_CONFUSION_ROWS = 15
_TRANSITION_LABELS = 30
_FEATURE_CARDS = 12
_FEATURES_FOR, _FEATURES_AGAINST = 8, 5
_FOOT = (
    "Sequences are numbered from 0. F1 = 2 · precision · recall / (precision + recall). "
    f"Made with trellis {trellis.__version__}."
)


def report(
    model: Any,
    X: Any,
    y: Any,
    *,
    title: str | None = None,
    source: str | None = None,
    sentences: int = 3,
) -> str:
    """Return an HTML page about a fitted sequence model, evaluated on X and its labels y.

    ``source`` is the name of the data, ``sentences`` the number of trellises to draw.

    >>> from trellis import HMM
    >>> X, y = [["dog", "barks"], ["cat", "sleeps"]], [["N", "V"]] * 2
    >>> page = report(HMM().fit(X, y), X, y, title="Animals")
    >>> page[:15], "<h1>Animals</h1>" in page
    ('<!DOCTYPE html>', True)
    """
    evaluation = Evaluation.of(model, X, y)
    parts = [
        *_render_scores(evaluation),
        *_render_confusions(evaluation),
        *render_trellises(evaluation, sentences),
        *render_worst(evaluation),
        *_render_learning_curve(evaluation.description),
        *_render_transitions(evaluation),
        *_render_features(evaluation),
    ]
    title = title or f"{type(model).__name__}: report"
    links = "".join(f'<a href="#{anchor}">{html.text(name)}</a>' for anchor, name, _, _ in parts)
    body = "\n".join(html.section(*section_parts) for section_parts in parts)
    header = f"<h1>{html.text(title)}</h1>{_render_facts(evaluation, source)}<nav>{links}</nav>"
    return html.page(
        title,
        f"<header><div>{header}</div></header>\n"
        f"<main>\n{_render_headline(evaluation)}\n{body}\n</main>\n"
        f"<footer>{html.text(_FOOT)}</footer>",
    )


def _render_facts(evaluation: Evaluation, source: str | None) -> str:
    """Return the facts about data, model and training as an HTML definition list."""
    description = evaluation.description
    class_name = type(evaluation.model).__name__
    long_name = _MODEL_NAMES.get(class_name)
    facts = {"model": f"{class_name}, {long_name}" if long_name else class_name}
    facts["labels"] = f"{len(evaluation.labels):,}"
    if evaluation.scheme != "plain":
        count = len(evaluation.span_labels)
        facts["labels"] += f", {count:,} kinds of spans ({evaluation.scheme})"
    if description.linear is not None:
        facts["features"] = f"{len(description.linear.features_):,}"
    if description.weights is not None:
        facts["weights"] = f"{description.weights:,}"
    facts |= description.settings | _describe_training(description)
    items = "".join(
        f"<div><dt>{html.text(name)}</dt><dd>{html.text(value)}</dd></div>"
        for name, value in facts.items()
    )
    size = f"{len(evaluation.y):,} sequences, {sum(map(len, evaluation.y)):,} tokens"
    data = f"evaluated on {source}: {size}" if source else f"evaluated on {size}"
    return f'<p class="soft">{html.text(data)}</p><dl class="facts">{items}</dl>'


def _describe_training(description: Description) -> dict[str, str]:
    facts: dict[str, str] = {}
    if description.unit == "epoch":
        speed = f"{description.tokens_per_second:,.0f} tokens/s"
        facts["epochs"] = f"{description.steps:,}, {speed}"
    elif description.steps:
        convergence = "converged" if description.converged else "not converged"
        facts["iterations"] = f"{description.steps:,}, {convergence}"
    if description.loss is not None and np.isfinite(description.loss):
        # The loss of an epoch is a mean per token, the loss of an iteration is a sum.
        digits = 4 if description.unit == "epoch" else 2
        facts["loss"] = html.number(description.loss, digits)
    return facts


def _render_headline(evaluation: Evaluation) -> str:
    """Return the main scores as cards."""
    y, predicted, scores = evaluation.y, evaluation.predicted, evaluation.scores
    cards: list[tuple[str, float, str]] = []
    if evaluation.scheme != "plain":
        cards += [
            ("span F1", scores.f1, f"{scores.support:,} true spans"),
            ("precision", scores.precision, "of the predicted spans"),
            ("recall", scores.recall, "of the true spans"),
        ]
    cards += [
        ("token accuracy", accuracy(y, predicted), f"{sum(map(len, y)):,} tokens"),
        ("sequence accuracy", sequence_accuracy(y, predicted), "without any mistake"),
    ]
    divs = [
        f'<div class="card{" first" if n == 0 else ""}"><span>{html.text(name)}</span>'
        f"<b>{100 * value:.2f}<small> %</small></b><span>{html.text(note)}</span></div>"
        for n, (name, value, note) in enumerate(cards)
    ]
    return f'<div class="cards">{"".join(divs)}</div>'


def _render_scores(evaluation: Evaluation) -> Iterator[Part]:
    """Yield precision, recall and F1 of each label, the most frequent first."""
    scores = evaluation.scores
    labels = sorted(scores.per_label.items(), key=lambda item: (-item[1].support, item[0]))
    head = ["label", "F1", "precision", "recall"]
    head.append("tokens" if evaluation.scheme == "plain" else "spans")
    rows = [_format_score_row(label, label_scores) for label, label_scores in labels]
    body = html.table(head, rows[:_SCORE_ROWS], right=[2, 3, 4])
    rare_table = html.table(head, rows[_SCORE_ROWS:], right=[2, 3, 4])
    body += _make_details(len(rows) - _SCORE_ROWS, rare_table)
    introduction = (
        f"In percent. F1 over all labels is {100 * scores.f1:.1f}, the mean of the labels' F1 "
        f"is {100 * scores.macro.f1:.1f}."
    )
    yield "labels", "Scores by label", introduction, body


def _make_details(count: int, body: str) -> str:
    """Return HTML for ``count`` rarer labels that the reader can unfold, or "" if count ≤ 0."""
    if count <= 0:
        return ""
    return f"<details><summary>{count:,} rarer labels</summary>{body}</details>"


def _format_score_row(label: str, scores: Scores) -> list[str]:
    return [
        html.text(label or "_"),
        f"{html.bar(scores.f1)}{100 * scores.f1:.1f}",
        f"{100 * scores.precision:.1f}",
        f"{100 * scores.recall:.1f}",
        f"{scores.support:,}",
    ]


def _render_confusions(evaluation: Evaluation) -> Iterator[Part]:
    """Yield the most frequent pairs (true label, wrong label), with examples of words."""
    words: dict[tuple[str, str], Counter[str]] = {}
    for n, (true, predicted) in enumerate(zip(evaluation.y, evaluation.predicted, strict=True)):
        if true != predicted:
            for word, *pair in zip(evaluation.words(n), true, predicted, strict=True):
                if pair[0] != pair[1]:
                    words.setdefault((pair[0], pair[1]), Counter())[word] += 1
    if not words:
        return
    counts = {pair: word_counts.total() for pair, word_counts in words.items()}
    max_count = max(counts.values())
    rows = [
        [
            f'{html.text(true)} <span class="soft">→</span> {html.text(predicted)}',
            f"{html.bar(n / max_count, 'minus')}{n:,}",
            f"{100 * n / evaluation.label_counts[true]:.1f} %",
            " ".join(
                f"<code>{html.text(w)}</code>" for w in _find_commonest(words[true, predicted])
            ),
        ]
        for (true, predicted), n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    head = ["true → predicted", "tokens", "of the true label", "examples"]
    introduction = (
        f"{sum(counts.values()):,} wrong tokens, {len(counts):,} different pairs of labels. The "
        "table has the most frequent pairs."
    )
    body = html.table(head, rows[:_CONFUSION_ROWS], right=[2])
    yield "confusions", "Confused labels", introduction, body


def _find_commonest(words: Counter[str]) -> list[str]:
    return sorted(words, key=lambda word: (-words[word], word))[:4]


def _render_learning_curve(description: Description) -> Iterator[Part]:
    """Yield the loss and the development score over the steps of training."""
    charts = []
    for name, points in (
        ("loss", description.losses),
        ("development score", description.dev_scores),
    ):
        finite_points = [(n, value) for n, value in points if np.isfinite(value)]
        if len(finite_points) > 1:
            drawing = curves({name: finite_points}, description.unit, name, size=(520.0, 300.0))
            charts.append(html.figure(drawing, fits=True))
    if charts:
        yield "learning", "Learning curve", "", f'<div class="pair">{"".join(charts)}</div>'


def _render_transitions(evaluation: Evaluation) -> Iterator[Part]:
    """Yield a heat map of label pairs."""
    matrix, title = np.asarray(evaluation.model.transition_scores()), "Weights"
    if not matrix.any():  # a softmax head has no transitions
        return
    if evaluation.description.has_probabilities:
        matrix, title = np.exp(matrix), "Probabilities"
    indices = evaluation.most_frequent(_TRANSITION_LABELS)
    names = [evaluation.labels[n] for n in indices]
    introduction = f"{title} of a label (columns) after the previous label (rows)."
    if len(indices) < len(evaluation.labels):
        caption = f"{len(indices)} most frequent of {len(evaluation.labels):,} labels"
        introduction += f" The {caption}."
    cells = matrix[np.ix_(indices, indices)]
    drawing = heat_map(cells, names, names, x="label", y="previous label")
    yield "transitions", "Transitions", introduction, html.figure(drawing)


def _render_features(evaluation: Evaluation) -> Iterator[Part]:
    """Yield a card per label with its strongest features, or the likeliest symbols of an HMM."""
    linear = evaluation.description.linear
    if linear is None:
        return
    is_hmm = evaluation.description.has_probabilities
    weights: dict[str, list[tuple[str, float]]] = {}
    # The ranking is by absolute value, and a card needs features of both signs. So ten times as
    # many features are ranked as are shown.
    for label, feature, weight in linear.top_features(10 * (_FEATURES_FOR + _FEATURES_AGAINST)):
        value = float(np.exp(weight) if is_hmm else weight)
        weights.setdefault(str(label), []).append((str(feature), value))
    frequent_indices = evaluation.most_frequent(_FEATURE_CARDS)
    rare_indices = [
        n for n in evaluation.most_frequent(len(evaluation.labels)) if n not in frequent_indices
    ]
    cards, rare_cards = (
        [
            _render_feature_card(label, weights[label])
            for n in indices
            if (label := evaluation.labels[n]) in weights
        ]
        for indices in (frequent_indices, rare_indices)
    )
    if not cards:
        return
    body = f'<div class="labels">{"".join(cards)}</div>'
    body += _make_details(len(rare_cards), f'<div class="labels">{"".join(rare_cards)}</div>')
    introduction = "The strongest features for and against each label, with their weights."
    if is_hmm:
        introduction = "The most probable symbols of each label, with their probabilities."
    yield "features", "Features", introduction, body


def _render_feature_card(label: str, weights: Sequence[tuple[str, float]]) -> str:
    sorted_weights = sorted(weights, key=lambda pair: (-abs(pair[1]), pair[0]))
    max_weight = abs(sorted_weights[0][1]) or 1.0
    digits = 2 if max_weight >= 1.0 else 3
    groups = [
        ("", [pair for pair in sorted_weights if pair[1] > 0][:_FEATURES_FOR]),
        ("minus", [pair for pair in sorted_weights if pair[1] < 0][:_FEATURES_AGAINST]),
    ]
    lines = "".join(
        f'<code title="{html.text(name)}">{html.text(name)}</code>'
        + html.bar(abs(weight) / max_weight, css_class)
        + f'<span class="right">{html.number(weight, digits)}</span>'
        for css_class, group in groups
        for name, weight in group
    )
    return f'<div><h3>{html.text(label)}</h3><div class="weights">{lines}</div></div>'
