"""The recursions as the equations have them, for one sequence: what the fast path must equal."""

import numpy as np


def log_softmax(logits):
    top = logits.max(axis=-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))


def _log_add(*terms):
    return np.logaddexp.reduce(terms)


def _extend(target, blank):
    """A blank before, between and behind the labels, and where a label may follow a label."""
    z = np.full(2 * len(target) + 1, blank)
    z[1::2] = target
    skip = np.zeros(len(z), dtype=bool)
    skip[2:] = (z[2:] != blank) & (z[2:] != z[:-2])
    return z, skip


def _shift(row, by):
    """Row[s - by], -inf where that is outside."""
    out = np.full_like(row, -np.inf)
    if by > 0:
        out[by:] = row[:-by] if by < len(row) else []
    else:
        out[:by] = row[-by:] if -by < len(row) else []
    return out


def _forward(u, skip):
    """α[t, s] = u[t, s] + log(α[t-1, s] + α[t-1, s-1] + α[t-1, s-2] where that is allowed)."""
    alpha = np.full(u.shape, -np.inf)
    alpha[0, :2] = u[0, :2]
    for t in range(1, len(u)):
        a = alpha[t - 1]
        alpha[t] = u[t] + _log_add(a, _shift(a, 1), np.where(skip, _shift(a, 2), -np.inf))
    return alpha


def _backward(u, skip):
    """β[t, s] = log of the sum over the same steps, from s, of u[t+1] + β[t+1]."""
    beta = np.full(u.shape, -np.inf)
    beta[-1, -2:] = 0.0
    for t in range(len(u) - 1, 0, -1):
        b = u[t] + beta[t]
        beta[t - 1] = _log_add(b, _shift(b, -1), _shift(np.where(skip, b, -np.inf), -2))
    return beta


def loss(log_probs, target, blank=0):
    z, skip = _extend(target, blank)
    return -_log_add(*_forward(log_probs[:, z], skip)[-1, -2:])


def posterior(log_probs, target, blank=0):
    """p(label v at frame t | target) = Σ over states s with label v of α β / p(target)."""
    z, skip = _extend(target, blank)
    u = log_probs[:, z]
    log_p = -loss(log_probs, target, blank)
    gamma = np.zeros(log_probs.shape)
    if log_p > -np.inf:
        states = np.exp(_forward(u, skip) + _backward(u, skip) - log_p)
        np.add.at(gamma, (slice(None), z), states)
    return gamma


def gradient(scores, target, blank=0, logits=False):
    """∂loss/∂scores; 0 where the loss is infinite."""
    log_probs = log_softmax(scores) if logits else scores
    gamma = posterior(log_probs, target, blank)
    return np.exp(log_probs) * gamma.sum(axis=1, keepdims=True) - gamma if logits else -gamma
