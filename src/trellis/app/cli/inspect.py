"""``trellis inspect``: print the contents of a model file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.columns import Columns
from rich.table import Table
from rich.text import Text

from trellis.app.cli.declarations import Option
from trellis.app.cli.options import Json, ModelFile
from trellis.app.model_files import open_sequence_model
from trellis.app.terminal import show, show_json
from trellis.models.description import Description

__all__ = ["Options", "run"]

_HIDDEN_PARAMETERS = (
    *("features", "edge_features", "joint", "n_jobs", "warm_start", "device", "verbose"),
)


@dataclass
class Options:
    """Options of ``trellis inspect``."""

    model: ModelFile
    top: Annotated[
        int, Option(help="Number of features and transitions to show per label.", min=0)
    ] = 10
    label: Annotated[str | None, Option(help="Show only the features of this label.")] = None
    as_json: Json = False


def run(options: Options) -> None:
    """Show the contents of a model: size, training record, transitions, top features.

    **Examples**

    `trellis inspect model.trellis`

    `trellis inspect model.trellis --label B-LOC --top 50`
    """
    model = open_sequence_model(options.model)
    facts = model.describe()
    record = _make_record(model, facts, options.model)
    record["transitions"] = _rank_transitions(model, options.top)
    trigrams = getattr(facts.linear, "trigrams_", [])
    if trigrams:
        record["trigrams"] = [trigram._asdict() for trigram in _take_ends(trigrams, options.top)]
    if facts.linear is not None:
        features = facts.linear.top_features(options.top, options.label)
        record["features"] = [weight._asdict() for weight in features]
        edge_features = _rank_edge_features(facts.linear, options)
        if edge_features:
            record["edge_features"] = edge_features
    if options.as_json:
        show_json(record)
    else:
        _show_record(record)


def _make_record(model: Any, facts: Description, path: Path) -> dict[str, Any]:
    record: dict[str, Any] = {
        "file": str(path),
        "bytes": path.stat().st_size,
        "model": type(model).__name__,
        "labels": model.classes_.tolist(),
    }
    if facts.linear is not None:
        record["attributes"] = len(facts.linear.features_)
    if facts.weights is not None:
        record["weights"] = facts.weights
    if facts.parts:
        record["parts"] = facts.parts
    if facts.loss is not None:
        record[f"{facts.unit}s"] = facts.steps
        record["loss"] = facts.loss
        record["losses"] = facts.losses
        record["dev_scores"] = facts.dev_scores
    if facts.converged is not None:
        record["converged"] = facts.converged
    if facts.tokens_per_second is not None:
        record["tokens_per_second"] = facts.tokens_per_second
    record["parameters"] = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name not in _HIDDEN_PARAMETERS and value is not None
    }
    return record


def _take_ends(items: list[Any], count: int) -> list[Any]:
    """Return the first and the last ``count`` items."""
    # Without max, some items would be listed twice if there are fewer than 2 * count items.
    return items[:count] + items[max(count, len(items) - count) :]


def _rank_transitions(model: Any, count: int) -> list[dict[str, Any]]:
    """Return the ``count`` highest and the ``count`` lowest transition scores, highest first."""
    scores = model.transition_scores()
    labels = model.classes_.tolist()
    shown = _take_ends(np.argsort(-scores, axis=None, kind="stable").tolist(), count)
    cells = [divmod(cell, len(labels)) for cell in shown]
    return [
        {"before": labels[i], "after": labels[j], "weight": float(scores[i, j])} for i, j in cells
    ]


def _rank_edge_features(model: Any, options: Options) -> list[dict[str, Any]]:
    """Return the largest weights of features of transitions; an HMM has none."""
    if not hasattr(model, "top_edge_features"):
        return []
    weights = model.top_edge_features(options.top, after=options.label)
    return [weight._asdict() for weight in weights]


def _show_record(record: dict[str, Any]) -> None:
    show(Text.assemble((record["model"], "bold"), f"  {record['bytes'] / 1e6:.1f} MB"))
    sizes = [f"{len(record['labels'])} labels"]
    sizes += [f"{record[name]:,} {name}" for name in ("attributes", "weights") if name in record]
    show(", ".join(sizes))
    if "epochs" in record:
        show(", ".join(f"{count:,} in {name}" for name, count in record["parts"].items()))
        speed = f"{record['tokens_per_second']:,.0f} tokens/s"
        show(f"{record['epochs']} epochs, loss {record['loss']:.4f}, {speed}")
    if "iterations" in record:
        ending = "converged" if record["converged"] else "not converged"
        show(f"{record['iterations']} iterations, loss {record['loss']:,.2f}, {ending}")
    if record.get("dev_scores"):
        unit = "epoch" if "epochs" in record else "iteration"
        step, score = max(record["dev_scores"], key=lambda entry: entry[1])
        show(f"best score on the development set {100 * score:.2f}, after {unit} {step}")
    settings = ", ".join(f"{name}={value!r}" for name, value in record["parameters"].items())
    show(Text(settings, style="dim"))
    show(Text("labels: " + " ".join(map(str, record["labels"])), style="dim"))
    _show_transitions(record["transitions"], "transitions")
    if "trigrams" in record:
        _show_transitions(record["trigrams"], "three labels in a row")
    if "features" in record:
        _show_features(record["features"])
    if "edge_features" in record:
        _show_transitions(record["edge_features"], "top features of transitions")


def _show_transitions(transitions: list[dict[str, Any]], title: str) -> None:
    """Show label bigrams or trigrams with their weights, and their features if they have some."""
    table = Table(box=None, pad_edge=False, title=f"\n{title}", title_justify="left")
    headings = {"before": "from", "after": "to"}
    names = [name for name in (transitions[0] if transitions else headings) if name != "weight"]
    for name in names:
        table.add_column(headings.get(name, name), overflow="fold")
    table.add_column("weight", justify="right")
    for entry in transitions:
        cells = (Text(str(entry[name])) for name in names)
        table.add_row(*cells, f"{entry['weight']:+.3f}")
    show(table)


def _show_features(features: list[dict[str, Any]]) -> None:
    tables: dict[str, Table] = {}
    for entry in features:
        name = "joint features" if entry["label"] is None else str(entry["label"])
        if name not in tables:
            tables[name] = Table(box=None, pad_edge=False, title_justify="left")
            tables[name].add_column(Text(name, style="bold"), overflow="fold", max_width=32)
            tables[name].add_column("", justify="right")
        tables[name].add_row(Text(entry["feature"]), f"{entry['weight']:+.3f}")
    show("\ntop features of each label")
    show(Columns(tables.values(), padding=(1, 4)))
