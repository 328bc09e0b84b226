"""Vectors of words from their characters: a convolutional and a recurrent network."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from trellis import _core
from trellis.checks import as_positive
from trellis.errors import InputError
from trellis.nn.words.base import WordEncoder

__all__ = ["CELLS", "CharCNN", "CharRNN"]

CELLS = ("lstm", "gru")

# reserved rows of the character table, and the row of the first character
_PAD, _BEGIN, _END, _UNKNOWN, _FIRST = range(5)
_MAX_WIDTH = 8  # characters per filter: the largest window of the native kernel
_MAX_CHARACTERS = 32  # a longer word is cut to its first and its last 16 characters


class _CharacterEncoder(WordEncoder):
    """Base class: an alphabet, and an embedding (characters, char_dim) of its characters."""

    def __init__(self, char_dim: int) -> None:
        super().__init__()
        self.char_dim = as_positive(char_dim, "char_dim")
        self.alphabet: list[str] = []
        self.characters = nn.Embedding(_FIRST, self.char_dim, padding_idx=_PAD)

    def learn(self, counts: Mapping[str, int]) -> None:
        """Set the alphabet to all characters of the words, sorted."""
        self.restore([sorted({character for word in counts for character in word})])

    def vocabularies(self) -> list[list[str]]:
        """Return the alphabet."""
        return [self.alphabet]

    def restore(self, vocabularies: Sequence[list[str]]) -> None:
        """Set the alphabet and create its embedding."""
        (self.alphabet,) = vocabularies
        if any(len(character) != 1 for character in self.alphabet):
            invalid_entry = next(entry for entry in self.alphabet if len(entry) != 1)
            raise InputError(
                f"the alphabet contains {invalid_entry!r:.60}: each entry must be a single "
                "character"
            )
        count = _FIRST + len(self.alphabet)
        self.characters = nn.Embedding(count, self.char_dim, padding_idx=_PAD)
        bound = (3.0 / self.char_dim) ** 0.5  # uniform on ±bound has variance 1 / char_dim
        with torch.no_grad():
            self.characters.weight[1:].uniform_(-bound, bound)

    def rows(self, words: Sequence[str]) -> tuple[Tensor]:
        """Return character ids, shape (words, longest), with begin and end ids around each word."""
        ids = {character: _FIRST + n for n, character in enumerate(self.alphabet)}
        half_length = _MAX_CHARACTERS // 2
        clipped_words = [
            w if len(w) <= _MAX_CHARACTERS else w[:half_length] + w[-half_length:] for w in words
        ]
        lengths = np.fromiter(map(len, clipped_words), np.int64, len(clipped_words))
        table: NDArray[np.int64] = np.zeros(
            (len(clipped_words), 2 + int(lengths.max(initial=0))), dtype=np.int64
        )
        table[:, 0] = _BEGIN
        table[np.arange(len(clipped_words)), lengths + 1] = _END
        is_inside = np.arange(table.shape[1] - 2) < lengths[:, None]
        character_ids = [
            ids.get(character, _UNKNOWN) for word in clipped_words for character in word
        ]
        table[:, 1:-1][is_inside] = character_ids
        return (torch.from_numpy(table),)


class CharCNN(_CharacterEncoder):
    """v(word)ⱼ = max(0, maxₜ wⱼ · [cₜ; …; cₜ₊ₖ₋₁]): filters over windows of k characters.

    >>> _ = torch.manual_seed(0)
    >>> cnn = CharCNN(filters=30, widths=(2, 3, 4))
    >>> cnn.learn({"unseen": 1, "words": 1})
    >>> cnn.dim, cnn.encode(["unsound", "swords", "unsound"]).shape
    (30, torch.Size([3, 30]))

    The ``filters`` are divided evenly among the ``widths`` k, each at most 8. With ``highway``, the
    result is g·relu(Wv + b) + (1 - g)·v, where the gate g, one number per dimension, is a function
    of v.
    """

    def __init__(
        self,
        char_dim: int = 25,
        widths: Sequence[int] = (3,),
        filters: int = 50,
        *,
        highway: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(char_dim)
        self.widths = tuple(as_positive(width, "widths") for width in widths)
        if not self.widths or max(self.widths) > _MAX_WIDTH:
            raise InputError(f"widths must be numbers from 1 to {_MAX_WIDTH}, not {widths!r}")
        self.dim = as_positive(filters, "filters")
        if self.dim < len(self.widths):
            raise InputError(
                f"filters is {filters}: must be at least {len(self.widths)}, the number of widths"
            )
        filters_per_width, remainder = divmod(self.dim, len(self.widths))
        counts = [filters_per_width + (n < remainder) for n in range(len(self.widths))]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(self.char_dim, count, width, bias=False)
            for count, width in zip(counts, self.widths, strict=True)
        )
        self.highway = nn.Linear(self.dim, 2 * self.dim) if highway else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """Return vectors (words, dim) of character ids (words, longest)."""
        characters = self.dropout(self.characters.weight)
        maxima = []
        for convolution, width in zip(self.convolutions, self.widths, strict=True):
            # The table (characters, width, filters) has the score that a character adds at each
            # offset of a window. An alphabet is smaller than a batch, so computing this table is
            # cheaper than a convolution.
            weight: Any = convolution.weight
            flat_scores = characters @ weight.permute(1, 2, 0).flatten(1)
            maxima.append(_max_windows(rows, flat_scores.view(len(flat_scores), width, -1)))
        vectors = (maxima[0] if len(maxima) == 1 else torch.cat(maxima, dim=1)).relu()
        if self.highway is None:
            return vectors
        transformed, gate = self.highway(vectors).chunk(2, dim=1)
        return torch.lerp(vectors, transformed.relu(), gate.sigmoid())


def _max_windows(ids: Tensor, table: Tensor) -> Tensor:
    """Compute maxₜ Σₖ table[idsₜ₊ₖ, k], shape (words, filters).

    Padding and positions after the end add 0. Only the best window has a gradient, so only that
    window is recorded for the backward pass.
    """
    is_native = table.device.type == "cpu" and table.dtype == torch.float32
    if is_native and not torch.compiler.is_compiling():
        maxima: Tensor = _MaxWindows.apply(ids, table)  # type: ignore[no-untyped-call]
        return maxima
    windows, width = ids.shape[1], table.shape[1]
    ids = functional.pad(ids, (0, width - 1))
    tables = functional.pad(table[1:], (0, 0, 0, 0, 1, 0)).unbind(1)
    with torch.no_grad():
        scores = functional.embedding(ids[:, :windows], tables[0])
        for k in range(1, width):
            scores += functional.embedding(ids[:, k : k + windows], tables[k])
        best = scores.max(dim=1).indices  # argmax is slower on memory that is not contiguous
    maxima = tables[0].gather(0, ids.gather(1, best))
    for k in range(1, width):
        maxima = maxima + tables[k].gather(0, ids.gather(1, best + k))
    return maxima


class _MaxWindows(torch.autograd.Function):
    """`_max_windows` in the native core: one pass over the characters, which stores no scores."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, table: Tensor) -> Tensor:
        ids = ids.contiguous()
        maxima = table.new_empty(len(ids), table.shape[2])  # (words, filters)
        positions = torch.empty_like(maxima, dtype=torch.int32)  # t of the best window
        _core.largest_windows(
            ids.numpy(), table.detach().numpy(), maxima.numpy(), positions.numpy()
        )
        ctx.save_for_backward(ids, positions)
        ctx.shape = table.shape
        return maxima

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_maxima: Tensor) -> tuple[None, Tensor]:
        ids, positions = ctx.saved_tensors
        d_table, contiguous_gradient = d_maxima.new_zeros(ctx.shape), d_maxima.contiguous()
        _core.largest_windows_backward(
            ids.numpy(), positions.numpy(), contiguous_gradient.numpy(), d_table.numpy()
        )
        return None, d_table


class CharRNN(_CharacterEncoder):
    """v(word) = [h→ after its last character; h← after its first]: a bidirectional LSTM or GRU.

    >>> _ = torch.manual_seed(0)
    >>> rnn = CharRNN(hidden=25, cell="gru")
    >>> rnn.learn({"unseen": 1, "words": 1})
    >>> rnn.dim, rnn.encode(["unsound", "swords", "unsound"]).shape
    (50, torch.Size([3, 50]))
    """

    def __init__(
        self, char_dim: int = 25, hidden: int = 25, *, cell: str = "lstm", dropout: float = 0.0
    ) -> None:
        super().__init__(char_dim)
        if cell not in CELLS:
            raise InputError(f"cell must be lstm or gru, not {cell!r}")
        self.cell, self.dim = cell, 2 * as_positive(hidden, "hidden")
        network_class = nn.LSTM if cell == "lstm" else nn.GRU
        self.forwards, self.backwards = (network_class(self.char_dim, hidden) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """Return vectors (words, dim) of character ids (words, longest)."""
        lengths = (rows != _PAD).sum(dim=1)
        steps = torch.arange(rows.shape[1], device=rows.device)
        # the position that each step of the reversed word reads; padding stays at the end
        sources = (lengths[:, None] - 1 - steps).remainder(rows.shape[1])
        reversed_rows = rows.gather(1, sources).where(steps < lengths[:, None], _PAD)
        last_position = (lengths - 1).clamp(min=0)
        word_index = torch.arange(len(rows), device=rows.device)
        end_states = []
        for network, ids in ((self.forwards, rows), (self.backwards, reversed_rows)):
            states = network(self.dropout(self.characters(ids.t())))[0]
            end_states.append(states[last_position, word_index])
        return torch.cat(end_states, dim=1)
