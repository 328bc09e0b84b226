"""The HTML report about a model and its predictions."""
