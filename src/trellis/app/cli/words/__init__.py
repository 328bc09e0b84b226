"""The commands for word vectors and text classification."""
