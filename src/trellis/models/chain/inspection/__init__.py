"""The weights of a fitted chain model as tables, and explanations of its decisions."""

from trellis.models.chain.inspection.explanations import (
    Contribution,
    Explanation,
    Explanations,
    FeatureContributions,
    FeatureWeight,
    Inspection,
    SpanChance,
    Transition,
    TrigramWeight,
    check_top,
    explain_decisions,
)

__all__ = [
    "Contribution",
    "Explanation",
    "Explanations",
    "FeatureContributions",
    "FeatureWeight",
    "Inspection",
    "SpanChance",
    "Transition",
    "TrigramWeight",
    "check_top",
    "explain_decisions",
]
