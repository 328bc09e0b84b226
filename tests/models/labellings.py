"""Expected results of sequence models, by enumeration of all labellings.

score(x, y) = Σₜ Σ_a value(a, t) · w[a, yₜ] + Σₜ (w[yₜ₋₁, yₜ] + Σ_e value(e, t) · w[e, yₜ₋₁, yₜ])
              + Σₜ w[yₜ₋₂, yₜ₋₁, yₜ]  (of order 2)

At t = 0, the edge features have the weights w["start:e", y₀].

This module does not use the inference of the library. It reads the weights of a model by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from trellis.models.chain.labels import encode
from trellis.models.chain.training import build_problem

Array = np.ndarray
Legal = Callable[[tuple[Any, ...]], bool]


# ---- data: a token is (state features, edge features), each {name: number}


def state_part(x: Any) -> Any:
    return [token[0] for token in x]


def edge_part(x: Any) -> Any:
    return [token[1] for token in x]


def random_data(
    seed: int,
    n_labels: int,
    lengths: Sequence[int],
    *,
    attributes: int = 6,
    edge_attributes: int = 0,
    per_token: int = 3,
    real: bool = True,
) -> tuple[list[Any], list[list[str]]]:
    """Return sequences of random sparse tokens, and labels L000, L001, …; each label occurs."""
    rng = np.random.default_rng(seed)
    rows = sum(lengths)
    labels = np.concatenate([rng.permutation(n_labels), rng.integers(n_labels, size=rows)])[:rows]
    names = [f"L{n:03d}" for n in rng.permuted(labels)]

    def random_features(count: int, prefix: str, max_count: int) -> dict[str, float]:
        chosen = rng.choice(count, size=min(count, max_count), replace=False) if count else []
        return {f"{prefix}{a}": float(rng.uniform(0.2, 2.0)) if real else 1.0 for a in chosen}

    X, y, begin = [], [], 0
    for length in lengths:
        X.append(
            [
                (
                    random_features(attributes, "a", per_token),
                    random_features(edge_attributes, "e", 2),
                )
                for _ in range(length)
            ]
        )
        y.append(names[begin : begin + length])
        begin += length
    return X, y


# ---- the objective of the library, and the expected one


def build_training_problem(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
    """Return the training problem of a fitted model on any data."""
    batch = model.features_.find(X)
    labels = encode(y, batch.lengths, model.classes_.tolist())
    weights = None if sample_weight is None else np.array(sample_weight, dtype=np.float64)
    return build_problem(model, batch, labels, model.layout_, weights)


_objectives: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def evaluate(problem: Any, w: Array) -> tuple[float, Array]:
    """Return the loss and the gradient of a training problem.

    The objective is created once, because the core then takes the data of the problem.
    """
    if problem not in _objectives:
        _objectives[problem] = problem.objective()
    gradient = np.full(len(w), np.nan)
    return _objectives[problem](w, gradient), gradient


@dataclass(frozen=True)
class Scores:
    """unary (T, L), transition (T - 1, L, L) and, of order 2, trigram (L, L, L) of one sequence."""

    unary: Array
    transition: Array
    trigram: Array | None = None

    def of(self, path: Sequence[int]) -> float:
        total = sum(self.unary[t, y] for t, y in enumerate(path))
        total += sum(self.transition[t, path[t], path[t + 1]] for t in range(len(path) - 1))
        if self.trigram is not None:
            total += sum(self.trigram[tuple(path[t : t + 3])] for t in range(len(path) - 2))
        return float(total)

    def of_all(self) -> Array:
        """Return the score of each labelling (L**T,), in the order of `all_paths`."""
        paths = all_paths(*self.unary.shape)
        total = self.unary[np.arange(len(self.unary)), paths].sum(axis=1)
        for t in range(len(self.transition)):
            total = total + self.transition[t][paths[:, t], paths[:, t + 1]]
        for t in range(len(self.unary) - 2 if self.trigram is not None else 0):
            total = total + self.trigram[paths[:, t], paths[:, t + 1], paths[:, t + 2]]
        return total


@cache
def all_paths(length: int, n_labels: int) -> Array:
    """Return all labellings (L**T, T). The last position changes fastest."""
    paths = np.indices((n_labels,) * length).reshape(length, -1).T.copy()
    paths.flags.writeable = False
    return paths


def score(model: Any, w: Array, x: Any) -> Scores:
    """Return the scores of one sequence of (state features, edge features) tokens."""
    index = {label: n for n, label in enumerate(model.classes_)}
    state, bigram, edge = weights_by_name(model, w)
    unary = np.zeros((len(x), len(index)))
    transition = np.zeros((len(x) - 1, len(index), len(index)))
    for (a, b), value in bigram.items():
        transition[:, index[a], index[b]] = value
    for t, (features, into) in enumerate(x):
        for name, value in features.items():
            for label, weight in state.get(name, {}).items():
                unary[t, index[label]] += value * weight
        for name, value in into.items() if t == 0 else ():
            for label, weight in state.get(f"start:{name}", {}).items():
                unary[t, index[label]] += value * weight
        for name, value in into.items() if t else ():
            for (a, b), weight in edge.get(name, {}).items():
                transition[t - 1, index[a], index[b]] += value * weight
    if model.layout_.trigram is None:
        return Scores(unary, transition)
    trigram = np.zeros(3 * (len(index),))
    trigram.flat[model.layout_.trigram] = model.layout_.split(w)[3]
    return Scores(unary, transition, trigram)


def weights_by_name(
    model: Any, w: Array
) -> tuple[dict[str, Any], dict[Any, float], dict[str, Any]]:
    """Return {attribute: {label: w}}, {(a, b): w} and {edge attribute: {(a, b): w}}."""
    layout, classes = model.layout_, model.classes_.tolist()
    count = len(classes)
    parts = [part.tolist() for part in layout.split(w)]
    state: dict[str, Any] = {}
    for a, name in enumerate(model.features_.names()):
        part = slice(layout.state_begin[a], layout.state_begin[a + 1])
        labels = [classes[n] for n in layout.state_label[part]]
        state[name] = dict(zip(labels, parts[0][part], strict=True))

    def pairs(cells: Any) -> list[tuple[Any, Any]]:
        return [(classes[c // count], classes[c % count]) for c in cells.tolist()]

    bigram = dict(zip(pairs(layout.bigram), parts[1], strict=True))
    edge: dict[str, Any] = {}
    for a, name in enumerate(model.features_.names(edge=True)):
        part = slice(layout.edge_begin[a], layout.edge_begin[a + 1])
        edge[name] = dict(zip(pairs(layout.edge_bigram[part]), parts[2][part], strict=True))
    return state, bigram, edge


def log_sum(values: Any) -> float:
    values = np.asarray(values, dtype=np.float64)
    top = float(values.max(initial=-np.inf))
    return top if np.isinf(top) else top + float(np.log(np.exp(values - top).sum()))


def mask_agreeing(known: Sequence[Any], classes: Sequence[Any]) -> Array:
    """Return True for each labelling (L**T,) that agrees with y (labels, sets, None)."""
    paths = all_paths(len(known), len(classes))
    agrees = np.ones(len(paths), dtype=np.bool_)
    for t, value in enumerate(known):
        members = value if isinstance(value, set | frozenset) else {value}
        if value is not None:
            numbers = [n for n, label in enumerate(classes) if label in members]
            agrees &= np.isin(paths[:, t], numbers)
    return agrees


def mask_legal(length: int, classes: Sequence[Any], legal: Legal | None) -> Array:
    """Return True for each labelling (L**T,) that obeys the constraints."""
    paths = all_paths(length, len(classes))
    if legal is None:
        return np.ones(len(paths), dtype=np.bool_)
    return np.array([legal(tuple(classes[n] for n in path)) for path in paths])


def costs(classes: Sequence[Any], known: Sequence[Any], label_weight: Any) -> Array:
    """Return log(weight of the true label) at each wrong label, (T, L); 0 where it is unknown."""
    out = np.zeros((len(known), len(classes)))
    for t, value in enumerate(known):
        members = list(value) if isinstance(value, set | frozenset) else [value]
        if value is not None and len(members) == 1:
            price = np.log((label_weight or {}).get(members[0], 1.0))
            out[t] = [0.0 if label == members[0] else price for label in classes]
    return out


def nll(
    model: Any,
    w: Array,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    legal: Legal | None = None,
) -> float:
    """-Σᵢ vᵢ log p(yᵢ | xᵢ) of a CRF: log Σ over all labellings - log Σ over those of y."""
    classes, total = model.classes_.tolist(), 0.0
    for i, (x, known) in enumerate(zip(X, y, strict=True)):
        scores = score(model, w, x)
        raised = replace(scores, unary=scores.unary + costs(classes, known, model.label_weight))
        values, is_legal = raised.of_all(), mask_legal(len(x), classes, legal)
        is_correct = is_legal & mask_agreeing(known, classes)
        loss = log_sum(values[is_legal]) - log_sum(values[is_correct])
        total += loss if sample_weight is None else sample_weight[i] * loss
    return total


def probabilities(scores: Scores, classes: Sequence[Any], legal: Legal | None = None) -> Array:
    """p(y | x) of each labelling of `all_paths`."""
    values, is_legal = scores.of_all(), mask_legal(len(scores.unary), classes, legal)
    return np.where(is_legal, np.exp(values - log_sum(values[is_legal])), 0.0)


def forward(scores: Scores) -> float:
    """Return log Z, for sequences with too many labellings to enumerate."""
    alpha = scores.unary[0]
    for step, unary in zip(scores.transition, scores.unary[1:], strict=True):
        grown = alpha[:, None] + step
        top = grown.max(axis=0)
        alpha = np.log(np.exp(grown - top).sum(axis=0)) + top + unary
    return log_sum(alpha)


# ---- derivatives


def central_differences(
    loss: Callable[[Array], float], w: Array, indices: Any, h: float = 1e-5
) -> Array:
    out = []
    for k in indices:
        up, down = w.copy(), w.copy()
        up[k] += h
        down[k] -= h
        out.append((loss(up) - loss(down)) / (2 * h))
    return np.array(out)


def bio(labels: tuple[Any, ...]) -> bool:
    """Return True if each I-X follows B-X or I-X."""
    previous = "O"
    for label in labels:
        if label.startswith("I-") and previous not in (f"B-{label[2:]}", label):
            return False
        previous = label
    return True


def bilou(labels: tuple[Any, ...]) -> bool:
    """Return True if each span is B-X I-X … L-X or U-X, and all other labels are O."""
    inside = ""
    for label in labels:
        prefix, _, name = label.partition("-")
        if inside and (prefix not in "IL" or name != inside):
            return False
        if not inside and prefix in "IL":
            return False
        inside = name if prefix in "BI" else ""
    return not inside
