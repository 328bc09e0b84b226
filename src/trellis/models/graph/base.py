"""What GraphCRF and GridCRF share: p(y | x) = exp(Σ_v w · φ(x, y_v) + Σ_e P · ψ(x, y_e)) / Z(x)."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer, number_at_least, sample_weights
from trellis.errors import InputError
from trellis.estimator import Estimator, check_fitted
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import (
    Parts,
    Saved,
    read_classes,
    read_parameters,
    read_training,
    stored_labels,
    stored_parameters,
    training_record,
)
from trellis.models.chain.labels import as_array, encode
from trellis.models.graph.losses import (
    INFERENCE,
    LOOPY,
    OBJECTIVES,
    SETTLED,
    TOLERANCE,
    Engine,
    Targets,
    checked_choice,
    loss_of,
    sample_scores,
)
from trellis.models.graph.samples import Doubles, Fields, Integers, Shape
from trellis.models.graph.training import Report, Steps, solve_loopy
from trellis.native import resolve_jobs
from trellis.optim import lbfgs
from trellis.optim.frank_wolfe import block_frank_wolfe
from trellis.optim.perceptron import perceptron
from trellis.optim.result import Objective, Progress, Result

__all__ = ["FieldModel"]

_log = logging.getLogger("trellis")
_STRETCH = 1 << 22  # entries of tables that are worked on at a time
_NOT_STORED = ("n_jobs",)  # it depends on the machine
_HISTORIES = ("losses",)
_EPOCHS = {"perceptron": 30, "ssvm": 50}


class FieldModel(Saved, ABC, Estimator):
    """A log-linear model of the labels of nodes that are joined by edges."""

    classes_: NDArray[Any]
    coef_: Doubles
    """``(labels, node features)``"""
    intercept_: Doubles
    """``(labels,)``"""
    pair_coef_: Doubles
    """``(edge features, labels, labels)``: of each pair of labels."""
    allowed_: NDArray[np.bool_] | None
    """``(types, labels)``: which labels the nodes of a type may have."""
    n_iter_: int
    objective_: float
    converged_: bool
    losses_: list[tuple[int, float]]
    report_: Report | None = None
    """After learning by messages: how the training nodes fare, together and alone. Not in files."""

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

    @abstractmethod
    def _collect(self, X: Any) -> Fields:
        """The samples, checked."""

    @abstractmethod
    def _engine(self, fields: Fields, labels: int) -> Engine:
        """Inference for some samples."""

    @abstractmethod
    def _shaped(self, fields: Fields, i: int, rows: NDArray[Any]) -> NDArray[Any]:
        """What was found for the nodes of sample i, as its y is laid out."""

    def _flat(self, y: Any) -> Any:
        """Labels of each sample in a row."""
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
        """Learn the weights; ``callback`` sees each iteration, and stops it by what is true."""
        before = dict(self.__dict__)
        try:
            self._fit(X, y, sample_weight, callback)
        except BaseException:
            self.__dict__ = before  # an earlier model stays whole
            raise
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, callback: Any) -> None:
        self._check_parameters()
        fields = self._collect(X)
        known = encode(self._flat(y), np.diff(fields.node_begin))
        if known.allowed is not None:
            raise InputError("y has unknown labels: graph models need a label for every node")
        labels = known.label.astype(np.int64)
        weights = sample_weights(sample_weight, len(fields))
        targets = Targets(labels, np.ones(len(fields)) if weights is None else weights)
        self.classes_ = as_array(known.classes)
        self.allowed_ = _seen(fields.types, labels, len(known.classes))
        shape = Shape(len(known.classes), fields.nodes.shape[1], fields.edge_features.shape[1])
        self.losses_, self.report_ = [], None

        def each(progress: Progress) -> bool:
            self.losses_.append((progress.iteration, progress.loss))
            _log.debug("iteration %d: loss %.6f", progress.iteration, progress.loss)
            return callback is not None and bool(callback(progress))

        result = self._solve(fields, targets, shape, each)
        self._keep(result.w, shape)
        self.n_iter_, self.objective_ = result.n_iter, float(result.loss)
        self.converged_ = result.converged
        _log.info("%d iterations, loss %.6f: %s", result.n_iter, result.loss, result.message)

    def _check_parameters(self) -> None:
        checked_choice(self.objective, OBJECTIVES, "objective")
        checked_choice(self.inference, INFERENCE, "inference")
        for name in ("l2", "l1", "tol"):
            number_at_least(getattr(self, name), 0.0, name)
        if self.l1 > 0 and self.objective in _EPOCHS:
            raise InputError(f"l1 > 0 is not for objective={self.objective!r}")
        if self.max_iter is not None and as_integer(self.max_iter, "max_iter") < 1:
            raise InputError(f"max_iter must be at least 1, not {self.max_iter}")
        if not (isinstance(self.damping, int | float | np.number) and 0 <= self.damping < 1):
            raise InputError(f"damping must be at least 0 and below 1, not {self.damping!r}")
        if as_integer(self.max_sweeps, "max_sweeps") < 1:
            raise InputError(f"max_sweeps must be at least 1, not {self.max_sweeps}")
        resolve_jobs(self.n_jobs)

    def _solve(self, fields: Fields, y: Targets, shape: Shape, each: Any) -> Result[Any]:
        limit = self.max_iter or _EPOCHS.get(self.objective)
        w0 = np.zeros(shape.size)
        if self.objective in _EPOCHS:
            steps = Steps(self, fields, y, shape)
            if self.objective == "perceptron":
                return perceptron(
                    steps,  # type: ignore[arg-type]
                    len(fields),
                    w0,
                    max_iter=limit or 1,
                    callback=each,
                    random_state=self.random_state,
                )
            return block_frank_wolfe(
                steps.worst,
                len(fields),
                shape.size,
                l2=self.l2,
                max_iter=limit or 1,
                tolerance=max(self.tol, 1e-3),
                callback=each,
                random_state=self.random_state,
            )
        if self.objective in LOOPY:
            result, self.report_ = solve_loopy(self, fields, y, shape, each)
            return result
        return self._descend(self._objective_of(fields, y, shape), w0, limit, each)

    def _descend(self, objective: Objective, w0: Doubles, limit: Any, each: Any) -> Result[Any]:
        return lbfgs(
            objective,
            w0,
            l1=self.l1,
            max_iter=limit,
            epsilon=self.tol,
            callback=each,
            n_jobs=self.n_jobs,
        )

    def _objective_of(
        self, fields: Fields, y: Targets, shape: Shape, objective: str | None = None
    ) -> Objective:
        """``objective(w, gradient) -> loss``: Σᵢ lossᵢ(w) + l2/2 ‖w‖².

        ∞ where messages of the Bethe objective do not settle: its gradient means nothing there, and
        a line search takes it as too far.
        """
        parts = list(self._parts(fields, y, shape.labels))
        name = objective or self.objective

        def evaluate(w: Doubles, gradient: Doubles) -> float:
            gradient[:] = 0.0
            tied, loss = self._tied(w, shape), 0.0
            for own, targets, engine in parts:
                unary, tables = own.scores(tied, shape, self.allowed_)
                found = loss_of(name, own, engine, targets, unary, tables)
                if name == "bethe" and found.residual > SETTLED:
                    return np.inf
                own.gradient(found.d_unary, found.d_tables, shape, gradient)
                loss += found.value
            gradient[:] = self._tied(gradient, shape) + self.l2 * w
            return loss + 0.5 * self.l2 * float(w @ w)

        return evaluate

    def _sweeps(self) -> dict[str, Any]:
        return {"damping": self.damping, "max_iter": self.max_sweeps, "tolerance": TOLERANCE}

    def _resolved(self) -> str:
        """How to infer: what was learnt by tree-reweighted messages is read by them too."""
        return "trw" if self.inference == "auto" and self.objective == "trw" else self.inference

    def _parts(
        self, fields: Fields, y: Targets, labels: int
    ) -> Iterator[tuple[Fields, Targets, Engine]]:
        """Stretches of samples that fit into memory together."""
        for begin, end in fields.parts(labels * labels, _STRETCH):
            own = fields.part(begin, end)
            n0, n1 = fields.node_begin[[begin, end]]
            yield own, Targets(y.labels[n0:n1], y.weights[begin:end]), self._engine(own, labels)

    def _tied(self, w: Doubles, shape: Shape) -> Doubles:
        """With the weights of (a, b) and (b, a) equal, if the model is symmetric."""
        if not self.symmetric:
            return w
        out = w.copy()
        _, pairs = shape.split(out)
        pairs[:] = 0.5 * (pairs + pairs.transpose(0, 2, 1))
        return out

    def _keep(self, w: Doubles, shape: Shape) -> None:
        own, pairs = shape.split(self._tied(w, shape).copy())
        self.coef_ = own[:, :-1].copy() if self.fit_intercept else own
        self.intercept_ = own[:, -1].copy() if self.fit_intercept else np.zeros(shape.labels)
        self.pair_coef_ = pairs

    # ---- what follows from the scores

    def _check_fitted(self) -> None:
        check_fitted(self, "coef_")

    def _scored(self, X: Any) -> Iterator[tuple[Fields, Engine, Doubles, Doubles]]:
        """Fields, inference and scores of stretches of samples."""
        self._check_fitted()
        fields = self._collect(X)
        shape = Shape(len(self.classes_), *self._widths())
        found = fields.nodes.shape[1], fields.edge_features.shape[1]
        if found != self._widths():
            raise InputError(
                f"X has {found[0] - self.fit_intercept} node features and {found[1] - 1} edge "
                f"features; the model has {shape.nodes - self.fit_intercept} and {shape.edges - 1}"
            )
        if self.allowed_ is not None:
            self._check_types(fields)
        own = np.concatenate([self.coef_, self.intercept_[:, None]], axis=1)
        w = np.concatenate(
            [(own if self.fit_intercept else self.coef_).ravel(), self.pair_coef_.ravel()]
        )
        for begin, end in fields.parts(shape.labels**2, _STRETCH):
            part = fields.part(begin, end)
            yield part, self._engine(part, shape.labels), *part.scores(w, shape, self.allowed_)

    def _widths(self) -> tuple[int, int]:
        return self.coef_.shape[1] + bool(self.fit_intercept), len(self.pair_coef_)

    def _check_types(self, fields: Fields) -> None:
        assert self.allowed_ is not None
        if fields.types is None:
            raise InputError("the model was trained with node_types: X must have them")
        if fields.types.max() >= len(self.allowed_):
            raise InputError(f"node type {fields.types.max()} was not seen in training")

    def predict(self, X: Any) -> list[NDArray[Any]]:
        """argmax_y p(y | x), or the best that the chosen inference finds."""
        out, names = [], np.array(self.classes_.tolist()) if hasattr(self, "classes_") else None
        for fields, engine, unary, tables in self._scored(X):
            assert names is not None
            labels = names[engine.best(unary, tables)]
            out += self._each(fields, labels)
        return out

    def predict_marginals(self, X: Any) -> list[Doubles]:
        """p(y_v | x), one row a node, in the order of ``classes_``."""
        out: list[Any] = []
        for fields, engine, unary, tables in self._scored(X):
            out += self._each(fields, engine.marginals(unary, tables)[1])
        return out

    def log_likelihood(self, X: Any, y: Any) -> Doubles:
        """Log p(y | x) of each sample: exact, or with the Bethe estimate of log Z."""
        self._check_fitted()
        out, at = [], 0
        flat = list(self._flat(y))
        for fields, engine, unary, tables in self._scored(X):
            own = encode(
                flat[at : at + len(fields)], np.diff(fields.node_begin), self.classes_.tolist()
            )
            if own.allowed is not None:
                raise InputError("y has unknown labels")
            at += len(fields)
            log_z = engine.marginals(unary, tables)[0]
            out.append(sample_scores(fields, own.label.astype(np.int64), unary, tables) - log_z)
        if at != len(flat):
            raise InputError(f"X has {at} samples, y has {len(flat)}")
        return np.concatenate(out)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of nodes that are labelled right."""
        guesses = self.predict(X)
        if len(guesses) != len(y):
            raise InputError(f"X has {len(guesses)} samples, y has {len(y)}")
        weights = sample_weights(sample_weight, len(guesses))
        right, total = 0.0, 0.0
        for i, (ours, theirs) in enumerate(zip(guesses, y, strict=True)):
            if ours.shape != np.shape(theirs):
                raise InputError(f"sample {i} has labels {np.shape(theirs)}, not {ours.shape}")
            weight = 1.0 if weights is None else weights[i]
            right += weight * int(np.sum(ours == np.asarray(theirs)))
            total += weight * ours.size
        return right / total if total else 0.0

    def _each(self, fields: Fields, rows: NDArray[Any]) -> list[NDArray[Any]]:
        pieces = np.split(rows, fields.node_begin[1:-1])
        return [self._shaped(fields, i, own) for i, own in enumerate(pieces)]

    # ---- files

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of the fitted model."""
        self._check_fitted()
        meta = {
            "parameters": stored_parameters(self, _NOT_STORED),
            "classes": stored_labels(self.classes_.tolist()),
            "training": training_record(self, _HISTORIES),
        }
        tensors = {"coef": self.coef_, "intercept": self.intercept_, "pairs": self.pair_coef_}
        return meta, tensors if self.allowed_ is None else {**tensors, "allowed": self.allowed_}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the model with these parts."""
        model = cls(**read_parameters(cls, meta))
        model._check_parameters()
        model.classes_ = as_array(tuple(read_classes(meta)))
        labels = len(model.classes_)
        expect(tensors, "coef", np.float64, (labels, None))
        expect(tensors, "intercept", np.float64, (labels,))
        expect(tensors, "pairs", np.float64, (None, labels, labels))
        model.coef_, model.intercept_ = finite(tensors, "coef"), finite(tensors, "intercept")
        model.pair_coef_, model.allowed_ = finite(tensors, "pairs"), None
        if len(model.pair_coef_) == 0:
            raise InputError("pairs is empty: at least the weights of the constant are needed")
        if "allowed" in tensors:
            model.allowed_ = expect(tensors, "allowed", np.bool_, (None, labels))
        read_training(model, meta, _HISTORIES)
        return model


def _seen(types: Integers | None, labels: Integers, count: int) -> NDArray[np.bool_] | None:
    if types is None:
        return None
    allowed = np.zeros((int(types.max()) + 1, count), dtype=np.bool_)
    allowed[types, labels] = True
    return allowed
