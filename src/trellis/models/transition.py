"""Transition only: models of embeddings and of nn/tagger that have no ``from_parts`` yet."""

from typing import Any

from trellis.errors import FormatError
from trellis.formats.native import Contents
from trellis.formats.parts import stored_labels, stored_parameters
from trellis.models.chain.crf import CRF

__all__ = ["chain_parts", "from_contents", "stored_labels", "stored_parameters"]


def chain_parts(model: CRF, kind: str) -> Any:
    """Return the parts of a CRF."""
    return model.to_parts()


def from_contents(contents: Contents, features: Any = None, edge_features: Any = None) -> Any:
    """Build a model of a kind whose class has no ``from_parts`` yet."""
    if contents.kind == "crf":
        model = CRF.from_parts(contents.meta, contents.tensors)
        model.set_feature_functions(features, edge_features)
        return model
    from trellis.embeddings import files as vector_files
    from trellis.embeddings import model_files
    from trellis.embeddings.vectors import Vectors

    if contents.kind == "vectors":
        words, matrix, unseen = vector_files.from_contents(contents)
        return Vectors(words, matrix, unseen=unseen)
    if contents.kind in model_files.KINDS:
        return model_files.from_contents(contents)
    raise FormatError(contents.kind)
