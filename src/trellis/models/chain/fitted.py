"""A fitted linear chain model: its weights, the scores of sequences, and its file."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.estimator import check_fitted
from trellis.features.vectorizer import FeatureMap
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import Parts, read_training, training_record
from trellis.inference.chain import Scores
from trellis.models.chain.decoding import Decoding
from trellis.models.chain.inspection import Inspection
from trellis.models.chain.labels import constraints_for
from trellis.models.chain.parameters import Parameters
from trellis.models.chain.storage import read_chain, set_feature_functions, store_chain
from trellis.models.chain.weights import WeightLayout
from trellis.native import resolve_jobs

__all__ = ["FittedChain"]

_HISTORIES = ("losses", "dev_scores")


class FittedChain(Inspection, Decoding, Parameters):
    """score(x, y) = Σₜ w · φ(x, t, yₜ₋₁, yₜ), with weights w that fit has learned."""

    classes_: NDArray[Any]
    """(labels,) All labels."""
    features_: FeatureMap
    layout_: WeightLayout
    coef_: NDArray[np.float64]
    """(weights,) w, in the order of ``layout_``."""
    n_iter_: int
    objective_: float
    converged_: bool
    losses_: list[tuple[int, float]]
    """(iteration, loss) of each iteration."""
    dev_scores_: list[tuple[int, float]]
    """(iteration, score) of each scoring of the development set."""
    _scorer: _core.Scorer | None = None  # the weights in the core, built at first use

    def set_weights(self, w: NDArray[np.float64]) -> None:
        """Replace the weights, in the order of ``layout_``."""
        self.coef_, self._scorer = w, None

    def _prune(self) -> None:
        """Remove the weights that are 0, and then the features without a weight."""
        nonzero = self.coef_ != 0.0
        self.layout_, used, edge_used = self.layout_.select(nonzero)
        self.features_.keep(used, edge_used)
        self.set_weights(self.coef_[nonzero])

    # ---- scores

    def _fitted(self) -> None:
        check_fitted(self, "coef_")
        if self._scorer is None:
            self._scorer = _core.Scorer(self.layout_.native, self.coef_)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_scorer"}

    def _compute_scores(self, X: list[Any]) -> Scores:
        threads = resolve_jobs(self.n_jobs)
        batch = self.features_.find(X, threads)
        limits = constraints_for(self.constraints, self.classes_.tolist())
        assert self._scorer is not None
        labels = len(self.classes_)
        unary = np.empty((len(batch.rows), labels))
        self._scorer.scores(batch.rows.native(), threads, unary)
        edges = None if batch.edges is None else batch.edges.native()
        # One matrix for all transitions; with edge features, one for each position.
        matrices = np.empty((1 if edges is None else len(unary), labels, labels))
        self._scorer.transitions(edges, limits.forbidden if limits else None, matrices)
        transition: Any = matrices[0]
        if edges is not None:
            transition = [m[1:] for m in _core.split_rows(matrices, batch.lengths)]
        scores = Scores(
            _core.split_rows(unary, batch.lengths),
            transition,
            limits.start if limits else None,
            limits.end if limits else None,
        )
        return self._normalise(scores)

    def _normalise(self, scores: Scores) -> Scores:
        """Return normalised scores. A CRF returns them unchanged; a MEMM overrides this method."""
        return scores

    # ---- files

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of the fitted model."""
        self._fitted()
        meta, tensors = store_chain(self)
        meta["training"] = training_record(self, _HISTORIES)
        return meta, tensors | {"weights": self.coef_} | self.layout_.to_tensors()

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the model with these parts; raise InputError if a part is missing or invalid."""
        model = read_chain(cls, meta, tensors)
        expect(tensors, "weights", np.float64, (None,))
        model.set_weights(finite(tensors, "weights"))
        model.layout_ = WeightLayout.from_tensors(tensors, len(model.classes_), model.features_)
        if model.layout_.size != len(model.coef_):
            raise InputError(
                f"weights has {len(model.coef_)} numbers, expected {model.layout_.size}"
            )
        constraints_for(model.constraints, model.classes_.tolist())
        read_training(model, meta, _HISTORIES)
        return model

    def set_feature_functions(
        self,
        features: Callable[[Any], Any] | None = None,
        edge_features: Callable[[Any], Any] | None = None,
    ) -> None:
        """Set the Python functions that compute features. A file cannot contain them."""
        set_feature_functions(self, features=features, edge_features=edge_features)
