"""The chain in plain PyTorch, a loop over time: the reference for the fast operators.

    α₁(y) = start(y) + e₁(y)        αₜ(y) = log Σ_y' exp(αₜ₋₁(y') + A(y', y)) + eₜ(y)
    log Z = log Σ_y exp(α_T(y) + end(y))

emissions (B, T, L), transitions (L, L) or (B, T-1, L, L), lengths (B). Autograd does the rest.
"""

import torch
from torch import Tensor


def _step(transitions: Tensor, t: int) -> Tensor:
    return transitions if transitions.dim() == 2 else transitions[:, t - 1]


def _log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """log Σ exp x; unlike torch.logsumexp, its gradient is not NaN if all x are -inf."""
    top = x.max(dim=dim, keepdim=True).values.detach()
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    total = torch.exp(x - top).sum(dim=dim)
    empty = total == 0
    return torch.where(
        empty, -torch.inf, torch.log(torch.where(empty, 1.0, total)) + top.squeeze(dim)
    )


def log_partition(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> Tensor:
    """log Z of each row (B,)."""
    alpha = start + emissions[:, 0]
    for t in range(1, emissions.shape[1]):
        new = _log_sum_exp(alpha[:, :, None] + _step(transitions, t), dim=1) + emissions[:, t]
        alpha = torch.where((t < lengths)[:, None], new, alpha)
    return _log_sum_exp(alpha + end, dim=1)


def score(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor,
) -> Tensor:
    """The score of the tags of each row (B,)."""
    rows = torch.arange(len(emissions), device=emissions.device)
    total = start[tags[:, 0]] + emissions[rows, 0, tags[:, 0]]
    for t in range(1, emissions.shape[1]):
        before, after = tags[:, t - 1], tags[:, t]
        step = _step(transitions, t)
        pair = step[before, after] if step.dim() == 2 else step[rows, before, after]
        total = total + torch.where(t < lengths, pair + emissions[rows, t, after], 0.0)
    return total + end[tags[rows, lengths - 1]]


def viterbi(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """The best labels (B, T), 0 after the length of a row, and their scores (B,)."""
    alpha, pointers = start + emissions[:, 0], []
    for t in range(1, emissions.shape[1]):
        best, before = (alpha[:, :, None] + _step(transitions, t)).max(dim=1)
        alive = (t < lengths)[:, None]
        pointers.append(torch.where(alive, before, torch.arange(emissions.shape[2])))
        alpha = torch.where(alive, best + emissions[:, t], alpha)
    value, last = (alpha + end).max(dim=1)
    path = [last]
    for before in reversed(pointers):
        path.append(before.gather(1, path[-1][:, None])[:, 0])
    labels = torch.stack(path[::-1], dim=1)
    outside = torch.arange(emissions.shape[1])[None] >= lengths[:, None]
    return labels.masked_fill(outside, 0), value


def entropy(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> Tensor:
    """H(y) of each row (B,): the entropy of the labels before, given each label, goes with α."""
    alpha, entropies = start + emissions[:, 0], torch.zeros_like(emissions[:, 0])
    for t in range(1, emissions.shape[1]):
        joint = alpha[:, :, None] + _step(transitions, t)
        total = _log_sum_exp(joint, dim=1)
        log_p = torch.where(torch.isneginf(joint), 0.0, joint - total[:, None])
        p = torch.where(torch.isneginf(joint), 0.0, torch.exp(log_p))
        new = (p * (entropies[:, :, None] - log_p)).sum(dim=1)
        alive = (t < lengths)[:, None]
        alpha = torch.where(alive, total + emissions[:, t], alpha)
        entropies = torch.where(alive, new, entropies)
    joint = alpha + end
    log_p = torch.where(torch.isneginf(joint), 0.0, joint - _log_sum_exp(joint, dim=1)[:, None])
    p = torch.where(torch.isneginf(joint), 0.0, torch.exp(log_p))
    return (p * (entropies - log_p)).sum(dim=1)
