"""Encoders that turn words into vectors: from tables, characters, n-grams, or several together.

An encoder converts each word to a row of integers once, before training (`rows`). Its `forward`
turns rows into vectors, shape (words, dim). Words repeat in a text, so each unique word of a batch
is encoded once, and ``index_select`` copies its vector to every token. `encode` does the same for
any list of words.

>>> import torch
>>> _ = torch.manual_seed(0)
>>> words = ConcatWords(WordEmbedding(8), CharCNN(filters=6))
>>> words.learn({"the": 9, "cat": 2, "sat": 1})
>>> words.dim, words.encode(["the", "cat", "the", "unseen"]).shape
(14, torch.Size([4, 14]))
"""

from trellis.nn.words.base import ConcatWords, WordEncoder
from trellis.nn.words.charagram import Charagram, train_on_paraphrases
from trellis.nn.words.chars import CharCNN, CharRNN
from trellis.nn.words.tables import NGramEmbedding, WordEmbedding

__all__ = [
    "CharCNN",
    "CharRNN",
    "Charagram",
    "ConcatWords",
    "NGramEmbedding",
    "WordEmbedding",
    "WordEncoder",
    "train_on_paraphrases",
]
