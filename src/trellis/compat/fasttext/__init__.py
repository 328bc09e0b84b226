"""fastText's Python module, implemented by trellis, with the same results.

>>> import pathlib, tempfile
>>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
>>> lines = ["__label__good a sunny warm day", "__label__bad rain and storm again"]
>>> size = path.write_text("".join(line + chr(10) for line in lines * 20))
>>> model = train_supervised(str(path), dim=8, epoch=20, thread=1)
>>> model.predict("warm and sunny")[0]
('__label__good',)
>>> model.labels
['__label__bad', '__label__good']
>>> tokenize("warm day")
['warm', 'day']
"""

from trellis.compat.fasttext import FastText, util
from trellis.compat.fasttext.FastText import (
    BOW,
    EOS,
    EOW,
    cbow,
    load_model,
    skipgram,
    supervised,
    tokenize,
    train_supervised,
    train_unsupervised,
)

__all__ = [
    "BOW",
    "EOS",
    "EOW",
    "FastText",
    "cbow",
    "load_model",
    "skipgram",
    "supervised",
    "tokenize",
    "train_supervised",
    "train_unsupervised",
    "util",
]
