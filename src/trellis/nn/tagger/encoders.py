"""Tokens in context: a recurrent network over the packed tokens of a batch, or convolutions."""

from torch import Tensor, nn

from trellis.nn.lstm.bidirectional import bidirectional, runs_on_gpu
from trellis.nn.tagger.data import Batch

__all__ = ["ConvEncoder", "RecurrentEncoder"]


class RecurrentEncoder(nn.Module):
    """hₜ = [LSTM→(x₁ … xₜ); LSTM←(x_T … xₜ)]: a bidirectional LSTM, ``dim`` = 2 · hidden wide."""

    def __init__(self, width: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim = 2 * hidden
        self.lstm = nn.LSTM(
            width, hidden, layers, bidirectional=True, dropout=dropout if layers > 1 else 0.0
        )

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        """Packed tokens (N, width) in, packed tokens (N, dim) out."""
        return bidirectional(self.lstm, x, batch.sizes, batch.walk, len(batch.lengths))

    @property
    def skips_padding(self) -> bool:
        """Whether tokens that no sequence comes to are left alone."""
        return runs_on_gpu(self.lstm)


class ConvEncoder(nn.Module):
    """hₜ ← relu(W [hₜ₋ₖ; hₜ; hₜ₊ₖ] + b) + hₜ, k = 1, 2, 4, … in layers one upon the other."""

    skips_padding = False  # they would be neighbours of others

    def __init__(self, width: int, hidden: int, layers: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim = 2 * hidden
        self.first = nn.Linear(width, self.dim)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(self.dim, self.dim, 3, padding=2**n, dilation=2**n) for n in range(layers)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        """Packed tokens (N, width) in, packed tokens (N, dim) out."""
        shape, place = (len(batch.lengths), len(batch.sizes)), batch.place
        h = self.first(x).relu()
        for convolution in self.convolutions:
            # what lies behind the end of a sequence is 0 in each layer
            grid = h.new_zeros(shape[0] * shape[1], self.dim).index_copy_(0, place, self.dropout(h))
            wide = convolution(grid.view(*shape, self.dim).transpose(1, 2)).transpose(1, 2)
            h = wide.reshape(-1, self.dim).index_select(0, place).relu() + h
        return h
