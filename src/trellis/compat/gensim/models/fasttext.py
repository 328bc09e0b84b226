"""fastText's files under gensim's names."""

import os

from trellis.compat.gensim.models.keyedvectors import KeyedVectors
from trellis.errors import InputError

__all__ = ["FastTextKeyedVectors", "load_facebook_vectors"]

FastTextKeyedVectors = KeyedVectors


def load_facebook_vectors(path: str | os.PathLike[str], encoding: str = "utf-8") -> KeyedVectors:
    """The vectors of a ``.bin`` or ``.ftz`` file; its n-grams give vectors to unseen words."""
    if encoding.lower().replace("-", "") != "utf8":
        raise InputError(f"encoding={encoding!r}: words of fastText's files are UTF-8")
    return KeyedVectors.load(path)
