"""The chain in plain PyTorch, a loop over time: the reference for the fast operators.

    α₁(y) = start(y) + e₁(y)        αₜ(y) = log Σ_y' exp(αₜ₋₁(y') + A(y', y)) + eₜ(y)
    log Z = log Σ_y exp(α_T(y) + end(y))

emissions (B, T, L), transitions (L, L) or (B, T-1, L, L), lengths (B,). Autograd computes the
gradients.
"""

import torch
from torch import Tensor


def _select_transitions(transitions: Tensor, t: int) -> Tensor:
    """Return the transitions into step t, shape (L, L) or (B, L, L)."""
    return transitions if transitions.dim() == 2 else transitions[:, t - 1]


def _log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """log Σ exp x. Unlike that of torch.logsumexp, the gradient is not NaN if all x are -inf."""
    maximum = x.max(dim=dim, keepdim=True).values.detach()
    maximum = torch.where(torch.isfinite(maximum), maximum, torch.zeros_like(maximum))
    exp_sum = torch.exp(x - maximum).sum(dim=dim)
    is_impossible = exp_sum == 0
    return torch.where(
        is_impossible,
        -torch.inf,
        torch.log(torch.where(is_impossible, 1.0, exp_sum)) + maximum.squeeze(dim),
    )


def log_partition(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> Tensor:
    """Return log Z of each row (B,)."""
    alpha = start + emissions[:, 0]
    for t in range(1, emissions.shape[1]):
        new_alpha = (
            _log_sum_exp(alpha[:, :, None] + _select_transitions(transitions, t), dim=1)
            + emissions[:, t]
        )
        alpha = torch.where((t < lengths)[:, None], new_alpha, alpha)
    return _log_sum_exp(alpha + end, dim=1)


def score(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor,
) -> Tensor:
    """Return the score of the tags of each row (B,)."""
    rows = torch.arange(len(emissions), device=emissions.device)
    total = start[tags[:, 0]] + emissions[rows, 0, tags[:, 0]]
    for t in range(1, emissions.shape[1]):
        previous, current = tags[:, t - 1], tags[:, t]
        step = _select_transitions(transitions, t)
        pair = step[previous, current] if step.dim() == 2 else step[rows, previous, current]
        total = total + torch.where(t < lengths, pair + emissions[rows, t, current], 0.0)
    return total + end[tags[rows, lengths - 1]]


def viterbi(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the best labels (B, T), 0 after the length of a row, and their scores (B,)."""
    alpha, pointers = start + emissions[:, 0], []
    for t in range(1, emissions.shape[1]):
        best, previous = (alpha[:, :, None] + _select_transitions(transitions, t)).max(dim=1)
        is_inside = (t < lengths)[:, None]
        pointers.append(torch.where(is_inside, previous, torch.arange(emissions.shape[2])))
        alpha = torch.where(is_inside, best + emissions[:, t], alpha)
    value, last = (alpha + end).max(dim=1)
    path = [last]
    for previous in reversed(pointers):
        path.append(previous.gather(1, path[-1][:, None])[:, 0])
    labels = torch.stack(path[::-1], dim=1)
    is_outside = torch.arange(emissions.shape[1])[None] >= lengths[:, None]
    return labels.masked_fill(is_outside, 0), value


def entropy(
    emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> Tensor:
    """Return the entropy H(y | x) of each row (B,).

    The recursion keeps, next to αₜ(y), the entropy of the previous labels given yₜ = y.
    """
    alpha, entropies = start + emissions[:, 0], torch.zeros_like(emissions[:, 0])
    for t in range(1, emissions.shape[1]):
        joint_scores = alpha[:, :, None] + _select_transitions(transitions, t)
        log_total = _log_sum_exp(joint_scores, dim=1)
        log_p = torch.where(torch.isneginf(joint_scores), 0.0, joint_scores - log_total[:, None])
        p = torch.where(torch.isneginf(joint_scores), 0.0, torch.exp(log_p))
        new_entropies = (p * (entropies[:, :, None] - log_p)).sum(dim=1)
        is_inside = (t < lengths)[:, None]
        alpha = torch.where(is_inside, log_total + emissions[:, t], alpha)
        entropies = torch.where(is_inside, new_entropies, entropies)
    joint_scores = alpha + end
    log_p = torch.where(
        torch.isneginf(joint_scores), 0.0, joint_scores - _log_sum_exp(joint_scores, dim=1)[:, None]
    )
    p = torch.where(torch.isneginf(joint_scores), 0.0, torch.exp(log_p))
    return (p * (entropies - log_p)).sum(dim=1)
