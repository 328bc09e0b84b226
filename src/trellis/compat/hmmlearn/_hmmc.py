"""The recursions of hmmlearn's extension module, for one sequence, with the same results.

The models do not use them: they call the native core of trellis for all sequences at once.
"""

from typing import Any

import numpy as np

from trellis.inference import chain

__all__ = ["backward_log", "backward_scaling", "forward_log", "forward_scaling", "viterbi"]
__all__ += ["compute_log_xi_sum", "compute_scaling_xi_sum"]

_MIN_SCALE = 1e-300


def _log(p: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(p, dtype=np.float64))


def forward_log(startprob: Any, transmat: Any, log_frameprob: Any) -> tuple[float, Any]:
    """Return log p(x) and log p(x₀ … xₜ, yₜ), shape (n_samples, n_components)."""
    log_transmat = _log(transmat)
    forward = [_log(startprob) + log_frameprob[0]]
    for scores in log_frameprob[1:]:
        forward.append(np.logaddexp.reduce(forward[-1][:, None] + log_transmat, axis=0) + scores)
    return float(np.logaddexp.reduce(forward[-1])), np.array(forward)


def backward_log(startprob: Any, transmat: Any, log_frameprob: Any) -> Any:
    """Return log p(xₜ₊₁ … | yₜ), shape (n_samples, n_components)."""
    log_transmat = _log(transmat)
    backward = [np.zeros(len(log_transmat))]
    for scores in log_frameprob[:0:-1]:
        backward.append(np.logaddexp.reduce(log_transmat + scores + backward[-1], axis=1))
    return np.array(backward[::-1])


def forward_scaling(startprob: Any, transmat: Any, frameprob: Any) -> tuple[float, Any, Any]:
    """Return log p(x), p(x₀ … xₜ, yₜ) scaled to the sum 1 at each t, and the scaling factors."""
    forward = np.empty(np.shape(frameprob))
    scaling = np.empty(len(frameprob))
    before = np.asarray(startprob)
    for t, scores in enumerate(frameprob):
        row = before * scores
        if row.sum() < _MIN_SCALE:
            raise ValueError(
                "forward pass failed with underflow; consider using implementation='log' instead"
            )
        scaling[t] = 1.0 / row.sum()
        forward[t] = row * scaling[t]
        before = forward[t] @ np.asarray(transmat)
    return float(-np.log(scaling).sum()), forward, scaling


def backward_scaling(startprob: Any, transmat: Any, frameprob: Any, scaling: Any) -> Any:
    """Return p(xₜ₊₁ … | yₜ), multiplied by the factors of positions t, t + 1, …."""
    backward = np.empty(np.shape(frameprob))
    backward[-1] = scaling[-1]
    for t in range(len(frameprob) - 2, -1, -1):
        backward[t] = np.asarray(transmat) @ (frameprob[t + 1] * backward[t + 1]) * scaling[t]
    return backward


def compute_log_xi_sum(forward: Any, transmat: Any, backward: Any, log_frameprob: Any) -> Any:
    """Return log Σₜ p(yₜ₋₁, yₜ | x), shape (n_components, n_components)."""
    log_p = np.logaddexp.reduce(forward[-1])
    after = (log_frameprob + backward)[1:]
    pairs = forward[:-1, :, None] + _log(transmat) + after[:, None, :] - log_p
    return np.logaddexp.reduce(pairs, axis=0)


def compute_scaling_xi_sum(forward: Any, transmat: Any, backward: Any, frameprob: Any) -> Any:
    """Return Σₜ p(yₜ₋₁, yₜ | x), shape (n_components, n_components)."""
    return forward[:-1].T @ (frameprob * backward)[1:] * np.asarray(transmat)


def viterbi(startprob: Any, transmat: Any, log_frameprob: Any) -> tuple[float, Any]:
    """Return max log p(x, y) and its states, shape (n_samples,)."""
    path = chain.viterbi(np.asarray(log_frameprob), _log(transmat), _log(startprob))
    return float(path.score), path.labels
