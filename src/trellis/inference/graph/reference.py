"""Elimination and belief propagation as in the equations, to test the fast paths."""

import numpy as np

from trellis.inference.graph.results import Best, Marginals


def _logsumexp(x, axis):
    maximum = np.max(x, axis=axis, keepdims=True)
    maximum = np.where(np.isfinite(maximum), maximum, 0.0)
    with np.errstate(divide="ignore"):  # log 0 = -inf: no allowed labelling
        return np.squeeze(maximum, axis) + np.log(np.sum(np.exp(x - maximum), axis=axis))


def _factors(graph):
    """Yield (variables, table) of each factor."""
    for entry in graph.entries:
        tables = np.broadcast_to(entry.table, (len(entry.variables), *entry.table.shape[1:]))
        yield from ((tuple(v), table) for v, table in zip(entry.variables, tables, strict=True))


def _sum_tables(factors, scope, cardinalities):
    """Return the sum of the tables, with one axis for each variable of `scope`."""
    total = np.zeros([cardinalities[v] for v in scope])
    for variables, table in factors:
        order = [variables.index(v) for v in scope if v in variables]
        shape = [cardinalities[v] if v in variables else 1 for v in scope]
        total = total + np.transpose(table, order).reshape(shape)
    return total


def eliminate(graph, keep, add=_logsumexp):
    """Sum (or maximise) exp Σ_f θ_f over all variables except `keep`, one variable at a time."""
    factors, cards = list(_factors(graph)), graph.cardinalities
    for v in (v for v in range(len(cards)) if v not in keep):
        factors_of_v = [factor for factor in factors if v in factor[0]]
        scope = tuple(sorted({u for factor in factors_of_v for u in factor[0]} - {v}))
        message = add(_sum_tables(factors_of_v, (*scope, v), cards), len(scope))
        factors = [factor for factor in factors if v not in factor[0]] + [(scope, message)]
    return _sum_tables(factors, keep, cards)


def log_partition(graph):
    """Compute log Z by eliminating all variables."""
    return float(eliminate(graph, ()))


def marginals(graph):
    """Compute p(y_v) and p(y_f) by eliminating all other variables."""
    log_z = log_partition(graph)
    rows = np.zeros((len(graph), graph.most_labels))
    for v, count in enumerate(graph.cardinalities):
        rows[v, :count] = np.exp(eliminate(graph, (v,)) - log_z)
    factors = [
        [np.exp(eliminate(graph, tuple(v)) - log_z) for v in entry.variables]
        for entry in graph.entries
    ]
    tables = [
        np.array(factor_marginals[0] if e.single else factor_marginals)
        for e, factor_marginals in zip(graph.entries, factors, strict=True)
    ]
    return Marginals(rows, tables, log_z, "exact", True, 1, 0.0)


def best(graph):
    """Compute argmax_y score(y) by elimination with max, one variable after the other."""
    score, labels = float(eliminate(graph, (), np.max)), []
    for v in range(len(graph)):  # the best label of v, given the labels chosen before
        scores = eliminate(graph, tuple(range(v + 1)), np.max)
        labels.append(int(scores[tuple(labels)].argmax()))
    return Best(np.array(labels, dtype=np.int64), score, True, True, 1, 0.0)


def propagate(graph, iterations, add=_logsumexp, weights=None):
    """Iterate m_fv(y_v) = add over y_u of θ_f / ρ_f + Σ_u cavity_u(y_u); return the beliefs.

    cavity_u = b_u - m_fu, b_u = Σ_f ρ_f m_fu. All ρ_f are 1 without ``weights``.
    """
    factors, cards = list(_factors(graph)), graph.cardinalities
    weights = np.ones(len(factors)) if weights is None else weights
    m = {(f, v): np.zeros(cards[v]) for f, (scope, _) in enumerate(factors) for v in scope}

    def belief(v, messages):
        return sum((weights[f] * x for (f, u), x in messages.items() if u == v), np.zeros(cards[v]))

    for _ in range(iterations):
        old_messages = dict(m)
        for f, v in m:
            scope, table = factors[f]
            neighbours = tuple(u for u in scope if u != v)
            cavities = [((u,), belief(u, old_messages) - old_messages[f, u]) for u in neighbours]
            x = _sum_tables([(scope, table / weights[f]), *cavities], (v, *neighbours), cards)
            m[f, v] = add(x.reshape(cards[v], -1), 1)
            m[f, v] = m[f, v] - m[f, v].max()
    return [belief(v, m) for v in range(len(cards))]
