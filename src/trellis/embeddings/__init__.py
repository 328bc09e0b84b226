"""Word vectors: training (word2vec, fastText), search, evaluation, and text classification."""
