"""The recursions as in the equations, for one sequence. Tests compare the fast path with them."""

import numpy as np

from trellis.inference.chain.results import (
    Backward,
    Counts,
    Forward,
    KBest,
    Marginals,
    Path,
    ViterbiTable,
)


def _fold(unary, transition, start=None, end=None, mask=None):
    """Return unary scores that include start, end and mask, and one transition matrix per step."""
    u = np.array(unary, dtype=float) if mask is None else np.where(mask, unary, -np.inf)
    u[0] += 0.0 if start is None else start
    u[-1] += 0.0 if end is None else end
    T, L = u.shape
    return u, np.broadcast_to(transition, (T - 1, L, L))


def _logsumexp(x, axis):
    maximum = np.max(x, axis=axis, keepdims=True)
    maximum = np.where(np.isfinite(maximum), maximum, 0.0)
    with np.errstate(divide="ignore"):  # log 0 = -inf: no allowed path
        return np.squeeze(maximum, axis) + np.log(np.sum(np.exp(x - maximum), axis=axis))


def _forward(u, A, add):
    """α[t, b] = add over a of (α[t-1, a] + A[t-1, a, b]) + u[t, b]."""
    alpha = [u[0]]
    for t in range(1, len(u)):
        alpha.append(add(alpha[-1][:, None] + A[t - 1], 0) + u[t])
    return np.array(alpha)


def _backward(u, A, add):
    """β[t, a] = add over b of (A[t, a, b] + u[t+1, b] + β[t+1, b])."""
    beta = [np.zeros(u.shape[1])]
    for t in range(len(u) - 1, 0, -1):
        beta.append(add(A[t - 1] + u[t] + beta[-1], 1))
    return np.array(beta[::-1])


def score(unary, transition, start=None, end=None, *, labels, mask=None):
    u, A = _fold(unary, transition, start, end, mask)
    steps = np.arange(len(u))
    return u[steps, labels].sum() + A[steps[1:] - 1, labels[:-1], labels[1:]].sum()


def log_partition(unary, transition, start=None, end=None, *, mask=None):
    u, A = _fold(unary, transition, start, end, mask)
    return _logsumexp(_forward(u, A, _logsumexp)[-1], 0)


def log_prob(unary, transition, start=None, end=None, *, labels, mask=None):
    scores = (unary, transition, start, end)
    return score(*scores, labels=labels, mask=mask) - log_partition(*scores, mask=mask)


def forward(unary, transition, start=None, end=None, *, mask=None):
    u, A = _fold(unary, transition, start, end, mask)
    alpha = _forward(u, A, _logsumexp)
    return Forward(alpha, _logsumexp(alpha[-1], 0))


def backward(unary, transition, start=None, end=None, *, mask=None):
    u, A = _fold(unary, transition, start, end, mask)
    beta = _backward(u, A, _logsumexp)
    return Backward(beta, _logsumexp(u[0] + beta[0], 0))


def marginals(unary, transition, start=None, end=None, *, mask=None):
    u, A = _fold(unary, transition, start, end, mask)
    alpha, beta = _forward(u, A, _logsumexp), _backward(u, A, _logsumexp)
    log_z = _logsumexp(alpha[-1], 0)
    pairs = alpha[:-1, :, None] + A + (u + beta)[1:, None, :]
    return Marginals(np.exp(alpha + beta - log_z), log_z, lambda: np.exp(pairs - log_z))


def expected_counts(unary, transition, start=None, end=None, *, mask=None):
    p = marginals(unary, transition, start, end, mask=mask)
    pairs = p.pairwise.sum(axis=0) if np.ndim(transition) == 2 else p.pairwise
    return Counts(p.unary, pairs, p.unary[0], p.unary[-1], p.log_partition)


def viterbi(unary, transition, start=None, end=None, *, mask=None):
    u, A = _fold(unary, transition, start, end, mask)
    best_scores = _forward(u, A, np.max)
    labels = [int(best_scores[-1].argmax())]
    for t in range(len(u) - 1, 0, -1):
        labels.append(int((best_scores[t - 1] + A[t - 1, :, labels[-1]]).argmax()))
    return Path(np.array(labels[::-1]), best_scores[-1].max())


def viterbi_table(unary, transition, start=None, end=None, *, mask=None):
    """κ[t, b] = argmax over a of (π[t-1, a] + A[t-1, a, b])."""
    u, A = _fold(unary, transition, start, end, mask)
    best_scores = _forward(u, A, np.max)
    pointers = np.full(u.shape, -1)
    pointers[1:] = (best_scores[:-1, :, None] + A).argmax(axis=1)
    return ViterbiTable(best_scores, np.where(best_scores > -np.inf, pointers, -1))


def kbest(unary, transition, start=None, end=None, *, k, mask=None):
    u, A = _fold(unary, transition, start, end, mask)
    # For each label, (score, path) of the best paths that end in it.
    prefixes = [[(u[0, b], (b,))] for b in range(u.shape[1])]
    for t in range(1, len(u)):
        prefixes = [
            sorted(
                (
                    (s + A[t - 1, a, b] + u[t, b], (*y, b))
                    for a, paths in enumerate(prefixes)
                    for s, y in paths
                ),
                reverse=True,
            )[:k]
            for b in range(u.shape[1])
        ]
    allowed = (path for paths in prefixes for path in paths if path[0] > -np.inf)
    best = sorted(allowed, reverse=True)[:k]
    return KBest(np.array([y for _, y in best]), np.array([s for s, _ in best]))


def sample(unary, transition, start=None, end=None, *, n=1, random_state=None, mask=None):
    u, A = _fold(unary, transition, start, end, mask)
    alpha = _forward(u, A, _logsumexp)
    uniforms = np.random.default_rng(random_state).random((n, len(u)))
    labels = np.empty((n, len(u)), dtype=np.int64)
    for i, t in np.ndindex(n, len(u)):
        position = len(u) - 1 - t
        log_weights = alpha[position]
        if t > 0:
            log_weights = log_weights + A[position, :, labels[i, position + 1]]
        cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
        threshold = uniforms[i, position] * cumulative[-1]
        labels[i, position] = np.searchsorted(cumulative, threshold, side="right")
    return labels


def entropy(unary, transition, start=None, end=None, *, mask=None):
    """H(y) = Σₜ H(yₜ₋₁, yₜ) - Σₜ H(yₜ), second sum: inner positions, as each is in two pairs."""
    p = marginals(unary, transition, start, end, mask=mask)
    h = lambda q: -np.sum(q * np.log(np.where(q > 0, q, 1.0)))  # noqa: E731
    return h(p.pairwise) - h(p.unary[1:-1]) if len(p.unary) > 1 else h(p.unary)


def max_marginals(unary, transition, start=None, end=None, *, mask=None):
    u, A = _fold(unary, transition, start, end, mask)
    return _forward(u, A, np.max) + _backward(u, A, np.max)


def posterior_path(unary, transition, start=None, end=None, *, mask=None):
    u, A = _fold(unary, transition, start, end, mask)
    p = marginals(unary, transition, start, end, mask=mask).unary
    return viterbi(np.where(np.isneginf(u), -np.inf, p), np.where(np.isneginf(A), -np.inf, 0.0))


def span_probability(
    unary, transition, start=None, end=None, *, span, span_label, continues, mask=None
):
    """Z of the paths that have exactly the span (label, start, end), divided by Z of all paths."""
    label, first, last = span
    u, A = _fold(unary, transition, start, end, mask)
    u_span, A_span = u.copy(), A.copy()
    u_span[first:last, span_label != label] = -np.inf
    for t in range(max(first, 1), min(last + 1, len(u))):  # steps into, inside and out of the span
        A_span[t - 1][continues != (first < t < last)] = -np.inf
    return np.exp(log_partition(u_span, A_span) - log_partition(u, A))
