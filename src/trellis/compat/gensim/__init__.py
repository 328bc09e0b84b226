"""gensim's API for word vectors, implemented by trellis. Topic models are not included.

>>> from trellis.compat.gensim.models import KeyedVectors
>>> wv = KeyedVectors(2)
>>> wv.add_vectors(["king", "man", "seven"], [[3, 1], [3, 0], [0, 1]])
>>> wv.most_similar("king", topn=1)[0][0]
'man'
"""

from trellis.compat.gensim import models

__all__ = ["models"]
