"""A fitted linear chain model: its weights, the scores of sequences, and its file."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import number_at_least
from trellis.errors import InputError
from trellis.estimator import check_fitted
from trellis.features.joint import JointFeatures
from trellis.features.rows import FeatureBatch
from trellis.features.vectorizer import FeatureMap
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import Parts, read_training, training_record
from trellis.inference.chain import Scores
from trellis.models.chain.decoding import Decoding
from trellis.models.chain.inspection import Inspection
from trellis.models.chain.labels import Label, constraints_for
from trellis.models.chain.parameters import AUTO, Parameters, check_parameters, label_costs
from trellis.models.chain.second_order import LabelStates, check_state_count
from trellis.models.chain.storage import read_chain, set_feature_functions, store_chain
from trellis.models.chain.weights import WeightLayout, check_label_count
from trellis.native import resolve_jobs

__all__ = ["FittedChain"]

_HISTORIES = ("losses", "dev_scores")


class FittedChain(Inspection, Decoding, Parameters):
    """score(x, y) = Σₜ w · φ(x, t, yₜ₋₁, yₜ), with weights w that fit has learned."""

    added_parameters = frozenset({"order"})

    classes_: NDArray[Any]
    """(labels,) All labels."""
    features_: FeatureMap
    layout_: WeightLayout
    l2_: float
    """The strength of the L2 penalty in training: ``l2``, or the value chosen with ``"auto"``."""
    n_iter_: int
    objective_: float
    converged_: bool
    losses_: list[tuple[int, float]]
    """(iteration, loss) of each iteration."""
    dev_scores_: list[tuple[int, float]]
    """(iteration, score) of each scoring of the development set."""
    _scorer: _core.Scorer | None = None  # the weights in the core, built at first use

    @property
    def coef_(self) -> NDArray[np.float64]:
        """(weights,) w, in the order of ``layout_``. Read-only: assign an array to change it."""
        w: NDArray[np.float64] | None = self.__dict__.get("coef_")
        if w is None:
            raise AttributeError(f"{type(self).__name__} has no coef_ before fit")
        if w.flags.writeable:
            # The core has a copy of the weights, which a change in place would not reach. So the
            # caller gets a read-only view; the solver may still write to the array itself.
            w = w.view()
            w.flags.writeable = False
            self.__dict__["coef_"] = w
        return w

    @coef_.setter
    def coef_(self, w: Any) -> None:
        weights = np.array(w, dtype=np.float64)
        if "layout_" in self.__dict__ and weights.shape != (self.layout_.size,):
            raise InputError(f"coef_ has shape {weights.shape}: must be ({self.layout_.size},)")
        if not np.isfinite(weights).all():
            i = int(np.argmin(np.isfinite(weights)))
            raise InputError(f"coef_ has {weights[i]} at index {i}: must be finite")
        self.set_weights(weights)

    def set_weights(self, w: NDArray[np.float64]) -> None:
        """Replace the weights, in the order of ``layout_``, without a copy and without checks."""
        self.__dict__["coef_"], self._scorer = w, None

    def _prune(self) -> None:
        """Remove the weights that are 0, and then the features without a weight."""
        is_nonzero = self.coef_ != 0.0
        joint = is_nonzero[self.layout_.linear :]
        self.layout_, used_attributes, used_edge_attributes = self.layout_.select(is_nonzero)
        self.features_.keep(used_attributes, used_edge_attributes)
        if isinstance(self.features_, JointFeatures):
            self.features_.keep_joint(np.flatnonzero(joint).astype(np.int32))
        self.set_weights(self.coef_[is_nonzero])

    # ---- scores

    @property
    def _label_states(self) -> LabelStates | None:
        check_fitted(self, "layout_")
        return self.layout_.label_states

    @property
    def label_states_(self) -> list[tuple[Label, ...]]:
        """What each column of ``scores(X)`` stands for: (label,), or (label before, label).

        For ``order=1``, the columns are labels. For ``order=2``, there is a column for each pair of
        labels with which a trigram that has a weight begins, and one for each label after all other
        labels.
        """
        self._check_fitted()
        classes, states = self.classes_.tolist(), self._label_states
        return [(label,) for label in classes] if states is None else states.names(classes)

    def _check_fitted(self) -> None:
        check_fitted(self, "coef_")
        if self._scorer is None:
            self._scorer = _core.Scorer(self.layout_.native, self.coef_[: self.layout_.linear])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_scorer"}

    def _compute_scores(self, X: list[Any]) -> Scores:
        return self._score_batch(self.features_.find(X, resolve_jobs(self.n_jobs)))

    def _score_batch(self, batch: FeatureBatch) -> Scores:
        """Return the scores of sequences, given their features."""
        self._check_fitted()
        threads = resolve_jobs(self.n_jobs)
        constraints = constraints_for(self.constraints, self.classes_.tolist())
        assert self._scorer is not None
        n_labels = len(self.classes_)
        unary = np.empty((len(batch.rows), n_labels))
        self._scorer.scores(batch.rows.native(), threads, unary)
        edges = None if batch.edges is None else batch.edges.native()
        # One matrix for all transitions; with edge features, one for each position.
        matrices = np.empty((1 if edges is None else len(unary), n_labels, n_labels))
        self._scorer.transitions(edges, constraints.forbidden if constraints else None, matrices)
        if batch.joint is not None:
            unary, matrices = batch.joint.add_scores(
                self.coef_[self.layout_.linear :], unary, matrices
            )
        transition: Any = matrices[0]
        if edges is not None or len(matrices) != 1:
            transition = [matrix[1:] for matrix in _core.split_rows(matrices, batch.lengths)]
        scores = Scores(
            _core.split_rows(unary, batch.lengths),
            transition,
            constraints.start if constraints else None,
            constraints.end if constraints else None,
        )
        states = self._label_states
        if states is not None:
            return states.expand(scores, self.layout_.split(self.coef_)[3])
        return self._normalise(scores)

    def _normalise(self, scores: Scores) -> Scores:
        """Return normalised scores. A CRF returns them unchanged; a MEMM overrides this method."""
        return scores

    # ---- files

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of the fitted model."""
        self._check_fitted()
        meta, tensors = store_chain(self)
        meta["training"] = training_record(self, _HISTORIES)
        if self.l2 == AUTO:
            meta["training"]["l2"] = self.l2_
        return meta, tensors | {"weights": self.coef_} | self.layout_.to_tensors()

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the model with these parts; raise InputError if a part is missing or invalid."""
        model = read_chain(cls, meta, tensors)
        check_parameters(model)
        label_costs(model.label_weight, model.classes_.tolist())
        expect(tensors, "weights", np.float64, (None,))
        model.set_weights(finite(tensors, "weights"))
        check_label_count(len(model.classes_), len(model.coef_))
        model.layout_ = WeightLayout.from_tensors(tensors, len(model.classes_), model.features_)
        if (model.layout_.trigram is not None) != (model.order == 2):
            raise InputError("trigram requires order 2, and vice versa")
        check_state_count(model.layout_.label_states)
        if model.layout_.size != len(model.coef_):
            raise InputError(
                f"weights has {len(model.coef_)} numbers, expected {model.layout_.size}"
            )
        constraints_for(model.constraints, model.classes_.tolist())
        read_training(model, meta, _HISTORIES)
        model.l2_ = number_at_least(meta["training"].get("l2", model.l2), 0, "l2")
        return model

    def set_feature_functions(
        self,
        features: Callable[[Any], Any] | None = None,
        edge_features: Callable[[Any], Any] | None = None,
        joint: Any = None,
    ) -> None:
        """Set the Python functions that compute features. A file cannot contain them."""
        set_feature_functions(self, features=features, edge_features=edge_features, joint=joint)
