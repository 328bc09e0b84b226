"""gensim's functions to load fastText's files."""

import os

from trellis.compat.gensim.models.keyedvectors import KeyedVectors
from trellis.errors import InputError

__all__ = ["FastTextKeyedVectors", "load_facebook_vectors"]

FastTextKeyedVectors = KeyedVectors


def load_facebook_vectors(path: str | os.PathLike[str], encoding: str = "utf-8") -> KeyedVectors:
    """Load a ``.bin`` or ``.ftz`` file; unseen words get a vector from their n-grams."""
    if encoding.lower().replace("-", "") != "utf8":
        raise InputError(f"encoding is {encoding!r}: must be utf-8, as in fastText's files")
    return KeyedVectors.load(path)
