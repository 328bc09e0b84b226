"""Inspection: weights as tables, and the contribution of each feature to a decision."""

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer
from trellis.data import tags
from trellis.errors import InputError
from trellis.features.rows import SparseRows
from trellis.features.vectorizer import FeatureMap
from trellis.inference import chain
from trellis.inference.chain import Scores
from trellis.models.chain.description import Description, token_columns
from trellis.models.chain.weights import WeightLayout

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
    """The score that a feature adds to the chosen label and to the runner-up."""

    feature: str
    value: float
    chosen: float
    runner_up: float

    @property
    def difference(self) -> float:
        """The score that the feature adds to the chosen label minus that of the runner-up."""
        return self.chosen - self.runner_up


class Explanation(NamedTuple):
    """The decision at one position."""

    position: int
    label: Any
    probability: float
    runner_up: Any
    runner_up_probability: float
    contributions: list[Contribution]
    """Sorted, largest difference first. ``transition:`` entries are transitions from and to the
    labels of the neighbours."""


class SpanChance(NamedTuple):
    """A predicted span and the probability that the sequence has exactly this span."""

    label: str
    start: int
    end: int
    probability: float


def check_top(n: Any, label: Any, classes: list[Any]) -> int | None:
    """Validate the arguments of ``top_features``; return n as an int, or None for all features."""
    if label is not None and label not in classes:
        raise InputError(f"label is {label!r}: must be one of {classes}")
    return None if n is None else as_integer(n, "n")


class Inspection:
    """Mixin of `LinearChainModel`."""

    @property
    def transitions_(self) -> list[Transition]:
        """All label bigrams that have a weight, sorted with the largest weight first."""
        model: Any = self
        model._fitted()
        before, after = np.divmod(model.layout_.bigram, len(model.classes_))
        fields = zip(
            model.classes_[before],
            model.classes_[after],
            model.layout_.split(model.coef_)[1].tolist(),
            strict=True,
        )
        transitions = (Transition(*values) for values in fields)
        return sorted(transitions, key=lambda transition: -transition.weight)

    def transition_scores(self) -> NDArray[np.float64]:
        """Return the score of each transition from row to column, shape (labels, labels)."""
        model: Any = self
        model._fitted()
        matrix: NDArray[np.float64] = model.layout_.transition_matrix(model.coef_)
        return matrix

    def top_features(self, n: int | None = 20, label: Any = None) -> list[FeatureWeight]:
        """Return the n largest absolute weights of features, for each label or for ``label``."""
        model: Any = self
        model._fitted()
        classes = model.classes_.tolist()
        n = check_top(n, label, classes)
        names = model.features_.names()
        w = model.layout_.split(model.coef_)[0]
        top = []
        for number, name in enumerate(classes):
            if label is not None and name != label:
                continue
            of_label = np.flatnonzero(model.layout_.state_label == number)
            # A stable sort keeps features of equal weight in the order of training.
            best = of_label[np.argsort(-np.abs(w[of_label]), kind="stable")[:n]]
            ids = model.layout_.state_attribute[best]
            top += [
                FeatureWeight(name, names[a], float(w[i])) for a, i in zip(ids, best, strict=True)
            ]
        return top

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
        """Compare the chosen label with the runner-up, for each position of one sequence.

        The runner-up is the most probable other label at the position. The contribution of a
        feature is value · weight, for each of the two labels. The transitions from and to the
        chosen labels of the neighbours are included.
        """
        model: Any = self
        model._fitted()
        classes = model.classes_.tolist()
        chosen = [classes.index(label) for label in model.predict([x])[0]]
        marginals = model.predict_marginals([x])[0]
        contributions = _Contributions(model, x, chosen)
        explanations = []
        for t, label in enumerate(chosen):
            order = np.argsort(-marginals[t], kind="stable")
            # The chosen label may not have the highest marginal: Viterbi chooses the best path.
            runner_up = int(next((other for other in order if other != label), label))
            explanations.append(
                Explanation(
                    t,
                    classes[label],
                    float(marginals[t, label]),
                    classes[runner_up],
                    float(marginals[t, runner_up]),
                    contributions.at(t, (label, runner_up)),
                )
            )
        return explanations

    def predict_spans(self, X: Any, scheme: str | None = None) -> list[list[SpanChance]]:
        """Return the spans of the best labelling, each with p(this span | x).

        The probability is the sum over all labellings that have the same labels inside the span
        and do not continue the span. The forward recursion computes it with a mask. ``scheme`` is
        a tagging scheme of `trellis.data.tags`; with None, it is detected from the labels.
        """
        model: Any = self
        model._fitted()
        classes = model.classes_.tolist()
        scheme = scheme or tags.detect([str(label) for label in classes])
        read = tags.Reader(scheme, False)
        results: list[list[SpanChance]] = []
        for x, labels in zip(X, model.predict(X), strict=True):
            spans = [tags.Span(*span) for span in read([str(label) for label in labels])]
            masks = [_build_span_mask(span, labels, classes, scheme) for span in spans]
            chances: list[float] = []
            if spans:
                chances = _compute_mask_probabilities(
                    model._compute_scores([x]), masks, model.n_jobs
                )
            results.append([SpanChance(*s, p) for s, p in zip(spans, chances, strict=True)])
        return results


class _Contributions:
    """The contribution of each feature of one sequence to the scores of two labels."""

    def __init__(self, model: Any, x: Any, chosen: list[int]) -> None:
        self.batch = model.features_.find([x])
        self.classes, self.chosen = model.classes_, chosen
        self.layout: WeightLayout = model.layout_
        self.features: FeatureMap = model.features_
        self.names = self.features.names()
        self.edge_names = [] if self.batch.edges is None else self.features.names(edge=True)
        self.states, _, self.edges = self.layout.split(model.coef_)
        self.matrix = self.layout.transition_matrix(model.coef_)

    def at(self, t: int, labels: tuple[int, int]) -> list[Contribution]:
        """Return the contributions at position t, largest difference first."""
        begin, cells = self.layout.state_begin, self.layout.state_label
        contributions = [
            Contribution(
                self.names[a],
                value,
                *_multiply_weights(begin, cells, self.states, a, value, labels),
            )
            for a, value in _read_row(self.batch.rows, t)
        ]
        if t > 0:
            before = self.chosen[t - 1]
            contributions += self._explain_transition(
                "into", before, t, [(before, y) for y in labels]
            )
        if t + 1 < len(self.chosen):
            after = self.chosen[t + 1]
            contributions += self._explain_transition(
                "out of", after, t + 1, [(y, after) for y in labels]
            )
        return sorted(contributions, key=lambda c: -abs(c.difference))

    def _explain_transition(
        self, direction: str, neighbour: int, row: int, pairs: list[tuple[int, int]]
    ) -> list[Contribution]:
        """Return the contributions of the transition that ends at ``row``, for two label pairs."""
        name = f"transition:{direction} {self.classes[neighbour]}"
        contributions = [Contribution(name, 1.0, *(float(self.matrix[pair]) for pair in pairs))]
        if self.batch.edges is None:
            return contributions
        begin, cells = self.layout.edge_begin, self.layout.edge_bigram
        bigrams = [before * len(self.classes) + after for before, after in pairs]
        return contributions + [
            Contribution(
                f"{direction}:{self.edge_names[a]}",
                value,
                *_multiply_weights(begin, cells, self.edges, a, value, bigrams),
            )
            for a, value in _read_row(self.batch.edges, row)
        ]


def _read_row(rows: SparseRows, t: int) -> list[tuple[int, float]]:
    """Return (attribute, value) for each entry of row t."""
    entries = range(int(rows.begin[t]), int(rows.begin[t + 1]))
    return [(int(rows.id[i]), 1.0 if rows.value is None else float(rows.value[i])) for i in entries]


def _multiply_weights(
    begin: Any, cells: Any, w: NDArray[np.float64], attribute: int, value: float, two_cells: Any
) -> list[float]:
    """Return value · w[attribute, cell] for two cells (labels or bigrams); 0 without a weight."""
    part = slice(begin[attribute], begin[attribute + 1])
    weights = dict(zip(cells[part].tolist(), w[part].tolist(), strict=True))
    return [value * weights.get(cell, 0.0) for cell in two_cells]


def _compute_mask_probabilities(
    scores: Scores, masks: list[NDArray[np.bool_]], n_jobs: int | None
) -> list[float]:
    """Return the probability of all paths that each mask allows, for the scores of one sequence."""
    n_masks, unary, transition = len(masks), cast(list[Any], scores.unary), scores.transition
    repeated = scores._replace(
        unary=unary * n_masks,
        transition=transition * n_masks if isinstance(transition, list) else transition,
        mask=cast(Any, masks),
    )
    log_allowed = np.asarray(chain.log_partition(repeated, n_jobs=n_jobs))
    log_total = np.asarray(chain.log_partition(scores, n_jobs=n_jobs))
    # By rounding, the sum over some paths can be larger than the sum over all: the limit is 1.
    chances: list[float] = np.exp(np.minimum(log_allowed - log_total, 0.0)).tolist()
    return chances


def _build_span_mask(
    span: tags.Span, labels: list[Any], classes: list[Any], scheme: str
) -> NDArray[np.bool_]:
    """Return the mask (length, labels) of all labellings that have exactly this span.

    Inside the span only its labels are allowed. A neighbour's label is not allowed if it would
    extend the span or change it.
    """
    mask = np.ones((len(labels), len(classes)), dtype=np.bool_)
    mask[span.start : span.end] = False
    for t in range(span.start, span.end):
        mask[t, classes.index(labels[t])] = True
    inside = [str(label) for label in labels[span.start : span.end]]
    # Each neighbour is parsed together with the span, because this works for every scheme.
    for n, label in enumerate(map(str, classes)):
        if span.start > 0:
            bounds = [s[1:] for s in tags.spans([label, *inside], scheme)]
            mask[span.start - 1, n] = (1, 1 + len(inside)) in bounds
        if span.end < len(labels):
            bounds = [s[1:] for s in tags.spans([*inside, label], scheme)]
            mask[span.end, n] = (0, len(inside)) in bounds
    return mask
