"""Words from their characters: convolutions (CharCNN), and a recurrent network (CharRNN)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from trellis import _core
from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.nn.words.base import WordEncoder

__all__ = ["CharCNN", "CharRNN"]

_PAD, _BEGIN, _END, _UNKNOWN, _FIRST = range(5)
_WIDEST = 8
_MOST = 32  # characters of a word that are read, both ends of a longer one


class _Characters(WordEncoder):
    """An alphabet, and a vector for each of its characters."""

    def __init__(self, char_dim: int) -> None:
        super().__init__()
        self.char_dim = _positive(char_dim, "char_dim")
        self.alphabet: list[str] = []
        self.characters = nn.Embedding(_FIRST, self.char_dim, padding_idx=_PAD)

    def learn(self, counts: Mapping[str, int]) -> None:
        """The alphabet: every character of the words, in order."""
        self.restore([sorted({character for word in counts for character in word})])

    def vocabularies(self) -> list[list[str]]:
        """The alphabet."""
        return [self.alphabet]

    def restore(self, vocabularies: Sequence[list[str]]) -> None:
        """Take up an alphabet."""
        (self.alphabet,) = vocabularies
        if any(len(character) != 1 for character in self.alphabet):
            raise InputError("an alphabet must be of single characters")
        count = _FIRST + len(self.alphabet)
        self.characters = nn.Embedding(count, self.char_dim, padding_idx=_PAD)
        bound = (3.0 / self.char_dim) ** 0.5
        with torch.no_grad():
            self.characters.weight[1:].uniform_(-bound, bound)

    def rows(self, words: Sequence[str]) -> tuple[Tensor]:
        """Numbers of characters (words, longest), with a begin and an end around each word."""
        number = {character: _FIRST + n for n, character in enumerate(self.alphabet)}
        half = _MOST // 2
        kept = [w if len(w) <= _MOST else w[:half] + w[-half:] for w in words]
        lengths = np.fromiter(map(len, kept), np.int64, len(kept))
        table: NDArray[np.int64] = np.zeros(
            (len(kept), 2 + int(lengths.max(initial=0))), dtype=np.int64
        )
        table[:, 0] = _BEGIN
        table[np.arange(len(kept)), lengths + 1] = _END
        inside = np.arange(table.shape[1] - 2) < lengths[:, None]
        flat = [number.get(character, _UNKNOWN) for word in kept for character in word]
        table[:, 1:-1][inside] = flat
        return (torch.from_numpy(table),)


class CharCNN(_Characters):
    """v(word)ⱼ = max(0, maxₜ wⱼ · [cₜ; …; cₜ₊ₖ₋₁]): filters over windows of k characters.

    >>> _ = torch.manual_seed(0)
    >>> cnn = CharCNN(filters=30, widths=(2, 3, 4))
    >>> cnn.learn({"unseen": 1, "words": 1})
    >>> cnn.dim, cnn.encode(["unsound", "swords", "unsound"]).shape
    (30, torch.Size([3, 30]))

    ``filters`` are shared out among the ``widths`` (k, at most 8). With ``highway``, the result is
    a mixture g·relu(Wv + b) + (1 - g)·v, where a gate g for each number depends on v.
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
        self.widths = tuple(_positive(width, "widths") for width in widths)
        if not self.widths or max(self.widths) > _WIDEST:
            raise InputError(f"widths must be some numbers of at most {_WIDEST}, not {widths!r}")
        self.dim = _positive(filters, "filters")
        if self.dim < len(self.widths):
            raise InputError(f"{filters} filters are too few for {len(self.widths)} widths")
        share = [len(part) for part in np.array_split(np.arange(self.dim), len(self.widths))]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(self.char_dim, n, width, bias=False)
            for n, width in zip(share, self.widths, strict=True)
        )
        self.highway = nn.Linear(self.dim, 2 * self.dim) if highway else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """(words, dim) of characters (words, longest)."""
        characters = self.dropout(self.characters.weight)
        best = []
        for own, width in zip(self.convolutions, self.widths, strict=True):
            # what each filter gives each character at each place of a window
            weight: Any = own.weight
            flat = characters @ weight.permute(1, 2, 0).flatten(1)
            best.append(_largest(rows, flat.view(len(flat), width, -1)))
        v = (best[0] if len(best) == 1 else torch.cat(best, dim=1)).relu()
        if self.highway is None:
            return v
        other, gate = self.highway(v).chunk(2, dim=1)
        return torch.lerp(v, other.relu(), gate.sigmoid())


def _largest(ids: Tensor, table: Tensor) -> Tensor:
    """maxₜ Σₖ table[idsₜ₊ₖ, k], (words, filters); padding, and what is behind the end, adds 0.

    The gradient is that of the best window alone, so only the best window is recorded for it.
    """
    native = table.device.type == "cpu" and table.dtype == torch.float32
    if native and not torch.compiler.is_compiling():
        found: Tensor = _Largest.apply(ids, table)  # type: ignore[no-untyped-call]
        return found
    windows, width = ids.shape[1], table.shape[1]
    ids = functional.pad(ids, (0, width - 1))
    tables = functional.pad(table[1:], (0, 0, 0, 0, 1, 0)).unbind(1)
    with torch.no_grad():
        scores = functional.embedding(ids[:, :windows], tables[0])
        for k in range(1, width):
            scores += functional.embedding(ids[:, k : k + windows], tables[k])
        best = scores.max(dim=1).indices  # argmax is slower where the memory is not contiguous
    found = tables[0].gather(0, ids.gather(1, best))
    for k in range(1, width):
        found = found + tables[k].gather(0, ids.gather(1, best + k))
    return found


class _Largest(torch.autograd.Function):
    """The same in the native core: one pass over the characters, nothing kept of other windows."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, table: Tensor) -> Tensor:
        ids = ids.contiguous()
        best = table.new_empty(len(ids), table.shape[2])
        where = torch.empty_like(best, dtype=torch.int32)
        _core.largest_windows(ids.numpy(), table.detach().numpy(), best.numpy(), where.numpy())
        ctx.save_for_backward(ids, where)
        ctx.shape = table.shape
        return best

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_best: Tensor) -> tuple[None, Tensor]:
        ids, where = ctx.saved_tensors
        d_table, d = d_best.new_zeros(ctx.shape), d_best.contiguous()
        _core.largest_windows_backward(ids.numpy(), where.numpy(), d.numpy(), d_table.numpy())
        return None, d_table


class CharRNN(_Characters):
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
        if cell not in ("lstm", "gru"):
            raise InputError(f"cell must be lstm or gru, not {cell!r}")
        self.cell, self.dim = cell, 2 * _positive(hidden, "hidden")
        kind = nn.LSTM if cell == "lstm" else nn.GRU
        self.forwards, self.backwards = (kind(self.char_dim, hidden) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """(words, dim) of characters (words, longest)."""
        used = (rows != _PAD).sum(dim=1)
        steps = torch.arange(rows.shape[1], device=rows.device)
        # each word backwards, its padding still behind it
        back = (used[:, None] - 1 - steps).remainder(rows.shape[1])
        turned = rows.gather(1, back).where(steps < used[:, None], _PAD)
        last = (used - 1).clamp(min=0)
        words = torch.arange(len(rows), device=rows.device)
        ends = []
        for network, own in ((self.forwards, rows), (self.backwards, turned)):
            states = network(self.dropout(self.characters(own.t())))[0]
            ends.append(states[last, words])
        return torch.cat(ends, dim=1)


def _positive(value: int, name: str) -> int:
    number = as_integer(value, name)
    if number < 1:
        raise InputError(f"{name} must be at least 1, not {number}")
    return number
