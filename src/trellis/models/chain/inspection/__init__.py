"""What a fitted chain model says about its weights and decisions."""

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
