"""A model is features, scores, inference and an optimiser."""
