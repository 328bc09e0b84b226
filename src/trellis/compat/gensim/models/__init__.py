"""The part of gensim's ``models`` that contains word vectors."""

from trellis.compat.gensim.models import fasttext, keyedvectors
from trellis.compat.gensim.models.keyedvectors import KeyedVectors

__all__ = ["KeyedVectors", "fasttext", "keyedvectors"]
