"""`trellis eval`: how good a model is on a file with labels, and where it is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from trellis import metrics
from trellis.app.models import columns_of, open_model
from trellis.app.tag import spans_of
from trellis.app.terminal import show, show_json
from trellis.data import corpus, tags
from trellis.errors import FormatError

__all__ = ["read_for", "run"]


def run(
    model: Path,
    data: Path,
    *,
    format: str | None = None,
    layout: corpus.Columns | None = None,
    confusions: int = 10,
    worst: int = 5,
    jobs: int | None = None,
    as_json: bool = False,
) -> None:
    """Print scores, confusions and the sentences that the model is most wrong about."""
    found = open_model(model, jobs)
    X, y = read_for(found, model, data, format, layout)
    predicted = found.predict(X)
    scheme = tags.detect([str(label) for label in found.classes_], otherwise="plain")
    result = _result(y, predicted, scheme, confusions)
    result["worst"] = _worst(found, X, y, predicted, worst)
    if as_json:
        show_json({"model": str(model), "data": str(data), **result})
        return
    show(f"{model} on {data}: {len(X):,} sequences, {sum(map(len, X)):,} tokens\n")
    _print_scores(result)
    _print_confusions(result["confusions"])
    _print_worst(result["worst"], scheme)


def read_for(
    model: Any, path: Path, data: Path, format: str | None, layout: corpus.Columns | None
) -> tuple[list[Any], list[list[str]]]:
    """The sequences of a file with labels, in the shape that a model takes."""
    width = columns_of(model, path)
    X, y = corpus.read(data, format, layout)
    found = corpus.width_of(X)
    if found < width:
        raise FormatError(f"{data}: tokens of {found} columns, but the model takes {width}")
    if found > width:
        X = [[t[0] if width == 1 else t[:width] for t in x] for x in X]
    return X, y


def _result(y: Any, predicted: Any, scheme: str, most: int) -> dict[str, Any]:
    report = (
        metrics.label_report(y, predicted)
        if scheme == "plain"
        else metrics.span_scores(y, predicted, scheme)
    )
    labels, matrix = metrics.confusion(y, predicted)
    wrong = matrix - np.diag(matrix.diagonal())
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    cells = [(int(a), int(b)) for a, b in zip(*np.unravel_index(order, wrong.shape), strict=True)]
    return {
        "scheme": scheme,
        "accuracy": metrics.accuracy(y, predicted),
        "sequence_accuracy": metrics.sequence_accuracy(y, predicted),
        "per_label": {name: own._asdict() for name, own in report.per_label.items()},
        "micro": report.micro._asdict(),
        "macro": report.macro._asdict(),
        "confusions": [
            {"true": labels[a], "predicted": labels[b], "count": int(wrong[a, b])}
            for a, b in cells
            if wrong[a, b]
        ],
    }


def _worst(model: Any, X: Any, y: Any, predicted: Any, most: int) -> list[dict[str, Any]]:
    """The sequences whose true labels are least probable, each position counted alike."""
    known = set(model.classes_.tolist())
    rows = [n for n, own in enumerate(y) if own != predicted[n] and known.issuperset(own)]
    if not rows or not most:
        return []
    chances = model.log_likelihood([X[n] for n in rows], [y[n] for n in rows])
    order = np.argsort(chances / [len(y[n]) for n in rows], kind="stable")[:most]
    return [
        {
            "sequence": rows[i] + 1,
            "log_likelihood": float(chances[i]),
            "tokens": [t if isinstance(t, str) else t[0] for t in X[rows[i]]],
            "true": y[rows[i]],
            "predicted": predicted[rows[i]],
        }
        for i in order.tolist()
    ]


def _print_scores(result: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("", justify="left")
    for name in ("precision", "recall", "F1", "support"):
        table.add_column(name, justify="right")
    rows = {**result["per_label"], "": None, "micro": result["micro"], "macro": result["macro"]}
    for name, own in rows.items():
        values = own.values() if own else []
        cells = [f"{v:,}" if isinstance(v, int) else f"{100 * v:.2f}" for v in values]
        table.add_row(Text(name, style="bold" if name == "micro" else ""), *cells)
    show(table)
    show(
        f"\ntoken accuracy {100 * result['accuracy']:.2f}, "
        f"whole sequences right {100 * result['sequence_accuracy']:.2f}"
    )


def _print_confusions(confusions: list[dict[str, Any]]) -> None:
    if not confusions:
        return
    table = Table(box=None, pad_edge=False, title="\nmost frequent mistakes", title_justify="left")
    table.add_column("true")
    table.add_column("predicted")
    table.add_column("times", justify="right")
    for own in confusions:
        table.add_row(Text(own["true"]), Text(own["predicted"]), f"{own['count']:,}")
    show(table)


def _print_worst(worst: list[dict[str, Any]], scheme: str) -> None:
    if not worst:
        return
    show("\nleast probable true labels")
    for own in worst:
        head = f"sequence {own['sequence']}, log p = {own['log_likelihood']:.1f}"
        show(Text(head, style="dim"))
        right = set(spans_of(own["true"], scheme)) & set(spans_of(own["predicted"], scheme))
        for name in ("true", "predicted"):
            line = Text(f"  {name:10}")
            line.append(_painted(own["tokens"], spans_of(own[name], scheme), right))
            show(line)


def _painted(words: list[str], spans: list[tags.Span], right: set[tags.Span]) -> Text:
    line = Text()
    begins, ends = {s.start: s for s in spans}, {s.end: s for s in spans}
    for t, word in enumerate([*words, ""]):
        if t in ends:
            line.append(f"]({ends[t].label})", style="green" if ends[t] in right else "red")
        line.append(" " if 0 < t < len(words) else "")
        if t in begins:
            line.append("[", style="green" if begins[t] in right else "red")
        line.append(word)
    return line
