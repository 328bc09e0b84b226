"""The penalty path: models of the same data for a series of penalties.

A search over penalties reads features and labels once, for all values and for all folds. Training
with a penalty starts from the weights of the penalty before. This takes about half as many
iterations as a start from 0.

>>> from trellis import CRF
>>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]]
>>> y = [["DET", "NOUN", "VERB"]] * 3
>>> path = PenaltyPath(CRF(), read_path_data(CRF(), X, y), train=[0, 1], held_out=[2])
>>> path.move(l1=0.0, l2=1.0)
>>> path.predict()
[['DET', 'NOUN', 'VERB']]
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.checks import check_not_empty
from trellis.features.rows import FeatureBatch, FeatureMap
from trellis.features.vectorizer import choose
from trellis.models.chain.crf import LinearChainModel
from trellis.models.chain.labels import (
    EncodedLabels,
    Label,
    as_array,
    constraints_for,
    encode_for_training,
)
from trellis.models.chain.parameters import choose_l2
from trellis.models.chain.training import build_problem, solve
from trellis.models.chain.weights import WeightRules, choose_weights, renumber_batch

__all__ = ["PathData", "PenaltyPath", "read_path_data"]

SEARCH_DELTA = 1e-3
"""The convergence threshold of L-BFGS (see `trellis.optim.lbfgs`): 100 times the default. On six
corpora, this changed scores by at most 0.4 points, and the search took half the time."""


class PathData(NamedTuple):
    """The features and labels of sequences as arrays, which all splits and penalties share."""

    batch: FeatureBatch
    """The sequences with labels, then the sequences without labels."""
    labels: EncodedLabels
    features: FeatureMap
    """Maps each attribute to its number."""
    l2: float
    """The penalty of the model for all of the data: the user's, or the automatic one."""


def read_path_data(
    model: LinearChainModel, X: list[Any], y: list[Any], unlabelled: list[Any] | None = None
) -> PathData:
    """Compute the features and encode the labels of sequences, which must not be empty.

    The ``unlabelled`` sequences can only be held out. Their indices follow those of X.
    """
    X = [*X, *(unlabelled or [])]
    features = choose(model.features, model.edge_features, X)
    batch = features.learn(X)
    check_not_empty(batch.lengths)
    lengths = batch.lengths[: len(y)]
    labels = encode_for_training(y, lengths, (), model.constraints)
    constraints = constraints_for(model.constraints, labels.classes)
    if constraints:
        # This is checked here, because each split numbers its sequences from 0: its errors would
        # name the wrong sequence.
        constraints.check(labels, lengths)
    return PathData(batch, labels, features, choose_l2(model.l2, labels, lengths, None))


class PenaltyPath:
    """A model that is trained on some sequences and predicts others, for one penalty at a time."""

    def __init__(
        self,
        model: LinearChainModel,
        data: PathData,
        train: Sequence[int] | NDArray[np.int64],
        held_out: Sequence[int] | NDArray[np.int64],
    ) -> None:
        self.model = model = type(model)(**model.get_params(deep=False))
        if model.solver == "lbfgs":
            # Further iterations would change the loss, but hardly which penalty has the best score.
            model.solver_options = {"delta": SEARCH_DELTA, **(model.solver_options or {})}
        batch, labels = data.batch.select(np.array(train)), _select_labels(data, np.array(train))
        rules = WeightRules(model.states, model.transitions, model.min_count, model.order)
        layout = choose_weights(batch, data.features, labels, rules, None)
        model.layout_, *used = layout.select(np.ones(layout.size, dtype=np.bool_))
        model.classes_ = as_array(labels.classes)
        batch = renumber_batch(batch, layout, *used)
        self._problem = build_problem(model, batch, labels, model.layout_, None)
        self._w = np.zeros(model.layout_.size)
        indices = np.array(held_out)
        self._held_out = [
            renumber_batch(data.batch.select(indices[part]), layout, *used)
            for part in model._split_into_slices(data.batch.lengths[indices])
        ]

    def move(self, l1: float, l2: float) -> None:
        """Train with other penalties, from the weights of the last call."""
        self._problem.l1, self._problem.l2 = l1, l2
        self._w = solve(self.model, self._problem, self._w, None, None).w
        self.model.set_weights(self._w)

    def predict(self) -> list[list[Label]]:
        """Return the best labelling of each held-out sequence."""
        model = self.model
        return [
            labels
            for batch in self._held_out
            for labels in model._decode(model._score_batch(batch))
        ]


def _select_labels(data: PathData, sequences: Any) -> EncodedLabels:
    rows, labels = data.batch.rows_of(sequences), data.labels
    allowed = None if labels.allowed is None else labels.allowed[rows]
    return EncodedLabels(labels.classes, labels.label[rows], allowed)
