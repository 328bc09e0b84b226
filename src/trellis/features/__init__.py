"""From tokens to sparse rows: templates, windows and ready features."""

from trellis.features.spec import Field, Gazetteer, Part, Spec, Template
from trellis.features.window import Window, chunking, chunking_rich, named, ner, pos, spec_for

__all__ = [
    "Field",
    "Gazetteer",
    "Part",
    "Spec",
    "Template",
    "Window",
    "chunking",
    "chunking_rich",
    "named",
    "ner",
    "pos",
    "spec_for",
]
