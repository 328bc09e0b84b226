"""`trellis inspect`: what is in a model file."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from rich.columns import Columns
from rich.table import Table
from rich.text import Text

from trellis.app.models import count_weights, linear_part, open_model
from trellis.app.terminal import show, show_json

__all__ = ["run"]


def run(model: Path, *, top: int = 10, label: str | None = None, as_json: bool = False) -> None:
    """Print the size, the training record, the transitions and the top features of a model."""
    found = open_model(model)
    record = _record(found, model)
    record["transitions"] = _transitions(found, top)
    if (linear := linear_part(found)) is not None:
        record["features"] = [w._asdict() for w in linear.top_features(top, label)]
    if as_json:
        show_json(record)
        return
    _print(record)


def _record(model: Any, path: Path) -> dict[str, Any]:
    record: dict[str, Any] = {
        "file": str(path),
        "bytes": path.stat().st_size,
        "model": type(model).__name__,
        "labels": model.classes_.tolist(),
    }
    if (linear := linear_part(model)) is not None:
        record["attributes"] = len(linear.features_)
    if (weights := count_weights(model)) is not None:
        record["weights"] = weights
    if hasattr(model, "network_"):
        record |= _network(model)
    if hasattr(model, "coef_"):
        record["iterations"] = model.n_iter_
        record["loss"] = model.objective_
        record["converged"] = model.converged_
        record["losses"] = model.losses_
        record["dev_scores"] = model.dev_scores_
    skipped = ("features", "edge_features", "n_jobs", "warm_start", "device")
    record["parameters"] = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name not in skipped and value is not None
    }
    return record


def _network(model: Any) -> dict[str, Any]:
    """Its parts with the weights of each, and the epochs."""
    parts: Counter[str] = Counter()
    for name, weights in model.network_.named_parameters():
        parts[name.partition(".")[0]] += weights.numel()
    if (linear := linear_part(model)) is not None:
        parts["features"] = len(linear.coef_)
    return {
        "parts": dict(parts),
        "epochs": model.n_iter_,
        "loss": model.history_[-1].loss,
        "losses": model.losses_,
        "dev_scores": model.dev_scores_,
        "tokens_per_second": model.history_[-1].tokens_per_second,
    }


def _transitions(model: Any, most: int) -> list[dict[str, Any]]:
    """The highest and the lowest, in order."""
    scores = model.transition_scores()
    labels = model.classes_.tolist()
    order = np.argsort(-scores, axis=None, kind="stable")
    chosen = np.concatenate([order[:most], order[max(most, len(order) - most) :]])
    cells = zip(*np.unravel_index(chosen, scores.shape), strict=True)
    return [
        {"before": labels[a], "after": labels[b], "weight": float(scores[a, b])} for a, b in cells
    ]


def _print(record: dict[str, Any]) -> None:
    show(f"[bold]{record['model']}[/bold]  {record['bytes'] / 1e6:.1f} MB")
    sizes = [f"{len(record['labels'])} labels"]
    sizes += [f"{record[name]:,} {name}" for name in ("attributes", "weights") if name in record]
    show(", ".join(sizes))
    if "parts" in record:
        show(", ".join(f"{count:,} in {name}" for name, count in record["parts"].items()))
        speed = f"{record['tokens_per_second']:,.0f} tokens/s"
        show(f"{record['epochs']} epochs, loss {record['loss']:.4f}, {speed}")
    if "iterations" in record:
        ended = "converged" if record["converged"] else "not converged"
        show(f"{record['iterations']} iterations, loss {record['loss']:,.2f}, {ended}")
    if record.get("dev_scores"):
        unit = "epoch" if "epochs" in record else "iteration"
        at, best = max(record["dev_scores"], key=lambda entry: entry[1])
        show(f"best score on the development set {100 * best:.2f}, after {unit} {at}")
    settings = ", ".join(f"{name}={value!r}" for name, value in record["parameters"].items())
    show(Text(settings, style="dim"))
    show(Text("labels: " + " ".join(map(str, record["labels"])), style="dim"))
    _print_transitions(record["transitions"])
    if "features" in record:
        _print_features(record["features"])


def _print_transitions(transitions: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, title="\ntransitions", title_justify="left")
    for name in ("from", "to"):
        table.add_column(name)
    table.add_column("weight", justify="right")
    for own in transitions:
        table.add_row(Text(str(own["before"])), Text(str(own["after"])), f"{own['weight']:+.3f}")
    show(table)


def _print_features(features: list[dict[str, Any]]) -> None:
    tables: dict[str, Table] = {}
    for own in features:
        name = str(own["label"])
        if name not in tables:
            tables[name] = Table(box=None, pad_edge=False, title_justify="left")
            tables[name].add_column(Text(name, style="bold"), overflow="fold", max_width=32)
            tables[name].add_column("", justify="right")
        tables[name].add_row(Text(own["feature"]), f"{own['weight']:+.3f}")
    show("\ntop features of each label")
    show(Columns(tables.values(), padding=(1, 4)))
