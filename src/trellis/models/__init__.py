"""Models: features, scores, inference and an optimiser. README.md lists the folders."""
