"""What all encoders of words have in common, and several of them side by side."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trellis.errors import InputError

__all__ = ["ConcatWords", "WordEncoder"]


class WordEncoder(nn.Module, ABC):
    """From words to vectors: integers of each word once, then a network over the integers."""

    dim: int
    """How wide the vectors are."""

    @abstractmethod
    def learn(self, counts: Mapping[str, int]) -> None:
        """Take in the words of the training data, with how often each occurs."""

    @abstractmethod
    def rows(self, words: Sequence[str]) -> tuple[Tensor, ...]:
        """Integers (words, k) that `forward` takes; 0 is padding, and columns of it may be cut."""

    @abstractmethod
    def vocabularies(self) -> list[list[str]]:
        """The strings that were learned: all that a file needs besides the parameters."""

    @abstractmethod
    def restore(self, vocabularies: Sequence[list[str]]) -> None:
        """Take up what `vocabularies` gave, with parameters of the right shapes."""

    def encode(self, words: Sequence[str]) -> Tensor:
        """The vectors of any words, (words, dim): each unique word is encoded once."""
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise InputError(f"words must be a list of str, not {words!r:.60}")
        unique = {word: n for n, word in enumerate(dict.fromkeys(words))}
        device = next(self.parameters()).device
        rows = (r.to(device) for r in self.rows(list(unique)))
        index = torch.tensor([unique[word] for word in words], device=device)
        found: Tensor = self(*rows).index_select(0, index)
        return found


class ConcatWords(WordEncoder):
    """v(word) = [v₁(word); v₂(word); …]."""

    encoders: Any

    def __init__(self, *encoders: WordEncoder) -> None:
        super().__init__()
        flat: list[WordEncoder] = []
        for encoder in encoders:
            if not isinstance(encoder, WordEncoder):
                raise InputError(f"{encoder!r:.60} is not an encoder of words")
            flat += encoder.encoders if isinstance(encoder, ConcatWords) else [encoder]
        if not flat:
            raise InputError("there are no encoders to join")
        self.encoders = nn.ModuleList(flat)
        self.dim = sum(encoder.dim for encoder in flat)

    def learn(self, counts: Mapping[str, int]) -> None:
        """Let each learn the words."""
        for encoder in self.encoders:
            encoder.learn(counts)

    def rows(self, words: Sequence[str]) -> tuple[Tensor, ...]:
        """Those of all, in order."""
        return tuple(row for encoder in self.encoders for row in encoder.rows(words))

    def vocabularies(self) -> list[list[str]]:
        """Those of all, in order."""
        return [own for encoder in self.encoders for own in encoder.vocabularies()]

    def restore(self, vocabularies: Sequence[list[str]]) -> None:
        """Give each its own."""
        if len(vocabularies) != len(self.encoders):
            raise InputError(f"{len(vocabularies)} vocabularies for {len(self.encoders)} encoders")
        for encoder, own in zip(self.encoders, vocabularies, strict=True):
            encoder.restore([own])

    def forward(self, *rows: Tensor) -> Tensor:
        """(words, dim)."""
        parts = [encoder(own) for encoder, own in zip(self.encoders, rows, strict=True)]
        return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
