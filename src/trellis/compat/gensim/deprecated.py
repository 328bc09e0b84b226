"""gensim's names on `trellis.Vectors`, as in version 0.1.0, with a DeprecationWarning.

`Vectors` had these names itself in 0.1.0. It imports this module by its dotted name when one of
them is used. Delete this module, `Vectors.__getattr__` and `Vectors.load_word2vec_format` in 0.3.

>>> import warnings
>>> v = Vectors(["a", "b"], [[1, 0], [3, 4]])
>>> with warnings.catch_warnings(record=True) as caught:
...     warnings.simplefilter("always")
...     words = v.index_to_key
>>> words, str(caught[0].message)
(['a', 'b'], 'Vectors.index_to_key is deprecated: use Vectors.words')
"""

import warnings
from typing import Any

from trellis.compat.gensim.keyed import Keyed
from trellis.embeddings.vectors import Vectors

__all__ = ["attribute", "load_word2vec_format"]

_FACE = "trellis.compat.gensim.models.KeyedVectors"
_REPLACEMENTS = {
    "evaluate_word_analogies": "evaluate_analogies",
    "evaluate_word_pairs": "evaluate_similarity",
    "index_to_key": "words",
    "key_to_index": "index",
    "load_word2vec_format": "load",
    "most_similar": "nearest or Vectors.analogy",
    "save_word2vec_format": "save",
    "similar_by_key": "nearest",
    "similar_by_vector": "nearest",
    "similar_by_word": "nearest",
    "vector_size": "dim",
    "vectors": "matrix",
}
"""Attributes of `Vectors` for the names that have one; the other names need the face."""


class _KeyedView(Keyed, Vectors):
    """`Vectors` with gensim's names, as in 0.1.0."""


def attribute(vectors: Vectors, name: str) -> Any:
    """Return an attribute of `Keyed` for these vectors, with a warning."""
    if not hasattr(Keyed, name) or isinstance(vectors, Keyed):
        raise AttributeError(f"{type(vectors).__name__!r} object has no attribute {name!r}")
    _warn(name)
    view = _KeyedView.__new__(_KeyedView)
    # The same dictionary, not a copy: the view shares the matrix and the cached search data.
    view.__dict__ = vectors.__dict__
    return getattr(view, name)


def load_word2vec_format(*args: Any, **options: Any) -> Vectors:
    """Load a word2vec file as `Vectors` did in 0.1.0, with a warning."""
    _warn("load_word2vec_format")
    return _KeyedView.load_word2vec_format(*args, **options)


def _warn(name: str) -> None:
    replacement = f"Vectors.{_REPLACEMENTS[name]}" if name in _REPLACEMENTS else _FACE
    # Level 4: _warn, the function above, the method of Vectors, then the line of the user.
    text = f"Vectors.{name} is deprecated: use {replacement}"
    warnings.warn(text, DeprecationWarning, stacklevel=4)
