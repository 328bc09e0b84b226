"""Lists of sentences with the errors of a model, and scores of slices of the data."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.app.web.http.errors import RequestError
from trellis.app.web.served import ChainModel, name_tokens
from trellis.app.web.session import Analysis, Data, Session
from trellis.data import tags
from trellis.metrics import accuracy, paired_bootstrap

__all__ = ["SORTS", "browse", "score_slices"]

SORTS = ("index", "entropy", "margin", "probability")
_CONFUSIONS = 50
_SAMPLES = 1_000  # of the bootstrap


def browse(session: Session, values: dict[str, Any]) -> dict[str, Any]:
    """Return a part of the sentences that pass a filter, and the confusions of all sentences."""
    number, other = values["model"], values["other"]
    data, analysis = session.data(number), session.analysis(number)
    others = None if other is None else session.analysis(other)
    count = analysis.count if others is None else min(analysis.count, others.count)
    chosen = [n for n in range(count) if _passes(values["filter"], data, analysis, others, n)]
    order = _sort(chosen, values["sort"], analysis)
    shown = order[values["offset"] : values["offset"] + values["count"]]
    progress = analysis.progress if others is None else min(analysis.progress, others.progress)
    return {
        "total": len(order),
        "rows": [_describe(data, analysis, others, n) for n in shown],
        "confusions": _count_confusions(data, analysis),
        "progress": progress,
    }


def _describe(data: Data, analysis: Analysis, others: Analysis | None, n: int) -> dict[str, Any]:
    return {
        "index": n,
        "tokens": name_tokens(data.X[n]),
        "gold": data.y[n],
        "predicted": analysis.predicted[n],
        "other": None if others is None else others.predicted[n],
        "probability": float(analysis.probability[n]),
        "entropy": float(analysis.entropy[n]),
        "margin": float(analysis.margin[n]),
    }


def _passes(
    filter: dict[str, Any], data: Data, analysis: Analysis, others: Analysis | None, n: int
) -> bool:
    """Return whether sentence n passes all conditions of a filter."""
    gold, predicted = data.y[n], analysis.predicted[n]
    return (
        filter["min_length"] <= len(gold) <= filter["max_length"]
        and filter["min_probability"] <= analysis.probability[n] <= filter["max_probability"]
        and not (filter["errors_only"] and gold == predicted)
        and not (
            filter["disagreements_only"] and others is not None and predicted == others.predicted[n]
        )
        and (filter["label"] is None or filter["label"] in {*gold, *predicted})
        and _has_pair(filter["gold"], filter["predicted"], gold, predicted)
        and (
            not filter["text"]
            or filter["text"].casefold() in " ".join(name_tokens(data.X[n])).casefold()
        )
    )


def _has_pair(true: str | None, guess: str | None, gold: list[str], predicted: list[str]) -> bool:
    """Return whether a token has this true and this predicted label; None means any label."""
    return (true is None and guess is None) or any(
        true in (None, a) and guess in (None, b) for a, b in zip(gold, predicted, strict=True)
    )


def _sort(indices: list[int], name: str, analysis: Analysis) -> list[int]:
    """Return indices, the least certain first, or in the order of the data."""
    if name == "index":
        return indices
    values: NDArray[np.float64] = getattr(analysis, name)[indices]
    order = np.argsort(-values if name == "entropy" else values, kind="stable")
    return [indices[n] for n in order]


def _count_confusions(data: Data, analysis: Analysis) -> list[dict[str, Any]]:
    counts: Counter[tuple[str, str]] = Counter()
    for n in range(analysis.count):
        if data.y[n] != analysis.predicted[n]:
            counts.update(
                pair
                for pair in zip(data.y[n], analysis.predicted[n], strict=True)
                if pair[0] != pair[1]
            )
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        {"gold": true, "predicted": guess, "count": count}
        for (true, guess), count in ranked[:_CONFUSIONS]
    ]


def score_slices(session: Session, values: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of slices of the analysed data, with bootstrap intervals."""
    number = values["model"]
    data, analysis = session.data(number), session.analysis(number)
    chain = session.chain(number)
    slices = [_score_slice(chain, data, analysis, entry) for entry in values["slices"]]
    return {"slices": slices, "progress": analysis.progress}


def _score_slice(
    chain: ChainModel, data: Data, analysis: Analysis, entry: dict[str, Any]
) -> dict[str, Any]:
    """Return the scores of the sentences of one slice.

    The interval is that of the difference to a model without a single correct label, whose score
    is 0: so `paired_bootstrap` gives the interval of one score.
    """
    kind, value = entry["kind"], entry["value"]
    if value is None and kind != "unseen":
        raise RequestError(422, f"a slice by {kind} needs a value")
    indices = list(_select(chain, data, analysis.count, kind, value))
    true = [data.y[n] for n in indices]
    guesses = [analysis.predicted[n] for n in indices]
    score: dict[str, Any] = {
        "kind": kind,
        "value": value,
        "sentences": len(indices),
        "tokens": sum(map(len, true)),
    }
    if not score["tokens"]:
        return score | dict.fromkeys(("accuracy", "f1", "low", "high"))
    score["accuracy"] = accuracy(true, guesses)
    if chain.spans is None:
        wrong, metric, scheme = "", "accuracy", "BIO"
    else:
        wrong, metric, scheme = "O", "span_f1", chain.spans
    if kind == "label":
        true, guesses = (_keep_label(rows, value, chain.spans) for rows in (true, guesses))
    nothing = [[wrong] * len(row) for row in true]
    result = paired_bootstrap(
        true, nothing, guesses, metric, scheme=scheme, n_samples=_SAMPLES, random_state=0
    )
    return score | {"f1": result.b, "low": result.low, "high": result.high}


def _keep_label(rows: list[list[str]], label: str, scheme: str | None) -> list[list[str]]:
    """Return labels in which only the spans of one label are left."""
    if scheme is None:
        return rows
    name = label.partition("-")[2] or label
    return [
        tags.from_spans([s for s in tags.spans(row, scheme) if s.label == name], len(row), scheme)
        for row in rows
    ]


def _select(chain: ChainModel, data: Data, count: int, kind: str, value: Any) -> Iterator[int]:
    """Yield the indices of the sentences of a slice."""
    if kind == "word":
        word = value.casefold()
        yield from (n for n in range(count) if word in map(str.casefold, name_tokens(data.X[n])))
    elif kind == "label":
        name = value.partition("-")[2] or value
        yield from (
            n for n in range(count) if any(y in (value, name) or y[2:] == name for y in data.y[n])
        )
    elif kind == "unseen":
        known = _find_known_words(chain)
        yield from (n for n in range(count) if not known.issuperset(name_tokens(data.X[n])))
    else:
        low, high = _parse_range(value)
        yield from (n for n in range(count) if low <= len(data.y[n]) <= high)


def _find_known_words(chain: ChainModel) -> set[str]:
    """Return the words of the training data, if they are features of the model."""
    linear = chain.model.describe().linear
    read = None if linear is None else getattr(linear.features_, "values_of_column", None)
    words = set() if read is None else set(read(0))
    if not words:
        raise RequestError(422, f"{chain.name} does not know the words of its training data")
    return words


def _parse_range(value: str) -> tuple[int, int]:
    """Return the bounds of a text such as ``5-10``, ``7`` or ``20-``."""
    low, dash, high = value.partition("-")
    try:
        first = int(low or 0)
        return first, (int(high) if high else 1 << 30) if dash else first
    except ValueError:
        raise RequestError(422, f"the length {value!r} must be a range such as 5-10") from None
