"""gensim's ``models``: the part that is about word vectors."""

from trellis.compat.gensim.models import fasttext, keyedvectors
from trellis.compat.gensim.models.keyedvectors import KeyedVectors

__all__ = ["KeyedVectors", "fasttext", "keyedvectors"]
