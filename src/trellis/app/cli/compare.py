"""``trellis compare``: the scores of two models on the same data, and whether they differ."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from trellis import metrics
from trellis.app.cli.declarations import Argument, Option
from trellis.app.cli.options import DataOptions, Jobs, Json, LabelledFile
from trellis.app.model_files import open_sequence_model, read_labelled
from trellis.app.tag_output import find_spans
from trellis.app.terminal import print_status, show_json, show_rows
from trellis.data import files, tags
from trellis.errors import InputError
from trellis.models.chain.labels import count_unseen

__all__ = ["Options", "run"]

_NAMES = {
    "accuracy": "token accuracy",
    "span_f1": "span F1",
    "sequence_accuracy": "sequence accuracy",
}


@dataclass
class Options:
    """Options of ``trellis compare``."""

    model_a: Annotated[Path, Argument(help="Model file a.", metavar="A")]
    model_b: Annotated[Path, Argument(help="Model file b.", metavar="B")]
    data: LabelledFile
    reading: DataOptions = field(default_factory=DataOptions)
    samples: Annotated[int, Option(help="Number of bootstrap samples.", metavar="N", min=1)] = (
        10_000
    )
    seed: Annotated[int, Option(help="Seed of the random numbers.", min=0)] = 0
    examples: Annotated[
        int, Option(help="Number of sequences to show where the models differ.", min=0)
    ] = 3
    as_json: Json = False
    jobs: Jobs = None


def run(options: Options) -> None:
    """Compare two models on the same data: scores, significance, agreement, examples.

    The interval and the p-value of a difference come from a paired bootstrap: the sequences are
    drawn with replacement N times, the same ones for both models.

    **Examples**

    `trellis compare a.trellis b.trellis test.conll`

    `trellis compare a.trellis b.trellis test.conll --samples 100000 --json`
    """
    files.check_regular(options.data)  # not a pipe: the file is read once for each model
    # Both models are opened first, so that a wrong file is an error before anything is labelled.
    model_a, model_b = (
        open_sequence_model(path, options.jobs) for path in (options.model_a, options.model_b)
    )
    X, y, predicted_a = _predict(model_a, options.model_a, options)
    _, _, predicted_b = _predict(model_b, options.model_b, options)
    scheme = tags.detect({label for labels in y for label in labels}, otherwise="plain")
    result: dict[str, Any] = {
        "a": str(options.model_a),
        "b": str(options.model_b),
        "data": str(options.data),
        "sequences": len(X),
        "tokens": sum(map(len, X)),
        "scheme": scheme,
        "samples": options.samples,
        "scores": {
            metric: metrics.paired_bootstrap(
                y,
                predicted_a,
                predicted_b,
                metric,
                scheme=scheme,
                n_samples=options.samples,
                random_state=options.seed,
            )._asdict()
            for metric in _NAMES
            if metric != "span_f1" or scheme != "plain"
        },
        "agreement": _count_agreement(y, predicted_a, predicted_b),
        "examples": _find_examples(X, y, predicted_a, predicted_b, options.examples),
    }
    if options.as_json:
        show_json(result)
    else:
        _show(result)


def _predict(model: Any, path: Path, options: Options) -> tuple[list[Any], list[list[str]], Any]:
    """Return (X, y, predicted labels) of a model, with the columns that it needs."""
    X, y = read_labelled(model, path, options.data, options.reading)
    unseen = count_unseen(y, map(str, model.classes_))
    # A few unseen labels are usual, and mostly affect both models equally. They need no warning.
    if 2 * unseen.counts.total() >= unseen.total > 0:
        print_status(f"trellis: warning: {options.data}, for the model {path}: {unseen}")
    predicted = model.predict(X)
    if not all(isinstance(label, str) for label in model.classes_):
        raise InputError(f"{path}: the labels of the model are not strings")
    return X, y, predicted


def _count_agreement(y: Any, predicted_a: Any, predicted_b: Any) -> dict[str, int]:
    """Return how many tokens both models, only a, only b, or neither of them labels correctly."""
    counts = dict.fromkeys(("both", "only_a", "only_b", "neither", "neither_but_equal"), 0)
    for rows in zip(y, predicted_a, predicted_b, strict=True):
        for true_label, a, b in zip(*rows, strict=True):
            if a == true_label or b == true_label:
                counts["both" if a == b else "only_a" if a == true_label else "only_b"] += 1
            else:
                counts["neither"] += 1
                counts["neither_but_equal"] += a == b
    return counts


def _find_examples(
    X: Any, y: Any, predicted_a: Any, predicted_b: Any, count: int
) -> list[dict[str, Any]]:
    """Return the sequences in which the models differ at the largest number of tokens."""
    differences = [
        sum(a != b for a, b in zip(*rows, strict=True))
        for rows in zip(predicted_a, predicted_b, strict=True)
    ]
    order = np.argsort(-np.array(differences), kind="stable")[:count].tolist()
    return [
        {
            "sequence": n + 1,
            "tokens": [token if isinstance(token, str) else token[0] for token in X[n]],
            "true": y[n],
            "a": predicted_a[n],
            "b": predicted_b[n],
        }
        for n in order
        if differences[n]
    ]


def _show(result: dict[str, Any]) -> None:
    print(f"a: {result['a']}\nb: {result['b']}")
    print(f"{result['data']}: {result['sequences']:,} sequences, {result['tokens']:,} tokens\n")
    rows = [["", "a", "b", "b - a", "95 % interval", "p"]]
    for metric, score in result["scores"].items():
        percent = {name: f"{100 * value:+.2f}" for name, value in score.items()}
        rows.append(
            [
                _NAMES[metric],
                percent["a"].removeprefix("+"),
                percent["b"].removeprefix("+"),
                percent["difference"],
                f"{percent['low']} to {percent['high']}",
                _format_p(score["p_value"]),
            ]
        )
    show_rows(rows, right=range(1, 6))
    counts = result["agreement"]
    print(f"\npaired bootstrap with {result['samples']:,} samples of sequences\n")
    show_rows(
        [
            ["tokens", "b right", "b wrong"],
            ["a right", counts["both"], counts["only_a"]],
            ["a wrong", counts["only_b"], counts["neither"]],
        ],
        right=(1, 2),
    )
    equal = counts["both"] + counts["neither_but_equal"]
    print(f"\nequal labels: {100 * equal / max(1, result['tokens']):.2f} % of the tokens")
    if result["examples"]:
        print("\nsequences where the models differ most")
    for example in result["examples"]:
        print(f"sequence {example['sequence']}")
        for name in ("true", "a", "b"):
            print(f"  {name:4}  {_mark(example, name, result['scheme'])}")


def _format_p(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def _mark(example: dict[str, Any], name: str, scheme: str) -> str:
    """Return the words of an example with brackets around its spans.

    Without a tagging scheme, the words to which the models give different labels are marked.
    """
    words, spans = list(example["tokens"]), find_spans(example[name], scheme)
    if scheme == "plain":
        differs = [a != b for a, b in zip(example["a"], example["b"], strict=True)]
        labels = enumerate(example[name])
        spans = [tags.Span(label, t, t + 1) for t, label in labels if differs[t]]
    for label, start, end in spans:
        words[start] = f"[{words[start]}"
        words[end - 1] = f"{words[end - 1]}]({label})"
    return " ".join(words)
