"""The network of a tagger: words → vectors → context → emissions → a head."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis.models.chain.labels import constraints_for
from trellis.nn.crf import CRF
from trellis.nn.tagger.data import Batch
from trellis.nn.tagger.encoders import ConvEncoder, RecurrentEncoder
from trellis.nn.tagger.heads import MEMM, Softmax
from trellis.nn.words.base import WordEncoder

__all__ = ["ENCODERS", "HEADS", "Network", "make_head"]

ENCODERS = {"lstm": RecurrentEncoder, "cnn": ConvEncoder}
HEADS = ("crf", "softmax", "memm")


class Network(nn.Module):
    """eₜ = W h(v(word₁) … v(word_T))ₜ + b, and log p(y | e) by the head."""

    words: Any
    encoder: Any
    head: Any

    def __init__(
        self,
        words: WordEncoder,
        encoder: Any,
        head: Any,
        labels: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.words, self.encoder, self.head = words, encoder, head
        self.output = nn.Linear(encoder.dim, labels)
        self.dropout = dropout
        self.own_head = isinstance(head, CRF | Softmax | MEMM)

    @property
    def device(self) -> torch.device:
        """Where it is."""
        found: torch.device = self.output.weight.device
        return found

    @property
    def fixed_sizes(self) -> bool:
        """Whether padding in a batch changes nothing, and its sizes say all about it."""
        head, skips = self.head, bool(self.encoder.skips_padding)
        waits = type(head) is CRF and head.validate  # it looks at what a graph will not show it
        return skips and type(head) in (CRF, Softmax, MEMM) and not waits

    def forward(self, batch: Batch) -> Tensor:
        """Emissions (B, T, labels); 0 behind the end of a sequence."""
        shape = (len(batch.lengths), len(batch.sizes))
        x = self.words(*batch.rows).index_select(0, batch.word)
        h = self.encoder(self._dropped(x, batch), batch)
        e = self.output(self._dropped(h, batch))
        e = e.float()
        grid = e.new_zeros(shape[0] * shape[1], e.shape[1]).index_copy_(0, batch.place, e)
        return grid.view(*shape, e.shape[1])

    def log_likelihood(self, batch: Batch) -> Tensor:
        """Σ log p(tags | words) over the sequences of a batch."""
        emissions = self(batch)
        if self.own_head:
            found: Tensor = self.head(emissions, batch.tags, lengths=batch.lengths)
            return found
        steps = torch.arange(emissions.shape[1], device=emissions.device)
        value: Tensor = self.head(emissions, batch.tags, mask=steps < batch.lengths[:, None])
        return value

    def _dropped(self, x: Tensor, batch: Batch) -> Tensor:
        """Variational dropout: all tokens of a sequence lose the same numbers."""
        if not self.training or self.dropout == 0:
            return x
        kept = x.new_empty(len(batch.lengths), x.shape[1]).bernoulli_(1 - self.dropout)
        return x * kept.div_(1 - self.dropout).index_select(0, batch.row)


def make_head(head: str | Callable[[int], nn.Module], labels: list[Any], constraints: Any) -> Any:
    """A head by its name, or what a function of the number of labels gives."""
    if callable(head):
        return head(len(labels))
    if head == "crf":
        limits: Any = constraints
        if constraints is not None and not isinstance(constraints, str):
            forbidden = constraints_for(constraints, labels)
            limits = [] if forbidden is None else np.argwhere(forbidden.forbidden).tolist()
        names = [str(label) for label in labels]
        return CRF(len(labels), batch_first=True, labels=names, constraints=limits, validate=False)
    return {"softmax": Softmax, "memm": MEMM}[head](len(labels))
