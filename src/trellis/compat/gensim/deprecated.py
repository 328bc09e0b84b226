"""gensim's names on `trellis.Vectors`, as in version 0.1.0, with a DeprecationWarning.

`Vectors` had these names itself in 0.1.0. It imports this module by its dotted name when one of
these names is used. In 0.3, delete this module, `Vectors.__getattr__` and
`Vectors.load_word2vec_format`.

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

_KEYED_VECTORS = "trellis.compat.gensim.models.KeyedVectors"
_NEW_NAMES = {
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
"""The new name in `Vectors` of each old name. Other old names are only in `KeyedVectors`."""


class _KeyedView(Keyed, Vectors):
    """`Vectors` with gensim's names, as in 0.1.0."""


def attribute(vectors: Vectors, name: str) -> Any:
    """Return an attribute of `Keyed` for these vectors, with a warning."""
    if not hasattr(Keyed, name) or isinstance(vectors, Keyed):
        raise AttributeError(f"{type(vectors).__name__!r} object has no attribute {name!r}")
    _warn(name)
    view = _KeyedView.__new__(_KeyedView)
    # The view has the same dictionary, so it shares the matrix and the cached search data.
    view.__dict__ = vectors.__dict__
    return getattr(view, name)


def load_word2vec_format(*args: Any, **options: Any) -> Vectors:
    """Load a word2vec file as `Vectors` did in 0.1.0, with a warning."""
    _warn("load_word2vec_format")
    return _KeyedView.load_word2vec_format(*args, **options)


def _warn(name: str) -> None:
    """Issue a DeprecationWarning that names the new attribute."""
    new_name = f"Vectors.{_NEW_NAMES[name]}" if name in _NEW_NAMES else _KEYED_VECTORS
    text = f"Vectors.{name} is deprecated: use {new_name}"
    # Level 4 is the line of the user, after _warn, its caller and the method of Vectors.
    warnings.warn(text, DeprecationWarning, stacklevel=4)
