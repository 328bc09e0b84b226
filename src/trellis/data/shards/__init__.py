"""Corpora that need not fit in memory, as shards that depend on the data alone."""
