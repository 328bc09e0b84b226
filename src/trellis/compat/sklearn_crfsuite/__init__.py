"""sklearn-crfsuite's `CRF`, metrics and scorers, implemented by trellis.

>>> X = [[{"word": "Ann", "cap": True}, {"word": "left"}], [{"word": "Bob", "cap": True}]]
>>> crf = CRF(algorithm="lbfgs", c1=0.0, c2=0.1, all_possible_transitions=True)
>>> crf.fit(X, [["PER", "O"], ["PER"]]).predict_single(X[0])
['PER', 'O']
"""

from trellis.compat.sklearn_crfsuite.estimator import CRF

__all__ = ["CRF"]
