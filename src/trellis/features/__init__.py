"""Feature extraction: convert tokens to sparse rows by templates, windows or Python functions."""

from trellis.features.lists import read_clusters
from trellis.features.spec import Clusters, Field, Gazetteer, Part, Spec, Template
from trellis.features.window import Window, chunking, chunking_rich, default_spec, named, ner, pos

__all__ = [
    "Clusters",
    "Field",
    "Gazetteer",
    "Part",
    "Spec",
    "Template",
    "Window",
    "chunking",
    "chunking_rich",
    "default_spec",
    "named",
    "ner",
    "pos",
    "read_clusters",
]
