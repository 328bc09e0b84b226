"""Feature extraction: convert tokens to sparse rows by templates, windows or Python functions."""

from trellis.features.spec import Field, Gazetteer, Part, Spec, Template
from trellis.features.window import Window, chunking, chunking_rich, default_spec, named, ner, pos

__all__ = [
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
]
