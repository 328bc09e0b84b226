"""The HTML report of a model on a corpus."""
