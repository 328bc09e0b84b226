"""Why a model says what it says: weights as tables, and what each feature adds to a decision."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer
from trellis.data import tags
from trellis.errors import InputError
from trellis.inference import chain
from trellis.models.chain.description import Description, token_columns

__all__ = ["Contribution", "Explanation", "FeatureWeight", "Inspection", "SpanChance", "Transition"]


class Transition(NamedTuple):
    """The weight of a label bigram."""

    before: Any
    after: Any
    weight: float


class FeatureWeight(NamedTuple):
    """The weight of a feature for a label."""

    label: Any
    feature: str
    weight: float


class Contribution(NamedTuple):
    """What a feature adds to the score of the chosen label and of the runner-up."""

    feature: str
    value: float
    chosen: float
    runner_up: float

    @property
    def difference(self) -> float:
        """How far the feature speaks for the chosen label."""
        return self.chosen - self.runner_up


class Explanation(NamedTuple):
    """The decision at one position."""

    position: int
    label: Any
    probability: float
    runner_up: Any
    runner_up_probability: float
    contributions: list[Contribution]
    """The largest differences first; ``transition:`` entries are those of the neighbours."""


class SpanChance(NamedTuple):
    """A predicted span and the probability that the sequence has exactly this span."""

    label: str
    start: int
    end: int
    probability: float


def checked_top(n: Any, label: Any, classes: list[Any]) -> int | None:
    """How many are asked for of each label; None for all."""
    if label is not None and label not in classes:
        raise InputError(f"{label!r} is none of the labels {classes}")
    return None if n is None else as_integer(n, "n")


class Inspection:
    """Mixed into `LinearChainModel`."""

    @property
    def transitions_(self) -> list[Transition]:
        """All label bigrams with a weight, the highest first."""
        model: Any = self
        model._fitted()
        before, after = np.divmod(model.layout_.bigram, len(model.classes_))
        rows = zip(
            model.classes_[before],
            model.classes_[after],
            model.layout_.split(model.coef_)[1].tolist(),
            strict=True,
        )
        return sorted((Transition(*row) for row in rows), key=lambda t: -t.weight)

    def transition_scores(self) -> NDArray[np.float64]:
        """What each step from a label (rows) to another (columns) adds to the score."""
        model: Any = self
        model._fitted()
        matrix: NDArray[np.float64] = model.layout_.transition_matrix(model.coef_)
        return matrix

    def top_features(self, n: int | None = 20, label: Any = None) -> list[FeatureWeight]:
        """The n features with the largest absolute weights for each label, or for one."""
        model: Any = self
        model._fitted()
        classes = model.classes_.tolist()
        n = checked_top(n, label, classes)
        names = model.features_.names()
        w = model.layout_.split(model.coef_)[0]
        rows = []
        for number, own in enumerate(classes):
            if label is not None and own != label:
                continue
            mine = np.flatnonzero(model.layout_.state_label == number)
            best = mine[np.argsort(-np.abs(w[mine]), kind="stable")[:n]]
            ids = model.layout_.state_attribute[best]
            rows += [
                FeatureWeight(own, names[a], float(w[i])) for a, i in zip(ids, best, strict=True)
            ]
        return rows

    def describe(self) -> Description:
        """Return facts about the fitted model: settings, size and training record."""
        model: Any = self
        model._fitted()
        penalties = [
            f"{name} = {value:g}" for name in ("l2", "l1") if (value := getattr(self, name))
        ]
        return Description(
            columns=token_columns(model.features_),
            settings={"solver": ", ".join([model.solver, *penalties])},
            linear=model,
            weights=len(model.coef_),
            steps=model.n_iter_,
            converged=model.converged_,
            loss=model.objective_,
            losses=model.losses_,
            dev_scores=model.dev_scores_,
        )

    def explain(self, x: Any) -> list[Explanation]:
        """For each position of one sequence: the chosen label against the runner-up.

        The runner-up is the most probable of the other labels at the position. Each feature's
        contribution is value · weight for either; transitions are taken to the neighbours' chosen
        labels.
        """
        model: Any = self
        model._fitted()
        batch = model.features_.find([x])
        chosen = [model.classes_.tolist().index(label) for label in model.predict([x])[0]]
        marginals = model.predict_marginals([x])[0]
        names, edge_names = model.features_.names(), None
        w_state, _, w_edge = model.layout_.split(model.coef_)
        matrix = model.layout_.transition_matrix(model.coef_)
        out = []
        for t, y in enumerate(chosen):
            order = np.argsort(-marginals[t], kind="stable")
            other = int(next((z for z in order if z != y), y))
            found = _state_parts(model, batch.rows, t, (y, other), w_state, names)
            for step, (a, b) in (("into", (t - 1, t)), ("out of", (t, t + 1))):
                if a < 0 or b >= len(chosen):
                    continue
                cells = [(chosen[a], z) if b == t else (z, chosen[b]) for z in (y, other)]
                label = model.classes_[chosen[a] if b == t else chosen[b]]
                name = f"transition:{step} {label}"
                found.append(Contribution(name, 1.0, *(float(matrix[c]) for c in cells)))
                if batch.edges is not None:
                    edge_names = edge_names or model.features_.names(edge=True)
                    found += _edge_parts(model, batch.edges, b, cells, w_edge, edge_names, step)
            found.sort(key=lambda c: -abs(c.difference))
            out.append(
                Explanation(
                    t,
                    model.classes_[y],
                    float(marginals[t, y]),
                    model.classes_[other],
                    float(marginals[t, other]),
                    found,
                )
            )
        return out

    def predict_spans(self, X: Any, scheme: str | None = None) -> list[list[SpanChance]]:
        """The spans of the best labelling, each with p(this span | x).

        The probability sums over all labellings that have the same labels inside the span and do
        not continue it, by the forward recursion restricted to those. ``scheme`` is a tagging
        scheme of `trellis.data.tags`; None guesses it from the labels.
        """
        model: Any = self
        model._fitted()
        classes = model.classes_.tolist()
        scheme = scheme or tags.detect([str(label) for label in classes])
        read = tags.Reader(scheme, False)
        out: list[list[SpanChance]] = []
        for x, labels in zip(X, model.predict(X), strict=True):
            spans = [tags.Span(*s) for s in read([str(label) for label in labels])]
            if not spans:
                out.append([])
                continue
            scores = model._chains([x])
            masks = [_span_mask(span, labels, classes, scheme) for span in spans]
            many = len(masks)
            repeated = type(scores)(
                scores.unary * many,
                scores.transition * many
                if isinstance(scores.transition, list)
                else scores.transition,
                scores.start,
                scores.end,
            )
            inside = np.asarray(chain.log_partition(*repeated, mask=masks, n_jobs=model.n_jobs))
            everything = np.asarray(chain.log_partition(*scores, n_jobs=model.n_jobs))
            chances = np.exp(np.minimum(inside - everything, 0.0)).tolist()
            out.append([SpanChance(*s, p) for s, p in zip(spans, chances, strict=True)])
        return out


def _state_parts(
    model: Any, rows: Any, t: int, labels: tuple[int, int], w: Any, names: list[str]
) -> list[Contribution]:
    begin, state_label = model.layout_.state_begin, model.layout_.state_label
    found = []
    for i in range(rows.begin[t], rows.begin[t + 1]):
        a = int(rows.id[i])
        own = dict(
            zip(
                state_label[begin[a] : begin[a + 1]].tolist(),
                w[begin[a] : begin[a + 1]].tolist(),
                strict=True,
            )
        )
        value = 1.0 if rows.value is None else float(rows.value[i])
        pair = [value * own.get(y, 0.0) for y in labels]
        found.append(Contribution(names[a], value, *pair))
    return found


def _edge_parts(
    model: Any, rows: Any, t: int, cells: Any, w: Any, names: list[str], step: str
) -> list[Contribution]:
    begin, bigram = model.layout_.edge_begin, model.layout_.edge_bigram
    wanted = [a * len(model.classes_) + b for a, b in cells]
    found = []
    for i in range(rows.begin[t], rows.begin[t + 1]):
        a = int(rows.id[i])
        own = dict(
            zip(
                bigram[begin[a] : begin[a + 1]].tolist(),
                w[begin[a] : begin[a + 1]].tolist(),
                strict=True,
            )
        )
        value = 1.0 if rows.value is None else float(rows.value[i])
        pair = [value * own.get(c, 0.0) for c in wanted]
        found.append(Contribution(f"{step}:{names[a]}", value, *pair))
    return found


def _span_mask(span: tags.Span, labels: list[Any], classes: list[Any], scheme: str) -> Any:
    """All labels outside the span, its own inside, and no neighbours that would be part of it."""
    mask = np.ones((len(labels), len(classes)), dtype=np.bool_)
    mask[span.start : span.end] = False
    for t in range(span.start, span.end):
        mask[t, classes.index(labels[t])] = True
    own = [str(labels[t]) for t in range(span.start, span.end)]
    for n, label in enumerate(map(str, classes)):
        if span.start > 0:
            found = [s[1:] for s in tags.spans([label, *own], scheme)]
            mask[span.start - 1, n] = (1, 1 + len(own)) in found
        if span.end < len(labels):
            found = [s[1:] for s in tags.spans([*own, label], scheme)]
            mask[span.end, n] = (0, len(own)) in found
    return mask
