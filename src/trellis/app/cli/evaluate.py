"""``trellis eval``: print the scores and the mistakes of a model on a file with labels."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from trellis import metrics
from trellis.app.cli.declarations import Option, UsageError
from trellis.app.cli.options import (
    DataOptions,
    Decode,
    Jobs,
    Json,
    LabelledFile,
    MinProbability,
    ModelFile,
)
from trellis.app.decoding import predict_labels
from trellis.app.model_files import open_sequence_model, read_labelled
from trellis.app.tag_output import find_spans
from trellis.app.terminal import show, show_json
from trellis.app.unseen_labels import warn_of_unseen_labels
from trellis.checks import one_of
from trellis.data import tags
from trellis.models.chain.decoding import DECODERS

__all__ = ["Options", "run"]

# A threshold is chosen among spans with at least this probability.
_LEAST_PROBABILITY = 0.01


@dataclass
class Options:
    """Options of ``trellis eval``."""

    model: ModelFile
    data: LabelledFile
    reading: DataOptions = field(default_factory=DataOptions)
    confusions: Annotated[int, Option(help="Number of confused label pairs to list.", min=0)] = 10
    worst: Annotated[int, Option(help="Number of worst sequences to show.", min=0)] = 5
    decode: Decode = "viterbi"
    min_probability: MinProbability = None
    min_precision: Annotated[
        float | None,
        Option(
            help="Choose --min-probability on this file: the largest recall with at least the "
            "precision P.",
            metavar="P",
            min=0.0,
            max=1.0,
        ),
    ] = None
    best_f: Annotated[
        float | None,
        Option(
            help="Choose --min-probability on this file: the best F measure, in which recall "
            "counts BETA times as much as precision.",
            metavar="BETA",
            min=0.0,
        ),
    ] = None
    as_json: Json = False
    jobs: Jobs = None

    def __post_init__(self) -> None:
        thresholds = [self.min_probability, self.min_precision, self.best_f]
        n_thresholds = sum(value is not None for value in thresholds)
        if n_thresholds > 1:
            raise UsageError("use one of --min-probability, --min-precision and --best-f")
        if n_thresholds and self.decode != "viterbi":
            raise UsageError("--decode cannot be used with a threshold of probabilities")


def run(options: Options) -> None:
    """Evaluate a model: scores per label, confused labels, worst sequences.

    **Examples**

    `trellis eval model.trellis test.conll`

    `trellis eval model.trellis test.conll --json | jq .micro.f1`

    `trellis eval model.trellis dev.conll --min-precision 0.95` (prints the threshold for
    `trellis tag --min-probability`)
    """
    one_of(options.decode, DECODERS, "--decode")
    model = open_sequence_model(options.model, options.jobs)
    X, y = read_labelled(model, options.model, options.data, options.reading)
    unseen = warn_of_unseen_labels(options.data, y, model.classes_, options.reading)
    scheme = tags.detect([str(label) for label in model.classes_], otherwise="plain")
    min_probability = _choose_threshold(model, X, y, scheme, options)
    predicted = predict_labels(model, X, options.decode, min_probability)
    result = _compute_scores(y, predicted, scheme, options.confusions)
    result["unseen_labels"] = dict(unseen.counts)
    if min_probability is not None:
        result["min_probability"] = min_probability
    result["worst"] = _find_worst(model, X, y, predicted, options.worst)
    if options.as_json:
        show_json({"model": str(options.model), "data": str(options.data), **result})
        return
    size = f"{len(X):,} sequences, {sum(map(len, X)):,} tokens"
    show(f"{options.model} on {options.data}: {size}\n")
    _show_scores(result)
    _show_confusions(result["confusions"])
    _show_worst(result["worst"], scheme)


def _choose_threshold(model: Any, X: Any, y: Any, scheme: str, options: Options) -> float | None:
    """Return the smallest probability of spans; None to label with the decoder."""
    if options.min_precision is None and options.best_f is None:
        return options.min_probability
    beta = 1.0 if options.best_f is None else options.best_f
    spans = model.predict_spans(X, scheme, min_probability=_LEAST_PROBABILITY)
    return metrics.choose_threshold(
        y, spans, min_precision=options.min_precision, beta=beta, scheme=scheme
    ).min_probability


def _compute_scores(y: Any, predicted: Any, scheme: str, max_confusions: int) -> dict[str, Any]:
    report = (
        metrics.label_report(y, predicted)
        if scheme == "plain"
        else metrics.span_scores(y, predicted, scheme)
    )
    labels, matrix = metrics.confusion(y, predicted)
    wrong_counts = matrix - np.diag(matrix.diagonal())
    # A stable sort keeps pairs with equal counts in the order of the labels.
    order = np.argsort(-wrong_counts, axis=None, kind="stable")[:max_confusions]
    rows, columns = np.unravel_index(order, wrong_counts.shape)
    return {
        "scheme": scheme,
        "accuracy": metrics.accuracy(y, predicted),
        "sequence_accuracy": metrics.sequence_accuracy(y, predicted),
        "per_label": {name: scores._asdict() for name, scores in report.per_label.items()},
        "micro": report.micro._asdict(),
        "macro": report.macro._asdict(),
        "confusions": [
            {"true": labels[i], "predicted": labels[j], "count": int(wrong_counts[i, j])}
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
            if wrong_counts[i, j]
        ],
    }


def _find_worst(model: Any, X: Any, y: Any, predicted: Any, count: int) -> list[dict[str, Any]]:
    """Return the wrong sequences whose true labels have the lowest log p per token."""
    # A sequence with a label that the model does not know has no likelihood.
    known_labels = set(model.classes_.tolist())
    wrong_indices = [
        n
        for n, labels in enumerate(y)
        if labels != predicted[n] and known_labels.issuperset(labels)
    ]
    if not wrong_indices or not count:
        return []
    log_likelihoods = model.log_likelihood(
        [X[n] for n in wrong_indices], [y[n] for n in wrong_indices]
    )
    # The log-likelihood is divided by the length, because it is lower for longer sequences.
    order = np.argsort(log_likelihoods / [len(y[n]) for n in wrong_indices], kind="stable")[:count]
    return [
        {
            "sequence": wrong_indices[i] + 1,
            "log_likelihood": float(log_likelihoods[i]),
            "tokens": [t if isinstance(t, str) else t[0] for t in X[wrong_indices[i]]],
            "true": y[wrong_indices[i]],
            "predicted": predicted[wrong_indices[i]],
        }
        for i in order.tolist()
    ]


def _show_scores(result: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("", justify="left")
    for name in ("precision", "recall", "F1", "support"):
        table.add_column(name, justify="right")
    rows = {**result["per_label"], "": {}, "micro": result["micro"], "macro": result["macro"]}
    for name, scores in rows.items():
        cells = [f"{v:,}" if isinstance(v, int) else f"{100 * v:.2f}" for v in scores.values()]
        table.add_row(Text(name, style="bold" if name == "micro" else ""), *cells)
    show(table)
    show(
        f"\ntoken accuracy {100 * result['accuracy']:.2f}, "
        f"sequence accuracy {100 * result['sequence_accuracy']:.2f}"
    )
    if "min_probability" in result:
        show(f"spans with a probability of at least {result['min_probability']:.4f}")


def _show_confusions(confusions: list[dict[str, Any]]) -> None:
    if not confusions:
        return
    table = Table(box=None, pad_edge=False, title="\nmost frequent mistakes", title_justify="left")
    table.add_column("true")
    table.add_column("predicted")
    table.add_column("count", justify="right")
    for pair in confusions:
        table.add_row(Text(pair["true"]), Text(pair["predicted"]), f"{pair['count']:,}")
    show(table)


def _show_worst(sequences: list[dict[str, Any]], scheme: str) -> None:
    if not sequences:
        return
    show("\nsequences whose true labels are least probable")
    for entry in sequences:
        head = f"sequence {entry['sequence']}, log p = {entry['log_likelihood']:.1f}"
        show(Text(head, style="dim"))
        true_spans = set(find_spans(entry["true"], scheme))
        correct = true_spans & set(find_spans(entry["predicted"], scheme))
        for name in ("true", "predicted"):
            line = Text(f"  {name:10}")
            line.append(_mark_spans(entry["tokens"], find_spans(entry[name], scheme), correct))
            show(line)


def _mark_spans(words: list[str], spans: list[tags.Span], correct: set[tags.Span]) -> Text:
    """Return the words with brackets around the spans; correct spans are green, others red."""
    line = Text()
    starts, ends = {s.start: s for s in spans}, {s.end: s for s in spans}
    for t, word in enumerate([*words, ""]):
        if t in ends:
            line.append(f"]({ends[t].label})", style="green" if ends[t] in correct else "red")
        line.append(" " if 0 < t < len(words) else "")
        if t in starts:
            line.append("[", style="green" if starts[t] in correct else "red")
        line.append(word)
    return line
