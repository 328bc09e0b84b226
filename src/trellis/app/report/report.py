"""What a model knows and how well it labels: one HTML page that needs nothing from elsewhere."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import trellis
from trellis.app.models import count_weights, linear_part
from trellis.app.report import html
from trellis.app.report.case import Case
from trellis.app.report.html import Part
from trellis.app.report.sentences import examples, worst
from trellis.metrics import Scores, accuracy, sequence_accuracy
from trellis.plots import curves, heat_map

__all__ = ["report"]

_KINDS = {
    "CRF": "conditional random field",
    "MEMM": "maximum entropy Markov model",
    "HMM": "hidden Markov model",
    "NeuralTagger": "network of words and characters",
}
# how much is shown at once
_SCORES = 20
_CONFUSIONS = 15
_TRANSITIONS = 30
_CARDS = 12
_FEATURES = (8, 5)  # those that speak for a label and against it


def report(
    model: Any,
    X: Any,
    y: Any,
    *,
    title: str | None = None,
    source: str | None = None,
    sentences: int = 3,
) -> str:
    """A page about a fitted sequence model, measured on X and its labels y.

    ``source`` says where the data is from. ``sentences`` is how many trellises to draw.

    >>> from trellis import HMM
    >>> X, y = [["dog", "barks"], ["cat", "sleeps"]], [["N", "V"]] * 2
    >>> page = report(HMM().fit(X, y), X, y, title="Animals")
    >>> page[:15], "<h1>Animals</h1>" in page
    ('<!DOCTYPE html>', True)
    """
    case = Case.of(model, X, y)
    parts = [
        *_scores(case),
        *_confusions(case),
        *examples(case, sentences),
        *worst(case),
        *_learning(case),
        *_transitions(case),
        *_features(case),
    ]
    title = title or f"{type(model).__name__}: report"
    links = "".join(f'<a href="#{anchor}">{html.text(name)}</a>' for anchor, name, _, _ in parts)
    body = "\n".join(html.section(*part) for part in parts)
    foot = (
        "Sequences count from 0. F1 = 2 · precision · recall / (precision + recall). "
        f"Made with trellis {trellis.__version__}."
    )
    return html.page(
        title,
        f"<header><div><h1>{html.text(title)}</h1>{_about(case, source)}<nav>{links}</nav></div>"
        f"</header>\n<main>\n{_headline(case)}\n{body}\n</main>\n<footer>{html.text(foot)}</footer>",
    )


def _about(case: Case, source: str | None) -> str:
    """Where the data is from, what the model is, and how it was trained."""
    model = case.model
    size = f"{len(case.y):,} sequences, {sum(map(len, case.y)):,} tokens"
    kind = type(model).__name__
    facts = {"model": f"{kind}, {_KINDS[kind]}" if kind in _KINDS else kind}
    labels = f"{len(case.labels):,}"
    if case.scheme != "plain":
        labels += f", {len(case.kinds):,} kinds of spans ({case.scheme})"
    facts["labels"] = labels
    if (linear := linear_part(model)) is not None:
        facts["features"] = f"{len(linear.features_):,}"
    if (weights := count_weights(model)) is not None:
        facts["weights"] = f"{weights:,}"
    facts |= _training(model)
    listed = "".join(
        f"<div><dt>{html.text(name)}</dt><dd>{html.text(value)}</dd></div>"
        for name, value in facts.items()
    )
    where = f"measured on {source}: {size}" if source else f"measured on {size}"
    return f'<p class="soft">{html.text(where)}</p><dl class="facts">{listed}</dl>'


def _training(model: Any) -> dict[str, str]:
    facts: dict[str, str] = {}
    if hasattr(model, "solver"):
        strengths = {name: getattr(model, name) for name in ("l2", "l1")}
        penalties = [f"{name} = {value:g}" for name, value in strengths.items() if value]
        facts["solver"] = ", ".join([model.solver, *penalties])
    if hasattr(model, "smoothing"):
        facts["smoothing"] = f"{model.smoothing:g}, transitions {model.transition_smoothing:g}"
    if hasattr(model, "network_"):
        last = model.history_[-1]
        facts["head"] = str(model.head)
        facts["epochs"] = f"{model.n_iter_:,}, {last.tokens_per_second:,.0f} tokens/s"
        facts["loss"] = html.number(last.loss, 4)
    elif getattr(model, "n_iter_", 0):
        ended = "converged" if getattr(model, "converged_", False) else "not converged"
        facts["iterations"] = f"{model.n_iter_:,}, {ended}"
    if hasattr(model, "objective_") and np.isfinite(model.objective_):
        facts["loss"] = html.number(model.objective_, 2)
    return facts


def _headline(case: Case) -> str:
    """The numbers that are looked for first."""
    cards: list[tuple[str, float, str]] = []
    if case.scheme != "plain":
        cards += [
            ("span F1", case.scores.f1, f"{case.scores.support:,} spans"),
            ("precision", case.scores.precision, "of the spans that were found"),
            ("recall", case.scores.recall, "of the spans that are there"),
        ]
    cards += [
        ("token accuracy", accuracy(case.y, case.guess), f"{sum(map(len, case.y)):,} tokens"),
        ("sequence accuracy", sequence_accuracy(case.y, case.guess), "without any mistake"),
    ]
    written = [
        f'<div class="card{" first" if n == 0 else ""}"><span>{html.text(name)}</span>'
        f"<b>{100 * value:.2f}<small> %</small></b><span>{html.text(note)}</span></div>"
        for n, (name, value, note) in enumerate(cards)
    ]
    return f'<div class="cards">{"".join(written)}</div>'


def _scores(case: Case) -> Iterator[Part]:
    """Precision, recall and F1 of each label, the most frequent first."""
    found = case.scores
    rows = sorted(found.per_label.items(), key=lambda item: (-item[1].support, item[0]))
    counted = "tokens" if case.scheme == "plain" else "spans"
    head = ["label", "F1", "precision", "recall", counted]
    lines = [_score_line(label, scores) for label, scores in rows]
    body = html.table(head, lines[:_SCORES], right=[2, 3, 4])
    rest = html.table(head, lines[_SCORES:], right=[2, 3, 4])
    body += _more(len(lines) - _SCORES, rest)
    lead = (
        f"In percent. F1 of all together is {100 * found.f1:.1f}, the mean over the labels "
        f"{100 * found.macro.f1:.1f}."
    )
    yield "labels", "Scores by label", lead, body


def _more(count: int, rest: str) -> str:
    """What is there too, but folded away."""
    if count <= 0:
        return ""
    return f"<details><summary>{count:,} rarer labels</summary>{rest}</details>"


def _score_line(label: str, scores: Scores) -> list[str]:
    return [
        html.text(label or "_"),
        f"{html.bar(scores.f1)}{100 * scores.f1:.1f}",
        f"{100 * scores.precision:.1f}",
        f"{100 * scores.recall:.1f}",
        f"{scores.support:,}",
    ]


def _confusions(case: Case) -> Iterator[Part]:
    """Which label was taken for which, most often."""
    pairs: Counter[tuple[str, str]] = Counter()
    words: dict[tuple[str, str], Counter[str]] = {}
    for n, (gold, guess) in enumerate(zip(case.y, case.guess, strict=True)):
        if gold == guess:
            continue
        for word, pair in zip(case.words(n), zip(gold, guess, strict=True), strict=True):
            if pair[0] != pair[1]:
                pairs[pair] += 1
                words.setdefault(pair, Counter())[word] += 1
    if not pairs:
        return
    most = max(pairs.values())
    rows = [
        [
            f'{html.text(true)} <span class="soft">→</span> {html.text(said)}',
            f"{html.bar(n / most, 'minus')}{n:,}",
            f"{100 * n / case.counts[true]:.1f} %",
            " ".join(f"<code>{html.text(word)}</code>" for word in _commonest(words[true, said])),
        ]
        for (true, said), n in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    ]
    head = ["right → predicted", "tokens", "of all such", "for example"]
    lead = f"{pairs.total():,} tokens in {len(pairs):,} ways; the most frequent ones."
    body = html.table(head, rows[:_CONFUSIONS], right=[2])
    yield "confusions", "What is taken for what", lead, body


def _commonest(words: Counter[str]) -> list[str]:
    return sorted(words, key=lambda word: (-words[word], word))[:4]


def _learning(case: Case) -> Iterator[Part]:
    """Loss and development score after each iteration, where the model remembers them."""
    charts, unit = [], "epoch" if hasattr(case.model, "network_") else "iteration"
    for name, points in (
        ("loss", getattr(case.model, "losses_", None)),
        ("development score", getattr(case.model, "dev_scores_", None)),
    ):
        finite = [(n, value) for n, value in points or () if np.isfinite(value)]
        if len(finite) > 1:
            drawing = curves({name: finite}, unit, name, size=(520.0, 300.0))
            charts.append(html.figure(drawing, fits=True))
    if charts:
        yield "learning", "Learning curve", "", f'<div class="pair">{"".join(charts)}</div>'


def _transitions(case: Case) -> Iterator[Part]:
    """The heat map of label bigrams."""
    if not hasattr(case.model, "transition_scores"):
        return
    matrix, what = np.asarray(case.model.transition_scores()), "weights"
    if not matrix.any():  # a softmax has none
        return
    if case.is_hmm:
        matrix, what = np.exp(matrix), "probabilities"
    shown = case.frequent(_TRANSITIONS)
    names = [case.labels[n] for n in shown]
    lead = f"The {what} of a label (across) after the label before it (down)."
    if len(shown) < len(case.labels):
        lead += f" The {len(shown)} most frequent of {len(case.labels):,} labels."
    drawing = heat_map(matrix[np.ix_(shown, shown)], names, names, x="label", y="label before")
    yield "transitions", "Transitions", lead, html.figure(drawing)


def _features(case: Case) -> Iterator[Part]:
    """What speaks for each label, and against it; of an HMM, what a label shows."""
    linear = linear_part(case.model)
    if not hasattr(linear, "top_features"):
        return
    found: dict[str, list[tuple[str, float]]] = {}
    for label, feature, weight in linear.top_features(10 * sum(_FEATURES)):
        if case.is_hmm:
            weight = np.exp(weight)
        found.setdefault(str(label), []).append((str(feature), float(weight)))
    first = case.frequent(_CARDS)
    others = [n for n in case.frequent(len(case.labels)) if n not in first]
    cards, rest = (
        [_feature_card(label, found[label]) for n in some if (label := case.labels[n]) in found]
        for some in (first, others)
    )
    if not cards:
        return
    body = f'<div class="labels">{"".join(cards)}</div>'
    body += _more(len(rest), f'<div class="labels">{"".join(rest)}</div>')
    lead = "What speaks most for each label, and most against it, with its weight."
    if case.is_hmm:
        lead = "What each label shows most often, with its probability."
    yield "features", "Features", lead, body


def _feature_card(label: str, weights: Sequence[tuple[str, float]]) -> str:
    ranked = sorted(weights, key=lambda pair: (-abs(pair[1]), pair[0]))
    most = abs(ranked[0][1]) or 1.0
    digits = 2 if most >= 1.0 else 3
    groups = [
        ("", [pair for pair in ranked if pair[1] > 0][: _FEATURES[0]]),
        ("minus", [pair for pair in ranked if pair[1] < 0][: _FEATURES[1]]),
    ]
    lines = "".join(
        f'<code title="{html.text(name)}">{html.text(name)}</code>'
        + html.bar(abs(weight) / most, kind)
        + f'<span class="right">{html.number(weight, digits)}</span>'
        for kind, group in groups
        for name, weight in group
    )
    return f'<div><h3>{html.text(label)}</h3><div class="weights">{lines}</div></div>'
