"""python-crfsuite's `Trainer`, `Tagger` and `ItemSequence`, implemented by trellis.

>>> import tempfile
>>> path = tempfile.mkdtemp() + "/names.crfsuite"
>>> trainer = Trainer("lbfgs", {"c2": 0.1}, verbose=False)
>>> trainer.append([["w=Ann", "cap"], ["w=left"], ["w=Rome", "cap"]], ["PER", "O", "LOC"])
>>> trainer.train(path)
>>> with Tagger().open(path) as tagger:
...     tagger.tag([{"w=Ann": 1.0, "cap": True}, ["w=left"]])
['PER', 'O']
"""

from trellis.compat.pycrfsuite.items import ItemSequence
from trellis.compat.pycrfsuite.tagger import Tagger
from trellis.compat.pycrfsuite.trainer import BaseTrainer, CRFSuiteError, Trainer

__all__ = [
    "CRFSUITE_VERSION",
    "BaseTrainer",
    "CRFSuiteError",
    "ItemSequence",
    "Tagger",
    "Trainer",
]

CRFSUITE_VERSION = "0.12.2"
"""The version of CRFsuite that this module imitates."""
