"""`Description`: facts about a fitted sequence model, the same record for every model.

Commands and reports read this record, so they do not depend on the attributes of each model.
"""

from dataclasses import dataclass, field
from typing import Any

from trellis.features.extractor import TemplateFeatures

__all__ = ["Description", "token_columns"]


@dataclass(frozen=True, kw_only=True)
class Description:
    """The result of `describe`. A fact that a model does not have is None or empty."""

    columns: int | None
    """Number of columns of a token; None if the model takes ready features instead of tokens."""
    settings: dict[str, str]
    """The names of the main settings and their values as text: ``{"solver": "lbfgs, l2 = 1"}``."""
    linear: Any = None
    """The model that has ``top_features``: this model, or the linear part of a neural model."""
    weights: int | None = None
    """Number of learned weights."""
    parts: dict[str, int] = field(default_factory=dict)
    """Number of weights in each part of a network."""
    unit: str = "iteration"
    """The unit of ``steps``: "iteration" or "epoch"."""
    steps: int = 0
    converged: bool | None = None
    loss: float | None = None
    """The loss after the last step."""
    losses: list[tuple[int, float]] = field(default_factory=list)
    """(step, loss)."""
    dev_scores: list[tuple[int, float]] = field(default_factory=list)
    """(step, score on the development set)."""
    tokens_per_second: float | None = None
    """The speed of training."""
    has_probabilities: bool = False
    """True if scores of transitions and features are logarithms of probabilities, as in an HMM."""


def token_columns(features: Any) -> int | None:
    """Return the number of token columns that a feature map reads; None for ready features."""
    return features.spec.columns if isinstance(features, TemplateFeatures) else None
