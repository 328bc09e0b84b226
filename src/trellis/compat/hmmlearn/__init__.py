"""hmmlearn's hidden Markov models (`hmm`, `base`, `utils`, `stats`), implemented by trellis.

>>> import numpy as np
>>> X = np.array([[0], [0], [1], [2], [2], [2], [0], [1]])
>>> model = hmm.CategoricalHMM(n_components=2, random_state=1, n_iter=20)
>>> model.fit(X, lengths=[5, 3]).emissionprob_.shape
(2, 3)
>>> model.predict_proba(X, lengths=[5, 3]).sum(axis=1).round(6).tolist()
[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
"""

from trellis.compat.hmmlearn import _hmmc, base, hmm, stats, utils

__all__ = ["_hmmc", "base", "hmm", "stats", "utils"]

__version__ = "0.3.3"
"""The version of hmmlearn that this module imitates."""
