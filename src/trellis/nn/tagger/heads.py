"""What is made of emissions besides a CRF: a softmax for each token, and a MEMM.

Both have the face of `trellis.nn.CRF`: called with emissions (B, T, L), tags (B, T) and lengths,
they give the sum of the log-probabilities; ``scores()`` are those of transitions, starts and ends.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["MEMM", "Softmax"]


class Softmax(nn.Module):
    """p(y | x) = Πₜ softmax(eₜ)(yₜ): each token for itself."""

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self.num_tags = num_tags

    def forward(self, emissions: Tensor, tags: Tensor, *, lengths: Tensor) -> Tensor:
        """Σ log p(tags | emissions)."""
        return _picked(emissions, tags, lengths)

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions, starts and ends, all 0."""
        zeros = torch.zeros(self.num_tags)
        return zeros.expand(self.num_tags, -1), zeros, zeros


class MEMM(nn.Module):
    """p(y | x) = Πₜ softmax(eₜ + A(yₜ₋₁, ·))(yₜ): each label given the one before it."""

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self.num_tags = num_tags
        self.start_transitions = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags).uniform_(-0.1, 0.1))

    def forward(self, emissions: Tensor, tags: Tensor, *, lengths: Tensor) -> Tensor:
        """Σ log p(tags | emissions)."""
        first = self.start_transitions.expand(len(tags), 1, -1)
        before = functional.embedding(tags[:, :-1], self.transitions)
        return _picked(emissions + torch.cat([first, before], dim=1), tags, lengths)

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions, starts and ends, before they are normalised step by step."""
        return self.transitions, self.start_transitions, torch.zeros(self.num_tags)


def _picked(scores: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
    inside = torch.arange(tags.shape[1], device=tags.device) < lengths[:, None]
    if tags.dtype == torch.bool:
        known = scores.masked_fill(~tags, -torch.inf).logsumexp(dim=2) - scores.logsumexp(dim=2)
        return known.where(inside, 0.0).sum()
    log_p = scores.float().log_softmax(dim=2).gather(2, tags[:, :, None])[:, :, 0]
    return log_p.where(inside, 0.0).sum()
