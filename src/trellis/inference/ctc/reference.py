"""The recursions as in the equations, for one sequence. Tests compare the fast path with them."""

import numpy as np


def log_softmax(logits):
    maximum = logits.max(axis=-1, keepdims=True)
    return logits - maximum - np.log(np.exp(logits - maximum).sum(axis=-1, keepdims=True))


def _log_add(*terms):
    return np.logaddexp.reduce(terms)


def _extend(target, blank):
    """Return the extended labels – y₁ – y₂ – … –, and where a step may skip a blank."""
    z = np.full(2 * len(target) + 1, blank)
    z[1::2] = target
    skip = np.zeros(len(z), dtype=bool)
    skip[2:] = (z[2:] != blank) & (z[2:] != z[:-2])
    return z, skip


def _shift(row, by):
    """Return row[s - by] for each s, with -inf outside of the row."""
    shifted = np.full_like(row, -np.inf)
    if by > 0:
        shifted[by:] = row[:-by] if by < len(row) else []
    else:
        shifted[:by] = row[-by:] if -by < len(row) else []
    return shifted


def _forward(u, skip):
    """α[t, s] = u[t, s] + log Σ exp of α[t-1, s], α[t-1, s-1] and, if skip[s], α[t-1, s-2]."""
    alpha = np.full(u.shape, -np.inf)
    alpha[0, :2] = u[0, :2]
    for t in range(1, len(u)):
        previous = alpha[t - 1]
        alpha[t] = u[t] + _log_add(
            previous, _shift(previous, 1), np.where(skip, _shift(previous, 2), -np.inf)
        )
    return alpha


def _backward(u, skip):
    """β[t, s] = log Σ exp(u[t+1, s'] + β[t+1, s']) over the states s' that follow s."""
    beta = np.full(u.shape, -np.inf)
    beta[-1, -2:] = 0.0
    for t in range(len(u) - 1, 0, -1):
        b = u[t] + beta[t]
        beta[t - 1] = _log_add(b, _shift(b, -1), _shift(np.where(skip, b, -np.inf), -2))
    return beta


def forward(log_probs, target, blank=0):
    z, skip = _extend(target, blank)
    return _forward(log_probs[:, z], skip)


def backward(log_probs, target, blank=0):
    z, skip = _extend(target, blank)
    return _backward(log_probs[:, z], skip)


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
    """∂loss/∂scores. It is 0 if the loss is infinite."""
    log_probs = log_softmax(scores) if logits else scores
    gamma = posterior(log_probs, target, blank)
    return np.exp(log_probs) * gamma.sum(axis=1, keepdims=True) - gamma if logits else -gamma


def align(log_probs, target, blank=0):
    """max Σ u[t, s_t] over walks s: δ[t, s] = u[t, s] + max of δ[t-1] at s, s-1, s-2.

    The result is the labels of all frames and the score. Of equally good steps, the shortest is
    taken.
    """
    z, skip = _extend(target, blank)
    u = log_probs[:, z]
    delta = np.full(u.shape, -np.inf)
    delta[0, :2] = u[0, :2]
    steps = np.zeros(u.shape, dtype=int)
    for t in range(1, len(u)):
        previous = delta[t - 1]
        candidates = np.stack(
            [previous, _shift(previous, 1), np.where(skip, _shift(previous, 2), -np.inf)]
        )
        steps[t] = candidates.argmax(axis=0)
        delta[t] = u[t] + candidates.max(axis=0)
    s = len(z) - 1
    if s > 0 and delta[-1, s - 1] >= delta[-1, s]:
        s -= 1
    score = delta[-1, s]
    labels = np.empty(len(u), dtype=int)
    for t in range(len(u) - 1, -1, -1):
        labels[t] = z[s]
        s -= steps[t, s]
    return labels, score


def collapse(path, blank=0):
    """Return 𝓑(path): merge equal neighbours, then remove blanks."""
    merged_path = [v for t, v in enumerate(path) if t == 0 or v != path[t - 1]]
    return [int(v) for v in merged_path if v != blank]


def greedy(log_probs, blank=0):
    return collapse(log_probs.argmax(axis=1), blank), log_probs.max(axis=1).sum()


def beam_search(log_probs, blank=0, beam_width=100, min_log_prob=-np.inf):
    """Return (labelling, log p) of the hypotheses in the last beam, best first.

    Each hypothesis has two masses: α₋, its paths that end in a blank, and α⁎, its paths that end in
    its last label.
    """
    beam = {(): (0.0, -np.inf)}
    for scores in log_probs:
        new_beam = {}

        def add(y, blank_gain, label_gain, new_beam=new_beam):
            old_blank, old_label = new_beam.get(y, (-np.inf, -np.inf))
            new_beam[y] = (_log_add(old_blank, blank_gain), _log_add(old_label, label_gain))

        for v in np.flatnonzero((scores >= min_log_prob) | (scores == scores.max())):
            for y, (blank_mass, label_mass) in beam.items():
                if v == blank:
                    add(y, _log_add(blank_mass, label_mass) + scores[v], -np.inf)
                elif y and y[-1] == v:
                    add(y, -np.inf, label_mass + scores[v])
                    add((*y, int(v)), -np.inf, blank_mass + scores[v])
                else:
                    add((*y, int(v)), -np.inf, _log_add(blank_mass, label_mass) + scores[v])
        best = sorted(new_beam.items(), key=lambda item: -_log_add(*item[1]))
        beam = dict(item for item in best[:beam_width] if _log_add(*item[1]) > -np.inf)
    return [(list(y), _log_add(*masses)) for y, masses in beam.items()]
