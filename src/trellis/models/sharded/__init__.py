"""Exact training of log-linear chain models on a `trellis.data.Corpus`, shard by shard."""
