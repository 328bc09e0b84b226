"""Models: features + scores + inference + an optimiser."""
