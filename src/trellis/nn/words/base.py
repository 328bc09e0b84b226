"""The base class of all word encoders, and the concatenation of several encoders."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trellis.embeddings.vectors import Vectors
from trellis.errors import InputError

__all__ = ["ConcatWords", "WordEncoder"]


class WordEncoder(nn.Module, ABC):
    """Word → row of integers (computed once) → vector (computed by the network)."""

    dim: int
    """Width of the vectors."""

    @abstractmethod
    def learn(self, counts: Mapping[str, int]) -> None:
        """Build the vocabulary from the words of the training data and their counts."""

    @abstractmethod
    def rows(self, words: Sequence[str]) -> tuple[Tensor, ...]:
        """Return integers of shape (words, k), the input of `forward`.

        0 is padding. Trailing columns that are all 0 can be removed without changing the result.
        """

    @abstractmethod
    def vocabularies(self) -> list[list[str]]:
        """Return the learned strings: with the parameters, the full state of an encoder."""

    @abstractmethod
    def restore(self, vocabularies: Sequence[list[str]]) -> None:
        """Set the strings that `vocabularies` returned, and create parameters for them."""

    def encode(self, words: Sequence[str]) -> Tensor:
        """Return the vectors of any words, shape (words, dim). Each unique word is encoded once."""
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise InputError(f"words must be a list of str, not {words!r:.60}")
        unique = {word: n for n, word in enumerate(dict.fromkeys(words))}
        device = next(self.parameters()).device
        rows = (row.to(device) for row in self.rows(list(unique)))
        index = torch.tensor([unique[word] for word in words], device=device)
        vectors: Tensor = self(*rows).index_select(0, index)
        return vectors

    def to_vectors(self, words: Sequence[str]) -> Vectors:
        """Return the vectors of words as `Vectors`, which finds neighbours.

        Repeated words are taken once. The encoder is used without dropout, and its vectors are
        copied. For a word that is not in the list, the encoder computes the vector when it is
        looked up.
        """
        names = [words] if isinstance(words, str) else list(dict.fromkeys(words))
        return Vectors(
            names, self._encode_fixed(names), unseen=lambda w: self._encode_fixed([w])[0]
        )

    def _encode_fixed(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of words without gradient and dropout, (words, dim)."""
        was_training = self.training
        try:
            with torch.no_grad():
                vectors = self.eval().encode(words)
        finally:
            self.train(was_training)
        array: NDArray[np.float32] = vectors.float().cpu().numpy()
        return array


class ConcatWords(WordEncoder):
    """v(word) = [v₁(word); v₂(word); …]."""

    encoders: Any

    def __init__(self, *encoders: WordEncoder) -> None:
        super().__init__()
        flat: list[WordEncoder] = []
        for encoder in encoders:
            if not isinstance(encoder, WordEncoder):
                raise InputError(f"encoders must be WordEncoders, not {encoder!r:.60}")
            flat += encoder.encoders if isinstance(encoder, ConcatWords) else [encoder]
        if not flat:
            raise InputError("ConcatWords needs at least one encoder")
        self.encoders = nn.ModuleList(flat)
        self.dim = sum(encoder.dim for encoder in flat)

    def learn(self, counts: Mapping[str, int]) -> None:
        """Build the vocabulary of each encoder."""
        for encoder in self.encoders:
            encoder.learn(counts)

    def rows(self, words: Sequence[str]) -> tuple[Tensor, ...]:
        """Return the rows of all encoders, in order: one tensor (words, k) each."""
        return tuple(row for encoder in self.encoders for row in encoder.rows(words))

    def vocabularies(self) -> list[list[str]]:
        """Return the vocabularies of all encoders, in order."""
        return [strings for encoder in self.encoders for strings in encoder.vocabularies()]

    def restore(self, vocabularies: Sequence[list[str]]) -> None:
        """Restore each encoder from its vocabulary."""
        if len(vocabularies) != len(self.encoders):
            raise InputError(
                f"there are {len(vocabularies)} vocabularies, but {len(self.encoders)} encoders"
            )
        for encoder, strings in zip(self.encoders, vocabularies, strict=True):
            encoder.restore([strings])

    def forward(self, *rows: Tensor) -> Tensor:
        """Return the joined vectors, shape (words, dim). Each encoder has one tensor of rows."""
        parts = [encoder(table) for encoder, table in zip(self.encoders, rows, strict=True)]
        return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
