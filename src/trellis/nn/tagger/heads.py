"""Heads other than the CRF: a softmax per token, and a MEMM.

They have the interface of `trellis.nn.CRF`. A call with emissions (B, T, L), tags (B, T) and
lengths (B,) returns the sum of the log probabilities. ``scores()`` returns the scores of
transitions (L, L), starts (L,) and ends (L,).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["MEMM", "Softmax"]


class Softmax(nn.Module):
    """p(y | x) = Πₜ softmax(eₜ)(yₜ): each label is independent of the others."""

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self.num_tags = num_tags

    def forward(
        self, emissions: Tensor, tags: Tensor, *, lengths: Tensor, reduction: str = "sum"
    ) -> Tensor:
        """Return Σ log p(tags | emissions), a scalar, or with "none" log p of each row, (B,)."""
        return _log_likelihood(emissions, tags, lengths, reduction)

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores of transitions, starts and ends, all 0."""
        zeros = torch.zeros(self.num_tags)
        return zeros.expand(self.num_tags, -1), zeros, zeros


class MEMM(nn.Module):
    """p(y | x) = Πₜ softmax(eₜ + A(yₜ₋₁, ·))(yₜ): each label depends on the previous one."""

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self.num_tags = num_tags
        self.start_transitions = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags).uniform_(-0.1, 0.1))

    def forward(
        self, emissions: Tensor, tags: Tensor, *, lengths: Tensor, reduction: str = "sum"
    ) -> Tensor:
        """Return Σ log p(tags | emissions), a scalar, or with "none" log p of each row, (B,)."""
        first = self.start_transitions.expand(len(tags), 1, -1)
        later = functional.embedding(tags[:, :-1], self.transitions)
        scores = emissions + torch.cat([first, later], dim=1)
        return _log_likelihood(scores, tags, lengths, reduction)

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores of transitions, starts and ends, before the softmax of each step."""
        return self.transitions, self.start_transitions, torch.zeros(self.num_tags)


def _log_likelihood(scores: Tensor, tags: Tensor, lengths: Tensor, reduction: str) -> Tensor:
    """Return Σₜ log p(tagₜ) of each row, (B,), or of all rows with "sum".

    Bool tags (B, T, L) are sets of allowed labels: p is then the sum over the set.
    """
    is_inside = torch.arange(tags.shape[1], device=tags.device) < lengths[:, None]
    if tags.dtype == torch.bool:
        allowed = scores.masked_fill(~tags, -torch.inf).logsumexp(dim=2)
        log_p = allowed - scores.logsumexp(dim=2)
    else:
        log_p = scores.float().log_softmax(dim=2).gather(2, tags[:, :, None])[:, :, 0]
    log_p = log_p.where(is_inside, 0.0)
    return log_p.sum() if reduction == "sum" else log_p.sum(dim=1)
