"""The base class of GraphCRF and GridCRF.

p(y | x) = exp(Σ_v w · φ(x, y_v) + Σ_c P · ψ(x, y_c)) / Z(x)

The sums are over the nodes v, and over the edges and larger cliques c.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.checks import (
    as_integer,
    check_random_state,
    flag,
    integer_in_range,
    number_at_least,
    one_of,
    sample_weights,
    unchanged_on_error,
)
from trellis.errors import InputError
from trellis.estimator import Estimator, Predictions, check_fitted, names_arguments
from trellis.formats.native import Tensors
from trellis.formats.parts import Parts, Saved, read_parameters
from trellis.inference.graph import FactorGraph
from trellis.models.chain.labels import as_array, encode
from trellis.models.graph import storage
from trellis.models.graph.cliques import CliqueShape, check_table_sizes, symmetric_weights
from trellis.models.graph.inference import (
    INFERENCE,
    Engine,
    Settings,
    build_factor_graph,
    check_decoder,
    sample_scores,
    split_scores,
)
from trellis.models.graph.losses import (
    MAX_RESIDUAL,
    MESSAGES,
    OBJECTIVES,
    TOLERANCE,
    Targets,
    loss_of,
)
from trellis.models.graph.samples import Doubles, Samples, Scores, Shape
from trellis.models.graph.targets import (
    check_targets,
    count_correct,
    encode_targets,
    restrict_labels,
)
from trellis.models.graph.training import Report, SingleSamples, train_by_messages
from trellis.models.graph.validation import match_model
from trellis.native import isa, resolve_jobs
from trellis.optim import lbfgs
from trellis.optim.display import describe_iteration, show_progress
from trellis.optim.frank_wolfe import block_frank_wolfe
from trellis.optim.perceptron import perceptron
from trellis.optim.result import Objective, Progress, Result

__all__ = ["GraphModel"]

_log = logging.getLogger("trellis")
_SLICE_ENTRIES = 1 << 22  # largest number of table entries of one slice of samples: 32 MB
_EPOCHS = {"perceptron": 30, "ssvm": 50}  # default of max_iter for objectives without a gradient
# The duality gap of Frank–Wolfe is about 1 / epochs, so a smaller gap would take too long.
_MIN_GAP = 1e-3
# The upper limit of max_sweeps. If messages do not converge, every prediction runs max_sweeps
# sweeps: a larger number in a forged file would make the program hang.
_MAX_SWEEPS = 100_000


class GraphModel(Saved, ABC, Estimator):
    """A log-linear model for the labels of the nodes of a graph."""

    _FLAGS: ClassVar[tuple[str, ...]] = ("symmetric", "fit_intercept")
    """Parameters that are True or False."""

    classes_: NDArray[Any]
    coef_: Doubles
    """``(labels, node features)``: weights of the node features."""
    intercept_: Doubles
    """``(labels,)``"""
    pair_coef_: Doubles
    """``(edge features, labels, labels)``: weights of pairs of labels."""
    clique_coef_: dict[str, Doubles]
    """``(features, labels, …, labels)`` for each type of clique, with one axis for each node."""
    allowed_: NDArray[np.bool_] | None
    """``(types, labels)``: the labels that nodes of a type can have; None without types."""
    n_iter_: int
    objective_: float
    converged_: bool
    losses_: list[tuple[int, float]]
    report_: Report | None = None
    """Quality after training with message passing, else None. Not saved in files."""

    @names_arguments
    def __init__(
        self,
        objective: str = "likelihood",
        *,
        l2: float = 1.0,
        l1: float = 0.0,
        inference: str = "auto",
        symmetric: bool = False,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-5,
        damping: float = 0.3,
        max_sweeps: int = 200,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.objective = objective
        self.l2 = l2
        self.l1 = l1
        self.inference = inference
        self.symmetric = symmetric
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.damping = damping
        self.max_sweeps = max_sweeps
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _collect(self, X: Any) -> Samples:
        """Return the samples of X. Raise InputError if X is invalid."""

    @abstractmethod
    def _create_engine(self, samples: Samples, n_labels: int) -> Engine:
        """Return the inference engine for some samples."""

    @abstractmethod
    def _reshape(self, samples: Samples, i: int, rows: NDArray[Any]) -> NDArray[Any]:
        """Return results for the nodes of sample i in the shape of its y."""

    def _flatten(self, y: Any, samples: Samples | None = None) -> Any:
        """Return the labels of each sample as a one-dimensional array or list."""
        return y

    # ---- training

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        callback: Callable[[Progress], object] | None = None,
    ) -> Self:
        """Learn the weights from samples X and their labels y.

        A label of ``None`` is unknown. A set of labels means that one of them is correct.
        ``callback`` is called after each iteration; a truthy return value stops training.
        """
        with unchanged_on_error(self), show_progress(type(self).__name__, self.verbose) as draw:

            def after_iteration(progress: Progress) -> bool:
                limit = self.max_iter or _EPOCHS.get(self.objective)
                fraction = progress.iteration / limit if limit else None
                draw(fraction, describe_iteration(progress.iteration, progress.loss))
                return callback is not None and bool(callback(progress))

            self._fit(X, y, sample_weight, after_iteration)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, callback: Any) -> None:
        self._check_parameters()
        samples = self._collect(X)
        weights = sample_weights(sample_weight, len(samples))
        classes, self.allowed_, targets = encode_targets(
            self._flatten(y, samples),
            samples,
            np.ones(len(samples)) if weights is None else weights,
        )
        check_targets(self.objective, samples, targets)
        check_decoder(self.inference, samples)
        check_table_sizes(samples.clique_shapes, len(classes))
        self.classes_ = as_array(classes)
        shape = Shape(
            len(classes),
            samples.nodes.shape[1],
            samples.edge_features.shape[1],
            samples.clique_shapes,
        )
        self.losses_, self.report_ = [], None

        def after_iteration(progress: Progress) -> bool:
            self.losses_.append((progress.iteration, progress.loss))
            _log.debug("iteration %d: loss %.6f", progress.iteration, progress.loss)
            return bool(callback(progress))

        result = self._solve(samples, targets, shape, after_iteration)
        self._set_weights(result.w, shape)
        self.n_iter_, self.objective_ = result.n_iter, float(result.loss)
        self.converged_, self.isa_ = result.converged, isa()
        _log.info("%d iterations, loss %.6f: %s", result.n_iter, result.loss, result.message)

    def _check_parameters(self) -> None:
        one_of(self.objective, OBJECTIVES, "objective")
        one_of(self.inference, INFERENCE, "inference")
        for name in ("l2", "l1", "tol"):
            number_at_least(getattr(self, name), 0.0, name)
        if self.l1 > 0 and self.objective in _EPOCHS:
            raise InputError(f"l1 is {self.l1}: must be 0 with objective={self.objective!r}")
        if self.max_iter is not None and as_integer(self.max_iter, "max_iter") < 1:
            raise InputError(f"max_iter must be at least 1, not {self.max_iter}")
        if not (isinstance(self.damping, int | float | np.number) and 0 <= self.damping < 1):
            raise InputError(f"damping must be at least 0 and below 1, not {self.damping!r}")
        integer_in_range(self.max_sweeps, 1, _MAX_SWEEPS, "max_sweeps")
        for name in self._FLAGS:
            flag(getattr(self, name), name)
        check_random_state(self.random_state)
        resolve_jobs(self.n_jobs)

    def _solve(
        self, samples: Samples, targets: Targets, shape: Shape, callback: Any
    ) -> Result[Any]:
        """Run the optimiser of the objective, and return its result."""
        if self.objective in _EPOCHS:
            single_samples = SingleSamples(self, samples, targets, shape)
            options = {
                "max_iter": self.max_iter or _EPOCHS[self.objective],
                "callback": callback,
                "random_state": self.random_state,
            }
            if self.objective == "perceptron":
                w0 = np.zeros(shape.size)
                return perceptron(single_samples, len(samples), w0, **options)  # type: ignore[arg-type]
            min_gap = max(self.tol, _MIN_GAP)
            return block_frank_wolfe(
                single_samples.most_violated,
                len(samples),
                shape.size,
                l2=self.l2,
                tolerance=min_gap,
                **options,
            )
        if self.objective in MESSAGES:
            result, self.report_ = train_by_messages(self, samples, targets, shape, callback)
            return result
        objective = self._objective_of(samples, targets, shape, self.objective)
        return self._minimise(objective, np.zeros(shape.size), self.max_iter, callback)

    def _minimise(
        self, objective: Objective, w0: Doubles, max_iter: Any, callback: Any
    ) -> Result[Any]:
        return lbfgs(
            objective,
            w0,
            l1=self.l1,
            max_iter=max_iter,
            epsilon=self.tol,
            callback=callback,
            n_jobs=self.n_jobs,
        )

    def _objective_of(
        self, samples: Samples, targets: Targets, shape: Shape, objective: str
    ) -> Objective:
        """Return ``evaluate(w, gradient) -> loss`` for Σᵢ lossᵢ(w) + l2/2 ‖w‖².

        The Bethe loss is ∞ if its messages do not converge, because its gradient is then
        meaningless. A line search treats ∞ as a step that is too long.
        """
        parts = list(self._iterate_slices(samples, targets, shape.n_labels))

        def evaluate(w: Doubles, gradient: Doubles) -> float:
            gradient[:] = 0.0
            tied_w, total_loss = self._tie_weights(w, shape), 0.0
            for slice_samples, slice_targets, engine in parts:
                scores = slice_samples.scores(tied_w, shape, self.allowed_)
                loss = loss_of(objective, slice_samples, engine, slice_targets, scores)
                if objective == "bethe" and loss.residual > MAX_RESIDUAL:
                    return np.inf
                slice_samples.add_gradient(loss.d_scores, shape, gradient)
                total_loss += loss.value
            gradient[:] = self._tie_weights(gradient, shape) + self.l2 * w
            return total_loss + 0.5 * self.l2 * float(w @ w)

        return evaluate

    def _settings(self) -> Settings:
        """Return the settings of inference; "auto" means "trw" if the objective is "trw"."""
        use_trw = self.inference == "auto" and self.objective == "trw"
        sweeps = {"damping": self.damping, "max_iter": self.max_sweeps, "tolerance": TOLERANCE}
        return Settings("trw" if use_trw else self.inference, sweeps, self.n_jobs)

    def _iterate_slices(
        self, samples: Samples, targets: Targets, n_labels: int
    ) -> Iterator[tuple[Samples, Targets, Engine]]:
        """Yield slices of the samples whose tables fit into memory together."""
        for begin, end in samples.slices(n_labels, _SLICE_ENTRIES):
            slice_samples = samples.part(begin, end)
            nodes = slice(*samples.node_begin[[begin, end]])
            slice_targets = targets.part(begin, end, nodes)
            yield slice_samples, slice_targets, self._create_engine(slice_samples, n_labels)

    def _tie_weights(self, w: Doubles, shape: Shape) -> Doubles:
        """Return w with equal weights for all orders of the labels, if the model is symmetric."""
        if not self.symmetric:
            return w
        tied_w = w.copy()
        for weights in shape.split(tied_w)[1:]:
            weights[:] = symmetric_weights(weights)
        return tied_w

    def _set_weights(self, w: Doubles, shape: Shape) -> None:
        node_weights, pair_weights, *clique_weights = shape.split(
            self._tie_weights(w, shape).copy()
        )
        self.coef_ = node_weights[:, :-1].copy() if self.fit_intercept else node_weights
        self.intercept_ = (
            node_weights[:, -1].copy() if self.fit_intercept else np.zeros(shape.n_labels)
        )
        self.pair_coef_ = pair_weights
        names = [clique.name for clique in shape.cliques]
        self.clique_coef_ = dict(zip(names, clique_weights, strict=True))

    # ---- prediction

    def _check_fitted(self) -> None:
        check_fitted(self, "coef_")

    def _score_slices(self, X: Any) -> Iterator[tuple[Samples, Engine, Scores]]:
        """Yield slices of the samples, each with its inference engine and its scores."""
        self._check_fitted()
        shape = self._shape()
        samples = match_model(self._collect(X), shape, self.allowed_, bool(self.fit_intercept))
        check_decoder(self.inference, samples)
        nodes = self.coef_
        if self.fit_intercept:
            nodes = np.concatenate([self.coef_, self.intercept_[:, None]], axis=1)
        weights = (nodes, self.pair_coef_, *self.clique_coef_.values())
        w = np.concatenate([array.ravel() for array in weights])
        for begin, end in samples.slices(shape.n_labels, _SLICE_ENTRIES):
            slice_samples = samples.part(begin, end)
            scores = slice_samples.scores(w, shape, self.allowed_)
            yield slice_samples, self._create_engine(slice_samples, shape.n_labels), scores

    def _shape(self) -> Shape:
        """Return the numbers of labels and features, and the shape of each type of clique."""
        n_node_features = self.coef_.shape[1] + bool(self.fit_intercept)
        cliques = (
            CliqueShape(name, weights.ndim - 1, len(weights))
            for name, weights in self.clique_coef_.items()
        )
        return Shape(len(self.classes_), n_node_features, len(self.pair_coef_), tuple(cliques))

    def predict(self, X: Any) -> list[NDArray[Any]]:
        """argmax_y p(y | x) of each sample; an approximation if ``inference`` is not exact."""
        predictions: Predictions[NDArray[Any]] = Predictions()
        names = self._class_array()
        for samples, engine, scores in self._score_slices(X):
            predictions += self._split_by_sample(samples, names[engine.best_labels(scores)])
        return predictions

    def _class_array(self) -> NDArray[Any]:
        """Return the labels with the dtype of the predictions, shape (labels,)."""
        self._check_fitted()
        labels = self.classes_.tolist()
        array = np.array(labels)
        # NumPy converts labels of several types to text, and strips "\0" at the end of text.
        return array if array.tolist() == labels else self.classes_

    def predict_marginals(self, X: Any) -> list[Doubles]:
        """p(y_v | x) of each sample, one row for each node. The columns are ``classes_``."""
        marginals: list[Any] = []
        for samples, engine, scores in self._score_slices(X):
            marginals += self._split_by_sample(samples, engine.marginals(scores).nodes)
        return marginals

    def log_likelihood(self, X: Any, y: Any) -> Doubles:
        """log p(y | x) of each sample: exact, or with the log Z of the method of ``inference``.

        With unknown labels, it is the logarithm of the sum of p over the labellings that y allows.
        """
        self._check_fitted()
        values, begin = [], 0
        labels = list(self._flatten(y))
        classes = self.classes_.tolist()
        for samples, engine, scores in self._score_slices(X):
            end = begin + len(samples)
            encoded = encode(labels[begin:end], np.diff(samples.node_begin), classes)
            begin = end
            log_z = engine.marginals(scores).log_z
            if encoded.allowed is None:
                level = sample_scores(samples, encoded.label.astype(np.int64), scores)
            else:
                restricted, is_possible = restrict_labels(samples, scores, encoded.allowed)
                level = np.where(is_possible, engine.marginals(restricted).log_z, -np.inf)
            values.append(level - log_z)
        if begin != len(labels):
            raise InputError(f"X has {begin} samples, y has {len(labels)}")
        return np.concatenate(values)

    def factor_graphs(self, X: Any) -> list[FactorGraph]:
        """Return the scores of each sample, for the functions of `trellis.inference.graph`.

        The factors are the nodes, the edges, and the types of cliques sorted by name. Edges or
        types that a sample does not have are left out.
        """
        return [
            build_factor_graph(*one)
            for samples, _, scores in self._score_slices(X)
            for one in split_scores(samples, scores)
        ]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the fraction of nodes whose label is predicted correctly.

        Nodes with the label ``None`` do not count. If y has a set of labels at a node, each label
        of the set is correct.
        """
        predictions = self.predict(X)
        if len(predictions) != len(y):
            raise InputError(f"X has {len(predictions)} samples, y has {len(y)}")
        weights = sample_weights(sample_weight, len(predictions))
        weighted_correct, weighted_total = 0.0, 0.0
        for i, (predicted, labels) in enumerate(zip(predictions, y, strict=True)):
            if predicted.shape != np.shape(labels):
                raise InputError(
                    f"labels of sample {i} have shape {np.shape(labels)}: must be {predicted.shape}"
                )
            weight = 1.0 if weights is None else weights[i]
            n_correct, n_known = count_correct(predicted, labels)
            weighted_correct += weight * n_correct
            weighted_total += weight * n_known
        return weighted_correct / weighted_total if weighted_total else 0.0

    def _split_by_sample(self, samples: Samples, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the rows of each sample, from the rows of all nodes."""
        rows_of_samples = np.split(rows, samples.node_begin[1:-1])
        return [self._reshape(samples, i, values) for i, values in enumerate(rows_of_samples)]

    # ---- files

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of the fitted model."""
        self._check_fitted()
        return storage.to_parts(self)

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the model with these parts; raise InputError if a part is missing or invalid."""
        model = cls(**read_parameters(cls, meta, ("verbose",)))
        model._check_parameters()
        storage.read_fitted(model, meta, tensors)
        return model
