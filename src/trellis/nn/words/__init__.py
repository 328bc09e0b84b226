"""Words as vectors: from tables, from characters, from n-grams, or from several of them at once.

An encoder gives each word a row of integers once (`rows`), before training; its `forward` turns
rows into vectors (words, dim). A text repeats its words: each unique word of a batch is encoded
once and scattered back by one ``index_select``, as `encode` does with any list of words.

>>> import torch
>>> _ = torch.manual_seed(0)
>>> words = ConcatWords(WordEmbedding(8), CharCNN(filters=6))
>>> words.learn({"the": 9, "cat": 2, "sat": 1})
>>> words.dim, words.encode(["the", "cat", "the", "unseen"]).shape
(14, torch.Size([4, 14]))
"""

from trellis.nn.words.base import ConcatWords, WordEncoder
from trellis.nn.words.chars import CharCNN, CharRNN
from trellis.nn.words.tables import Charagram, NGramEmbedding, WordEmbedding

__all__ = [
    "CharCNN",
    "CharRNN",
    "Charagram",
    "ConcatWords",
    "NGramEmbedding",
    "WordEmbedding",
    "WordEncoder",
]
