"""The features behind a node or an edge of the lattice, beside those of a runner-up."""

import math
from typing import Any

from trellis.app.web.http.errors import RequestError
from trellis.app.web.served import ChainModel
from trellis.models.chain.fitted import FittedChain
from trellis.models.chain.inspection import Contribution, FeatureContributions

__all__ = ["explain"]

_MAX_SHOWN = 200
_EXACT = 1e-9  # a smaller rest of a score is a rounding error
_NO_FEATURES = "This model has no features: its scores have no parts."


def explain(chain: ChainModel, x: list[Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the score of a label and of a runner-up, and the features that add up to them.

    With ``previous``, they are the scores of the two edges from this label. A forbidden label or
    edge has the score None, because JSON has no −∞.
    """
    t = values["position"]
    if t >= len(x):
        raise RequestError(422, f"position is {t}: the sentence has {len(x)} tokens")
    labels = (_find(chain, values["label"]), _find(chain, values["runner_up"]))
    before = None if values["previous"] is None else _find(chain, values["previous"])
    if before is not None and t == 0:
        raise RequestError(422, "position is 0: no edge leads into the first token")
    totals = _score(chain, x, t, before, labels)
    parts = _split(chain.model, x, t, before, labels)
    answer: dict[str, Any] = {"score": _finite(totals[0]), "runner_up_score": _finite(totals[1])}
    if parts is None:
        return answer | {"features": [], "note": _NO_FEATURES}
    parts += _find_rest(chain.model, parts, totals)
    parts.sort(key=lambda part: -abs(part.difference))
    features = [
        {
            "name": part.feature,
            "value": part.value,
            "label": _finite(part.chosen),
            "runner_up": _finite(part.runner_up),
        }
        for part in parts[:_MAX_SHOWN]
    ]
    return answer | {"features": features}


def _find(chain: ChainModel, label: str) -> int:
    """Return the index of a label."""
    if label not in chain.labels:
        raise RequestError(422, f"{label!r} is not a label of {chain.name}")
    return chain.labels.index(label)


def _score(
    chain: ChainModel, x: list[Any], t: int, before: int | None, labels: tuple[int, int]
) -> list[float]:
    """Return the scores of two nodes, or of two edges."""
    scores: Any = chain.model.scores([x])
    if before is None:
        return [float(scores.unary[0][t, y]) for y in labels]
    matrix = scores.transition
    if isinstance(matrix, list):  # one matrix per step
        matrix = matrix[0][t - 1]
    return [float(matrix[before, y]) for y in labels]


def _split(
    model: Any, x: list[Any], t: int, before: int | None, labels: tuple[int, int]
) -> list[Contribution] | None:
    """Return the parts of the scores that have names, or None if the model has none."""
    linear, factor = model, 1.0
    if not isinstance(model, FittedChain):
        linear = getattr(model, "linear_", None)  # the linear part of a hybrid tagger
        if linear is None or before is not None:
            return None
        factor = model.alpha_ / model.temperature_
    contributions = FeatureContributions(linear, x, [])
    if before is not None:
        return contributions.into(t, before, labels)
    parts = contributions.features_at(t, labels)
    if t == 0:
        parts += contributions.into(0, None, labels)
    return [
        part._replace(chosen=factor * part.chosen, runner_up=factor * part.runner_up)
        for part in parts
    ]


def _find_rest(model: Any, parts: list[Contribution], totals: list[float]) -> list[Contribution]:
    """Return the part of the scores that the features do not explain, if there is one."""
    rest = [
        total - sum(getattr(part, name) for part in parts)
        for total, name in zip(totals, ("chosen", "runner_up"), strict=True)
    ]
    if not any(
        abs(value) > _EXACT * max(1.0, abs(total)) or total == -math.inf
        for value, total in zip(rest, totals, strict=True)
    ):
        return []
    if -math.inf in rest:
        name = "constraint"
    else:
        name = "normaliser" if isinstance(model, FittedChain) else "network"
    return [Contribution(name, 1.0, *rest)]


def _finite(value: float) -> float | None:
    return None if value == -math.inf else value
