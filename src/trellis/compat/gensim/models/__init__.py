"""gensim's ``models``, as far as they are word vectors."""

from trellis.compat.gensim.models import fasttext, keyedvectors
from trellis.compat.gensim.models.keyedvectors import KeyedVectors

__all__ = ["KeyedVectors", "fasttext", "keyedvectors"]
