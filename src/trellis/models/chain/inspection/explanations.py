"""Inspection: weights as tables, and the contribution of each feature to a decision."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.checks import integer_at_least
from trellis.errors import InputError
from trellis.features.joint import JointFeatures
from trellis.features.rows import SparseRows
from trellis.features.vectorizer import FeatureMap
from trellis.models.chain.inspection.feature_vector import FeatureVectors, one_sequence
from trellis.models.chain.weights import WeightLayout
from trellis.models.description import Description, token_columns
from trellis.models.spans import SpanChance, SpanDecoding

__all__ = [
    "Contribution",
    "Explanation",
    "Explanations",
    "FeatureContributions",
    "FeatureWeight",
    "Inspection",
    "SpanChance",
    "Transition",
    "TrigramWeight",
    "explain_decisions",
]

_MAX_ROWS = 8  # with a head and a last line, a printed table has ten lines


class Transition(NamedTuple):
    """The weight of a label bigram."""

    before: Any
    after: Any
    weight: float


class TrigramWeight(NamedTuple):
    """The weight of three labels in a row."""

    first: Any
    second: Any
    third: Any
    weight: float


class FeatureWeight(NamedTuple):
    """The weight of a feature for a label."""

    label: Any
    """None for a joint feature, which belongs to no label."""
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
        """The score that the feature adds to the chosen label minus that for the runner-up."""
        return self.chosen - self.runner_up


class Explanation(NamedTuple):
    """The decision at one position. ``str()`` returns a table with the largest contributions."""

    position: int
    label: Any
    probability: float
    runner_up: Any
    runner_up_probability: float
    contributions: list[Contribution]
    """Sorted, largest absolute difference first. ``transition:`` entries are transitions from and
    to the labels of the neighbours."""

    def __str__(self) -> str:
        head = (
            f"position {self.position}: {self.label} {self.probability:.3f}, "
            f"runner-up {self.runner_up} {self.runner_up_probability:.3f}"
        )
        rows = [
            f"{c.difference:+10.3f}  {c.chosen:+7.3f}  {c.runner_up:+9.3f}  {_shorten(c.feature)}"
            for c in self.contributions[: _MAX_ROWS - 1]
        ]
        rest = self.contributions[_MAX_ROWS - 1 :]
        if rest:
            total = sum(c.difference for c in rest)
            rows.append(f"{total:+10.3f}  {'':7}  {'':9}  {len(rest)} smaller contributions")
        return "\n".join([head, "difference    label  runner-up  feature", *rows])


class Explanations(list[Explanation]):
    """The decisions at all positions of a sequence. ``print`` shows at most ten lines.

    It shows the least certain positions, each with its two largest contributions. A contribution
    is the score that a feature adds to the label minus the score that it adds to the runner-up.
    """

    def __init__(self, explanations: Iterable[Explanation], words: list[str]) -> None:
        super().__init__(explanations)
        self.words = words
        """(positions,) The words; empty for tokens that are features."""

    def __str__(self) -> str:
        by_certainty = sorted(self, key=lambda explanation: explanation.probability)
        omitted = by_certainty[_MAX_ROWS:]
        positions = {explanation.position for explanation in by_certainty[:_MAX_ROWS]}
        rows: list[tuple[str, ...]]
        rows = [("", "token", "label", "p", "runner-up", "p", "largest contributions")]
        rows += [self._format_row(e) for e in self if e.position in positions]
        if not self.words:
            rows = [(row[0], *row[2:]) for row in rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        if omitted:
            lines.append(f"{len(omitted)} other positions with p >= {omitted[0].probability:.3f}")
        return "\n".join(lines)

    def _format_row(self, explanation: Explanation) -> tuple[str, ...]:
        largest = explanation.contributions[:2]
        return (
            str(explanation.position),
            _shorten(self.words[explanation.position], 16) if self.words else "",
            _shorten(str(explanation.label), 16),
            f"{explanation.probability:.3f}",
            _shorten(str(explanation.runner_up), 16),
            f"{explanation.runner_up_probability:.3f}",
            "  ".join(f"{c.difference:+.2f} {_shorten(c.feature, 28)}" for c in largest),
        )


def _shorten(text: str, width: int = 60) -> str:
    """Return a text in one line of at most ``width`` characters.

    >>> _shorten("w[0]=Constantinople", 10)
    'w[0]=Cons…'
    """
    printable = text if text.isprintable() else repr(text)[1:-1]
    return printable if len(printable) <= width else printable[: width - 1] + "…"


def check_top(n: Any, label: Any, classes: list[Any]) -> int | None:
    """Validate the arguments of ``top_features``; return n as an int, or None for all features."""
    if label is not None and label not in classes:
        raise InputError(f"label is {label!r}: must be one of {classes}")
    return None if n is None else integer_at_least(n, 0, "n")


class Inspection(FeatureVectors, SpanDecoding):
    """Mixin for a fitted linear chain model: its weights as tables, and reasons for its labels."""

    @property
    def transitions_(self) -> list[Transition]:
        """All label bigrams that have a weight, sorted with the largest weight first."""
        model: Any = self
        model._check_fitted()
        before, after = np.divmod(model.layout_.bigram, len(model.classes_))
        fields = zip(
            model.classes_[before],
            model.classes_[after],
            model.layout_.split(model.coef_)[1].tolist(),
            strict=True,
        )
        transitions = (Transition(*values) for values in fields)
        return sorted(transitions, key=lambda transition: -transition.weight)

    @property
    def trigrams_(self) -> list[TrigramWeight]:
        """All label trigrams that have a weight, largest first; empty for ``order=1``."""
        model: Any = self
        model._check_fitted()
        if model.layout_.trigram is None:
            return []
        pairs, third = np.divmod(model.layout_.trigram, len(model.classes_))
        cells = (*np.divmod(pairs, len(model.classes_)), third)
        fields = zip(
            *(model.classes_[index] for index in cells),
            model.layout_.split(model.coef_)[3].tolist(),
            strict=True,
        )
        trigrams = (TrigramWeight(*values) for values in fields)
        return sorted(trigrams, key=lambda trigram: -trigram.weight)

    def transition_scores(self) -> NDArray[np.float64]:
        """Return the score of each transition from row to column, shape (labels, labels).

        For ``order=2``, these are only the weights of label pairs; the score of three labels in a
        row is the weight in ``trigrams_`` plus that of the last pair.
        """
        model: Any = self
        model._check_fitted()
        matrix: NDArray[np.float64] = model.layout_.transition_matrix(model.coef_)
        return matrix

    def top_features(self, n: int | None = 20, label: Any = None) -> list[FeatureWeight]:
        """Return the n largest absolute weights of features, for each label or for ``label``.

        Joint features belong to no label. They are listed last, with the label None.
        """
        model: Any = self
        model._check_fitted()
        classes = model.classes_.tolist()
        n = check_top(n, label, classes)
        names = model.features_.names()
        w = model.layout_.split(model.coef_)[0]
        feature_weights = []
        for label_index, name in enumerate(classes):
            if label is not None and name != label:
                continue
            weights_of_label = np.flatnonzero(model.layout_.state_label == label_index)
            # A stable sort keeps features of equal weight in the order of training.
            best_indices = weights_of_label[
                np.argsort(-np.abs(w[weights_of_label]), kind="stable")[:n]
            ]
            ids = model.layout_.state_attribute[best_indices]
            feature_weights += [
                FeatureWeight(name, names[attribute], float(w[i]))
                for attribute, i in zip(ids, best_indices, strict=True)
            ]
        if label is None and isinstance(model.features_, JointFeatures):
            w, names = model.coef_[model.layout_.linear :], model.features_.joint_names()
            order = np.argsort(-np.abs(w), kind="stable")[:n]
            feature_weights += [FeatureWeight(None, names[i], float(w[i])) for i in order]
        return feature_weights

    def describe(self) -> Description:
        """Return facts about the fitted model: settings, size and training record."""
        model: Any = self
        model._check_fitted()
        values = {"l2": model.l2_, "l1": model.l1}
        penalties = [f"{name} = {value:g}" for name, value in values.items() if value]
        settings = {"solver": ", ".join([model.solver, *penalties])}
        if model.order != 1:
            settings["order"] = str(model.order)
        return Description(
            columns=token_columns(model.features_),
            settings=settings,
            linear=model,
            weights=len(model.coef_),
            steps=model.n_iter_,
            converged=model.converged_,
            loss=model.objective_,
            losses=model.losses_,
            dev_scores=model.dev_scores_,
        )

    def explain(self, x: Any) -> Explanations:
        """Compare the chosen label with the runner-up, for each position of one sequence.

        The runner-up is the most probable other label at the position. The contribution of a
        feature is value · weight, for each of the two labels. The transitions from and to the
        chosen labels of the neighbours are included. ``print`` shows the result as a table.
        """
        model: Any = self
        x = one_sequence(model, x, "explain")
        return explain_decisions(model, x, lambda chosen: FeatureContributions(model, x, chosen).at)


SplitScores: TypeAlias = Callable[[int, tuple[int, int]], list[Contribution]]
"""``split(t, (label, runner_up))`` returns the contributions to the scores of two labels."""


def explain_decisions(
    model: Any, x: Any, split_scores: Callable[[list[int]], SplitScores]
) -> Explanations:
    """Return the decisions of a model; ``split_scores`` gets the indices of the chosen labels."""
    classes = model.classes_.tolist()
    chosen = [classes.index(label) for label in model.predict([x])[0]]
    marginals = model.predict_marginals([x])[0]
    split = split_scores(chosen)
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
                split(t, (label, runner_up)),
            )
        )
    return Explanations(explanations, _get_words(x))


def _get_words(x: Any) -> list[str]:
    """Return the word of each token; an empty list if the tokens are features."""
    if not isinstance(x, list | tuple):
        return []
    words = [token[0] if isinstance(token, tuple) and token else token for token in x]
    return words if all(isinstance(word, str) for word in words) else []


class FeatureContributions:
    """The contribution of each feature of one sequence to the scores of two labels."""

    def __init__(self, model: Any, x: Any, chosen: list[int]) -> None:
        self.batch = model.features_.find([x])
        self.classes, self.chosen = model.classes_, chosen
        self.layout: WeightLayout = model.layout_
        self.features: FeatureMap = model.features_
        self.names = self.features.names()
        self.edge_names = [] if self.batch.edges is None else self.features.names(edge=True)
        self.states, _, self.edges, trigrams = self.layout.split(model.coef_)
        self.trigrams: dict[int, float] = {}
        if self.layout.trigram is not None:
            pairs = zip(self.layout.trigram.tolist(), trigrams.tolist(), strict=True)
            self.trigrams = dict(pairs)
        self.matrix = self.layout.transition_matrix(model.coef_)
        self.x, self.joint = x, model.coef_[self.layout.linear :]
        self.joint_names: list[str] = []
        if isinstance(self.features, JointFeatures):
            self.joint_names = self.features.joint_names()

    def at(self, t: int, labels: tuple[int, int]) -> list[Contribution]:
        """Return the contributions at position t, largest absolute difference first."""
        contributions = self.features_at(t, labels)
        before = self.chosen[t - 1] if t > 0 else None
        contributions += self.into(t, before, labels)
        if t + 1 < len(self.chosen):
            after = self.chosen[t + 1]
            contributions += self._explain_transition(
                "out of", after, t + 1, [(y, after) for y in labels]
            )
            contributions += self._explain_joint("out of:", t + 1, [(y, after) for y in labels])
        contributions += self._explain_trigrams(t, labels)
        return sorted(contributions, key=lambda c: -abs(c.difference))

    def _explain_trigrams(self, t: int, labels: tuple[int, int]) -> list[Contribution]:
        """Return the contributions of the trigrams that contain position t."""
        if self.layout.trigram is None:
            return []
        contributions = []
        for begin in range(max(0, t - 2), min(t, len(self.chosen) - 3) + 1):
            cells = self.chosen[begin : begin + 3]
            names = [str(self.classes[y]) for y in cells]
            names[t - begin] = "·"
            scores = []
            for label in labels:
                cells[t - begin] = label
                first, second, third = cells
                cell = (first * len(self.classes) + second) * len(self.classes) + third
                scores.append(self.trigrams.get(cell, 0.0))
            contributions.append(Contribution(f"transition:{' → '.join(names)}", 1.0, *scores))
        return contributions

    def into(self, t: int, before: int | None, labels: tuple[int, int]) -> list[Contribution]:
        """Return the contributions of the transitions from a label into two labels at position t.

        ``before`` is None at the first position, which only joint features score.
        """
        contributions = self._explain_joint("", t, [(before, y) for y in labels])
        if before is not None:
            pairs = [(before, y) for y in labels]
            contributions += self._explain_transition("into", before, t, pairs)
        return contributions

    def features_at(self, t: int, labels: tuple[int, int]) -> list[Contribution]:
        """Return the contributions of the features of position t, without the transitions."""
        begin, cells = self.layout.state_begin, self.layout.state_label
        return [
            Contribution(
                self.names[a],
                value,
                *_multiply_weights(begin, cells, self.states, a, value, labels),
            )
            for a, value in _read_row(self.batch.rows, t)
        ]

    def _explain_joint(
        self, prefix: str, t: int, pairs: list[tuple[int | None, int]]
    ) -> list[Contribution]:
        """Return the contributions of the joint features of position t, for two label pairs.

        Features that do not distinguish the pairs are omitted.
        """
        if not isinstance(self.features, JointFeatures):
            return []
        values = [self.features.features_at(self.x, t, *pair) for pair in pairs]
        contributions = []
        for j in dict.fromkeys([*values[0], *values[1]]):
            chosen, runner_up = (features.get(j, 0.0) for features in values)
            if chosen != runner_up:
                contributions.append(
                    Contribution(
                        prefix + self.joint_names[j],
                        chosen or runner_up,
                        chosen * float(self.joint[j]),
                        runner_up * float(self.joint[j]),
                    )
                )
        return contributions

    def _explain_transition(
        self, direction: str, neighbour: int, row: int, pairs: list[tuple[int, int]]
    ) -> list[Contribution]:
        """Return the contributions of the transition that ends at ``row``, for two label pairs."""
        if isinstance(self.features, JointFeatures) and self.features.is_alone:
            return []  # transitions have no weights of their own
        name = f"transition:{direction} {self.classes[neighbour]}"
        contributions = [Contribution(name, 1.0, *(float(self.matrix[pair]) for pair in pairs))]
        if self.batch.edges is None:
            return contributions
        begin, cells = self.layout.edge_begin, self.layout.edge_bigram
        bigrams = [before * len(self.classes) + after for before, after in pairs]
        return contributions + [
            Contribution(
                f"{direction}:{self.edge_names[attribute]}",
                value,
                *_multiply_weights(begin, cells, self.edges, attribute, value, bigrams),
            )
            for attribute, value in _read_row(self.batch.edges, row)
        ]


def _read_row(rows: SparseRows, t: int) -> list[tuple[int, float]]:
    """Return (attribute, value) for each entry of row t."""
    entries = range(int(rows.begin[t]), int(rows.begin[t + 1]))
    return [(int(rows.id[i]), 1.0 if rows.value is None else float(rows.value[i])) for i in entries]


def _multiply_weights(
    begin: Any, cells: Any, w: NDArray[np.float64], attribute: int, value: float, two_cells: Any
) -> list[float]:
    """Return value · w[attribute, cell] for two cells (labels or bigrams); 0 without a weight."""
    weight_slice = slice(begin[attribute], begin[attribute + 1])
    weights = dict(zip(cells[weight_slice].tolist(), w[weight_slice].tolist(), strict=True))
    return [value * weights.get(cell, 0.0) for cell in two_cells]
